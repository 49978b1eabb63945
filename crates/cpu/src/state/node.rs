//! Nodes of graphs: work that can run any number of times, and what it depends on.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::context::Context;

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
}

#[derive(Clone)]
pub(crate) struct Node {
    pub(crate) kind: NodeKind,
    pub(crate) work: Work,
    /// Handles of the nodes that it depends on.
    pub(crate) after: Vec<usize>,
    /// Whether launches run it.
    pub(crate) enabled: bool,
}

impl Node {
    pub(crate) fn new(kind: NodeKind, after: Vec<usize>, work: Work) -> Node {
        Node {
            kind,
            work,
            after,
            enabled: true,
        }
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

/// Whether every node is among `ends` or comes before one of them.
pub(crate) fn all_lead_to(nodes: &Nodes, ends: &[usize]) -> bool {
    let mut reached: Vec<usize> = ends.to_vec();
    // Backwards, a node comes after all that depend on it.
    for (handle, node) in nodes.iter().rev() {
        if !reached.contains(handle) {
            return false;
        }
        reached.extend(&node.after);
    }
    true
}
