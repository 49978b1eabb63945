//! Streams: queues of work, in order.

pub(crate) mod attribute;
pub(crate) mod before_capture;
pub(crate) mod capture;
pub(crate) mod capture_lock;
pub(crate) mod event;
pub(crate) mod finished;
pub(crate) mod host_function;
pub(crate) mod retained;
pub(crate) mod users;

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::driver::device::Device;
use crate::driver::device::context::{Context, Owner, report_drop};
use crate::driver::error::Error;
use crate::driver::stream::capture_lock::{CaptureLock, ExclusiveGuard, SharedGuard};
use crate::driver::stream::event::Event;
use crate::driver::stream::retained::Capture;
use api::CudaError;
use api::{CUcontext, CUstream};

/// A stream of a context. Clones share it; the last one destroys it, and queued work still
/// runs. Buffers that its work uses have clones of it.
#[derive(Clone, Debug)]
pub struct Stream {
    inner: Arc<Inner>,
}

/// What each launch reads comes first, as in a kernel's.
#[derive(Debug)]
#[repr(C, align(64))]
struct Inner {
    context: Context,
    /// Null for the default stream, which is never destroyed.
    handle: CUstream,
    /// The number of captures begun, shifted left by one; the lowest bit is set while one
    /// may be active. Launches read it, where a lock would cost too much.
    capture_epoch: AtomicU32,
    /// Whether it is known to keep order with the default stream.
    is_blocking: bool,
    ownership: Ownership,
    capture: Mutex<Option<Arc<Capture>>>,
    /// Recorded before the last capture: work of other streams waits for it while the capture
    /// lasts, in which the stream takes no event of its own work.
    before_capture: Mutex<Option<Arc<Event>>>,
    /// Shared while work is queued, exclusive while a capture begins.
    capture_lock: CaptureLock,
}

/// Held while work is queued in a stream: no capture of it begins or ends meanwhile.
#[derive(Debug)]
pub(crate) struct EnqueueGuard<'a> {
    capture: Option<Arc<Capture>>,
    _shared: SharedGuard<'a>,
}

impl EnqueueGuard<'_> {
    /// The capture that records the work.
    #[inline]
    pub fn capture(&self) -> Option<&Arc<Capture>> {
        self.capture.as_ref()
    }
}

impl Drop for EnqueueGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(capture) = &self.capture {
            capture.leave();
        }
    }
}

enum Ownership {
    Own,
    /// The default stream, or one whose lifetime the caller guarantees.
    Borrowed,
    /// Owned by another library, which keeps it alive through this value.
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

/// The lowest bit of [`Inner::capture_epoch`].
const CAPTURE_ACTIVE: u32 = 1;

impl Stream {
    /// A new stream that keeps order with the default stream (`cuStreamCreate`).
    pub fn new(context: &Context) -> Result<Stream, Error> {
        Stream::create(context, DEFAULT)
    }

    /// A new stream that does not wait for the default stream
    /// (`CU_STREAM_NON_BLOCKING`), but for work there that uses the same memory
    /// ([`Context::enable_event_tracking`]).
    pub fn non_blocking(context: &Context) -> Result<Stream, Error> {
        Stream::create(context, NON_BLOCKING)
    }

    fn create(context: &Context, flags: u32) -> Result<Stream, Error> {
        let mut handle = std::ptr::null_mut();
        // SAFETY: writes one handle.
        unsafe { context.bind()?.cuStreamCreate(&mut handle, flags) }?;
        Ok(Stream::own(context, handle, flags))
    }

    /// A new stream with a priority (`cuStreamCreateWithPriority`); lower numbers run
    /// first. A number outside of the range of [`priorities`](Stream::priorities) is
    /// clamped.
    pub fn with_priority(context: &Context, priority: i32) -> Result<Stream, Error> {
        let mut handle = std::ptr::null_mut();
        let api = context.bind()?;
        // SAFETY: writes one handle.
        unsafe { api.cuStreamCreateWithPriority(&mut handle, DEFAULT, priority) }?;
        Ok(Stream::own(context, handle, DEFAULT))
    }

    /// A new stream of a [green context](Context::green), with a priority
    /// (`cuGreenCtxStreamCreate`, from CUDA 12.5). It does not wait for the default stream. A
    /// context that is not green is refused ([`Error::NotGreen`]).
    pub fn of_green(context: &Context, priority: i32) -> Result<Stream, Error> {
        let green = context.raw_green().ok_or(Error::NotGreen)?;
        let mut handle = std::ptr::null_mut();
        let api = context.bind()?;
        // SAFETY: the context is live; writes one handle.
        unsafe { api.cuGreenCtxStreamCreate(&mut handle, green, NON_BLOCKING, priority) }?;
        Ok(Stream::own(context, handle, NON_BLOCKING))
    }

    /// Lowest and highest priority (`cuCtxGetStreamPriorityRange`); the highest has the
    /// smallest number.
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

    /// A stream that other code owns: CUDA's runtime, or another library.
    ///
    /// # Safety
    /// `handle` must be a live stream of `context`, stay alive as long as the returned
    /// value and all memory that its work uses, and not be captured by anybody else
    /// while this is used.
    pub unsafe fn from_raw(context: &Context, handle: CUstream) -> Stream {
        Stream::with(context, handle, Ownership::Borrowed)
    }

    /// A stream that another library keeps alive as long as `owner` lives.
    ///
    /// # Safety
    /// `handle` must be a live stream of `context`, stay alive until the last clone of `owner` is
    /// dropped, and not be captured by anybody else while this is used. This value has a clone,
    /// and so has all memory that its work uses.
    pub unsafe fn from_shared(
        context: &Context,
        handle: CUstream,
        owner: Arc<dyn std::any::Any + Send + Sync>,
    ) -> Stream {
        Stream::with(context, handle, Ownership::Shared(owner))
    }

    fn own(context: &Context, handle: CUstream, flags: u32) -> Stream {
        Stream::of(context, handle, Ownership::Own, flags == DEFAULT)
    }

    fn with(context: &Context, handle: CUstream, ownership: Ownership) -> Stream {
        Stream::of(context, handle, ownership, false)
    }

    fn of(context: &Context, handle: CUstream, ownership: Ownership, is_blocking: bool) -> Stream {
        Stream {
            inner: Arc::new(Inner {
                context: context.clone(),
                handle,
                ownership,
                is_blocking,
                capture_epoch: AtomicU32::new(0),
                capture: Mutex::default(),
                before_capture: Mutex::default(),
                capture_lock: CaptureLock::default(),
            }),
        }
    }

    /// A number that clones share, as do all values for the default stream of a context. It is
    /// no other stream's as long as one of them is there.
    #[inline]
    pub(crate) fn identity(&self) -> *mut () {
        if self.inner.handle.is_null() {
            self.inner.context.identity()
        } else {
            Arc::as_ptr(&self.inner).cast_mut().cast()
        }
    }

    /// Whether the driver keeps the work of both in order, as one is the default stream.
    pub(crate) fn is_ordered_with(&self, other: &Stream) -> bool {
        let follows = |one: &Stream, other: &Stream| {
            one.raw().is_null() && (other.inner.is_blocking || other.raw().is_null())
        };
        self.context() == other.context() && (follows(self, other) || follows(other, self))
    }

    /// Whether it is `CU_STREAM_PER_THREAD`, a handle for another stream in each thread.
    pub(crate) fn is_per_thread(&self) -> bool {
        self.raw().addr() == PER_THREAD
    }

    /// Whether its handle is that of a stream of one context. The handles of default streams
    /// stand for those of the current context.
    #[inline]
    pub(crate) fn has_context(&self) -> bool {
        self.raw().addr() > PER_THREAD
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

    /// Its priority (`cuStreamGetPriority`); a smaller number is a higher priority.
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

    /// Its device as the driver reports it (`cuStreamGetDevice`, from CUDA 12.8).
    pub fn device(&self) -> Result<Device, Error> {
        let mut handle = 0;
        let api = self.context().bind()?;
        // SAFETY: the stream is live; writes one handle.
        unsafe { api.cuStreamGetDevice(self.raw(), &mut handle) }?;
        self.context().device().driver().device_of(handle)
    }

    /// Whether it takes part in an active capture.
    pub fn is_capturing(&self) -> bool {
        self.capture().is_some()
    }

    /// Returns the guard to hold while work is queued.
    pub(crate) fn begin_enqueue(&self) -> EnqueueGuard<'_> {
        let shared = self.inner.capture_lock.shared();
        let capture = self
            .capture_epoch()
            .is_none()
            .then(|| self.capture_or_clear());
        EnqueueGuard {
            capture: capture.flatten().filter(|capture| capture.enter()),
            _shared: shared,
        }
    }

    /// The capture epoch, if no capture is active. A call that does not hold the guard
    /// compares it before and after: if it changed, the work may be captured by a graph
    /// that does not retain what it uses.
    #[inline]
    pub(crate) fn capture_epoch(&self) -> Option<u32> {
        let capture_epoch = self.inner.capture_epoch.load(Ordering::Acquire);
        (capture_epoch & CAPTURE_ACTIVE == 0).then_some(capture_epoch)
    }

    /// Blocks calls that queue work while a capture begins, and advances the capture epoch,
    /// so that calls without the guard notice.
    pub(crate) fn lock_exclusive(&self) -> ExclusiveGuard<'_> {
        let exclusive = self.inner.capture_lock.exclusive();
        let capture_epoch = &self.inner.capture_epoch;
        let before = capture_epoch.load(Ordering::Relaxed);
        capture_epoch.store((before | CAPTURE_ACTIVE).wrapping_add(2), Ordering::SeqCst);
        exclusive
    }

    /// The active capture that the stream takes part in.
    pub(crate) fn capture(&self) -> Option<Arc<Capture>> {
        match self.capture_epoch() {
            Some(_) => None,
            None => self.capture_slot().clone().filter(|it| !it.is_over()),
        }
    }

    /// The same for a caller that holds the capture lock, so that no capture begins
    /// meanwhile. Clears a capture that has ended.
    #[cold]
    fn capture_or_clear(&self) -> Option<Arc<Capture>> {
        let mut capture = self.capture_slot();
        if capture.as_ref().is_none_or(|capture| capture.is_over()) {
            *capture = None;
            self.inner
                .capture_epoch
                .fetch_and(!CAPTURE_ACTIVE, Ordering::Release);
        }
        capture.clone()
    }

    pub(crate) fn join_capture(&self, capture: &Arc<Capture>) {
        *self.capture_slot() = Some(Arc::clone(capture));
    }

    /// Whether it keeps order with the default stream.
    pub(crate) fn waits_for_default(&self) -> Result<bool, Error> {
        Ok(self.inner.is_blocking || self.flags()? & NON_BLOCKING == 0)
    }

    pub(crate) fn set_before_capture(&self, event: Arc<Event>) {
        let slot = &self.inner.before_capture;
        *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(event);
    }

    /// The event after what was queued before the last capture of this stream.
    pub(crate) fn before_capture(&self) -> Option<Arc<Event>> {
        let slot = &self.inner.before_capture;
        slot.lock().unwrap_or_else(PoisonError::into_inner).clone()
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
        is_ready(unsafe { self.context().bind()?.cuStreamQuery(self.raw()) })
    }

    /// In check mode, waits for the work just queued and returns its error. Captured work
    /// has not run.
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

    /// Its context as the driver reports it (`cuStreamGetCtx`), as a raw handle; for
    /// streams made from one.
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

    /// Refuses captures of per-thread default streams: one `Stream` value stands for
    /// several of them and cannot track their captures.
    pub(crate) fn refuse_per_thread(&self) -> Result<(), Error> {
        if self.is_per_thread() {
            Err(Error::Captured {
                what: "the work of a thread's own default stream",
            })
        } else {
            Ok(())
        }
    }
}

/// Maps `CUDA_ERROR_NOT_READY` to `false`.
pub(crate) fn is_ready(result: Result<(), api::Error>) -> Result<bool, Error> {
    match result {
        Ok(()) => Ok(true),
        Err(error) if error.code() == Some(CudaError::NOT_READY) => Ok(false),
        Err(error) => Err(error.into()),
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
