//! Graphs: work described once, launched many times.

pub(crate) mod capture;
pub(crate) mod conditional;
pub(crate) mod edge;
pub(crate) mod exec;
pub(crate) mod memory;
pub(crate) mod node;
pub(crate) mod node_params;
pub(crate) mod node_query;
pub(crate) mod user_object;

use std::ffi::CString;
use std::path::Path;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::driver::device::context::{Context, report_drop};
use crate::driver::error::Error;
use crate::driver::stream::retained::RetainedRef;
use api::{CUgraph, CUgraphNode};

/// A graph of launches, copies, fills and host calls with dependencies. It is captured from
/// a stream, or built node by node, and [instantiated](Graph::instantiate) to be launched.
///
/// A graph retains what its nodes use: memory, kernels and functions live at least as long
/// as the graph and its executable graphs.
///
/// ```
/// # #[cfg(feature = "cpu")] {
/// use ptxkit::driver::{CaptureMode, Context, DeviceBuffer, Driver, Graph, LaunchConfig};
/// use ptxkit::driver::{Module, Stream};
///
/// # let ptx = b".version 8.0 .target sm_80 .address_size 64
/// # .visible .entry increment(.param .u64 n) {
/// #     .reg .b32 %r; .reg .b64 %rd;
/// #     ld.param.u64 %rd, [n]; ld.global.u32 %r, [%rd]; add.u32 %r, %r, 1;
/// #     st.global.u32 [%rd], %r; ret; }";
/// let context = Context::primary(&Driver::cpu()?.device(0)?)?;
/// let increment = Module::load(&context, ptx)?.kernel("increment")?;
/// let stream = Stream::non_blocking(&context)?;
/// let n = DeviceBuffer::<u32>::zeroed(&context, 1)?;
///
/// let graph = Graph::capture(&stream, CaptureMode::ThreadLocal, |stream| {
///     // SAFETY: the kernel accesses one number.
///     unsafe {
///         increment.launch(LaunchConfig::default(), stream, (&n,))?;
///         increment.launch(LaunchConfig::default(), stream, (&n,))
///     }
/// })?;
/// let ready = graph.instantiate()?;
/// for _ in 0..10 {
///     ready.launch(&stream)?;
/// }
/// stream.synchronize()?;
/// assert_eq!(n.to_vec()?, [20]);
/// # }
/// # Ok::<(), ptxkit::driver::Error>(())
/// ```
#[derive(Debug)]
pub struct Graph {
    pub(super) inner: Arc<Inner>,
}

/// Shared with executable graphs, which name nodes by their handles here.
#[derive(Debug)]
pub(super) struct Inner {
    pub(super) context: Context,
    /// An id that no other graph has or had; its nodes carry it.
    pub(super) id: u64,
    handle: Handle,
    /// What it shares with the graphs within it.
    shared: Arc<Shared>,
    /// The graph with the node that it is in, which destroys it.
    outer: Option<Arc<Inner>>,
}

/// What a graph and the graphs within its nodes have together.
#[derive(Debug)]
struct Shared {
    /// The id of the outermost one.
    tree: u64,
    /// One thread at a time may use them. Whether a stream is captured into one of them, which
    /// uses them until its end.
    is_captured_into: Mutex<bool>,
    retained: Mutex<Vec<RetainedRef>>,
}

#[derive(Debug)]
struct Handle(CUgraph);

// SAFETY: a graph's handle is used under the lock of its graph.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

/// A graph's handle while no other thread uses it.
#[derive(Debug)]
pub(super) struct Locked<'a>(pub CUgraph, MutexGuard<'a, bool>);

/// A node of a [`Graph`]. Cheap to copy; names nothing in another graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GraphNode {
    pub(super) handle: CUgraphNode,
    pub(super) graph: u64,
}

// SAFETY: a name; it is used under the lock of its graph.
unsafe impl Send for GraphNode {}
// SAFETY: as above.
unsafe impl Sync for GraphNode {}

impl GraphNode {
    /// The raw handle, for calls that the safe layer does not have.
    pub fn raw(&self) -> CUgraphNode {
        self.handle
    }
}

/// What a node does (`CUgraphNodeType`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NodeKind {
    /// It launches a kernel.
    Kernel,
    /// It copies.
    Copy,
    /// It fills memory.
    Fill,
    /// It calls a function on the host.
    HostFunction,
    /// It is another graph.
    Graph,
    /// It does nothing, and others depend on it.
    Empty,
    /// It waits for an event.
    WaitEvent,
    /// It records an event.
    RecordEvent,
    /// It allocates memory.
    Allocate,
    /// It frees memory.
    Free,
    /// It chooses which graph runs.
    Conditional,
    /// Any other value.
    Other(u32),
}

impl Graph {
    /// A graph without nodes (`cuGraphCreate`).
    pub fn new(context: &Context) -> Result<Graph, Error> {
        let mut handle = null_mut();
        // SAFETY: writes one handle; the flags must be 0.
        unsafe { context.bind()?.cuGraphCreate(&mut handle, 0) }?;
        Ok(Graph::own(context, handle, Vec::new()))
    }

    pub(super) fn own(context: &Context, handle: CUgraph, retained: Vec<RetainedRef>) -> Graph {
        let id = next_id();
        Graph {
            inner: Arc::new(Inner {
                context: context.clone(),
                id,
                handle: Handle(handle),
                shared: Arc::new(Shared {
                    tree: id,
                    is_captured_into: Mutex::new(false),
                    retained: Mutex::new(retained),
                }),
                outer: None,
            }),
        }
    }

    /// A graph within one of its nodes, which ends with it.
    fn within(&self, handle: CUgraph) -> Graph {
        Graph {
            inner: Arc::new(Inner {
                context: self.inner.context.clone(),
                id: next_id(),
                handle: Handle(handle),
                shared: self.inner.shared.clone(),
                outer: Some(self.inner.clone()),
            }),
        }
    }

    /// The context it lives in.
    pub fn context(&self) -> &Context {
        &self.inner.context
    }

    /// The raw handle, for calls that the safe layer does not have. CUDA wants
    /// one thread at a time to use it.
    pub fn raw(&self) -> CUgraph {
        self.inner.handle.0
    }

    /// A copy of it, which uses the same memory, kernels and functions
    /// (`cuGraphClone`). Graphs within it are copied too. Its nodes are
    /// [`node_in_clone`](Graph::node_in_clone) of those here.
    pub fn try_clone(&self) -> Result<Graph, Error> {
        let api = self.inner.context.bind()?;
        let mut handle = null_mut();
        // SAFETY: the graph is live; writes one handle.
        unsafe { api.cuGraphClone(&mut handle, self.inner.lock()?.0) }?;
        let retained = self.inner.retained().clone();
        Ok(Graph::own(&self.inner.context, handle, retained))
    }

    /// The node of a clone that is the copy of one here
    /// (`cuGraphNodeFindInClone`).
    pub fn node_in_clone(&self, node: GraphNode, clone: &Graph) -> Result<GraphNode, Error> {
        if Arc::ptr_eq(&self.inner, &clone.inner) {
            return Err(Error::GraphNode);
        }
        let api = self.inner.context.bind()?;
        self.inner.check(&[node])?;
        let mut handle = null_mut();
        let graph = clone.inner.lock()?;
        // SAFETY: the node is of this graph and the clone is live; writes one handle.
        unsafe { api.cuGraphNodeFindInClone(&mut handle, node.handle, graph.0) }?;
        Ok(clone.inner.name(handle))
    }

    /// Its nodes (`cuGraphGetNodes`).
    pub fn nodes(&self) -> Result<Vec<GraphNode>, Error> {
        let api = self.inner.context.bind()?;
        let graph = self.inner.lock()?;
        let mut count = 0;
        // SAFETY: the graph is live; writes one integer.
        unsafe { api.cuGraphGetNodes(graph.0, null_mut(), &mut count) }?;
        if count == 0 {
            return Ok(Vec::new());
        }
        let mut nodes = vec![null_mut(); count];
        // SAFETY: the array has room for `count` handles.
        unsafe { api.cuGraphGetNodes(graph.0, nodes.as_mut_ptr(), &mut count) }?;
        nodes.truncate(count);
        Ok(nodes
            .into_iter()
            .map(|node| self.inner.name(node))
            .collect())
    }

    /// What a node does (`cuGraphNodeGetType`).
    pub fn kind(&self, node: GraphNode) -> Result<NodeKind, Error> {
        let api = self.inner.context.bind()?;
        self.inner.check(&[node])?;
        let _graph = self.inner.lock()?;
        let mut kind = 0;
        // SAFETY: the node is of this graph, from which none is taken; writes one integer.
        unsafe { api.cuGraphNodeGetType(node.handle, &mut kind) }?;
        Ok(match kind {
            0 => NodeKind::Kernel,
            1 => NodeKind::Copy,
            2 => NodeKind::Fill,
            3 => NodeKind::HostFunction,
            4 => NodeKind::Graph,
            5 => NodeKind::Empty,
            6 => NodeKind::WaitEvent,
            7 => NodeKind::RecordEvent,
            10 => NodeKind::Allocate,
            11 => NodeKind::Free,
            13 => NodeKind::Conditional,
            other => NodeKind::Other(other),
        })
    }

    /// Which node comes after which: the first of a pair before the second
    /// (`cuGraphGetEdges`).
    pub fn edges(&self) -> Result<Vec<(GraphNode, GraphNode)>, Error> {
        let api = self.inner.context.bind()?;
        let graph = self.inner.lock()?;
        let mut count = 0;
        // SAFETY: the graph is live; writes one integer.
        unsafe { api.cuGraphGetEdges(graph.0, null_mut(), null_mut(), &mut count) }?;
        if count == 0 {
            return Ok(Vec::new()); // the driver refuses empty arrays
        }
        let (mut from, mut to) = (vec![null_mut(); count], vec![null_mut(); count]);
        // SAFETY: the arrays have room for `count` handles.
        unsafe { api.cuGraphGetEdges(graph.0, from.as_mut_ptr(), to.as_mut_ptr(), &mut count) }?;
        let ends = from.into_iter().zip(to).take(count);
        Ok(ends
            .map(|(from, to)| (self.inner.name(from), self.inner.name(to)))
            .collect())
    }

    /// Lets `after` come after `before` (`cuGraphAddDependencies`). An order in
    /// a circle is an error, and so is one that there is already.
    pub fn add_dependency(&mut self, before: GraphNode, after: GraphNode) -> Result<(), Error> {
        let api = self.inner.context.bind()?;
        self.inner.check(&[before, after])?;
        let graph = self.inner.lock()?;
        // SAFETY: the graph is live and the nodes are its own.
        unsafe { Ok(api.cuGraphAddDependencies(graph.0, &before.handle, &after.handle, 1)?) }
    }

    /// Lets the two be done in any order (`cuGraphRemoveDependencies`).
    pub fn remove_dependency(&mut self, before: GraphNode, after: GraphNode) -> Result<(), Error> {
        let api = self.inner.context.bind()?;
        self.inner.check(&[before, after])?;
        let graph = self.inner.lock()?;
        // SAFETY: as above.
        unsafe { Ok(api.cuGraphRemoveDependencies(graph.0, &before.handle, &after.handle, 1)?) }
    }

    /// Writes a drawing of it for Graphviz (`cuGraphDebugDotPrint`, from CUDA
    /// 11.3).
    pub fn draw(&self, path: &Path) -> Result<(), Error> {
        let bytes = path.as_os_str().as_encoded_bytes();
        let text = CString::new(bytes).map_err(|_| Error::BadPath(path.to_owned()))?;
        let api = self.inner.context.bind()?;
        // SAFETY: the graph is live; the path ends in NUL.
        unsafe { Ok(api.cuGraphDebugDotPrint(self.inner.lock()?.0, text.as_ptr(), 0)?) }
    }
}

/// Locked while a call uses two graphs, as there is no lock order between them.
pub(super) fn lock_both() -> MutexGuard<'static, ()> {
    static BOTH: Mutex<()> = Mutex::new(());
    BOTH.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Inner {
    /// Fails unless the nodes are of this graph.
    pub fn check(&self, nodes: &[GraphNode]) -> Result<(), Error> {
        if nodes.iter().all(|node| node.graph == self.id) {
            Ok(())
        } else {
            Err(Error::GraphNode)
        }
    }

    pub fn name(&self, handle: CUgraphNode) -> GraphNode {
        GraphNode {
            handle,
            graph: self.id,
        }
    }

    /// Fails while a stream is captured into the graph.
    pub fn lock(&self) -> Result<Locked<'_>, Error> {
        let guard = self.shared.is_captured_into();
        if *guard {
            Err(Error::CapturedInto)
        } else {
            Ok(Locked(self.handle.0, guard))
        }
    }

    /// The id of the outermost graph that it is within, or its own.
    pub fn tree(&self) -> u64 {
        self.shared.tree
    }

    /// Whether the two are one graph, or within one.
    pub fn is_with(&self, other: &Inner) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    pub fn retained(&self) -> MutexGuard<'_, Vec<RetainedRef>> {
        let retained = self.shared.retained.lock();
        retained.unwrap_or_else(PoisonError::into_inner)
    }

    pub fn retain(&self, used: Vec<RetainedRef>) {
        self.retained().extend(used);
    }

    fn end_capture(&self) {
        *self.shared.is_captured_into() = false;
    }
}

impl Shared {
    fn is_captured_into(&self) -> MutexGuard<'_, bool> {
        let guard = self.is_captured_into.lock();
        guard.unwrap_or_else(PoisonError::into_inner)
    }
}

impl Locked<'_> {
    /// Lets a capture use the graph until [`Inner::end_capture`].
    fn begin_capture(mut self) {
        *self.1 = true;
    }
}

fn next_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl Drop for Inner {
    fn drop(&mut self) {
        if self.outer.is_some() {
            return;
        }
        let handle = self.handle.0;
        // SAFETY: made once, destroyed once; nodes are names that are checked against it.
        report_drop(
            self.context
                .bind()
                .and_then(|api| unsafe { Ok(api.cuGraphDestroy(handle)?) }),
        );
    }
}
