//! Capturing: work handed to a stream becomes nodes of a graph.

use std::cell::Cell;
use std::ffi::c_uint;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::thread::{self, ThreadId};

use super::context::Context;
use super::entry::entries;
use super::graph::{Graph, Kind, Work};
use super::status::{Answer, Status};
use super::stream::{self, Stream};
use api::{CUgraph, CUstream};

/// `CU_STREAM_CAPTURE_MODE_…`
const RELAXED: c_uint = 2;

thread_local! {
    /// Kept and given back: no call is unsafe for a capture here.
    static MODE: Cell<c_uint> = const { Cell::new(0) };
}

/// One capture, in which several streams may take part.
pub(super) struct Capture {
    graph: Arc<Graph>,
    context: Weak<Context>,
    /// The stream that began it and must end it.
    origin: u64,
    /// The thread that must end it, unless any may.
    thread: Option<ThreadId>,
    /// The default stream would have to wait for a stream that takes part.
    blocks_default: AtomicBool,
    broken: AtomicBool,
    over: AtomicBool,
}

impl Capture {
    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    fn check(&self) -> Answer {
        if self.broken.load(Ordering::Acquire) {
            return Err(Status::STREAM_CAPTURE_INVALIDATED
                .because("an earlier call in the capture was not allowed there"));
        }
        Ok(())
    }

    /// Notes that a stream takes part that waits for the default stream.
    fn block_default(&self) {
        if !self.blocks_default.swap(true, Ordering::AcqRel)
            && let Some(context) = self.context.upgrade()
        {
            context.captures.fetch_add(1, Ordering::AcqRel);
        }
    }

    fn end(&self) {
        self.over.store(true, Ordering::Release);
        if self.blocks_default.load(Ordering::Acquire)
            && let Some(context) = self.context.upgrade()
        {
            context.captures.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

/// A stream's part in a capture: what its next node comes after.
#[derive(Clone)]
pub(super) struct Part {
    pub(super) capture: Arc<Capture>,
    last: Vec<usize>,
}

impl Stream {
    /// Adds a node if the stream captures; says whether it does.
    pub(super) fn record(&self, kind: Kind, work: impl FnOnce() -> Work) -> Answer<bool> {
        let mut slot = self.part();
        let Some(part) = slot.as_mut() else {
            return Ok(false);
        };
        part.capture.check()?;
        let after = std::mem::take(&mut part.last);
        part.last = vec![part.capture.graph.add(kind, after, work())];
        Ok(true)
    }

    /// Fails where the stream captures, which spoils the capture too.
    pub(super) fn refuse_captured(&self, why: &str) -> Answer {
        match self.part().as_ref() {
            None => Ok(()),
            Some(part) => {
                part.capture.broken.store(true, Ordering::Release);
                Err(Status::STREAM_CAPTURE_UNSUPPORTED.because(why))
            }
        }
    }

    /// What an event that is recorded now stands for, if the stream captures.
    pub(super) fn captured(&self) -> Answer<Option<Part>> {
        let slot = self.part();
        if let Some(part) = slot.as_ref() {
            part.capture.check()?;
        }
        Ok(slot.clone())
    }

    /// Comes after an event of a capture, and joins it.
    pub(super) fn join(&self, event: &Part) -> Answer {
        event.capture.check()?;
        let mut slot = self.part();
        match slot.as_mut() {
            None => {
                if self.is_blocking() {
                    event.capture.block_default();
                }
                *slot = Some(event.clone());
                drop(slot);
                self.set_captures();
                Ok(())
            }
            Some(part) if Arc::ptr_eq(&part.capture, &event.capture) => {
                for node in &event.last {
                    if !part.last.contains(node) {
                        part.last.push(*node);
                    }
                }
                Ok(())
            }
            Some(part) => {
                part.capture.broken.store(true, Ordering::Release);
                Err(Status::STREAM_CAPTURE_MERGE.into())
            }
        }
    }

    /// Waiting for an event outside of the capture would tie it to work that
    /// ran once.
    pub(super) fn refuse_uncaptured_event(&self) -> Answer {
        match self.part().as_ref() {
            None => Ok(()),
            Some(part) => {
                part.capture.broken.store(true, Ordering::Release);
                Err(Status::STREAM_CAPTURE_ISOLATION.into())
            }
        }
    }
}

entries! {
    fn cuStreamBeginCapture_v2(stream: CUstream, mode: c_uint) {
        let (context, stream) = stream::find(stream)?;
        if mode > RELAXED {
            return Err(Status::INVALID_VALUE.because("unknown mode of a capture"));
        }
        if stream.is_default() {
            return Err(Status::STREAM_CAPTURE_UNSUPPORTED
                .because("the default stream cannot be captured"));
        }
        let mut slot = stream.part();
        if slot.is_some() {
            return Err(Status::ILLEGAL_STATE.because("the stream captures already"));
        }
        let capture = Arc::new(Capture {
            graph: Arc::default(),
            context: Arc::downgrade(&context),
            origin: stream.id(),
            thread: (mode != RELAXED).then(|| thread::current().id()),
            blocks_default: AtomicBool::new(false),
            broken: AtomicBool::new(false),
            over: AtomicBool::new(false),
        });
        if stream.is_blocking() {
            capture.block_default();
        }
        *slot = Some(Part {
            capture,
            last: Vec::new(),
        });
        drop(slot);
        stream.set_captures();
        Ok(())
    }

    fn cuStreamEndCapture(stream: CUstream, graph: *mut CUgraph) {
        let (_, stream) = stream::find_any(stream)?;
        if graph.is_null() {
            return Err(Status::INVALID_VALUE.because("nowhere to put the graph"));
        }
        graph.put_if_asked(std::ptr::null_mut());
        let mut slot = stream.part();
        let part = slot
            .as_ref()
            .ok_or_else(|| Status::ILLEGAL_STATE.because("the stream does not capture"))?;
        let capture = &part.capture;
        if capture.origin != stream.id() {
            return Err(Status::STREAM_CAPTURE_UNMATCHED.into());
        }
        if capture.thread.is_some_and(|thread| thread != thread::current().id()) {
            return Err(Status::STREAM_CAPTURE_WRONG_THREAD.into());
        }
        let part = slot.take().ok_or(Status::ILLEGAL_STATE)?;
        part.capture.end();
        part.capture.check()?;
        if !part.capture.graph.all_lead_to(&part.last) {
            return Err(Status::STREAM_CAPTURE_UNJOINED
                .because("a stream that was drawn into the capture did not come back"));
        }
        graph.put(part.capture.graph.clone().publish())
    }

    fn cuStreamIsCapturing(stream: CUstream, status: *mut c_uint) {
        let (_, stream) = stream::find_any(stream)?;
        let slot = stream.part();
        status.put(match slot.as_ref() {
            None => 0,
            Some(part) if part.capture.check().is_ok() => 1,
            Some(_) => 2,
        })
    }

    fn cuThreadExchangeStreamCaptureMode(mode: *mut c_uint) {
        let new = mode.get()?;
        if new > RELAXED {
            return Err(Status::INVALID_VALUE.because("unknown mode of a capture"));
        }
        mode.put(MODE.replace(new))
    }
}
