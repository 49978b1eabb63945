//! What nodes of graphs are made of, and what they depend on.

use super::entry::entries;
use super::graph::write_nodes;
use super::graph_node;
use crate::state::graph;
use crate::state::handle::pointer;
use crate::state::node::{NodeKind, Params};
use crate::state::status::{Failure, Result, Status};
use crate::state::user_pointer::UserPointer;
use api::{
    CUDA_HOST_NODE_PARAMS_v1, CUDA_KERNEL_NODE_PARAMS_v2, CUDA_MEMCPY3D,
    CUDA_MEMSET_NODE_PARAMS_v1, CUdeviceptr, CUevent, CUgraph, CUgraphNode, EdgeData,
    GraphNodeParams, MemAllocNodeParams,
};

/// The parameters of a node of this kind.
fn params(
    node: UserPointer<cudarc::driver::sys::CUgraphNode_st>,
    kind: NodeKind,
) -> Result<Params> {
    let node = graph::node(node.addr())?;
    if node.kind == kind {
        Ok(node.params)
    } else {
        Err(Status::INVALID_VALUE.because("the node is of another kind"))
    }
}

fn unknown() -> Failure {
    Status::NOT_SUPPORTED.because("the CPU device does not tell what a captured node does")
}

/// Nodes, and what the edges to them carry.
type Neighbours = (Vec<usize>, Vec<EdgeData>);

/// The nodes that depend on a node.
fn dependents(node: usize) -> Result<Neighbours> {
    let edges = graph::of_node(node)?.edges();
    let of_node = edges.into_iter().filter(|(before, ..)| *before == node);
    Ok(of_node.map(|(_, after, data)| (after, data)).unzip())
}

/// The nodes that a node depends on.
fn dependencies(node: usize) -> Result<Neighbours> {
    let node = graph::node(node)?;
    let before = node.after.iter();
    Ok(before.map(|before| (*before, node.edge(*before))).unzip())
}

entries! {
    /// Without the arguments, which are copied when the node is made.
    fn cuGraphKernelNodeGetParams_v2(node: CUgraphNode, result: *mut CUDA_KERNEL_NODE_PARAMS_v2) {
        match params(node, NodeKind::Kernel)? {
            Params::Kernel(params) => result.put(params),
            _ => Err(unknown()),
        }
    }

    fn cuGraphMemcpyNodeGetParams(node: CUgraphNode, result: *mut CUDA_MEMCPY3D) {
        match params(node, NodeKind::Copy)? {
            Params::Copy(params) => result.put(params),
            _ => Err(unknown()),
        }
    }

    fn cuGraphMemsetNodeGetParams(node: CUgraphNode, result: *mut CUDA_MEMSET_NODE_PARAMS_v1) {
        match params(node, NodeKind::Fill)? {
            Params::Fill(params) => result.put(params),
            _ => Err(unknown()),
        }
    }

    fn cuGraphHostNodeGetParams(node: CUgraphNode, result: *mut CUDA_HOST_NODE_PARAMS_v1) {
        match params(node, NodeKind::Host)? {
            Params::Host(params) => result.put(params),
            _ => Err(unknown()),
        }
    }

    fn cuGraphChildGraphNodeGetGraph(node: CUgraphNode, result: *mut CUgraph) {
        match params(node, NodeKind::Graph)? {
            Params::Graph(graph) => result.put(pointer(graph)),
            _ => Err(unknown()),
        }
    }

    fn cuGraphEventRecordNodeGetEvent(node: CUgraphNode, result: *mut CUevent) {
        match params(node, NodeKind::RecordEvent)? {
            Params::Event(event) => result.put(pointer(event)),
            _ => Err(unknown()),
        }
    }

    fn cuGraphEventWaitNodeGetEvent(node: CUgraphNode, result: *mut CUevent) {
        match params(node, NodeKind::WaitEvent)? {
            Params::Event(event) => result.put(pointer(event)),
            _ => Err(unknown()),
        }
    }

    fn cuGraphMemAllocNodeGetParams(node: CUgraphNode, result: *mut MemAllocNodeParams) {
        match params(node, NodeKind::Allocate)? {
            Params::Allocate(params) => result.put(params),
            _ => Err(unknown()),
        }
    }

    fn cuGraphMemFreeNodeGetParams(node: CUgraphNode, result: *mut CUdeviceptr) {
        match params(node, NodeKind::Free)? {
            Params::Free(address) => result.put(address),
            _ => Err(unknown()),
        }
    }

    fn cuGraphNodeSetParams(node: CUgraphNode, params: *mut GraphNodeParams) {
        let graph = graph::of_node(node.addr())?;
        let (kind, params, work) = graph_node::of_any_kind(params)?.ok_or_else(|| {
            Status::NOT_SUPPORTED.because("allocations and conditional nodes do not change")
        })?;
        graph.set(node.addr(), kind, params, work)
    }

    fn cuGraphGetRootNodes(graph: CUgraph, nodes: *mut CUgraphNode, count: *mut usize) {
        let graph = graph::find(graph.addr())?;
        let all = graph.nodes().clone();
        let roots = all.iter().filter(|(_, node)| node.after.is_empty());
        let roots: Vec<usize> = roots.map(|(handle, _)| *handle).collect();
        write_nodes(&roots, &[], nodes, UserPointer::null(), count)
    }

    fn cuGraphNodeGetDependencies(
        node: CUgraphNode,
        nodes: *mut CUgraphNode,
        count: *mut usize,
    ) {
        let (before, edges) = dependencies(node.addr())?;
        write_nodes(&before, &edges, nodes, UserPointer::null(), count)
    }

    fn cuGraphNodeGetDependencies_v2(
        node: CUgraphNode,
        nodes: *mut CUgraphNode,
        data: *mut EdgeData,
        count: *mut usize,
    ) {
        let (before, edges) = dependencies(node.addr())?;
        write_nodes(&before, &edges, nodes, data, count)
    }

    fn cuGraphNodeGetDependentNodes(
        node: CUgraphNode,
        nodes: *mut CUgraphNode,
        count: *mut usize,
    ) {
        let (after, edges) = dependents(node.addr())?;
        write_nodes(&after, &edges, nodes, UserPointer::null(), count)
    }

    fn cuGraphNodeGetDependentNodes_v2(
        node: CUgraphNode,
        nodes: *mut CUgraphNode,
        data: *mut EdgeData,
        count: *mut usize,
    ) {
        let (after, edges) = dependents(node.addr())?;
        write_nodes(&after, &edges, nodes, data, count)
    }
}
