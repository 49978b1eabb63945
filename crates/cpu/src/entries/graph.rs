//! Graphs and their nodes.

use std::collections::BTreeSet;
use std::ffi::{c_char, c_uint};
use std::sync::Arc;

use super::entry::entries;
use super::graph_node;
use crate::state::capture;
use crate::state::graph::{self, Graph};
use crate::state::handle::pointer;
use crate::state::node::{Node, NodeKind, Params, Work};
use crate::state::status::{Result, Status};
use crate::state::user_pointer::UserPointer;
use api::{
    CUDA_HOST_NODE_PARAMS_v1, CUDA_KERNEL_NODE_PARAMS_v2, CUDA_MEMCPY3D,
    CUDA_MEMSET_NODE_PARAMS_v1, CUcontext, CUevent, CUgraph, CUgraphNode, EdgeData,
};

/// The nodes that a caller names, which must be of the graph.
pub(super) fn named(
    graph: &Graph,
    list: UserPointer<CUgraphNode>,
    count: usize,
) -> Result<Vec<usize>> {
    let nodes = graph.nodes();
    list.slice(count)?
        .iter()
        .map(|node| {
            let handle = node.addr();
            nodes
                .contains_key(&handle)
                .then_some(handle)
                .ok_or_else(|| {
                    Status::INVALID_VALUE.because("a dependency is no node of the graph")
                })
        })
        .collect()
}

/// The same for nodes that a new node depends on, each once.
fn dependencies(graph: &Graph, list: UserPointer<CUgraphNode>, count: usize) -> Result<Vec<usize>> {
    let nodes = named(graph, list, count)?;
    if nodes.iter().collect::<BTreeSet<_>>().len() == nodes.len() {
        Ok(nodes)
    } else {
        Err(Status::INVALID_VALUE.because("a dependency is listed twice"))
    }
}

/// The edges between two lists of nodes of the graph.
fn edges(
    graph: &Graph,
    from: UserPointer<CUgraphNode>,
    to: UserPointer<CUgraphNode>,
    count: usize,
) -> Result<Vec<(usize, usize)>> {
    let before = named(graph, from, count)?;
    Ok(before.into_iter().zip(named(graph, to, count)?).collect())
}

/// Writes the edges of a graph, as many as there is memory for, and their number. Without memory
/// for it, no edge may carry anything.
fn write_edges(
    graph: &Graph,
    from: UserPointer<CUgraphNode>,
    to: UserPointer<CUgraphNode>,
    data: UserPointer<EdgeData>,
    count: UserPointer<usize>,
) -> Result {
    let edges = graph.edges();
    if from.is_null() != to.is_null() {
        return Err(Status::INVALID_VALUE.because("pass both lists of nodes, or neither"));
    }
    if !from.is_null() {
        let carried: Vec<EdgeData> = edges.iter().map(|edge| edge.2).collect();
        refuse_loss(&carried, data)?;
        let capacity = count.get()?;
        let (from, to) = (from.array(capacity)?, to.array(capacity)?);
        for (index, (before, after, carried)) in edges.iter().take(capacity).enumerate() {
            from.put_at(index, pointer(*before))?;
            to.put_at(index, pointer(*after))?;
            if !data.is_null() {
                data.put_at(index, *carried)?;
            }
        }
        // The rest of the array is null.
        for index in edges.len()..capacity {
            from.put_at(index, std::ptr::null_mut())?;
            to.put_at(index, std::ptr::null_mut())?;
        }
    }
    count.put(edges.len())
}

/// Fails if a caller has no place for what edges carry, and some carry something.
pub(super) fn refuse_loss(edges: &[EdgeData], place: UserPointer<EdgeData>) -> Result {
    let is_full = |data: &EdgeData| *data == EdgeData::default();
    if !place.is_null() || edges.iter().all(is_full) {
        Ok(())
    } else {
        Err(Status::LOSSY_QUERY.because("an edge is no full dependency"))
    }
}

/// What edges from these nodes to one of this kind carry, which it must be able to.
pub(super) fn edge_data(
    graph: &Graph,
    data: UserPointer<EdgeData>,
    from: &[usize],
    to: impl Fn(usize) -> Option<NodeKind>,
) -> Result<Vec<EdgeData>> {
    if data.is_null() {
        return Ok(Vec::new());
    }
    let data = data.slice(from.len())?.to_vec();
    let nodes = graph.nodes();
    for (index, (data, from)) in data.iter().zip(from).enumerate() {
        let is_kernel = |kind: Option<NodeKind>| kind == Some(NodeKind::Kernel);
        let kernels = is_kernel(nodes.get(from).map(|node| node.kind)) && is_kernel(to(index));
        // A port that kernels have: CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC, _LAUNCH_ORDER.
        let is_programmatic = matches!((data.from_port, data.to_port, data.kind), (1 | 2, 0, 1));
        let is_zero = data.reserved == [0; 5];
        if *data != EdgeData::default() && !(is_programmatic && kernels && is_zero) {
            let why = "an edge is a full dependency, or a programmatic one between kernels";
            return Err(Status::INVALID_VALUE.because(why));
        }
    }
    Ok(data)
}

/// The same of edges between nodes of the graph.
fn data_of(
    graph: &Graph,
    data: UserPointer<EdgeData>,
    edges: &[(usize, usize)],
) -> Result<Vec<EdgeData>> {
    let from: Vec<usize> = edges.iter().map(|(before, _)| *before).collect();
    let kinds = graph.nodes().clone();
    edge_data(graph, data, &from, |index| {
        Some(kinds.get(&edges.get(index)?.1)?.kind)
    })
}

/// A capture has full dependencies alone.
pub(super) fn check_edge_data(data: UserPointer<EdgeData>, count: usize) -> Result {
    if data.is_null() {
        return Ok(());
    }
    let is_full = |data: &EdgeData| *data == EdgeData::default();
    if data.slice(count)?.iter().all(is_full) {
        Ok(())
    } else {
        Err(Status::NOT_SUPPORTED
            .because("the CPU device captures no programmatic edges between graph nodes"))
    }
}

/// Adds a node.
pub(super) fn add(
    result: UserPointer<CUgraphNode>,
    graph: UserPointer<cudarc::driver::sys::CUgraph_st>,
    after: UserPointer<CUgraphNode>,
    count: usize,
    kind: NodeKind,
    (params, work): (Params, Work),
) -> Result {
    let graph = graph::find(graph.addr())?;
    let after = dependencies(&graph, after, count)?;
    if result.is_null() {
        return Err(Status::INVALID_VALUE.because("the pointer for the node is null"));
    }
    result.put(pointer(graph.add(Node::new(kind, params, after, work))))
}

/// Writes nodes as far as there is room, null in the rest of it, and their number.
pub(super) fn write_nodes(
    all: &[usize],
    edges: &[EdgeData],
    list: UserPointer<CUgraphNode>,
    data: UserPointer<EdgeData>,
    count: UserPointer<usize>,
) -> Result {
    if !list.is_null() {
        refuse_loss(edges, data)?;
        let capacity = count.get()?;
        let list = list.array(capacity)?;
        for index in 0..capacity {
            let node = all.get(index).copied().unwrap_or_default();
            list.put_at(index, pointer(node))?;
            if !data.is_null() {
                data.put_at(index, edges.get(index).copied().unwrap_or_default())?;
            }
        }
        return count.put(all.len().min(capacity));
    }
    count.put(all.len())
}

entries! {
    fn cuGraphCreate(graph: *mut CUgraph, flags: c_uint) {
        if flags != 0 || graph.is_null() {
            return Err(Status::INVALID_VALUE.because("the flags of cuGraphCreate must be 0"));
        }
        graph.put(pointer(graph::create()))
    }

    fn cuGraphDestroy(graph: CUgraph) {
        capture::refuse_destruction(graph.addr())?;
        graph::destroy(graph.addr())
    }

    fn cuGraphClone(clone: *mut CUgraph, graph: CUgraph) {
        let graph = graph::find(graph.addr())?;
        if clone.is_null() {
            return Err(Status::INVALID_VALUE.into());
        }
        graph.refuse_allocations()?;
        clone.put(pointer(graph.copy()))
    }

    fn cuGraphNodeFindInClone(node: *mut CUgraphNode, original: CUgraphNode, clone: CUgraph) {
        match graph::find(clone.addr())?.copy_of(original.addr()) {
            Some(copy) => node.put(pointer(copy)),
            None => Err(Status::INVALID_VALUE.because("the graph has no copy of this node")),
        }
    }

    fn cuGraphGetEdges(
        graph: CUgraph,
        from: *mut CUgraphNode,
        to: *mut CUgraphNode,
        count: *mut usize,
    ) {
        let graph = graph::find(graph.addr())?;
        write_edges(&graph, from, to, UserPointer::null(), count)
    }

    fn cuGraphGetEdges_v2(
        graph: CUgraph,
        from: *mut CUgraphNode,
        to: *mut CUgraphNode,
        data: *mut EdgeData,
        count: *mut usize,
    ) {
        let graph = graph::find(graph.addr())?;
        if !data.is_null() {
            let capacity = count.get()?;
            let data = data.array(capacity)?;
            for index in 0..capacity {
                data.put_at(index, EdgeData::default())?;
            }
        }
        write_edges(&graph, from, to, data, count)
    }

    fn cuGraphAddDependencies(
        graph: CUgraph,
        from: *const CUgraphNode,
        to: *const CUgraphNode,
        count: usize,
    ) {
        let graph = graph::find(graph.addr())?;
        graph.add_edges(&edges(&graph, from, to, count)?)
    }

    fn cuGraphAddDependencies_v2(
        graph: CUgraph,
        from: *const CUgraphNode,
        to: *const CUgraphNode,
        data: *const EdgeData,
        count: usize,
    ) {
        let graph = graph::find(graph.addr())?;
        let edges = edges(&graph, from, to, count)?;
        let data = data_of(&graph, data, &edges)?;
        graph.add_edges(&edges)?;
        graph.set_edge_data(&edges, &data);
        Ok(())
    }

    fn cuGraphRemoveDependencies(
        graph: CUgraph,
        from: *const CUgraphNode,
        to: *const CUgraphNode,
        count: usize,
    ) {
        let graph = graph::find(graph.addr())?;
        graph.remove_edges(&edges(&graph, from, to, count)?)
    }

    fn cuGraphRemoveDependencies_v2(
        graph: CUgraph,
        from: *const CUgraphNode,
        to: *const CUgraphNode,
        data: *const EdgeData,
        count: usize,
    ) {
        let graph = graph::find(graph.addr())?;
        let edges = edges(&graph, from, to, count)?;
        data_of(&graph, data, &edges)?;
        graph.remove_edges(&edges)
    }

    fn cuGraphAddKernelNode_v2(
        node: *mut CUgraphNode,
        graph: CUgraph,
        after: *const CUgraphNode,
        count: usize,
        params: *const CUDA_KERNEL_NODE_PARAMS_v2,
    ) {
        add(node, graph, after, count, NodeKind::Kernel, graph_node::kernel(params)?)
    }

    fn cuGraphAddMemcpyNode(
        node: *mut CUgraphNode,
        graph: CUgraph,
        after: *const CUgraphNode,
        count: usize,
        params: *const CUDA_MEMCPY3D,
        _context: CUcontext,
    ) {
        add(node, graph, after, count, NodeKind::Copy, graph_node::copy(params)?)
    }

    fn cuGraphAddMemsetNode(
        node: *mut CUgraphNode,
        graph: CUgraph,
        after: *const CUgraphNode,
        count: usize,
        params: *const CUDA_MEMSET_NODE_PARAMS_v1,
        _context: CUcontext,
    ) {
        add(node, graph, after, count, NodeKind::Fill, graph_node::fill(params)?)
    }

    fn cuGraphAddHostNode(
        node: *mut CUgraphNode,
        graph: CUgraph,
        after: *const CUgraphNode,
        count: usize,
        params: *const CUDA_HOST_NODE_PARAMS_v1,
    ) {
        add(node, graph, after, count, NodeKind::Host, graph_node::host(params)?)
    }

    fn cuGraphAddEmptyNode(
        node: *mut CUgraphNode,
        graph: CUgraph,
        after: *const CUgraphNode,
        count: usize,
    ) {
        add(node, graph, after, count, NodeKind::Empty, (Params::Unknown, Arc::new(|_: &_| ())))
    }

    fn cuGraphAddChildGraphNode(
        node: *mut CUgraphNode,
        graph: CUgraph,
        after: *const CUgraphNode,
        count: usize,
        child: CUgraph,
    ) {
        add(node, graph, after, count, NodeKind::Graph, graph_node::child(child.as_ptr())?)
    }

    fn cuGraphAddEventRecordNode(
        node: *mut CUgraphNode,
        graph: CUgraph,
        after: *const CUgraphNode,
        count: usize,
        event: CUevent,
    ) {
        add(node, graph, after, count, NodeKind::RecordEvent, graph_node::record(event.as_ptr())?)
    }

    fn cuGraphAddEventWaitNode(
        node: *mut CUgraphNode,
        graph: CUgraph,
        after: *const CUgraphNode,
        count: usize,
        event: CUevent,
    ) {
        add(node, graph, after, count, NodeKind::WaitEvent, graph_node::wait(event.as_ptr())?)
    }

    fn cuGraphDestroyNode(node: CUgraphNode) {
        graph::of_node(node.addr())?.remove(node.addr())
    }

    fn cuGraphGetNodes(graph: CUgraph, nodes: *mut CUgraphNode, count: *mut usize) {
        let graph = graph::find(graph.addr())?;
        let all: Vec<usize> = graph.nodes().keys().copied().collect();
        write_nodes(&all, &[], nodes, UserPointer::null(), count)
    }

    fn cuGraphNodeGetType(node: CUgraphNode, kind: *mut c_uint) {
        kind.put(graph::kind_of(node.addr())? as c_uint)
    }

    fn cuGraphDebugDotPrint(graph: CUgraph, path: *const c_char, _flags: c_uint) {
        let graph = graph::find(graph.addr())?;
        let path = path.path()?;
        std::fs::write(&path, graph.dot()).map_err(|error| {
            Status::OPERATING_SYSTEM.because(format!("{}: {error}", path.display()))
        })
    }
}
