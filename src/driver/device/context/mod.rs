//! Contexts: where modules, memory, streams and events live on a device.

pub(crate) mod current;
pub(crate) mod green;
mod primary;
pub(crate) mod settings;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::driver::device::context::primary::{NEVER, reset_count};
use crate::driver::device::driver::Driver;
use crate::driver::device::settings::ContextFlags;
use crate::driver::device::{Device, DeviceLimits};
use crate::driver::error::Error;
use api::{Api, CUcontext, CUgreenCtx, ContextParams, ExecAffinity};

/// A context. Clones share it; the last one gives it back.
///
/// Objects of a context keep it alive and make it current on the calling thread, so calls
/// may come in any order. A thread's current context is left as the last call needed it, as
/// in CUDA's runtime API, or as a launch found it that the driver took; use
/// [`enter`](Context::enter) around code that needs the former one back.
#[derive(Clone, Debug)]
pub struct Context {
    inner: Arc<Inner>,
}

/// What each launch reads comes first, as in a kernel's.
#[derive(Debug)]
#[repr(C, align(64))]
struct Inner {
    device: Device,
    handle: CUcontext,
    /// For a primary context, the device's reset count, and its value when this was
    /// created. Once they differ the handle is invalid.
    reset_count: &'static AtomicU32,
    generation: u32,
    check_mode: AtomicBool,
    event_tracking: AtomicBool,
    limits: DeviceLimits,
    ownership: Ownership,
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
    /// The context of a green one, which ends with that.
    Green(CUgreenCtx),
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
            Ownership::Green(_) => "Green",
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
    /// multiprocessors (`cuCtxCreate_v3`, from CUDA 11.4, or `cuCtxCreate_v4`). It takes MPS: elsewhere
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
        let (api, raw) = (device.api(), device.raw());
        let mut params = ContextParams {
            affinities: &mut affinity,
            num_affinities: 1,
            graphics: std::ptr::null_mut(),
        };
        // SAFETY: one affinity, which is read; writes one handle.
        unsafe {
            match api.cuCtxCreate_v3 {
                Some(_) => api.cuCtxCreate_v3(&mut handle, params.affinities, 1, flags, raw),
                // The header of CUDA 13 has this form alone.
                None => api.cuCtxCreate_v4(&mut handle, &mut params, flags, raw),
            }
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
            // A reset of the primary context ends green ones too.
            Ownership::Primary | Ownership::Green(_) => {
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
        if self.is_same_driver(other) {
            Ok(())
        } else {
            Err(Error::DifferentContexts { what })
        }
    }

    /// The limits that launches are checked against.
    #[inline]
    pub fn limits(&self) -> &DeviceLimits {
        &self.inner.limits
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
            // SAFETY: created once, destroyed once; all that lives in it holds `self` and is gone.
            Ownership::Green(green) if !self.is_reset() => unsafe { api.cuGreenCtxDestroy(green) },
            Ownership::Green(_) => Ok(()),
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
