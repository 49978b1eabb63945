//! Capturing streams.

use std::ffi::c_uint;

use super::entry::entries;
use super::graph::{check_edge_data, named};
use crate::state::capture::{self, CaptureMode};
use crate::state::handle::pointer;
use crate::state::status::{Result, Status};
use crate::state::user_pointer::UserPointer;
use crate::state::{graph, stream};
use api::{CUgraph, CUgraphNode, CUstream, EdgeData};

/// Where a caller wants to know of a capture, all but the status.
struct Told {
    id: UserPointer<u64>,
    graph: UserPointer<CUgraph>,
    dependencies: UserPointer<*const CUgraphNode>,
    edges: UserPointer<*const EdgeData>,
    count: UserPointer<usize>,
}

/// Writes the state of a capture. The arrays stay up to the stream's next call.
fn tell(stream: usize, status: UserPointer<c_uint>, told: &Told) -> Result {
    let (_, stream) = stream::find_any(stream)?;
    let mut slot = stream.capture();
    let Some(point) = slot.as_mut() else {
        return status.put(0);
    };
    if point.capture.check().is_err() {
        return status.put(2);
    }
    status.put(1)?;
    told.id.put_optional(point.capture.handle as u64);
    told.graph.put_optional(pointer(point.capture.handle));
    let (nodes, edges) = point.next_edges();
    told.dependencies.put_optional(nodes.as_ptr().cast());
    told.edges.put_optional(edges.as_ptr());
    told.count.put_optional(nodes.len());
    Ok(())
}

/// Adds to the nodes that the next one of a capture depends on, or replaces them.
fn update(stream: usize, nodes: UserPointer<CUgraphNode>, count: usize, flags: c_uint) -> Result {
    // CU_STREAM_ADD_CAPTURE_DEPENDENCIES, CU_STREAM_SET_CAPTURE_DEPENDENCIES
    let replaces = match flags {
        0 => false,
        1 => true,
        _ => {
            return Err(
                Status::INVALID_VALUE.because("unknown flags of the dependencies of a capture")
            );
        }
    };
    let (_, stream) = stream::find_any(stream)?;
    let mut slot = stream.capture();
    let point = slot
        .as_mut()
        .ok_or_else(|| Status::ILLEGAL_STATE.because("the stream does not capture"))?;
    point.capture.check()?;
    let nodes = named(&point.capture.graph, nodes, count)?;
    point.depend_on(&nodes, replaces);
    Ok(())
}

entries! {
    fn cuStreamBeginCapture_v2(stream: CUstream, mode: c_uint) {
        let (context, stream) = stream::find(stream.addr())?;
        let mode = CaptureMode::new(mode)?;
        stream.begin_capture(&context, mode, None)
    }

    fn cuStreamEndCapture(stream: CUstream, graph: *mut CUgraph) {
        let (_, stream) = stream::find_any(stream.addr())?;
        graph.put_optional(std::ptr::null_mut());
        let handle = stream.end_capture()?;
        // The capture ends without a pointer for its graph too.
        if graph.is_null() { graph::destroy(handle) } else { graph.put(pointer(handle)) }
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

    fn cuStreamBeginCaptureToGraph(
        stream: CUstream,
        graph: CUgraph,
        after: *const CUgraphNode,
        data: *const EdgeData,
        count: usize,
        mode: c_uint,
    ) {
        let (context, stream) = stream::find(stream.addr())?;
        let mode = CaptureMode::new(mode)?;
        check_edge_data(data, count)?;
        let after = named(&*graph::find(graph.addr())?, after, count)?;
        stream.begin_capture(&context, mode, Some((graph.addr(), after)))
    }

    fn cuStreamGetCaptureInfo_v2(
        stream: CUstream,
        status: *mut c_uint,
        id: *mut u64,
        graph: *mut CUgraph,
        dependencies: *mut *const CUgraphNode,
        count: *mut usize,
    ) {
        let edges = UserPointer::null();
        tell(stream.addr(), status, &Told { id, graph, dependencies, edges, count })
    }

    fn cuStreamGetCaptureInfo_v3(
        stream: CUstream,
        status: *mut c_uint,
        id: *mut u64,
        graph: *mut CUgraph,
        dependencies: *mut *const CUgraphNode,
        edges: *mut *const EdgeData,
        count: *mut usize,
    ) {
        tell(stream.addr(), status, &Told { id, graph, dependencies, edges, count })
    }

    fn cuStreamUpdateCaptureDependencies(
        stream: CUstream,
        nodes: *mut CUgraphNode,
        count: usize,
        flags: c_uint,
    ) {
        update(stream.addr(), nodes, count, flags)
    }

    fn cuStreamUpdateCaptureDependencies_v2(
        stream: CUstream,
        nodes: *mut CUgraphNode,
        data: *const EdgeData,
        count: usize,
        flags: c_uint,
    ) {
        check_edge_data(data, count)?;
        update(stream.addr(), nodes, count, flags)
    }

    fn cuThreadExchangeStreamCaptureMode(mode: *mut c_uint) {
        mode.put(capture::exchange_mode(mode.get()?))
    }
}
