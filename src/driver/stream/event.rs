//! Events: points in a stream to wait for and to measure time between.

use std::ffi::c_uint;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::driver::device::context::{Context, report_drop};
use crate::driver::error::Error;
use crate::driver::stream::before_capture;
use crate::driver::stream::retained::{Capture, Retained};
use crate::driver::stream::{EnqueueGuard, Stream, is_ready};
use api::{CUevent, CUipcEventHandle};

/// An event of a context.
#[derive(Debug)]
pub struct Event {
    context: Context,
    handle: CUevent,
    /// The capture it was last recorded in, if any.
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
    /// A new event with timing (`cuEventCreate`).
    pub fn new(context: &Context) -> Result<Event, Error> {
        Event::create(context, 0)
    }

    /// A new event without timing, which is cheaper (`CU_EVENT_DISABLE_TIMING`).
    pub fn without_timing(context: &Context) -> Result<Event, Error> {
        Event::create(context, DISABLE_TIMING)
    }

    /// A new event with timing, on which a waiting thread blocks instead of spinning
    /// (`CU_EVENT_BLOCKING_SYNC`).
    pub fn blocking(context: &Context) -> Result<Event, Error> {
        Event::create(context, BLOCKING_SYNC)
    }

    /// A new event without timing that other processes can open by its
    /// [`ipc_handle`](Event::ipc_handle) (`CU_EVENT_INTERPROCESS`). Neither Windows nor the CPU
    /// device on other systems than Linux has such.
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

    /// The 64-byte handle by which another process opens an event made by
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

    /// Opens the event of another process (`cuIpcOpenEventHandle`).
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
        self.record_in(stream, &stream.begin_enqueue())
    }

    /// The same for a caller that holds the stream's guard.
    pub(crate) fn record_in(
        &self,
        stream: &Stream,
        enqueue: &EnqueueGuard<'_>,
    ) -> Result<(), Error> {
        let api = self.context.bind()?;
        let mut recorded = self.capture_slot();
        // SAFETY: event and stream are live and of one context.
        unsafe { api.cuEventRecord(self.handle, stream.raw()) }?;
        *recorded = enqueue.capture().cloned();
        Ok(())
    }

    /// Notes the capture after a launch recorded the event.
    pub(crate) fn record_capture(&self, stream: &Stream) {
        *self.capture_slot() = stream.capture();
    }

    /// The capture that a stream joins by waiting for the event.
    pub(crate) fn capture_slot(&self) -> MutexGuard<'_, Option<Arc<Capture>>> {
        self.capture.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the event in each launch of the graph that the stream is captured into, as a
    /// node of its own (`cuEventRecordWithFlags`, from CUDA 11.1), where
    /// [`record`](Event::record) only adds a dependency. The stream must be capturing.
    pub fn record_each_launch(self: &Arc<Self>, stream: &Stream) -> Result<(), Error> {
        const EXTERNAL: c_uint = 1;
        if stream.context() != self.context() {
            return Err(Error::DifferentContexts {
                what: "event and stream",
            });
        }
        let api = stream.context().bind()?;
        let enqueue = stream.begin_enqueue();
        // SAFETY: event and stream are live and of one context; the graph keeps the event.
        unsafe { api.cuEventRecordWithFlags(self.raw(), stream.raw(), EXTERNAL) }?;
        if let Some(capture) = enqueue.capture() {
            capture.retain(self.clone());
        }
        Ok(())
    }

    /// Waits until the work before it is done (`cuEventSynchronize`).
    pub fn synchronize(&self) -> Result<(), Error> {
        // SAFETY: the event is live.
        unsafe { Ok(self.context.bind()?.cuEventSynchronize(self.handle)?) }
    }

    /// Whether the work before it is done (`cuEventQuery`).
    pub fn is_done(&self) -> Result<bool, Error> {
        // SAFETY: the event is live.
        is_ready(unsafe { self.context.bind()?.cuEventQuery(self.handle) })
    }

    /// Milliseconds from `start` to this event (`cuEventElapsedTime`). Both must be
    /// complete and have timing.
    pub fn elapsed_ms_since(&self, start: &Event) -> Result<f32, Error> {
        self.context
            .check_same_driver(&start.context, "two events")?;
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

impl Stream {
    /// Lets work queued from now on wait for an event (`cuStreamWaitEvent`).
    ///
    /// An event recorded in a capturing stream adds this stream to the capture.
    pub fn wait_for(&self, event: &Event) -> Result<(), Error> {
        self.context()
            .check_same_driver(event.context(), "stream and event")?;
        // Lock order: the stream's guard, then the event's slot, as in `record`.
        let enqueue = self.begin_enqueue();
        let recorded = event.capture_slot();
        if recorded.is_none() {
            return self.wait_for_recorded(event);
        }
        drop((recorded, enqueue));
        // Both are held until the stream knows of the capture that the driver adds it to.
        let _exclusive = self.lock_exclusive();
        let recorded = event.capture_slot();
        let Some(capture) = recorded.as_ref().filter(|capture| capture.enter()) else {
            return self.wait_for_recorded(event);
        };
        let waits = self
            .refuse_per_thread()
            .and_then(|()| {
                if self.is_capturing() {
                    Ok(())
                } else {
                    before_capture::record(self, capture)
                }
            })
            .and_then(|()| self.wait_for_recorded(event));
        if waits.is_ok() {
            self.join_capture(capture);
        }
        capture.leave();
        waits
    }

    /// The same for an event of the same driver that was recorded outside of captures.
    pub(crate) fn wait_for_recorded(&self, event: &Event) -> Result<(), Error> {
        let api = self.context().bind()?;
        // SAFETY: stream and event are live; an event of another device is allowed.
        unsafe { Ok(api.cuStreamWaitEvent(self.raw(), event.raw(), 0)?) }
    }
}

impl Retained for Event {}

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
