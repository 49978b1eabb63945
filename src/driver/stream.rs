//! Streams: queues of work, in order.

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::api::CUstream;
use super::code::CudaError;
use super::context::{Context, report_drop};
use super::error::Error;
use super::event::Event;

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
}

// SAFETY: a stream handle may be used from any thread; the driver locks by itself.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

const DEFAULT: u32 = 0;
const NON_BLOCKING: u32 = 1;

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
        Ok(Stream::own(context, handle))
    }

    /// A new stream whose work comes before that of streams with a greater
    /// number (`cuStreamCreateWithPriority`); the range is
    /// [`priorities`](Stream::priorities).
    pub fn with_priority(context: &Context, priority: i32) -> Result<Stream, Error> {
        let mut handle = std::ptr::null_mut();
        let api = context.bind()?;
        // SAFETY: writes one handle.
        unsafe { api.cuStreamCreateWithPriority(&mut handle, DEFAULT, priority) }?;
        Ok(Stream::own(context, handle))
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
        Stream::own(context, std::ptr::null_mut())
    }

    fn own(context: &Context, handle: CUstream) -> Stream {
        Stream {
            inner: Arc::new(Inner {
                context: context.clone(),
                handle,
            }),
        }
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

    /// Waits for all work queued so far (`cuStreamSynchronize`). Errors of
    /// kernels show here.
    pub fn synchronize(&self) -> Result<(), Error> {
        // SAFETY: the stream is live.
        unsafe { self.context().bind()?.cuStreamSynchronize(self.raw()) }
    }

    /// Whether all work queued so far is done (`cuStreamQuery`).
    pub fn is_done(&self) -> Result<bool, Error> {
        // SAFETY: the stream is live.
        done(unsafe { self.context().bind()?.cuStreamQuery(self.raw()) })
    }

    /// Lets work queued from now on wait for an event (`cuStreamWaitEvent`).
    pub fn wait_for(&self, event: &Event) -> Result<(), Error> {
        // SAFETY: stream and event are live; an event of another device is allowed.
        unsafe {
            self.context()
                .bind()?
                .cuStreamWaitEvent(self.raw(), event.raw(), 0)
        }
    }

    /// Calls `function` on a thread of the driver once all work queued so far
    /// is done (`cuLaunchHostFunc`). Work queued later waits for it. It must not
    /// call the driver, which would wait for itself. After an error in the
    /// stream it is not called.
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

        let api = self.context().bind()?;
        let call: Call = Box::new(function);
        let data = Box::into_raw(Box::new(call));
        // SAFETY: `run` takes the pointer back; the function may go to another thread.
        let result = unsafe { api.cuLaunchHostFunc(self.raw(), Some(run), data.cast()) };
        if result.is_err() {
            // SAFETY: a call that was not queued is never run.
            drop(unsafe { Box::from_raw(data) });
        }
        result
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
        if !self.handle.is_null() {
            // SAFETY: created once, destroyed once.
            report_drop(
                self.context
                    .bind()
                    .and_then(|api| unsafe { api.cuStreamDestroy_v2(self.handle) }),
            );
        }
    }
}
