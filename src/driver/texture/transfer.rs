//! Copies to and from arrays: of each, the simplest entry that can make it.

use std::ffi::c_void;
use std::ptr::null_mut;

use cudarc::driver::sys::CUmemorytype;

use crate::driver::device::context::Context;
use crate::driver::error::Error;
use crate::driver::stream::Stream;
use crate::driver::texture::shape::ArrayShape;
use api::{CUDA_MEMCPY2D, CUDA_MEMCPY3D, CUarray, CUdeviceptr};

/// One end of a copy.
#[derive(Clone, Copy)]
pub(crate) enum End {
    /// Texels without gaps.
    Host(*mut c_void),
    /// Rows that many bytes apart, planes without gaps.
    Device { address: CUdeviceptr, pitch: usize },
    /// From a texel on.
    Array {
        raw: CUarray,
        shape: ArrayShape,
        origin: [usize; 3],
    },
}

impl End {
    pub fn host(texels: *const c_void) -> End {
        End::Host(texels.cast_mut())
    }

    pub fn device(address: CUdeviceptr, pitch: usize) -> End {
        End::Device { address, pitch }
    }

    pub fn array(raw: CUarray, shape: ArrayShape, origin: [usize; 3]) -> End {
        End::Array { raw, shape, origin }
    }

    /// The dimensions that the end has, none for memory.
    fn dimensions(&self) -> u32 {
        match self {
            End::Host(_) | End::Device { .. } => 0,
            End::Array { shape, .. } => match shape {
                ArrayShape::D1 { .. } => 1,
                ArrayShape::D2 { .. } => 2,
                _ => 3,
            },
        }
    }

    fn fields(&self, texel: usize, row: usize) -> Fields {
        let nothing = Fields {
            kind: CUmemorytype::CU_MEMORYTYPE_HOST,
            host: null_mut(),
            device: 0,
            array: null_mut(),
            origin: [0; 3],
            pitch: 0,
        };
        match *self {
            End::Host(host) => Fields {
                host,
                pitch: row,
                ..nothing
            },
            End::Device { address, pitch } => Fields {
                kind: CUmemorytype::CU_MEMORYTYPE_DEVICE,
                device: address,
                pitch,
                ..nothing
            },
            End::Array {
                raw,
                origin: [x, y, z],
                ..
            } => Fields {
                kind: CUmemorytype::CU_MEMORYTYPE_ARRAY,
                array: raw,
                origin: [x * texel, y, z],
                ..nothing
            },
        }
    }
}

/// One end as the C API describes it.
struct Fields {
    kind: CUmemorytype,
    host: *mut c_void,
    device: CUdeviceptr,
    array: CUarray,
    origin: [usize; 3],
    pitch: usize,
}

/// Copies `extent` texels, rows and planes, now or in the order of a stream.
///
/// # Safety
/// Both ends are of the context and have all those texels; with a stream they
/// have them until the copy is done.
pub(crate) unsafe fn transfer<T>(
    context: &Context,
    from: End,
    to: End,
    extent: [usize; 3],
    stream: Option<&Stream>,
) -> Result<(), Error> {
    let [width, height, depth] = extent;
    if extent.contains(&0) {
        return Ok(());
    }
    let texel = size_of::<T>();
    let row = width * texel;
    let api = context.bind()?;
    let dimensions = from.dimensions().max(to.dimensions());
    if dimensions == 1 {
        let at = |origin: [usize; 3]| origin[0] * texel;
        // SAFETY: the caller's.
        unsafe {
            match (from, to, stream) {
                (End::Host(host), End::Array { raw, origin, .. }, None) => {
                    return Ok(api.cuMemcpyHtoA_v2(raw, at(origin), host, row)?);
                }
                (End::Host(host), End::Array { raw, origin, .. }, Some(stream)) => {
                    let queue = stream.raw();
                    return Ok(api.cuMemcpyHtoAAsync_v2(raw, at(origin), host, row, queue)?);
                }
                (End::Array { raw, origin, .. }, End::Host(host), None) => {
                    return Ok(api.cuMemcpyAtoH_v2(host, raw, at(origin), row)?);
                }
                (End::Array { raw, origin, .. }, End::Host(host), Some(stream)) => {
                    let queue = stream.raw();
                    return Ok(api.cuMemcpyAtoHAsync_v2(host, raw, at(origin), row, queue)?);
                }
                (End::Device { address, .. }, End::Array { raw, origin, .. }, None) => {
                    return Ok(api.cuMemcpyDtoA_v2(raw, at(origin), address, row)?);
                }
                (End::Array { raw, origin, .. }, End::Device { address, .. }, None) => {
                    return Ok(api.cuMemcpyAtoD_v2(address, raw, at(origin), row)?);
                }
                (
                    End::Array {
                        raw: source,
                        origin: start,
                        ..
                    },
                    End::Array { raw, origin, .. },
                    None,
                ) => return Ok(api.cuMemcpyAtoA_v2(raw, at(origin), source, at(start), row)?),
                // Those that have no entry of their own go as one row of a rectangle.
                _ => {}
            }
        }
    }
    let (source, target) = (from.fields(texel, row), to.fields(texel, row));
    if dimensions < 3 {
        let copy = rectangle(&source, &target, row, height);
        // SAFETY: the caller's.
        return unsafe {
            match stream {
                Some(stream) => Ok(api.cuMemcpy2DAsync_v2(&copy, stream.raw())?),
                // Rows of a device pointer may lie at any distance.
                None => Ok(api.cuMemcpy2DUnaligned_v2(&copy)?),
            }
        };
    }
    let copy = cuboid(&source, &target, row, height, depth);
    // SAFETY: the caller's.
    unsafe {
        match stream {
            Some(stream) => Ok(api.cuMemcpy3DAsync_v2(&copy, stream.raw())?),
            None => Ok(api.cuMemcpy3D_v2(&copy)?),
        }
    }
}

fn rectangle(from: &Fields, to: &Fields, width: usize, height: usize) -> CUDA_MEMCPY2D {
    CUDA_MEMCPY2D {
        srcXInBytes: from.origin[0],
        srcY: from.origin[1],
        srcMemoryType: from.kind,
        srcHost: from.host,
        srcDevice: from.device,
        srcArray: from.array,
        srcPitch: from.pitch,
        dstXInBytes: to.origin[0],
        dstY: to.origin[1],
        dstMemoryType: to.kind,
        dstHost: to.host,
        dstDevice: to.device,
        dstArray: to.array,
        dstPitch: to.pitch,
        WidthInBytes: width,
        Height: height,
    }
}

fn cuboid(from: &Fields, to: &Fields, width: usize, height: usize, depth: usize) -> CUDA_MEMCPY3D {
    CUDA_MEMCPY3D {
        srcXInBytes: from.origin[0],
        srcY: from.origin[1],
        srcZ: from.origin[2],
        srcLOD: 0,
        srcMemoryType: from.kind,
        srcHost: from.host,
        srcDevice: from.device,
        srcArray: from.array,
        reserved0: null_mut(),
        srcPitch: from.pitch,
        srcHeight: height,
        dstXInBytes: to.origin[0],
        dstY: to.origin[1],
        dstZ: to.origin[2],
        dstLOD: 0,
        dstMemoryType: to.kind,
        dstHost: to.host,
        dstDevice: to.device,
        dstArray: to.array,
        reserved1: null_mut(),
        dstPitch: to.pitch,
        dstHeight: height,
        WidthInBytes: width,
        Height: height,
        Depth: depth,
    }
}
