//! Graphs, and those that are ready to be launched.

use std::ffi::{c_char, c_uint, c_void};

use api::{
    CUgraph, CUgraphExec, CUgraphNode, CUhostFn, CUuserObject, EdgeData, GraphUpdateResult,
    InstantiateParams,
};

use crate::context::ready;
use crate::entry::{Stream, driver, entries};

entries! {
    /// A new graph.
    fn cudaGraphCreate(graph: *mut CUgraph, flags: c_uint) {
        ready()?;
        driver!(cuGraphCreate(graph.required()?, flags))
    }

    /// Destroys a graph.
    fn cudaGraphDestroy(graph: CUgraph) {
        ready()?;
        driver!(cuGraphDestroy(graph.ptr()))
    }

    /// A copy of a graph.
    fn cudaGraphClone(copy: *mut CUgraph, graph: CUgraph) {
        ready()?;
        driver!(cuGraphClone(copy.required()?, graph.ptr()))
    }

    /// The copy of a node.
    fn cudaGraphNodeFindInClone(node: *mut CUgraphNode, original: CUgraphNode, copy: CUgraph) {
        ready()?;
        driver!(cuGraphNodeFindInClone(node.required()?, original.ptr(), copy.ptr()))
    }

    /// The nodes that depend on none.
    fn cudaGraphGetRootNodes(graph: CUgraph, nodes: *mut CUgraphNode, count: *mut usize) {
        ready()?;
        driver!(cuGraphGetRootNodes(graph.ptr(), nodes.ptr(), count.required()?))
    }

    /// Makes a value that kernels of a graph set, and that its conditional nodes read.
    fn cudaGraphConditionalHandleCreate(handle: *mut u64, graph: CUgraph, default: c_uint, flags: c_uint) {
        ready()?;
        driver!(cuGraphConditionalHandleCreate(handle.required()?, graph.ptr(), std::ptr::null_mut(), default, flags))
    }

    /// Counts references to an object of the caller's, which is destroyed with the last.
    fn cudaUserObjectCreate(object: *mut CUuserObject, of: *mut c_void, destroy: CUhostFn, count: c_uint, flags: c_uint) {
        ready()?;
        driver!(cuUserObjectCreate(object.required()?, of.ptr(), destroy, count, flags))
    }

    /// Adds references.
    fn cudaUserObjectRetain(object: CUuserObject, count: c_uint) {
        ready()?;
        driver!(cuUserObjectRetain(object.ptr(), count))
    }

    /// Takes references away.
    fn cudaUserObjectRelease(object: CUuserObject, count: c_uint) {
        ready()?;
        driver!(cuUserObjectRelease(object.ptr(), count))
    }

    /// Lets a graph have references, and all that is made of it.
    fn cudaGraphRetainUserObject(graph: CUgraph, object: CUuserObject, count: c_uint, flags: c_uint) {
        ready()?;
        driver!(cuGraphRetainUserObject(graph.ptr(), object.ptr(), count, flags))
    }

    /// Takes references from a graph.
    fn cudaGraphReleaseUserObject(graph: CUgraph, object: CUuserObject, count: c_uint) {
        ready()?;
        driver!(cuGraphReleaseUserObject(graph.ptr(), object.ptr(), count))
    }

    /// The nodes of a graph, or how many there are.
    fn cudaGraphGetNodes(graph: CUgraph, nodes: *mut CUgraphNode, count: *mut usize) {
        ready()?;
        driver!(cuGraphGetNodes(graph.ptr(), nodes.ptr(), count.required()?))
    }

    /// Which node comes after which, or how many such pairs there are.
    fn cudaGraphGetEdges(graph: CUgraph, from: *mut CUgraphNode, to: *mut CUgraphNode, edges: *mut EdgeData, count: *mut usize) {
        ready()?;
        driver!(cuGraphGetEdges_v2(graph.ptr(), from.ptr(), to.ptr(), edges.ptr(), count.required()?))
    }

    /// Lets nodes come after others.
    fn cudaGraphAddDependencies(graph: CUgraph, from: *const CUgraphNode, to: *const CUgraphNode, edges: *const EdgeData, count: usize) {
        ready()?;
        driver!(cuGraphAddDependencies_v2(graph.ptr(), from.ptr(), to.ptr(), edges.ptr(), count))
    }

    /// Lets them be independent.
    fn cudaGraphRemoveDependencies(graph: CUgraph, from: *const CUgraphNode, to: *const CUgraphNode, edges: *const EdgeData, count: usize) {
        ready()?;
        driver!(cuGraphRemoveDependencies_v2(graph.ptr(), from.ptr(), to.ptr(), edges.ptr(), count))
    }

    /// What a node does.
    fn cudaGraphNodeGetType(node: CUgraphNode, kind: *mut c_uint) {
        ready()?;
        driver!(cuGraphNodeGetType(node.ptr(), kind.required()?))
    }

    /// Writes a graph as a drawing for Graphviz.
    fn cudaGraphDebugDotPrint(graph: CUgraph, path: *const c_char, flags: c_uint) {
        ready()?;
        driver!(cuGraphDebugDotPrint(graph.ptr(), path.required()?, flags))
    }

    /// Makes a graph ready to be launched.
    fn cudaGraphInstantiate(executable: *mut CUgraphExec, graph: CUgraph, flags: u64) {
        ready()?;
        driver!(cuGraphInstantiateWithFlags(executable.required()?, graph.ptr(), flags))
    }

    /// The same under its earlier name.
    fn cudaGraphInstantiateWithFlags(executable: *mut CUgraphExec, graph: CUgraph, flags: u64) {
        ready()?;
        driver!(cuGraphInstantiateWithFlags(executable.required()?, graph.ptr(), flags))
    }

    /// The same with what was refused, and where to upload.
    fn cudaGraphInstantiateWithParams(executable: *mut CUgraphExec, graph: CUgraph, params: *mut InstantiateParams) {
        ready()?;
        driver!(cuGraphInstantiateWithParams(executable.required()?, graph.ptr(), params.required()?))
    }

    /// The flags that a graph was made ready with.
    fn cudaGraphExecGetFlags(executable: CUgraphExec, flags: *mut u64) {
        ready()?;
        driver!(cuGraphExecGetFlags(executable.ptr(), flags.required()?))
    }

    /// Gives it the parameters of another graph of the same shape.
    fn cudaGraphExecUpdate(executable: CUgraphExec, graph: CUgraph, result: *mut GraphUpdateResult) {
        ready()?;
        driver!(cuGraphExecUpdate_v2(executable.ptr(), graph.ptr(), result.required()?))
    }

    /// Puts it on the device ahead of its first launch.
    fn cudaGraphUpload / cudaGraphUpload_ptsz(executable: CUgraphExec, stream: Stream) {
        ready()?;
        driver!(cuGraphUpload(executable.ptr(), stream))
    }

    /// Launches it.
    fn cudaGraphLaunch / cudaGraphLaunch_ptsz(executable: CUgraphExec, stream: Stream) {
        ready()?;
        driver!(cuGraphLaunch(executable.ptr(), stream))
    }

    /// Destroys it once its launches are done.
    fn cudaGraphExecDestroy(executable: CUgraphExec) {
        ready()?;
        driver!(cuGraphExecDestroy(executable.ptr()))
    }

    /// Lets launches pass a node over, or not any more.
    fn cudaGraphNodeSetEnabled(executable: CUgraphExec, node: CUgraphNode, enabled: c_uint) {
        ready()?;
        driver!(cuGraphNodeSetEnabled(executable.ptr(), node.ptr(), enabled))
    }

    /// Whether launches run a node.
    fn cudaGraphNodeGetEnabled(executable: CUgraphExec, node: CUgraphNode, enabled: *mut c_uint) {
        ready()?;
        driver!(cuGraphNodeGetEnabled(executable.ptr(), node.ptr(), enabled.required()?))
    }

    /// Gives back what a device keeps for graphs and none uses.
    fn cudaDeviceGraphMemTrim(device: std::ffi::c_int) {
        driver!(cuDeviceGraphMemTrim(device))
    }

    /// One number about the memory of graphs.
    fn cudaDeviceGetGraphMemAttribute(device: std::ffi::c_int, number: c_uint, value: *mut c_void) {
        driver!(cuDeviceGetGraphMemAttribute(device, number, value.required()?))
    }

    /// Sets one of the numbers about the memory of graphs back to 0.
    fn cudaDeviceSetGraphMemAttribute(device: std::ffi::c_int, number: c_uint, value: *mut c_void) {
        driver!(cuDeviceSetGraphMemAttribute(device, number, value.required()?))
    }
}
