//! Events: points in a stream to wait for and to measure between.

use super::api::CUevent;
use super::context::{Context, report_drop};
use super::error::Error;
use super::stream::{Stream, done};

/// An event of a context.
#[derive(Debug)]
pub struct Event {
    context: Context,
    handle: CUevent,
}

// SAFETY: an event handle may be used from any thread; the driver locks by itself.
unsafe impl Send for Event {}
// SAFETY: as above.
unsafe impl Sync for Event {}

const DISABLE_TIMING: u32 = 2;

impl Event {
    /// A new event that takes the time (`cuEventCreate`).
    pub fn new(context: &Context) -> Result<Event, Error> {
        Event::create(context, 0)
    }

    /// A new event that only orders, which is cheaper (`CU_EVENT_DISABLE_TIMING`).
    pub fn without_timing(context: &Context) -> Result<Event, Error> {
        Event::create(context, DISABLE_TIMING)
    }

    fn create(context: &Context, flags: u32) -> Result<Event, Error> {
        let mut handle = std::ptr::null_mut();
        // SAFETY: writes one handle.
        unsafe { context.bind()?.cuEventCreate(&mut handle, flags) }?;
        Ok(Event {
            context: context.clone(),
            handle,
        })
    }

    /// The context it lives in.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// The raw handle, for calls that the safe layer does not have.
    pub fn raw(&self) -> CUevent {
        self.handle
    }

    /// Marks the end of the work queued in `stream` so far (`cuEventRecord`).
    pub fn record(&self, stream: &Stream) -> Result<(), Error> {
        if stream.context() != &self.context {
            return Err(Error::DifferentContexts {
                what: "event and stream",
            });
        }
        // SAFETY: event and stream are live and of one context.
        unsafe {
            self.context
                .bind()?
                .cuEventRecord(self.handle, stream.raw())
        }
    }

    /// Waits until the work before it is done (`cuEventSynchronize`).
    pub fn synchronize(&self) -> Result<(), Error> {
        // SAFETY: the event is live.
        unsafe { self.context.bind()?.cuEventSynchronize(self.handle) }
    }

    /// Whether the work before it is done (`cuEventQuery`).
    pub fn is_done(&self) -> Result<bool, Error> {
        // SAFETY: the event is live.
        done(unsafe { self.context.bind()?.cuEventQuery(self.handle) })
    }

    /// Milliseconds from `start` to this one (`cuEventElapsedTime`). Both must
    /// be done, and take the time.
    pub fn elapsed_ms_since(&self, start: &Event) -> Result<f32, Error> {
        let mut milliseconds = 0.0;
        // SAFETY: both events are live; writes one float.
        unsafe {
            self.context
                .bind()?
                .cuEventElapsedTime(&mut milliseconds, start.handle, self.handle)
        }?;
        Ok(milliseconds)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: created once, destroyed once.
        report_drop(
            self.context
                .bind()
                .and_then(|api| unsafe { api.cuEventDestroy_v2(self.handle) }),
        );
    }
}
