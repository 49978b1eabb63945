//! Virtual memory: addresses, physical memory, and what is mapped where.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::driver::device::Device;
use crate::driver::device::attribute::DeviceAttribute;
use crate::driver::device::context::{Context, report_drop};
use crate::driver::error::Error;
use crate::driver::memory::location::{Access, Location};
use api::{CUdeviceptr, MemAccessDesc, MemAllocationProp};

/// `CU_MEM_ALLOCATION_TYPE_PINNED`
const PINNED: u32 = 1;
/// `CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR`
const FILE_DESCRIPTOR: u32 = 1;

/// Which of two granularities (`CUmemAllocationGranularity_flags`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Granularity {
    /// What the device can do with.
    Minimum = 0,
    /// What it does best with.
    Recommended = 1,
}

/// Physical memory of a device, without an address (`cuMemCreate`, from CUDA
/// 10.2). Clones share it; it goes with the last clone and the last mapping
/// (`cuMemRelease`).
#[derive(Clone, Debug)]
pub struct PhysicalMemory {
    inner: Arc<PhysicalHandle>,
}

#[derive(Debug)]
struct PhysicalHandle {
    context: Context,
    handle: u64,
    bytes: usize,
    /// Whether there is a mapping that promises to be the only one.
    is_mapped: AtomicBool,
}

/// Addresses without memory (`cuMemAddressReserve`, from CUDA 10.2), given back
/// when it and all its mappings are dropped (`cuMemAddressFree`).
///
/// ```
/// # #[cfg(feature = "cpu")] {
/// use ptxkit::driver::{Access, AddressRange, Context, DeviceBuffer, Driver, PhysicalMemory};
/// let device = Driver::cpu()?.device(0)?;
/// let context = Context::primary(&device)?;
/// let memory = PhysicalMemory::new(&context, 1)?; // rounded up to whole granules
/// let range = AddressRange::reserve(&context, 2 * memory.bytes(), 0)?;
/// let mapping = range.map(memory.bytes(), &memory)?;
/// mapping.set_access(&device, Access::ReadWrite)?;
/// let mut buffer = DeviceBuffer::<u32>::mapped(mapping);
/// buffer.fill(7)?;
/// assert_eq!(buffer.address(), range.address() + memory.bytes() as u64);
/// # }
/// # Ok::<(), ptxkit::driver::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct AddressRange {
    inner: Arc<ReservedRange>,
}

#[derive(Debug)]
struct ReservedRange {
    context: Context,
    address: CUdeviceptr,
    bytes: usize,
}

/// Physical memory at an address (`cuMemMap`). Dropping it waits for the work
/// of its context and takes the memory away from there (`cuMemUnmap`).
#[derive(Debug)]
pub struct Mapping {
    range: Arc<ReservedRange>,
    memory: PhysicalMemory,
    address: CUdeviceptr,
    /// Whether it may be one of several.
    is_alias: bool,
}

fn properties(device: &Device) -> MemAllocationProp {
    let exports = device
        .attribute(DeviceAttribute::HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED)
        .unwrap_or(false);
    MemAllocationProp {
        alloc_type: PINNED,
        handle_types: if exports { FILE_DESCRIPTOR } else { 0 },
        location: Location::from(device).raw(),
        win32_meta: std::ptr::null_mut(),
        compression: 0,
        gpu_direct_rdma: 0,
        usage: 0,
        reserved: [0; 4],
    }
}

impl PhysicalMemory {
    /// What sizes and addresses are multiples of
    /// (`cuMemGetAllocationGranularity`), in bytes.
    pub fn granularity(device: &Device, which: Granularity) -> Result<usize, Error> {
        let mut bytes = 0;
        // SAFETY: the properties are whole; writes one integer.
        unsafe {
            device.api().cuMemGetAllocationGranularity(
                &mut bytes,
                &properties(device),
                which as u32,
            )
        }?;
        Ok(bytes)
    }

    /// At least so many bytes of the context's device, rounded up to the least
    /// granularity (`cuMemCreate`).
    pub fn new(context: &Context, bytes: usize) -> Result<PhysicalMemory, Error> {
        let device = context.device();
        let granule = PhysicalMemory::granularity(device, Granularity::Minimum)?.max(1);
        // More than all memory: the driver says "out of memory".
        let bytes = bytes
            .max(1)
            .checked_next_multiple_of(granule)
            .unwrap_or(usize::MAX - usize::MAX % granule);
        let mut handle = 0;
        let api = context.bind()?;
        // SAFETY: the properties are whole; writes one handle; the flags must be 0.
        unsafe { api.cuMemCreate(&mut handle, bytes, &properties(device), 0) }?;
        Ok(PhysicalMemory::own(context, handle, bytes, false))
    }

    fn own(context: &Context, handle: u64, bytes: usize, is_mapped: bool) -> PhysicalMemory {
        PhysicalMemory {
            inner: Arc::new(PhysicalHandle {
                context: context.clone(),
                handle,
                bytes,
                is_mapped: AtomicBool::new(is_mapped),
            }),
        }
    }

    /// What is mapped at an address (`cuMemRetainAllocationHandle`, from CUDA
    /// 11.0), of `bytes` bytes. It is mapped, and only [`map_alias`](AddressRange::map_alias) maps
    /// it again.
    ///
    /// # Safety
    /// It must have that many bytes.
    pub unsafe fn at(
        context: &Context,
        address: CUdeviceptr,
        bytes: usize,
    ) -> Result<PhysicalMemory, Error> {
        let mut handle = 0;
        let pointer = std::ptr::without_provenance_mut(address as usize);
        let api = context.bind()?;
        // SAFETY: writes one handle; an address without memory is an error.
        unsafe { api.cuMemRetainAllocationHandle(&mut handle, pointer) }?;
        Ok(PhysicalMemory::own(context, handle, bytes, true))
    }

    /// As a file descriptor, by which another process imports it
    /// (`cuMemExportToShareableHandle`).
    #[cfg(unix)]
    pub fn export(&self) -> Result<std::os::fd::OwnedFd, Error> {
        use std::os::fd::FromRawFd;
        let mut descriptor: std::ffi::c_int = -1;
        let api = self.inner.context.bind()?;
        // SAFETY: the memory is live; this kind of handle is an `int`.
        unsafe {
            api.cuMemExportToShareableHandle(
                (&raw mut descriptor).cast(),
                self.raw(),
                FILE_DESCRIPTOR,
                0,
            )
        }?;
        // SAFETY: a descriptor of our own, which nobody else closes.
        Ok(unsafe { std::os::fd::OwnedFd::from_raw_fd(descriptor) })
    }

    /// Memory of `bytes` bytes that another process exported
    /// (`cuMemImportFromShareableHandle`).
    ///
    /// # Safety
    /// The descriptor must be of exported memory with that many bytes. If this process
    /// maps the memory by another handle, mappings of this one are as those by
    /// [`map_alias`](AddressRange::map_alias).
    #[cfg(unix)]
    pub unsafe fn import(
        context: &Context,
        descriptor: std::os::fd::BorrowedFd<'_>,
        bytes: usize,
    ) -> Result<PhysicalMemory, Error> {
        let mut handle = 0;
        let api = context.bind()?;
        // SAFETY: the caller answers for the descriptor, which the driver does not keep.
        with_number(descriptor, |number| unsafe {
            api.cuMemImportFromShareableHandle(&mut handle, number, FILE_DESCRIPTOR)
        })?;
        Ok(PhysicalMemory::own(context, handle, bytes, false))
    }

    /// The device whose memory it is, as the driver says
    /// (`cuMemGetAllocationPropertiesFromHandle`).
    pub fn location(&self) -> Result<Option<Location>, Error> {
        let mut found = properties(self.inner.context.device());
        let api = self.inner.context.bind()?;
        // SAFETY: the memory is live; writes the properties.
        unsafe { api.cuMemGetAllocationPropertiesFromHandle(&mut found, self.raw()) }?;
        Ok(match found.location.kind {
            1 => Location::from_device_number(found.location.id),
            2 => Some(Location::Host),
            _ => None,
        })
    }

    /// Its size in bytes.
    pub fn bytes(&self) -> usize {
        self.inner.bytes
    }

    /// The raw handle, for calls that the safe layer does not have.
    pub fn raw(&self) -> u64 {
        self.inner.handle
    }
}

/// Hands over a descriptor as the driver takes it: its number in place of a
/// pointer, of which it refuses null. A copy of descriptor 0 has another number.
#[cfg(unix)]
pub(crate) fn with_number<R>(
    descriptor: std::os::fd::BorrowedFd<'_>,
    import: impl FnOnce(*mut std::ffi::c_void) -> R,
) -> R {
    use std::os::fd::AsRawFd;
    let number = descriptor.as_raw_fd();
    let copy = (number == 0).then(|| descriptor.try_clone_to_owned().ok());
    let copy = copy.flatten();
    let number = copy.as_ref().map_or(number, AsRawFd::as_raw_fd);
    import(std::ptr::without_provenance_mut(number as usize))
}

impl Drop for PhysicalHandle {
    fn drop(&mut self) {
        // SAFETY: made once, released once; mappings hold it and are gone.
        report_drop(
            self.context
                .bind()
                .and_then(|api| unsafe { Ok(api.cuMemRelease(self.handle)?) }),
        );
    }
}

impl AddressRange {
    /// At least so many bytes of addresses (`cuMemAddressReserve`, and
    /// `cuMemAddressFree` in the end), rounded up to the least granularity and
    /// aligned to `alignment`, or as the driver likes for 0.
    pub fn reserve(
        context: &Context,
        bytes: usize,
        alignment: usize,
    ) -> Result<AddressRange, Error> {
        let granule = PhysicalMemory::granularity(context.device(), Granularity::Minimum)?.max(1);
        let bytes = bytes
            .max(1)
            .checked_next_multiple_of(granule)
            .unwrap_or(usize::MAX - usize::MAX % granule);
        let mut address = 0;
        let api = context.bind()?;
        // SAFETY: writes one address; no address is wished for, and the flags must be 0.
        unsafe { api.cuMemAddressReserve(&mut address, bytes, alignment, 0, 0) }?;
        Ok(AddressRange {
            inner: Arc::new(ReservedRange {
                context: context.clone(),
                address,
                bytes,
            }),
        })
    }

    /// The first address.
    pub fn address(&self) -> CUdeviceptr {
        self.inner.address
    }

    /// Bytes of addresses.
    pub fn bytes(&self) -> usize {
        self.inner.bytes
    }

    /// Puts all of some physical memory at byte `at` of the range (`cuMemMap`, and
    /// `cuMemUnmap` when the mapping is dropped), where nothing is mapped yet.
    /// Nobody may access it there before [`Mapping::set_access`].
    ///
    /// Memory is mapped once at a time, else this is [`Error::Mapped`]: two buffers would be the
    /// same memory.
    pub fn map(&self, at: usize, memory: &PhysicalMemory) -> Result<Mapping, Error> {
        self.check_place(at, memory)?;
        if memory.inner.is_mapped.swap(true, Ordering::AcqRel) {
            return Err(Error::Mapped);
        }
        let mapping = self.map_as(at, memory, false);
        if mapping.is_err() {
            memory.inner.is_mapped.store(false, Ordering::Release);
        }
        mapping
    }

    /// The same for memory that may be mapped elsewhere too, as for a ring buffer whose end is
    /// followed by its beginning.
    ///
    /// # Safety
    /// A kernel that is declared safe ([`Kernel::typed`](crate::driver::Kernel::typed)) must not
    /// be passed the memory as `&mut` by one mapping and in any way by another in one launch.
    pub unsafe fn map_alias(&self, at: usize, memory: &PhysicalMemory) -> Result<Mapping, Error> {
        self.check_place(at, memory)?;
        self.map_as(at, memory, true)
    }

    fn check_place(&self, at: usize, memory: &PhysicalMemory) -> Result<(), Error> {
        if at
            .checked_add(memory.bytes())
            .is_none_or(|end| end > self.bytes())
        {
            return Err(Error::Length {
                what: "end of a mapping in its addresses",
                given: at.saturating_add(memory.bytes()),
                capacity: self.bytes(),
            });
        }
        let context = &self.inner.context;
        context.check_same_driver(&memory.inner.context, "addresses and memory")
    }

    fn map_as(&self, at: usize, memory: &PhysicalMemory, is_alias: bool) -> Result<Mapping, Error> {
        let context = &self.inner.context;
        let address = self.address() + at as u64;
        let api = context.bind()?;
        // SAFETY: the addresses are reserved, the memory is live; offset and flags must be 0.
        unsafe { api.cuMemMap(address, memory.bytes(), 0, memory.raw(), 0) }?;
        Ok(Mapping {
            range: self.inner.clone(),
            memory: memory.clone(),
            address,
            is_alias,
        })
    }
}

impl Drop for ReservedRange {
    fn drop(&mut self) {
        // SAFETY: reserved once, given back once; mappings hold it and are gone.
        report_drop(
            self.context
                .bind()
                .and_then(|api| unsafe { Ok(api.cuMemAddressFree(self.address, self.bytes)?) }),
        );
    }
}

impl Mapping {
    /// Says how a device may use the memory at these addresses
    /// (`cuMemSetAccess`).
    pub fn set_access(&self, device: &Device, access: Access) -> Result<(), Error> {
        self.context().device().driver().check_device(device)?;
        let described = MemAccessDesc {
            location: Location::from(device).raw(),
            flags: access as u32,
        };
        let api = self.range.context.bind()?;
        // SAFETY: the range is mapped; one description.
        unsafe { Ok(api.cuMemSetAccess(self.address, self.bytes(), &described, 1)?) }
    }

    /// How a device may use it (`cuMemGetAccess`).
    pub fn access(&self, device: &Device) -> Result<Access, Error> {
        self.context().device().driver().check_device(device)?;
        let mut flags = 0;
        let api = self.range.context.bind()?;
        // SAFETY: the range is mapped; writes one number.
        unsafe { api.cuMemGetAccess(&mut flags, &Location::from(device).raw(), self.address) }?;
        Ok(Access::from_bits(flags))
    }

    /// The memory that is there.
    pub fn memory(&self) -> &PhysicalMemory {
        &self.memory
    }

    /// Its first address.
    pub fn address(&self) -> CUdeviceptr {
        self.address
    }

    /// Its size in bytes.
    pub fn bytes(&self) -> usize {
        self.memory.bytes()
    }

    /// The context whose work is waited for before it ends.
    pub fn context(&self) -> &Context {
        &self.range.context
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let idle = self.range.context.synchronize();
        if idle.as_ref().is_err_and(|error| !error.is_sticky()) {
            // Better lost than taken away from under work.
            std::mem::forget((self.range.clone(), self.memory.clone()));
            return report_drop(idle);
        }
        let api = self.range.context.bind();
        // SAFETY: mapped once, unmapped once, and no work of the context uses it.
        let unmapped =
            api.and_then(|api| unsafe { Ok(api.cuMemUnmap(self.address, self.bytes())?) });
        if unmapped.is_ok() && !self.is_alias {
            let is_mapped = &self.memory.inner.is_mapped;
            is_mapped.store(false, Ordering::Release);
        }
        report_drop(unmapped);
    }
}

/// The mappings of an allocation, which end with it.
#[derive(Debug, Default)]
pub(crate) struct Mappings(Mutex<Vec<Mapping>>);

impl Mappings {
    pub fn push(&self, mapping: Mapping) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(mapping);
    }
}
