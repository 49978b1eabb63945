//! Events: points in a stream to wait for and to measure between.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::driver::device::context::{Context, report_drop};
use crate::driver::error::Error;
use crate::driver::stream::keep::Capture;
use crate::driver::stream::{Stream, Turn, done};
use api::{CUevent, CUipcEventHandle};

/// An event of a context.
#[derive(Debug)]
pub struct Event {
    context: Context,
    handle: CUevent,
    /// The capture in which it was recorded last.
    capture: Mutex<Option<Arc<Capture>>>,
}

// SAFETY: an event handle may be used from any thread; the driver locks by itself.
unsafe impl Send for Event {}
// SAFETY: as above.
unsafe impl Sync for Event {}

/// `CU_EVENT_*`
const BLOCKING_SYNC: u32 = 1;
const DISABLE_TIMING: u32 = 2;
const INTERPROCESS: u32 = 4;

impl Event {
    /// A new event that takes the time (`cuEventCreate`).
    pub fn new(context: &Context) -> Result<Event, Error> {
        Event::create(context, 0)
    }

    /// A new event that only orders, which is cheaper (`CU_EVENT_DISABLE_TIMING`).
    pub fn without_timing(context: &Context) -> Result<Event, Error> {
        Event::create(context, DISABLE_TIMING)
    }

    /// A new event that takes the time, and for which a thread waits asleep
    /// instead of spinning (`CU_EVENT_BLOCKING_SYNC`).
    pub fn blocking(context: &Context) -> Result<Event, Error> {
        Event::create(context, BLOCKING_SYNC)
    }

    /// A new event for several processes: [`ipc_handle`](Event::ipc_handle) goes
    /// to the others. It takes no time (`CU_EVENT_INTERPROCESS`). The CPU device
    /// has none.
    pub fn interprocess(context: &Context) -> Result<Event, Error> {
        Event::create(context, INTERPROCESS | DISABLE_TIMING)
    }

    fn create(context: &Context, flags: u32) -> Result<Event, Error> {
        let mut handle = std::ptr::null_mut();
        // SAFETY: writes one handle.
        unsafe { context.bind()?.cuEventCreate(&mut handle, flags) }?;
        Ok(Event::own(context, handle))
    }

    fn own(context: &Context, handle: CUevent) -> Event {
        Event {
            context: context.clone(),
            handle,
            capture: Mutex::default(),
        }
    }

    /// The 64 bytes by which another process finds an event made by
    /// [`interprocess`](Event::interprocess) (`cuIpcGetEventHandle`).
    pub fn ipc_handle(&self) -> Result<[u8; 64], Error> {
        let mut handle = CUipcEventHandle { reserved: [0; 64] };
        // SAFETY: the event is live; writes 64 bytes.
        unsafe {
            self.context
                .bind()?
                .cuIpcGetEventHandle(&mut handle, self.handle)
        }?;
        Ok(handle.reserved.map(|byte| byte as u8))
    }

    /// The event of another process (`cuIpcOpenEventHandle`).
    pub fn from_ipc_handle(context: &Context, bytes: [u8; 64]) -> Result<Event, Error> {
        let given = CUipcEventHandle {
            reserved: bytes.map(|byte| byte as std::ffi::c_char),
        };
        let mut handle = std::ptr::null_mut();
        // SAFETY: 64 bytes by value, which the driver checks; writes one handle.
        unsafe { context.bind()?.cuIpcOpenEventHandle(&mut handle, given) }?;
        Ok(Event::own(context, handle))
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
        self.record_in(stream, &stream.turn())
    }

    /// The same for who has its turn already.
    pub(crate) fn record_in(&self, stream: &Stream, turn: &Turn<'_>) -> Result<(), Error> {
        let api = self.context.bind()?;
        let mut recorded = self.capture_slot();
        // SAFETY: event and stream are live and of one context.
        unsafe { api.cuEventRecord(self.handle, stream.raw()) }?;
        *recorded = turn.capture().cloned();
        Ok(())
    }

    /// A launch recorded it.
    pub(crate) fn recorded_in(&self, stream: &Stream) {
        *self.capture_slot() = stream.capture();
    }

    /// The capture that a stream joins by waiting for the event.
    pub(crate) fn capture_slot(&self) -> MutexGuard<'_, Option<Arc<Capture>>> {
        self.capture.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the work before it is done (`cuEventSynchronize`).
    pub fn synchronize(&self) -> Result<(), Error> {
        // SAFETY: the event is live.
        unsafe { Ok(self.context.bind()?.cuEventSynchronize(self.handle)?) }
    }

    /// Whether the work before it is done (`cuEventQuery`).
    pub fn is_done(&self) -> Result<bool, Error> {
        // SAFETY: the event is live.
        done(unsafe { Ok(self.context.bind()?.cuEventQuery(self.handle)?) })
    }

    /// Milliseconds from `start` to this one (`cuEventElapsedTime`). Both must
    /// be done, and take the time.
    pub fn elapsed_ms_since(&self, start: &Event) -> Result<f32, Error> {
        self.context.of_one_driver(&start.context, "two events")?;
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
                .and_then(|api| unsafe { Ok(api.cuEventDestroy_v2(self.handle)?) }),
        );
    }
}
