//! Graphs: nodes that are described once and launched many times.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::context;
use super::graph_memory::GraphAllocation;
use super::handle::Handles;
use super::node::{Node, NodeKind, Nodes, Work, all_of, order};
use super::status::{Result, Status};

static GRAPHS: Handles<Graph> = Handles::new();
static NODES: Handles<NodeInfo> = Handles::new();

#[derive(Default)]
pub(crate) struct Graph {
    nodes: Mutex<Nodes>,
    /// What its nodes allocate.
    allocations: Mutex<Vec<Arc<GraphAllocation>>>,
    /// The last executable graph that was made of it.
    instance: Mutex<Weak<Instance>>,
}

/// Held by an executable graph for as long as it lives.
pub(crate) struct Instance(());

/// The object of a node's handle.
struct NodeInfo {
    graph: Weak<Graph>,
    kind: NodeKind,
    /// The node that it is a copy of.
    original: Option<usize>,
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Graph {
    /// Adds a node that depends on others of the graph.
    pub(crate) fn add(self: &Arc<Self>, kind: NodeKind, after: Vec<usize>, work: Work) -> usize {
        self.insert(Node::new(kind, after, work), None)
    }

    fn insert(self: &Arc<Self>, node: Node, original: Option<usize>) -> usize {
        let handle = NODES.insert(self.info(&node, original));
        lock(&self.nodes).insert(handle, node);
        handle
    }

    fn info(self: &Arc<Self>, node: &Node, original: Option<usize>) -> Arc<NodeInfo> {
        Arc::new(NodeInfo {
            graph: Arc::downgrade(self),
            kind: node.kind,
            original,
        })
    }

    pub(crate) fn nodes(&self) -> MutexGuard<'_, Nodes> {
        lock(&self.nodes)
    }

    /// Retains memory that one of its nodes allocates.
    pub(crate) fn retain(&self, allocation: Arc<GraphAllocation>) {
        lock(&self.allocations).push(allocation);
    }

    /// The memory at `address` that one of its nodes allocates.
    pub(crate) fn allocation(&self, address: u64) -> Option<Arc<GraphAllocation>> {
        let all = lock(&self.allocations);
        all.iter()
            .find(|allocation| allocation.address() == address)
            .cloned()
    }

    /// Fails if the graph allocates memory: then it is neither copied nor nested, and
    /// loses no edge.
    pub(crate) fn refuse_allocations(&self) -> Result {
        match allocates(&self.nodes()) {
            true => Err(Status::NOT_SUPPORTED
                .because("a graph that allocates memory is not copied, nested or cut")),
            false => Ok(()),
        }
    }

    /// The nodes for an executable graph, and what that retains. Each allocation is
    /// freed by the graph itself, or by its next launch.
    pub(crate) fn instantiate(&self, frees_on_launch: bool) -> Result<(Nodes, Arc<Instance>)> {
        let is_freed = |allocation: &Arc<GraphAllocation>| allocation.is_freed();
        if !frees_on_launch && !lock(&self.allocations).iter().all(is_freed) {
            return Err(
                Status::NOT_SUPPORTED.because("on the CPU device a graph frees what it allocates")
            );
        }
        let nodes = self.nodes();
        let mut last = lock(&self.instance);
        if allocates(&nodes) && last.upgrade().is_some() {
            return Err(Status::INVALID_VALUE
                .because("a graph that allocates memory has one executable graph at a time"));
        }
        let instance = Arc::new(Instance(()));
        *last = Arc::downgrade(&instance);
        Ok((nodes.clone(), instance))
    }

    /// A copy, in which each node has another handle; returns the handle of the graph.
    pub(crate) fn copy(&self) -> usize {
        let copy = Arc::<Graph>::default();
        let nodes = self.nodes();
        let mut handles = BTreeMap::new();
        for handle in order(&nodes) {
            let mut node = nodes[&handle].clone();
            node.after = node.after.iter().map(|before| handles[before]).collect();
            handles.insert(handle, copy.insert(node, Some(handle)));
        }
        GRAPHS.insert(copy)
    }

    /// The node that is a copy of `original`.
    pub(crate) fn copy_of(&self, original: usize) -> Option<usize> {
        let is_copy = |node: &usize| {
            NODES
                .get(*node)
                .is_some_and(|info| info.original == Some(original))
        };
        self.nodes().keys().copied().find(is_copy)
    }

    /// The edges, each from the node that comes first.
    pub(crate) fn edges(&self) -> Vec<(usize, usize)> {
        self.nodes()
            .iter()
            .flat_map(|(handle, node)| node.after.iter().map(|before| (*before, *handle)))
            .collect()
    }

    /// Adds edges that are new and close no cycle.
    pub(crate) fn add_edges(&self, edges: &[(usize, usize)]) -> Result {
        let mut nodes = self.nodes();
        let mut changed = nodes.clone();
        for (before, after) in edges {
            let Some(node) = changed.get_mut(after) else {
                continue;
            };
            if node.after.contains(before) {
                return Err(Status::INVALID_VALUE.because("the graph has this edge already"));
            }
            node.after.push(*before);
        }
        if order(&changed).len() < changed.len() {
            return Err(Status::INVALID_VALUE.because("a node would depend on itself"));
        }
        *nodes = changed;
        Ok(())
    }

    /// Removes edges that the graph has.
    pub(crate) fn remove_edges(&self, edges: &[(usize, usize)]) -> Result {
        self.refuse_allocations()?;
        let mut nodes = self.nodes();
        for (before, after) in edges {
            let node = nodes.get(after);
            if !node.is_some_and(|node| node.after.contains(before)) {
                return Err(Status::INVALID_VALUE.because("the graph has no such edge"));
            }
        }
        for (before, after) in edges {
            if let Some(node) = nodes.get_mut(after) {
                node.after.retain(|node| node != before);
            }
        }
        Ok(())
    }

    pub(crate) fn work(&self) -> Work {
        all_of(&lock(&self.nodes))
    }

    /// The graph in the DOT language.
    pub(crate) fn dot(&self) -> String {
        let mut text = String::from("digraph {\n");
        for (handle, node) in lock(&self.nodes).iter() {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "  n{handle} [label=\"{:?}\"];", node.kind);
            for before in &node.after {
                let _ = writeln!(text, "  n{before} -> n{handle};");
            }
        }
        text + "}\n"
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        let nodes = self.nodes.get_mut().unwrap_or_else(PoisonError::into_inner);
        for handle in nodes.keys() {
            NODES.remove(*handle);
        }
    }
}

fn allocates(nodes: &Nodes) -> bool {
    nodes
        .values()
        .any(|node| matches!(node.kind, NodeKind::Allocate | NodeKind::Free))
}

/// A graph of these nodes; returns its handle.
pub(crate) fn create(nodes: Nodes) -> usize {
    let graph = Arc::<Graph>::default();
    for (handle, node) in &nodes {
        NODES.insert_at(*handle, graph.info(node, None));
    }
    *lock(&graph.nodes) = nodes;
    GRAPHS.insert(graph)
}

pub(crate) fn find(graph: usize) -> Result<Arc<Graph>> {
    context::working()?;
    GRAPHS
        .get(graph)
        .ok_or_else(|| Status::INVALID_VALUE.because("no live graph has this handle"))
}

pub(crate) fn destroy(graph: usize) -> Result {
    find(graph)?;
    GRAPHS.remove(graph);
    Ok(())
}

/// The kind of a node of a live graph.
pub(crate) fn kind_of(node: usize) -> Result<NodeKind> {
    let info = NODES.get(node).filter(|info| info.graph.strong_count() > 0);
    match info {
        Some(info) => Ok(info.kind),
        None => Err(Status::INVALID_VALUE.because("no node of a graph has this handle")),
    }
}
