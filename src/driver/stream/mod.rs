//! Streams: queues of work, in order.

pub(crate) mod attribute;
pub(crate) mod capture;
pub(crate) mod event;
pub(crate) mod gate;
pub(crate) mod keep;

use std::ffi::{c_uint, c_void};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::driver::device::Device;
use crate::driver::device::context::{Context, Owner, report_drop};
use crate::driver::error::Error;
use crate::driver::stream::event::Event;
use crate::driver::stream::gate::{Alone, Gate, Inside};
use crate::driver::stream::keep::{Capture, Keep};
use api::CudaError;
use api::{CUcontext, CUstream};

/// A stream of a context. Clones share it; the last one destroys it, and what
/// is queued still runs.
#[derive(Clone, Debug)]
pub struct Stream {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    context: Context,
    /// Null is the default stream, which nobody destroys.
    handle: CUstream,
    ownership: Ownership,
    /// How many captures began so far, and in the lowest bit whether one may go on:
    /// asked on every launch, where a lock would be felt.
    captures: AtomicU32,
    capture: Mutex<Option<Arc<Capture>>>,
    /// Who queues something is inside, and a capture begins while nobody is.
    gate: Gate,
}

/// Held while something is queued in a stream: meanwhile no capture of it begins
/// or ends.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    capture: Option<Arc<Capture>>,
    _inside: Inside<'a>,
}

impl Turn<'_> {
    /// What it is captured by.
    #[inline]
    pub fn capture(&self) -> Option<&Arc<Capture>> {
        self.capture.as_ref()
    }
}

impl Drop for Turn<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(capture) = &self.capture {
            capture.leave();
        }
    }
}

enum Ownership {
    Own,
    /// The default stream, or one that the caller answers for.
    Borrowed,
    /// Another library's, which keeps it alive through this.
    Shared(#[allow(dead_code, reason = "held, not read")] Owner),
}

impl fmt::Debug for Ownership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Ownership::Own => "Own",
            Ownership::Borrowed => "Borrowed",
            Ownership::Shared(_) => "Shared",
        })
    }
}

// SAFETY: a stream handle may be used from any thread; the driver locks by itself.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

const DEFAULT: u32 = 0;
const NON_BLOCKING: u32 = 1;
const PER_THREAD: usize = 2;

/// Of [`Inner::captures`].
const GOES_ON: u32 = 1;

impl Stream {
    /// A new stream that keeps order with the default stream (`cuStreamCreate`).
    pub fn new(context: &Context) -> Result<Stream, Error> {
        Stream::create(context, DEFAULT)
    }

    /// A new stream that does not wait for the default stream
    /// (`CU_STREAM_NON_BLOCKING`).
    pub fn non_blocking(context: &Context) -> Result<Stream, Error> {
        Stream::create(context, NON_BLOCKING)
    }

    fn create(context: &Context, flags: u32) -> Result<Stream, Error> {
        let mut handle = std::ptr::null_mut();
        // SAFETY: writes one handle.
        unsafe { context.bind()?.cuStreamCreate(&mut handle, flags) }?;
        Ok(Stream::with(context, handle, Ownership::Own))
    }

    /// A new stream whose work comes before that of streams with a greater
    /// number (`cuStreamCreateWithPriority`); the range is
    /// [`priorities`](Stream::priorities), and a number outside of it is the
    /// nearest one in it.
    pub fn with_priority(context: &Context, priority: i32) -> Result<Stream, Error> {
        let mut handle = std::ptr::null_mut();
        let api = context.bind()?;
        // SAFETY: writes one handle.
        unsafe { api.cuStreamCreateWithPriority(&mut handle, DEFAULT, priority) }?;
        Ok(Stream::with(context, handle, Ownership::Own))
    }

    /// Least and most urgent priority (`cuCtxGetStreamPriorityRange`).
    pub fn priorities(context: &Context) -> Result<(i32, i32), Error> {
        let (mut least, mut most) = (0, 0);
        // SAFETY: writes two integers.
        unsafe {
            context
                .bind()?
                .cuCtxGetStreamPriorityRange(&mut least, &mut most)
        }?;
        Ok((least, most))
    }

    /// The context's default stream, the null stream.
    pub fn default_of(context: &Context) -> Stream {
        Stream::with(context, std::ptr::null_mut(), Ownership::Borrowed)
    }

    /// The calling thread's own default stream (`CU_STREAM_PER_THREAD`): each
    /// thread that uses it has another. It takes no part in captures
    /// ([`Error::Captured`]).
    pub fn per_thread(context: &Context) -> Stream {
        Stream::with(
            context,
            std::ptr::without_provenance_mut(PER_THREAD),
            Ownership::Borrowed,
        )
    }

    /// A stream that somebody else owns: CUDA's runtime, or another library.
    ///
    /// # Safety
    /// `handle` must be a live stream of `context`, stay alive as long as the
    /// returned value, and not be captured by anybody else while this is used.
    pub unsafe fn from_raw(context: &Context, handle: CUstream) -> Stream {
        Stream::with(context, handle, Ownership::Borrowed)
    }

    /// A stream that another library keeps alive as long as `owner` lives.
    ///
    /// # Safety
    /// `handle` must be a live stream of `context`, stay alive as long as
    /// `owner`, and not be captured by anybody else while this is used.
    pub unsafe fn from_shared(
        context: &Context,
        handle: CUstream,
        owner: Arc<dyn std::any::Any + Send + Sync>,
    ) -> Stream {
        Stream::with(context, handle, Ownership::Shared(owner))
    }

    fn with(context: &Context, handle: CUstream, ownership: Ownership) -> Stream {
        Stream {
            inner: Arc::new(Inner {
                context: context.clone(),
                handle,
                ownership,
                captures: AtomicU32::new(0),
                capture: Mutex::default(),
                gate: Gate::default(),
            }),
        }
    }

    /// One name for another stream in each thread (`CU_STREAM_PER_THREAD`).
    pub(crate) fn is_per_thread(&self) -> bool {
        self.raw().addr() == PER_THREAD
    }

    /// The context it lives in.
    #[inline]
    pub fn context(&self) -> &Context {
        &self.inner.context
    }

    /// The raw handle, for calls that the safe layer does not have.
    #[inline]
    pub fn raw(&self) -> CUstream {
        self.inner.handle
    }

    /// The flags that it was made with (`cuStreamGetFlags`): 0, or 1 where it
    /// does not wait for the default stream.
    pub fn flags(&self) -> Result<u32, Error> {
        let mut flags = 0;
        // SAFETY: the stream is live; writes one integer.
        unsafe {
            self.context()
                .bind()?
                .cuStreamGetFlags(self.raw(), &mut flags)
        }?;
        Ok(flags)
    }

    /// Its priority (`cuStreamGetPriority`); the smaller, the more urgent.
    pub fn priority(&self) -> Result<i32, Error> {
        let mut priority = 0;
        // SAFETY: the stream is live; writes one integer.
        unsafe {
            self.context()
                .bind()?
                .cuStreamGetPriority(self.raw(), &mut priority)
        }?;
        Ok(priority)
    }

    /// A number that no other stream of the process has (`cuStreamGetId`).
    pub fn id(&self) -> Result<u64, Error> {
        let mut id = 0;
        // SAFETY: the stream is live; writes one integer.
        unsafe { self.context().bind()?.cuStreamGetId(self.raw(), &mut id) }?;
        Ok(id)
    }

    /// The device that the driver says it is on (`cuStreamGetDevice`, from CUDA
    /// 12.8).
    pub fn device(&self) -> Result<Device, Error> {
        let mut handle = 0;
        let api = self.context().bind()?;
        // SAFETY: the stream is live; writes one handle.
        unsafe { api.cuStreamGetDevice(self.raw(), &mut handle) }?;
        self.context().device().driver().device_of(handle)
    }

    /// Whether a capture is under way that this stream began or was drawn into.
    pub fn is_capturing(&self) -> bool {
        self.capture().is_some()
    }

    /// To be held while something is queued.
    pub(crate) fn turn(&self) -> Turn<'_> {
        let inside = self.inner.gate.enter();
        let capture = self.captures().is_none().then(|| self.capture_or_clear());
        Turn {
            capture: capture.flatten().filter(|capture| capture.enter()),
            _inside: inside,
        }
    }

    /// How many captures began so far, if none may go on. For calls that hold no
    /// turn: where the answer is another afterwards, what was queued may be
    /// captured by a graph that does not keep what it uses.
    #[inline]
    pub(crate) fn captures(&self) -> Option<u32> {
        let captures = self.inner.captures.load(Ordering::Acquire);
        (captures & GOES_ON == 0).then_some(captures)
    }

    /// Keeps others from queueing while a capture begins, of which they learn.
    pub(crate) fn alone(&self) -> Alone<'_> {
        let alone = self.inner.gate.close();
        let captures = &self.inner.captures;
        let before = captures.load(Ordering::Relaxed);
        captures.store((before | GOES_ON).wrapping_add(2), Ordering::SeqCst);
        alone
    }

    /// The capture that the stream takes part in.
    pub(crate) fn capture(&self) -> Option<Arc<Capture>> {
        match self.captures() {
            Some(_) => None,
            None => self.capture_slot().clone().filter(|it| !it.is_over()),
        }
    }

    /// The same for who is inside, so that none begins meanwhile.
    #[cold]
    fn capture_or_clear(&self) -> Option<Arc<Capture>> {
        let mut capture = self.capture_slot();
        if capture.as_ref().is_none_or(|capture| capture.is_over()) {
            *capture = None;
            self.inner.captures.fetch_and(!GOES_ON, Ordering::Release);
        }
        capture.clone()
    }

    pub(crate) fn join_capture(&self, capture: &Arc<Capture>) {
        *self.capture_slot() = Some(Arc::clone(capture));
    }

    fn capture_slot(&self) -> MutexGuard<'_, Option<Arc<Capture>>> {
        let slot = &self.inner.capture;
        slot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for all work queued so far (`cuStreamSynchronize`). Errors of
    /// kernels show here.
    pub fn synchronize(&self) -> Result<(), Error> {
        // SAFETY: the stream is live.
        unsafe { Ok(self.context().bind()?.cuStreamSynchronize(self.raw())?) }
    }

    /// Whether all work queued so far is done (`cuStreamQuery`).
    pub fn is_done(&self) -> Result<bool, Error> {
        // SAFETY: the stream is live.
        done(unsafe { Ok(self.context().bind()?.cuStreamQuery(self.raw())?) })
    }

    /// In check mode, waits for what was queued just now and tells what became
    /// of it; a captured call has not run.
    #[cold]
    pub(crate) fn wait_for_check(&self, what: impl FnOnce() -> String) -> Result<(), Error> {
        if self.is_capturing() {
            return Ok(());
        }
        self.synchronize().map_err(|source| Error::Checked {
            what: what(),
            source: Box::new(source),
        })
    }

    /// The context that the driver says it is of (`cuStreamGetCtx`), as a raw
    /// handle: for streams that came as one.
    pub fn raw_context(&self) -> Result<CUcontext, Error> {
        let mut context = std::ptr::null_mut();
        // SAFETY: the stream is live; writes one handle.
        unsafe {
            self.context()
                .bind()?
                .cuStreamGetCtx(self.raw(), &mut context)
        }?;
        Ok(context)
    }

    /// Lets work queued from now on wait for an event (`cuStreamWaitEvent`).
    ///
    /// An event that was recorded in a capturing stream draws this one into the
    /// capture.
    pub fn wait_for(&self, event: &Event) -> Result<(), Error> {
        self.context()
            .of_one_driver(event.context(), "stream and event")?;
        // Who records an event has its turn before it locks the event's slot: here too.
        let turn = self.turn();
        let recorded = event.capture_slot();
        if recorded.is_none() {
            return self.wait_for_recorded(event);
        }
        drop((recorded, turn));
        // Both held until the stream knows of the capture that the driver draws it into.
        let _alone = self.alone();
        let recorded = event.capture_slot();
        let Some(capture) = recorded.as_ref().filter(|capture| capture.enter()) else {
            return self.wait_for_recorded(event);
        };
        let waits = self
            .refuse_per_thread()
            .and_then(|()| self.wait_for_recorded(event));
        if waits.is_ok() {
            self.join_capture(capture);
        }
        capture.leave();
        waits
    }

    /// The same for an event of its driver that was recorded outside of captures.
    pub(crate) fn wait_for_recorded(&self, event: &Event) -> Result<(), Error> {
        let api = self.context().bind()?;
        // SAFETY: stream and event are live; an event of another device is allowed.
        unsafe { Ok(api.cuStreamWaitEvent(self.raw(), event.raw(), 0)?) }
    }

    /// One `Stream` would not know what is captured through another.
    pub(crate) fn refuse_per_thread(&self) -> Result<(), Error> {
        match self.is_per_thread() {
            true => Err(Error::Captured {
                what: "the work of a thread's own default stream",
            }),
            false => Ok(()),
        }
    }

    /// Calls `function` on a thread of the driver once all work queued so far
    /// is done (`cuLaunchHostFunc`). Work queued later waits for it. It must not
    /// call the driver, which would wait for itself. After an error in the
    /// stream it is not called.
    ///
    /// A captured stream refuses it: a graph may be launched many times, and
    /// needs [`call_each_launch`](Stream::call_each_launch).
    pub fn call(&self, function: impl FnOnce() + Send + 'static) -> Result<(), Error> {
        type Call = Box<dyn FnOnce() + Send>;

        unsafe extern "C" fn run(data: *mut c_void) {
            // SAFETY: the pointer made below, handed over once.
            let call = unsafe { Box::from_raw(data.cast::<Call>()) };
            // A panic must not unwind into the driver.
            if catch_unwind(AssertUnwindSafe(call)).is_err() {
                tracing::error!("a function called by a stream panicked");
            }
        }

        let turn = self.turn();
        if turn.capture().is_some() {
            return Err(Error::CapturedOnce);
        }
        let api = self.context().bind()?;
        let call: Call = Box::new(function);
        let data = Box::into_raw(Box::new(call));
        // SAFETY: `run` takes the pointer back; the function may go to another thread.
        let result = unsafe { api.cuLaunchHostFunc(self.raw(), Some(run), data.cast()) };
        drop(turn);
        if result.is_err() {
            // SAFETY: a call that was not queued is never run.
            drop(unsafe { Box::from_raw(data) });
        }
        Ok(result?)
    }

    /// The same for a function that is told how the work before it went, and is
    /// called after an error too (`cuStreamAddCallback`). CUDA calls the entry
    /// deprecated: it may keep later work waiting for longer than
    /// [`call`](Stream::call) does. A captured stream refuses it.
    pub fn add_callback(
        &self,
        function: impl FnOnce(Result<(), CudaError>) + Send + 'static,
    ) -> Result<(), Error> {
        type Call = Box<dyn FnOnce(Result<(), CudaError>) + Send>;

        unsafe extern "C" fn run(_stream: CUstream, status: c_uint, data: *mut c_void) {
            // SAFETY: the pointer made below, handed over once.
            let call = unsafe { Box::from_raw(data.cast::<Call>()) };
            let result = match status.cast_signed() {
                0 => Ok(()),
                code => Err(CudaError(code)),
            };
            // A panic must not unwind into the driver.
            if catch_unwind(AssertUnwindSafe(|| call(result))).is_err() {
                tracing::error!("a function called by a stream panicked");
            }
        }

        let turn = self.turn();
        if turn.capture().is_some() {
            return Err(Error::CapturedOnce);
        }
        let api = self.context().bind()?;
        let call: Call = Box::new(function);
        let data = Box::into_raw(Box::new(call));
        // SAFETY: `run` takes the pointer back; the function may go to another thread.
        let result = unsafe { api.cuStreamAddCallback(self.raw(), Some(run), data.cast(), 0) };
        drop(turn);
        if result.is_err() {
            // SAFETY: a call that was not queued is never run.
            drop(unsafe { Box::from_raw(data) });
        }
        Ok(result?)
    }

    /// [`call`](Stream::call) of a function that a graph may call again: where the stream is
    /// captured, each launch of the graph calls it, and the graph keeps it.
    pub fn call_each_launch(
        &self,
        function: impl Fn() + Send + Sync + 'static,
    ) -> Result<(), Error> {
        let turn = self.turn();
        let Some(capture) = turn.capture() else {
            drop(turn);
            return self.call(function);
        };
        let function = Arc::new(HostFunction::new(function));
        let api = self.context().bind()?;
        // SAFETY: the graph that is made of the capture keeps the function.
        unsafe { api.cuLaunchHostFunc(self.raw(), Some(HostFunction::RUN), function.data()) }?;
        capture.add(function);
        Ok(())
    }
}

/// A function for the driver to call any number of times.
pub(crate) struct HostFunction {
    function: Box<dyn Fn() + Send + Sync>,
}

impl HostFunction {
    pub fn new(function: impl Fn() + Send + Sync + 'static) -> HostFunction {
        HostFunction {
            function: Box::new(function),
        }
    }

    /// What [`RUN`](HostFunction::RUN) takes; good as long as `self` stays.
    pub fn data(self: &Arc<Self>) -> *mut c_void {
        Arc::as_ptr(self).cast_mut().cast()
    }

    pub const RUN: unsafe extern "C" fn(*mut c_void) = HostFunction::run;

    unsafe extern "C" fn run(data: *mut c_void) {
        // SAFETY: whoever handed the pointer over keeps the function until its last call.
        let this = unsafe { &*data.cast::<HostFunction>() };
        // A panic must not unwind into the driver.
        if catch_unwind(AssertUnwindSafe(|| (this.function)())).is_err() {
            tracing::error!("a function called by a stream panicked");
        }
    }
}

impl fmt::Debug for HostFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HostFunction")
    }
}

impl Keep for HostFunction {
    fn outlives_launches(&self) -> bool {
        true
    }
}

/// "Not ready" is an answer, not an error.
pub(crate) fn done(result: Result<(), Error>) -> Result<bool, Error> {
    match result {
        Ok(()) => Ok(true),
        Err(error) if error.code() == Some(CudaError::NOT_READY) => Ok(false),
        Err(error) => Err(error),
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if matches!(self.ownership, Ownership::Own) {
            // SAFETY: created once, destroyed once.
            report_drop(
                self.context
                    .bind()
                    .and_then(|api| unsafe { Ok(api.cuStreamDestroy_v2(self.handle)?) }),
            );
        }
    }
}
