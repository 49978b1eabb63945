//! Copies to and from arrays, each by the simplest entry that can do it.

use std::ffi::c_void;
use std::ptr::null_mut;

use cudarc::driver::sys::CUmemorytype;

use crate::driver::device::context::Context;
use crate::driver::error::Error;
use crate::driver::stream::Stream;
use crate::driver::texture::shape::ArrayShape;
use api::{CUDA_MEMCPY2D, CUDA_MEMCPY3D, CUarray, CUdeviceptr};

/// An endpoint of a copy.
#[derive(Clone, Copy)]
pub(crate) enum CopyEndpoint {
    /// Host memory without padding.
    Host(*mut c_void),
    /// Device memory with a row pitch and no padding between planes.
    Device { address: CUdeviceptr, pitch: usize },
    /// An array from an origin on.
    Array {
        raw: CUarray,
        shape: ArrayShape,
        origin: [usize; 3],
    },
}

impl CopyEndpoint {
    pub fn host(texels: *const c_void) -> CopyEndpoint {
        CopyEndpoint::Host(texels.cast_mut())
    }

    pub fn device(address: CUdeviceptr, pitch: usize) -> CopyEndpoint {
        CopyEndpoint::Device { address, pitch }
    }

    pub fn array(raw: CUarray, shape: ArrayShape, origin: [usize; 3]) -> CopyEndpoint {
        CopyEndpoint::Array { raw, shape, origin }
    }

    /// The number of dimensions, 0 for memory.
    fn dimensions(&self) -> u32 {
        match self {
            CopyEndpoint::Host(_) | CopyEndpoint::Device { .. } => 0,
            CopyEndpoint::Array { shape, .. } => match shape {
                ArrayShape::D1 { .. } => 1,
                ArrayShape::D2 { .. } => 2,
                _ => 3,
            },
        }
    }

    fn fields(&self, texel: usize, row: usize) -> MemcpyFields {
        let nothing = MemcpyFields {
            kind: CUmemorytype::CU_MEMORYTYPE_HOST,
            host: null_mut(),
            device: 0,
            array: null_mut(),
            origin: [0; 3],
            pitch: 0,
        };
        match *self {
            CopyEndpoint::Host(host) => MemcpyFields {
                host,
                pitch: row,
                ..nothing
            },
            CopyEndpoint::Device { address, pitch } => MemcpyFields {
                kind: CUmemorytype::CU_MEMORYTYPE_DEVICE,
                device: address,
                pitch,
                ..nothing
            },
            CopyEndpoint::Array {
                raw,
                origin: [x, y, z],
                ..
            } => MemcpyFields {
                kind: CUmemorytype::CU_MEMORYTYPE_ARRAY,
                array: raw,
                origin: [x * texel, y, z],
                ..nothing
            },
        }
    }
}

/// An endpoint in the C API's terms.
struct MemcpyFields {
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
    from: CopyEndpoint,
    to: CopyEndpoint,
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
                (CopyEndpoint::Host(host), CopyEndpoint::Array { raw, origin, .. }, None) => {
                    return Ok(api.cuMemcpyHtoA_v2(raw, at(origin), host, row)?);
                }
                (
                    CopyEndpoint::Host(host),
                    CopyEndpoint::Array { raw, origin, .. },
                    Some(stream),
                ) => {
                    let queue = stream.raw();
                    return Ok(api.cuMemcpyHtoAAsync_v2(raw, at(origin), host, row, queue)?);
                }
                (CopyEndpoint::Array { raw, origin, .. }, CopyEndpoint::Host(host), None) => {
                    return Ok(api.cuMemcpyAtoH_v2(host, raw, at(origin), row)?);
                }
                (
                    CopyEndpoint::Array { raw, origin, .. },
                    CopyEndpoint::Host(host),
                    Some(stream),
                ) => {
                    let queue = stream.raw();
                    return Ok(api.cuMemcpyAtoHAsync_v2(host, raw, at(origin), row, queue)?);
                }
                (
                    CopyEndpoint::Device { address, .. },
                    CopyEndpoint::Array { raw, origin, .. },
                    None,
                ) => {
                    return Ok(api.cuMemcpyDtoA_v2(raw, at(origin), address, row)?);
                }
                (
                    CopyEndpoint::Array { raw, origin, .. },
                    CopyEndpoint::Device { address, .. },
                    None,
                ) => {
                    return Ok(api.cuMemcpyAtoD_v2(address, raw, at(origin), row)?);
                }
                (
                    CopyEndpoint::Array {
                        raw: source,
                        origin: start,
                        ..
                    },
                    CopyEndpoint::Array { raw, origin, .. },
                    None,
                ) => return Ok(api.cuMemcpyAtoA_v2(raw, at(origin), source, at(start), row)?),
                // Pairs without an entry of their own are copied as a rectangle of one row.
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

fn rectangle(from: &MemcpyFields, to: &MemcpyFields, width: usize, height: usize) -> CUDA_MEMCPY2D {
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

fn cuboid(
    from: &MemcpyFields,
    to: &MemcpyFields,
    width: usize,
    height: usize,
    depth: usize,
) -> CUDA_MEMCPY3D {
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
