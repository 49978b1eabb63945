//! Graphs: work that is described once and launched many times.
//!
//! A node's work is a function that can be called again. Nodes keep the order
//! in which they were added, in which none comes before what it depends on, so
//! a launch does them one after the other: each uses all cores by itself.

use std::collections::BTreeMap;
use std::ffi::{c_char, c_uint};
use std::fmt::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::context::{self, Context};
use super::entry::{Argument, Given, entries, in_host_function};
use super::handle::{Handles, pointer};
use super::status::{Answer, Status};
use super::{copy, event, launch, module, region, stream};
use crate::cpu::run::LaunchShape;
use crate::driver::api::{
    CUDA_HOST_NODE_PARAMS_v1, CUDA_KERNEL_NODE_PARAMS_v2, CUDA_MEMCPY3D,
    CUDA_MEMSET_NODE_PARAMS_v1, CUcontext, CUevent, CUgraph, CUgraphExec, CUgraphNode, CUstream,
    GraphUpdateResult,
};

static GRAPHS: Handles<Graph> = Handles::new();
static NODES: Handles<NodeName> = Handles::new();
static READY: Handles<Ready> = Handles::new();

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
    Memory = 12,
}

#[derive(Clone)]
struct Node {
    kind: Kind,
    work: Work,
    after: Vec<usize>,
}

#[derive(Default)]
pub(super) struct Graph {
    /// By handle: handles grow, so this is the order of adding.
    nodes: Mutex<BTreeMap<usize, Node>>,
}

/// What a node's handle stands for.
struct NodeName {
    graph: Weak<Graph>,
    kind: Kind,
}

/// A graph that can be launched.
struct Ready {
    nodes: Mutex<BTreeMap<usize, Node>>,
}

fn lock(nodes: &Mutex<BTreeMap<usize, Node>>) -> MutexGuard<'_, BTreeMap<usize, Node>> {
    nodes.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Graph {
    /// Adds a node behind others of the graph.
    pub(super) fn add(self: &Arc<Self>, kind: Kind, after: Vec<usize>, work: Work) -> usize {
        let graph = Arc::downgrade(self);
        let handle = NODES.insert(Arc::new(NodeName { graph, kind }));
        lock(&self.nodes).insert(handle, Node { kind, work, after });
        handle
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

    fn work(&self) -> Work {
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

/// The work of all nodes in their order, up to the first fault.
fn all_of(nodes: &BTreeMap<usize, Node>) -> Work {
    let all: Vec<Work> = nodes.values().map(|node| node.work.clone()).collect();
    Arc::new(move |context| {
        for work in &all {
            if context.check().is_err() {
                return;
            }
            work(context);
        }
    })
}

fn find<H>(graph: Given<H>) -> Answer<Arc<Graph>> {
    context::working()?;
    GRAPHS
        .get(graph)
        .ok_or_else(|| Status::INVALID_VALUE.because("no live graph has this handle"))
}

fn ready<H>(graph: Given<H>) -> Answer<Arc<Ready>> {
    context::working()?;
    READY
        .get(graph)
        .ok_or_else(|| Status::INVALID_VALUE.because("no executable graph has this handle"))
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
fn add(
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

fn kernel(described: Given<CUDA_KERNEL_NODE_PARAMS_v2>) -> Answer<Work> {
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

fn nothing() -> Work {
    Arc::new(|_| ())
}

/// How the graphs differ, as `CU_GRAPH_EXEC_UPDATE_…`, and at which node.
fn difference(
    old: &BTreeMap<usize, Node>,
    new: &BTreeMap<usize, Node>,
) -> Result<(), (c_uint, usize)> {
    const TOPOLOGY_CHANGED: c_uint = 2;
    const NODE_TYPE_CHANGED: c_uint = 3;
    let place = |nodes: &BTreeMap<usize, Node>, handle: &usize| nodes.range(..handle).count();
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
        let copy = Arc::<Graph>::default();
        let mut handles = BTreeMap::new();
        for (handle, node) in lock(&graph.nodes).iter() {
            let after = node.after.iter().filter_map(|before| handles.get(before).copied());
            handles.insert(*handle, copy.add(node.kind, after.collect(), node.work.clone()));
        }
        clone.put(copy.publish())
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
        let copy = region::cuboid_work(described)?;
        add(node, graph, after, count, Kind::Copy, Arc::new(move |_| copy()))
    }

    fn cuGraphAddMemsetNode(
        node: *mut CUgraphNode,
        graph: CUgraph,
        after: *const CUgraphNode,
        count: usize,
        described: *const CUDA_MEMSET_NODE_PARAMS_v1,
        _context: CUcontext,
    ) {
        let fill = described.get()?;
        let (to, pitch, value) = (fill.dst, fill.pitch, fill.value);
        let (width, height) = (fill.width, fill.height);
        let work: Work = match fill.elementSize {
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
        };
        add(node, graph, after, count, Kind::Fill, work)
    }

    fn cuGraphAddHostNode(
        node: *mut CUgraphNode,
        graph: CUgraph,
        after: *const CUgraphNode,
        count: usize,
        described: *const CUDA_HOST_NODE_PARAMS_v1,
    ) {
        let described = described.get()?;
        let function = described.fn_.ok_or(Status::INVALID_VALUE)?;
        // SAFETY: a field of the caller's structure, for which its promise holds as well.
        let data = unsafe { described.userData.seen() };
        let work = move |_: &Arc<Context>| {
            in_host_function(|| {
                // SAFETY: the caller gave the function and its argument to be called so.
                unsafe { function(data.as_ptr()) }
            });
        };
        add(node, graph, after, count, Kind::Host, Arc::new(work))
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
        let work = find(child)?.work();
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

    fn cuGraphInstantiateWithFlags(result: *mut CUgraphExec, graph: CUgraph, flags: u64) {
        // AUTO_FREE_ON_LAUNCH, UPLOAD, DEVICE_LAUNCH, USE_NODE_PRIORITY
        const KNOWN: u64 = 0xf;
        let graph = find(graph)?;
        if flags & !KNOWN != 0 || result.is_null() {
            return Err(Status::INVALID_VALUE.because("unknown flags of cuGraphInstantiate"));
        }
        let nodes = lock(&graph.nodes).clone();
        let made = Ready {
            nodes: Mutex::new(nodes),
        };
        result.put(pointer(READY.insert(Arc::new(made))))
    }

    fn cuGraphExecUpdate_v2(
        exec: CUgraphExec,
        graph: CUgraph,
        result: *mut GraphUpdateResult,
    ) {
        let (exec, graph) = (ready(exec)?, find(graph)?);
        let new = lock(&graph.nodes).clone();
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
        let work = kernel(described)?;
        match lock(&exec.nodes).get_mut(&node.addr()) {
            Some(node) if node.kind == Kind::Kernel => {
                node.work = work;
                Ok(())
            }
            _ => Err(Status::INVALID_VALUE.because("the executable graph has no such launch")),
        }
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

    fn cuGraphDebugDotPrint(graph: CUgraph, path: *const c_char, _flags: c_uint) {
        let graph = find(graph)?;
        let path = path.path()?;
        std::fs::write(&path, drawing(&graph)).map_err(|error| {
            Status::OPERATING_SYSTEM.because(format!("{}: {error}", path.display()))
        })
    }
}
