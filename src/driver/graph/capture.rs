//! Stream capture into a graph.

use std::ffi::c_uint;
use std::ptr::null_mut;
use std::sync::Arc;

use crate::driver::error::Error;
use crate::driver::graph::Graph;
use crate::driver::stream::Stream;
use crate::driver::stream::before_capture;
use crate::driver::stream::capture::CaptureMode;
use crate::driver::stream::retained::{Capture, RetainedRef};
use api::CUgraph;

impl Graph {
    /// Captures what `work` queues in the stream, which does not run, into a graph
    /// (`cuStreamBeginCapture_v2`, `cuStreamEndCapture`). Streams that wait for an event
    /// recorded there join the capture, and must be waited for in turn.
    ///
    /// The default streams cannot be captured. Work that other threads queue in the stream
    /// meanwhile is captured too. If `work` fails, or makes a call that cannot be captured,
    /// the result is the error of that call.
    pub fn capture(
        stream: &Stream,
        mode: CaptureMode,
        work: impl FnOnce(&Stream) -> Result<(), Error>,
    ) -> Result<Graph, Error> {
        /// Ends the capture, also if `work` panics.
        struct CaptureScope<'a> {
            stream: &'a Stream,
            capture: Arc<Capture>,
            ended: bool,
        }
        impl CaptureScope<'_> {
            fn end(&mut self) -> (Result<CUgraph, Error>, Vec<RetainedRef>) {
                self.ended = true;
                let ended = self.capture.end(|| {
                    let api = self.stream.context().bind()?;
                    let mut handle = null_mut();
                    // SAFETY: the stream is live; writes one handle.
                    unsafe { api.cuStreamEndCapture(self.stream.raw(), &mut handle) }?;
                    Ok(handle)
                });
                before_capture::forget_ended();
                ended
            }
        }
        impl Drop for CaptureScope<'_> {
            fn drop(&mut self) {
                if !self.ended {
                    let (graph, retained) = self.end();
                    if let Ok(handle) = graph
                        && !handle.is_null()
                    {
                        drop(Graph::own(self.stream.context(), handle, retained));
                    }
                }
            }
        }

        stream.refuse_per_thread()?;
        let api = stream.context().bind()?;
        let capture = Arc::new(Capture::default());
        let exclusive = stream.lock_exclusive();
        if !stream.is_capturing() {
            before_capture::record(stream, &capture)?;
        }
        // SAFETY: the stream is live.
        let begun = unsafe { api.cuStreamBeginCapture_v2(stream.raw(), mode as c_uint) };
        if begun.is_err() {
            capture.end(|| ());
            before_capture::forget_ended();
        }
        begun?;
        stream.join_capture(&capture);
        drop(exclusive);
        let mut scope = CaptureScope {
            stream,
            capture,
            ended: false,
        };
        let done = work(stream);
        let (handle, retained) = scope.end();
        // The error that invalidated the capture says more than its end does.
        if let (Err(error), Err(_)) = (&done, &handle) {
            return Err(error.clone());
        }
        let graph = Graph::own(stream.context(), handle?, retained);
        done.map(|()| graph)
    }
}
