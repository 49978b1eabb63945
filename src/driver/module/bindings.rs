//! What the texture and surface references of modules are bound to.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString};
use std::sync::{Mutex, PoisonError};

use crate::driver::device::context::{Context, report_drop};
use crate::driver::error::Error;
use crate::driver::stream::retained::RetainedRef;

/// Resources bound to the references of a module, or of all modules of a library, by
/// context and name. Ordered: a hash map asks the system for random keys first, which shows
/// in the first load of a process.
#[derive(Debug, Default)]
pub(crate) struct Bindings(Mutex<BTreeMap<(usize, CString), (Context, RetainedRef)>>);

impl Bindings {
    /// Retains the resource bound to a reference, in place of the former one.
    pub fn retain(&self, context: &Context, reference: &CStr, retained: RetainedRef) {
        let place = (context.raw().addr(), reference.to_owned());
        let mut bound = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = bound.insert(place, (context.clone(), retained));
        drop(bound);
        // Freeing memory may wait for the device: drop it outside of the lock.
        drop(before);
    }

    /// Waits for all kernels, as those that read the resources are not tracked; returns
    /// whether none may read them any more. Waiting fails during a capture.
    pub fn wait_until_unused(&mut self) -> bool {
        let bound = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        bound.values().all(|(context, _)| {
            let result = context.synchronize();
            let may_run = matches!(&result, Err(Error::Driver(error)) if !error.code.is_sticky());
            report_drop(result);
            !may_run
        })
    }

    /// Leaks them.
    pub fn leak(&mut self) {
        let bound = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        std::mem::forget(std::mem::take(bound));
    }
}
