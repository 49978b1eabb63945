//! Copies of rectangles and boxes.

use std::ffi::c_void;
use std::sync::Arc;

use super::entry::entries;
use crate::state::context::Context;
use crate::state::copy::CopyMode;
use crate::state::region::{self, EndpointDesc, Extent};
use crate::state::status::Result;
use crate::state::stream::{self, Stream};
use crate::state::user_pointer::UserPointer;
use api::{CUDA_MEMCPY2D, CUDA_MEMCPY3D, CUDA_MEMCPY3D_PEER, CUstream};

/// `CUDA_MEMCPY2D` with the memory types as integers: an unknown `CUmemorytype` is an
/// error, not undefined behaviour.
#[repr(C)]
#[derive(Clone, Copy)]
struct Copy2d {
    from: RawEndpoint2d<*const c_void>,
    to: RawEndpoint2d<*mut c_void>,
    width: usize,
    height: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct RawEndpoint2d<P> {
    x: usize,
    y: usize,
    kind: u32,
    host: P,
    device: u64,
    array: *mut c_void,
    pitch: usize,
}

/// `CUDA_MEMCPY3D`, in the same way.
#[repr(C)]
#[derive(Clone, Copy)]
struct Copy3d {
    from: RawEndpoint3d<*const c_void>,
    to: RawEndpoint3d<*mut c_void>,
    width: usize,
    height: usize,
    depth: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct RawEndpoint3d<P> {
    x: usize,
    y: usize,
    z: usize,
    lod: usize,
    kind: u32,
    host: P,
    device: u64,
    array: *mut c_void,
    reserved: *mut c_void,
    pitch: usize,
    height: usize,
}

const _: () = assert!(size_of::<Copy2d>() == size_of::<CUDA_MEMCPY2D>());
const _: () = assert!(size_of::<Copy3d>() == size_of::<CUDA_MEMCPY3D>());
const _: () = assert!(size_of::<Copy3d>() == size_of::<CUDA_MEMCPY3D_PEER>());

impl<P> From<(RawEndpoint2d<P>, u64)> for EndpointDesc {
    fn from((end, host): (RawEndpoint2d<P>, u64)) -> EndpointDesc {
        let RawEndpoint2d {
            x,
            y,
            kind,
            device,
            array,
            pitch,
            ..
        } = end;
        EndpointDesc {
            kind,
            host,
            device,
            array: array.addr(),
            origin: [x, y, 0],
            pitch,
            rows: 0,
        }
    }
}

impl<P> From<(RawEndpoint3d<P>, u64)> for EndpointDesc {
    fn from((end, host): (RawEndpoint3d<P>, u64)) -> EndpointDesc {
        let RawEndpoint3d {
            x,
            y,
            z,
            kind,
            device,
            array,
            pitch,
            height,
            ..
        } = end;
        EndpointDesc {
            kind,
            host,
            device,
            array: array.addr(),
            origin: [x, y, z],
            pitch,
            rows: height,
        }
    }
}

/// The endpoints and the extent of a copy of a box.
pub(super) fn copy_3d(
    params: UserPointer<CUDA_MEMCPY3D>,
) -> Result<(EndpointDesc, EndpointDesc, Extent)> {
    let Copy3d {
        from,
        to,
        width,
        height,
        depth,
    } = params.cast::<Copy3d>().get()?;
    let (source, target) = (
        from.host.expose_provenance() as u64,
        to.host.expose_provenance() as u64,
    );
    Ok((
        (from, source).into(),
        (to, target).into(),
        [width, height, depth],
    ))
}

/// The contexts in a `CUDA_MEMCPY3D_PEER`, where that of `cuMemcpy3D` has reserved fields: of
/// the source, and of the destination. The structure itself is never read as a whole, as a
/// memory type may be any number.
pub(super) fn contexts_3d(params: UserPointer<CUDA_MEMCPY3D_PEER>) -> Result<[usize; 2]> {
    let Copy3d { from, to, .. } = params.cast::<Copy3d>().get()?;
    Ok([from.reserved.addr(), to.reserved.addr()])
}

fn perform_2d(
    stream: &(Arc<Context>, Arc<Stream>),
    mode: CopyMode,
    params: UserPointer<CUDA_MEMCPY2D>,
) -> Result {
    let Copy2d {
        from,
        to,
        width,
        height,
    } = params.cast::<Copy2d>().get()?;
    let (source, target) = (
        from.host.expose_provenance() as u64,
        to.host.expose_provenance() as u64,
    );
    let (from, to) = ((from, source).into(), (to, target).into());
    region::copy(stream, mode, &from, &to, [width, height, 1])
}

pub(super) fn perform_3d(
    stream: &(Arc<Context>, Arc<Stream>),
    mode: CopyMode,
    params: UserPointer<CUDA_MEMCPY3D>,
) -> Result {
    let (from, to, extent) = copy_3d(params)?;
    region::copy(stream, mode, &from, &to, extent)
}

entries! {
    fn cuMemcpy2D_v2(params: *const CUDA_MEMCPY2D) {
        perform_2d(&stream::default_stream()?, CopyMode::Synchronous, params)
    }

    fn cuMemcpy2DUnaligned_v2(params: *const CUDA_MEMCPY2D) {
        perform_2d(&stream::default_stream()?, CopyMode::Synchronous, params)
    }

    fn cuMemcpy2DAsync_v2(params: *const CUDA_MEMCPY2D, stream: CUstream) {
        perform_2d(&stream::find(stream.addr())?, CopyMode::Asynchronous, params)
    }

    fn cuMemcpy3D_v2(params: *const CUDA_MEMCPY3D) {
        perform_3d(&stream::default_stream()?, CopyMode::Synchronous, params)
    }

    fn cuMemcpy3DAsync_v2(params: *const CUDA_MEMCPY3D, stream: CUstream) {
        perform_3d(&stream::find(stream.addr())?, CopyMode::Asynchronous, params)
    }
}
