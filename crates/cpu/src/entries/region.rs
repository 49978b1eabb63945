//! Copies of rectangles and boxes.

use std::ffi::c_void;
use std::sync::Arc;

use super::array;
use super::context::Context;
use super::copy::{Side, When, default_stream, perform};
use super::entry::{Given, entries};
use super::status::{Answer, Status};
use super::stream::{self, Stream};
use api::{CUDA_MEMCPY2D, CUDA_MEMCPY3D, CUstream};

/// `CUDA_MEMCPY2D` with the memory types as plain numbers: a number that is
/// no `CUmemorytype` is an error of the caller, not undefined behaviour.
#[repr(C)]
#[derive(Clone, Copy)]
struct Rectangle {
    from: End2d<*const c_void>,
    to: End2d<*mut c_void>,
    width: usize,
    height: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct End2d<P> {
    x: usize,
    y: usize,
    kind: u32,
    host: P,
    device: u64,
    array: *mut c_void,
    pitch: usize,
}

/// `CUDA_MEMCPY3D`, likewise.
#[repr(C)]
#[derive(Clone, Copy)]
struct Cuboid {
    from: End3d<*const c_void>,
    to: End3d<*mut c_void>,
    width: usize,
    height: usize,
    depth: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct End3d<P> {
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

const _: () = assert!(size_of::<Rectangle>() == size_of::<CUDA_MEMCPY2D>());
const _: () = assert!(size_of::<Cuboid>() == size_of::<CUDA_MEMCPY3D>());

/// `CU_MEMORYTYPE_…`
const HOST: u32 = 1;
const DEVICE: u32 = 2;
const ARRAY: u32 = 3;
const UNIFIED: u32 = 4;

/// How much to copy: bytes of a row, rows, and planes.
type Extent = [usize; 3];

/// Where one side of a copy lies, and how far its rows and planes are apart.
#[derive(Clone, Copy)]
struct Layout {
    side: Side,
    pitch: usize,
    plane: usize,
}

/// One end of a copy as the caller describes it.
struct End {
    kind: u32,
    host: u64,
    device: u64,
    /// A handle.
    array: usize,
    origin: [usize; 3],
    pitch: usize,
    /// Rows from one plane to the next; 0 for as many as are copied.
    rows: usize,
}

impl<P> From<(End2d<P>, u64)> for End {
    fn from((end, host): (End2d<P>, u64)) -> End {
        let End2d {
            x,
            y,
            kind,
            device,
            array,
            pitch,
            ..
        } = end;
        End {
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

impl<P> From<(End3d<P>, u64)> for End {
    fn from((end, host): (End3d<P>, u64)) -> End {
        let End3d {
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
        End {
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

impl End {
    fn layout(&self, [width, height, depth]: Extent) -> Answer<Layout> {
        if self.kind == ARRAY {
            let array = array::at(self.array)?;
            return Ok(Layout {
                side: array::place(&array.texels, self.origin, [width, height, depth])?,
                pitch: array.texels.pitch(),
                plane: array.texels.plane(),
            });
        }
        let bad = || {
            Status::INVALID_VALUE
                .because("a row of the copy is longer than its pitch, or it goes beyond any memory")
        };
        let pitch = if self.pitch == 0 { width } else { self.pitch };
        let rows = if self.rows == 0 { height } else { self.rows };
        let [x, y, z] = self.origin;
        if pitch < x.saturating_add(width) && (height > 1 || depth > 1 || y > 0) || rows < height {
            return Err(bad());
        }
        let plane = pitch.checked_mul(rows).ok_or_else(bad)?;
        let at = |x: usize, y: usize, z: usize| {
            let planes = plane.checked_mul(z)?;
            pitch.checked_mul(y)?.checked_add(planes)?.checked_add(x)
        };
        let first = at(x, y, z).ok_or_else(bad)?;
        let bytes = at(width, height - 1, depth - 1).ok_or_else(bad)?;
        let base = match self.kind {
            HOST => self.host,
            DEVICE | UNIFIED => self.device,
            _ => return Err(Status::INVALID_VALUE.because("unknown memory type of a copy")),
        };
        let start = base.checked_add(first as u64).ok_or_else(bad)?;
        let side = match self.kind {
            HOST => Side::host(start, bytes)?,
            DEVICE => Side::device(start, bytes)?,
            _ => Side::any(start, bytes)?,
        };
        Ok(Layout { side, pitch, plane })
    }
}

fn copy(
    stream: &(Arc<Context>, Arc<Stream>),
    when: When,
    from: End,
    to: End,
    extent: Extent,
) -> Answer {
    let [width, height, depth] = extent;
    if extent.contains(&0) {
        return Ok(());
    }
    let (from, to) = (from.layout(extent)?, to.layout(extent)?);
    let bytes = width.saturating_mul(height).saturating_mul(depth);
    let pageable = from.side.pageable || to.side.pageable;
    perform(stream, when, pageable, bytes, rows(from, to, extent))
}

/// What a copy does, row by row.
fn rows(
    from: Layout,
    to: Layout,
    [width, height, depth]: Extent,
) -> impl Fn() + Send + Sync + 'static {
    move || {
        for z in 0..depth {
            for y in 0..height {
                let source = from.side.pointer(z * from.plane + y * from.pitch);
                let target = to.side.pointer(z * to.plane + y * to.pitch);
                // SAFETY: `layout` checked the range that holds all rows, or the
                // caller answers for it; rows may overlap.
                unsafe { std::ptr::copy(source, target, width) };
            }
        }
    }
}

/// The copy of a box for a graph to make.
pub(super) fn cuboid_work(
    described: Given<CUDA_MEMCPY3D>,
) -> Answer<impl Fn() + Send + Sync + 'static> {
    let (from, to, extent) = cuboid_ends(described)?;
    if extent.contains(&0) {
        return Err(Status::INVALID_VALUE.because("a copy in a graph has at least one byte"));
    }
    let (from, to) = (from.layout(extent)?, to.layout(extent)?);
    Ok(rows(from, to, extent))
}

fn cuboid_ends(described: Given<CUDA_MEMCPY3D>) -> Answer<(End, End, Extent)> {
    let Cuboid {
        from,
        to,
        width,
        height,
        depth,
    } = described.cast::<Cuboid>().get()?;
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

fn rectangle(
    stream: &(Arc<Context>, Arc<Stream>),
    when: When,
    described: Given<CUDA_MEMCPY2D>,
) -> Answer {
    let Rectangle {
        from,
        to,
        width,
        height,
    } = described.cast::<Rectangle>().get()?;
    let (source, target) = (
        from.host.expose_provenance() as u64,
        to.host.expose_provenance() as u64,
    );
    copy(
        stream,
        when,
        (from, source).into(),
        (to, target).into(),
        [width, height, 1],
    )
}

pub(super) fn cuboid(
    stream: &(Arc<Context>, Arc<Stream>),
    when: When,
    described: Given<CUDA_MEMCPY3D>,
) -> Answer {
    let (from, to, extent) = cuboid_ends(described)?;
    copy(stream, when, from, to, extent)
}

entries! {
    fn cuMemcpy2D_v2(described: *const CUDA_MEMCPY2D) {
        rectangle(&default_stream()?, When::Now, described)
    }

    fn cuMemcpy2DUnaligned_v2(described: *const CUDA_MEMCPY2D) {
        rectangle(&default_stream()?, When::Now, described)
    }

    fn cuMemcpy2DAsync_v2(described: *const CUDA_MEMCPY2D, stream: CUstream) {
        rectangle(&stream::find(stream)?, When::InOrder, described)
    }

    fn cuMemcpy3D_v2(described: *const CUDA_MEMCPY3D) {
        cuboid(&default_stream()?, When::Now, described)
    }

    fn cuMemcpy3DAsync_v2(described: *const CUDA_MEMCPY3D, stream: CUstream) {
        cuboid(&stream::find(stream)?, When::InOrder, described)
    }
}
