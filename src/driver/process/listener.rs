//! Functions that a driver calls from threads of its own.

use crate::driver::callback::call_back;

/// A function that lives as long as the process: no driver promises that none of its threads is
/// in a function any more which it was told to call no more.
pub(crate) struct Listener<F: 'static>(&'static F);

impl<F: Send + Sync + 'static> Listener<F> {
    pub fn new(function: F) -> Listener<F> {
        Listener(Box::leak(Box::new(function)))
    }

    /// For the driver, which gives it back by `from_data`.
    pub fn data(&self) -> *mut std::ffi::c_void {
        std::ptr::from_ref(self.0).cast_mut().cast()
    }

    /// # Safety
    /// `data` is of a listener of this type.
    pub unsafe fn from_data(data: *mut std::ffi::c_void) -> Listener<F> {
        // SAFETY: the caller's; the function is never freed.
        Listener(unsafe { &*data.cast_const().cast() })
    }

    /// Calls it.
    pub fn call(&self, call: impl FnOnce(&F)) {
        call_back("a function called by the driver", || call(self.0));
    }
}
