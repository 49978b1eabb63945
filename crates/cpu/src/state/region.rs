//! Copies of rectangles and boxes.

use std::sync::Arc;

use super::array;
use super::context::Context;
use super::copy::{CopyMode, Endpoint, direction, observed, perform};
use super::status::{Result, Status};
use super::stream::Stream;
use crate::sanitizer::fresh;

/// `CU_MEMORYTYPE_…`
const HOST: u32 = 1;
const DEVICE: u32 = 2;
const ARRAY: u32 = 3;
const UNIFIED: u32 = 4;

/// How much to copy: bytes of a row, rows, and planes.
pub(crate) type Extent = [usize; 3];

/// An endpoint, and the distances between its rows and planes.
#[derive(Clone, Copy)]
struct Layout {
    endpoint: Endpoint,
    pitch: usize,
    plane: usize,
}

/// An endpoint as the caller describes it.
pub(crate) struct EndpointDesc {
    /// `CU_MEMORYTYPE_…`
    pub(crate) kind: u32,
    pub(crate) host: u64,
    pub(crate) device: u64,
    /// A handle.
    pub(crate) array: usize,
    pub(crate) origin: [usize; 3],
    pub(crate) pitch: usize,
    /// Rows from one plane to the next; 0 for as many as are copied.
    pub(crate) rows: usize,
}

impl EndpointDesc {
    fn layout(&self, [width, height, depth]: Extent) -> Result<Layout> {
        if self.kind == ARRAY {
            if self.array == 0 {
                return Err(Status::INVALID_VALUE.because("the array of the copy is null"));
            }
            let array = array::find(self.array)?;
            return Ok(Layout {
                endpoint: array::place(&array.texels, self.origin, [width, height, depth])?,
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
        let endpoint = match self.kind {
            HOST => Endpoint::host(start, bytes)?,
            DEVICE => Endpoint::device(start, bytes)?,
            _ => Endpoint::any(start, bytes)?,
        };
        Ok(Layout {
            endpoint,
            pitch,
            plane,
        })
    }
}

/// Fails unless both ends hold a box.
pub(crate) fn check(from: &EndpointDesc, to: &EndpointDesc, extent: Extent) -> Result {
    from.layout(extent)?;
    to.layout(extent)?;
    Ok(())
}

/// Copies a box.
pub(crate) fn copy(
    stream: &(Arc<Context>, Arc<Stream>),
    mode: CopyMode,
    from: &EndpointDesc,
    to: &EndpointDesc,
    extent: Extent,
) -> Result {
    let [width, height, depth] = extent;
    if extent.contains(&0) {
        return Ok(());
    }
    let (from, to) = (from.layout(extent)?, to.layout(extent)?);
    let bytes = width.saturating_mul(height).saturating_mul(depth);
    let pageable = from.endpoint.pageable || to.endpoint.pageable;
    let ends = (to.endpoint, from.endpoint);
    let direction = move || direction(ends.0, ends.1);
    perform(
        stream,
        mode,
        pageable,
        bytes,
        direction,
        rows(from, to, extent),
    )
}

/// The work of a copy, row by row.
fn rows(
    from: Layout,
    to: Layout,
    [width, height, depth]: Extent,
) -> impl Fn() + Send + Sync + 'static {
    move || {
        for z in 0..depth {
            for y in 0..height {
                let source = from.endpoint.pointer(z * from.plane + y * from.pitch);
                let target = to.endpoint.pointer(z * to.plane + y * to.pitch);
                // SAFETY: `layout` checked the range that holds all rows, or the
                // caller answers for it. `copy` allows overlaps.
                unsafe { std::ptr::copy(source, target, width) };
                let [to, from] = [target.addr(), source.addr()].map(|address| address as u64);
                fresh::copied(to, from, width as u64);
            }
        }
    }
}

/// The work of a graph node that makes the copy.
pub(crate) fn copy_work(
    from: &EndpointDesc,
    to: &EndpointDesc,
    extent: Extent,
) -> Result<impl Fn() + Send + Sync + 'static> {
    if extent.contains(&0) {
        return Err(Status::INVALID_VALUE.because("a copy in a graph has at least one byte"));
    }
    let (from, to) = (from.layout(extent)?, to.layout(extent)?);
    let ends = (to.endpoint, from.endpoint);
    let direction = move || direction(ends.0, ends.1);
    let bytes = extent.into_iter().fold(1, usize::saturating_mul);
    Ok(observed(direction, bytes, rows(from, to, extent)))
}
