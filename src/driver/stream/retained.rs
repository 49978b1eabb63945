//! Resources that graphs retain.
//!
//! A captured launch or copy runs whenever its graph is launched, long after the call that
//! captured it returned. So while a stream captures, each call records the memory, kernels
//! and functions that it uses, and the graph retains them.

use std::fmt::Debug;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::driver::error::Error;
use crate::driver::stream::Stream;
use crate::driver::stream::capture_lock::CaptureLock;
use crate::driver::stream::users::{Users, Waits};
use api::CUgraphNode;

/// A resource that a graph may use.
pub(crate) trait Retained: Debug + Send + Sync {
    /// Called before a graph that uses it is launched into `stream`. The guard is held
    /// until the launch is queued.
    fn before_launch(
        &self,
        _stream: &Stream,
        _waits: &mut Waits,
    ) -> Result<Option<MutexGuard<'_, Users>>, Error> {
        Ok(None)
    }

    /// The graph's own memory, if it is that.
    fn node_memory(&self) -> Option<&dyn NodeMemory> {
        None
    }

    /// Whether it must not be dropped before launches of the graph complete. Driver objects
    /// need not: destroying them waits.
    fn must_outlive_launches(&self) -> bool {
        false
    }
}

pub(crate) type RetainedRef = Arc<dyn Retained>;

/// Memory that a node of a graph allocates.
pub(crate) trait NodeMemory: Debug + Send + Sync {
    /// The node that allocates it, if it is of the graph with this id.
    fn allocated_in(&self, graph: u64) -> Result<CUgraphNode, Error>;

    /// Records that a node of that graph uses it.
    fn record_node(&self, node: CUgraphNode);
}

/// An active capture and the resources it uses; shared by all streams that take part.
#[derive(Debug, Default)]
pub(crate) struct Capture {
    retained: Mutex<Vec<RetainedRef>>,
    ended: AtomicBool,
    /// Shared while work is queued in a stream that takes part, exclusive while the capture
    /// ends.
    capture_lock: CaptureLock,
}

impl Capture {
    /// Whether the capture is active. If so, it does not end before
    /// [`leave`](Capture::leave).
    pub fn enter(&self) -> bool {
        self.capture_lock.lock_shared();
        let is_active = !self.is_over();
        if !is_active {
            self.leave();
        }
        is_active
    }

    pub fn leave(&self) {
        self.capture_lock.unlock_shared();
    }

    /// Ends it by `entry`, after the calls that are queueing work, and returns what it
    /// retained.
    pub fn end<R>(&self, entry: impl FnOnce() -> R) -> (R, Vec<RetainedRef>) {
        let _exclusive = self.capture_lock.exclusive();
        let ended = entry();
        self.ended.store(true, Ordering::Release);
        let mut retained = self.retained.lock().unwrap_or_else(PoisonError::into_inner);
        (ended, std::mem::take(&mut retained))
    }

    pub fn retain(&self, used: RetainedRef) {
        let mut retained = self.retained.lock().unwrap_or_else(PoisonError::into_inner);
        retained.push(used);
    }

    pub fn is_over(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }
}
