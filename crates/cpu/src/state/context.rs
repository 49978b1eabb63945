//! Contexts, and which one is current on a thread. What lives in a context is above
//! this file and knows it; [`teardown`](super::teardown) ends all of it.

use std::cell::RefCell;
use std::ffi::c_uint;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use super::device::{self, MAX_DEVICES};
use super::handle::{self, Handles};
use super::pool;
use super::queue::{Mark, Queue};
use super::status::{Failure, Result, Status};
use api::{CUcontext, CUdevice};

static CONTEXTS: Handles<Context> = Handles::new();

/// The status and the text of a fault, once there is one.
type FirstFault = OnceLock<(Status, String)>;

/// The first fault on each device. As with a GPU, only a new process has a usable device again.
static FAULTS: [FirstFault; MAX_DEVICES as usize] =
    [const { OnceLock::new() }; MAX_DEVICES as usize];

#[inline]
fn result_of(fault: &FirstFault) -> Result {
    match fault.get() {
        None => Ok(()),
        Some((status, text)) => Err(status.because(text.as_str())),
    }
}

thread_local! {
    /// The contexts that this thread pushed; the last one is current.
    static STACK: RefCell<Vec<Arc<Context>>> = const { RefCell::new(Vec::new()) };
}

/// How a stream is ordered with the default stream of its context.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum StreamKind {
    /// It is the default stream.
    Default,
    /// Its work and the default stream's wait for each other.
    Blocking,
    /// It is not ordered with the default stream.
    NonBlocking,
}

/// How a context came to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ContextKind {
    /// By `cuCtxCreate`.
    Created,
    Primary,
    /// By `cuGreenCtxCreate`, from the primary one of its device.
    Green,
}

pub(crate) struct Context {
    handle: usize,
    /// A primary context that was reset and the next one share a handle, but not this number.
    id: usize,
    device: CUdevice,
    pub(crate) flags: AtomicU32,
    pub(crate) cache_config: AtomicU32,
    kind: ContextKind,
    /// The queue of the default stream.
    default_queue: Arc<Queue>,
    /// The queues of all other streams, also of destroyed ones that still have work.
    queues: Mutex<Vec<(StreamKind, Weak<Queue>)>>,
    /// The first fault of a kernel, which every later call returns.
    fault: FirstFault,
    destroyed: AtomicBool,
    /// Active captures in streams that the default stream waits for.
    pub(crate) captures: AtomicU32,
    /// References by `cuCtxAttach` in addition to the first.
    pub(crate) attached: AtomicU32,
    limits: Mutex<[usize; DEFAULT_LIMITS.len()]>,
    /// Marks that all later work waits for (`cuCtxWaitEvent`), and whether there are any.
    barriers: Mutex<Vec<Mark>>,
    has_barriers: AtomicBool,
}

/// The initial values of `CU_LIMIT_STACK_SIZE` … `CU_LIMIT_PERSISTING_L2_CACHE_SIZE`.
const DEFAULT_LIMITS: [usize; 7] = [1024, 0, 0, 0, 2048, 64, 11_796_480];
const STACK_BYTES: c_uint = 0;
/// The local memory of a thread. Its stack must be smaller.
const TOO_LARGE_STACK: usize = 512 << 10;
/// Units and least values of limits on an H200, which rounds them up.
const STACK_UNIT: usize = 16;
const PRINTF_UNIT: usize = 256;
const LEAST_PRINTF_BYTES: usize = 512 << 10;
const HEAP_UNIT: usize = 64 << 10;
const LEAST_HEAP_BYTES: usize = 4 << 20;
const SYNC_DEPTH: c_uint = 3;
const PENDING_LAUNCHES: c_uint = 4;
const LEAST_PENDING_LAUNCHES: usize = 32;
const FETCH_BYTES: c_uint = 5;
const MAX_FETCH_BYTES: usize = 128;
/// `CU_LIMIT_SHMEM_SIZE`
const GRAPHICS_SHARED_BYTES: c_uint = 7;
/// `CU_LIMIT_CIG_ENABLED`
const GRAPHICS_ENABLED: c_uint = 8;
/// The limits that the engine enforces.
const PRINTF_BYTES: c_uint = 1;
const HEAP_BYTES: c_uint = 2;

impl Context {
    /// Fails with the fault of a kernel that the device has run.
    pub(crate) fn new(device: CUdevice, flags: c_uint, kind: ContextKind) -> Result<Arc<Context>> {
        Context::with_handle(handle::reserve(), device, flags, kind)
    }

    pub(crate) fn with_handle(
        handle: usize,
        device: CUdevice,
        flags: c_uint,
        kind: ContextKind,
    ) -> Result<Arc<Context>> {
        result_of(&FAULTS[device as usize])?;
        let context = Arc::new(Context {
            handle,
            id: handle::reserve(),
            device,
            flags: AtomicU32::new(flags),
            cache_config: AtomicU32::new(0),
            kind,
            default_queue: Queue::new(),
            queues: Mutex::default(),
            fault: OnceLock::new(),
            destroyed: AtomicBool::new(false),
            captures: AtomicU32::new(0),
            attached: AtomicU32::new(0),
            limits: Mutex::new(DEFAULT_LIMITS),
            barriers: Mutex::default(),
            has_barriers: AtomicBool::new(false),
        });
        CONTEXTS.insert_at(handle, context.clone());
        Ok(context)
    }

    pub(crate) fn pointer(&self) -> CUcontext {
        handle::pointer(self.handle)
    }

    pub(crate) fn handle(&self) -> usize {
        self.handle
    }

    pub(crate) fn device(&self) -> CUdevice {
        self.device
    }

    pub(crate) fn kind(&self) -> ContextKind {
        self.kind
    }

    /// Whether streams of one take kernels and events of the other: green contexts and the
    /// primary one of a device share what they have.
    pub(crate) fn shares_with(&self, other: &Context) -> bool {
        self.handle == other.handle
            || (self.device == other.device
                && self.kind != ContextKind::Created
                && other.kind != ContextKind::Created)
    }

    /// A number that no other context of the process has or had.
    pub(crate) fn id(&self) -> usize {
        self.id
    }

    /// `CU_LIMIT_…` number `limit`.
    pub(crate) fn limit(&self, limit: c_uint) -> Result<usize> {
        let engine = device::engine()?;
        Ok(match limit {
            SYNC_DEPTH => return Err(unsupported_limit()),
            GRAPHICS_SHARED_BYTES | GRAPHICS_ENABLED => 0,
            PRINTF_BYTES => engine.output().limit() as usize,
            HEAP_BYTES => engine.heap().limit() as usize,
            _ => self.limits()[limit_index(limit)?],
        })
    }

    /// The printf buffer and the heap of kernels are the devices'; the other limits
    /// are only stored, as memory here grows on demand.
    pub(crate) fn set_limit(&self, limit: c_uint, value: usize) -> Result {
        let engine = device::engine()?;
        match limit {
            SYNC_DEPTH => return Err(unsupported_limit()),
            GRAPHICS_SHARED_BYTES | GRAPHICS_ENABLED => {
                return Err(Status::NOT_PERMITTED
                    .because("only contexts shared with graphics have this limit"));
            }
            FETCH_BYTES if value > MAX_FETCH_BYTES => {
                return Err(Status::INVALID_VALUE.because(format!(
                    "an L2 fetch granularity of {value} bytes; the limit is {MAX_FETCH_BYTES}"
                )));
            }
            PRINTF_BYTES => {
                let bytes = rounded(value.max(LEAST_PRINTF_BYTES), PRINTF_UNIT)?;
                engine.output().set_limit(bytes as u64);
            }
            STACK_BYTES if value >= TOO_LARGE_STACK => {
                return Err(Status::INVALID_VALUE.because(format!(
                    "a stack of {value} bytes; it must be less than {TOO_LARGE_STACK}"
                )));
            }
            STACK_BYTES => self.limits()[limit_index(limit)?] = rounded(value, STACK_UNIT)?,
            HEAP_BYTES => {
                let bytes = rounded(value.max(LEAST_HEAP_BYTES), HEAP_UNIT)?;
                engine.heap().set_limit(bytes as u64);
            }
            PENDING_LAUNCHES => {
                self.limits()[limit_index(limit)?] = value.max(LEAST_PENDING_LAUNCHES);
            }
            _ => self.limits()[limit_index(limit)?] = value,
        }
        Ok(())
    }

    fn limits(&self) -> MutexGuard<'_, [usize; DEFAULT_LIMITS.len()]> {
        self.limits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn queues(&self) -> MutexGuard<'_, Vec<(StreamKind, Weak<Queue>)>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn default_queue(&self) -> &Arc<Queue> {
        &self.default_queue
    }

    /// Adds the queue of a new stream.
    pub(crate) fn add_queue(&self, kind: StreamKind, queue: &Arc<Queue>) {
        let mut queues = self.queues();
        queues.retain(|(_, queue)| queue.strong_count() > 0);
        queues.push((kind, Arc::downgrade(queue)));
    }

    /// The unfinished work of the streams other than the default stream, of the kinds
    /// that `includes` names.
    pub(crate) fn unfinished(&self, includes: impl Fn(StreamKind) -> bool) -> Vec<Mark> {
        let queues = self.queues();
        let included = queues.iter().filter(|(kind, _)| includes(*kind));
        included
            .filter_map(|(_, queue)| queue.upgrade()?.unfinished())
            .collect()
    }

    /// Lets all work that is queued later wait for a mark.
    pub(crate) fn add_barrier(&self, mark: Mark) {
        let mut barriers = self.barriers.lock().unwrap_or_else(PoisonError::into_inner);
        barriers.retain(|barrier| !barrier.passed());
        barriers.push(mark);
        self.has_barriers.store(true, Ordering::Release);
    }

    /// The marks that work which is queued now waits for, in all streams.
    #[inline]
    pub(crate) fn barriers(&self) -> Vec<Mark> {
        if !self.has_barriers.load(Ordering::Acquire) {
            return Vec::new();
        }
        let mut barriers = self.barriers.lock().unwrap_or_else(PoisonError::into_inner);
        barriers.retain(|barrier| !barrier.passed());
        self.has_barriers
            .store(!barriers.is_empty(), Ordering::Release);
        barriers.clone()
    }

    /// Fails with the context's fault if it has one.
    #[inline]
    pub(crate) fn check(&self) -> Result {
        result_of(&self.fault)
    }

    /// Fails while a stream captures that the default stream would wait for.
    #[inline]
    pub(crate) fn refuse_default_stream(&self) -> Result {
        match self.captures.load(Ordering::Acquire) {
            0 => Ok(()),
            _ => Err(Status::STREAM_CAPTURE_IMPLICIT
                .because("the default stream waits for a stream that captures")),
        }
    }

    /// Records a fault, after which every call fails. The first fault stays.
    /// The device takes no new contexts for the rest of the process.
    pub(crate) fn fail(&self, failure: Failure) {
        let fault = (failure.status, failure.detail.unwrap_or_default());
        let _ = FAULTS[self.device as usize].set(fault.clone());
        let _ = self.fault.set(fault);
    }

    /// What follows every wait for work: writes what kernels printed, trims the
    /// pools, and fails with the context's fault.
    pub(crate) fn finish_wait(&self) -> Result {
        flush_output();
        pool::trim_all();
        self.check()
    }

    /// All unfinished work.
    pub(crate) fn unfinished_of_all(&self) -> Vec<Mark> {
        let mut marks = self.unfinished(|_| true);
        marks.extend(self.default_queue.unfinished());
        marks
    }

    /// Waits for all queued work.
    pub(crate) fn wait(&self) {
        self.default_queue.mark().wait();
        self.unfinished(|_| true).iter().for_each(Mark::wait);
    }

    /// Takes the context's handle away: threads that have it current get an error.
    pub(crate) fn close(&self) {
        self.destroyed.store(true, Ordering::Release);
        CONTEXTS.remove(self.handle);
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        self.default_queue.close();
    }
}

/// Writes what kernels have printed.
pub(crate) fn flush_output() {
    if let Ok(engine) = device::engine() {
        engine.output().flush();
    }
}

/// The context of a handle.
pub(crate) fn find(context: usize) -> Result<Arc<Context>> {
    CONTEXTS
        .get(context)
        .ok_or_else(|| Status::INVALID_CONTEXT.because("no live context has this handle"))
}

/// The other contexts of these devices.
pub(crate) fn others_of(devices: [CUdevice; 2], context: &Context) -> Vec<Arc<Context>> {
    CONTEXTS.all(|other| other.handle != context.handle && devices.contains(&other.device))
}

/// The current context of this thread, which may be destroyed.
pub(crate) fn top() -> Option<Arc<Context>> {
    STACK.with_borrow(|stack| stack.last().cloned())
}

/// The current context of this thread, also after a fault.
pub(crate) fn current() -> Result<Arc<Context>> {
    let context = top()
        .ok_or_else(|| Status::INVALID_CONTEXT.because("no context is current on this thread"))?;
    if !context.destroyed.load(Ordering::Acquire) {
        return Ok(context);
    }
    // A primary context that is retained again has the same handle.
    CONTEXTS.get(context.handle).ok_or_else(|| {
        Status::CONTEXT_IS_DESTROYED.because("the current context was destroyed or reset")
    })
}

/// The device of the current context, or the first.
pub(crate) fn current_device() -> CUdevice {
    current().map_or(0, |context| context.device())
}

/// The same; fails with the context's fault.
pub(crate) fn working() -> Result<Arc<Context>> {
    let context = current()?;
    context.check()?;
    Ok(context)
}

/// Fails with the fault of the current context, if there is one: for calls that need none.
pub(crate) fn check_current() -> Result {
    current().map_or(Ok(()), |context| context.check())
}

/// Makes a context current on this thread, above the one that was.
pub(crate) fn push(context: Arc<Context>) {
    STACK.with_borrow_mut(|stack| stack.push(context));
}

/// Makes the context below the current one current, and returns the former.
pub(crate) fn pop() -> Option<Arc<Context>> {
    STACK.with_borrow_mut(Vec::pop)
}

/// The same, only if `context` is current.
pub(crate) fn pop_if(context: &Arc<Context>) {
    STACK.with_borrow_mut(|stack| stack.pop_if(|top| Arc::ptr_eq(top, context)));
}

/// Fails for flags outside of `CU_CTX_FLAGS_MASK`. The scheduling flags have no effect:
/// a waiting thread always sleeps.
pub(crate) fn check_flags(flags: c_uint) -> Result {
    // CU_CTX_SCHED_…: one policy at most.
    match (flags & !0xff, flags & 7) {
        (0, 0 | 1 | 2 | 4) => Ok(()),
        (0, policy) => Err(Status::INVALID_VALUE.because(format!(
            "scheduling policy {policy} in the context flags; pass 0, 1, 2 or 4"
        ))),
        _ => Err(Status::INVALID_VALUE.because(format!("unknown context flags {flags:#x}"))),
    }
}

fn unsupported_limit() -> Failure {
    Status::UNSUPPORTED_LIMIT
        .because("not supported from sm_90: the depth of synchronization in kernels")
}

fn rounded(value: usize, unit: usize) -> Result<usize> {
    let rounded = value.checked_next_multiple_of(unit);
    rounded.ok_or_else(|| {
        Status::INVALID_VALUE.because(format!("{value} bytes are too many for a limit"))
    })
}

fn limit_index(limit: c_uint) -> Result<usize> {
    let index = limit as usize;
    if index < DEFAULT_LIMITS.len() {
        Ok(index)
    } else {
        Err(Status::INVALID_VALUE.because(format!("unknown limit {limit}")))
    }
}
