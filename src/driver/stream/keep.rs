//! What a graph uses stays alive as long as the graph.
//!
//! A captured launch or copy runs again whenever its graph is launched, long
//! after the call that captured it returned. So while a stream captures, each
//! call notes the memory, kernels and functions that it names, and the graph
//! keeps them.

use std::fmt::Debug;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::driver::device::context::Context;
use crate::driver::error::Error;
use crate::driver::graph::memory::OwnMemory;
use crate::driver::memory::allocation::{Users, is_unused, same};
use crate::driver::stream::Stream;
use crate::driver::stream::gate::Gate;

/// Something that a graph may use.
pub(crate) trait Keep: Debug + Send + Sync {
    /// Called before a graph that uses it is launched into `stream`; the guard
    /// is held until the launch is queued.
    fn launching(&self, _stream: &Stream) -> Result<Option<MutexGuard<'_, Users>>, Error> {
        Ok(None)
    }

    /// Memory that a graph allocates by itself.
    fn of_graph(&self) -> Option<&OwnMemory> {
        None
    }

    /// Whether a launched graph must be done before this is let go: what is no
    /// object of the driver's, whose destruction would wait by itself.
    fn outlives_launches(&self) -> bool {
        false
    }
}

pub(crate) type Kept = Arc<dyn Keep>;

/// The streams whose work may still use an array, texture or surface: no driver
/// promises to wait for it before it destroys those.
#[derive(Debug, Default)]
pub(crate) struct UsingStreams(Mutex<Vec<Stream>>);

impl UsingStreams {
    pub fn note(&self, stream: &Stream) {
        let mut streams = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !streams.iter().any(|user| same(user, stream)) {
            streams.push(stream.clone());
        }
    }

    /// Waits for them; whether all are done. Waiting would spoil a capture.
    pub fn are_done(&mut self) -> bool {
        let streams = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        !streams.iter().any(Stream::is_capturing) && is_unused(streams)
    }
}

/// A texture or surface that a kernel's argument stands for.
pub(crate) trait Object: Debug {
    fn context(&self) -> &Context;
    fn kept(&self) -> Kept;
}

/// What a capture has used so far; shared by all streams that take part in it.
#[derive(Debug, Default)]
pub(crate) struct Capture {
    kept: Mutex<Vec<Kept>>,
    ended: AtomicBool,
    /// Who queues something in a stream that takes part is inside.
    gate: Gate,
}

impl Capture {
    /// Whether what is queued now is captured: then it goes on until
    /// [`leave`](Capture::leave).
    pub fn enter(&self) -> bool {
        self.gate.count_in();
        let goes_on = !self.is_over();
        if !goes_on {
            self.leave();
        }
        goes_on
    }

    pub fn leave(&self) {
        self.gate.count_out();
    }

    /// Ends it by `entry`, once what is being queued is queued, and hands over
    /// what was used.
    pub fn end<R>(&self, entry: impl FnOnce() -> R) -> (R, Vec<Kept>) {
        let _alone = self.gate.close();
        let ended = entry();
        self.ended.store(true, Ordering::Release);
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        (ended, std::mem::take(&mut kept))
    }

    pub fn add(&self, used: Kept) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push(used);
    }

    pub fn is_over(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }
}
