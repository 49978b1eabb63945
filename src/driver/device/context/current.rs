//! The context that is current on a thread.

use std::marker::PhantomData;

use crate::driver::device::context::{Context, report_drop};
use crate::driver::error::Error;
use api::Api;

impl Context {
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
