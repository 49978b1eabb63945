//! Executable graphs.

use std::ffi::c_uint;

use super::entry::entries;
use super::graph_node;
use crate::state::graph_exec::{AUTO_FREE_ON_LAUNCH, DEVICE_LAUNCH};
use crate::state::handle::pointer;
use crate::state::node::{NodeKind, Params};
use crate::state::status::{Result, Status};
use crate::state::{event, graph, graph_exec, stream};
use api::{
    CUDA_HOST_NODE_PARAMS_v1, CUDA_KERNEL_NODE_PARAMS_v2, CUDA_MEMCPY3D,
    CUDA_MEMSET_NODE_PARAMS_v1, CUcontext, CUevent, CUgraph, CUgraphExec, CUgraphNode, CUstream,
    GraphNodeParams, GraphUpdateResult, InstantiateParams,
};

/// `CUDA_GRAPH_INSTANTIATE_FLAG_…`
const UPLOAD: u64 = 2;
const USE_NODE_PRIORITY: u64 = 8;

fn check_flags(flags: u64) -> Result {
    const KNOWN: u64 = AUTO_FREE_ON_LAUNCH | UPLOAD | DEVICE_LAUNCH | USE_NODE_PRIORITY;
    const APART: u64 = AUTO_FREE_ON_LAUNCH | DEVICE_LAUNCH;
    match flags {
        _ if flags & !KNOWN != 0 => {
            Err(Status::INVALID_VALUE.because("unknown flags of cuGraphInstantiate"))
        }
        _ if flags & APART == APART => Err(Status::INVALID_VALUE
            .because("a graph that kernels launch does not free its memory on a launch")),
        _ => Ok(()),
    }
}

entries! {
    capture_unsafe cuGraphInstantiateWithFlags(result: *mut CUgraphExec, graph: CUgraph, flags: u64) {
        let graph = graph::find(graph.addr())?;
        check_flags(flags)?;
        if result.is_null() {
            return Err(Status::INVALID_VALUE.into());
        }
        result.put(pointer(graph_exec::instantiate(&graph, flags)?))
    }

    capture_unsafe cuGraphInstantiateWithParams(
        result: *mut CUgraphExec,
        graph: CUgraph,
        params: *mut InstantiateParams,
    ) {
        const ERROR: c_uint = 1;
        let read = params.get()?;
        let told = |result| InstantiateParams { error_node: std::ptr::null_mut(), result, ..read };
        params.put(told(ERROR))?;
        let graph = graph::find(graph.addr())?;
        check_flags(read.flags)?;
        if result.is_null() {
            return Err(Status::INVALID_VALUE.into());
        }
        if read.flags & UPLOAD != 0 {
            stream::find(read.upload_stream.addr())?;
        }
        result.put(pointer(graph_exec::instantiate(&graph, read.flags)?))?;
        params.put(told(0))
    }

    fn cuGraphExecGetFlags(exec: CUgraphExec, flags: *mut u64) {
        // What the upload was asked for does not stay.
        const UPLOAD: u64 = 2;
        flags.put(graph_exec::find(exec.addr())?.flags & !UPLOAD)
    }

    fn cuGraphExecNodeSetParams(exec: CUgraphExec, node: CUgraphNode, params: *mut GraphNodeParams) {
        let exec = graph_exec::find(exec.addr())?;
        let (kind, params, work) = graph_node::of_any_kind(params)?.ok_or_else(|| Status::NOT_SUPPORTED
            .because("allocations and conditional nodes of an executable graph do not change"))?;
        let replaced = exec.replace(node.addr(), kind, work);
        // The work holds what it needs of a graph within the node.
        if let Params::Graph(graph) = params {
            graph::discard(graph);
        }
        replaced
    }

    fn cuGraphExecUpdate_v2(
        exec: CUgraphExec,
        graph: CUgraph,
        result: *mut GraphUpdateResult,
    ) {
        let (exec, graph) = (graph_exec::find(exec.addr())?, graph::find(graph.addr())?);
        let (reason, node) = exec.update(&graph).err().unwrap_or((0, 0));
        result.put_optional(GraphUpdateResult {
            result: reason,
            error_node: pointer(node),
            error_from_node: std::ptr::null_mut(),
        });
        match reason {
            0 => Ok(()),
            _ => Err(Status::GRAPH_EXEC_UPDATE_FAILURE.into()),
        }
    }

    fn cuGraphExecKernelNodeSetParams_v2(
        exec: CUgraphExec,
        node: CUgraphNode,
        params: *const CUDA_KERNEL_NODE_PARAMS_v2,
    ) {
        let exec = graph_exec::find(exec.addr())?;
        let (_, work) = graph_node::kernel(params)?;
        exec.replace(node.addr(), NodeKind::Kernel, work)
    }

    fn cuGraphExecMemcpyNodeSetParams(
        exec: CUgraphExec,
        node: CUgraphNode,
        params: *const CUDA_MEMCPY3D,
        _context: CUcontext,
    ) {
        graph_exec::find(exec.addr())?.replace(node.addr(), NodeKind::Copy, graph_node::copy(params)?.1)
    }

    fn cuGraphExecMemsetNodeSetParams(
        exec: CUgraphExec,
        node: CUgraphNode,
        params: *const CUDA_MEMSET_NODE_PARAMS_v1,
        _context: CUcontext,
    ) {
        let exec = graph_exec::find(exec.addr())?;
        if params.get()?.height > 1 {
            return Err(Status::INVALID_VALUE
                .because("height is not 1; an executable graph changes memsets of one row"));
        }
        exec.replace(node.addr(), NodeKind::Fill, graph_node::fill(params)?.1)
    }

    fn cuGraphExecHostNodeSetParams(
        exec: CUgraphExec,
        node: CUgraphNode,
        params: *const CUDA_HOST_NODE_PARAMS_v1,
    ) {
        graph_exec::find(exec.addr())?.replace(node.addr(), NodeKind::Host, graph_node::host(params)?.1)
    }

    fn cuGraphExecChildGraphNodeSetParams(exec: CUgraphExec, node: CUgraphNode, child: CUgraph) {
        let child = graph::find(child.addr())?;
        child.refuse_allocations()?;
        graph_exec::find(exec.addr())?.replace(node.addr(), NodeKind::Graph, child.work())
    }

    fn cuGraphExecEventRecordNodeSetEvent(exec: CUgraphExec, node: CUgraphNode, event: CUevent) {
        graph_exec::find(exec.addr())?.replace(node.addr(), NodeKind::RecordEvent, event::recording(event.addr())?)
    }

    fn cuGraphExecEventWaitNodeSetEvent(exec: CUgraphExec, node: CUgraphNode, event: CUevent) {
        graph_exec::find(exec.addr())?.replace(node.addr(), NodeKind::WaitEvent, event::waiting(event.addr())?)
    }

    fn cuGraphNodeSetEnabled(exec: CUgraphExec, node: CUgraphNode, enabled: c_uint) {
        graph_exec::find(exec.addr())?.set_enabled(node.addr(), enabled != 0)
    }

    fn cuGraphNodeGetEnabled(exec: CUgraphExec, node: CUgraphNode, enabled: *mut c_uint) {
        let is_enabled = graph_exec::find(exec.addr())?.is_enabled(node.addr())?;
        enabled.put(c_uint::from(is_enabled))
    }

    fn cuGraphUpload(exec: CUgraphExec, stream: CUstream) {
        graph_exec::find(exec.addr())?;
        let (_, stream) = stream::find(stream.addr())?;
        stream.refuse_captured("the stream is capturing; upload the graph before or after the capture")
    }

    fn cuGraphLaunch(exec: CUgraphExec, stream: CUstream) {
        let (context, stream) = stream::find(stream.addr())?;
        // As NVIDIA's driver: graphs are nested by `cuGraphAddChildGraphNode`.
        stream.refuse_captured("an executable graph cannot become a part of another")?;
        let exec = graph_exec::find(exec.addr())?;
        let work = exec.launch()?;
        stream.push(&context, move |context| work(context));
        Ok(())
    }

    capture_unsafe cuGraphExecDestroy(exec: CUgraphExec) {
        graph_exec::destroy(exec.addr())
    }
}
