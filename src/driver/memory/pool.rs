//! Memory pools, from which stream-ordered allocations come.

use std::ffi::c_void;
use std::sync::{Arc, Mutex, PoisonError};

use crate::driver::device::Device;
use crate::driver::device::context::report_drop;
use crate::driver::error::Error;
use crate::driver::memory::location::{Access, Location};
#[cfg(unix)]
use crate::driver::memory::virtual_memory::with_number;
use api::{CUmemoryPool, MemAccessDesc, MemPoolProps};

/// A pool of device memory (from CUDA 11.2), which keeps what is freed for the
/// next allocations. Clones share it; the last one destroys it, and memory that
/// came from it stays good.
///
/// On H200s, NVIDIA's driver 580.159 occasionally hung when many threads waited for streams
/// of one context while pools were in use: it took its own locks in two orders.
///
/// ```
/// # #[cfg(feature = "cpu")] {
/// use ptxkit::driver::{Context, Driver, MemoryPool, Stream};
/// let device = Driver::cpu()?.device(0)?;
/// let stream = Stream::new(&Context::primary(&device)?)?;
/// let pool = MemoryPool::new(&device)?;
/// pool.set_release_threshold(1 << 20)?;
/// let scratch = pool.buffer::<f32>(&stream, 1000)?;
/// assert!(pool.used()?.now >= 4000);
/// drop(scratch);
/// stream.synchronize()?;
/// assert_eq!(pool.used()?.now, 0);
/// # }
/// # Ok::<(), ptxkit::driver::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct MemoryPool {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    device: Device,
    handle: CUmemoryPool,
    /// The default pool of a device belongs to the driver.
    owned: bool,
}

// SAFETY: a pool handle is a process-wide name; the driver API locks by itself.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

/// The current pools, which must live until another is made current.
static CURRENT: Mutex<Vec<MemoryPool>> = Mutex::new(Vec::new());

/// Usage of a pool in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PoolBytes {
    /// The current value.
    pub now: u64,
    /// The high-water mark since the last reset.
    pub high: u64,
}

/// When a pool may reuse freed memory before the work that used it is known to be complete
/// (`CU_MEMPOOL_ATTR_REUSE_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum PoolReuse {
    /// If events order the free before the allocation.
    FollowEventDependencies = 1,
    /// If the work before the free happens to be complete.
    AllowOpportunistic = 2,
    /// If the driver inserts a dependency.
    AllowInternalDependencies = 3,
}

/// `CU_MEMPOOL_ATTR_*`
const RELEASE_THRESHOLD: u32 = 4;
const RESERVED_CURRENT: u32 = 5;
const RESERVED_HIGH: u32 = 6;
const USED_CURRENT: u32 = 7;
const USED_HIGH: u32 = 8;

/// `CU_MEM_ALLOCATION_TYPE_PINNED`
const PINNED: u32 = 1;
/// `CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR`
#[cfg(unix)]
const FILE_DESCRIPTOR: u32 = 1;

impl MemoryPool {
    /// A pool of a device's memory (`cuMemPoolCreate`).
    pub fn new(device: &Device) -> Result<MemoryPool, Error> {
        MemoryPool::with_limit(device, 0)
    }

    /// A pool that takes at most so many bytes, which the driver may round up
    /// (from CUDA 12.2); 0 for as many as there are.
    pub fn with_limit(device: &Device, max_bytes: usize) -> Result<MemoryPool, Error> {
        MemoryPool::create(device, max_bytes, 0)
    }

    /// A pool that other processes can [`import`](MemoryPool::import)
    /// (`CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR`).
    #[cfg(unix)]
    pub fn shareable(device: &Device) -> Result<MemoryPool, Error> {
        MemoryPool::create(device, 0, FILE_DESCRIPTOR)
    }

    /// As a file descriptor, by which another process imports it
    /// (`cuMemPoolExportToShareableHandle`).
    #[cfg(unix)]
    pub fn export(&self) -> Result<std::os::fd::OwnedFd, Error> {
        use std::os::fd::FromRawFd;
        let mut descriptor: std::ffi::c_int = -1;
        let (api, place) = (self.device().api(), (&raw mut descriptor).cast());
        // SAFETY: the pool is live; this kind of handle is an `int`.
        unsafe { api.cuMemPoolExportToShareableHandle(place, self.raw(), FILE_DESCRIPTOR, 0) }?;
        // SAFETY: a descriptor of our own, which nobody else closes.
        Ok(unsafe { std::os::fd::OwnedFd::from_raw_fd(descriptor) })
    }

    /// The pool of another process, of the same device
    /// (`cuMemPoolImportFromShareableHandle`), in which
    /// [`IpcBuffer::open_in`](crate::driver::IpcBuffer::open_in) finds what that process
    /// allocated. Nothing new can be allocated from it.
    #[cfg(unix)]
    pub fn import(
        device: &Device,
        descriptor: std::os::fd::BorrowedFd<'_>,
    ) -> Result<MemoryPool, Error> {
        let mut handle = std::ptr::null_mut();
        let api = device.api();
        // SAFETY: a live descriptor, which the driver checks and does not keep; writes one handle.
        with_number(descriptor, |number| unsafe {
            api.cuMemPoolImportFromShareableHandle(&mut handle, number, FILE_DESCRIPTOR, 0)
        })?;
        Ok(MemoryPool::with(device, handle, true))
    }

    fn create(device: &Device, max_bytes: usize, handle_types: u32) -> Result<MemoryPool, Error> {
        let props = MemPoolProps {
            alloc_type: PINNED,
            handle_types,
            location: Location::from(device).raw(),
            win32_security: std::ptr::null_mut(),
            max_size: max_bytes,
            usage: 0,
            reserved: [0; 54],
        };
        let mut handle = std::ptr::null_mut();
        // SAFETY: the properties are whole; writes one handle.
        unsafe { device.api().cuMemPoolCreate(&mut handle, &props) }?;
        Ok(MemoryPool::with(device, handle, true))
    }

    /// The pool that a device begins with (`cuDeviceGetDefaultMemPool`).
    pub fn default_of(device: &Device) -> Result<MemoryPool, Error> {
        let mut handle = std::ptr::null_mut();
        // SAFETY: writes one handle.
        unsafe {
            device
                .api()
                .cuDeviceGetDefaultMemPool(&mut handle, device.raw())
        }?;
        Ok(MemoryPool::with(device, handle, false))
    }

    /// The device's current pool, from which
    /// [`DeviceBuffer::new_async`](crate::driver::DeviceBuffer::new_async) allocates
    /// (`cuDeviceGetMemPool`); `None` if another library made its own pool current.
    pub fn current_of(device: &Device) -> Result<Option<MemoryPool>, Error> {
        let mut handle = std::ptr::null_mut();
        // SAFETY: writes one handle.
        unsafe { device.api().cuDeviceGetMemPool(&mut handle, device.raw()) }?;
        let default = MemoryPool::default_of(device)?;
        if default.inner.handle == handle {
            return Ok(Some(default));
        }
        let current = CURRENT.lock().unwrap_or_else(PoisonError::into_inner);
        let ours = current.iter().find(|pool| pool.inner.handle == handle);
        Ok(ours.cloned())
    }

    /// The pool that the driver has for memory at a location (`cuMemGetDefaultMemPool`, from CUDA
    /// 13.0): of a device, or of the host, whose memory devices reach after
    /// [`set_access`](MemoryPool::set_access). `device` is one of the driver's.
    pub fn default_at(device: &Device, location: Location) -> Result<MemoryPool, Error> {
        let (mut handle, mut place) = (std::ptr::null_mut(), location.raw());
        let api = device.api();
        // SAFETY: a whole location; writes one handle.
        unsafe { api.cuMemGetDefaultMemPool(&mut handle, &mut place, PINNED) }?;
        Ok(MemoryPool::with(device, handle, false))
    }

    /// Whether it is the pool that is in use for memory at a location (`cuMemGetMemPool`, from
    /// CUDA 13.0).
    pub fn is_current_at(&self, location: Location) -> Result<bool, Error> {
        let (mut handle, mut place) = (std::ptr::null_mut(), location.raw());
        let api = self.device().api();
        // SAFETY: a whole location; writes one handle.
        unsafe { api.cuMemGetMemPool(&mut handle, &mut place, PINNED) }?;
        Ok(handle == self.raw())
    }

    /// Makes it the device's current pool, from which
    /// [`DeviceBuffer::new_async`](crate::driver::DeviceBuffer::new_async) allocates
    /// (`cuDeviceSetMemPool`). It lives at least until another pool is made current.
    pub fn make_current(&self) -> Result<(), Error> {
        let device = self.device();
        let mut current = CURRENT.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the pool is live, and kept below.
        unsafe {
            device
                .api()
                .cuDeviceSetMemPool(device.raw(), self.inner.handle)
        }?;
        current.retain(|pool| pool.device() != device);
        current.push(self.clone());
        Ok(())
    }

    fn with(device: &Device, handle: CUmemoryPool, owned: bool) -> MemoryPool {
        MemoryPool {
            inner: Arc::new(Inner {
                device: *device,
                handle,
                owned,
            }),
        }
    }

    /// The device whose memory it has.
    pub fn device(&self) -> &Device {
        &self.inner.device
    }

    /// The raw handle, for calls that the safe layer does not have.
    pub fn raw(&self) -> CUmemoryPool {
        self.inner.handle
    }

    /// Releases unused memory, down to `bytes_to_keep` (`cuMemPoolTrimTo`).
    pub fn trim_to(&self, bytes_to_keep: usize) -> Result<(), Error> {
        // SAFETY: the pool is live.
        unsafe {
            Ok(self
                .device()
                .api()
                .cuMemPoolTrimTo(self.raw(), bytes_to_keep)?)
        }
    }

    /// The release threshold: bytes kept at a synchronisation, 0 at first
    /// (`CU_MEMPOOL_ATTR_RELEASE_THRESHOLD`).
    pub fn release_threshold(&self) -> Result<u64, Error> {
        self.number(RELEASE_THRESHOLD)
    }

    /// Sets it (`cuMemPoolSetAttribute`); `u64::MAX` keeps all.
    pub fn set_release_threshold(&self, bytes: u64) -> Result<(), Error> {
        self.set_number(RELEASE_THRESHOLD, bytes)
    }

    /// Bytes allocated from the pool (`cuMemPoolGetAttribute`,
    /// `CU_MEMPOOL_ATTR_USED_MEM_*`).
    pub fn used(&self) -> Result<PoolBytes, Error> {
        Ok(PoolBytes {
            now: self.number(USED_CURRENT)?,
            high: self.number(USED_HIGH)?,
        })
    }

    /// Bytes that the pool has reserved from the device (`CU_MEMPOOL_ATTR_RESERVED_MEM_*`).
    pub fn reserved(&self) -> Result<PoolBytes, Error> {
        Ok(PoolBytes {
            now: self.number(RESERVED_CURRENT)?,
            high: self.number(RESERVED_HIGH)?,
        })
    }

    /// Resets the high-water mark of [`used`](MemoryPool::used).
    pub fn reset_used_high(&self) -> Result<(), Error> {
        self.set_number(USED_HIGH, 0)
    }

    /// Resets the high-water mark of [`reserved`](MemoryPool::reserved).
    pub fn reset_reserved_high(&self) -> Result<(), Error> {
        self.set_number(RESERVED_HIGH, 0)
    }

    /// Whether a kind of reuse is allowed (`cuMemPoolGetAttribute`).
    pub fn allows(&self, reuse: PoolReuse) -> Result<bool, Error> {
        let mut value = 0_i32;
        // SAFETY: the pool is live; this attribute is an `int`.
        unsafe { self.get(reuse as u32, (&raw mut value).cast()) }?;
        Ok(value != 0)
    }

    /// Allows or prohibits it (`cuMemPoolSetAttribute`); all kinds are allowed at first.
    pub fn allow(&self, reuse: PoolReuse, open: bool) -> Result<(), Error> {
        let mut value = i32::from(open);
        // SAFETY: the pool is live; this attribute is an `int`.
        unsafe { self.set(reuse as u32, (&raw mut value).cast()) }
    }

    /// How a device reaches the pool's memory (`cuMemPoolGetAccess`); its own
    /// reads and writes it.
    pub fn access(&self, device: &Device) -> Result<Access, Error> {
        self.device().driver().check_device(device)?;
        let (mut flags, mut location) = (0, Location::from(device).raw());
        // SAFETY: the pool is live; writes one number.
        unsafe {
            self.device()
                .api()
                .cuMemPoolGetAccess(&mut flags, self.raw(), &mut location)
        }?;
        Ok(Access::from_bits(u64::from(flags)))
    }

    /// Lets another device reach the pool's memory, also what was allocated
    /// before (`cuMemPoolSetAccess`). Its own access cannot be taken away.
    pub fn set_access(&self, device: &Device, access: Access) -> Result<(), Error> {
        self.device().driver().check_device(device)?;
        let described = MemAccessDesc {
            location: Location::from(device).raw(),
            flags: access as u32,
        };
        // SAFETY: the pool is live; one description.
        unsafe {
            Ok(self
                .device()
                .api()
                .cuMemPoolSetAccess(self.raw(), &described, 1)?)
        }
    }

    fn number(&self, attribute: u32) -> Result<u64, Error> {
        let mut value = 0_u64;
        // SAFETY: the pool is live; the attributes asked for here are 64 bits.
        unsafe { self.get(attribute, (&raw mut value).cast()) }?;
        Ok(value)
    }

    fn set_number(&self, attribute: u32, mut value: u64) -> Result<(), Error> {
        // SAFETY: as `number`.
        unsafe { self.set(attribute, (&raw mut value).cast()) }
    }

    /// # Safety
    /// `value` is of the attribute's type.
    unsafe fn get(&self, attribute: u32, value: *mut c_void) -> Result<(), Error> {
        let api = self.device().api();
        // SAFETY: the caller's word.
        unsafe { Ok(api.cuMemPoolGetAttribute(self.raw(), attribute, value)?) }
    }

    /// # Safety
    /// As [`get`](MemoryPool::get).
    unsafe fn set(&self, attribute: u32, value: *mut c_void) -> Result<(), Error> {
        let api = self.device().api();
        // SAFETY: the caller's word.
        unsafe { Ok(api.cuMemPoolSetAttribute(self.raw(), attribute, value)?) }
    }
}

impl PartialEq for MemoryPool {
    fn eq(&self, other: &MemoryPool) -> bool {
        self.device() == other.device() && self.raw() == other.raw()
    }
}

impl Eq for MemoryPool {}

impl Drop for Inner {
    fn drop(&mut self) {
        if self.owned {
            // SAFETY: made once, destroyed once; the driver waits for memory that is in use.
            report_drop(unsafe { self.device.api().cuMemPoolDestroy(self.handle) });
        }
    }
}
