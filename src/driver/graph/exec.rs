//! Executable graphs: launch and update.

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::Arc;

use crate::driver::device::context::report_drop;
use crate::driver::error::Error;
use crate::driver::graph::node_params;
use crate::driver::graph::{Graph, GraphNode, Inner, lock_both};
use crate::driver::launch::argument::Arguments;
use crate::driver::launch::config::LaunchConfig;
use crate::driver::memory::buffer::DeviceBuffer;
use crate::driver::memory::pinned::PinnedBuffer;
use crate::driver::module::kernel::Kernel;
use crate::driver::pod::Pod;
use crate::driver::stream::Stream;
use crate::driver::stream::event::Event;
use crate::driver::stream::retained::RetainedRef;
use crate::driver::stream::users::Waits;
use api::CudaError;
use api::{Api, CUDA_MEMCPY3D, CUgraphExec, CUgraphNode, GraphUpdateResult};

/// An executable graph. It can be launched any number of times, in any stream; its launches
/// run one after the other.
#[derive(Debug)]
pub struct GraphExec {
    graph: Arc<Inner>,
    handle: CUgraphExec,
    /// Sorted by address without duplicates, which is their lock order.
    retained: Vec<RetainedRef>,
}

// SAFETY: the handle may be used from any thread, by one at a time.
unsafe impl Send for GraphExec {}

impl Graph {
    /// Instantiates the graph (`cuGraphInstantiateWithFlags`, from CUDA 11.4). Later
    /// changes to the graph do not affect the executable graph.
    pub fn instantiate(&self) -> Result<GraphExec, Error> {
        let api = self.inner.context.bind()?;
        let mut handle = null_mut();
        // SAFETY: the graph is live; writes one handle.
        unsafe { api.cuGraphInstantiateWithFlags(&mut handle, self.inner.lock()?.0, 0) }?;
        let retained = self.inner.retained().clone();
        Ok(GraphExec::own(self.inner.clone(), handle, retained))
    }
}

impl GraphExec {
    fn own(graph: Arc<Inner>, handle: CUgraphExec, retained: Vec<RetainedRef>) -> GraphExec {
        let mut exec = GraphExec {
            graph,
            handle,
            retained,
        };
        exec.sort_retained();
        exec
    }

    /// Launches it (`cuGraphLaunch`). Returns when it is queued.
    ///
    /// A stream that is being captured takes no launch of a graph
    /// (`CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED`): [`Graph::add_graph`] nests them.
    pub fn launch(&self, stream: &Stream) -> Result<(), Error> {
        self.check_stream(stream)?;
        let api = self.graph.context.bind()?;
        let (mut guards, mut waits) = (Vec::new(), Waits::default());
        for used in &self.retained {
            guards.extend(used.before_launch(stream, &mut waits)?);
        }
        // SAFETY: graph and stream are live; what the nodes use is kept.
        let launched = unsafe { api.cuGraphLaunch(self.handle, stream.raw()) };
        drop(guards);
        launched?;
        if self.graph.context.check_mode() {
            return stream.wait_for_check(|| "graph".to_owned());
        }
        Ok(())
    }

    /// Uploads it ahead of its first launch (`cuGraphUpload`).
    pub fn upload(&self, stream: &Stream) -> Result<(), Error> {
        self.check_stream(stream)?;
        let api = self.graph.context.bind()?;
        // SAFETY: graph and stream are live.
        unsafe { Ok(api.cuGraphUpload(self.handle, stream.raw())?) }
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
            unsafe { api.cuGraphExecUpdate_v2(self.handle, graph.inner.lock()?.0, &mut result) };
        match updated {
            Ok(()) => {}
            Err(error) if error.code() == Some(CudaError::GRAPH_EXEC_UPDATE_FAILURE) => {
                return Err(Error::GraphUpdate {
                    reason: result.result,
                });
            }
            Err(error) => return Err(error.into()),
        }
        let retained = graph.inner.retained().clone();
        self.retain(retained);
        Ok(())
    }

    /// Gives one launch another kernel, grid or arguments
    /// (`cuGraphExecKernelNodeSetParams_v2`, from CUDA 12.0). `node` is of the
    /// graph that this was instantiated from.
    ///
    /// # Safety
    /// As for [`Graph::add_kernel`].
    pub unsafe fn set_kernel(
        &mut self,
        node: GraphNode,
        kernel: &Kernel,
        config: LaunchConfig,
        arguments: impl Arguments,
    ) -> Result<(), Error> {
        let context = &self.graph.context;
        let retained = node_params::with_kernel_params(
            kernel,
            context,
            config,
            &arguments,
            |params, retained| {
                refuse_graph_memory(&retained)?;
                self.change(node, |api, exec, node| {
                    // SAFETY: graph and node are live; the parameters are the kernel's and copied.
                    unsafe { Ok(api.cuGraphExecKernelNodeSetParams_v2(exec, node, params)?) }
                })?;
                Ok(retained)
            },
        )?;
        self.retain(retained);
        Ok(())
    }

    /// Gives one copy other buffers, of whatever length
    /// (`cuGraphExecMemcpyNodeSetParams`, from CUDA 10.2).
    pub fn set_copy<T: Pod>(
        &mut self,
        node: GraphNode,
        to: &DeviceBuffer<T>,
        from: &DeviceBuffer<T>,
    ) -> Result<(), Error> {
        self.set_memcpy(node, node_params::copy(&self.graph.context, to, from)?)
    }

    /// The same for a copy from pinned memory.
    pub fn set_write<T: Pod>(
        &mut self,
        node: GraphNode,
        to: &DeviceBuffer<T>,
        from: &PinnedBuffer<T>,
    ) -> Result<(), Error> {
        self.set_memcpy(node, node_params::write(&self.graph.context, to, from)?)
    }

    /// The same for a copy into pinned memory.
    pub fn set_read<T: Pod>(
        &mut self,
        node: GraphNode,
        to: &mut PinnedBuffer<T>,
        from: &DeviceBuffer<T>,
    ) -> Result<(), Error> {
        self.set_memcpy(node, node_params::read(&self.graph.context, to, from)?)
    }

    fn set_memcpy(
        &mut self,
        node: GraphNode,
        (copy, retained): (CUDA_MEMCPY3D, Vec<RetainedRef>),
    ) -> Result<(), Error> {
        refuse_graph_memory(&retained)?;
        let context = self.graph.context.raw();
        self.change(node, |api, exec, node| {
            // SAFETY: graph and node are live; both ends have the bytes, and are kept.
            unsafe { Ok(api.cuGraphExecMemcpyNodeSetParams(exec, node, &copy, context)?) }
        })?;
        self.retain(retained);
        Ok(())
    }

    /// Gives one fill another buffer and value
    /// (`cuGraphExecMemsetNodeSetParams`, from CUDA 10.2).
    pub fn set_fill<T: Pod>(
        &mut self,
        node: GraphNode,
        buffer: &DeviceBuffer<T>,
        value: T,
    ) -> Result<(), Error> {
        let (fill, retained) = node_params::fill(&self.graph.context, buffer, value)?;
        refuse_graph_memory(&retained)?;
        let context = self.graph.context.raw();
        self.change(node, |api, exec, node| {
            // SAFETY: graph and node are live; the range is the buffer, which is kept.
            unsafe { Ok(api.cuGraphExecMemsetNodeSetParams(exec, node, &fill, context)?) }
        })?;
        self.retain(retained);
        Ok(())
    }

    /// Gives one call another function (`cuGraphExecHostNodeSetParams`, from
    /// CUDA 10.2).
    pub fn set_host_function(
        &mut self,
        node: GraphNode,
        function: impl Fn() + Send + Sync + 'static,
    ) -> Result<(), Error> {
        let (params, function) = node_params::call(function);
        self.change(node, |api, exec, node| {
            // SAFETY: graph and node are live; the function is kept.
            unsafe { Ok(api.cuGraphExecHostNodeSetParams(exec, node, &params)?) }
        })?;
        self.retain(vec![function]);
        Ok(())
    }

    /// Gives a graph within the graph the parameters of another of its shape
    /// (`cuGraphExecChildGraphNodeSetParams`, from CUDA 11.1).
    pub fn set_graph(&mut self, node: GraphNode, child: &Graph) -> Result<(), Error> {
        node_params::check_context(&self.graph.context, child.context())?;
        if self.graph.is_with(&child.inner) {
            return Err(Error::GraphNode);
        }
        let both = lock_both();
        let locked = child.inner.lock()?;
        let retained = child.inner.retained().clone();
        self.change(node, |api, exec, node| {
            // SAFETY: both graphs and the node are live, and no other thread uses them.
            unsafe { Ok(api.cuGraphExecChildGraphNodeSetParams(exec, node, locked.0)?) }
        })?;
        drop((locked, both));
        self.retain(retained);
        Ok(())
    }

    /// Lets another event be recorded (`cuGraphExecEventRecordNodeSetEvent`, from
    /// CUDA 11.1).
    pub fn set_event_record(&mut self, node: GraphNode, event: &Arc<Event>) -> Result<(), Error> {
        node_params::check_context(&self.graph.context, event.context())?;
        self.change(node, |api, exec, node| {
            // SAFETY: graph, node and event are live; the event is kept.
            unsafe { Ok(api.cuGraphExecEventRecordNodeSetEvent(exec, node, event.raw())?) }
        })?;
        self.retain(vec![event.clone()]);
        Ok(())
    }

    /// Lets another event be waited for (`cuGraphExecEventWaitNodeSetEvent`, from
    /// CUDA 11.1).
    pub fn set_event_wait(&mut self, node: GraphNode, event: &Arc<Event>) -> Result<(), Error> {
        let context = &self.graph.context;
        context.check_same_driver(event.context(), "graph and event")?;
        self.change(node, |api, exec, node| {
            // SAFETY: as above.
            unsafe { Ok(api.cuGraphExecEventWaitNodeSetEvent(exec, node, event.raw())?) }
        })?;
        self.retain(vec![event.clone()]);
        Ok(())
    }

    /// Enables or disables a kernel, copy or fill node (`cuGraphNodeSetEnabled`, from CUDA
    /// 11.6).
    pub fn set_enabled(&mut self, node: GraphNode, enabled: bool) -> Result<(), Error> {
        self.change(node, |api, exec, node| {
            // SAFETY: graph and node are live.
            unsafe { Ok(api.cuGraphNodeSetEnabled(exec, node, u32::from(enabled))?) }
        })
    }

    /// Whether a kernel, copy or fill node is enabled (`cuGraphNodeGetEnabled`, from CUDA
    /// 11.6).
    pub fn is_enabled(&self, node: GraphNode) -> Result<bool, Error> {
        let mut enabled = 0;
        self.change(node, |api, exec, node| {
            // SAFETY: graph and node are live; writes one integer.
            unsafe { Ok(api.cuGraphNodeGetEnabled(exec, node, &mut enabled)?) }
        })?;
        Ok(enabled != 0)
    }

    /// Calls an entry with a node of the graph that this was instantiated from.
    fn change(
        &self,
        node: GraphNode,
        entry: impl FnOnce(&'static Api, CUgraphExec, CUgraphNode) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let api = self.graph.context.bind()?;
        self.graph.check(&[node])?;
        let _graph = self.graph.lock()?;
        entry(api, self.handle, node.handle)
    }

    /// Retains more resources. Those of old parameters stay too, as queued launches may
    /// still use them.
    fn retain(&mut self, used: Vec<RetainedRef>) {
        self.retained.extend(used);
        self.sort_retained();
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

    fn sort_retained(&mut self) {
        let address = |used: &RetainedRef| Arc::as_ptr(used).cast::<c_void>();
        self.retained.sort_by_key(address);
        self.retained.dedup_by_key(|used| address(used));
    }
}

/// Refuses memory of graphs: only added nodes are ordered after its allocation.
fn refuse_graph_memory(retained: &[RetainedRef]) -> Result<(), Error> {
    if retained.iter().any(|used| used.node_memory().is_some()) {
        Err(Error::GraphMemory)
    } else {
        Ok(())
    }
}

impl Drop for GraphExec {
    fn drop(&mut self) {
        // Freeing memory waits for launches, dropping a function does not.
        if self
            .retained
            .iter()
            .any(|used| used.must_outlive_launches())
            && let Err(error) = self.graph.context.synchronize()
        {
            // Waiting fails during a capture. What a launch may still call is leaked.
            std::mem::forget(std::mem::take(&mut self.retained));
            report_drop(Err(error));
        }
        let done = self.graph.context.bind().and_then(|api| {
            // SAFETY: made once, destroyed once.
            unsafe { Ok(api.cuGraphExecDestroy(self.handle)?) }
        });
        report_drop(done);
    }
}
