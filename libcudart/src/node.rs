//! The nodes of graphs.

use std::ffi::{c_uint, c_void};

use api::{
    CUDA_HOST_NODE_PARAMS_v1, CUDA_KERNEL_NODE_PARAMS_v2, CUDA_MEMCPY3D,
    CUDA_MEMSET_NODE_PARAMS_v1, CUcontext, CUevent, CUgraph, CUgraphExec, CUgraphNode, EdgeData,
    GraphNodeParams, MemAllocNodeParams,
};

use crate::binary::function;
use crate::context::ready;
use crate::copy::{of_bytes, of_params, within_symbol};
use crate::entry::{Place, driver, entries};
use crate::error::Result;
use crate::types::{Copy3dParams, KernelNodeParams, MemsetNodeParams};

/// The context in which a node runs.
fn context() -> Result<CUcontext> {
    ready()?;
    let mut context = std::ptr::null_mut();
    driver!(cuCtxGetCurrent(&mut context))?;
    Ok(context)
}

fn launch(params: Place<KernelNodeParams>) -> Result<CUDA_KERNEL_NODE_PARAMS_v2> {
    let params = params.get()?;
    // SAFETY: a host function or a handle, which is looked up and not read.
    let kernel = unsafe { Place::new(params.function) };
    Ok(CUDA_KERNEL_NODE_PARAMS_v2 {
        func: function(kernel)?,
        gridDimX: params.grid.x,
        gridDimY: params.grid.y,
        gridDimZ: params.grid.z,
        blockDimX: params.block.x,
        blockDimY: params.block.y,
        blockDimZ: params.block.z,
        sharedMemBytes: params.shared_bytes,
        kernelParams: params.arguments,
        extra: params.extra,
        kern: std::ptr::null_mut(),
        ctx: std::ptr::null_mut(),
    })
}

fn fill(params: Place<MemsetNodeParams>) -> Result<CUDA_MEMSET_NODE_PARAMS_v1> {
    let params = params.get()?;
    Ok(CUDA_MEMSET_NODE_PARAMS_v1 {
        dst: params.start,
        pitch: params.pitch,
        value: params.value,
        elementSize: params.element_bytes,
        width: params.width,
        height: params.height,
    })
}

/// `CUDA_MEMCPY_NODE_PARAMS`
#[repr(C)]
struct CopyNodeParams {
    flags: [c_uint; 2],
    context: CUcontext,
    copy: CUDA_MEMCPY3D,
}

/// Calls an entry with the driver's form of `cudaGraphNodeParams`, which differs for launches and
/// copies. What the driver gives in it goes to the caller's.
fn of_any_kind(
    place: Place<GraphNodeParams>,
    call: impl FnOnce(&mut GraphNodeParams) -> Result,
) -> Result {
    const KERNEL: c_uint = 0;
    const COPY: c_uint = 1;
    const { assert!(size_of::<CopyNodeParams>() <= size_of::<[u64; 29]>()) };
    const { assert!(size_of::<CUDA_KERNEL_NODE_PARAMS_v2>() <= size_of::<[u64; 29]>()) };
    let context = context()?;
    let read = place.get()?;
    let mut params = GraphNodeParams {
        of_kind: [0; 29],
        ..read
    };
    let union = params.of_kind.as_mut_ptr();
    match read.kind {
        KERNEL => {
            // SAFETY: the parameters of the kind are the first words of the union.
            let of_kind = unsafe { Place::new(read.of_kind.as_ptr().cast_mut().cast()) };
            // SAFETY: they fit the driver's union, as is asserted above.
            unsafe {
                union
                    .cast::<CUDA_KERNEL_NODE_PARAMS_v2>()
                    .write(launch(of_kind)?)
            };
        }
        COPY => {
            // After four numbers, of which the first are flags.
            let of_kind = read.of_kind[2..].as_ptr().cast::<Copy3dParams>().cast_mut();
            // SAFETY: as above.
            let copy = of_params(&unsafe { Place::new(of_kind) }.get()?)?;
            let of_kind = CopyNodeParams {
                flags: [0; 2],
                context,
                copy,
            };
            // SAFETY: as above.
            unsafe { union.cast::<CopyNodeParams>().write(of_kind) };
        }
        _ => {
            params.of_kind = read.of_kind;
            call(&mut params)?;
            return place.put(params);
        }
    }
    call(&mut params)
}

entries! {
    /// Adds a node of any kind.
    fn cudaGraphAddNode(node: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, edges: *const EdgeData, count: usize, params: *mut GraphNodeParams) {
        let node = node.required()?;
        of_any_kind(params, |params| {
            driver!(cuGraphAddNode_v2(node, graph.ptr(), after.ptr(), edges.ptr(), count, params))
        })
    }

    /// Gives a node other parameters of its kind.
    fn cudaGraphNodeSetParams(node: CUgraphNode, params: *mut GraphNodeParams) {
        of_any_kind(params, |params| driver!(cuGraphNodeSetParams(node.ptr(), params)))
    }

    /// Gives a node of a graph that is ready other parameters.
    fn cudaGraphExecNodeSetParams(executable: CUgraphExec, node: CUgraphNode, params: *mut GraphNodeParams) {
        of_any_kind(params, |params| driver!(cuGraphExecNodeSetParams(executable.ptr(), node.ptr(), params)))
    }

    /// Takes a node out of its graph, with its edges.
    fn cudaGraphDestroyNode(node: CUgraphNode) {
        ready()?;
        driver!(cuGraphDestroyNode(node.ptr()))
    }

    /// The nodes that a node depends on.
    fn cudaGraphNodeGetDependencies(node: CUgraphNode, nodes: *mut CUgraphNode, edges: *mut EdgeData, count: *mut usize) {
        ready()?;
        driver!(cuGraphNodeGetDependencies_v2(node.ptr(), nodes.ptr(), edges.ptr(), count.required()?))
    }

    /// The nodes that depend on a node.
    fn cudaGraphNodeGetDependentNodes(node: CUgraphNode, nodes: *mut CUgraphNode, edges: *mut EdgeData, count: *mut usize) {
        ready()?;
        driver!(cuGraphNodeGetDependentNodes_v2(node.ptr(), nodes.ptr(), edges.ptr(), count.required()?))
    }

    /// The graph of a node that is one.
    fn cudaGraphChildGraphNodeGetGraph(node: CUgraphNode, graph: *mut CUgraph) {
        ready()?;
        driver!(cuGraphChildGraphNodeGetGraph(node.ptr(), graph.required()?))
    }

    /// The event that a node records.
    fn cudaGraphEventRecordNodeGetEvent(node: CUgraphNode, event: *mut CUevent) {
        ready()?;
        driver!(cuGraphEventRecordNodeGetEvent(node.ptr(), event.required()?))
    }

    /// The event that a node waits for.
    fn cudaGraphEventWaitNodeGetEvent(node: CUgraphNode, event: *mut CUevent) {
        ready()?;
        driver!(cuGraphEventWaitNodeGetEvent(node.ptr(), event.required()?))
    }

    /// What a host node calls.
    fn cudaGraphHostNodeGetParams(node: CUgraphNode, params: *mut CUDA_HOST_NODE_PARAMS_v1) {
        ready()?;
        driver!(cuGraphHostNodeGetParams(node.ptr(), params.required()?))
    }

    /// What a node allocates.
    fn cudaGraphMemAllocNodeGetParams(node: CUgraphNode, params: *mut MemAllocNodeParams) {
        ready()?;
        driver!(cuGraphMemAllocNodeGetParams(node.ptr(), params.required()?))
    }

    /// What a node frees.
    fn cudaGraphMemFreeNodeGetParams(node: CUgraphNode, address: *mut api::CUdeviceptr) {
        ready()?;
        driver!(cuGraphMemFreeNodeGetParams(node.ptr(), address.required()?))
    }

    /// Adds a launch.
    fn cudaGraphAddKernelNode(node: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, count: usize, params: *const KernelNodeParams) {
        ready()?;
        driver!(cuGraphAddKernelNode_v2(node.required()?, graph.ptr(), after.ptr(), count, &launch(params)?))
    }

    /// Adds a copy.
    fn cudaGraphAddMemcpyNode(node: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, count: usize, params: *const Copy3dParams) {
        let context = context()?;
        let copy = of_params(&params.get()?)?;
        driver!(cuGraphAddMemcpyNode(node.required()?, graph.ptr(), after.ptr(), count, &copy, context))
    }

    /// Adds a copy of bytes.
    fn cudaGraphAddMemcpyNode1D(node: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, count: usize, target: *mut c_void, source: *const c_void, bytes: usize, kind: c_uint) {
        let context = context()?;
        let copy = of_bytes(target.addr(), source.addr(), bytes, kind)?;
        driver!(cuGraphAddMemcpyNode(node.required()?, graph.ptr(), after.ptr(), count, &copy, context))
    }

    /// Adds a copy into a variable.
    fn cudaGraphAddMemcpyNodeToSymbol(node: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, count: usize, variable: *const c_void, source: *const c_void, bytes: usize, offset: usize, kind: c_uint) {
        let context = context()?;
        let copy = of_bytes(within_symbol(variable, offset, bytes)?, source.addr(), bytes, kind)?;
        driver!(cuGraphAddMemcpyNode(node.required()?, graph.ptr(), after.ptr(), count, &copy, context))
    }

    /// Adds a copy out of a variable.
    fn cudaGraphAddMemcpyNodeFromSymbol(node: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, count: usize, target: *mut c_void, variable: *const c_void, bytes: usize, offset: usize, kind: c_uint) {
        let context = context()?;
        let copy = of_bytes(target.addr(), within_symbol(variable, offset, bytes)?, bytes, kind)?;
        driver!(cuGraphAddMemcpyNode(node.required()?, graph.ptr(), after.ptr(), count, &copy, context))
    }

    /// Adds a fill.
    fn cudaGraphAddMemsetNode(node: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, count: usize, params: *const MemsetNodeParams) {
        let context = context()?;
        driver!(cuGraphAddMemsetNode(node.required()?, graph.ptr(), after.ptr(), count, &fill(params)?, context))
    }

    /// Adds a call of a host function.
    fn cudaGraphAddHostNode(node: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, count: usize, params: *const CUDA_HOST_NODE_PARAMS_v1) {
        ready()?;
        driver!(cuGraphAddHostNode(node.required()?, graph.ptr(), after.ptr(), count, params.required()?))
    }

    /// Adds a node that does nothing.
    fn cudaGraphAddEmptyNode(node: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, count: usize) {
        ready()?;
        driver!(cuGraphAddEmptyNode(node.required()?, graph.ptr(), after.ptr(), count))
    }

    /// Adds a copy of another graph as one node.
    fn cudaGraphAddChildGraphNode(node: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, count: usize, child: CUgraph) {
        ready()?;
        driver!(cuGraphAddChildGraphNode(node.required()?, graph.ptr(), after.ptr(), count, child.ptr()))
    }

    /// Adds the recording of an event.
    fn cudaGraphAddEventRecordNode(node: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, count: usize, event: CUevent) {
        ready()?;
        driver!(cuGraphAddEventRecordNode(node.required()?, graph.ptr(), after.ptr(), count, event.ptr()))
    }

    /// Adds waiting for an event.
    fn cudaGraphAddEventWaitNode(node: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, count: usize, event: CUevent) {
        ready()?;
        driver!(cuGraphAddEventWaitNode(node.required()?, graph.ptr(), after.ptr(), count, event.ptr()))
    }

    /// Adds an allocation.
    fn cudaGraphAddMemAllocNode(node: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, count: usize, params: *mut MemAllocNodeParams) {
        ready()?;
        driver!(cuGraphAddMemAllocNode(node.required()?, graph.ptr(), after.ptr(), count, params.required()?))
    }

    /// Adds the end of an allocation.
    fn cudaGraphAddMemFreeNode(node: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, count: usize, address: *mut c_void) {
        ready()?;
        driver!(cuGraphAddMemFreeNode(node.required()?, graph.ptr(), after.ptr(), count, address.addr()))
    }

    /// Gives a launch of a graph that is ready other parameters.
    fn cudaGraphExecKernelNodeSetParams(executable: CUgraphExec, node: CUgraphNode, params: *const KernelNodeParams) {
        ready()?;
        driver!(cuGraphExecKernelNodeSetParams_v2(executable.ptr(), node.ptr(), &launch(params)?))
    }

    /// Gives a copy other ends.
    fn cudaGraphExecMemcpyNodeSetParams(executable: CUgraphExec, node: CUgraphNode, params: *const Copy3dParams) {
        let context = context()?;
        driver!(cuGraphExecMemcpyNodeSetParams(executable.ptr(), node.ptr(), &of_params(&params.get()?)?, context))
    }

    /// Gives a copy of bytes other ends.
    fn cudaGraphExecMemcpyNodeSetParams1D(executable: CUgraphExec, node: CUgraphNode, target: *mut c_void, source: *const c_void, bytes: usize, kind: c_uint) {
        let context = context()?;
        let copy = of_bytes(target.addr(), source.addr(), bytes, kind)?;
        driver!(cuGraphExecMemcpyNodeSetParams(executable.ptr(), node.ptr(), &copy, context))
    }

    /// Gives a fill another value or memory.
    fn cudaGraphExecMemsetNodeSetParams(executable: CUgraphExec, node: CUgraphNode, params: *const MemsetNodeParams) {
        let context = context()?;
        driver!(cuGraphExecMemsetNodeSetParams(executable.ptr(), node.ptr(), &fill(params)?, context))
    }

    /// Gives a call another function.
    fn cudaGraphExecHostNodeSetParams(executable: CUgraphExec, node: CUgraphNode, params: *const CUDA_HOST_NODE_PARAMS_v1) {
        ready()?;
        driver!(cuGraphExecHostNodeSetParams(executable.ptr(), node.ptr(), params.required()?))
    }

    /// Gives a graph within the graph other parameters.
    fn cudaGraphExecChildGraphNodeSetParams(executable: CUgraphExec, node: CUgraphNode, child: CUgraph) {
        ready()?;
        driver!(cuGraphExecChildGraphNodeSetParams(executable.ptr(), node.ptr(), child.ptr()))
    }

    /// Lets another event be recorded.
    fn cudaGraphExecEventRecordNodeSetEvent(executable: CUgraphExec, node: CUgraphNode, event: CUevent) {
        ready()?;
        driver!(cuGraphExecEventRecordNodeSetEvent(executable.ptr(), node.ptr(), event.ptr()))
    }

    /// Lets another event be waited for.
    fn cudaGraphExecEventWaitNodeSetEvent(executable: CUgraphExec, node: CUgraphNode, event: CUevent) {
        ready()?;
        driver!(cuGraphExecEventWaitNodeSetEvent(executable.ptr(), node.ptr(), event.ptr()))
    }
}
