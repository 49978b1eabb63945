//! Graphs: nodes that are described once and launched many times.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::condition::Condition;
use super::context::{self, Context};
use super::graph_memory::GraphAllocation;
use super::handle::Handles;
use super::node::{Node, NodeKind, Nodes, Params, Work, all_of, order};
use super::status::{Failure, Result, Status};
use super::user_object::{References, UserObject};
use api::EdgeData;

static GRAPHS: Handles<Graph> = Handles::new();
static NODES: Handles<NodeInfo> = Handles::new();

pub(crate) struct Graph {
    nodes: Mutex<Nodes>,
    /// What its nodes allocate.
    allocations: Mutex<Vec<Arc<GraphAllocation>>>,
    /// What its conditional nodes read.
    conditions: Mutex<Vec<Arc<Condition>>>,
    /// The graph with the conditional node that runs it.
    outer: Weak<Graph>,
    /// The objects of callers that its nodes use.
    references: Mutex<Vec<References>>,
    /// The last executable graph that was made of it.
    instance: Mutex<Weak<Instance>>,
}

/// Held by an executable graph for as long as it lives.
pub(crate) struct Instance {
    allocations: Vec<Arc<GraphAllocation>>,
    conditions: Vec<Arc<Condition>>,
    _references: Vec<References>,
}

impl Instance {
    /// Notes that a launch is queued. Unless it frees them first, fails if allocations of an
    /// earlier launch are live.
    pub(crate) fn launched(&self, frees: bool) -> Result {
        if !frees
            && self
                .allocations
                .iter()
                .any(|allocation| allocation.is_live())
        {
            return Err(Status::INVALID_VALUE.because(
                "memory that an earlier launch of the graph has allocated is not freed yet",
            ));
        }
        self.allocations
            .iter()
            .for_each(|allocation| allocation.launched());
        Ok(())
    }

    /// Runs before the nodes of each launch.
    pub(crate) fn begin(&self) {
        self.conditions
            .iter()
            .for_each(|condition| condition.reset());
    }
}

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
    /// An empty graph within another.
    fn within(outer: Weak<Graph>) -> Arc<Graph> {
        Arc::new(Graph {
            outer,
            nodes: Mutex::default(),
            allocations: Mutex::default(),
            conditions: Mutex::default(),
            references: Mutex::default(),
            instance: Mutex::default(),
        })
    }

    /// Adds a node that depends on others of the graph.
    pub(crate) fn add(self: &Arc<Self>, node: Node) -> usize {
        self.insert(node, None)
    }

    /// Takes out a node, with its edges.
    pub(crate) fn remove(&self, node: usize) -> Result {
        self.refuse_allocations()?;
        let mut nodes = self.nodes();
        let removed = nodes.remove(&node);
        for other in nodes.values_mut() {
            other.after.retain(|before| *before != node);
            other.edge_data.remove(&node);
        }
        drop(nodes);
        NODES.remove(node);
        removed.iter().for_each(destroy_within);
        Ok(())
    }

    /// Gives a node other parameters.
    pub(crate) fn set(&self, node: usize, kind: NodeKind, params: Params, work: Work) -> Result {
        let mut nodes = self.nodes();
        let Some(node) = nodes.get_mut(&node).filter(|node| node.kind == kind) else {
            return Err(Status::INVALID_VALUE.because("the node is of another kind"));
        };
        let before = Node {
            params: std::mem::replace(&mut node.params, params),
            ..node.clone()
        };
        node.work = work;
        drop(nodes);
        destroy_within(&before);
        Ok(())
    }

    /// Makes a value for conditional nodes.
    pub(crate) fn condition(&self, context: &Context, default: Option<u32>) -> Result<u64> {
        let condition = Condition::new(context, default)?;
        let handle = condition.handle();
        lock(&self.conditions).push(condition);
        Ok(handle)
    }

    /// The value of a handle that was made for this graph, or for one that it is within.
    pub(crate) fn find_condition(&self, handle: u64) -> Result<Arc<Condition>> {
        let all = lock(&self.conditions);
        if let Some(found) = all.iter().find(|condition| condition.handle() == handle) {
            return Ok(found.clone());
        }
        match self.outer.upgrade() {
            Some(outer) => outer.find_condition(handle),
            None => Err(Status::INVALID_VALUE.because("the conditional handle is not the graph's")),
        }
    }

    /// Takes over references to an object.
    pub(crate) fn refer(&self, references: References) {
        lock(&self.references).push(references);
    }

    /// Gives up references to an object, of which it must have as many.
    pub(crate) fn give_up(&self, object: &Arc<UserObject>, count: u32) -> Result {
        let mut left = count;
        let mut all = lock(&self.references);
        let has: u32 = all
            .iter()
            .filter(|references| Arc::ptr_eq(&references.object, object))
            .map(|references| references.count)
            .sum();
        if has < count {
            return Err(Status::INVALID_VALUE.because("the graph has not as many references"));
        }
        for references in all
            .iter_mut()
            .filter(|one| Arc::ptr_eq(&one.object, object))
        {
            let taken = left.min(references.count);
            references.count -= taken;
            left -= taken;
        }
        let none = all
            .extract_if(.., |references| references.count == 0)
            .collect::<Vec<_>>();
        drop((all, none));
        object.release(count)
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
        if allocates(&self.nodes()) {
            Err(Status::NOT_SUPPORTED
                .because("a graph that allocates memory is not copied, nested or cut"))
        } else {
            Ok(())
        }
    }

    /// The nodes for an executable graph, and what that retains.
    pub(crate) fn instantiate(&self) -> Result<(Nodes, Arc<Instance>)> {
        self.check_order()?;
        let nodes = self.runnable();
        let mut last = lock(&self.instance);
        if allocates(&nodes) && last.upgrade().is_some() {
            return Err(Status::NOT_SUPPORTED
                .because("a graph that allocates memory has one executable graph at a time"));
        }
        let instance = Arc::new(Instance {
            allocations: lock(&self.allocations).clone(),
            conditions: lock(&self.conditions).clone(),
            _references: self.all_references(),
        });
        *last = Arc::downgrade(&instance);
        Ok((nodes, instance))
    }

    /// References to objects of callers, also those of graphs within it.
    fn all_references(&self) -> Vec<References> {
        let mut all = lock(&self.references).clone();
        for node in self.nodes().clone().values() {
            for graph in within(node).iter().filter_map(|graph| GRAPHS.get(*graph)) {
                all.extend(graph.all_references());
            }
        }
        all
    }

    /// The nodes with their work: that of graphs within them is as these are now.
    pub(crate) fn runnable(&self) -> Nodes {
        let mut nodes = self.nodes().clone();
        for node in nodes.values_mut() {
            // A caller may have destroyed one, of which nothing is left to do.
            let work_of = |graph: &usize| -> Work {
                match GRAPHS.get(*graph) {
                    Some(graph) => graph.work(),
                    None => Arc::new(|_: &_| ()),
                }
            };
            let mut works: Vec<Work> = within(node).iter().map(work_of).collect();
            match &node.params {
                Params::Conditional(conditional) => node.work = conditional.work(works),
                Params::Graph(_) => node.work = works.pop().unwrap_or_else(|| node.work.clone()),
                _ => {}
            }
        }
        nodes
    }

    /// A copy, in which each node has another handle; returns the handle of the graph.
    pub(crate) fn copy(&self) -> usize {
        self.copy_within(Weak::new())
    }

    fn copy_within(&self, outer: Weak<Graph>) -> usize {
        let copy = Graph::within(outer);
        let nodes = self.nodes();
        let mut handles = BTreeMap::new();
        for handle in order(&nodes) {
            let mut node = nodes[&handle].clone();
            let copies = within(&node)
                .iter()
                .filter_map(|graph| Some(GRAPHS.get(*graph)?.copy_within(Arc::downgrade(&copy))))
                .collect::<Vec<_>>();
            node.params = match node.params {
                Params::Graph(_) => copies
                    .first()
                    .map_or(Params::Unknown, |graph| Params::Graph(*graph)),
                Params::Conditional(conditional) => Params::Conditional(conditional.with(copies)),
                params => params,
            };
            node.after = node.after.iter().map(|before| handles[before]).collect();
            let data = node.edge_data.iter();
            node.edge_data = data
                .map(|(before, data)| (handles[before], *data))
                .collect();
            handles.insert(handle, copy.insert(node, Some(handle)));
        }
        *lock(&copy.conditions) = lock(&self.conditions).clone();
        *lock(&copy.references) = lock(&self.references).clone();
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

    /// The edges, each from the node that comes first, and what they carry.
    pub(crate) fn edges(&self) -> Vec<(usize, usize, EdgeData)> {
        let edges = |(handle, node): (&usize, &Node)| -> Vec<_> {
            let edge = |before: &usize| (*before, *handle, node.edge(*before));
            node.after.iter().map(edge).collect()
        };
        self.nodes().iter().flat_map(edges).collect()
    }

    /// What edges that are there carry, and may carry.
    pub(crate) fn set_edge_data(&self, edges: &[(usize, usize)], data: &[EdgeData]) {
        let mut nodes = self.nodes();
        for ((before, after), data) in edges.iter().zip(data) {
            if let Some(node) = nodes.get_mut(after)
                && *data != EdgeData::default()
            {
                node.edge_data.insert(*before, *data);
            }
        }
    }

    /// Fails if dependencies form a cycle, here or in a graph within a node.
    fn check_order(&self) -> Result {
        let nodes = self.nodes().clone();
        if order(&nodes).len() < nodes.len() {
            return Err(Status::INVALID_VALUE.because("dependencies of the graph form a cycle"));
        }
        let graphs = nodes.values().flat_map(within);
        graphs
            .filter_map(|graph| GRAPHS.get(*graph))
            .try_for_each(|graph| graph.check_order())
    }

    /// Adds edges that are new. They may close a cycle, with which the graph has no executable
    /// graph.
    pub(crate) fn add_edges(&self, edges: &[(usize, usize)]) -> Result {
        let mut nodes = self.nodes();
        let mut changed = nodes.clone();
        for (before, after) in edges {
            let Some(node) = changed.get_mut(after) else {
                continue;
            };
            if before == after {
                return Err(Status::INVALID_VALUE.because("a node would depend on itself"));
            }
            if node.after.contains(before) {
                return Err(Status::INVALID_VALUE.because("the graph has this edge already"));
            }
            node.after.push(*before);
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
                node.edge_data.remove(before);
            }
        }
        Ok(())
    }

    pub(crate) fn work(&self) -> Work {
        let conditions = lock(&self.conditions).clone();
        let nodes = all_of(&self.runnable());
        Arc::new(move |context| {
            conditions.iter().for_each(|condition| condition.reset());
            nodes(context);
        })
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
        for (handle, node) in std::mem::take(nodes) {
            NODES.remove(handle);
            destroy_within(&node);
        }
    }
}

fn allocates(nodes: &Nodes) -> bool {
    nodes
        .values()
        .any(|node| matches!(node.kind, NodeKind::Allocate | NodeKind::Free))
}

/// The handles of the graphs that are within a node, and its own.
fn within(node: &Node) -> &[usize] {
    match &node.params {
        Params::Graph(graph) => std::slice::from_ref(graph),
        Params::Conditional(conditional) => &conditional.graphs,
        _ => &[],
    }
}

fn destroy_within(node: &Node) {
    for graph in within(node) {
        GRAPHS.remove(*graph);
    }
}

/// An empty graph; returns its handle.
pub(crate) fn create() -> usize {
    GRAPHS.insert(Graph::within(Weak::new()))
}

/// An empty graph for a conditional node; returns its handle.
pub(crate) fn create_within(outer: &Arc<Graph>) -> usize {
    GRAPHS.insert(Graph::within(Arc::downgrade(outer)))
}

/// Frees the handle of a graph that no caller has.
pub(crate) fn discard(graph: usize) {
    GRAPHS.remove(graph);
}

pub(crate) fn find(graph: usize) -> Result<Arc<Graph>> {
    context::working()?;
    GRAPHS.get(graph).ok_or_else(no_graph)
}

fn no_graph() -> Failure {
    Status::INVALID_VALUE.because("no live graph has this handle")
}

/// Destroys a graph. Needs no current context.
pub(crate) fn destroy(graph: usize) -> Result {
    let removed = GRAPHS.remove(graph);
    removed.map(drop).ok_or_else(no_graph)
}

fn no_node() -> Failure {
    Status::INVALID_VALUE.because("no node of a graph has this handle")
}

/// The kind of a node of a live graph.
pub(crate) fn kind_of(node: usize) -> Result<NodeKind> {
    let info = NODES.get(node).filter(|info| info.graph.strong_count() > 0);
    Ok(info.ok_or_else(no_node)?.kind)
}

/// The live graph of a node.
pub(crate) fn of_node(node: usize) -> Result<Arc<Graph>> {
    context::working()?;
    let info = NODES.get(node).ok_or_else(no_node)?;
    info.graph.upgrade().ok_or_else(no_node)
}

/// A node of a live graph, as it is now.
pub(crate) fn node(handle: usize) -> Result<Node> {
    let graph = of_node(handle)?;
    let node = graph.nodes().get(&handle).cloned();
    node.ok_or_else(no_node)
}
