//! The work of graph nodes, from the structures that describe it, and these structures.

use std::ffi::c_void;
use std::sync::Arc;

use super::entry::Argument;
use super::region::copy_3d;
use crate::run::LaunchConfig;
use crate::state::context::{self, Context};
use crate::state::node::{NodeKind, Params, Work};
use crate::state::status::{Result, Status};
use crate::state::user_pointer::UserPointer;
use crate::state::{copy, event, graph, host_function, launch, library, region};
use api::{
    CUDA_HOST_NODE_PARAMS_v1, CUDA_KERNEL_NODE_PARAMS_v2, CUDA_MEMCPY3D,
    CUDA_MEMSET_NODE_PARAMS_v1, CUevent, CUgraph, GraphNodeParams,
};

pub(super) fn kernel(params: UserPointer<CUDA_KERNEL_NODE_PARAMS_v2>) -> Result<(Params, Work)> {
    let params = params.get()?;
    // SAFETY: fields of the caller's structure, for which its contract holds as well.
    let (arguments, extra) = unsafe { (params.kernelParams.decode(), params.extra.decode()) };
    let config = LaunchConfig {
        grid: [params.gridDimX, params.gridDimY, params.gridDimZ],
        block: [params.blockDimX, params.blockDimY, params.blockDimZ],
        shared_bytes: params.sharedMemBytes,
        cluster: [1; 3],
    };
    let function = match (params.func.is_null(), params.ctx.is_null()) {
        (true, false) => {
            let context = context::find(params.ctx.addr())?;
            library::compiled_in(params.kern.addr(), &context)?
        }
        (true, true) => library::compiled(params.kern.addr())?,
        _ => library::compiled(params.func.addr())?,
    };
    let work = launch::node(&function, config, arguments, extra)?;
    // The arguments were copied: the caller's are not there any more when they are asked for.
    let params = CUDA_KERNEL_NODE_PARAMS_v2 {
        kernelParams: std::ptr::null_mut(),
        extra: std::ptr::null_mut(),
        ..params
    };
    Ok((Params::Kernel(params), work))
}

pub(super) fn copy(params: UserPointer<CUDA_MEMCPY3D>) -> Result<(Params, Work)> {
    let (from, to, extent) = copy_3d(params)?;
    let copy = region::copy_work(&from, &to, extent)?;
    Ok((Params::Copy(params.get()?), Arc::new(move |_| copy())))
}

pub(super) fn fill(params: UserPointer<CUDA_MEMSET_NODE_PARAMS_v1>) -> Result<(Params, Work)> {
    let fill = params.get()?;
    let (to, pitch, value) = (fill.dst, fill.pitch, fill.value);
    let (width, height) = (fill.width, fill.height);
    if height == 0 {
        return Err(
            Status::INVALID_VALUE.because("height is 0; a memset node fills at least one row")
        );
    }
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
    Ok((Params::Fill(fill), work))
}

pub(super) fn host(params: UserPointer<CUDA_HOST_NODE_PARAMS_v1>) -> Result<(Params, Work)> {
    let params = params.get()?;
    let function = params.fn_.ok_or(Status::INVALID_VALUE)?;
    // SAFETY: a field of the caller's structure, for which its contract holds as well.
    let data = unsafe { params.userData.decode() };
    let work = Arc::new(move |context: &Arc<Context>| {
        host_function::run(context, || {
            // SAFETY: the caller passed the function and its argument for this call.
            unsafe { function(data.as_ptr()) }
        });
    });
    Ok((Params::Host(params), work))
}

pub(super) fn record(event: CUevent) -> Result<(Params, Work)> {
    Ok((Params::Event(event.addr()), event::recording(event.addr())?))
}

pub(super) fn wait(event: CUevent) -> Result<(Params, Work)> {
    Ok((Params::Event(event.addr()), event::waiting(event.addr())?))
}

/// A graph within a node, which is a copy.
pub(super) fn child(graph: CUgraph) -> Result<(Params, Work)> {
    let graph = graph::find(graph.addr())?;
    graph.refuse_allocations()?;
    Ok((Params::Graph(graph.copy()), graph.work()))
}

/// The kind, parameters and work of a node from the structure for all kinds. Kinds whose nodes
/// are more than work are `None`.
pub(super) fn of_any_kind(
    params: UserPointer<GraphNodeParams>,
) -> Result<Option<(NodeKind, Params, Work)>> {
    let read = params.get()?;
    // SAFETY: the parameters of the kind are within the caller's structure.
    let union = unsafe { UserPointer::new(params.as_ptr().cast::<u64>().wrapping_add(2)) };
    const KERNEL: u32 = NodeKind::Kernel as u32;
    const COPY: u32 = NodeKind::Copy as u32;
    const FILL: u32 = NodeKind::Fill as u32;
    const HOST: u32 = NodeKind::Host as u32;
    const GRAPH: u32 = NodeKind::Graph as u32;
    const EMPTY: u32 = NodeKind::Empty as u32;
    const WAIT: u32 = NodeKind::WaitEvent as u32;
    const RECORD: u32 = NodeKind::RecordEvent as u32;
    let handle = std::ptr::without_provenance_mut::<c_void>(read.of_kind[0] as usize);
    let (kind, (params, work)) = match read.kind {
        KERNEL => (NodeKind::Kernel, kernel(union.cast())?),
        // Flags and a context come before the copy.
        // SAFETY: as above.
        COPY => (
            NodeKind::Copy,
            copy(unsafe { UserPointer::new(union.as_ptr().wrapping_add(2).cast()) })?,
        ),
        FILL => (NodeKind::Fill, fill(union.cast())?),
        HOST => (NodeKind::Host, host(union.cast())?),
        GRAPH => (NodeKind::Graph, child(handle.cast())?),
        EMPTY => (
            NodeKind::Empty,
            (Params::Unknown, Arc::new(|_: &Arc<Context>| ()) as Work),
        ),
        WAIT => (NodeKind::WaitEvent, wait(handle.cast())?),
        RECORD => (NodeKind::RecordEvent, record(handle.cast())?),
        _ => return Ok(None),
    };
    Ok(Some((kind, params, work)))
}
