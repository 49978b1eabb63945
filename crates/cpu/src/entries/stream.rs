//! Streams: work in order, each on a thread of its own once there is work.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::{c_int, c_uint, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::capture::Part;
use super::context::{self, Context};
use super::entry::{Given, entries, in_host_function};
use super::graph;
use super::handle::{Handles, pointer};
use super::queue::{Mark, Queue};
use super::status::{Answer, Failure, Status};
use api::{AttributeBits, CUcontext, CUdevice, CUevent, CUhostFn, CUstream, StreamCallback};

static STREAMS: Handles<Stream> = Handles::new();

/// Handles that name a stream of the current context: `NULL` and
/// `CU_STREAM_LEGACY`, `CU_STREAM_PER_THREAD`.
const LEGACY: usize = 1;
const PER_THREAD: usize = 2;

/// Accepted and given back: the host's scheduler knows no streams.
pub(super) const LEAST_PRIORITY: c_int = 0;
pub(super) const GREATEST_PRIORITY: c_int = -5;

const NON_BLOCKING: c_uint = 1;

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
    /// This thread's own default stream in each context, by the context's id.
    static PER_THREAD_STREAMS: RefCell<BTreeMap<usize, Arc<Stream>>> = const { RefCell::new(BTreeMap::new()) };
}

/// How a stream keeps in step with the default stream of its context.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// It is the default stream.
    Legacy,
    /// Its work and the default stream's wait for each other.
    Blocking,
    /// It goes its own way.
    NonBlocking,
}

pub(super) struct Stream {
    context: Weak<Context>,
    queue: Arc<Queue>,
    kind: Kind,
    priority: c_int,
    /// What was set of the attributes that mean nothing here, by number.
    attributes: Mutex<BTreeMap<c_uint, AttributeBits>>,
    id: u64,
    /// Whether there may be a part in a capture, which every call asks.
    captures: AtomicBool,
    part: Mutex<Option<Part>>,
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.queue.close();
    }
}

impl Stream {
    pub(super) fn new(context: Weak<Context>, kind: Kind, priority: c_int) -> Arc<Stream> {
        let id = super::handle::reserve() as u64;
        Arc::new(Stream {
            context,
            queue: Queue::new(),
            kind,
            priority,
            attributes: Mutex::default(),
            id,
            captures: AtomicBool::new(false),
            part: Mutex::default(),
        })
    }

    pub(super) fn id(&self) -> u64 {
        self.id
    }

    pub(super) fn is_default(&self) -> bool {
        self.kind == Kind::Legacy
    }

    pub(super) fn is_blocking(&self) -> bool {
        self.kind == Kind::Blocking
    }

    /// The stream's part in a capture that is not over.
    pub(super) fn part(&self) -> MutexGuard<'_, Option<Part>> {
        let mut part = self.part.lock().unwrap_or_else(PoisonError::into_inner);
        if part.as_ref().is_some_and(|part| part.capture.is_over()) {
            *part = None;
        }
        if part.is_none() {
            self.captures.store(false, Ordering::Release);
        }
        part
    }

    /// Whether work may have to become a node: cheaper to ask than [`part`](Stream::part).
    #[inline]
    pub(super) fn may_capture(&self) -> bool {
        self.captures.load(Ordering::Acquire)
    }

    /// After a part in a capture was put in its place.
    pub(super) fn set_captures(&self) {
        self.captures.store(true, Ordering::Release);
    }

    fn attributes(&self) -> MutexGuard<'_, BTreeMap<c_uint, AttributeBits>> {
        let attributes = self.attributes.lock();
        attributes.unwrap_or_else(PoisonError::into_inner)
    }

    /// `CU_STREAM_ATTRIBUTE_…`: kept and given back.
    fn attribute(&self, number: c_uint) -> Answer<AttributeBits> {
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

    fn set_attribute(&self, number: c_uint, bits: AttributeBits) -> Answer {
        match number {
            SYNCHRONIZATION if !matches!(bits.0[0], 1..=4) => {
                return Err(Status::INVALID_VALUE.because("unknown way of waiting for a stream"));
            }
            ACCESS_POLICY | SYNCHRONIZATION | MEMORY_SYNC_MAP | MEMORY_SYNC_DOMAIN => {
                self.attributes().insert(number, bits);
            }
            _ => return Err(unknown_attribute(number)),
        }
        Ok(())
    }

    fn create(context: &Arc<Context>, kind: Kind, priority: c_int) -> Arc<Stream> {
        let stream = Stream::new(Arc::downgrade(context), kind, priority);
        context.adopt(kind, &stream.queue);
        stream
    }

    /// What must be done before work that is handed in now may start.
    fn order(&self, context: &Context) -> Vec<Mark> {
        match self.kind {
            Kind::Legacy => context.unfinished(|kind| kind == Kind::Blocking),
            Kind::Blocking => context.legacy.queue.unfinished().into_iter().collect(),
            Kind::NonBlocking => Vec::new(),
        }
    }

    /// Hands in work for the stream's thread, to come after `mark` too.
    fn push_after(
        &self,
        context: &Arc<Context>,
        mark: Option<Mark>,
        work: impl FnOnce(&Arc<Context>) + Send + 'static,
    ) -> Mark {
        let mut after = self.order(context);
        after.extend(mark);
        let context = context.clone();
        self.queue.push(after, Box::new(move || work(&context)))
    }

    /// Hands in work that is passed over if the context has a fault when its
    /// turn comes.
    pub(super) fn push(
        &self,
        context: &Arc<Context>,
        work: impl FnOnce(&Arc<Context>) + Send + 'static,
    ) -> Mark {
        self.push_after(context, None, |context| {
            if context.check().is_ok() {
                work(context);
            }
        })
    }

    /// Does work in its turn on this thread, which would wait for it anyway.
    pub(super) fn run<R>(
        &self,
        context: &Arc<Context>,
        work: impl FnOnce() -> Answer<R>,
    ) -> Answer<R> {
        let _turn = self.queue.turn(&self.order(context));
        context.settle()?;
        work()
    }

    /// Does short work at once if nothing is in its way, else hands it in.
    pub(super) fn soon(
        &self,
        context: &Arc<Context>,
        work: impl FnOnce(&Arc<Context>) + Send + 'static,
    ) -> Mark {
        match self.queue.turn_now(&self.order(context)) {
            Some(turn) => {
                work(context);
                turn.mark()
            }
            None => self.push(context, work),
        }
    }

    /// The work that a caller who synchronises with this stream waits for.
    fn unfinished(&self, context: &Context) -> Vec<Mark> {
        let mut marks = if self.kind == Kind::Legacy {
            self.order(context)
        } else {
            Vec::new()
        };
        marks.extend(self.queue.unfinished());
        marks
    }

    /// Waits for the stream's own work.
    pub(super) fn wait(self: &Arc<Self>) {
        self.queue.mark().wait();
    }
}

/// The stream of a handle, with its context; both are good for work.
pub(super) fn find<H>(stream: Given<H>) -> Answer<(Arc<Context>, Arc<Stream>)> {
    let found = find_any(stream)?;
    found.0.check()?;
    Ok(found)
}

/// The same, also where the context has a fault.
pub(super) fn find_any<H>(stream: Given<H>) -> Answer<(Arc<Context>, Arc<Stream>)> {
    match stream.addr() {
        0 | LEGACY => {
            let context = context::current()?;
            context.refuse_default_stream()?;
            let stream = context.legacy.clone();
            Ok((context, stream))
        }
        PER_THREAD => {
            let context = context::current()?;
            let stream = PER_THREAD_STREAMS.with_borrow_mut(|streams| {
                let make = || Stream::create(&context, Kind::Blocking, LEAST_PRIORITY);
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
pub(super) fn destroy_all(context: &Arc<Context>) {
    STREAMS.remove_all(|stream| std::ptr::eq(stream.context.as_ptr(), &**context));
}

fn create(result: Given<CUstream>, flags: c_uint, priority: c_int) -> Answer {
    let context = context::working()?;
    let kind = match flags {
        0 => Kind::Blocking,
        NON_BLOCKING => Kind::NonBlocking,
        _ => return Err(Status::INVALID_VALUE.because("unknown stream flags")),
    };
    if result.is_null() {
        return Err(Status::INVALID_VALUE.into());
    }
    let priority = priority.clamp(GREATEST_PRIORITY, LEAST_PRIORITY);
    result.put(pointer(
        STREAMS.insert(Stream::create(&context, kind, priority)),
    ))
}

entries! {
    fn cuStreamCreate(stream: *mut CUstream, flags: c_uint) {
        create(stream, flags, LEAST_PRIORITY)
    }

    fn cuStreamCreateWithPriority(stream: *mut CUstream, flags: c_uint, priority: c_int) {
        create(stream, flags, priority)
    }

    /// Returns at once; what the stream still has to do is done.
    fn cuStreamDestroy_v2(stream: CUstream) {
        context::working()?;
        match STREAMS.remove(stream.addr()) {
            Some(_) => Ok(()),
            None => Err(Status::INVALID_HANDLE.because("no live stream has this handle")),
        }
    }

    fn cuStreamSynchronize(stream: CUstream) {
        let (context, stream) = find_any(stream)?;
        stream.refuse_captured("a capturing stream has nothing to wait for")?;
        stream.unfinished(&context).iter().for_each(Mark::wait);
        context.settle()
    }

    fn cuStreamQuery(stream: CUstream) {
        let (context, stream) = find(stream)?;
        stream.refuse_captured("a capturing stream has nothing to wait for")?;
        if stream.unfinished(&context).is_empty() {
            context.check()
        } else {
            Err(Status::NOT_READY.into())
        }
    }

    fn cuStreamWaitEvent(stream: CUstream, event: CUevent, flags: c_uint) {
        let (context, stream) = find(stream)?;
        if flags > 1 {
            return Err(Status::INVALID_VALUE.because("unknown flags of cuStreamWaitEvent"));
        }
        if let Some(part) = super::event::captured(event)? {
            return stream.join(&part);
        }
        if super::event::is_recorded(event)? {
            stream.refuse_uncaptured_event()?;
        }
        if let Some(mark) = super::event::pending(event)? {
            stream.push_after(&context, Some(mark), |_| ());
        }
        Ok(())
    }

    fn cuStreamAddCallback(
        stream: CUstream,
        callback: StreamCallback,
        data: *mut c_void,
        flags: c_uint,
    ) {
        let handle = stream.addr();
        let (context, stream) = find(stream)?;
        let callback = callback.ok_or(Status::INVALID_VALUE)?;
        if flags != 0 {
            return Err(Status::INVALID_VALUE.because("the flags of cuStreamAddCallback must be 0"));
        }
        stream.refuse_captured("a capturing stream has nothing to wait for")?;
        // It is called in any case, to hear of the fault.
        stream.push_after(&context, None, move |context| {
            let code = context
                .check()
                .map_or_else(|failure| failure.status.0, |()| 0);
            in_host_function(|| {
                // SAFETY: the caller gave the function and its argument to be called so.
                unsafe { callback(pointer(handle), code.cast_unsigned(), data.as_ptr()) }
            });
        });
        Ok(())
    }

    fn cuLaunchHostFunc(stream: CUstream, function: CUhostFn, data: *mut c_void) {
        let (context, stream) = find(stream)?;
        let function = function.ok_or(Status::INVALID_VALUE)?;
        let work = move |_: &Arc<Context>| {
            in_host_function(|| {
                // SAFETY: the caller gave the function and its argument to be called so.
                unsafe { function(data.as_ptr()) }
            });
        };
        if stream.record(graph::Kind::Host, || Arc::new(work))? {
            return Ok(());
        }
        stream.push(&context, work);
        Ok(())
    }

    fn cuStreamGetCtx(stream: CUstream, context: *mut CUcontext) {
        context.put(find(stream)?.0.pointer())
    }

    fn cuStreamGetFlags(stream: CUstream, flags: *mut c_uint) {
        let (_, stream) = find(stream)?;
        flags.put(if stream.kind == Kind::NonBlocking {
            NON_BLOCKING
        } else {
            0
        })
    }

    fn cuStreamGetPriority(stream: CUstream, priority: *mut c_int) {
        priority.put(find(stream)?.1.priority)
    }

    fn cuStreamGetAttribute(stream: CUstream, number: c_uint, value: *mut AttributeBits) {
        let (_, stream) = find(stream)?;
        value.put(stream.attribute(number)?)
    }

    fn cuStreamSetAttribute(stream: CUstream, number: c_uint, value: *const AttributeBits) {
        let (_, stream) = find(stream)?;
        stream.set_attribute(number, value.get()?)
    }

    fn cuStreamCopyAttributes(to: CUstream, from: CUstream) {
        let ((_, to), (_, from)) = (find(to)?, find(from)?);
        let attributes = from.attributes().clone();
        *to.attributes() = attributes;
        Ok(())
    }

    fn cuStreamGetDevice(stream: CUstream, device: *mut CUdevice) {
        device.put(find(stream)?.0.device())
    }

    fn cuStreamGetId(stream: CUstream, id: *mut u64) {
        id.put(find(stream)?.1.id)
    }
}
