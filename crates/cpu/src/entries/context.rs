//! Contexts: what owns streams, memory and modules, and remembers a fault.

use std::cell::RefCell;
use std::ffi::{c_int, c_uint};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use super::device::{self, MOST_DEVICES};
use super::entry::{Given, entries};
use super::handle::{self, Handles};
use super::queue::{Mark, Queue};
use super::status::{Answer, Failure, Status};
use super::stream::{Kind, Stream};
use super::{event, memory, module};
use api::{CUcontext, CUdevice, ExecAffinity};

static CONTEXTS: Handles<Context> = Handles::new();

thread_local! {
    /// The contexts that this thread pushed; the last one is current.
    static STACK: RefCell<Vec<Arc<Context>>> = const { RefCell::new(Vec::new()) };
}

pub(super) struct Context {
    handle: usize,
    device: CUdevice,
    flags: AtomicU32,
    cache_config: AtomicU32,
    primary: bool,
    /// The default stream, which all blocking streams keep in step with.
    pub(super) legacy: Arc<Stream>,
    /// The queues of all other streams, also of destroyed ones that still work.
    queues: Mutex<Vec<(Kind, Weak<Queue>)>>,
    /// The first fault of a kernel: after it the context is good for nothing.
    fault: OnceLock<(Status, String)>,
    destroyed: AtomicBool,
    /// Captures under way in streams that keep in step with the default stream.
    pub(super) captures: AtomicU32,
    /// Uses by `cuCtxAttach` beside the first.
    attached: AtomicU32,
    shared_config: AtomicU32,
    limits: Mutex<[usize; DEFAULT_LIMITS.len()]>,
}

/// `CU_LIMIT_STACK_SIZE` … `CU_LIMIT_PERSISTING_L2_CACHE_SIZE`, and what they
/// are at first.
const DEFAULT_LIMITS: [usize; 7] = [1024, 0, 0, 2, 2048, 128, 0];
/// Those that the engine keeps.
const PRINTF_BYTES: c_uint = 1;
const HEAP_BYTES: c_uint = 2;

impl Context {
    fn new(device: CUdevice, flags: c_uint, primary: bool) -> Arc<Context> {
        let handle = handle::reserve();
        let context = Arc::new_cyclic(|context| Context {
            handle,
            device,
            flags: AtomicU32::new(flags),
            cache_config: AtomicU32::new(0),
            primary,
            legacy: Stream::new(context.clone(), Kind::Legacy, 0),
            queues: Mutex::default(),
            fault: OnceLock::new(),
            destroyed: AtomicBool::new(false),
            captures: AtomicU32::new(0),
            attached: AtomicU32::new(0),
            shared_config: AtomicU32::new(0),
            limits: Mutex::new(DEFAULT_LIMITS),
        });
        CONTEXTS.insert_at(handle, context.clone());
        context
    }

    pub(super) fn pointer(&self) -> CUcontext {
        handle::pointer(self.handle)
    }

    pub(super) fn device(&self) -> CUdevice {
        self.device
    }

    /// A number that no other context of the process has or had.
    pub(super) fn id(&self) -> usize {
        self.handle
    }

    fn limits(&self) -> MutexGuard<'_, [usize; DEFAULT_LIMITS.len()]> {
        self.limits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn queues(&self) -> MutexGuard<'_, Vec<(Kind, Weak<Queue>)>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets the default stream know of a new stream's queue.
    pub(super) fn adopt(&self, kind: Kind, queue: &Arc<Queue>) {
        let mut queues = self.queues();
        queues.retain(|(_, queue)| queue.strong_count() > 0);
        queues.push((kind, Arc::downgrade(queue)));
    }

    /// What is unfinished in the streams of the kinds wanted, the default
    /// stream aside.
    pub(super) fn unfinished(&self, wanted: impl Fn(Kind) -> bool) -> Vec<Mark> {
        let queues = self.queues();
        let wanted = queues.iter().filter(|(kind, _)| wanted(*kind));
        wanted
            .filter_map(|(_, queue)| queue.upgrade()?.unfinished())
            .collect()
    }

    /// Fails with the context's fault if it has one.
    #[inline]
    pub(super) fn check(&self) -> Answer {
        match self.fault.get() {
            None => Ok(()),
            Some((status, text)) => Err(status.because(text.as_str())),
        }
    }

    /// Fails while a stream captures that the default stream would wait for.
    #[inline]
    pub(super) fn refuse_default_stream(&self) -> Answer {
        match self.captures.load(Ordering::Acquire) {
            0 => Ok(()),
            _ => Err(Status::STREAM_CAPTURE_IMPLICIT
                .because("the default stream waits for a stream that captures")),
        }
    }

    /// Stops the context for good. Only the first fault counts.
    pub(super) fn fail(&self, failure: Failure) {
        let _ = self
            .fault
            .set((failure.status, failure.detail.unwrap_or_default()));
    }

    /// After waiting for work: shows what it printed, and tells of its fault.
    pub(super) fn settle(&self) -> Answer {
        show_output();
        super::pool::settle();
        self.check()
    }

    /// Waits for everything handed in.
    pub(super) fn wait(&self) {
        self.legacy.wait();
        self.unfinished(|_| true).iter().for_each(Mark::wait);
    }

    /// Ends the context and all that lives in it.
    fn destroy(self: &Arc<Self>) {
        self.destroyed.store(true, Ordering::Release);
        CONTEXTS.remove_all(|context| std::ptr::eq(context, &**self));
        self.wait();
        show_output();
        super::stream::destroy_all(self);
        event::destroy_all(self);
        module::destroy_all(self);
        super::peer::forget(self);
        super::texture::destroy_all(self);
        super::array::destroy_all(self);
        memory::free_all(self);
    }
}

/// Writes what kernels have printed.
fn show_output() {
    if let Ok(engine) = device::engine() {
        engine.output().flush();
    }
}

/// The context of a handle.
pub(super) fn find<H>(context: Given<H>) -> Answer<Arc<Context>> {
    CONTEXTS
        .get(context)
        .ok_or_else(|| Status::INVALID_CONTEXT.because("no live context has this handle"))
}

fn top() -> Option<Arc<Context>> {
    STACK.with_borrow(|stack| stack.last().cloned())
}

/// This thread's current context, faulted or not.
pub(super) fn current() -> Answer<Arc<Context>> {
    let context = top()
        .ok_or_else(|| Status::INVALID_CONTEXT.because("no context is current on this thread"))?;
    if context.destroyed.load(Ordering::Acquire) {
        return Err(Status::CONTEXT_IS_DESTROYED.because("the current context was destroyed"));
    }
    Ok(context)
}

/// The same, if it has no fault.
pub(super) fn working() -> Answer<Arc<Context>> {
    let context = current()?;
    context.check()?;
    Ok(context)
}

/// The primary contexts of the devices.
#[derive(Default)]
struct Primary {
    context: Option<Arc<Context>>,
    uses: u32,
    flags: c_uint,
}

static PRIMARIES: [Mutex<Primary>; MOST_DEVICES as usize] = [const {
    Mutex::new(Primary {
        context: None,
        uses: 0,
        flags: 0,
    })
}; MOST_DEVICES as usize];

/// `device` has passed `device::check`.
fn primary(device: CUdevice) -> MutexGuard<'static, Primary> {
    PRIMARIES[device as usize]
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn retain_primary(device: CUdevice) -> Answer<Arc<Context>> {
    let mut primary = primary(device);
    let flags = primary.flags;
    primary.uses += 1;
    Ok(primary
        .context
        .get_or_insert_with(|| Context::new(device, flags, true))
        .clone())
}

pub(super) fn release_primary(device: CUdevice) -> Answer {
    let mut primary = primary(device);
    primary.uses = primary.uses.checked_sub(1).ok_or_else(|| {
        Status::INVALID_CONTEXT.because("the primary context is released more often than retained")
    })?;
    let last = if primary.uses == 0 {
        primary.context.take()
    } else {
        None
    };
    drop(primary);
    if let Some(context) = last {
        context.destroy();
    }
    Ok(())
}

/// Whoever retained it still has to release it.
pub(super) fn reset_primary(device: CUdevice) {
    let taken = primary(device).context.take();
    if let Some(context) = taken {
        context.destroy();
    }
}

pub(super) fn set_primary_flags(device: CUdevice, flags: c_uint) -> Answer {
    check_flags(flags)?;
    let mut primary = primary(device);
    primary.flags = flags;
    if let Some(context) = &primary.context {
        context.flags.store(flags, Ordering::Relaxed);
    }
    Ok(())
}

pub(super) fn primary_state(device: CUdevice) -> (c_uint, bool) {
    let primary = primary(device);
    (primary.flags, primary.context.is_some())
}

/// `CU_CTX_FLAGS_MASK`. The scheduling flags mean nothing here: a waiting
/// thread always sleeps.
fn check_flags(flags: c_uint) -> Answer {
    if flags & !0xff == 0 {
        Ok(())
    } else {
        Err(Status::INVALID_VALUE.because("unknown context flags"))
    }
}

fn limit_index(limit: c_uint) -> Answer<usize> {
    let index = limit as usize;
    if index < DEFAULT_LIMITS.len() {
        Ok(index)
    } else {
        Err(Status::UNSUPPORTED_LIMIT.into())
    }
}

entries! {
    fn cuCtxCreate_v2(context: *mut CUcontext, flags: c_uint, device: CUdevice) {
        device::check(device)?;
        check_flags(flags)?;
        if context.is_null() {
            return Err(Status::INVALID_VALUE.into());
        }
        let made = Context::new(device, flags, false);
        context.put(made.pointer())?;
        STACK.with_borrow_mut(|stack| stack.push(made));
        Ok(())
    }

    fn cuCtxCreate_v3(
        _context: *mut CUcontext,
        _affinities: *mut ExecAffinity,
        _count: c_int,
        flags: c_uint,
        device: CUdevice,
    ) {
        device::check(device)?;
        check_flags(flags)?;
        Err(Status::UNSUPPORTED_EXEC_AFFINITY
            .because("a context of the CPU device has all workers"))
    }

    fn cuCtxGetExecAffinity(affinity: *mut ExecAffinity, kind: c_uint) {
        working()?;
        if kind != 0 {
            return Err(Status::INVALID_VALUE.because("unknown kind of affinity"));
        }
        let count = device::workers()?;
        affinity.put(ExecAffinity { kind, count })
    }

    fn cuCtxDestroy_v2(context: CUcontext) {
        let context = find(context)?;
        if context.primary {
            return Err(
                Status::INVALID_CONTEXT.because("a primary context is released, not destroyed")
            );
        }
        STACK.with_borrow_mut(|stack| stack.pop_if(|top| Arc::ptr_eq(top, &context)));
        context.destroy();
        Ok(())
    }

    fn cuCtxAttach(context: *mut CUcontext, flags: c_uint) {
        if flags != 0 {
            return Err(Status::INVALID_VALUE.because("the flags of cuCtxAttach must be 0"));
        }
        let current = current()?;
        if current.primary {
            return Err(Status::INVALID_CONTEXT
                .because("uses of a primary context are counted by cuDevicePrimaryCtxRetain"));
        }
        context.put(current.pointer())?;
        current.attached.fetch_add(1, Ordering::AcqRel);
        Ok(())
    }

    fn cuCtxDetach(context: CUcontext) {
        let context = find(context)?;
        let one_less = context
            .attached
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |uses| uses.checked_sub(1));
        if one_less.is_err() {
            STACK.with_borrow_mut(|stack| stack.pop_if(|top| Arc::ptr_eq(top, &context)));
            context.destroy();
        }
        Ok(())
    }

    fn cuCtxGetId(context: CUcontext, id: *mut u64) {
        let context = match context.is_null() {
            true => current()?,
            false => find(context)?,
        };
        id.put(context.handle as u64)
    }

    fn cuCtxGetSharedMemConfig(config: *mut c_uint) {
        config.put(working()?.shared_config.load(Ordering::Relaxed))
    }

    /// Kept and given back: shared memory has no banks here.
    fn cuCtxSetSharedMemConfig(config: c_uint) {
        if config > 2 {
            return Err(Status::INVALID_VALUE.into());
        }
        working()?.shared_config.store(config, Ordering::Relaxed);
        Ok(())
    }

    fn cuCtxResetPersistingL2Cache() {
        working()?;
        Ok(())
    }

    fn cuCtxPushCurrent_v2(context: CUcontext) {
        let context = find(context)?;
        STACK.with_borrow_mut(|stack| stack.push(context));
        Ok(())
    }

    fn cuCtxPopCurrent_v2(context: *mut CUcontext) {
        let popped = STACK.with_borrow_mut(Vec::pop);
        let popped = popped.ok_or_else(|| {
            Status::INVALID_CONTEXT.because("no context is current on this thread")
        })?;
        context.put_if_asked(popped.pointer());
        Ok(())
    }

    fn cuCtxSetCurrent(context: CUcontext) {
        let context = if context.is_null() {
            None
        } else {
            Some(find(context)?)
        };
        STACK.with_borrow_mut(|stack| {
            stack.pop();
            stack.extend(context);
        });
        Ok(())
    }

    fn cuCtxGetCurrent(context: *mut CUcontext) {
        context.put(top().map_or(std::ptr::null_mut(), |context| context.pointer()))
    }

    fn cuCtxGetDevice(device: *mut CUdevice) {
        device.put(current()?.device)
    }

    fn cuCtxGetFlags(flags: *mut c_uint) {
        flags.put(current()?.flags.load(Ordering::Relaxed))
    }

    fn cuCtxSynchronize() {
        let context = current()?;
        context.wait();
        context.settle()
    }

    fn cuCtxGetLimit(value: *mut usize, limit: c_uint) {
        let context = working()?;
        let engine = device::engine()?;
        value.put(match limit {
            PRINTF_BYTES => engine.output().limit() as usize,
            HEAP_BYTES => engine.heap().limit() as usize,
            _ => context.limits()[limit_index(limit)?],
        })
    }

    /// The printf buffer and the heap of kernels are the devices'; the other
    /// limits are kept and given back: memory here grows as it is needed.
    fn cuCtxSetLimit(limit: c_uint, value: usize) {
        let context = working()?;
        let engine = device::engine()?;
        match limit {
            PRINTF_BYTES => engine.output().set_limit(value as u64),
            HEAP_BYTES => engine.heap().set_limit(value as u64),
            _ => context.limits()[limit_index(limit)?] = value,
        }
        Ok(())
    }

    fn cuCtxGetCacheConfig(config: *mut c_uint) {
        config.put(working()?.cache_config.load(Ordering::Relaxed))
    }

    fn cuCtxSetCacheConfig(config: c_uint) {
        if config > 3 {
            return Err(Status::INVALID_VALUE.into());
        }
        working()?.cache_config.store(config, Ordering::Relaxed);
        Ok(())
    }

    fn cuCtxGetApiVersion(context: CUcontext, version: *mut c_uint) {
        if context.is_null() {
            current()?;
        } else {
            find(context)?;
        }
        version.put(3020)
    }

    fn cuCtxGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int) {
        working()?;
        least.put_if_asked(super::stream::LEAST_PRIORITY);
        greatest.put_if_asked(super::stream::GREATEST_PRIORITY);
        Ok(())
    }
}
