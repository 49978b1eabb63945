//! Arrays and mipmapped arrays, and their copies of single rows; those of
//! rectangles and boxes are in `region`.

use std::ffi::{c_uint, c_void};
use std::sync::{Arc, Weak};

use super::context::{self, Context};
use super::copy::{Side, When, copy, default_stream, host};
use super::entry::{Given, entries};
use super::handle::{Handles, pointer};
use super::memory::{arena, failure};
use super::status::{Answer, Failure, Status};
use super::stream;
use crate::texture::{self, CUBEMAP, GATHER, LAYERED, SURFACE, Texels};
use api::ArrayFormat;
use api::{Array3dDesc, ArrayDesc, CUarray, CUdeviceptr, CUmipmappedArray, CUstream};

static ARRAYS: Handles<Array> = Handles::new();
static MIPMAPPED: Handles<Mipmapped> = Handles::new();

pub(super) struct Array {
    context: Weak<Context>,
    pub(super) texels: Texels,
    /// Destroyed with its mipmapped array.
    is_level: bool,
}

pub(super) struct Mipmapped {
    context: Weak<Context>,
    pub(super) levels: Vec<Texels>,
    /// Handles of the levels.
    arrays: Vec<usize>,
}

/// Largest extents: 1D, 2D, 3D and layers.
const MOST_1D: usize = 131_072;
const MOST_2D: [usize; 2] = [131_072, 65_536];
const MOST_3D: usize = 16_384;
const MOST_LAYERED: usize = 32_768;
const MOST_LAYERS: usize = 2048;

/// `CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE…` and `…_SURFACE…`
pub(super) fn limit(attribute: c_uint) -> Option<c_uint> {
    let limit = match attribute {
        21 | 55 | 77 => MOST_1D,
        22 | 56 | 70 | 73 => MOST_2D[0],
        23 | 57 | 71 | 74 => MOST_2D[1],
        24..=26 | 58..=60 => MOST_3D,
        27 | 28 | 42 | 45 | 46 | 52 | 53 | 61 | 63 | 64 | 66 | 67 => MOST_LAYERED,
        29 | 43 | 62 | 65 => MOST_LAYERS,
        54 | 68 => MOST_LAYERS - 2, // layers of cubes, six each
        69 => texture::MAX_LINEAR_TEXELS as usize,
        72 => 1 << 21, // bytes of a pitch
        44 => 1,       // CAN_TEX2D_GATHER
        _ => return None,
    };
    Some(limit as c_uint)
}

pub(super) fn find<H>(array: Given<H>) -> Answer<Arc<Array>> {
    context::working()?;
    at(array.addr())
}

/// An array by a handle that came as a number.
pub(super) fn at(handle: usize) -> Answer<Arc<Array>> {
    ARRAYS
        .at(handle)
        .ok_or_else(|| Status::INVALID_HANDLE.because("no live array has this handle"))
}

pub(super) fn mipmapped_at(handle: usize) -> Answer<Arc<Mipmapped>> {
    MIPMAPPED
        .at(handle)
        .ok_or_else(|| Status::INVALID_HANDLE.because("no live mipmapped array has this handle"))
}

/// Frees the handles of a context's arrays.
pub(super) fn destroy_all(context: &Arc<Context>) {
    ARRAYS.remove_all(|array| std::ptr::eq(array.context.as_ptr(), &**context));
    MIPMAPPED.remove_all(|array| std::ptr::eq(array.context.as_ptr(), &**context));
}

fn refuse(why: &str) -> Failure {
    Status::INVALID_VALUE.because(format!("no such array: {why}"))
}

/// Its format, if there is an array of this description.
fn check(desc: &Array3dDesc) -> Answer<ArrayFormat> {
    let Array3dDesc {
        width,
        height,
        depth,
        channels,
        flags,
        ..
    } = *desc;
    let format = ArrayFormat::from_raw(desc.format)
        .ok_or_else(|| refuse("its format is none that the CPU device has"))?;
    if !matches!(channels, 1 | 2 | 4) {
        return Err(refuse("it has 1, 2 or 4 channels"));
    }
    if flags & !(LAYERED | SURFACE | CUBEMAP | GATHER) != 0 {
        return Err(refuse("a flag that the CPU device does not know"));
    }
    let layered = flags & LAYERED != 0;
    let within = match (layered, flags & CUBEMAP != 0) {
        (_, true) if width != height || !depth.is_multiple_of(6) || !layered && depth != 6 => {
            return Err(refuse("the faces of a cube are squares, six of them"));
        }
        (true, _) if depth == 0 => return Err(refuse("it has no layers")),
        (true, true) => depth / 6 <= MOST_LAYERS && width <= MOST_LAYERED,
        (true, false) => depth <= MOST_LAYERS && width <= MOST_LAYERED && height <= MOST_LAYERED,
        (false, true) => width <= MOST_LAYERED,
        _ => match (height, depth) {
            (0, 0) => width <= MOST_1D,
            (_, 0) => width <= MOST_2D[0] && height <= MOST_2D[1],
            (0, _) => return Err(refuse("it has planes without rows")),
            _ => width.max(height).max(depth) <= MOST_3D,
        },
    };
    if width == 0 || !within {
        return Err(refuse("an extent is 0 or too large"));
    }
    if flags & GATHER != 0 && (height == 0 || depth != 0 || layered) {
        return Err(refuse("only 2D arrays are gathered from"));
    }
    Ok(format)
}

fn create(result: Given<CUarray>, desc: Array3dDesc) -> Answer {
    let context = context::working()?;
    if result.is_null() {
        return Err(Status::INVALID_VALUE.because("nowhere to put the array"));
    }
    let format = check(&desc)?;
    let texels = Texels::new(arena()?, format, desc).map_err(|error| failure(&error))?;
    result.put(pointer(publish(&context, texels, false)))
}

fn publish(context: &Arc<Context>, texels: Texels, is_level: bool) -> usize {
    ARRAYS.insert(Arc::new(Array {
        context: Arc::downgrade(context),
        texels,
        is_level,
    }))
}

/// How many levels an array of this description can have.
fn most_levels(desc: &Array3dDesc) -> u32 {
    let depth = match desc.flags & (LAYERED | CUBEMAP) {
        0 => desc.depth,
        _ => 1,
    };
    desc.width.max(desc.height).max(depth).max(1).ilog2() + 1
}

/// `bytes` bytes of a 1D array from `offset` on.
fn row(array: &Array, offset: usize, bytes: usize) -> Answer<Side> {
    let texels = &array.texels;
    if texels.described.height != 0 || texels.described.depth != 0 {
        return Err(Status::INVALID_VALUE.because("only 1D arrays are copied by bytes"));
    }
    place(texels, [offset, 0, 0], [bytes, 1, 1])
}

/// The first of the bytes, rows and planes of a box of an array.
pub(super) fn place(texels: &Texels, origin: [usize; 3], extent: [usize; 3]) -> Answer<Side> {
    let [_, rows, planes] = texels.extent();
    let room = [texels.row(), rows, planes];
    let inside = |axis: usize| {
        let end = origin[axis].checked_add(extent[axis]);
        end.is_some_and(|end| end <= room[axis])
    };
    let texel = texels.texel_bytes();
    if !(0..3).all(inside) {
        return Err(Status::INVALID_VALUE.because("the copy reaches beyond the array"));
    }
    if !origin[0].is_multiple_of(texel) || !extent[0].is_multiple_of(texel) {
        return Err(Status::INVALID_VALUE.because("the copy cuts a texel"));
    }
    let at = origin[0] + origin[1] * texels.pitch() + origin[2] * texels.plane();
    Ok(Side {
        address: texels.address + at as u64,
        pageable: false,
    })
}

entries! {
    fn cuArrayCreate_v2(array: *mut CUarray, described: *const ArrayDesc) {
        let desc = described.get()?;
        create(array, Array3dDesc {
            width: desc.width,
            height: desc.height,
            depth: 0,
            format: desc.format,
            channels: desc.channels,
            flags: 0,
        })
    }

    fn cuArray3DCreate_v2(array: *mut CUarray, described: *const Array3dDesc) {
        create(array, described.get()?)
    }

    /// Waits for all work first, which may still use the array.
    fn cuArrayDestroy(array: CUarray) {
        let found = find(array)?;
        if found.is_level {
            return Err(Status::INVALID_HANDLE
                .because("a level is destroyed with its mipmapped array"));
        }
        let context = context::working()?;
        ARRAYS.remove(array.addr());
        context.wait();
        drop(found);
        context.settle()
    }

    fn cuArrayGetDescriptor_v2(described: *mut ArrayDesc, array: CUarray) {
        let Array3dDesc { width, height, format, channels, .. } = find(array)?.texels.described;
        described.put(ArrayDesc { width, height, format, channels })
    }

    fn cuArray3DGetDescriptor_v2(described: *mut Array3dDesc, array: CUarray) {
        described.put(find(array)?.texels.described)
    }

    /// No format here has planes.
    fn cuArrayGetPlane(_plane: *mut CUarray, array: CUarray, _index: c_uint) {
        find(array)?;
        Err(Status::INVALID_VALUE.because("the array's format has no planes"))
    }

    fn cuMipmappedArrayCreate(
        array: *mut CUmipmappedArray,
        described: *const Array3dDesc,
        levels: c_uint,
    ) {
        let context = context::working()?;
        let desc = described.get()?;
        let format = check(&desc)?;
        if array.is_null() || levels == 0 || levels > most_levels(&desc) {
            return Err(refuse("more levels than halvings, or none"));
        }
        let made: Result<Vec<Texels>, _> = (0..levels)
            .map(|level| Texels::new(arena()?, format, texture::level(desc, level))
                .map_err(|error| failure(&error)))
            .collect();
        let levels = made?;
        let arrays = levels
            .iter()
            .map(|texels| publish(&context, texels.clone(), true))
            .collect();
        array.put(pointer(MIPMAPPED.insert(Arc::new(Mipmapped {
            context: Arc::downgrade(&context),
            levels,
            arrays,
        }))))
    }

    fn cuMipmappedArrayGetLevel(level: *mut CUarray, array: CUmipmappedArray, index: c_uint) {
        context::working()?;
        let found = mipmapped_at(array.addr())?;
        match found.arrays.get(index as usize) {
            Some(array) => level.put(pointer(*array)),
            None => Err(Status::INVALID_VALUE.because("the mipmapped array has no such level")),
        }
    }

    fn cuMipmappedArrayDestroy(array: CUmipmappedArray) {
        let context = context::working()?;
        let found = mipmapped_at(array.addr())?;
        MIPMAPPED.remove(array.addr());
        for level in &found.arrays {
            ARRAYS.remove(*level);
        }
        context.wait();
        drop(found);
        context.settle()
    }

    fn cuMemcpyHtoA_v2(to: CUarray, offset: usize, from: *const c_void, bytes: usize) {
        let to = row(&*find(to)?, offset, bytes)?;
        copy(&default_stream()?, When::Now, to, host(from, bytes)?, bytes)
    }

    fn cuMemcpyAtoH_v2(to: *mut c_void, from: CUarray, offset: usize, bytes: usize) {
        let from = row(&*find(from)?, offset, bytes)?;
        copy(&default_stream()?, When::Now, host(to, bytes)?, from, bytes)
    }

    fn cuMemcpyDtoA_v2(to: CUarray, offset: usize, from: CUdeviceptr, bytes: usize) {
        let to = row(&*find(to)?, offset, bytes)?;
        copy(&default_stream()?, When::Now, to, Side::device(from, bytes)?, bytes)
    }

    fn cuMemcpyAtoD_v2(to: CUdeviceptr, from: CUarray, offset: usize, bytes: usize) {
        let from = row(&*find(from)?, offset, bytes)?;
        copy(&default_stream()?, When::Now, Side::device(to, bytes)?, from, bytes)
    }

    fn cuMemcpyAtoA_v2(
        to: CUarray,
        to_offset: usize,
        from: CUarray,
        from_offset: usize,
        bytes: usize,
    ) {
        let to = row(&*find(to)?, to_offset, bytes)?;
        let from = row(&*find(from)?, from_offset, bytes)?;
        copy(&default_stream()?, When::Now, to, from, bytes)
    }

    fn cuMemcpyHtoAAsync_v2(
        to: CUarray,
        offset: usize,
        from: *const c_void,
        bytes: usize,
        stream: CUstream,
    ) {
        let to = row(&*find(to)?, offset, bytes)?;
        copy(&stream::find(stream)?, When::InOrder, to, host(from, bytes)?, bytes)
    }

    fn cuMemcpyAtoHAsync_v2(
        to: *mut c_void,
        from: CUarray,
        offset: usize,
        bytes: usize,
        stream: CUstream,
    ) {
        let from = row(&*find(from)?, offset, bytes)?;
        copy(&stream::find(stream)?, When::InOrder, host(to, bytes)?, from, bytes)
    }
}
