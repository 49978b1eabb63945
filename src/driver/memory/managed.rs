//! Managed memory, which host and devices reach under one address.

use std::marker::PhantomData;
use std::sync::Arc;

use crate::driver::device::context::Context;
use crate::driver::error::Error;
use crate::driver::memory::allocation::{Allocation, Release};
use crate::driver::memory::length;
use crate::driver::memory::location::Location;
use crate::driver::memory::order::Effect;
use crate::driver::memory::uses::{Use, lock_memory};
use crate::driver::pod::{Pod, bytes_of, bytes_of_mut, zeroed};
use crate::driver::stream::Stream;
use api::CUdeviceptr;

/// An array in managed memory (`cuMemAllocManaged`): pages move to whoever uses
/// them. Freed when dropped (`cuMemFree_v2`).
///
/// The host reaches it by copying: a kernel may write it at any time, so no
/// reference is handed out. Reading and writing wait for the copies and kernels
/// that were started with it, also by the launch of a graph.
///
/// ```
/// # #[cfg(feature = "cpu")] {
/// use ptxkit::driver::{Advice, Attach, Context, Driver, Location, ManagedBuffer, Stream};
/// let device = Driver::cpu()?.device(0)?;
/// let context = Context::primary(&device)?;
/// let stream = Stream::new(&context)?;
/// let numbers = ManagedBuffer::from_slice(&context, &[1_u32, 2, 3], Attach::Global)?;
/// numbers.advise(Advice::ReadMostly, Location::Host)?;
/// numbers.prefetch(Location::from(&device), &stream)?;
/// assert_eq!(numbers.to_vec()?, [1, 2, 3]);
/// # }
/// # Ok::<(), ptxkit::driver::Error>(())
/// ```
#[derive(Debug)]
pub struct ManagedBuffer<T> {
    memory: Arc<Allocation>,
    len: usize,
    values: PhantomData<T>,
}

/// Which streams may use managed memory (`CU_MEM_ATTACH_*`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Attach {
    /// Those of every device.
    #[default]
    Global = 1,
    /// None, until it is attached to one.
    Host = 2,
    /// The one that it is attached to.
    Single = 4,
}

/// How managed memory will be used (`CU_MEM_ADVISE_*`): a hint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Advice {
    /// Mostly read: every reader may have a copy. The location means nothing.
    ReadMostly = 1,
    /// No longer.
    UnsetReadMostly = 2,
    /// It belongs to the location.
    PreferredLocation = 3,
    /// It belongs nowhere. The location means nothing.
    UnsetPreferredLocation = 4,
    /// The location will reach it wherever it is.
    AccessedBy = 5,
    /// No longer.
    UnsetAccessedBy = 6,
}

/// `CU_MEM_RANGE_ATTRIBUTE_*`
const READ_MOSTLY: u32 = 1;
const PREFERRED_LOCATION: u32 = 2;
const ACCESSED_BY: u32 = 3;
const LAST_PREFETCH_LOCATION: u32 = 4;
/// The same as kind and number, which follows the kind.
const PREFERRED_LOCATION_TYPE: u32 = 5;
const LAST_PREFETCH_LOCATION_TYPE: u32 = 7;

/// `CU_DEVICE_INVALID`
const NOWHERE: i32 = -2;

impl<T: Pod> ManagedBuffer<T> {
    /// `len` values of zero bits (`cuMemAllocManaged`), attached globally or to
    /// the host.
    pub fn zeroed(
        context: &Context,
        len: usize,
        attach: Attach,
    ) -> Result<ManagedBuffer<T>, Error> {
        let api = context.bind()?;
        let bytes = len.saturating_mul(size_of::<T>());
        let mut address = 0;
        let mut release = Release::Nothing;
        if bytes > 0 {
            // SAFETY: writes one address.
            unsafe { api.cuMemAllocManaged(&mut address, bytes, attach as u32) }?;
            release = Release::Free;
        }
        let buffer = ManagedBuffer {
            memory: Allocation::new(context, address, bytes, true, release, true),
            len,
            values: PhantomData,
        };
        if bytes > 0 && attach == Attach::Host {
            let pointer: *mut u8 = std::ptr::with_exposed_provenance_mut(address as usize);
            // SAFETY: all of the memory, which nobody else has, and the host reaches.
            unsafe { pointer.write_bytes(0, bytes) };
        } else if bytes > 0 {
            // SAFETY: all of the memory, which nobody else has.
            unsafe { api.cuMemsetD8_v2(address, 0, bytes) }?;
        }
        Ok(buffer)
    }

    /// A copy of `values`.
    pub fn from_slice(
        context: &Context,
        values: &[T],
        attach: Attach,
    ) -> Result<ManagedBuffer<T>, Error> {
        let mut buffer = ManagedBuffer::zeroed(context, values.len(), attach)?;
        buffer.write(values)?;
        Ok(buffer)
    }

    /// How many values it has.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no values.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Its size in bytes.
    pub fn bytes(&self) -> usize {
        self.memory.bytes()
    }

    /// Its address, for host and devices. Work that is given the bare number is
    /// not waited for.
    pub fn address(&self) -> CUdeviceptr {
        *self.memory.address()
    }

    /// The context it was made in; all contexts reach it.
    pub fn context(&self) -> &Context {
        self.memory.context()
    }

    /// Writes all of it (`cuMemcpyHtoD_v2`), after the work that uses it.
    pub fn write(&mut self, values: &[T]) -> Result<(), Error> {
        length::check_equal("write to managed memory", values.len(), self.len)?;
        self.write_at(0, values)
    }

    /// Writes `values` from value `at` on, likewise.
    pub fn write_at(&mut self, at: usize, values: &[T]) -> Result<(), Error> {
        let address = self.place("write to managed memory", at, values.len())?;
        let bytes = bytes_of(values);
        if bytes.is_empty() {
            return Ok(());
        }
        let api = self.context().bind()?;
        let _idle = self.memory.wait_idle()?;
        // SAFETY: the range is within the memory and as long as the slice.
        unsafe { Ok(api.cuMemcpyHtoD_v2(address, bytes.as_ptr().cast(), bytes.len())?) }
    }

    /// Reads all of it (`cuMemcpyDtoH_v2`), after the work that uses it.
    pub fn read(&self, values: &mut [T]) -> Result<(), Error> {
        length::check_equal("read of managed memory", values.len(), self.len)?;
        self.read_at(0, values)
    }

    /// Reads from value `at` on, likewise.
    pub fn read_at(&self, at: usize, values: &mut [T]) -> Result<(), Error> {
        let address = self.place("read of managed memory", at, values.len())?;
        let destination = bytes_of_mut(values);
        if destination.is_empty() {
            return Ok(());
        }
        let api = self.context().bind()?;
        let _idle = self.memory.wait_idle()?;
        // SAFETY: the range is within the memory and as long as the slice; any bits are values.
        unsafe {
            Ok(api.cuMemcpyDtoH_v2(destination.as_mut_ptr().cast(), address, destination.len())?)
        }
    }

    /// All of it as a vector, after the work that uses it.
    pub fn to_vec(&self) -> Result<Vec<T>, Error> {
        let mut values = zeroed(self.len);
        self.read(&mut values)?;
        Ok(values)
    }

    /// The values where they are, for code that must not copy.
    ///
    /// # Safety
    /// While the slice lives, no work of any device may write the memory, and
    /// on a device that lacks `CONCURRENT_MANAGED_ACCESS` none may run at all.
    /// The address must suit `T`.
    pub unsafe fn as_slice(&self) -> Result<&[T], Error> {
        drop(self.memory.wait_idle()?);
        if self.is_empty() {
            return Ok(&[]);
        }
        let pointer = std::ptr::with_exposed_provenance(self.address() as usize);
        // SAFETY: the host reaches managed memory; for the rest the caller answers.
        Ok(unsafe { std::slice::from_raw_parts(pointer, self.len) })
    }

    /// The same to write.
    ///
    /// # Safety
    /// As [`as_slice`](ManagedBuffer::as_slice), and no work may read it.
    pub unsafe fn as_mut_slice(&mut self) -> Result<&mut [T], Error> {
        drop(self.memory.wait_idle()?);
        if self.is_empty() {
            return Ok(&mut []);
        }
        let pointer = std::ptr::with_exposed_provenance_mut(self.address() as usize);
        // SAFETY: as above.
        Ok(unsafe { std::slice::from_raw_parts_mut(pointer, self.len) })
    }

    /// As what work uses.
    pub(crate) fn used(&self, effect: Effect) -> Use<'_> {
        Use::whole(&self.memory, effect)
    }

    /// Waits for the work that uses it.
    pub fn wait(&self) -> Result<(), Error> {
        self.memory.wait_idle().map(drop)
    }

    /// Says in the order of a stream which streams may use it from then on
    /// (`cuStreamAttachMemAsync`): `Single` is this one.
    pub fn attach(&self, attach: Attach, stream: &Stream) -> Result<(), Error> {
        if self.bytes() == 0 {
            return Ok(());
        }
        self.check_same_driver(stream)?;
        let api = stream.context().bind()?;
        let _guard = lock_memory(Some(stream), [&self.memory])?;
        // SAFETY: stream and memory are live; 0 bytes mean all of it.
        unsafe { Ok(api.cuStreamAttachMemAsync(stream.raw(), self.address(), 0, attach as u32)?) }
    }

    fn check_same_driver(&self, stream: &Stream) -> Result<(), Error> {
        let context = stream.context();
        context.check_same_driver(self.context(), "managed memory and stream")
    }

    /// Tells the driver how it will be used (`cuMemAdvise_v2`, or `cuMemAdvise`
    /// before CUDA 12.2, which knows devices and the host alone).
    pub fn advise(&self, advice: Advice, location: Location) -> Result<(), Error> {
        if self.bytes() == 0 {
            return Ok(());
        }
        let api = self.context().bind()?;
        let (address, bytes, advice) = (self.address(), self.bytes(), advice as u32);
        // SAFETY: the range is the memory.
        unsafe {
            match location.device_number() {
                Some(device) if api.cuMemAdvise_v2.is_none() => {
                    Ok(api.cuMemAdvise(address, bytes, advice, device)?)
                }
                _ => Ok(api.cuMemAdvise_v2(address, bytes, advice, location.raw())?),
            }
        }
    }

    /// Moves it to a location in stream order (`cuMemPrefetchAsync_v2`, or
    /// `cuMemPrefetchAsync` before CUDA 12.2, which knows devices and the host
    /// alone).
    pub fn prefetch(&self, location: Location, stream: &Stream) -> Result<(), Error> {
        if self.bytes() == 0 {
            return Ok(());
        }
        self.check_same_driver(stream)?;
        let api = stream.context().bind()?;
        let guard = lock_memory(Some(stream), [&self.memory])?;
        let (address, bytes, queue) = (self.address(), self.bytes(), stream.raw());
        // SAFETY: the range is the memory, which stays until the stream is done.
        unsafe {
            match location.device_number() {
                Some(device) if api.cuMemPrefetchAsync_v2.is_none() => {
                    api.cuMemPrefetchAsync(address, bytes, device, queue)
                }
                _ => api.cuMemPrefetchAsync_v2(address, bytes, location.raw(), 0, queue),
            }
        }?;
        drop(guard);
        if stream.context().check_mode() {
            return stream.wait_for_check(|| format!("prefetch, {bytes} bytes"));
        }
        Ok(())
    }

    /// Whether all of it is advised to be mostly read
    /// (`cuMemRangeGetAttribute`).
    pub fn is_read_mostly(&self) -> Result<bool, Error> {
        Ok(self.range_attribute(READ_MOSTLY, &mut [0])? == [1])
    }

    /// The location that all of it belongs to by advice; `None` too where its pages
    /// differ. Drivers before CUDA 12.2 tell devices and the host alone, and so may
    /// later ones of a node of the host.
    pub fn preferred_location(&self) -> Result<Option<Location>, Error> {
        self.location(PREFERRED_LOCATION, PREFERRED_LOCATION_TYPE)
    }

    /// The locations that reach all of it by advice.
    pub fn accessed_by(&self) -> Result<Vec<Location>, Error> {
        let count = self.context().device().driver().device_count()? as usize;
        let mut numbers = vec![NOWHERE; count + 1];
        let numbers = self.range_attribute(ACCESSED_BY, &mut numbers)?;
        let locations = numbers.iter().copied();
        Ok(locations.filter_map(Location::from_device_number).collect())
    }

    /// Where all of it was moved to last by [`prefetch`](ManagedBuffer::prefetch).
    pub fn last_prefetch(&self) -> Result<Option<Location>, Error> {
        self.location(LAST_PREFETCH_LOCATION, LAST_PREFETCH_LOCATION_TYPE)
    }

    fn location(&self, old: u32, kind: u32) -> Result<Option<Location>, Error> {
        let get = |attribute| Ok::<_, Error>(self.range_attribute(attribute, &mut [NOWHERE])?[0]);
        // The attributes came with this entry.
        if self.context().api().cuMemAdvise_v2.is_none() {
            return Ok(Location::from_device_number(get(old)?));
        }
        Ok(match get(kind)? {
            1 => u32::try_from(get(kind + 1)?).ok().map(Location::Device),
            2 => Some(Location::Host),
            3 => u32::try_from(get(kind + 1)?).ok().map(Location::HostNuma),
            _ => None,
        })
    }

    fn range_attribute<'n>(
        &self,
        attribute: u32,
        numbers: &'n mut [i32],
    ) -> Result<&'n [i32], Error> {
        if self.bytes() > 0 {
            let api = self.context().bind()?;
            let (data, size) = (numbers.as_mut_ptr().cast(), size_of_val(numbers));
            // SAFETY: writes as many bytes as there are numbers; the range is the memory.
            unsafe {
                api.cuMemRangeGetAttribute(data, size, attribute, self.address(), self.bytes())
            }?;
        }
        Ok(numbers)
    }

    pub(crate) fn allocation(&self) -> &Arc<Allocation> {
        &self.memory
    }

    /// The address of value `at`, if `len` values from there are within it.
    fn place(&self, what: &'static str, at: usize, len: usize) -> Result<CUdeviceptr, Error> {
        length::check_range(what, at, len, self.len)?;
        Ok(self.address() + (at * size_of::<T>()) as u64)
    }
}
