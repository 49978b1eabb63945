//! Pinned host memory, which a device copies from and to by itself.

use std::ffi::c_uint;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use crate::driver::device::context::Context;
use crate::driver::error::Error;
use crate::driver::memory::allocation::{Allocation, HostPointer, Release, VecParts};
use crate::driver::memory::length;
use crate::driver::memory::order::Effect;
use crate::driver::memory::uses::Use;
use crate::driver::pod::{Pod, bytes_of, bytes_of_mut, zeroed};
use crate::driver::stream::retained::RetainedRef;
use api::CUdeviceptr;

/// An array in pinned host memory (`cuMemHostAlloc`), for copies that run
/// beside the program, and for kernels that reach it over the bus.
///
/// Reading, writing and freeing wait for the copies and kernels that were started
/// with it, also by the launch of a graph. As long as there is a slice of it
/// ([`as_slice`](PinnedBuffer::as_slice)), no work is started with it.
///
/// ```
/// # #[cfg(feature = "cpu")] {
/// use ptxkit::driver::{Context, DeviceBuffer, Driver, PinnedBuffer, Stream};
/// let context = Context::primary(&Driver::cpu()?.device(0)?)?;
/// let stream = Stream::new(&context)?;
/// let numbers = DeviceBuffer::from_slice(&context, &[3_u32, 1, 2])?;
/// let mut pinned = PinnedBuffer::zeroed(&context, 3)?;
/// numbers.read_async(&mut pinned, &stream)?;
/// pinned.as_mut_slice()?.sort(); // after the copy
/// assert_eq!(*pinned.as_slice()?, [1, 2, 3]);
/// # }
/// # Ok::<(), ptxkit::driver::Error>(())
/// ```
#[derive(Debug)]
pub struct PinnedBuffer<T> {
    memory: Arc<Allocation>,
    /// Null where there are no bytes.
    pointer: HostPointer,
    len: usize,
    values: PhantomData<T>,
}

/// The values of a [`PinnedBuffer`], where they are. Work that would use the buffer meanwhile is
/// refused ([`Error::HostSlice`]): the launch of a graph that retains it.
#[derive(Debug)]
pub struct PinnedSlice<'a, T: Pod>(&'a PinnedBuffer<T>);

/// The same to write.
#[derive(Debug)]
pub struct PinnedSliceMut<'a, T: Pod>(PinnedSlice<'a, T>);

impl<'a, T: Pod> PinnedSlice<'a, T> {
    fn new(buffer: &'a PinnedBuffer<T>) -> Result<PinnedSlice<'a, T>, Error> {
        let pointer = buffer.pointer();
        if !pointer.is_aligned() {
            return Err(Error::Cast {
                address: pointer.addr() as u64,
                bytes: buffer.bytes(),
                size: size_of::<T>(),
                align: align_of::<T>(),
            });
        }
        buffer.memory.begin_host_slice()?;
        Ok(PinnedSlice(buffer))
    }

    /// Where the values are; for no values, an address that suits them.
    fn pointer(&self) -> *mut T {
        if self.0.is_empty() || size_of::<T>() == 0 {
            std::ptr::dangling_mut()
        } else {
            self.0.pointer()
        }
    }
}

impl<T: Pod> Drop for PinnedSlice<'_, T> {
    fn drop(&mut self) {
        self.0.memory.end_host_slice();
    }
}

impl<T: Pod> Deref for PinnedSlice<'_, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: so many values, initialised when they were allocated and aligned (`new`); any
        // bits are values. No work uses
        // them, as all was waited for and more is refused, and the program writes them by `&mut`
        // alone.
        unsafe { std::slice::from_raw_parts(self.pointer(), self.0.len) }
    }
}

impl<T: Pod> Deref for PinnedSliceMut<'_, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T: Pod> DerefMut for PinnedSliceMut<'_, T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above; the buffer is borrowed exclusively, so there is no other slice.
        unsafe { std::slice::from_raw_parts_mut(self.0.pointer(), self.0.0.len) }
    }
}

/// How pinned memory is allocated (`CU_MEMHOSTALLOC_*`).
///
/// ```
/// use ptxkit::driver::HostFlags;
/// assert_eq!(HostFlags::default(), HostFlags(0).portable().mapped());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HostFlags(pub u32);

impl HostFlags {
    /// Pinned for all contexts of the process, not for one alone.
    pub const fn portable(self) -> HostFlags {
        HostFlags(self.0 | 1)
    }

    /// With an address for kernels; every 64-bit driver gives it one anyway.
    pub const fn mapped(self) -> HostFlags {
        HostFlags(self.0 | 2)
    }

    /// Past the caches: quicker for a device to read, slow for the host to read.
    pub const fn write_combined(self) -> HostFlags {
        HostFlags(self.0 | 4)
    }
}

/// Portable and mapped.
impl Default for HostFlags {
    fn default() -> HostFlags {
        HostFlags(0).portable().mapped()
    }
}

/// How memory of the program's own is pinned (`CU_MEMHOSTREGISTER_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RegisterFlags(pub u32);

impl RegisterFlags {
    /// Pinned for all contexts of the process, not for one alone.
    pub const fn portable(self) -> RegisterFlags {
        RegisterFlags(self.0 | 1)
    }

    /// With an address for kernels.
    pub const fn mapped(self) -> RegisterFlags {
        RegisterFlags(self.0 | 2)
    }

    /// For the device to read alone; not every device knows it
    /// (`READ_ONLY_HOST_REGISTER_SUPPORTED`).
    pub const fn read_only(self) -> RegisterFlags {
        RegisterFlags(self.0 | 8)
    }
}

/// Portable and mapped.
impl Default for RegisterFlags {
    fn default() -> RegisterFlags {
        RegisterFlags(0).portable().mapped()
    }
}

const PORTABLE: u32 = 1;

impl<T: Pod> PinnedBuffer<T> {
    /// `len` values of zero bits.
    pub fn zeroed(context: &Context, len: usize) -> Result<PinnedBuffer<T>, Error> {
        PinnedBuffer::with_flags(context, len, HostFlags::default())
    }

    /// The same, allocated in another way than portable and mapped
    /// (`cuMemHostAlloc`, and `cuMemFreeHost` when it is dropped).
    pub fn with_flags(
        context: &Context,
        len: usize,
        flags: HostFlags,
    ) -> Result<PinnedBuffer<T>, Error> {
        let bytes = len.saturating_mul(size_of::<T>());
        let mut raw = std::ptr::null_mut();
        let mut release = Release::Nothing;
        if bytes > 0 {
            // SAFETY: writes one pointer.
            unsafe { context.bind()?.cuMemHostAlloc(&mut raw, bytes, flags.0) }?;
            // SAFETY: the driver gave that many bytes.
            unsafe { raw.cast::<u8>().write_bytes(0, bytes) };
            release = Release::Host(HostPointer(raw.cast()));
        }
        let pointer = HostPointer(raw.cast());
        PinnedBuffer::of(context, pointer, len, flags.0, release)
    }

    /// A copy of `values`.
    pub fn from_slice(context: &Context, values: &[T]) -> Result<PinnedBuffer<T>, Error> {
        let mut buffer = PinnedBuffer::zeroed(context, values.len())?;
        buffer.write(values)?;
        Ok(buffer)
    }

    /// Pins a vector where it is (`cuMemHostRegister_v2`), for values that are
    /// there already; [`into_vec`](PinnedBuffer::into_vec) gives it back.
    pub fn from_vec(
        context: &Context,
        values: Vec<T>,
        flags: RegisterFlags,
    ) -> Result<PinnedBuffer<T>, Error> {
        unsafe fn free<T>(pointer: *mut u8, len: usize, capacity: usize) {
            // SAFETY: the pieces of a vector of this type, by the caller's word.
            drop(unsafe { Vec::from_raw_parts(pointer.cast::<T>(), len, capacity) });
        }

        let mut values = ManuallyDrop::new(values);
        let pointer = HostPointer(values.as_mut_ptr().cast());
        let (len, bytes) = (values.len(), size_of_val(values.as_slice()));
        let owned = VecParts {
            pointer,
            len,
            capacity: values.capacity(),
            free: free::<T>,
        };
        if bytes == 0 {
            return PinnedBuffer::zeroed(context, len);
        }
        register(context, pointer, bytes, flags)?;
        let release = Release::Registered(pointer, Some(owned));
        PinnedBuffer::of(context, pointer, len, flags.0, release)
    }

    /// The vector again, once nothing uses it (`cuMemHostUnregister`). Memory that
    /// was no vector, or that a graph still keeps, is copied into one.
    pub fn into_vec(self) -> Result<Vec<T>, Error> {
        self.wait()?;
        let len = self.len;
        let memory = match Arc::try_unwrap(self.memory) {
            Ok(memory) => memory,
            Err(memory) => return PinnedBuffer { memory, ..self }.to_vec(),
        };
        if !memory.is_vector() {
            let memory = Arc::new(memory);
            return PinnedBuffer { memory, ..self }.to_vec();
        }
        let Some(values) = memory.into_vec_parts() else {
            return Err(Error::Ended);
        };
        let values = ManuallyDrop::new(values);
        // SAFETY: the pieces of the vector that `from_vec` took apart, which nobody uses now.
        Ok(unsafe { Vec::from_raw_parts(values.pointer.0.cast(), len, values.capacity) })
    }

    /// Pins memory that is borrowed while `use_it` runs (`cuMemHostRegister_v2`,
    /// `cuMemHostUnregister`). What was started with it is waited for at the
    /// end, and no graph can keep it. A buffer that is carried outside is empty
    /// of use: every call tells [`Error::Ended`].
    ///
    /// ```
    /// # #[cfg(feature = "cpu")] {
    /// use ptxkit::driver::{Context, DeviceBuffer, Driver, PinnedBuffer, RegisterFlags, Stream};
    /// let context = Context::primary(&Driver::cpu()?.device(0)?)?;
    /// let stream = Stream::new(&context)?;
    /// let mut buffer = DeviceBuffer::<u32>::new(&context, 4)?;
    /// let mut numbers = [1, 2, 3, 4];
    /// PinnedBuffer::borrowed(&context, &mut numbers, RegisterFlags::default(), |numbers| {
    ///     buffer.write_async(numbers, &stream)
    /// })??;
    /// assert_eq!(buffer.to_vec()?, numbers);
    /// # }
    /// # Ok::<(), ptxkit::driver::Error>(())
    /// ```
    pub fn borrowed<R>(
        context: &Context,
        values: &mut [T],
        flags: RegisterFlags,
        use_it: impl FnOnce(&mut PinnedBuffer<T>) -> R,
    ) -> Result<R, Error> {
        /// Also when the function panics.
        struct UnregisterOnDrop(Arc<Allocation>);
        impl Drop for UnregisterOnDrop {
            fn drop(&mut self) {
                self.0.end_borrow();
            }
        }

        let bytes = size_of_val(values);
        if bytes == 0 {
            return Ok(use_it(&mut PinnedBuffer::zeroed(context, values.len())?));
        }
        let pointer = HostPointer(values.as_mut_ptr().cast());
        register(context, pointer, bytes, flags)?;
        let release = Release::Registered(pointer, None);
        let mut buffer = PinnedBuffer::of(context, pointer, values.len(), flags.0, release)?;
        let _unregister = UnregisterOnDrop(buffer.memory.clone());
        Ok(use_it(&mut buffer))
    }

    fn of(
        context: &Context,
        pointer: HostPointer,
        len: usize,
        flags: u32,
        release: Release,
    ) -> Result<PinnedBuffer<T>, Error> {
        let portable = flags & PORTABLE != 0;
        let bytes = len.saturating_mul(size_of::<T>());
        // Owned before anything can fail, so that it is given back then.
        let unmapped = Allocation::new(context, 0, bytes, portable, release, true);
        let mut memory = unmapped;
        if !pointer.0.is_null() {
            let mut address = 0;
            // SAFETY: the memory is pinned; writes one address.
            unsafe {
                context
                    .bind()?
                    .cuMemHostGetDevicePointer_v2(&mut address, pointer.0.cast(), 0)
            }?;
            if let Some(memory) = Arc::get_mut(&mut memory) {
                memory.set_address(address);
            }
        }
        Ok(PinnedBuffer {
            memory,
            pointer,
            len,
            values: PhantomData,
        })
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

    /// The context it lives in.
    pub fn context(&self) -> &Context {
        self.memory.context()
    }

    /// What the driver says that it was allocated or pinned with
    /// (`cuMemHostGetFlags`): the bits of [`HostFlags`] that hold for it.
    pub fn flags(&self) -> Result<HostFlags, Error> {
        let mut flags: c_uint = 0;
        if self.bytes() > 0 {
            let api = self.context().bind()?;
            let _idle = self.memory.wait_idle()?;
            // SAFETY: the memory is pinned; writes one integer.
            unsafe { api.cuMemHostGetFlags(&mut flags, self.pointer.0.cast()) }?;
        }
        Ok(HostFlags(flags))
    }

    /// Writes all of it, after the work that uses it.
    pub fn write(&mut self, values: &[T]) -> Result<(), Error> {
        length::check_equal("write to pinned memory", values.len(), self.len)?;
        let _idle = self.memory.wait_idle()?;
        let bytes = bytes_of(values);
        // SAFETY: as many bytes as there is room for; no work uses them, and none is started
        // while the lock is held. By bytes: the driver knows nothing of `T`'s alignment.
        unsafe { self.pointer.0.copy_from(bytes.as_ptr(), bytes.len()) };
        Ok(())
    }

    /// Reads all of it, after the work that uses it.
    pub fn read(&self, values: &mut [T]) -> Result<(), Error> {
        length::check_equal("read of pinned memory", values.len(), self.len)?;
        let _idle = self.memory.wait_idle()?;
        let destination = bytes_of_mut(values);
        // SAFETY: as many bytes as there are; no work uses them, and none is started while the
        // lock is held.
        unsafe {
            destination
                .as_mut_ptr()
                .copy_from(self.pointer.0, destination.len())
        };
        Ok(())
    }

    /// All of it as a vector, after the work that uses it.
    pub fn to_vec(&self) -> Result<Vec<T>, Error> {
        let mut values = zeroed(self.len);
        self.read(&mut values)?;
        Ok(values)
    }

    /// Its values, after the work that uses it ([`Error::HostSlice`] for memory that is
    /// [borrowed](PinnedBuffer::borrowed)).
    pub fn as_slice(&self) -> Result<PinnedSlice<'_, T>, Error> {
        PinnedSlice::new(self)
    }

    /// The same to write.
    pub fn as_mut_slice(&mut self) -> Result<PinnedSliceMut<'_, T>, Error> {
        PinnedSlice::new(self).map(PinnedSliceMut)
    }

    /// Waits for the work that uses it.
    pub fn wait(&self) -> Result<(), Error> {
        self.memory.wait_idle().map(drop)
    }

    /// The host address, for calls that the safe layer does not have.
    pub fn pointer(&self) -> *mut T {
        self.pointer.0.cast()
    }

    /// The address under which a kernel reaches it (`cuMemHostGetDevicePointer_v2`).
    /// Work that is given the bare number is not waited for, and a launch that is
    /// given it answers for that: give the kernel [`arg`](PinnedBuffer::arg).
    pub fn device_address(&self) -> CUdeviceptr {
        *self.memory.address()
    }

    pub(crate) fn allocation(&self) -> &Arc<Allocation> {
        &self.memory
    }

    /// As what work uses.
    pub(crate) fn used(&self, effect: Effect) -> Use<'_> {
        Use::whole(&self.memory, effect)
    }

    /// For a graph that uses it.
    pub(crate) fn retained(&self) -> Result<RetainedRef, Error> {
        self.memory.refuse_borrowed()?;
        Ok(self.memory.clone())
    }
}

fn register(
    context: &Context,
    HostPointer(pointer): HostPointer,
    bytes: usize,
    flags: RegisterFlags,
) -> Result<(), Error> {
    let api = context.bind()?;
    // SAFETY: the bytes stay until they are unregistered.
    unsafe { Ok(api.cuMemHostRegister_v2(pointer.cast(), bytes, flags.0)?) }
}
