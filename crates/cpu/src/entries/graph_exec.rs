//! Graphs that are ready: launched, and changed between launches.

use std::ffi::c_uint;
use std::sync::{Arc, Mutex};

use super::context;
use super::entry::{Given, entries};
use super::event;
use super::graph::{self, Kind, Node, Nodes, Work, all_of, lock};
use super::graph_memory;
use super::handle::{Handles, pointer};
use super::status::{Answer, Status};
use super::stream;
use api::{
    CUDA_HOST_NODE_PARAMS_v1, CUDA_KERNEL_NODE_PARAMS_v2, CUDA_MEMCPY3D,
    CUDA_MEMSET_NODE_PARAMS_v1, CUcontext, CUevent, CUgraph, CUgraphExec, CUgraphNode, CUstream,
    GraphUpdateResult,
};

static READY: Handles<Ready> = Handles::new();

/// A graph that can be launched. Its nodes go by their handles in the graph
/// that it was made from.
pub(super) struct Ready {
    nodes: Mutex<Nodes>,
}

impl Ready {
    /// Gives a node other work of the same kind.
    fn replace<H>(&self, node: Given<H>, kind: Kind, work: Work) -> Answer {
        match lock(&self.nodes).get_mut(&node.addr()) {
            Some(node) if node.kind == kind => {
                node.work = work;
                Ok(())
            }
            _ => Err(Status::INVALID_VALUE
                .because("the executable graph has no such node, or it is of another kind")),
        }
    }
}

fn ready<H>(graph: Given<H>) -> Answer<Arc<Ready>> {
    context::working()?;
    READY
        .get(graph)
        .ok_or_else(|| Status::INVALID_VALUE.because("no executable graph has this handle"))
}

/// A node that can be passed over: a launch, copy or fill.
fn switchable<H>(nodes: &mut Nodes, node: Given<H>) -> Answer<&mut Node> {
    nodes
        .get_mut(&node.addr())
        .filter(|node| matches!(node.kind, Kind::Kernel | Kind::Copy | Kind::Fill))
        .ok_or_else(|| {
            Status::INVALID_VALUE
                .because("only launches, copies and fills of the graph can be passed over")
        })
}

/// How the graphs differ, as `CU_GRAPH_EXEC_UPDATE_…`, and at which node.
fn difference(old: &Nodes, new: &Nodes) -> Result<(), (c_uint, usize)> {
    const TOPOLOGY_CHANGED: c_uint = 2;
    const NODE_TYPE_CHANGED: c_uint = 3;
    let place = |nodes: &Nodes, handle: &usize| nodes.range(..handle).count();
    if old.len() != new.len() {
        return Err((TOPOLOGY_CHANGED, 0));
    }
    for (node, (handle, other)) in old.values().zip(new) {
        let before = node.after.iter().map(|handle| place(old, handle));
        if !before.eq(other.after.iter().map(|handle| place(new, handle))) {
            return Err((TOPOLOGY_CHANGED, *handle));
        }
        if node.kind != other.kind {
            return Err((NODE_TYPE_CHANGED, *handle));
        }
    }
    Ok(())
}

entries! {
    fn cuGraphInstantiateWithFlags(result: *mut CUgraphExec, graph: CUgraph, flags: u64) {
        // AUTO_FREE_ON_LAUNCH, UPLOAD, DEVICE_LAUNCH, USE_NODE_PRIORITY
        const KNOWN: u64 = 0xf;
        let graph = graph::find(graph)?;
        if flags & !KNOWN != 0 || result.is_null() {
            return Err(Status::INVALID_VALUE.because("unknown flags of cuGraphInstantiate"));
        }
        const AUTO_FREE_ON_LAUNCH: u64 = 1;
        graph.check_memory(flags & AUTO_FREE_ON_LAUNCH != 0)?;
        let nodes = graph.nodes().clone();
        let made = Arc::new(Ready {
            nodes: Mutex::new(nodes),
        });
        graph.is_ready_as(&made);
        result.put(pointer(READY.insert(made)))
    }

    fn cuGraphExecUpdate_v2(
        exec: CUgraphExec,
        graph: CUgraph,
        result: *mut GraphUpdateResult,
    ) {
        let (exec, graph) = (ready(exec)?, graph::find(graph)?);
        let new = graph.nodes().clone();
        let mut nodes = lock(&exec.nodes);
        let found = difference(&nodes, &new);
        let (reason, node) = found.err().unwrap_or((0, 0));
        result.put_if_asked(GraphUpdateResult {
            result: reason,
            error_node: pointer(node),
            error_from_node: std::ptr::null_mut(),
        });
        if reason != 0 {
            return Err(Status::GRAPH_EXEC_UPDATE_FAILURE.into());
        }
        for (node, other) in nodes.values_mut().zip(new.into_values()) {
            node.work = other.work;
        }
        Ok(())
    }

    fn cuGraphExecKernelNodeSetParams_v2(
        exec: CUgraphExec,
        node: CUgraphNode,
        described: *const CUDA_KERNEL_NODE_PARAMS_v2,
    ) {
        let exec = ready(exec)?;
        let work = graph::kernel(described)?;
        exec.replace(node, Kind::Kernel, work)
    }

    fn cuGraphExecMemcpyNodeSetParams(
        exec: CUgraphExec,
        node: CUgraphNode,
        described: *const CUDA_MEMCPY3D,
        _context: CUcontext,
    ) {
        ready(exec)?.replace(node, Kind::Copy, graph::copying(described)?)
    }

    fn cuGraphExecMemsetNodeSetParams(
        exec: CUgraphExec,
        node: CUgraphNode,
        described: *const CUDA_MEMSET_NODE_PARAMS_v1,
        _context: CUcontext,
    ) {
        ready(exec)?.replace(node, Kind::Fill, graph::filling(described)?)
    }

    fn cuGraphExecHostNodeSetParams(
        exec: CUgraphExec,
        node: CUgraphNode,
        described: *const CUDA_HOST_NODE_PARAMS_v1,
    ) {
        ready(exec)?.replace(node, Kind::Host, graph::calling(described)?)
    }

    fn cuGraphExecChildGraphNodeSetParams(exec: CUgraphExec, node: CUgraphNode, child: CUgraph) {
        let child = graph::find(child)?;
        graph_memory::refuse(&child.nodes())?;
        ready(exec)?.replace(node, Kind::Graph, child.work())
    }

    fn cuGraphExecEventRecordNodeSetEvent(exec: CUgraphExec, node: CUgraphNode, event: CUevent) {
        ready(exec)?.replace(node, Kind::RecordEvent, event::recording(event)?)
    }

    fn cuGraphExecEventWaitNodeSetEvent(exec: CUgraphExec, node: CUgraphNode, event: CUevent) {
        ready(exec)?.replace(node, Kind::WaitEvent, event::waiting(event)?)
    }

    fn cuGraphNodeSetEnabled(exec: CUgraphExec, node: CUgraphNode, enabled: c_uint) {
        let exec = ready(exec)?;
        let mut nodes = lock(&exec.nodes);
        switchable(&mut nodes, node)?.enabled = enabled != 0;
        Ok(())
    }

    fn cuGraphNodeGetEnabled(exec: CUgraphExec, node: CUgraphNode, enabled: *mut c_uint) {
        let exec = ready(exec)?;
        let mut nodes = lock(&exec.nodes);
        enabled.put(c_uint::from(switchable(&mut nodes, node)?.enabled))
    }

    fn cuGraphUpload(exec: CUgraphExec, stream: CUstream) {
        ready(exec)?;
        stream::find(stream)?;
        Ok(())
    }

    fn cuGraphLaunch(exec: CUgraphExec, stream: CUstream) {
        let exec = ready(exec)?;
        let (context, stream) = stream::find(stream)?;
        let work = all_of(&lock(&exec.nodes));
        // So does NVIDIA's driver: what is captured is nested by `cuGraphAddChildGraphNode`.
        stream.refuse_captured("a graph that is ready cannot become a part of another")?;
        stream.push(&context, move |context| work(context));
        Ok(())
    }

    /// Launches of it run to their end.
    fn cuGraphExecDestroy(exec: CUgraphExec) {
        ready(exec)?;
        READY.remove(exec.addr());
        Ok(())
    }
}
