//! Arrays and mipmapped arrays.

use std::sync::{Arc, Weak};

use super::context::{self, Context};
use super::copy::Endpoint;
use super::device::{MAX_1D, MAX_2D, MAX_3D, MAX_LAYERED, MAX_LAYERS, arena};
use super::handle::Handles;
use super::status::{Failure, Result, Status};
use crate::texture::{self, CUBEMAP, GATHER, LAYERED, SURFACE, Texels};
use api::{Array3dDesc, ArrayFormat};

static ARRAYS: Handles<Array> = Handles::new();
static MIPMAPPED: Handles<Mipmapped> = Handles::new();

pub(crate) struct Array {
    context: Weak<Context>,
    pub(crate) texels: Texels,
    /// Destroyed with its mipmapped array.
    is_level: bool,
}

pub(crate) struct Mipmapped {
    context: Weak<Context>,
    pub(crate) levels: Vec<Texels>,
    /// Handles of the levels.
    pub(crate) arrays: Vec<usize>,
}

pub(crate) fn find(handle: usize) -> Result<Arc<Array>> {
    ARRAYS
        .get(handle)
        .ok_or_else(|| Status::INVALID_HANDLE.because("no live array has this handle"))
}

pub(crate) fn find_mipmapped(handle: usize) -> Result<Arc<Mipmapped>> {
    MIPMAPPED
        .get(handle)
        .ok_or_else(|| Status::INVALID_HANDLE.because("no live mipmapped array has this handle"))
}

/// Frees the handles of a context's arrays.
pub(crate) fn destroy_all(context: &Arc<Context>) {
    ARRAYS.remove_all(|array| std::ptr::eq(array.context.as_ptr(), &**context));
    MIPMAPPED.remove_all(|array| std::ptr::eq(array.context.as_ptr(), &**context));
}

fn refuse(why: &str) -> Failure {
    Status::INVALID_VALUE.because(format!("no such array: {why}"))
}

/// The format of an array that the device can have.
fn check(desc: &Array3dDesc) -> Result<ArrayFormat> {
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
        (true, true) => depth / 6 <= MAX_LAYERS && width <= MAX_LAYERED,
        (true, false) => depth <= MAX_LAYERS && width <= MAX_LAYERED && height <= MAX_LAYERED,
        (false, true) => width <= MAX_LAYERED,
        _ => match (height, depth) {
            (0, 0) => width <= MAX_1D,
            (_, 0) => width <= MAX_2D[0] && height <= MAX_2D[1],
            (0, _) => return Err(refuse("it has planes without rows")),
            _ => width.max(height).max(depth) <= MAX_3D,
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

/// Makes an array of the current context; returns its handle.
pub(crate) fn create(desc: Array3dDesc) -> Result<usize> {
    let context = context::working()?;
    let format = check(&desc)?;
    let texels = Texels::new(arena()?, format, desc)?;
    Ok(insert(&context, texels, false))
}

/// Makes a mipmapped array of the current context; returns its handle. The number of levels is
/// clamped, as by NVIDIA's driver.
pub(crate) fn create_mipmapped(desc: Array3dDesc, levels: u32) -> Result<usize> {
    let context = context::working()?;
    let format = check(&desc)?;
    let levels: Vec<Texels> = (0..levels.clamp(1, max_levels(&desc)))
        .map(|level| Ok(Texels::new(arena()?, format, texture::level(desc, level))?))
        .collect::<Result<_>>()?;
    let arrays = levels
        .iter()
        .map(|texels| insert(&context, texels.clone(), true))
        .collect();
    Ok(MIPMAPPED.insert(Arc::new(Mipmapped {
        context: Arc::downgrade(&context),
        levels,
        arrays,
    })))
}

/// Destroys an array after all work, which may still use it.
pub(crate) fn destroy(handle: usize) -> Result {
    let context = context::working()?;
    let array = find(handle)?;
    if array.is_level {
        // Like on NVIDIA's driver, the call succeeds; the mipmapped array frees its levels.
        return Ok(());
    }
    ARRAYS.remove(handle);
    context.wait();
    drop(array);
    context.finish_wait()
}

/// Destroys a mipmapped array after all work, which may still use it.
pub(crate) fn destroy_mipmapped(handle: usize) -> Result {
    let context = context::working()?;
    let array = find_mipmapped(handle)?;
    MIPMAPPED.remove(handle);
    for level in &array.arrays {
        ARRAYS.remove(*level);
    }
    context.wait();
    drop(array);
    context.finish_wait()
}

fn insert(context: &Arc<Context>, texels: Texels, is_level: bool) -> usize {
    ARRAYS.insert(Arc::new(Array {
        context: Arc::downgrade(context),
        texels,
        is_level,
    }))
}

/// The number of levels that an array can have at most.
fn max_levels(desc: &Array3dDesc) -> u32 {
    let depth = match desc.flags & (LAYERED | CUBEMAP) {
        0 => desc.depth,
        _ => 1,
    };
    desc.width.max(desc.height).max(depth).max(1).ilog2() + 1
}

/// `bytes` bytes of the first row of an array from `offset` on.
pub(crate) fn row(array: &Array, offset: usize, bytes: usize) -> Result<Endpoint> {
    place(&array.texels, [offset, 0, 0], [bytes, 1, 1])
}

/// The endpoint that begins at the first byte of a box of an array; the extent is in
/// bytes, rows and planes.
pub(crate) fn place(texels: &Texels, origin: [usize; 3], extent: [usize; 3]) -> Result<Endpoint> {
    let [_, rows, planes] = texels.extent();
    let size = [texels.row(), rows, planes];
    let inside = |axis: usize| {
        let end = origin[axis].checked_add(extent[axis]);
        end.is_some_and(|end| end <= size[axis])
    };
    let texel = texels.texel_bytes();
    if !(0..3).all(inside) {
        return Err(Status::INVALID_VALUE.because("the copy reaches beyond the array"));
    }
    if !origin[0].is_multiple_of(texel) || !extent[0].is_multiple_of(texel) {
        return Err(Status::INVALID_VALUE.because("the copy cuts a texel"));
    }
    let at = origin[0] + origin[1] * texels.pitch() + origin[2] * texels.plane();
    Ok(Endpoint {
        address: texels.address + at as u64,
        pageable: false,
    })
}
