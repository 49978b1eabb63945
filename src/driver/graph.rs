//! Graphs: work described once, launched many times.

use std::ffi::{CString, c_uint, c_void};
use std::path::Path;
use std::ptr::null_mut;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cudarc::driver::sys::CUmemorytype;

use super::api::{
    CUDA_HOST_NODE_PARAMS_v1, CUDA_KERNEL_NODE_PARAMS_v2, CUDA_MEMCPY3D,
    CUDA_MEMSET_NODE_PARAMS_v1, CUgraph, CUgraphExec, CUgraphNode, GraphUpdateResult,
};
use super::argument::{Arg, Arguments};
use super::code::CudaError;
use super::context::{Context, report_drop};
use super::error::Error;
use super::event::Event;
use super::keep::{Capture, Keep, Kept};
use super::kernel::Kernel;
use super::launch::{LaunchConfig, with_pointers};
use super::memory::{Allocation, DeviceBuffer};
use super::pinned::PinnedBuffer;
use super::plain::{Plain, bytes_of};
use super::stream::{HostFunction, Stream};

/// A graph of launches, copies, fills and calls, each after those it depends
/// on. It is captured from a stream, or built node by node, and
/// [instantiated](Graph::instantiate) to be launched.
///
/// A graph keeps what its nodes use: memory, kernels and functions live at
/// least as long as the graph and what was instantiated from it.
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
///     increment.launch(LaunchConfig::default(), stream, (&n,))?;
///     increment.launch(LaunchConfig::default(), stream, (&n,))
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
    inner: Arc<Inner>,
}

/// Shared with what was instantiated: a node is named there by its handle here.
#[derive(Debug)]
struct Inner {
    context: Context,
    /// CUDA lets one thread at a time work with a graph.
    handle: Mutex<Handle>,
    kept: Mutex<Vec<Kept>>,
}

#[derive(Debug)]
struct Handle(CUgraph);

// SAFETY: a graph's handle is used under the lock around it.
unsafe impl Send for Handle {}

/// A node of a [`Graph`]. Cheap to copy; names nothing in another graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GraphNode {
    handle: CUgraphNode,
    graph: CUgraph,
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
    /// What CUDA numbers otherwise.
    Other(u32),
}

/// What a capture forbids other calls (`CUstreamCaptureMode`). Calls such as an
/// allocation could wait for the stream that captures, and then spoil the
/// capture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum CaptureMode {
    /// They are forbidden to all threads.
    Global = 0,
    /// They are forbidden to this thread.
    #[default]
    ThreadLocal = 1,
    /// They are allowed.
    Relaxed = 2,
}

impl Graph {
    /// A graph without nodes (`cuGraphCreate`).
    pub fn new(context: &Context) -> Result<Graph, Error> {
        let mut handle = null_mut();
        // SAFETY: writes one handle; the flags must be 0.
        unsafe { context.bind()?.cuGraphCreate(&mut handle, 0) }?;
        Ok(Graph::own(context, handle, Vec::new()))
    }

    /// The graph of what `work` queues in the stream it is given, which does not
    /// run (`cuStreamBeginCapture_v2`, `cuStreamEndCapture`). Streams that wait
    /// for an event recorded there take part, and have to be waited for in turn.
    ///
    /// The default stream cannot be captured. Where `work` fails, or calls what
    /// cannot be captured, there is no graph, and the error of that call.
    pub fn capture(
        stream: &Stream,
        mode: CaptureMode,
        work: impl FnOnce(&Stream) -> Result<(), Error>,
    ) -> Result<Graph, Error> {
        /// Ends the capture, also where `work` panics.
        struct Capturing<'a> {
            stream: &'a Stream,
            capture: Arc<Capture>,
            ended: bool,
        }
        impl Capturing<'_> {
            fn end(&mut self) -> (Result<CUgraph, Error>, Vec<Kept>) {
                self.ended = true;
                let mut handle = null_mut();
                let result = self.stream.context().bind().and_then(|api| {
                    // SAFETY: the stream is live; writes one handle.
                    unsafe { api.cuStreamEndCapture(self.stream.raw(), &mut handle) }
                });
                (result.map(|()| handle), self.capture.end())
            }
        }
        impl Drop for Capturing<'_> {
            fn drop(&mut self) {
                if !self.ended {
                    let (graph, kept) = self.end();
                    if let Ok(handle) = graph
                        && !handle.is_null()
                    {
                        drop(Graph::own(self.stream.context(), handle, kept));
                    }
                }
            }
        }

        let api = stream.context().bind()?;
        // SAFETY: the stream is live.
        unsafe { api.cuStreamBeginCapture_v2(stream.raw(), mode as c_uint) }?;
        let capture = Arc::new(Capture::default());
        stream.join_capture(&capture);
        let mut capturing = Capturing {
            stream,
            capture,
            ended: false,
        };
        let done = work(stream);
        let (handle, kept) = capturing.end();
        // What spoilt the capture says more than that it is spoilt.
        if let (Err(error), Err(_)) = (&done, &handle) {
            return Err(error.clone());
        }
        let graph = Graph::own(stream.context(), handle?, kept);
        done.map(|()| graph)
    }

    fn own(context: &Context, handle: CUgraph, kept: Vec<Kept>) -> Graph {
        Graph {
            inner: Arc::new(Inner {
                context: context.clone(),
                handle: Mutex::new(Handle(handle)),
                kept: Mutex::new(kept),
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
        self.inner.lock().0
    }

    /// Adds a launch (`cuGraphAddKernelNode_v2`, from CUDA 12.0), checked as
    /// [`Kernel::launch`] checks it. The arguments are copied now.
    pub fn add_kernel(
        &mut self,
        after: &[GraphNode],
        kernel: &Kernel,
        config: LaunchConfig,
        arguments: impl Arguments,
    ) -> Result<GraphNode, Error> {
        let mut kept = Vec::new();
        let node = self.add(after, |api, node, graph, after, count| {
            with_launch(
                kernel,
                &self.inner.context,
                config,
                &arguments,
                |params, args| {
                    keep_launch(&mut kept, kernel, args);
                    // SAFETY: graph and nodes are live; the parameters are the kernel's and copied.
                    unsafe { api.cuGraphAddKernelNode_v2(node, graph, after, count, params) }
                },
            )
        })?;
        self.inner.keep(kept);
        Ok(node)
    }

    /// Adds a copy between two buffers of one length (`cuGraphAddMemcpyNode`).
    pub fn add_copy<T: Plain>(
        &mut self,
        after: &[GraphNode],
        to: &DeviceBuffer<T>,
        from: &DeviceBuffer<T>,
    ) -> Result<GraphNode, Error> {
        let mut copy = self.copy(from.len(), to, to.bytes())?;
        self.check_context(from.context())?;
        copy.srcMemoryType = CUmemorytype::CU_MEMORYTYPE_DEVICE;
        copy.srcDevice = from.address();
        copy.dstMemoryType = CUmemorytype::CU_MEMORYTYPE_DEVICE;
        copy.dstDevice = to.address();
        let kept: Vec<Kept> = vec![to.allocation().clone(), from.allocation().clone()];
        self.add_memcpy(after, &copy, kept)
    }

    /// Adds a copy from pinned memory, which each launch makes anew
    /// (`cuGraphAddMemcpyNode`).
    pub fn add_write<T: Plain>(
        &mut self,
        after: &[GraphNode],
        to: &DeviceBuffer<T>,
        from: &PinnedBuffer<T>,
    ) -> Result<GraphNode, Error> {
        let mut copy = self.copy(from.len(), to, to.bytes())?;
        copy.srcMemoryType = CUmemorytype::CU_MEMORYTYPE_HOST;
        copy.srcHost = from.pointer().cast_const().cast();
        copy.dstMemoryType = CUmemorytype::CU_MEMORYTYPE_DEVICE;
        copy.dstDevice = to.address();
        let kept: Vec<Kept> = vec![to.allocation().clone(), from.kept()];
        self.add_memcpy(after, &copy, kept)
    }

    /// Adds a copy into pinned memory (`cuGraphAddMemcpyNode`), which waits for
    /// it before it is read.
    pub fn add_read<T: Plain>(
        &mut self,
        after: &[GraphNode],
        to: &mut PinnedBuffer<T>,
        from: &DeviceBuffer<T>,
    ) -> Result<GraphNode, Error> {
        let mut copy = self.copy(to.len(), from, from.bytes())?;
        copy.srcMemoryType = CUmemorytype::CU_MEMORYTYPE_DEVICE;
        copy.srcDevice = from.address();
        copy.dstMemoryType = CUmemorytype::CU_MEMORYTYPE_HOST;
        copy.dstHost = to.pointer().cast();
        let kept: Vec<Kept> = vec![from.allocation().clone(), to.kept()];
        self.add_memcpy(after, &copy, kept)
    }

    /// A copy of a buffer's bytes in one row; its ends are still to be set.
    fn copy<T: Plain>(
        &self,
        given: usize,
        buffer: &DeviceBuffer<T>,
        bytes: usize,
    ) -> Result<CUDA_MEMCPY3D, Error> {
        self.check_context(buffer.context())?;
        if given != buffer.len() || given == 0 {
            return Err(Error::Length {
                what: "copy in a graph",
                given,
                room: buffer.len(),
            });
        }
        Ok(CUDA_MEMCPY3D {
            srcXInBytes: 0,
            srcY: 0,
            srcZ: 0,
            srcLOD: 0,
            srcMemoryType: CUmemorytype::CU_MEMORYTYPE_HOST,
            srcHost: std::ptr::null(),
            srcDevice: 0,
            srcArray: null_mut(),
            reserved0: null_mut(),
            srcPitch: bytes,
            srcHeight: 1,
            dstXInBytes: 0,
            dstY: 0,
            dstZ: 0,
            dstLOD: 0,
            dstMemoryType: CUmemorytype::CU_MEMORYTYPE_HOST,
            dstHost: null_mut(),
            dstDevice: 0,
            dstArray: null_mut(),
            reserved1: null_mut(),
            dstPitch: bytes,
            dstHeight: 1,
            WidthInBytes: bytes,
            Height: 1,
            Depth: 1,
        })
    }

    fn add_memcpy(
        &mut self,
        after: &[GraphNode],
        copy: &CUDA_MEMCPY3D,
        kept: Vec<Kept>,
    ) -> Result<GraphNode, Error> {
        let context = self.inner.context.raw();
        let node = self.add(after, |api, node, graph, after, count| {
            // SAFETY: graph and nodes are live; both ends have the bytes, and are kept.
            unsafe { api.cuGraphAddMemcpyNode(node, graph, after, count, copy, context) }
        })?;
        self.inner.keep(kept);
        Ok(node)
    }

    /// Adds a fill of a whole buffer (`cuGraphAddMemsetNode`). Values have 1, 2
    /// or 4 bytes.
    pub fn add_fill<T: Plain>(
        &mut self,
        after: &[GraphNode],
        buffer: &DeviceBuffer<T>,
        value: T,
    ) -> Result<GraphNode, Error> {
        self.check_context(buffer.context())?;
        let value = match *bytes_of(&[value]) {
            [a] => u32::from(a),
            [a, b] => u32::from(u16::from_ne_bytes([a, b])),
            [a, b, c, d] => u32::from_ne_bytes([a, b, c, d]),
            _ => {
                return Err(Error::Length {
                    what: "bytes of a value that a graph fills with",
                    given: size_of::<T>(),
                    room: 4,
                });
            }
        };
        let fill = CUDA_MEMSET_NODE_PARAMS_v1 {
            dst: buffer.address(),
            pitch: 0,
            value,
            elementSize: size_of::<T>() as c_uint,
            width: buffer.len(),
            height: 1,
        };
        let context = self.inner.context.raw();
        let node = self.add(after, |api, node, graph, after, count| {
            // SAFETY: graph and nodes are live; the range is the buffer, which is kept.
            unsafe { api.cuGraphAddMemsetNode(node, graph, after, count, &fill, context) }
        })?;
        self.inner.keep(vec![buffer.allocation().clone()]);
        Ok(node)
    }

    /// Adds a call of a function on a thread of the driver
    /// (`cuGraphAddHostNode`), which each launch makes. It must not call the
    /// driver.
    pub fn add_host_function(
        &mut self,
        after: &[GraphNode],
        function: impl Fn() + Send + Sync + 'static,
    ) -> Result<GraphNode, Error> {
        let function = Arc::new(HostFunction::new(function));
        let described = CUDA_HOST_NODE_PARAMS_v1 {
            fn_: Some(HostFunction::RUN),
            userData: function.data(),
        };
        let node = self.add(after, |api, node, graph, after, count| {
            // SAFETY: graph and nodes are live; the function is kept.
            unsafe { api.cuGraphAddHostNode(node, graph, after, count, &described) }
        })?;
        self.inner.keep(vec![function]);
        Ok(node)
    }

    /// Adds a node that does nothing (`cuGraphAddEmptyNode`): a point that
    /// others come after.
    pub fn add_empty(&mut self, after: &[GraphNode]) -> Result<GraphNode, Error> {
        self.add(after, |api, node, graph, after, count| {
            // SAFETY: graph and nodes are live.
            unsafe { api.cuGraphAddEmptyNode(node, graph, after, count) }
        })
    }

    /// Adds a copy of another graph as one node (`cuGraphAddChildGraphNode`).
    pub fn add_graph(&mut self, after: &[GraphNode], child: &Graph) -> Result<GraphNode, Error> {
        self.check_context(child.context())?;
        if Arc::ptr_eq(&self.inner, &child.inner) {
            return Err(Error::GraphNode);
        }
        let handle = child.raw();
        let node = self.add(after, |api, node, graph, after, count| {
            // SAFETY: both graphs and the nodes are live.
            unsafe { api.cuGraphAddChildGraphNode(node, graph, after, count, handle) }
        })?;
        let kept = child.inner.kept().clone();
        self.inner.keep(kept);
        Ok(node)
    }

    /// Adds the recording of an event (`cuGraphAddEventRecordNode`, from CUDA 11.1).
    pub fn add_event_record(
        &mut self,
        after: &[GraphNode],
        event: &Arc<Event>,
    ) -> Result<GraphNode, Error> {
        self.check_context(event.context())?;
        let node = self.add(after, |api, node, graph, after, count| {
            // SAFETY: graph, nodes and event are live; the event is kept.
            unsafe { api.cuGraphAddEventRecordNode(node, graph, after, count, event.raw()) }
        })?;
        self.inner.keep(vec![event.clone()]);
        Ok(node)
    }

    /// Adds waiting for an event (`cuGraphAddEventWaitNode`, from CUDA 11.1).
    pub fn add_event_wait(
        &mut self,
        after: &[GraphNode],
        event: &Arc<Event>,
    ) -> Result<GraphNode, Error> {
        let node = self.add(after, |api, node, graph, after, count| {
            // SAFETY: as above.
            unsafe { api.cuGraphAddEventWaitNode(node, graph, after, count, event.raw()) }
        })?;
        self.inner.keep(vec![event.clone()]);
        Ok(node)
    }

    /// Adds a node by one entry.
    fn add(
        &self,
        after: &[GraphNode],
        entry: impl FnOnce(
            &'static super::api::Api,
            *mut CUgraphNode,
            CUgraph,
            *const CUgraphNode,
            usize,
        ) -> Result<(), Error>,
    ) -> Result<GraphNode, Error> {
        let api = self.inner.context.bind()?;
        let graph = self.inner.lock();
        if after.iter().any(|node| node.graph != graph.0) {
            return Err(Error::GraphNode);
        }
        let after: Vec<CUgraphNode> = after.iter().map(|node| node.handle).collect();
        let mut handle = null_mut();
        entry(api, &mut handle, graph.0, after.as_ptr(), after.len())?;
        Ok(GraphNode {
            handle,
            graph: graph.0,
        })
    }

    fn check_context(&self, other: &Context) -> Result<(), Error> {
        if other != &self.inner.context {
            return Err(Error::DifferentContexts {
                what: "a graph and what its node uses",
            });
        }
        Ok(())
    }

    /// Its nodes (`cuGraphGetNodes`).
    pub fn nodes(&self) -> Result<Vec<GraphNode>, Error> {
        let api = self.inner.context.bind()?;
        let graph = self.inner.lock();
        let mut count = 0;
        // SAFETY: the graph is live; writes one integer.
        unsafe { api.cuGraphGetNodes(graph.0, null_mut(), &mut count) }?;
        let mut nodes = vec![null_mut(); count];
        // SAFETY: the array has room for `count` handles.
        unsafe { api.cuGraphGetNodes(graph.0, nodes.as_mut_ptr(), &mut count) }?;
        nodes.truncate(count);
        let name = |handle| GraphNode {
            handle,
            graph: graph.0,
        };
        Ok(nodes.into_iter().map(name).collect())
    }

    /// What a node does (`cuGraphNodeGetType`).
    pub fn kind(&self, node: GraphNode) -> Result<NodeKind, Error> {
        let api = self.inner.context.bind()?;
        let graph = self.inner.lock();
        if node.graph != graph.0 {
            return Err(Error::GraphNode);
        }
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
            other => NodeKind::Other(other),
        })
    }

    /// Writes a drawing of it for Graphviz (`cuGraphDebugDotPrint`, from CUDA
    /// 11.3).
    pub fn draw(&self, path: &Path) -> Result<(), Error> {
        let bytes = path.as_os_str().as_encoded_bytes();
        let text = CString::new(bytes).map_err(|_| Error::BadPath(path.to_owned()))?;
        let api = self.inner.context.bind()?;
        // SAFETY: the graph is live; the path ends in NUL.
        unsafe { api.cuGraphDebugDotPrint(self.inner.lock().0, text.as_ptr(), 0) }
    }

    /// Makes it ready to be launched (`cuGraphInstantiateWithFlags`, from CUDA
    /// 11.4). What is done to the graph afterwards does not change what was
    /// instantiated.
    pub fn instantiate(&self) -> Result<GraphExec, Error> {
        let api = self.inner.context.bind()?;
        let mut handle = null_mut();
        // SAFETY: the graph is live; writes one handle.
        unsafe { api.cuGraphInstantiateWithFlags(&mut handle, self.inner.lock().0, 0) }?;
        let mut exec = GraphExec {
            graph: self.inner.clone(),
            handle,
            kept: self.inner.kept().clone(),
        };
        exec.order_kept();
        Ok(exec)
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, Handle> {
        self.handle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn kept(&self) -> MutexGuard<'_, Vec<Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep(&self, used: Vec<Kept>) {
        self.kept().extend(used);
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let handle = self.lock().0;
        // SAFETY: made once, destroyed once; nodes are names that are checked against it.
        report_drop(
            self.context
                .bind()
                .and_then(|api| unsafe { api.cuGraphDestroy(handle) }),
        );
    }
}

impl Keep for Event {}

/// A launch as a node's parameters, checked.
fn with_launch<R>(
    kernel: &Kernel,
    context: &Context,
    config: LaunchConfig,
    arguments: &impl Arguments,
    call: impl FnOnce(&CUDA_KERNEL_NODE_PARAMS_v2, &[Arg<'_>]) -> Result<R, Error>,
) -> Result<R, Error> {
    if kernel.context() != context {
        return Err(Error::DifferentContexts {
            what: "kernel and graph",
        });
    }
    if !kernel.layout_is_certain() {
        // Only a pointer for each parameter can be given, and nobody knows how many there are.
        return Err(context.api().missing("cuFuncGetParamInfo", 12_040));
    }
    kernel.check_config(config)?;
    arguments.with(|args| {
        kernel.check_args(args)?;
        with_pointers(args, |pointers| {
            let params = CUDA_KERNEL_NODE_PARAMS_v2 {
                func: kernel.raw(),
                gridDimX: config.grid[0],
                gridDimY: config.grid[1],
                gridDimZ: config.grid[2],
                blockDimX: config.block[0],
                blockDimY: config.block[1],
                blockDimZ: config.block[2],
                sharedMemBytes: config.shared_bytes,
                kernelParams: pointers,
                extra: null_mut(),
                kern: null_mut(),
                ctx: context.raw(),
            };
            call(&params, args)
        })
    })
}

fn keep_launch(kept: &mut Vec<Kept>, kernel: &Kernel, args: &[Arg<'_>]) {
    kept.push(kernel.kept());
    let memory = args.iter().filter_map(Arg::memory);
    kept.extend(memory.map(|memory: &Arc<Allocation>| memory.clone() as Kept));
}

/// A graph that can be launched, any number of times; one launch after the
/// other, also in several streams.
#[derive(Debug)]
pub struct GraphExec {
    graph: Arc<Inner>,
    handle: CUgraphExec,
    /// In the order of their addresses, each once: their locks are taken in it.
    kept: Vec<Kept>,
}

// SAFETY: the handle may be used from any thread, by one at a time.
unsafe impl Send for GraphExec {}

impl GraphExec {
    /// Launches it (`cuGraphLaunch`). Returns when it is queued.
    ///
    /// A stream that is being captured takes no launch of a graph
    /// (`CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED`): [`Graph::add_graph`] nests them.
    pub fn launch(&self, stream: &Stream) -> Result<(), Error> {
        self.check_stream(stream)?;
        let api = self.graph.context.bind()?;
        let guards: Vec<_> = self
            .kept
            .iter()
            .filter_map(|used| used.launching(stream))
            .collect();
        // SAFETY: graph and stream are live; what the nodes use is kept.
        let launched = unsafe { api.cuGraphLaunch(self.handle, stream.raw()) };
        drop(guards);
        launched?;
        if self.graph.context.check_mode() {
            return stream.wait_for_check(|| "graph".to_owned());
        }
        Ok(())
    }

    /// Puts it on the device ahead of its first launch (`cuGraphUpload`).
    pub fn upload(&self, stream: &Stream) -> Result<(), Error> {
        self.check_stream(stream)?;
        let api = self.graph.context.bind()?;
        // SAFETY: graph and stream are live.
        unsafe { api.cuGraphUpload(self.handle, stream.raw()) }
    }

    /// Takes the parameters of another graph of the same shape
    /// (`cuGraphExecUpdate_v2`, from CUDA 12.0), which is cheaper than to
    /// instantiate that. Launches that are queued keep the old ones. Where the
    /// graphs differ in more than parameters, nothing is changed and the error
    /// is [`Error::GraphUpdate`].
    pub fn update(&mut self, graph: &Graph) -> Result<(), Error> {
        if graph.context() != &self.graph.context {
            return Err(Error::DifferentContexts {
                what: "the graphs of an update",
            });
        }
        let api = self.graph.context.bind()?;
        let mut result = GraphUpdateResult {
            result: 0,
            error_node: null_mut(),
            error_from_node: null_mut(),
        };
        // SAFETY: both are live; writes the result.
        let updated =
            unsafe { api.cuGraphExecUpdate_v2(self.handle, graph.inner.lock().0, &mut result) };
        match updated {
            Ok(()) => {}
            Err(error) if error.code() == Some(CudaError::GRAPH_EXEC_UPDATE_FAILURE) => {
                return Err(Error::GraphUpdate {
                    reason: result.result,
                });
            }
            Err(error) => return Err(error),
        }
        // Launches that are queued may still use what the old parameters named.
        self.kept.extend(graph.inner.kept().iter().cloned());
        self.order_kept();
        Ok(())
    }

    /// Gives one launch another kernel, grid or arguments
    /// (`cuGraphExecKernelNodeSetParams_v2`, from CUDA 12.0). `node` is of the
    /// graph that this was instantiated from.
    pub fn set_kernel(
        &mut self,
        node: GraphNode,
        kernel: &Kernel,
        config: LaunchConfig,
        arguments: impl Arguments,
    ) -> Result<(), Error> {
        let api = self.graph.context.bind()?;
        let mut kept = Vec::new();
        {
            let graph = self.graph.lock();
            if node.graph != graph.0 {
                return Err(Error::GraphNode);
            }
            with_launch(
                kernel,
                &self.graph.context,
                config,
                &arguments,
                |params, args| {
                    keep_launch(&mut kept, kernel, args);
                    // SAFETY: graph and node are live; the parameters are the kernel's and copied.
                    unsafe {
                        api.cuGraphExecKernelNodeSetParams_v2(self.handle, node.handle, params)
                    }
                },
            )?;
        }
        self.kept.extend(kept);
        self.order_kept();
        Ok(())
    }

    /// The raw handle, for calls that the safe layer does not have. CUDA wants
    /// one thread at a time to use it.
    pub fn raw(&self) -> CUgraphExec {
        self.handle
    }

    fn check_stream(&self, stream: &Stream) -> Result<(), Error> {
        if stream.context() != &self.graph.context {
            return Err(Error::DifferentContexts {
                what: "graph and stream",
            });
        }
        Ok(())
    }

    fn order_kept(&mut self) {
        let address = |used: &Kept| Arc::as_ptr(used).cast::<c_void>();
        self.kept.sort_by_key(address);
        self.kept.dedup_by_key(|used| address(used));
    }
}

impl Drop for GraphExec {
    fn drop(&mut self) {
        // The driver waits before it frees memory, and not before a function goes.
        let must_wait = self.kept.iter().any(|used| used.outlives_launches());
        let done = self.graph.context.bind().and_then(|api| {
            if must_wait {
                // SAFETY: no arguments.
                report_drop(unsafe { api.cuCtxSynchronize() });
            }
            // SAFETY: made once, destroyed once.
            unsafe { api.cuGraphExecDestroy(self.handle) }
        });
        report_drop(done);
    }
}
