//! Captures: work that is queued in capturing streams becomes nodes of a graph.

use std::cell::Cell;
use std::ffi::c_uint;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{self, ThreadId};

use super::context::Context;
use super::graph::{self, Graph};
use super::node::{Node, NodeKind, Params, Work, all_lead_to};
use super::status::{Failure, Result, Status};
use api::EdgeData;

/// Which unsafe calls are prohibited: by a capture, or by the mode of the calling thread
/// (`CU_STREAM_CAPTURE_MODE_…`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub(crate) enum CaptureMode {
    Global = 0,
    ThreadLocal = 1,
    Relaxed = 2,
}

impl CaptureMode {
    pub(crate) fn new(number: c_uint) -> Result<CaptureMode> {
        match number {
            0 => Ok(CaptureMode::Global),
            1 => Ok(CaptureMode::ThreadLocal),
            2 => Ok(CaptureMode::Relaxed),
            _ => Err(Status::INVALID_VALUE.because(format!(
                "unknown capture mode {number}; pass 0 (global), 1 (thread-local) or 2 (relaxed)"
            ))),
        }
    }
}

/// The captures that have not ended.
static ACTIVE: Mutex<Vec<Weak<Capture>>> = Mutex::new(Vec::new());

/// The length of `ACTIVE`, which every unsafe call reads.
static ACTIVE_COUNT: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static THREAD_MODE: Cell<c_uint> = const { Cell::new(CaptureMode::Global as c_uint) };
}

/// Sets the mode of the calling thread; returns the former one. Like NVIDIA's driver, it accepts any
/// number. Unknown modes act as the global one.
pub(crate) fn exchange_mode(mode: c_uint) -> c_uint {
    THREAD_MODE.replace(mode)
}

fn active() -> MutexGuard<'static, Vec<Weak<Capture>>> {
    ACTIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Fails if an active capture prohibits unsafe calls of this thread, and invalidates all captures
/// that do. Synchronization, queries, allocation and the like are unsafe.
#[inline]
pub(crate) fn refuse_unsafe_call() -> Result {
    match ACTIVE_COUNT.load(Ordering::Acquire) {
        0 => Ok(()),
        _ => invalidate_prohibiting(),
    }
}

#[cold]
fn invalidate_prohibiting() -> Result {
    let mode = CaptureMode::new(THREAD_MODE.get()).unwrap_or(CaptureMode::Global);
    let this = thread::current().id();
    refuse(
        Status::STREAM_CAPTURE_UNSUPPORTED.because(
            "an unsafe call while a stream captures; make it before or after the capture, or \
             capture in relaxed mode",
        ),
        |capture| match (mode, capture.mode) {
            (CaptureMode::Relaxed, _) | (_, CaptureMode::Relaxed) => false,
            (CaptureMode::Global, CaptureMode::Global) => true,
            _ => capture.thread == this,
        },
    )
}

/// Fails if a stream of the context captures, and invalidates the captures: they never finish.
pub(crate) fn refuse_wait(context: &Arc<Context>) -> Result {
    if ACTIVE_COUNT.load(Ordering::Acquire) == 0 {
        return Ok(());
    }
    refuse(
        Status::STREAM_CAPTURE_UNSUPPORTED
            .because("a stream of the context captures; end the capture first"),
        |capture| std::ptr::eq(capture.context.as_ptr(), &**context),
    )
}

/// Fails if a capture adds to the graph of this handle, and invalidates it.
pub(crate) fn refuse_destruction(graph: usize) -> Result {
    if ACTIVE_COUNT.load(Ordering::Acquire) == 0 {
        return Ok(());
    }
    let failure = Status::ILLEGAL_STATE
        .because("a stream captures into the graph; end the capture before you destroy the graph");
    refuse(failure, |capture| capture.handle == graph)
}

/// Invalidates the active captures that `prohibits` names, and fails if there is one.
fn refuse(failure: Failure, prohibits: impl Fn(&Capture) -> bool) -> Result {
    // Dropping a capture takes the lock.
    let captures: Vec<_> = active().iter().filter_map(Weak::upgrade).collect();
    let mut prohibiting = captures
        .iter()
        .filter(|capture| prohibits(capture))
        .peekable();
    if prohibiting.peek().is_none() {
        return Ok(());
    }
    prohibiting.for_each(|capture| {
        capture.invalidate(failure.clone());
    });
    Err(failure)
}

/// One capture, in which several streams may take part.
pub(crate) struct Capture {
    /// What it makes, or adds to.
    pub(crate) graph: Arc<Graph>,
    pub(crate) handle: usize,
    /// No caller has the graph's handle yet: it ends with the capture.
    is_own: AtomicBool,
    /// The nodes that it has made.
    made: Mutex<Vec<usize>>,
    context: Weak<Context>,
    /// `Stream::id` of the stream that began it and must end it.
    origin: u64,
    /// The thread that began it. In relaxed mode any thread may end it.
    thread: ThreadId,
    mode: CaptureMode,
    /// The default stream waits for a stream that takes part.
    blocks_default: AtomicBool,
    invalidated: AtomicBool,
    ended: AtomicBool,
}

impl Capture {
    pub(crate) fn is_over(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    pub(crate) fn check(&self) -> Result {
        if self.invalidated.load(Ordering::Acquire) {
            return Err(Status::STREAM_CAPTURE_INVALIDATED
                .because("an earlier call in the capture was not allowed there"));
        }
        Ok(())
    }

    /// Makes the capture invalid, because of a call that fails with `failure`.
    pub(crate) fn invalidate(&self, failure: impl Into<Failure>) -> Failure {
        self.invalidated.store(true, Ordering::Release);
        failure.into()
    }

    /// Notes that a stream takes part that the default stream waits for.
    pub(crate) fn block_default(&self) {
        if !self.blocks_default.swap(true, Ordering::AcqRel)
            && let Some(context) = self.context.upgrade()
        {
            context.captures.fetch_add(1, Ordering::AcqRel);
        }
    }

    fn end(&self) {
        if self.ended.swap(true, Ordering::AcqRel) {
            return;
        }
        let mut active = active();
        active.retain(|capture| !std::ptr::eq(capture.as_ptr(), self));
        ACTIVE_COUNT.store(active.len(), Ordering::Release);
        drop(active);
        if self.blocks_default.load(Ordering::Acquire)
            && let Some(context) = self.context.upgrade()
        {
            context.captures.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

/// A point in a capture, which a stream has reached or an event stands for.
#[derive(Clone)]
pub(crate) struct CapturePoint {
    pub(crate) capture: Arc<Capture>,
    /// What the next node depends on.
    dependencies: Vec<usize>,
    /// What the edges from there carry, which is nothing.
    edges: Vec<EdgeData>,
}

impl Drop for Capture {
    fn drop(&mut self) {
        self.end();
        if *self.is_own.get_mut() {
            graph::discard(self.handle);
        }
    }
}

impl CapturePoint {
    /// The start of a capture. It adds to a graph after these nodes, or makes one.
    pub(crate) fn begin(
        context: &Arc<Context>,
        origin: u64,
        mode: CaptureMode,
        to: Option<(usize, Vec<usize>)>,
    ) -> Result<CapturePoint> {
        let is_own = to.is_none();
        let (handle, dependencies) = to.unwrap_or_else(|| (graph::create(), Vec::new()));
        let capture = Capture {
            graph: graph::find(handle)?,
            handle,
            is_own: AtomicBool::new(is_own),
            made: Mutex::default(),
            context: Arc::downgrade(context),
            origin,
            thread: thread::current().id(),
            mode,
            blocks_default: AtomicBool::new(false),
            invalidated: AtomicBool::new(false),
            ended: AtomicBool::new(false),
        };
        let capture = Arc::new(capture);
        let mut active = active();
        active.push(Arc::downgrade(&capture));
        ACTIVE_COUNT.store(active.len(), Ordering::Release);
        drop(active);
        Ok(CapturePoint {
            capture,
            dependencies,
            edges: Vec::new(),
        })
    }

    /// Adds a node, on which the next one depends.
    pub(crate) fn add(&mut self, kind: NodeKind, params: Params, work: Work) {
        let mut after = std::mem::take(&mut self.dependencies);
        // A caller that has the graph may have taken nodes out of it.
        let nodes = self.capture.graph.nodes();
        after.retain(|node| nodes.contains_key(node));
        drop(nodes);
        let handle = self.capture.graph.add(Node::new(kind, params, after, work));
        let made = self.capture.made.lock();
        made.unwrap_or_else(PoisonError::into_inner).push(handle);
        self.dependencies = vec![handle];
    }

    /// The nodes that the next one depends on, and what the edges from there carry.
    pub(crate) fn next_edges(&mut self) -> (&[usize], &[EdgeData]) {
        self.edges
            .resize(self.dependencies.len(), EdgeData::default());
        (&self.dependencies, &self.edges)
    }

    /// Lets the next node depend on these nodes of the graph too, or on them alone.
    pub(crate) fn depend_on(&mut self, nodes: &[usize], alone: bool) {
        if alone {
            self.dependencies.clear();
        }
        for node in nodes {
            if !self.dependencies.contains(node) {
                self.dependencies.push(*node);
            }
        }
    }

    /// Lets the next node also depend on what `other` of the same capture stands for.
    pub(crate) fn join(&mut self, other: &CapturePoint) {
        self.depend_on(&other.dependencies, false);
    }

    /// Fails unless the stream with this id began the capture.
    pub(crate) fn check_origin(&self, stream: u64) -> Result {
        if self.capture.origin == stream {
            Ok(())
        } else {
            Err(Status::STREAM_CAPTURE_UNMATCHED.into())
        }
    }

    /// Fails unless this thread may end the capture.
    pub(crate) fn check_thread(&self) -> Result {
        if self.capture.mode != CaptureMode::Relaxed
            && self.capture.thread != thread::current().id()
        {
            return Err(Status::STREAM_CAPTURE_WRONG_THREAD.into());
        }
        Ok(())
    }

    /// Ends the capture and destroys its graph.
    pub(crate) fn abandon(self) {
        self.capture.is_own.store(true, Ordering::Release);
        self.capture.end();
    }

    /// Ends the capture; the handle of its graph.
    pub(crate) fn end(self) -> Result<usize> {
        self.capture.end();
        self.capture.check()?;
        let made = self.capture.made.lock();
        let made = made.unwrap_or_else(PoisonError::into_inner);
        if !all_lead_to(&self.capture.graph.nodes(), &made, &self.dependencies) {
            return Err(Status::STREAM_CAPTURE_UNJOINED
                .because("a stream that joined the capture was not joined back to its origin"));
        }
        self.capture.is_own.store(false, Ordering::Release);
        Ok(self.capture.handle)
    }
}
