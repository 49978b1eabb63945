//! Nodes of graphs: work that can run any number of times, and what it depends on.

use std::collections::BTreeMap;
use std::ffi::c_uint;
use std::sync::Arc;

use super::condition::Condition;
use super::context::Context;
use super::status::{Result, Status};
use api::{
    CUDA_HOST_NODE_PARAMS_v1, CUDA_KERNEL_NODE_PARAMS_v2, CUDA_MEMCPY3D,
    CUDA_MEMSET_NODE_PARAMS_v1, EdgeData, MemAllocNodeParams,
};

/// What a node does each time it runs. A fault is recorded in the context.
pub(crate) type Work = Arc<dyn Fn(&Arc<Context>) + Send + Sync>;

/// `CU_GRAPH_NODE_TYPE_…`
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NodeKind {
    Kernel = 0,
    Copy = 1,
    Fill = 2,
    Host = 3,
    Graph = 4,
    Empty = 5,
    WaitEvent = 6,
    RecordEvent = 7,
    Allocate = 10,
    Free = 11,
    Memory = 12,
    Conditional = 13,
}

/// What a node was made of, as callers get it back.
#[derive(Clone)]
pub(crate) enum Params {
    /// Nothing, or what a captured stream did.
    Unknown,
    Kernel(CUDA_KERNEL_NODE_PARAMS_v2),
    Copy(CUDA_MEMCPY3D),
    Fill(CUDA_MEMSET_NODE_PARAMS_v1),
    Host(CUDA_HOST_NODE_PARAMS_v1),
    /// The handle of an event.
    Event(usize),
    Allocate(MemAllocNodeParams),
    /// The address that is freed.
    Free(u64),
    /// The handle of the graph that the node is, which is the node's own.
    Graph(usize),
    Conditional(Arc<Conditional>),
}

// SAFETY: the pointers in it are the caller's: handed back, and not followed.
unsafe impl Send for Params {}
// SAFETY: as above.
unsafe impl Sync for Params {}

/// `CU_GRAPH_COND_TYPE_…`
const IF: c_uint = 0;
const WHILE: c_uint = 1;
const SWITCH: c_uint = 2;
/// The most graphs that a node chooses from.
const MAX_GRAPHS: c_uint = 4096;

/// What a conditional node is made of.
pub(crate) struct Conditional {
    pub(crate) condition: Arc<Condition>,
    kind: c_uint,
    /// Handles of its graphs, which are the node's own.
    pub(crate) graphs: Vec<usize>,
}

impl Conditional {
    /// A node of `CU_GRAPH_COND_TYPE_…` number `kind` with as many graphs as `make` makes.
    pub(crate) fn new(
        condition: Arc<Condition>,
        kind: c_uint,
        size: c_uint,
        make: impl Fn() -> usize,
    ) -> Result<Arc<Conditional>> {
        let fits = match kind {
            IF => matches!(size, 1 | 2),
            WHILE => size == 1,
            SWITCH => (1..=MAX_GRAPHS).contains(&size),
            _ => false,
        };
        if !fits {
            return Err(Status::INVALID_VALUE.because(format!(
                "a conditional node of kind {kind} does not have {size} graphs"
            )));
        }
        let graphs = (0..size).map(|_| make()).collect();
        Ok(Arc::new(Conditional {
            condition,
            kind,
            graphs,
        }))
    }

    /// The same condition with other graphs.
    pub(crate) fn with(&self, graphs: Vec<usize>) -> Arc<Conditional> {
        Arc::new(Conditional {
            condition: self.condition.clone(),
            kind: self.kind,
            graphs,
        })
    }

    /// The work of the node, whose graphs do `bodies`.
    pub(crate) fn work(&self, bodies: Vec<Work>) -> Work {
        let (condition, kind) = (self.condition.clone(), self.kind);
        Arc::new(move |context: &Arc<Context>| {
            let value = || condition.value() as usize;
            let run = |index: usize| bodies.get(index).into_iter().for_each(|body| body(context));
            match kind {
                IF => run(usize::from(value() == 0)),
                SWITCH => run(value()),
                _ => {
                    while value() != 0 && context.check().is_ok() {
                        run(0);
                    }
                }
            }
        })
    }
}

#[derive(Clone)]
pub(crate) struct Node {
    pub(crate) kind: NodeKind,
    pub(crate) params: Params,
    /// Of a node with graphs within it, the work is theirs when it is made ready to run.
    pub(crate) work: Work,
    /// Handles of the nodes that it depends on.
    pub(crate) after: Vec<usize>,
    /// What edges from these carry that are not full dependencies. They run as if they were.
    pub(crate) edge_data: BTreeMap<usize, EdgeData>,
    /// Whether launches run it.
    pub(crate) enabled: bool,
}

impl Node {
    pub(crate) fn new(kind: NodeKind, params: Params, after: Vec<usize>, work: Work) -> Node {
        Node {
            kind,
            params,
            work,
            after,
            edge_data: BTreeMap::new(),
            enabled: true,
        }
    }

    /// What the edge from a node that it depends on carries.
    pub(crate) fn edge(&self, before: usize) -> EdgeData {
        self.edge_data.get(&before).copied().unwrap_or_default()
    }
}

/// By handle: handles grow, so this is the order in which they were added.
pub(crate) type Nodes = BTreeMap<usize, Node>;

/// The nodes in topological order, without those that depend on themselves.
pub(crate) fn order(nodes: &Nodes) -> Vec<usize> {
    let mut done = Vec::with_capacity(nodes.len());
    let mut left: Vec<usize> = nodes.keys().copied().collect();
    loop {
        let before = left.len();
        left.retain(|handle| {
            let ready = nodes[handle].after.iter().all(|node| done.contains(node));
            if ready {
                done.push(*handle);
            }
            !ready
        });
        // Mostly one pass: nodes are added after what they depend on.
        if left.is_empty() || left.len() == before {
            return done;
        }
    }
}

/// The work of all enabled nodes in their order, up to the first fault. They run one
/// after the other, as each uses all cores by itself.
pub(crate) fn all_of(nodes: &Nodes) -> Work {
    let all: Vec<Work> = order(nodes)
        .into_iter()
        .map(|handle| &nodes[&handle])
        .filter(|node| node.enabled)
        .map(|node| node.work.clone())
        .collect();
    Arc::new(move |context| {
        for work in &all {
            if context.check().is_err() {
                return;
            }
            work(context);
        }
    })
}

/// Whether every node of `some` is among `ends` or comes before one of them.
pub(crate) fn all_lead_to(nodes: &Nodes, some: &[usize], ends: &[usize]) -> bool {
    let mut reached: Vec<usize> = ends.to_vec();
    // Backwards, a node comes after all that depend on it.
    for (handle, node) in nodes.iter().rev() {
        if reached.contains(handle) {
            reached.extend(&node.after);
        } else if some.contains(handle) {
            return false;
        }
    }
    true
}
