//! Contexts: where modules, memory, streams and events live on a device.

use std::ffi::c_uint;
use std::marker::PhantomData;
use std::sync::Arc;

use super::api::{Api, CUcontext};
use super::device::{Device, DeviceLimits};
use super::error::Error;

/// A context. Clones share it; the last one gives it back.
///
/// Whatever lives in a context keeps it alive and makes it current on the
/// calling thread by itself, so no order of calls is wrong. A thread's current
/// context is left as the last call needed it, as in CUDA's runtime API; use
/// [`enter`](Context::enter) around code that needs the former one back.
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
}

#[derive(Debug)]
enum Ownership {
    Primary,
    Created,
    Borrowed,
}

// SAFETY: a context handle is a process-wide name; the driver API locks by itself.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

/// A limit of a context (`CUlimit`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Limit(pub u32);

impl Limit {
    /// Bytes of stack a GPU thread has.
    pub const STACK_SIZE: Limit = Limit(0);
    /// Bytes of the buffer that a kernel's `printf` writes to.
    pub const PRINTF_FIFO_SIZE: Limit = Limit(1);
    /// Bytes of the heap of a kernel's `malloc`.
    pub const MALLOC_HEAP_SIZE: Limit = Limit(2);
}

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

    /// A context of its own (`cuCtxCreate_v2`). `flags` are `CU_CTX_*`: 0 auto,
    /// 1 spin, 2 yield, 4 block while waiting. The thread's current context
    /// stays what it was.
    pub fn create(device: &Device, flags: u32) -> Result<Context, Error> {
        let mut handle = std::ptr::null_mut();
        // SAFETY: writes one handle.
        unsafe {
            device
                .api()
                .cuCtxCreate_v2(&mut handle, flags, device.raw())
        }?;
        let context = Context::own(device, handle, Ownership::Created)?;
        let mut popped = std::ptr::null_mut();
        // SAFETY: takes away what the creation pushed.
        unsafe { device.api().cuCtxPopCurrent_v2(&mut popped) }?;
        Ok(context)
    }

    /// A context that somebody else owns.
    ///
    /// # Safety
    /// `handle` must be a live context of `device`, and stay alive as long as
    /// anything made from the returned value.
    pub unsafe fn from_raw(device: &Device, handle: CUcontext) -> Result<Context, Error> {
        Context::own(device, handle, Ownership::Borrowed)
    }

    fn own(device: &Device, handle: CUcontext, ownership: Ownership) -> Result<Context, Error> {
        // Owned before anything can fail, so that it is given back then.
        let mut inner = Inner {
            device: *device,
            handle,
            limits: DeviceLimits::default(),
            ownership,
        };
        inner.limits = device.limits()?;
        Ok(Context {
            inner: Arc::new(inner),
        })
    }

    /// The device it is on.
    pub fn device(&self) -> &Device {
        &self.inner.device
    }

    /// The raw handle, for calls that the safe layer does not have.
    pub fn raw(&self) -> CUcontext {
        self.inner.handle
    }

    /// The driver's table of entry points.
    pub fn api(&self) -> &'static Api {
        self.inner.device.api()
    }

    /// What launches are checked against.
    pub fn limits(&self) -> &DeviceLimits {
        &self.inner.limits
    }

    /// Makes it current on this thread, if it is not (`cuCtxSetCurrent`).
    ///
    /// The driver is asked each time: that is a read of a thread-local, and
    /// right also when other code changed the context meanwhile.
    #[inline]
    pub fn bind(&self) -> Result<&'static Api, Error> {
        let api = self.api();
        let mut current = std::ptr::null_mut();
        // SAFETY: writes one handle.
        unsafe { api.cuCtxGetCurrent(&mut current) }?;
        if current != self.inner.handle {
            // SAFETY: the context lives as long as `self`.
            unsafe { api.cuCtxSetCurrent(self.inner.handle) }?;
        }
        Ok(api)
    }

    /// Makes it current until the guard is dropped, and then what was current
    /// before (`cuCtxPushCurrent_v2`, `cuCtxPopCurrent_v2`).
    pub fn enter(&self) -> Result<Entered<'_>, Error> {
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
        unsafe { self.bind()?.cuCtxSynchronize() }
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
        unsafe { self.bind()?.cuCtxSetLimit(limit.0, value) }
    }

    /// Free and total bytes of device memory (`cuMemGetInfo_v2`).
    pub fn memory_info(&self) -> Result<(usize, usize), Error> {
        let (mut free, mut total) = (0, 0);
        // SAFETY: writes two integers.
        unsafe { self.bind()?.cuMemGetInfo_v2(&mut free, &mut total) }?;
        Ok((free, total))
    }

    /// The flags it was made with (`cuCtxGetFlags`).
    pub fn flags(&self) -> Result<u32, Error> {
        let mut flags: c_uint = 0;
        // SAFETY: writes one integer.
        unsafe { self.bind()?.cuCtxGetFlags(&mut flags) }?;
        Ok(flags)
    }
}

impl PartialEq for Context {
    fn eq(&self, other: &Context) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
            || (self.inner.handle == other.inner.handle && self.device() == other.device())
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
            Ownership::Borrowed => Ok(()),
        };
        report_drop(result);
    }
}

/// An error in a destructor has nobody to go to: a trace says it. After a
/// fault of a kernel every release fails, which is no news.
pub(crate) fn report_drop(result: Result<(), Error>) {
    if let Err(error) = result {
        tracing::debug!(%error, "could not be released");
    }
}

/// A context made current for a while; see [`Context::enter`].
#[derive(Debug)]
pub struct Entered<'a> {
    context: &'a Context,
    /// A thread's stack of contexts is popped on that thread.
    thread: PhantomData<*const ()>,
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        let mut popped = std::ptr::null_mut();
        // SAFETY: writes one handle; the guard was pushed on this thread.
        report_drop(unsafe { self.context.api().cuCtxPopCurrent_v2(&mut popped) });
    }
}
