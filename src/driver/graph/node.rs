//! Adding nodes to a graph.

use std::ptr::null_mut;
use std::sync::Arc;

use crate::driver::error::Error;
use crate::driver::graph::node_params;
use crate::driver::graph::{Graph, GraphNode, lock_both};
use crate::driver::launch::argument::Arguments;
use crate::driver::launch::config::LaunchConfig;
use crate::driver::memory::buffer::DeviceBuffer;
use crate::driver::memory::pinned::PinnedBuffer;
use crate::driver::module::kernel::Kernel;
use crate::driver::pod::Pod;
use crate::driver::stream::event::Event;
use crate::driver::stream::retained::RetainedRef;
use api::{Api, CUDA_MEMCPY3D, CUgraph, CUgraphNode};

impl Graph {
    /// Adds a launch (`cuGraphAddKernelNode_v2`, from CUDA 12.0), checked as
    /// [`Kernel::launch`] checks it. The arguments are copied now.
    ///
    /// # Safety
    /// As for [`Kernel::launch`], for each launch of the graph, whatever its other
    /// nodes do before or beside it.
    pub unsafe fn add_kernel(
        &mut self,
        after: &[GraphNode],
        kernel: &Kernel,
        config: LaunchConfig,
        arguments: impl Arguments,
    ) -> Result<GraphNode, Error> {
        let context = &self.inner.context;
        node_params::with_kernel_params(kernel, context, config, &arguments, |params, retained| {
            self.add(after, retained, |api, node, graph, after, count| {
                // SAFETY: graph and nodes are live; the parameters are the kernel's and copied.
                unsafe { Ok(api.cuGraphAddKernelNode_v2(node, graph, after, count, params)?) }
            })
        })
    }

    /// Adds a copy between two buffers of one length (`cuGraphAddMemcpyNode`).
    pub fn add_copy<T: Pod>(
        &mut self,
        after: &[GraphNode],
        to: &DeviceBuffer<T>,
        from: &DeviceBuffer<T>,
    ) -> Result<GraphNode, Error> {
        self.add_memcpy(after, node_params::copy(&self.inner.context, to, from)?)
    }

    /// Adds a copy from pinned memory, which each launch makes anew
    /// (`cuGraphAddMemcpyNode`).
    pub fn add_write<T: Pod>(
        &mut self,
        after: &[GraphNode],
        to: &DeviceBuffer<T>,
        from: &PinnedBuffer<T>,
    ) -> Result<GraphNode, Error> {
        self.add_memcpy(after, node_params::write(&self.inner.context, to, from)?)
    }

    /// Adds a copy into pinned memory (`cuGraphAddMemcpyNode`), which waits for
    /// it before it is read.
    pub fn add_read<T: Pod>(
        &mut self,
        after: &[GraphNode],
        to: &mut PinnedBuffer<T>,
        from: &DeviceBuffer<T>,
    ) -> Result<GraphNode, Error> {
        self.add_memcpy(after, node_params::read(&self.inner.context, to, from)?)
    }

    fn add_memcpy(
        &mut self,
        after: &[GraphNode],
        (copy, retained): (CUDA_MEMCPY3D, Vec<RetainedRef>),
    ) -> Result<GraphNode, Error> {
        let context = self.inner.context.raw();
        self.add(after, retained, |api, node, graph, after, count| {
            // SAFETY: graph and nodes are live; both ends have the bytes, and are kept.
            unsafe { Ok(api.cuGraphAddMemcpyNode(node, graph, after, count, &copy, context)?) }
        })
    }

    /// Adds a fill of a whole buffer (`cuGraphAddMemsetNode`). Values have 1, 2
    /// or 4 bytes.
    pub fn add_fill<T: Pod>(
        &mut self,
        after: &[GraphNode],
        buffer: &DeviceBuffer<T>,
        value: T,
    ) -> Result<GraphNode, Error> {
        let (fill, retained) = node_params::fill(&self.inner.context, buffer, value)?;
        let context = self.inner.context.raw();
        self.add(after, retained, |api, node, graph, after, count| {
            // SAFETY: graph and nodes are live; the range is the buffer, which is kept.
            unsafe { Ok(api.cuGraphAddMemsetNode(node, graph, after, count, &fill, context)?) }
        })
    }

    /// Adds a call of a function on a thread of the driver
    /// (`cuGraphAddHostNode`), which each launch makes. It must not call the
    /// driver.
    pub fn add_host_function(
        &mut self,
        after: &[GraphNode],
        function: impl Fn() + Send + Sync + 'static,
    ) -> Result<GraphNode, Error> {
        let (params, function) = node_params::call(function);
        self.add(after, vec![function], |api, node, graph, after, count| {
            // SAFETY: graph and nodes are live; the function is kept.
            unsafe { Ok(api.cuGraphAddHostNode(node, graph, after, count, &params)?) }
        })
    }

    /// Adds a node that does nothing (`cuGraphAddEmptyNode`): a point that
    /// others come after.
    pub fn add_empty(&mut self, after: &[GraphNode]) -> Result<GraphNode, Error> {
        self.add(after, Vec::new(), |api, node, graph, after, count| {
            // SAFETY: graph and nodes are live.
            unsafe { Ok(api.cuGraphAddEmptyNode(node, graph, after, count)?) }
        })
    }

    /// Adds a copy of another graph as one node (`cuGraphAddChildGraphNode`).
    pub fn add_graph(&mut self, after: &[GraphNode], child: &Graph) -> Result<GraphNode, Error> {
        node_params::check_context(&self.inner.context, child.context())?;
        if self.inner.is_with(&child.inner) {
            return Err(Error::GraphNode);
        }
        let _both = lock_both();
        let locked = child.inner.lock()?;
        let retained = child.inner.retained().clone();
        self.add(after, retained, |api, node, graph, after, count| {
            // SAFETY: both graphs and the nodes are live, and no other thread uses them.
            unsafe { Ok(api.cuGraphAddChildGraphNode(node, graph, after, count, locked.0)?) }
        })
    }

    /// Adds the recording of an event (`cuGraphAddEventRecordNode`, from CUDA 11.1).
    pub fn add_event_record(
        &mut self,
        after: &[GraphNode],
        event: &Arc<Event>,
    ) -> Result<GraphNode, Error> {
        node_params::check_context(&self.inner.context, event.context())?;
        self.add(
            after,
            vec![event.clone()],
            |api, node, graph, after, count| {
                // SAFETY: graph, nodes and event are live; the event is kept.
                unsafe {
                    Ok(api.cuGraphAddEventRecordNode(node, graph, after, count, event.raw())?)
                }
            },
        )
    }

    /// Adds waiting for an event (`cuGraphAddEventWaitNode`, from CUDA 11.1).
    pub fn add_event_wait(
        &mut self,
        after: &[GraphNode],
        event: &Arc<Event>,
    ) -> Result<GraphNode, Error> {
        let context = &self.inner.context;
        context.check_same_driver(event.context(), "graph and event")?;
        self.add(
            after,
            vec![event.clone()],
            |api, node, graph, after, count| {
                // SAFETY: as above.
                unsafe { Ok(api.cuGraphAddEventWaitNode(node, graph, after, count, event.raw())?) }
            },
        )
    }

    /// Adds a node by an entry of the driver and retains its resources. It is ordered after
    /// the allocation of the graph's own memory that it uses.
    pub(super) fn add(
        &self,
        after: &[GraphNode],
        mut retained: Vec<RetainedRef>,
        entry: impl FnOnce(
            &'static Api,
            *mut CUgraphNode,
            CUgraph,
            *const CUgraphNode,
            usize,
        ) -> Result<(), Error>,
    ) -> Result<GraphNode, Error> {
        let api = self.inner.context.bind()?;
        self.inner.check(after)?;
        let mut after: Vec<CUgraphNode> = after.iter().map(|node| node.handle).collect();
        for own in retained.iter().filter_map(|used| used.node_memory()) {
            let allocated = own.allocated_in(self.inner.id)?;
            if !after.contains(&allocated) {
                after.push(allocated);
            }
        }
        let graph = self.inner.lock()?;
        let mut handle = null_mut();
        entry(api, &mut handle, graph.0, after.as_ptr(), after.len())?;
        let node = self.inner.name(handle);
        retained.retain(|used| {
            used.node_memory()
                .map(|own| own.record_node(handle))
                .is_none()
        });
        // Whoever has the lock next finds what the node uses.
        self.inner.retain(retained);
        drop(graph);
        Ok(node)
    }
}
