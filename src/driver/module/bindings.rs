//! What the texture and surface references of modules are bound to, and who else runs their code.

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
pub(crate) struct Bindings {
    resources: Mutex<BTreeMap<(usize, CString), (Context, RetainedRef)>>,
    /// Contexts of graphs that have kernels of the module, which is of another: unloading it waits
    /// for the work of its own alone.
    peers: Mutex<Vec<Context>>,
}

impl Bindings {
    /// Binds a resource to a reference by calls of the driver, and retains it in place of the
    /// former one. A lock serializes the calls, so the retained resource is the one that is bound.
    pub fn bind(
        &self,
        context: &Context,
        reference: &CStr,
        retained: RetainedRef,
        calls: impl FnOnce() -> Result<(), Error>,
    ) -> Result<(), Error> {
        let place = (context.raw().addr(), reference.to_owned());
        let mut bound = self
            .resources
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        calls()?;
        let former = bound.insert(place, (context.clone(), retained));
        drop(bound);
        // A kernel that was launched during the calls may read the former one.
        let idle = context.synchronize();
        if idle.is_err() {
            std::mem::forget(former);
        }
        idle
    }

    /// Records that a graph of another context runs kernels of the module.
    pub fn record_peer(&self, peer: &Context) {
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        if !peers.contains(peer) {
            peers.push(peer.clone());
        }
    }

    /// Waits for all kernels, as those that read the resources are not tracked; returns
    /// whether none may read them, or run as part of another context's graph, any more.
    /// Waiting fails during a capture.
    pub fn wait_until_unused(&mut self) -> bool {
        let bound = self.resources.get_mut();
        let bound = bound.unwrap_or_else(PoisonError::into_inner).values();
        let peers = self.peers.get_mut();
        let peers = peers.unwrap_or_else(PoisonError::into_inner).iter();
        let mut contexts = bound.map(|(context, _)| context).chain(peers);
        contexts.all(|context| {
            let result = context.synchronize();
            let may_run = matches!(&result, Err(Error::Driver(error)) if !error.code.is_sticky());
            report_drop(result);
            !may_run
        })
    }

    /// Leaks them.
    pub fn leak(&mut self) {
        std::mem::forget(std::mem::take(self));
    }
}
