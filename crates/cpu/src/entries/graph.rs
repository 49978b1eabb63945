//! Graphs: work that is described once and launched many times.
//!
//! A node's work is a function that can be called again. A launch does the
//! nodes one after the other, each behind what it depends on: each uses all
//! cores by itself.

use std::collections::BTreeMap;
use std::ffi::{c_char, c_uint};
use std::fmt::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::context::{self, Context};
use super::entry::{Argument, Given, entries, in_host_function};
use super::graph_exec::Ready;
use super::graph_memory::{self, Memory};
use super::handle::{Handles, pointer};
use super::status::{Answer, Status};
use super::{copy, event, launch, module, region};
use crate::run::LaunchShape;
use api::{
    CUDA_HOST_NODE_PARAMS_v1, CUDA_KERNEL_NODE_PARAMS_v2, CUDA_MEMCPY3D,
    CUDA_MEMSET_NODE_PARAMS_v1, CUcontext, CUevent, CUgraph, CUgraphNode,
};

static GRAPHS: Handles<Graph> = Handles::new();
static NODES: Handles<NodeName> = Handles::new();

/// What a node does, as often as it is asked to. A fault stays with the context.
pub(super) type Work = Arc<dyn Fn(&Arc<Context>) + Send + Sync>;

/// `CU_GRAPH_NODE_TYPE_…`
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
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
pub(super) struct Node {
    pub(super) kind: Kind,
    pub(super) work: Work,
    pub(super) after: Vec<usize>,
    /// Whether launches do it.
    pub(super) enabled: bool,
}

/// By handle: handles grow, so this is the order of adding.
pub(super) type Nodes = BTreeMap<usize, Node>;

#[derive(Default)]
pub(super) struct Graph {
    nodes: Mutex<Nodes>,
    /// What its nodes allocate.
    memory: Mutex<Vec<Arc<Memory>>>,
    /// What it was made ready as last: with memory of its own, one at a time.
    ready: Mutex<Weak<Ready>>,
}

/// What a node's handle stands for.
struct NodeName {
    graph: Weak<Graph>,
    kind: Kind,
    /// The node that it is a copy of.
    original: Option<usize>,
}

pub(super) fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Graph {
    /// Adds a node behind others of the graph.
    pub(super) fn add(self: &Arc<Self>, kind: Kind, after: Vec<usize>, work: Work) -> usize {
        let node = Node {
            kind,
            work,
            after,
            enabled: true,
        };
        self.insert(node, None)
    }

    fn insert(self: &Arc<Self>, node: Node, original: Option<usize>) -> usize {
        let name = NodeName {
            graph: Arc::downgrade(self),
            kind: node.kind,
            original,
        };
        let handle = NODES.insert(Arc::new(name));
        lock(&self.nodes).insert(handle, node);
        handle
    }

    pub(super) fn nodes(&self) -> MutexGuard<'_, Nodes> {
        lock(&self.nodes)
    }

    /// Keeps memory that a node of it allocates.
    pub(super) fn own(&self, memory: Arc<Memory>) {
        lock(&self.memory).push(memory);
    }

    /// Such memory.
    pub(super) fn owned(&self, is_it: impl Fn(&Memory) -> bool) -> Option<Arc<Memory>> {
        let all = lock(&self.memory);
        all.iter().find(|memory| is_it(memory)).cloned()
    }

    /// Before it is made ready.
    pub(super) fn check_memory(&self, frees_on_launch: bool) -> Answer {
        graph_memory::check_freed(&lock(&self.memory), frees_on_launch)?;
        if graph_memory::is_in(&self.nodes()) && lock(&self.ready).upgrade().is_some() {
            return Err(Status::INVALID_VALUE
                .because("a graph that allocates memory is made ready once at a time"));
        }
        Ok(())
    }

    pub(super) fn is_ready_as(&self, ready: &Arc<Ready>) {
        *lock(&self.ready) = Arc::downgrade(ready);
    }

    /// A copy, in which each node has another handle.
    fn copy(&self) -> Arc<Graph> {
        let copy = Arc::<Graph>::default();
        let nodes = self.nodes();
        let mut handles = BTreeMap::new();
        for handle in order(&nodes) {
            let mut node = nodes[&handle].clone();
            node.after = node.after.iter().map(|before| handles[before]).collect();
            handles.insert(handle, copy.insert(node, Some(handle)));
        }
        copy
    }

    /// Whether every node is among `ends` or comes before one of them.
    pub(super) fn all_lead_to(&self, ends: &[usize]) -> bool {
        let nodes = lock(&self.nodes);
        let mut reached: Vec<usize> = ends.to_vec();
        // Backwards, a node is looked at after all that depend on it.
        for (handle, node) in nodes.iter().rev() {
            if !reached.contains(handle) {
                return false;
            }
            reached.extend(&node.after);
        }
        true
    }

    /// Gives a finished graph its handle.
    pub(super) fn publish(self: Arc<Self>) -> CUgraph {
        pointer(GRAPHS.insert(self))
    }

    pub(super) fn work(&self) -> Work {
        all_of(&lock(&self.nodes))
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

/// The nodes, each behind what it depends on; short of those that depend on
/// themselves.
fn order(nodes: &Nodes) -> Vec<usize> {
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
        // Mostly one pass: nodes are added behind what they depend on.
        if left.is_empty() || left.len() == before {
            return done;
        }
    }
}

/// The work of all nodes in their order, up to the first fault.
pub(super) fn all_of(nodes: &Nodes) -> Work {
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

pub(super) fn find<H>(graph: Given<H>) -> Answer<Arc<Graph>> {
    context::working()?;
    GRAPHS
        .get(graph)
        .ok_or_else(|| Status::INVALID_VALUE.because("no live graph has this handle"))
}

/// The nodes that a new one comes after, which must be of its graph.
fn dependencies(graph: &Graph, given: Given<CUgraphNode>, count: usize) -> Answer<Vec<usize>> {
    let nodes = lock(&graph.nodes);
    given
        .slice(count)?
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

/// Adds what a caller describes.
pub(super) fn add(
    result: Given<CUgraphNode>,
    graph: Given<cudarc::driver::sys::CUgraph_st>,
    after: Given<CUgraphNode>,
    count: usize,
    kind: Kind,
    work: Work,
) -> Answer {
    let graph = find(graph)?;
    let after = dependencies(&graph, after, count)?;
    if result.is_null() {
        return Err(Status::INVALID_VALUE.because("nowhere to put the node"));
    }
    result.put(pointer(graph.add(kind, after, work)))
}

pub(super) fn kernel(described: Given<CUDA_KERNEL_NODE_PARAMS_v2>) -> Answer<Work> {
    let described = described.get()?;
    // SAFETY: fields of the caller's structure, for which its promise holds as well.
    let (function, kernel, params, extra) = unsafe {
        (
            described.func.seen(),
            described.kern.seen(),
            described.kernelParams.seen(),
            described.extra.seen(),
        )
    };
    let function = match function.is_null() {
        true => module::function(kernel)?,
        false => module::function(function)?,
    };
    let shape = LaunchShape {
        grid: [described.gridDimX, described.gridDimY, described.gridDimZ],
        block: [
            described.blockDimX,
            described.blockDimY,
            described.blockDimZ,
        ],
        shared_bytes: described.sharedMemBytes,
    };
    Ok(Arc::new(launch::prepare(&function, shape, params, extra)?))
}

pub(super) fn copying(described: Given<CUDA_MEMCPY3D>) -> Answer<Work> {
    let copy = region::cuboid_work(described)?;
    Ok(Arc::new(move |_| copy()))
}

pub(super) fn filling(described: Given<CUDA_MEMSET_NODE_PARAMS_v1>) -> Answer<Work> {
    let fill = described.get()?;
    let (to, pitch, value) = (fill.dst, fill.pitch, fill.value);
    let (width, height) = (fill.width, fill.height);
    Ok(match fill.elementSize {
        1 => {
            let work = copy::fill_work(to, pitch, value as u8, width, height)?;
            Arc::new(move |_| work())
        }
        2 => {
            let work = copy::fill_work(to, pitch, value as u16, width, height)?;
            Arc::new(move |_| work())
        }
        4 => {
            let work = copy::fill_work(to, pitch, value, width, height)?;
            Arc::new(move |_| work())
        }
        _ => {
            return Err(Status::INVALID_VALUE.because("elements of a fill have 1, 2 or 4 bytes"));
        }
    })
}

pub(super) fn calling(described: Given<CUDA_HOST_NODE_PARAMS_v1>) -> Answer<Work> {
    let described = described.get()?;
    let function = described.fn_.ok_or(Status::INVALID_VALUE)?;
    // SAFETY: a field of the caller's structure, for which its promise holds as well.
    let data = unsafe { described.userData.seen() };
    Ok(Arc::new(move |_: &Arc<Context>| {
        in_host_function(|| {
            // SAFETY: the caller gave the function and its argument to be called so.
            unsafe { function(data.as_ptr()) }
        });
    }))
}

/// Two lists of nodes of a graph, of one length.
fn pairs(
    graph: &Graph,
    from: Given<CUgraphNode>,
    to: Given<CUgraphNode>,
    count: usize,
) -> Answer<Vec<(usize, usize)>> {
    let before = dependencies(graph, from, count)?;
    Ok(before
        .into_iter()
        .zip(dependencies(graph, to, count)?)
        .collect())
}

fn nothing() -> Work {
    Arc::new(|_| ())
}

/// The graph in Graphviz's language.
fn drawing(graph: &Graph) -> String {
    let mut text = String::from("digraph {\n");
    for (handle, node) in lock(&graph.nodes).iter() {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  n{handle} [label=\"{:?}\"];", node.kind);
        for before in &node.after {
            let _ = writeln!(text, "  n{before} -> n{handle};");
        }
    }
    text + "}\n"
}

entries! {
    fn cuGraphCreate(graph: *mut CUgraph, flags: c_uint) {
        context::working()?;
        if flags != 0 || graph.is_null() {
            return Err(Status::INVALID_VALUE.because("the flags of cuGraphCreate must be 0"));
        }
        graph.put(Arc::<Graph>::default().publish())
    }

    fn cuGraphDestroy(graph: CUgraph) {
        find(graph)?;
        GRAPHS.remove(graph.addr());
        Ok(())
    }

    fn cuGraphClone(clone: *mut CUgraph, graph: CUgraph) {
        let graph = find(graph)?;
        if clone.is_null() {
            return Err(Status::INVALID_VALUE.into());
        }
        graph_memory::refuse(&graph.nodes())?;
        clone.put(graph.copy().publish())
    }

    fn cuGraphNodeFindInClone(node: *mut CUgraphNode, original: CUgraphNode, clone: CUgraph) {
        let clone = find(clone)?;
        let handle = original.addr();
        let is_copy = |copy: &usize| {
            NODES
                .at(*copy)
                .is_some_and(|name| name.original == Some(handle))
        };
        match clone.nodes().keys().copied().find(is_copy) {
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
        let graph = find(graph)?;
        let nodes = graph.nodes();
        let edges: Vec<(usize, usize)> = nodes
            .iter()
            .flat_map(|(handle, node)| node.after.iter().map(|before| (*before, *handle)))
            .collect();
        if !from.is_null() && !to.is_null() {
            let room = count.get()?;
            for (index, (before, after)) in edges.iter().take(room).enumerate() {
                from.put_at(index, pointer(*before))?;
                to.put_at(index, pointer(*after))?;
            }
            // Further places are null.
            for index in edges.len()..room {
                from.put_at(index, std::ptr::null_mut())?;
                to.put_at(index, std::ptr::null_mut())?;
            }
        }
        count.put(edges.len())
    }

    fn cuGraphAddDependencies(
        graph: CUgraph,
        from: *const CUgraphNode,
        to: *const CUgraphNode,
        count: usize,
    ) {
        let graph = find(graph)?;
        let pairs = pairs(&graph, from, to, count)?;
        let mut nodes = graph.nodes();
        let mut changed = nodes.clone();
        for (before, after) in pairs {
            let Some(node) = changed.get_mut(&after) else { continue };
            if node.after.contains(&before) {
                return Err(Status::INVALID_VALUE.because("the node comes after that one already"));
            }
            node.after.push(before);
        }
        if order(&changed).len() < changed.len() {
            return Err(Status::INVALID_VALUE.because("a node would come after itself"));
        }
        *nodes = changed;
        Ok(())
    }

    fn cuGraphRemoveDependencies(
        graph: CUgraph,
        from: *const CUgraphNode,
        to: *const CUgraphNode,
        count: usize,
    ) {
        let graph = find(graph)?;
        let pairs = pairs(&graph, from, to, count)?;
        let mut nodes = graph.nodes();
        graph_memory::refuse(&nodes)?;
        for (before, after) in &pairs {
            if !nodes.get(after).is_some_and(|node| node.after.contains(before)) {
                return Err(Status::INVALID_VALUE.because("the node does not come after that one"));
            }
        }
        for (before, after) in &pairs {
            if let Some(node) = nodes.get_mut(after) {
                node.after.retain(|node| node != before);
            }
        }
        Ok(())
    }

    fn cuGraphAddKernelNode_v2(
        node: *mut CUgraphNode,
        graph: CUgraph,
        after: *const CUgraphNode,
        count: usize,
        described: *const CUDA_KERNEL_NODE_PARAMS_v2,
    ) {
        add(node, graph, after, count, Kind::Kernel, kernel(described)?)
    }

    fn cuGraphAddMemcpyNode(
        node: *mut CUgraphNode,
        graph: CUgraph,
        after: *const CUgraphNode,
        count: usize,
        described: *const CUDA_MEMCPY3D,
        _context: CUcontext,
    ) {
        add(node, graph, after, count, Kind::Copy, copying(described)?)
    }

    fn cuGraphAddMemsetNode(
        node: *mut CUgraphNode,
        graph: CUgraph,
        after: *const CUgraphNode,
        count: usize,
        described: *const CUDA_MEMSET_NODE_PARAMS_v1,
        _context: CUcontext,
    ) {
        add(node, graph, after, count, Kind::Fill, filling(described)?)
    }

    fn cuGraphAddHostNode(
        node: *mut CUgraphNode,
        graph: CUgraph,
        after: *const CUgraphNode,
        count: usize,
        described: *const CUDA_HOST_NODE_PARAMS_v1,
    ) {
        add(node, graph, after, count, Kind::Host, calling(described)?)
    }

    fn cuGraphAddEmptyNode(
        node: *mut CUgraphNode,
        graph: CUgraph,
        after: *const CUgraphNode,
        count: usize,
    ) {
        add(node, graph, after, count, Kind::Empty, nothing())
    }

    fn cuGraphAddChildGraphNode(
        node: *mut CUgraphNode,
        graph: CUgraph,
        after: *const CUgraphNode,
        count: usize,
        child: CUgraph,
    ) {
        let child = find(child)?;
        graph_memory::refuse(&child.nodes())?;
        let work = child.work();
        add(node, graph, after, count, Kind::Graph, work)
    }

    fn cuGraphAddEventRecordNode(
        node: *mut CUgraphNode,
        graph: CUgraph,
        after: *const CUgraphNode,
        count: usize,
        event: CUevent,
    ) {
        let work = event::recording(event)?;
        add(node, graph, after, count, Kind::RecordEvent, work)
    }

    fn cuGraphAddEventWaitNode(
        node: *mut CUgraphNode,
        graph: CUgraph,
        after: *const CUgraphNode,
        count: usize,
        event: CUevent,
    ) {
        let work = event::waiting(event)?;
        add(node, graph, after, count, Kind::WaitEvent, work)
    }

    fn cuGraphGetNodes(graph: CUgraph, nodes: *mut CUgraphNode, count: *mut usize) {
        let graph = find(graph)?;
        let all = lock(&graph.nodes);
        if !nodes.is_null() {
            let room = count.get()?;
            for (index, handle) in all.keys().take(room).enumerate() {
                nodes.put_at(index, pointer(*handle))?;
            }
            // Further places are null.
            for index in all.len()..room {
                nodes.put_at(index, std::ptr::null_mut())?;
            }
        }
        count.put(all.len())
    }

    fn cuGraphNodeGetType(node: CUgraphNode, kind: *mut c_uint) {
        let name = NODES.get(node).filter(|name| name.graph.strong_count() > 0);
        let name =
            name.ok_or_else(|| Status::INVALID_VALUE.because("no node of a graph has this handle"))?;
        kind.put(name.kind as c_uint)
    }

    fn cuGraphDebugDotPrint(graph: CUgraph, path: *const c_char, _flags: c_uint) {
        let graph = find(graph)?;
        let path = path.path()?;
        std::fs::write(&path, drawing(&graph)).map_err(|error| {
            Status::OPERATING_SYSTEM.because(format!("{}: {error}", path.display()))
        })
    }
}
