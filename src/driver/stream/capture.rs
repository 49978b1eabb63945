//! Capturing: what is queued in a stream becomes a graph.

use std::ffi::c_uint;
use std::ptr::null_mut;
use std::sync::Arc;

use crate::driver::device::context::Context;
use crate::driver::error::Error;
use crate::driver::graph::Graph;
use crate::driver::stream::Stream;
use crate::driver::stream::event::Event;
use crate::driver::stream::keep::{Capture, Keep, Kept};
use api::CUgraph;

/// What a capture forbids other calls (`CUstreamCaptureMode`). Calls such as an
/// allocation could wait for the stream that captures, and then spoil the
/// capture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum CaptureMode {
    /// They are forbidden to all threads.
    Global = 0,
    /// They are forbidden to this thread.
    #[default]
    ThreadLocal = 1,
    /// They are allowed.
    Relaxed = 2,
}

impl CaptureMode {
    /// Makes it the mode of this thread for captures of others, and gives the
    /// one that was (`cuThreadExchangeStreamCaptureMode`): with
    /// [`Relaxed`](CaptureMode::Relaxed) the thread may allocate and the like
    /// while another thread captures. `None` for a mode without a name.
    pub fn exchange(self, context: &Context) -> Result<Option<CaptureMode>, Error> {
        let mut mode = self as c_uint;
        // SAFETY: reads and writes one integer.
        unsafe { context.bind()?.cuThreadExchangeStreamCaptureMode(&mut mode) }?;
        let all = [
            CaptureMode::Global,
            CaptureMode::ThreadLocal,
            CaptureMode::Relaxed,
        ];
        Ok(all.get(mode as usize).copied())
    }
}

/// What the driver says of a stream and captures (`CUstreamCaptureStatus`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CaptureStatus {
    /// It does not take part in one.
    None,
    /// It takes part in one.
    Active,
    /// A call spoilt the capture, which is still to be ended.
    Invalidated,
    /// What CUDA numbers otherwise.
    Other(u32),
}

impl Stream {
    /// Whether it is being captured, as the driver sees it: also by another
    /// library (`cuStreamIsCapturing`).
    pub fn capture_status(&self) -> Result<CaptureStatus, Error> {
        let mut status = 0;
        let api = self.context().bind()?;
        // SAFETY: the stream is live; writes one integer.
        unsafe { api.cuStreamIsCapturing(self.raw(), &mut status) }?;
        Ok(match status {
            0 => CaptureStatus::None,
            1 => CaptureStatus::Active,
            2 => CaptureStatus::Invalidated,
            other => CaptureStatus::Other(other),
        })
    }
}

impl Event {
    /// Records the event in each launch of the graph that the stream is captured
    /// into, as a node of its own (`cuEventRecordWithFlags`, from CUDA 11.1),
    /// where [`record`](Event::record) only says what others come after. The
    /// stream captures.
    pub fn record_each_launch(self: &Arc<Self>, stream: &Stream) -> Result<(), Error> {
        const EXTERNAL: c_uint = 1;
        if stream.context() != self.context() {
            return Err(Error::DifferentContexts {
                what: "event and stream",
            });
        }
        let api = stream.context().bind()?;
        let turn = stream.turn();
        // SAFETY: event and stream are live and of one context; the graph keeps the event.
        unsafe { api.cuEventRecordWithFlags(self.raw(), stream.raw(), EXTERNAL) }?;
        if let Some(capture) = turn.capture() {
            capture.add(self.clone());
        }
        Ok(())
    }
}

impl Keep for Event {}

impl Graph {
    /// The graph of what `work` queues in the stream it is given, which does not
    /// run (`cuStreamBeginCapture_v2`, `cuStreamEndCapture`). Streams that wait
    /// for an event recorded there take part, and have to be waited for in turn.
    ///
    /// The default streams cannot be captured. What other threads queue in the
    /// stream meanwhile is in the graph too. Where `work` fails, or calls what cannot
    /// be captured, there is no graph, and the error of that call.
    pub fn capture(
        stream: &Stream,
        mode: CaptureMode,
        work: impl FnOnce(&Stream) -> Result<(), Error>,
    ) -> Result<Graph, Error> {
        /// Ends the capture, also where `work` panics.
        struct Capturing<'a> {
            stream: &'a Stream,
            capture: Arc<Capture>,
            ended: bool,
        }
        impl Capturing<'_> {
            fn end(&mut self) -> (Result<CUgraph, Error>, Vec<Kept>) {
                self.ended = true;
                self.capture.end(|| {
                    let api = self.stream.context().bind()?;
                    let mut handle = null_mut();
                    // SAFETY: the stream is live; writes one handle.
                    unsafe { api.cuStreamEndCapture(self.stream.raw(), &mut handle) }?;
                    Ok(handle)
                })
            }
        }
        impl Drop for Capturing<'_> {
            fn drop(&mut self) {
                if !self.ended {
                    let (graph, kept) = self.end();
                    if let Ok(handle) = graph
                        && !handle.is_null()
                    {
                        drop(Graph::own(self.stream.context(), handle, kept));
                    }
                }
            }
        }

        stream.refuse_per_thread()?;
        let api = stream.context().bind()?;
        let capture = Arc::new(Capture::default());
        let alone = stream.alone();
        // SAFETY: the stream is live.
        unsafe { api.cuStreamBeginCapture_v2(stream.raw(), mode as c_uint) }?;
        stream.join_capture(&capture);
        drop(alone);
        let mut capturing = Capturing {
            stream,
            capture,
            ended: false,
        };
        let done = work(stream);
        let (handle, kept) = capturing.end();
        // What spoilt the capture says more than that it is spoilt.
        if let (Err(error), Err(_)) = (&done, &handle) {
            return Err(error.clone());
        }
        let graph = Graph::own(stream.context(), handle?, kept);
        done.map(|()| graph)
    }
}
