//! Capturing streams.

use std::cell::Cell;
use std::ffi::c_uint;

use super::entry::entries;
use crate::state::handle::pointer;
use crate::state::status::Status;
use crate::state::{graph, stream};
use api::{CUgraph, CUstream};

/// `CU_STREAM_CAPTURE_MODE_RELAXED`
const RELAXED: c_uint = 2;

thread_local! {
    /// Stored without effect: no call is unsafe for a capture here.
    static MODE: Cell<c_uint> = const { Cell::new(0) };
}

entries! {
    fn cuStreamBeginCapture_v2(stream: CUstream, mode: c_uint) {
        let (context, stream) = stream::find(stream.addr())?;
        if mode > RELAXED {
            return Err(Status::INVALID_VALUE.because("unknown mode of a capture"));
        }
        stream.begin_capture(&context, mode == RELAXED)
    }

    fn cuStreamEndCapture(stream: CUstream, graph: *mut CUgraph) {
        let (_, stream) = stream::find_any(stream.addr())?;
        if graph.is_null() {
            return Err(Status::INVALID_VALUE.because("the pointer for the graph is null"));
        }
        graph.put_optional(std::ptr::null_mut());
        graph.put(pointer(graph::create(stream.end_capture()?)))
    }

    fn cuStreamIsCapturing(stream: CUstream, status: *mut c_uint) {
        let (_, stream) = stream::find_any(stream.addr())?;
        let slot = stream.capture();
        status.put(match slot.as_ref() {
            None => 0,
            Some(point) if point.capture.check().is_ok() => 1,
            Some(_) => 2,
        })
    }

    fn cuThreadExchangeStreamCaptureMode(mode: *mut c_uint) {
        let new = mode.get()?;
        if new > RELAXED {
            return Err(Status::INVALID_VALUE.because("unknown mode of a capture"));
        }
        mode.put(MODE.replace(new))
    }
}
