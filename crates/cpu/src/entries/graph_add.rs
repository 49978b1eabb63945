//! Nodes of any kind, and those that choose which graph runs.

use std::ffi::c_uint;
use std::sync::Arc;

use super::entry::entries;
use super::graph::{add, edge_data, named};
use super::{graph_memory, graph_node};
use crate::state::node::{Conditional, NodeKind, Params, Work};
use crate::state::status::{Result, Status};
use crate::state::user_pointer::UserPointer;
use crate::state::{context, graph};
use api::{CUcontext, CUgraph, CUgraphNode, ConditionalParams, EdgeData, GraphNodeParams};

/// Adds a node of any kind.
fn add_any(
    result: UserPointer<CUgraphNode>,
    graph: UserPointer<cudarc::driver::sys::CUgraph_st>,
    after: UserPointer<CUgraphNode>,
    count: usize,
    params: UserPointer<GraphNodeParams>,
) -> Result {
    if let Some((kind, params, work)) = graph_node::of_any_kind(params)? {
        return add(result, graph, after, count, kind, (params, work));
    }
    const ALLOCATE: c_uint = NodeKind::Allocate as c_uint;
    const FREE: c_uint = NodeKind::Free as c_uint;
    const CONDITIONAL: c_uint = NodeKind::Conditional as c_uint;
    let read = params.get()?;
    // SAFETY: the parameters of the kind are within the caller's structure.
    let union = unsafe { UserPointer::new(params.as_ptr().cast::<u64>().wrapping_add(2)) };
    match read.kind {
        ALLOCATE => graph_memory::add_allocation(result, graph, after, count, union.cast()),
        FREE => graph_memory::add_free(result, graph, after, count, read.of_kind[0]),
        CONDITIONAL => add_conditional(result, graph, after, count, union.cast()),
        kind => Err(Status::NOT_SUPPORTED
            .because(format!("the CPU device has no graph nodes of kind {kind}"))),
    }
}

/// Adds a conditional node, whose graphs are empty.
fn add_conditional(
    result: UserPointer<CUgraphNode>,
    graph: UserPointer<cudarc::driver::sys::CUgraph_st>,
    after: UserPointer<CUgraphNode>,
    count: usize,
    params: UserPointer<ConditionalParams>,
) -> Result {
    let mut read = params.get()?;
    let outer = graph::find(graph.addr())?;
    let condition = outer.find_condition(read.handle)?;
    let make = || graph::create_within(&outer);
    let conditional = Conditional::new(condition, read.kind, read.size, make)?;
    // An array of handles, which lives as long as the node.
    read.graphs = conditional.graphs.as_ptr().cast_mut().cast();
    let work: Work = Arc::new(|_: &_| ());
    let made = (Params::Conditional(conditional.clone()), work);
    if let Err(failure) = add(result, graph, after, count, NodeKind::Conditional, made) {
        conditional
            .graphs
            .iter()
            .for_each(|graph| graph::discard(*graph));
        return Err(failure);
    }
    params.put(read)
}

entries! {
    fn cuGraphAddNode(
        node: *mut CUgraphNode,
        graph: CUgraph,
        after: *const CUgraphNode,
        count: usize,
        params: *mut GraphNodeParams,
    ) {
        add_any(node, graph, after, count, params)
    }

    fn cuGraphAddNode_v2(
        node: *mut CUgraphNode,
        graph: CUgraph,
        after: *const CUgraphNode,
        data: *const EdgeData,
        count: usize,
        params: *mut GraphNodeParams,
    ) {
        let found = graph::find(graph.addr())?;
        let before = named(&found, after, count)?;
        let kind = params.get()?.kind;
        let kernel = (kind == NodeKind::Kernel as c_uint).then_some(NodeKind::Kernel);
        let data = edge_data(&found, data, &before, |_| kernel)?;
        add_any(node, graph, after, count, params)?;
        let added = node.get()?.addr();
        let edges: Vec<(usize, usize)> = before.iter().map(|node| (*node, added)).collect();
        found.set_edge_data(&edges, &data);
        Ok(())
    }

    fn cuGraphConditionalHandleCreate(
        handle: *mut u64,
        graph: CUgraph,
        _context: CUcontext,
        default: c_uint,
        flags: c_uint,
    ) {
        // CU_GRAPH_COND_ASSIGN_DEFAULT
        const ASSIGN_DEFAULT: c_uint = 1;
        let graph = graph::find(graph.addr())?;
        if flags > ASSIGN_DEFAULT || handle.is_null() {
            return Err(Status::INVALID_VALUE.because("unknown flags of a conditional handle"));
        }
        let default = (flags == ASSIGN_DEFAULT).then_some(default);
        let context = context::working()?;
        handle.put(graph.condition(&context, default)?)
    }
}
