//! The context that is current on a thread.

use std::cell::Cell;
use std::marker::PhantomData;
use std::ptr::null_mut;

use crate::driver::device::context::{Context, report_drop};
use crate::driver::error::Error;
use api::{Api, CUcontext};

thread_local! {
    /// The context that was current on this thread when it last called the driver through this
    /// crate. Other code may have made another one current since.
    static LAST: Cell<CUcontext> = const { Cell::new(null_mut()) };
}

impl Context {
    /// Makes it current on this thread, if it is not (`cuCtxSetCurrent`).
    ///
    /// The driver is asked each time. That is a read of a thread-local, and also correct
    /// after other code changed the current context.
    #[inline]
    pub fn bind(&self) -> Result<&'static Api, Error> {
        let api = self.api();
        if self.is_current() && !self.inner.is_reset() {
            LAST.set(self.inner.handle);
            Ok(api)
        } else {
            self.make_current(api)
        }
    }

    /// Whether it is current on this thread (`cuCtxGetCurrent`).
    #[inline]
    pub(crate) fn is_current(&self) -> bool {
        let mut current = null_mut();
        // SAFETY: writes one handle.
        let asked = self
            .api()
            .cuCtxGetCurrent
            .map(|entry| unsafe { entry(&mut current) });
        asked == Some(0) && current == self.inner.handle
    }

    /// Whether this crate left it current on this thread. The driver is not asked, so a call that
    /// relies on this must be one that the driver refuses if another context is current, or
    /// that does the same then.
    #[inline]
    pub(crate) fn was_current(&self) -> bool {
        LAST.get() == self.inner.handle && !self.inner.is_reset()
    }

    #[cold]
    fn make_current(&self, api: &'static Api) -> Result<&'static Api, Error> {
        if self.inner.is_reset() {
            return Err(Error::ContextReset);
        }
        // SAFETY: the context lives as long as `self`.
        unsafe { api.cuCtxSetCurrent(self.inner.handle) }?;
        LAST.set(self.inner.handle);
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
        LAST.set(self.inner.handle);
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
        LAST.set(null_mut());
        let mut popped = null_mut();
        // SAFETY: writes one handle; the guard was pushed on this thread.
        report_drop(unsafe { self.context.api().cuCtxPopCurrent_v2(&mut popped) });
    }
}
