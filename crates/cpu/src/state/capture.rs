//! Captures: work that is queued in capturing streams becomes nodes of a graph.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::{self, ThreadId};

use super::context::Context;
use super::graph::{self, Graph};
use super::node::{Node, NodeKind, Params, Work, all_lead_to};
use super::status::{Failure, Result, Status};
use api::EdgeData;

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
    /// The thread that must end it, unless any may.
    thread: Option<ThreadId>,
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
        self.ended.store(true, Ordering::Release);
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
        if *self.is_own.get_mut() {
            graph::discard(self.handle);
        }
    }
}

impl CapturePoint {
    /// The start of a capture. Only the calling thread may end it, or any thread. It adds to
    /// a graph after these nodes, or makes one.
    pub(crate) fn begin(
        context: &Arc<Context>,
        origin: u64,
        any_thread: bool,
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
            thread: (!any_thread).then(|| thread::current().id()),
            blocks_default: AtomicBool::new(false),
            invalidated: AtomicBool::new(false),
            ended: AtomicBool::new(false),
        };
        Ok(CapturePoint {
            capture: Arc::new(capture),
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

    /// Fails unless the stream with this id and this thread may end the capture.
    pub(crate) fn check_end(&self, stream: u64) -> Result {
        if self.capture.origin != stream {
            return Err(Status::STREAM_CAPTURE_UNMATCHED.into());
        }
        let this = thread::current().id();
        if self.capture.thread.is_some_and(|thread| thread != this) {
            return Err(Status::STREAM_CAPTURE_WRONG_THREAD.into());
        }
        Ok(())
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
