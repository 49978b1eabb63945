//! Captures: work that is queued in capturing streams becomes nodes of a graph.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::{self, ThreadId};

use super::context::Context;
use super::handle;
use super::node::{Node, NodeKind, Nodes, Work, all_lead_to};
use super::status::{Failure, Result, Status};

/// One capture, in which several streams may take part.
pub(crate) struct Capture {
    nodes: Mutex<Nodes>,
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
}

impl CapturePoint {
    /// The start of a capture. Only the calling thread may end it, or any thread.
    pub(crate) fn begin(context: &Arc<Context>, origin: u64, any_thread: bool) -> CapturePoint {
        let capture = Capture {
            nodes: Mutex::default(),
            context: Arc::downgrade(context),
            origin,
            thread: (!any_thread).then(|| thread::current().id()),
            blocks_default: AtomicBool::new(false),
            invalidated: AtomicBool::new(false),
            ended: AtomicBool::new(false),
        };
        CapturePoint {
            capture: Arc::new(capture),
            dependencies: Vec::new(),
        }
    }

    /// Adds a node, on which the next one depends.
    pub(crate) fn add(&mut self, kind: NodeKind, work: Work) {
        let after = std::mem::take(&mut self.dependencies);
        let handle = handle::reserve();
        let nodes = self.capture.nodes.lock();
        nodes
            .unwrap_or_else(PoisonError::into_inner)
            .insert(handle, Node::new(kind, after, work));
        self.dependencies = vec![handle];
    }

    /// Lets the next node also depend on what `other` of the same capture stands for.
    pub(crate) fn join(&mut self, other: &CapturePoint) {
        for node in &other.dependencies {
            if !self.dependencies.contains(node) {
                self.dependencies.push(*node);
            }
        }
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

    /// Ends the capture; the nodes that it has made.
    pub(crate) fn end(self) -> Result<Nodes> {
        self.capture.end();
        self.capture.check()?;
        let nodes = self.capture.nodes.lock();
        let nodes = std::mem::take(&mut *nodes.unwrap_or_else(PoisonError::into_inner));
        if !all_lead_to(&nodes, &self.dependencies) {
            return Err(Status::STREAM_CAPTURE_UNJOINED
                .because("a stream that joined the capture was not joined back to its origin"));
        }
        Ok(nodes)
    }
}
