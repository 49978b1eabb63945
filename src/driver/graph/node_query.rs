//! What nodes of a graph do, read back from the driver.

use std::ffi::{CStr, c_char};
use std::mem::MaybeUninit;
use std::ptr::{null, null_mut};

use crate::driver::error::Error;
use crate::driver::graph::{Graph, GraphNode, NodeKind};
use crate::driver::launch::config::LaunchConfig;
use api::{
    Api, CUDA_KERNEL_NODE_PARAMS_v2, CUDA_MEMCPY3D, CUDA_MEMSET_NODE_PARAMS_v1, CUdeviceptr,
    CUevent, CUgraph, CUgraphNode,
};

/// The parameters of a node; see [`Graph::params`].
#[derive(Debug)]
#[non_exhaustive]
pub enum NodeParams {
    /// Of a kernel (`cuGraphKernelNodeGetParams_v2`).
    Kernel {
        /// Its name (`cuFuncGetName`, from CUDA 12.3).
        name: Option<String>,
        /// Grid, block and dynamic shared memory.
        config: LaunchConfig,
    },
    /// Of a copy (`cuGraphMemcpyNodeGetParams`).
    Copy {
        /// Device addresses of source and destination; `None` for memory of the host and arrays.
        from: Option<CUdeviceptr>,
        /// As `from`.
        to: Option<CUdeviceptr>,
        /// Bytes of a row, rows, and planes.
        extent: [usize; 3],
    },
    /// Of a fill (`cuGraphMemsetNodeGetParams`).
    Fill {
        /// The device address.
        address: CUdeviceptr,
        /// The bits of an element.
        value: u32,
        /// Bytes of an element: 1, 2 or 4.
        element: u32,
        /// Elements of a row, and rows.
        extent: [usize; 2],
    },
    /// The graph that the node is (`cuGraphChildGraphNodeGetGraph`). Nodes that are added to it
    /// are part of the graph that the node is of.
    Graph(Graph),
    /// The event that is recorded or waited for (`cuGraphEventRecordNodeGetEvent`,
    /// `cuGraphEventWaitNodeGetEvent`), as its raw handle.
    Event(CUevent),
    /// Of an allocation (`cuGraphMemAllocNodeGetParams`).
    Allocate {
        /// The device address.
        address: CUdeviceptr,
        /// Its size.
        bytes: usize,
    },
    /// Of freeing (`cuGraphMemFreeNodeGetParams`): the device address.
    Free(CUdeviceptr),
    /// Of a node that has none, or of which the driver does not tell.
    None(NodeKind),
}

impl Graph {
    /// What a node was made with (`cuGraphKernelNodeGetParams_v2`, `cuGraphMemcpyNodeGetParams`,
    /// `cuGraphMemsetNodeGetParams`, and those of other kinds). Arguments of kernels are not told, as their sizes are not known
    /// here. The CPU device tells nothing of nodes that were captured
    /// (`CUDA_ERROR_NOT_SUPPORTED`).
    ///
    /// ```
    /// # #[cfg(feature = "cpu")] {
    /// use ptxkit::driver::{Context, DeviceBuffer, Driver, Graph, NodeParams};
    /// let context = Context::primary(&Driver::cpu()?.device(0)?)?;
    /// let numbers = DeviceBuffer::<u16>::zeroed(&context, 10)?;
    /// let mut graph = Graph::new(&context)?;
    /// let node = graph.add_fill(&[], &numbers, 7)?;
    /// assert!(matches!(
    ///     graph.params(node)?,
    ///     NodeParams::Fill { value: 7, element: 2, extent: [10, 1], .. }
    /// ));
    /// # }
    /// # Ok::<(), ptxkit::driver::Error>(())
    /// ```
    pub fn params(&self, node: GraphNode) -> Result<NodeParams, Error> {
        let kind = self.kind(node)?;
        let api = self.inner.context.bind()?;
        let locked = self.inner.lock()?;
        let node = node.handle;
        let params = match kind {
            NodeKind::Kernel => kernel(api, node)?,
            NodeKind::Copy => copy(api, node)?,
            NodeKind::Fill => fill(api, node)?,
            NodeKind::Graph => {
                let mut graph: CUgraph = null_mut();
                // SAFETY: the node is live and of this kind; writes one handle.
                unsafe { api.cuGraphChildGraphNodeGetGraph(node, &mut graph) }?;
                NodeParams::Graph(self.within(graph))
            }
            NodeKind::RecordEvent | NodeKind::WaitEvent => {
                let mut event = null_mut();
                // SAFETY: the node is live and of this kind; writes one handle.
                unsafe {
                    match kind {
                        NodeKind::RecordEvent => {
                            api.cuGraphEventRecordNodeGetEvent(node, &mut event)
                        }
                        _ => api.cuGraphEventWaitNodeGetEvent(node, &mut event),
                    }
                }?;
                NodeParams::Event(event)
            }
            NodeKind::Allocate => {
                let mut params = MaybeUninit::zeroed();
                // SAFETY: the node is live and of this kind; writes one structure, of which zeros
                // are a value.
                let params = unsafe {
                    api.cuGraphMemAllocNodeGetParams(node, params.as_mut_ptr())?;
                    params.assume_init()
                };
                NodeParams::Allocate {
                    address: params.address,
                    bytes: params.bytes,
                }
            }
            NodeKind::Free => {
                let mut address = 0;
                // SAFETY: the node is live and of this kind; writes one address.
                unsafe { api.cuGraphMemFreeNodeGetParams(node, &mut address) }?;
                NodeParams::Free(address)
            }
            _ => NodeParams::None(kind),
        };
        drop(locked);
        Ok(params)
    }
}

fn kernel(api: &Api, node: CUgraphNode) -> Result<NodeParams, Error> {
    let mut params = MaybeUninit::<CUDA_KERNEL_NODE_PARAMS_v2>::zeroed();
    // SAFETY: the node is live and a kernel's; writes one structure, of which zeros are a value.
    let params = unsafe {
        api.cuGraphKernelNodeGetParams_v2(node, params.as_mut_ptr())?;
        params.assume_init()
    };
    let mut name: *const c_char = null();
    let named = if params.func.is_null() {
        // SAFETY: the kernel is the node's, which keeps it; writes one pointer.
        unsafe { api.cuKernelGetName(&mut name, params.kern) }
    } else {
        // SAFETY: the function is the node's, which keeps it; writes one pointer.
        unsafe { api.cuFuncGetName(&mut name, params.func) }
    };
    let name = (named.is_ok() && !name.is_null()).then(|| {
        // SAFETY: the driver's text, which lives as long as the function.
        unsafe { CStr::from_ptr(name) }
            .to_string_lossy()
            .into_owned()
    });
    let grid = [params.gridDimX, params.gridDimY, params.gridDimZ];
    let block = [params.blockDimX, params.blockDimY, params.blockDimZ];
    Ok(NodeParams::Kernel {
        name,
        config: LaunchConfig::new(grid, block).with_shared(params.sharedMemBytes),
    })
}

fn copy(api: &Api, node: CUgraphNode) -> Result<NodeParams, Error> {
    use cudarc::driver::sys::CUmemorytype::CU_MEMORYTYPE_DEVICE;

    let mut params = MaybeUninit::<CUDA_MEMCPY3D>::uninit();
    // SAFETY: the node is live and a copy; writes the whole structure.
    let params = unsafe {
        api.cuGraphMemcpyNodeGetParams(node, params.as_mut_ptr())?;
        params.assume_init()
    };
    let is_device = |kind| kind == CU_MEMORYTYPE_DEVICE;
    Ok(NodeParams::Copy {
        from: is_device(params.srcMemoryType).then_some(params.srcDevice),
        to: is_device(params.dstMemoryType).then_some(params.dstDevice),
        extent: [params.WidthInBytes, params.Height, params.Depth],
    })
}

fn fill(api: &Api, node: CUgraphNode) -> Result<NodeParams, Error> {
    let mut params = MaybeUninit::<CUDA_MEMSET_NODE_PARAMS_v1>::zeroed();
    // SAFETY: the node is live and a fill; writes one structure of numbers.
    let params = unsafe {
        api.cuGraphMemsetNodeGetParams(node, params.as_mut_ptr())?;
        params.assume_init()
    };
    Ok(NodeParams::Fill {
        address: params.dst,
        value: params.value,
        element: params.elementSize,
        extent: [params.width, params.height],
    })
}
