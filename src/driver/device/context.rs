//! Contexts: where modules, memory, streams and events live on a device.

use std::ffi::c_uint;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::driver::device::driver::Driver;
use crate::driver::device::settings::{CacheConfig, ContextFlags, Limit, SharedBanks};
use crate::driver::device::{Device, DeviceLimits};
use crate::driver::error::Error;
use api::{Api, CUcontext, DriverKind, ExecAffinity};

/// A context. Clones share it; the last one gives it back.
///
/// Objects of a context keep it alive and make it current on the calling thread, so calls
/// may come in any order. A thread's current context is left as the last call needed it, as
/// in CUDA's runtime API; use [`enter`](Context::enter) around code that needs the former
/// one back.
#[derive(Clone, Debug)]
pub struct Context {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    device: Device,
    handle: CUcontext,
    limits: DeviceLimits,
    ownership: Ownership,
    check_mode: AtomicBool,
    event_tracking: AtomicBool,
    /// For a primary context, the device's reset count, and its value when this was
    /// created. Once they differ the handle is invalid.
    reset_count: &'static AtomicU32,
    generation: u32,
}

/// Reset counts of primary contexts, by driver and device.
static RESETS: [[AtomicU32; MOST_DEVICES]; 2] =
    [const { [const { AtomicU32::new(0) }; MOST_DEVICES] }; 2];
/// The reset count of contexts that are not primary.
static NEVER: AtomicU32 = AtomicU32::new(0);
const MOST_DEVICES: usize = 64;

/// The reset count of a device's primary context.
fn reset_count(device: &Device) -> &'static AtomicU32 {
    let driver = usize::from(device.driver().kind() == DriverKind::Cpu);
    let place = (device.ordinal() as usize).min(MOST_DEVICES - 1);
    &RESETS[driver][place]
}

enum Ownership {
    Primary,
    Created,
    /// A further reference (`cuCtxAttach`) to a context that another value created. It
    /// keeps that value alive: `cuCtxDestroy` does not check for other users.
    Attached(#[allow(dead_code, reason = "held, not read")] Context),
    Borrowed,
    /// Owned by another library, which keeps it alive through this value.
    Shared(#[allow(dead_code, reason = "held, not read")] Owner),
}

/// Keeps a handle of another library alive.
pub(crate) type Owner = Arc<dyn std::any::Any + Send + Sync>;

impl std::fmt::Debug for Ownership {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Ownership::Primary => "Primary",
            Ownership::Created => "Created",
            Ownership::Attached(_) => "Attached",
            Ownership::Borrowed => "Borrowed",
            Ownership::Shared(_) => "Shared",
        })
    }
}

impl Inner {
    #[inline]
    fn is_reset(&self) -> bool {
        self.reset_count.load(Ordering::Relaxed) != self.generation
    }
}

// SAFETY: a context handle is a process-wide name; the driver API locks by itself.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

impl Context {
    /// The device's primary context, shared with everybody in the process who
    /// uses it, CUDA's runtime API too (`cuDevicePrimaryCtxRetain`).
    pub fn primary(device: &Device) -> Result<Context, Error> {
        let mut handle = std::ptr::null_mut();
        // SAFETY: writes one handle.
        unsafe {
            device
                .api()
                .cuDevicePrimaryCtxRetain(&mut handle, device.raw())
        }?;
        Context::own(device, handle, Ownership::Primary)
    }

    /// A new context (`cuCtxCreate_v2`) with a scheduling such as `Scheduling::Block`, or
    /// several [`ContextFlags`]. The thread's current context is unchanged.
    ///
    /// Most programs are better served by the primary context alone. On an H200, NVIDIA's
    /// driver 580.159 occasionally hung in a synchronous copy between two contexts of one
    /// GPU while other threads waited for streams that use memory pools, or destroyed such
    /// streams.
    pub fn create(device: &Device, flags: impl Into<ContextFlags>) -> Result<Context, Error> {
        let ContextFlags(flags) = flags.into();
        let mut handle = std::ptr::null_mut();
        // SAFETY: writes one handle.
        unsafe {
            device
                .api()
                .cuCtxCreate_v2(&mut handle, flags, device.raw())
        }?;
        Context::created(device, handle)
    }

    /// A context of its own whose kernels run on at most `count`
    /// multiprocessors (`cuCtxCreate_v3`, from CUDA 11.4). It takes MPS: elsewhere
    /// the error is `CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY`, and
    /// [`Device::can_divide_multiprocessors`] is false.
    pub fn with_multiprocessors(
        device: &Device,
        flags: impl Into<ContextFlags>,
        count: u32,
    ) -> Result<Context, Error> {
        let ContextFlags(flags) = flags.into();
        let mut affinity = ExecAffinity { kind: 0, count };
        let mut handle = std::ptr::null_mut();
        // SAFETY: one affinity, which is read; writes one handle.
        unsafe {
            device
                .api()
                .cuCtxCreate_v3(&mut handle, &mut affinity, 1, flags, device.raw())
        }?;
        Context::created(device, handle)
    }

    /// How many multiprocessors its kernels may run on (`cuCtxGetExecAffinity`,
    /// from CUDA 11.4).
    pub fn multiprocessors(&self) -> Result<u32, Error> {
        let mut affinity = ExecAffinity { kind: 0, count: 0 };
        // SAFETY: writes one affinity.
        unsafe { self.bind()?.cuCtxGetExecAffinity(&mut affinity, 0) }?;
        Ok(affinity.count)
    }

    /// Takes ownership of a new context and pops it from the thread's stack.
    fn created(device: &Device, handle: CUcontext) -> Result<Context, Error> {
        let context = Context::own(device, handle, Ownership::Created)?;
        let mut popped = std::ptr::null_mut();
        // SAFETY: takes away what the creation pushed.
        unsafe { device.api().cuCtxPopCurrent_v2(&mut popped) }?;
        Ok(context)
    }

    /// The context that is current on this thread, made by this crate, CUDA's runtime or
    /// another library; `None` if there is none.
    ///
    /// # Safety
    /// It must stay alive as long as anything made from the returned value;
    /// [`primary`](Context::primary) sees to that by itself.
    pub unsafe fn current(driver: Driver) -> Result<Option<Context>, Error> {
        let api = driver.api();
        let mut handle = std::ptr::null_mut();
        // SAFETY: writes one handle.
        unsafe { api.cuCtxGetCurrent(&mut handle) }?;
        if handle.is_null() {
            return Ok(None);
        }
        let device = driver.current_device()?;
        Context::own(&device, handle, Ownership::Borrowed).map(Some)
    }

    /// A further reference to a context made by [`create`](Context::create), counted by the
    /// driver (`cuCtxAttach`) and released when the value is dropped (`cuCtxDetach`). For
    /// libraries that count references this way; within Rust a clone does the same. CUDA
    /// deprecates both entries.
    pub fn attach(&self) -> Result<Context, Error> {
        let mut handle = std::ptr::null_mut();
        // SAFETY: writes one handle; the flags must be 0.
        unsafe { self.bind()?.cuCtxAttach(&mut handle, 0) }?;
        let ownership = Ownership::Attached(self.clone());
        let mut attached = Context::own(self.device(), handle, ownership)?;
        if let Some(inner) = Arc::get_mut(&mut attached.inner) {
            *inner.check_mode.get_mut() = self.check_mode();
            *inner.event_tracking.get_mut() = self.is_event_tracking();
        }
        Ok(attached)
    }

    /// A context that other code owns.
    ///
    /// # Safety
    /// `handle` must be a live context of `device`, and stay alive as long as
    /// anything made from the returned value.
    pub unsafe fn from_raw(device: &Device, handle: CUcontext) -> Result<Context, Error> {
        Context::own(device, handle, Ownership::Borrowed)
    }

    /// A context that another library keeps alive as long as `owner` lives.
    ///
    /// # Safety
    /// `handle` must be a live context of `device`, and stay alive as long as
    /// `owner`.
    pub unsafe fn from_shared(
        device: &Device,
        handle: CUcontext,
        owner: Arc<dyn std::any::Any + Send + Sync>,
    ) -> Result<Context, Error> {
        Context::own(device, handle, Ownership::Shared(owner))
    }

    /// Whether it is its device's primary context, retained by
    /// [`primary`](Context::primary).
    pub fn is_primary(&self) -> bool {
        matches!(self.inner.ownership, Ownership::Primary)
    }

    fn own(device: &Device, handle: CUcontext, ownership: Ownership) -> Result<Context, Error> {
        let (reset_count, generation) = match &ownership {
            Ownership::Primary => {
                let reset_count = reset_count(device);
                (reset_count, reset_count.load(Ordering::Acquire))
            }
            Ownership::Attached(context) => (context.inner.reset_count, context.inner.generation),
            _ => (&NEVER, 0),
        };
        // Constructed before anything can fail, so that `Drop` releases the handle.
        let mut inner = Inner {
            device: *device,
            handle,
            limits: DeviceLimits::default(),
            ownership,
            check_mode: AtomicBool::new(check_mode_of_environment()),
            event_tracking: AtomicBool::new(true),
            reset_count,
            generation,
        };
        inner.limits = device.limits()?;
        Ok(Context {
            inner: Arc::new(inner),
        })
    }

    /// The device it is on.
    #[inline]
    pub fn device(&self) -> &Device {
        &self.inner.device
    }

    /// The raw handle, for calls that the safe layer does not have.
    #[inline]
    pub fn raw(&self) -> CUcontext {
        self.inner.handle
    }

    /// The driver's table of entry points.
    #[inline]
    pub fn api(&self) -> &'static Api {
        self.inner.device.api()
    }

    pub(crate) fn is_same_driver(&self, other: &Context) -> bool {
        std::ptr::eq(self.api(), other.api())
    }

    /// Fails for contexts of different drivers, whose handles cannot be mixed.
    pub(crate) fn check_same_driver(
        &self,
        other: &Context,
        what: &'static str,
    ) -> Result<(), Error> {
        match self.is_same_driver(other) {
            true => Ok(()),
            false => Err(Error::DifferentContexts { what }),
        }
    }

    /// The limits that launches are checked against.
    #[inline]
    pub fn limits(&self) -> &DeviceLimits {
        &self.inner.limits
    }

    /// Makes it current on this thread, if it is not (`cuCtxSetCurrent`).
    ///
    /// The driver is asked each time. That is a read of a thread-local, and also correct
    /// after other code changed the current context.
    #[inline]
    pub fn bind(&self) -> Result<&'static Api, Error> {
        let api = self.api();
        let mut current = std::ptr::null_mut();
        // SAFETY: writes one handle.
        let asked = api
            .cuCtxGetCurrent
            .map(|entry| unsafe { entry(&mut current) });
        match asked == Some(0) && current == self.inner.handle && !self.inner.is_reset() {
            true => Ok(api),
            false => self.make_current(api),
        }
    }

    #[cold]
    fn make_current(&self, api: &'static Api) -> Result<&'static Api, Error> {
        if self.inner.is_reset() {
            return Err(Error::ContextReset);
        }
        // SAFETY: the context lives as long as `self`.
        unsafe { api.cuCtxSetCurrent(self.inner.handle) }?;
        Ok(api)
    }

    /// Makes it current until the guard is dropped, and then what was current
    /// before (`cuCtxPushCurrent_v2`, `cuCtxPopCurrent_v2`).
    pub fn enter(&self) -> Result<Entered<'_>, Error> {
        if self.inner.is_reset() {
            return Err(Error::ContextReset);
        }
        // SAFETY: the context lives as long as the guard.
        unsafe { self.api().cuCtxPushCurrent_v2(self.inner.handle) }?;
        Ok(Entered {
            context: self,
            thread: PhantomData,
        })
    }

    /// Waits for all work in the context (`cuCtxSynchronize`). Errors of
    /// kernels show here.
    pub fn synchronize(&self) -> Result<(), Error> {
        // SAFETY: no arguments.
        unsafe { Ok(self.bind()?.cuCtxSynchronize()?) }
    }

    /// A limit (`cuCtxGetLimit`), in bytes.
    pub fn limit(&self, limit: Limit) -> Result<usize, Error> {
        let mut value = 0;
        // SAFETY: writes one integer.
        unsafe { self.bind()?.cuCtxGetLimit(&mut value, limit.0) }?;
        Ok(value)
    }

    /// Sets a limit (`cuCtxSetLimit`), in bytes; the driver may round it up.
    pub fn set_limit(&self, limit: Limit, value: usize) -> Result<(), Error> {
        // SAFETY: plain numbers.
        unsafe { Ok(self.bind()?.cuCtxSetLimit(limit.0, value)?) }
    }

    /// Free and total bytes of device memory (`cuMemGetInfo_v2`).
    pub fn memory_info(&self) -> Result<(usize, usize), Error> {
        let (mut free, mut total) = (0, 0);
        // SAFETY: writes two integers.
        unsafe { self.bind()?.cuMemGetInfo_v2(&mut free, &mut total) }?;
        Ok((free, total))
    }

    /// The flags it was made with (`cuCtxGetFlags`).
    pub fn flags(&self) -> Result<ContextFlags, Error> {
        let mut flags: c_uint = 0;
        // SAFETY: writes one integer.
        unsafe { self.bind()?.cuCtxGetFlags(&mut flags) }?;
        Ok(ContextFlags(flags))
    }

    /// The API version it was made with, as 3020 (`cuCtxGetApiVersion`).
    pub fn api_version(&self) -> Result<u32, Error> {
        let mut version = 0;
        // SAFETY: the context is live; writes one integer.
        unsafe { self.bind()?.cuCtxGetApiVersion(self.raw(), &mut version) }?;
        Ok(version)
    }

    /// A number that no other context of the process has or had (`cuCtxGetId`,
    /// from CUDA 12.0).
    pub fn id(&self) -> Result<u64, Error> {
        let mut id = 0;
        // SAFETY: the context is live; writes one integer.
        unsafe { self.bind()?.cuCtxGetId(self.raw(), &mut id) }?;
        Ok(id)
    }

    /// The default split of on-chip memory between L1 and shared memory
    /// (`cuCtxGetCacheConfig`); `None` for a value without a name.
    pub fn cache_config(&self) -> Result<Option<CacheConfig>, Error> {
        use CacheConfig::{PreferEqual, PreferL1, PreferNone, PreferShared};
        let mut config = 0;
        // SAFETY: writes one integer.
        unsafe { self.bind()?.cuCtxGetCacheConfig(&mut config) }?;
        let all = [PreferNone, PreferShared, PreferL1, PreferEqual];
        Ok(all.get(config as usize).copied())
    }

    /// Sets it (`cuCtxSetCacheConfig`).
    pub fn set_cache_config(&self, config: CacheConfig) -> Result<(), Error> {
        // SAFETY: a plain number.
        unsafe { Ok(self.bind()?.cuCtxSetCacheConfig(config as u32)?) }
    }

    /// Width of the banks of shared memory (`cuCtxGetSharedMemConfig`,
    /// deprecated by CUDA); `None` for a number without a name.
    pub fn shared_banks(&self) -> Result<Option<SharedBanks>, Error> {
        use SharedBanks::{Default, EightBytes, FourBytes};
        let mut config = 0;
        // SAFETY: writes one integer.
        unsafe { self.bind()?.cuCtxGetSharedMemConfig(&mut config) }?;
        Ok([Default, FourBytes, EightBytes]
            .get(config as usize)
            .copied())
    }

    /// Sets it (`cuCtxSetSharedMemConfig`, deprecated by CUDA).
    pub fn set_shared_banks(&self, banks: SharedBanks) -> Result<(), Error> {
        // SAFETY: a plain number.
        unsafe { Ok(self.bind()?.cuCtxSetSharedMemConfig(banks as u32)?) }
    }

    /// Resets persisting lines of L2 to normal (`cuCtxResetPersistingL2Cache`).
    pub fn reset_persisting_l2(&self) -> Result<(), Error> {
        // SAFETY: no arguments.
        unsafe { Ok(self.bind()?.cuCtxResetPersistingL2Cache()?) }
    }

    /// Starts collection by an attached profiler, until the returned value is dropped
    /// (`cuProfilerStart`, `cuProfilerStop`); for `nsys profile -c cudaProfilerApi` and
    /// `ncu --profile-from-start off`.
    pub fn profile(&self) -> Result<Profiling<'_>, Error> {
        // SAFETY: no arguments.
        unsafe { self.bind()?.cuProfilerStart() }?;
        Ok(Profiling { context: self })
    }

    /// Sets check mode: every launch and copy in a stream is waited for, so that the call
    /// that queued the work returns its error, as [`Error::Checked`] with the kernel's
    /// name. This is for debugging, as nothing overlaps any more. The environment variable
    /// `PTXKIT_CHECK=1` turns it on in new contexts.
    ///
    /// A stream that waits for what the calling thread does only later, in a
    /// host function or for a value, then never ends: such a program turns
    /// check mode off for its context.
    ///
    /// ```
    /// # #[cfg(feature = "cpu")] {
    /// use ptxkit::driver::{Context, Driver, Error, LaunchConfig, Module, Stream};
    /// # let ptx = b".version 8.0 .target sm_80 .address_size 64
    /// # .visible .entry bad() { trap; }";
    /// let context = Context::create(&Driver::cpu()?.device(0)?, 0)?;
    /// context.set_check_mode(true);
    /// let bad = Module::load(&context, ptx)?.kernel("bad")?;
    /// // SAFETY: the kernel stops, and accesses nothing.
    /// let launched = unsafe { bad.launch(LaunchConfig::default(), &Stream::new(&context)?, ()) };
    /// let error = launched.unwrap_err();
    /// assert!(matches!(&error, Error::Checked { what, .. } if what.starts_with("kernel `bad`")));
    /// # }
    /// # Ok::<(), ptxkit::driver::Error>(())
    /// ```
    pub fn set_check_mode(&self, on: bool) {
        self.inner.check_mode.store(on, Ordering::Relaxed);
    }

    /// Whether check mode is on.
    #[inline]
    pub fn check_mode(&self) -> bool {
        self.inner.check_mode.load(Ordering::Relaxed)
    }

    /// Turns on that work is ordered by the memory that it uses, as it is in a new context: what
    /// writes a buffer waits for what other streams do with it, and what reads it for what
    /// writes it. Work that was queued while it was off is not waited for.
    ///
    /// It holds for copies, fills, launches and graphs, and for buffers of this value and its
    /// clones; not for arrays and textures, nor between the streams of one capture. An event is
    /// recorded when work of another stream uses the memory, not before: it stands for all that
    /// was queued in the first stream until then. A launch by raw arguments writes all of its
    /// buffers, but those passed as [`Arg::read_only`](crate::driver::Arg::read_only); a graph
    /// writes all of its buffers.
    ///
    /// ```
    /// # #[cfg(feature = "cpu")] {
    /// use ptxkit::driver::{Context, DeviceBuffer, Driver, Stream};
    /// let context = Context::primary(&Driver::cpu()?.device(0)?)?;
    /// let [first, second] = [Stream::non_blocking(&context)?, Stream::non_blocking(&context)?];
    /// let mut numbers = DeviceBuffer::<u32>::new(&context, 1000)?;
    /// let mut copy = DeviceBuffer::<u32>::new(&context, 1000)?;
    /// numbers.fill_async(7, &first)?;
    /// copy.copy_from_async(&numbers, &second)?; // after the fill
    /// assert_eq!(copy.to_vec()?, [7; 1000]); // after the copy
    /// # }
    /// # Ok::<(), ptxkit::driver::Error>(())
    /// ```
    pub fn enable_event_tracking(&self) {
        self.inner.event_tracking.store(true, Ordering::Relaxed);
    }

    /// Turns it off, for programs that order their streams by events of their own. With it, a
    /// kernel that waits for a value which another stream is to write, in memory that both use,
    /// may wait for ever.
    pub fn disable_event_tracking(&self) {
        self.inner.event_tracking.store(false, Ordering::Relaxed);
    }

    /// Whether work is ordered by the memory that it uses.
    #[inline]
    pub fn is_event_tracking(&self) -> bool {
        self.inner.event_tracking.load(Ordering::Relaxed)
    }
}

impl Context {
    /// Whether one is a clone of the other, which is cheaper to check than equality.
    #[inline]
    pub(crate) fn is_clone_of(&self, other: &Context) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// A number that clones share, and that nothing else has as long as one of them is there.
    #[inline]
    pub(crate) fn identity(&self) -> *mut () {
        Arc::as_ptr(&self.inner).cast_mut().cast()
    }

    /// Whether both have the same handle, as two values for one primary context do.
    fn is_same_handle(&self, other: &Context) -> bool {
        self.inner.handle == other.inner.handle && self.device() == other.device()
    }
}

/// `PTXKIT_CHECK`
fn check_mode_of_environment() -> bool {
    std::env::var_os("PTXKIT_CHECK").is_some_and(|value| value == "1")
}

impl PartialEq for Context {
    #[inline]
    fn eq(&self, other: &Context) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner) || self.is_same_handle(other)
    }
}

impl Eq for Context {}

impl Drop for Inner {
    fn drop(&mut self) {
        let api = self.device.api();
        let result = match self.ownership {
            // SAFETY: retained once by `primary`, released once here.
            Ownership::Primary => unsafe { api.cuDevicePrimaryCtxRelease_v2(self.device.raw()) },
            // SAFETY: created by `create`; all that lives in it holds `self` and is gone.
            Ownership::Created => unsafe { api.cuCtxDestroy_v2(self.handle) },
            // SAFETY: attached once by `attach`, detached once here.
            Ownership::Attached(_) if !self.is_reset() => unsafe { api.cuCtxDetach(self.handle) },
            Ownership::Attached(_) | Ownership::Borrowed | Ownership::Shared(_) => Ok(()),
        };
        report_drop(result);
    }
}

/// Logs an error in a destructor, which cannot return it. At debug level: after a kernel
/// fault every release fails.
pub(crate) fn report_drop(result: Result<(), impl Into<Error>>) {
    if let Err(error) = result.map_err(Into::into) {
        tracing::debug!(%error, "could not be released");
    }
}

/// A range that a profiler collects; see [`Context::profile`].
#[derive(Debug)]
pub struct Profiling<'a> {
    context: &'a Context,
}

impl Drop for Profiling<'_> {
    fn drop(&mut self) {
        // Launches that are queued belong to the range.
        let stopped = self.context.synchronize().and_then(|()| {
            let api = self.context.bind()?;
            // SAFETY: no arguments.
            unsafe { Ok(api.cuProfilerStop()?) }
        });
        report_drop(stopped);
    }
}

/// A context made current for a scope; see [`Context::enter`].
#[derive(Debug)]
pub struct Entered<'a> {
    context: &'a Context,
    /// The context stack belongs to the thread: the guard must be dropped on it.
    thread: PhantomData<*const ()>,
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        let mut popped = std::ptr::null_mut();
        // SAFETY: writes one handle; the guard was pushed on this thread.
        report_drop(unsafe { self.context.api().cuCtxPopCurrent_v2(&mut popped) });
    }
}

impl Device {
    /// Resets the primary context, for all its users (`cuDevicePrimaryCtxReset_v2`). Every
    /// call on a [`Context::primary`](crate::driver::Context::primary) created before
    /// returns [`Error::ContextReset`], and its objects are dropped without calling the
    /// driver.
    ///
    /// # Safety
    /// No other thread may be using the primary context now, and no other library
    /// of the process anything made in it any more.
    pub unsafe fn reset_primary(&self) -> Result<(), Error> {
        let reset_count = reset_count(self);
        reset_count.fetch_add(1, Ordering::AcqRel);
        // SAFETY: the caller answers for the users.
        let reset = unsafe { self.api().cuDevicePrimaryCtxReset_v2(self.handle) };
        if reset.is_err() {
            reset_count.fetch_sub(1, Ordering::AcqRel);
        }
        Ok(reset?)
    }
}
