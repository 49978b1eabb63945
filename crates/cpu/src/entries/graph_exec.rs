//! Executable graphs.

use std::ffi::c_uint;

use super::entry::entries;
use super::graph_node;
use crate::state::handle::pointer;
use crate::state::node::NodeKind;
use crate::state::status::Status;
use crate::state::{event, graph, graph_exec, stream};
use api::{
    CUDA_HOST_NODE_PARAMS_v1, CUDA_KERNEL_NODE_PARAMS_v2, CUDA_MEMCPY3D,
    CUDA_MEMSET_NODE_PARAMS_v1, CUcontext, CUevent, CUgraph, CUgraphExec, CUgraphNode, CUstream,
    GraphUpdateResult,
};

entries! {
    fn cuGraphInstantiateWithFlags(result: *mut CUgraphExec, graph: CUgraph, flags: u64) {
        // AUTO_FREE_ON_LAUNCH, UPLOAD, DEVICE_LAUNCH, USE_NODE_PRIORITY
        const KNOWN: u64 = 0xf;
        let graph = graph::find(graph.addr())?;
        if flags & !KNOWN != 0 || result.is_null() {
            return Err(Status::INVALID_VALUE.because("unknown flags of cuGraphInstantiate"));
        }
        const AUTO_FREE_ON_LAUNCH: u64 = 1;
        let frees_on_launch = flags & AUTO_FREE_ON_LAUNCH != 0;
        result.put(pointer(graph_exec::instantiate(&graph, frees_on_launch)?))
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
        let work = graph_node::kernel(params)?;
        exec.replace(node.addr(), NodeKind::Kernel, work)
    }

    fn cuGraphExecMemcpyNodeSetParams(
        exec: CUgraphExec,
        node: CUgraphNode,
        params: *const CUDA_MEMCPY3D,
        _context: CUcontext,
    ) {
        graph_exec::find(exec.addr())?.replace(node.addr(), NodeKind::Copy, graph_node::copy(params)?)
    }

    fn cuGraphExecMemsetNodeSetParams(
        exec: CUgraphExec,
        node: CUgraphNode,
        params: *const CUDA_MEMSET_NODE_PARAMS_v1,
        _context: CUcontext,
    ) {
        graph_exec::find(exec.addr())?.replace(node.addr(), NodeKind::Fill, graph_node::fill(params)?)
    }

    fn cuGraphExecHostNodeSetParams(
        exec: CUgraphExec,
        node: CUgraphNode,
        params: *const CUDA_HOST_NODE_PARAMS_v1,
    ) {
        graph_exec::find(exec.addr())?.replace(node.addr(), NodeKind::Host, graph_node::host(params)?)
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
        stream::find(stream.addr())?;
        Ok(())
    }

    fn cuGraphLaunch(exec: CUgraphExec, stream: CUstream) {
        let exec = graph_exec::find(exec.addr())?;
        let (context, stream) = stream::find(stream.addr())?;
        let work = exec.work();
        // As NVIDIA's driver: graphs are nested by `cuGraphAddChildGraphNode`.
        stream.refuse_captured("an executable graph cannot become a part of another")?;
        stream.push(&context, move |context| work(context));
        Ok(())
    }

    fn cuGraphExecDestroy(exec: CUgraphExec) {
        graph_exec::destroy(exec.addr())
    }
}
