//! Streams.

use std::ffi::{c_int, c_uint, c_void};

use api::{AttributeBits, CUevent, CUgraph, CUgraphNode, CUstream, EdgeData, StreamCallback};

use crate::context::ready;
use crate::entry::{Stream, driver, entries};

entries! {
    /// A new stream, ordered with the default stream.
    fn cudaStreamCreate(stream: *mut CUstream) {
        ready()?;
        driver!(cuStreamCreate(stream.required()?, 0))
    }

    /// A new stream with flags.
    fn cudaStreamCreateWithFlags(stream: *mut CUstream, flags: c_uint) {
        ready()?;
        driver!(cuStreamCreate(stream.required()?, flags))
    }

    /// A new stream with flags and a priority.
    fn cudaStreamCreateWithPriority(stream: *mut CUstream, flags: c_uint, priority: c_int) {
        ready()?;
        driver!(cuStreamCreateWithPriority(stream.required()?, flags, priority))
    }

    /// Destroys a stream, whose work runs to its end.
    fn cudaStreamDestroy(stream: CUstream) {
        ready()?;
        driver!(cuStreamDestroy_v2(stream.ptr()))
    }

    /// Waits for a stream's work.
    fn cudaStreamSynchronize / cudaStreamSynchronize_ptsz(stream: Stream) {
        ready()?;
        driver!(cuStreamSynchronize(stream))
    }

    /// Whether a stream's work is done.
    fn cudaStreamQuery / cudaStreamQuery_ptsz(stream: Stream) {
        ready()?;
        driver!(cuStreamQuery(stream))
    }

    /// Lets a stream wait for an event.
    fn cudaStreamWaitEvent / cudaStreamWaitEvent_ptsz(stream: Stream, event: CUevent, flags: c_uint) {
        ready()?;
        driver!(cuStreamWaitEvent(stream, event.ptr(), flags))
    }

    /// Calls a function of the host when the work so far is done.
    fn cudaStreamAddCallback / cudaStreamAddCallback_ptsz(stream: Stream, callback: StreamCallback, data: *mut c_void, flags: c_uint) {
        ready()?;
        driver!(cuStreamAddCallback(stream, callback, data.ptr(), flags))
    }

    /// A stream's flags.
    fn cudaStreamGetFlags / cudaStreamGetFlags_ptsz(stream: Stream, flags: *mut c_uint) {
        ready()?;
        driver!(cuStreamGetFlags(stream, flags.required()?))
    }

    /// A stream's priority.
    fn cudaStreamGetPriority / cudaStreamGetPriority_ptsz(stream: Stream, priority: *mut c_int) {
        ready()?;
        driver!(cuStreamGetPriority(stream, priority.required()?))
    }

    /// A number that no other stream has.
    fn cudaStreamGetId / cudaStreamGetId_ptsz(stream: Stream, id: *mut u64) {
        ready()?;
        driver!(cuStreamGetId(stream, id.required()?))
    }

    /// A stream's device.
    fn cudaStreamGetDevice / cudaStreamGetDevice_ptsz(stream: Stream, device: *mut c_int) {
        ready()?;
        driver!(cuStreamGetDevice(stream, device.required()?))
    }

    /// One attribute of a stream.
    fn cudaStreamGetAttribute / cudaStreamGetAttribute_ptsz(stream: Stream, number: c_uint, value: *mut AttributeBits) {
        ready()?;
        driver!(cuStreamGetAttribute(stream, number, value.required()?))
    }

    /// Sets one.
    fn cudaStreamSetAttribute / cudaStreamSetAttribute_ptsz(stream: Stream, number: c_uint, value: *const AttributeBits) {
        ready()?;
        driver!(cuStreamSetAttribute(stream, number, value.required()?))
    }

    /// Gives a stream the attributes of another.
    fn cudaStreamCopyAttributes / cudaStreamCopyAttributes_ptsz(target: Stream, source: Stream) {
        ready()?;
        driver!(cuStreamCopyAttributes(target, source))
    }

    /// Work of a stream goes into a graph from now on.
    fn cudaStreamBeginCapture / cudaStreamBeginCapture_ptsz(stream: Stream, mode: c_uint) {
        ready()?;
        driver!(cuStreamBeginCapture_v2(stream, mode))
    }

    /// Work of a stream goes into a graph that there is from now on, behind some of its nodes.
    fn cudaStreamBeginCaptureToGraph / cudaStreamBeginCaptureToGraph_ptsz(stream: Stream, graph: CUgraph, nodes: *const CUgraphNode, edges: *const EdgeData, count: usize, mode: c_uint) {
        ready()?;
        driver!(cuStreamBeginCaptureToGraph(stream, graph.ptr(), nodes.ptr(), edges.ptr(), count, mode))
    }

    /// Adds to what the next work of a stream that captures depends on, or replaces it.
    fn cudaStreamUpdateCaptureDependencies / cudaStreamUpdateCaptureDependencies_ptsz(stream: Stream, nodes: *mut CUgraphNode, edges: *const EdgeData, count: usize, flags: c_uint) {
        ready()?;
        driver!(cuStreamUpdateCaptureDependencies_v2(stream, nodes.ptr(), edges.ptr(), count, flags))
    }

    /// The graph of what was captured.
    fn cudaStreamEndCapture / cudaStreamEndCapture_ptsz(stream: Stream, graph: *mut CUgraph) {
        ready()?;
        driver!(cuStreamEndCapture(stream, graph.required()?))
    }

    /// Whether a stream captures.
    fn cudaStreamIsCapturing / cudaStreamIsCapturing_ptsz(stream: Stream, status: *mut c_uint) {
        ready()?;
        driver!(cuStreamIsCapturing(stream, status.required()?))
    }

    /// What a stream captures, and what its next work depends on.
    fn cudaStreamGetCaptureInfo / cudaStreamGetCaptureInfo_ptsz(stream: Stream, status: *mut c_uint, id: *mut u64, graph: *mut CUgraph, nodes: *mut *const CUgraphNode, edges: *mut *const EdgeData, count: *mut usize) {
        ready()?;
        driver!(cuStreamGetCaptureInfo_v3(stream, status.required()?, id.ptr(), graph.ptr(), nodes.ptr(), edges.ptr(), count.ptr()))
    }

    /// What this thread may do while others capture.
    fn cudaThreadExchangeStreamCaptureMode(mode: *mut c_uint) {
        driver!(cuThreadExchangeStreamCaptureMode(mode.required()?))
    }
}
