//! Streams: work in order, each on a thread of its own once there is work.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::{c_int, c_uint};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::capture::{CaptureMode, CapturePoint};
use super::context::{self, Context, StreamKind};
use super::graph::Graph;
use super::handle::{self, Handles};
use super::node::{NodeKind, Params, Work};
use super::queue::{Mark, Queue};
use super::status::{Failure, Result, Status};
use crate::observe;
use api::AttributeBits;

static STREAMS: Handles<Stream> = Handles::new();

/// The default stream of each context, by the context's id.
static DEFAULT_STREAMS: Handles<Stream> = Handles::new();

/// Handles that name a stream of the current context: `NULL` and
/// `CU_STREAM_LEGACY`, `CU_STREAM_PER_THREAD`.
const LEGACY: usize = 1;
const PER_THREAD: usize = 2;

/// Stored without effect: the host's scheduler does not know streams.
pub(crate) const LEAST_PRIORITY: c_int = 0;
pub(crate) const GREATEST_PRIORITY: c_int = -5;

/// `CU_STREAM_NON_BLOCKING`
pub(crate) const NON_BLOCKING: c_uint = 1;

/// `CU_STREAM_ATTRIBUTE_…`
const ACCESS_POLICY: c_uint = 1;
const SYNCHRONIZATION: c_uint = 3;
const PRIORITY: c_uint = 8;
const MEMORY_SYNC_MAP: c_uint = 9;
const MEMORY_SYNC_DOMAIN: c_uint = 10;

fn unknown_attribute(number: c_uint) -> Failure {
    Status::INVALID_VALUE.because(format!("no attribute of streams has the number {number}"))
}

thread_local! {
    /// The per-thread default stream in each context, by the context's id.
    static PER_THREAD_STREAMS: RefCell<BTreeMap<usize, Arc<Stream>>> = const { RefCell::new(BTreeMap::new()) };
}

pub(crate) struct Stream {
    context: Weak<Context>,
    queue: Arc<Queue>,
    kind: StreamKind,
    priority: c_int,
    /// The attributes that were set, by number; they have no effect.
    attributes: Mutex<BTreeMap<c_uint, AttributeBits>>,
    id: u64,
    /// Whether `capture` may hold something, which every call asks.
    may_capture: AtomicBool,
    capture: Mutex<Option<CapturePoint>>,
}

impl Drop for Stream {
    fn drop(&mut self) {
        // The queue of the default stream is its context's.
        if !self.is_default() {
            self.queue.close();
        }
    }
}

impl Stream {
    fn new(
        context: &Arc<Context>,
        queue: Arc<Queue>,
        kind: StreamKind,
        priority: c_int,
    ) -> Arc<Stream> {
        Arc::new(Stream {
            context: Arc::downgrade(context),
            queue,
            kind,
            priority,
            attributes: Mutex::default(),
            id: handle::reserve() as u64,
            may_capture: AtomicBool::new(false),
            capture: Mutex::default(),
        })
    }

    fn create(context: &Arc<Context>, kind: StreamKind, priority: c_int) -> Arc<Stream> {
        let queue = Queue::new();
        context.add_queue(kind, &queue);
        Stream::new(context, queue, kind, priority)
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn is_default(&self) -> bool {
        self.kind == StreamKind::Default
    }

    pub(crate) fn kind(&self) -> StreamKind {
        self.kind
    }

    pub(crate) fn priority(&self) -> c_int {
        self.priority
    }

    /// The point that the stream has reached in a capture that is not over.
    pub(crate) fn capture(&self) -> MutexGuard<'_, Option<CapturePoint>> {
        let mut point = self.capture.lock().unwrap_or_else(PoisonError::into_inner);
        if point.as_ref().is_some_and(|point| point.capture.is_over()) {
            *point = None;
        }
        if point.is_none() {
            self.may_capture.store(false, Ordering::Release);
        }
        point
    }

    /// Whether work may have to become a node: cheaper than [`capture`](Stream::capture).
    #[inline]
    pub(crate) fn may_capture(&self) -> bool {
        self.may_capture.load(Ordering::Acquire)
    }

    /// Sets the point of a stream that captured nothing.
    fn start_capture(&self, mut slot: MutexGuard<'_, Option<CapturePoint>>, point: CapturePoint) {
        if self.kind == StreamKind::Blocking {
            point.capture.block_default();
        }
        *slot = Some(point);
        drop(slot);
        self.may_capture.store(true, Ordering::Release);
    }

    /// Begins a capture. It adds to a graph after these nodes, or makes one.
    pub(crate) fn begin_capture(
        &self,
        context: &Arc<Context>,
        mode: CaptureMode,
        to: Option<(usize, Vec<usize>)>,
    ) -> Result {
        if self.is_default() {
            return Err(
                Status::STREAM_CAPTURE_UNSUPPORTED.because("the default stream cannot be captured")
            );
        }
        let slot = self.capture();
        if slot.is_some() {
            return Err(Status::ILLEGAL_STATE.because("the stream captures already"));
        }
        let point = CapturePoint::begin(context, self.id, mode, to)?;
        self.start_capture(slot, point);
        Ok(())
    }

    /// Ends the capture that began in this stream; the handle of its graph.
    pub(crate) fn end_capture(&self) -> Result<usize> {
        let mut slot = self.capture();
        let point = slot
            .take()
            .ok_or_else(|| Status::ILLEGAL_STATE.because("the stream does not capture"))?;
        // On the wrong thread the call fails, and still ends the capture.
        point.check_thread()?;
        if let Err(failure) = point.check_origin(self.id) {
            let failure = point.capture.invalidate(failure);
            *slot = Some(point);
            return Err(failure);
        }
        point.end()
    }

    /// Adds a node if the stream captures; returns whether it does.
    pub(crate) fn record(&self, kind: NodeKind, work: impl FnOnce() -> Work) -> Result<bool> {
        self.record_in(kind, |_| Ok((Params::Unknown, work())))
    }

    /// The same, where the work depends on the graph.
    pub(crate) fn record_in(
        &self,
        kind: NodeKind,
        work: impl FnOnce(&Graph) -> Result<(Params, Work)>,
    ) -> Result<bool> {
        let mut slot = self.capture();
        let Some(point) = slot.as_mut() else {
            return Ok(false);
        };
        point.capture.check()?;
        let (params, work) = work(&point.capture.graph)?;
        point.add(kind, params, work);
        Ok(true)
    }

    /// Fails if the stream captures; the capture stays valid.
    pub(crate) fn refuse_call(&self, why: &str) -> Result {
        match self.capture().as_ref() {
            None => Ok(()),
            Some(_) => Err(Status::STREAM_CAPTURE_UNSUPPORTED.because(why)),
        }
    }

    /// Fails if the stream captures, which invalidates the capture too.
    pub(crate) fn refuse_captured(&self, why: &str) -> Result {
        match self.capture().as_ref() {
            None => Ok(()),
            Some(point) => {
                let failure = Status::STREAM_CAPTURE_UNSUPPORTED.because(why);
                Err(point.capture.invalidate(failure))
            }
        }
    }

    /// Ends the capture that the stream began, and destroys its graph, as NVIDIA's driver does when
    /// the stream is destroyed.
    fn abandon_capture(&self) {
        let point = self.capture().take();
        if let Some(point) = point.filter(|point| point.check_origin(self.id()).is_ok()) {
            point.abandon();
        }
    }

    /// Invalidates the stream's capture, if there is one, because of a call that fails.
    pub(crate) fn fail_capture(&self, failure: Failure) -> Failure {
        match self.capture().as_ref() {
            None => failure,
            Some(point) => point.capture.invalidate(failure),
        }
    }

    /// What an event that is recorded now stands for, if the stream captures.
    pub(crate) fn captured(&self) -> Result<Option<CapturePoint>> {
        let slot = self.capture();
        if let Some(point) = slot.as_ref() {
            point.capture.check()?;
        }
        Ok(slot.clone())
    }

    /// Lets the next work depend on an event of a capture, and joins the capture.
    pub(crate) fn join(&self, event: &CapturePoint) -> Result {
        event.capture.check()?;
        let mut slot = self.capture();
        match slot.as_mut() {
            None => self.start_capture(slot, event.clone()),
            Some(point) if Arc::ptr_eq(&point.capture, &event.capture) => point.join(event),
            Some(point) => return Err(point.capture.invalidate(Status::STREAM_CAPTURE_MERGE)),
        }
        Ok(())
    }

    /// Fails if the stream captures: an event outside of the capture stands for work
    /// that runs only once.
    pub(crate) fn refuse_uncaptured_event(&self) -> Result {
        match self.capture().as_ref() {
            None => Ok(()),
            Some(point) => Err(point.capture.invalidate(Status::STREAM_CAPTURE_ISOLATION)),
        }
    }

    pub(crate) fn attributes(&self) -> MutexGuard<'_, BTreeMap<c_uint, AttributeBits>> {
        let attributes = self.attributes.lock();
        attributes.unwrap_or_else(PoisonError::into_inner)
    }

    /// `CU_STREAM_ATTRIBUTE_…` number `number`.
    pub(crate) fn attribute(&self, number: c_uint) -> Result<AttributeBits> {
        let mut bits = AttributeBits::default();
        match number {
            PRIORITY => bits.0[0] = self.priority.cast_unsigned(),
            SYNCHRONIZATION => bits.0[0] = 1,
            // The domain 1 stands for remote memory.
            MEMORY_SYNC_MAP => bits.0[0] = 0x100,
            ACCESS_POLICY | MEMORY_SYNC_DOMAIN => {}
            _ => return Err(unknown_attribute(number)),
        }
        Ok(self.attributes().get(&number).copied().unwrap_or(bits))
    }

    pub(crate) fn set_attribute(&self, number: c_uint, bits: AttributeBits) -> Result {
        match number {
            SYNCHRONIZATION if !matches!(bits.0[0], 1..=4) => {
                return Err(
                    Status::INVALID_VALUE.because("unknown synchronization policy of a stream")
                );
            }
            ACCESS_POLICY | SYNCHRONIZATION | MEMORY_SYNC_MAP | MEMORY_SYNC_DOMAIN | PRIORITY => {
                self.attributes().insert(number, bits);
            }
            _ => return Err(unknown_attribute(number)),
        }
        Ok(())
    }

    /// What must be done before work that is queued now may start.
    fn order(&self, context: &Context) -> Vec<Mark> {
        let mut marks = context.barriers();
        match self.kind {
            StreamKind::Default => {
                marks.extend(context.unfinished(|kind| kind == StreamKind::Blocking));
            }
            StreamKind::Blocking => marks.extend(context.default_queue().unfinished()),
            StreamKind::NonBlocking => {}
        }
        marks
    }

    /// Queues work that is skipped if the context has a fault by then.
    pub(crate) fn push(
        &self,
        context: &Arc<Context>,
        work: impl FnOnce(&Arc<Context>) + Send + 'static,
    ) -> Mark {
        self.push_after(context, Vec::new(), work)
    }

    /// The same for work that also depends on `after`.
    pub(crate) fn push_after(
        &self,
        context: &Arc<Context>,
        mut after: Vec<Mark>,
        work: impl FnOnce(&Arc<Context>) + Send + 'static,
    ) -> Mark {
        after.extend(self.order(context));
        let context = context.clone();
        let (id, is_default) = (self.id, self.is_default());
        let work = move || {
            if context.check().is_ok() {
                observe::in_stream(id, is_default, || work(&context));
            }
        };
        self.queue.push(after, Box::new(work))
    }

    /// Queues work that also depends on `mark`, and that runs after a fault too.
    pub(crate) fn push_always(
        &self,
        context: &Context,
        mark: Option<Mark>,
        work: impl FnOnce() + Send + 'static,
    ) -> Mark {
        let mut after = self.order(context);
        after.extend(mark);
        self.queue.push(after, Box::new(work))
    }

    /// Runs work in order on this thread, which would wait for it anyway.
    pub(crate) fn run_here<R>(
        &self,
        context: &Arc<Context>,
        work: impl FnOnce() -> Result<R>,
    ) -> Result<R> {
        let _guard = self.queue.enter(&self.order(context));
        context.finish_wait()?;
        observe::in_stream(self.id, self.is_default(), work)
    }

    /// Runs short work at once if it has nothing to wait for, else queues it.
    pub(crate) fn run_or_push(
        &self,
        context: &Arc<Context>,
        work: impl FnOnce(&Arc<Context>) + Send + 'static,
    ) -> Mark {
        match self.queue.try_enter(&self.order(context)) {
            Some(guard) => {
                observe::in_stream(self.id, self.is_default(), || work(context));
                guard.mark()
            }
            None => self.push(context, work),
        }
    }

    /// What a caller that synchronizes with this stream waits for.
    pub(crate) fn unfinished(&self, context: &Context) -> Vec<Mark> {
        let mut marks = if self.kind == StreamKind::Default {
            self.order(context)
        } else {
            Vec::new()
        };
        marks.extend(self.queue.unfinished());
        marks
    }
}

/// The default stream of a context.
fn default_of(context: &Arc<Context>) -> Arc<Stream> {
    DEFAULT_STREAMS.get_or_insert(context.id(), || {
        let queue = Arc::clone(context.default_queue());
        Stream::new(context, queue, StreamKind::Default, LEAST_PRIORITY)
    })
}

/// The default stream of the current context, in which calls without a stream are
/// ordered.
pub(crate) fn default_stream() -> Result<(Arc<Context>, Arc<Stream>)> {
    let context = context::working()?;
    context.refuse_default_stream()?;
    let stream = default_of(&context);
    Ok((context, stream))
}

/// The stream of a handle, with its context, which has no fault.
pub(crate) fn find(stream: usize) -> Result<(Arc<Context>, Arc<Stream>)> {
    let found = find_any(stream)?;
    found.0.check()?;
    Ok(found)
}

/// The same, also if the context has a fault.
pub(crate) fn find_any(stream: usize) -> Result<(Arc<Context>, Arc<Stream>)> {
    match stream {
        0 | LEGACY => {
            let context = context::current()?;
            context.refuse_default_stream()?;
            let stream = default_of(&context);
            Ok((context, stream))
        }
        PER_THREAD => {
            let context = context::current()?;
            let stream = PER_THREAD_STREAMS.with_borrow_mut(|streams| {
                let make = || Stream::create(&context, StreamKind::Blocking, LEAST_PRIORITY);
                streams.entry(context.id()).or_insert_with(make).clone()
            });
            Ok((context, stream))
        }
        _ => {
            context::current()?;
            let stream = STREAMS
                .get(stream)
                .ok_or_else(|| Status::INVALID_HANDLE.because("no live stream has this handle"))?;
            let context = stream
                .context
                .upgrade()
                .ok_or(Status::CONTEXT_IS_DESTROYED)?;
            Ok((context, stream))
        }
    }
}

/// Frees the handles of a context's streams, whose work is done.
pub(crate) fn destroy_all(context: &Arc<Context>) {
    DEFAULT_STREAMS.remove(context.id());
    STREAMS.remove_all(|stream| std::ptr::eq(stream.context.as_ptr(), &**context));
}

/// Makes a stream of the current context; returns its handle.
pub(crate) fn create(flags: c_uint, priority: c_int) -> Result<usize> {
    let context = context::working()?;
    let kind = match flags {
        0 => StreamKind::Blocking,
        NON_BLOCKING => StreamKind::NonBlocking,
        _ => return Err(Status::INVALID_VALUE.because("unknown stream flags")),
    };
    let priority = priority.clamp(GREATEST_PRIORITY, LEAST_PRIORITY);
    Ok(STREAMS.insert(Stream::create(&context, kind, priority)))
}

/// Frees the handle of a stream; the work that it still has runs.
pub(crate) fn destroy(stream: usize) -> Result {
    context::working()?;
    match STREAMS.remove(stream) {
        Some(stream) => {
            stream.abandon_capture();
            Ok(())
        }
        None => Err(Status::INVALID_HANDLE.because("no live stream has this handle")),
    }
}
