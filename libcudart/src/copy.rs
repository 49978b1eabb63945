//! Copies and fills.

use std::ffi::{c_int, c_uint, c_void};

use api::{CUDA_MEMCPY3D, CUDA_MEMCPY3D_PEER, CUarray, CUstream};
use cudarc::driver::sys::CUmemorytype;

use crate::array::{element_bytes, row_bytes};
use crate::binary::symbol;
use crate::context::{primary, ready};
use crate::entry::{Place, Stream, driver, entries};
use crate::error::{Code, Result};
use crate::memory::memory_type;
use crate::types::{Copy3dParams, CopyPeerParams, Extent, PitchedPointer};

/// `cudaMemcpyKind`
const HOST_TO_HOST: c_uint = 0;
const HOST_TO_DEVICE: c_uint = 1;
const DEVICE_TO_HOST: c_uint = 2;
const DEVICE_TO_DEVICE: c_uint = 3;
const DEFAULT: c_uint = 4;

/// `CU_MEMORYTYPE_DEVICE`
const DEVICE: c_uint = 2;

/// Whether source and target of a copy are the device's.
fn sides(kind: c_uint, source: u64, target: u64) -> Result<[bool; 2]> {
    // Of memory that both reach, either side would do.
    let is_device = |address| memory_type(address) == Some(DEVICE);
    Ok(match kind {
        HOST_TO_HOST => [false, false],
        HOST_TO_DEVICE => [false, true],
        DEVICE_TO_HOST => [true, false],
        DEVICE_TO_DEVICE => [true, true],
        DEFAULT => [is_device(source), is_device(target)],
        _ => return Err(Code::INVALID_DIRECTION),
    })
}

/// One end of a copy: an array, or rows in linear memory.
#[derive(Clone, Copy)]
enum End {
    Array(CUarray),
    Rows {
        address: u64,
        pitch: usize,
        /// Rows of a slice.
        height: usize,
        is_device: bool,
    },
}

/// The driver's form of a copy; positions and extent are in bytes, rows and slices.
fn params(from: End, from_at: Extent, to: End, to_at: Extent, extent: Extent) -> CUDA_MEMCPY3D {
    use CUmemorytype::{CU_MEMORYTYPE_ARRAY, CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_HOST};
    let host = |address: u64| std::ptr::with_exposed_provenance_mut::<c_void>(address as usize);
    let kind = |end: End| match end {
        End::Array(_) => CU_MEMORYTYPE_ARRAY,
        End::Rows {
            is_device: true, ..
        } => CU_MEMORYTYPE_DEVICE,
        End::Rows { .. } => CU_MEMORYTYPE_HOST,
    };
    // Where an end is, how far apart its rows are, and how many a slice has.
    let place = |end: End| match end {
        End::Array(array) => (std::ptr::null_mut(), 0, array, 0, 0),
        End::Rows {
            address,
            pitch,
            height,
            is_device,
        } => {
            if is_device {
                (
                    std::ptr::null_mut(),
                    address,
                    std::ptr::null_mut(),
                    pitch,
                    height,
                )
            } else {
                (host(address), 0, std::ptr::null_mut(), pitch, height)
            }
        }
    };
    let (from_host, from_device, from_array, from_pitch, from_height) = place(from);
    let (to_host, to_device, to_array, to_pitch, to_height) = place(to);
    CUDA_MEMCPY3D {
        srcXInBytes: from_at.width,
        srcY: from_at.height,
        srcZ: from_at.depth,
        srcLOD: 0,
        srcMemoryType: kind(from),
        srcHost: from_host,
        srcDevice: from_device,
        srcArray: from_array,
        reserved0: std::ptr::null_mut(),
        srcPitch: from_pitch,
        srcHeight: from_height,
        dstXInBytes: to_at.width,
        dstY: to_at.height,
        dstZ: to_at.depth,
        dstLOD: 0,
        dstMemoryType: kind(to),
        dstHost: to_host,
        dstDevice: to_device,
        dstArray: to_array,
        reserved1: std::ptr::null_mut(),
        dstPitch: to_pitch,
        dstHeight: to_height,
        WidthInBytes: extent.width,
        Height: extent.height,
        Depth: extent.depth,
    }
}

const START: Extent = Extent {
    width: 0,
    height: 0,
    depth: 0,
};

/// Rows of one slice.
fn rows(width: usize, height: usize) -> Extent {
    Extent {
        width,
        height,
        depth: 1,
    }
}

fn run(params: &CUDA_MEMCPY3D, stream: CUstream) -> Result {
    if params.WidthInBytes == 0 || params.Height == 0 || params.Depth == 0 {
        return Ok(());
    }
    driver!(cuMemcpy3DAsync_v2(params, stream))
}

/// The driver's form of a copy of bytes.
pub(crate) fn of_bytes(
    target: u64,
    source: u64,
    bytes: usize,
    kind: c_uint,
) -> Result<CUDA_MEMCPY3D> {
    let [from_device, to_device] = sides(kind, source, target)?;
    let end = |address, is_device| End::Rows {
        address,
        pitch: bytes,
        height: 1,
        is_device,
    };
    let (from, to) = (end(source, from_device), end(target, to_device));
    Ok(params(from, START, to, START, rows(bytes, 1)))
}

fn copy(target: u64, source: u64, bytes: usize, kind: c_uint, stream: CUstream) -> Result {
    ready()?;
    let host = |address: u64| std::ptr::with_exposed_provenance_mut::<c_void>(address as usize);
    match sides(kind, source, target)? {
        _ if bytes == 0 => Ok(()),
        [false, true] => driver!(cuMemcpyHtoDAsync_v2(target, host(source), bytes, stream)),
        [true, false] => driver!(cuMemcpyDtoHAsync_v2(host(target), source, bytes, stream)),
        [true, true] => driver!(cuMemcpyDtoDAsync_v2(target, source, bytes, stream)),
        [false, false] => run(&of_bytes(target, source, bytes, kind)?, stream),
    }
}

/// Waits for what a call has queued.
fn wait(stream: CUstream) -> Result {
    driver!(cuStreamSynchronize(stream))
}

/// A rectangle of bytes.
fn rectangle(
    from: End,
    from_at: Extent,
    to: End,
    to_at: Extent,
    size: Extent,
    stream: CUstream,
) -> Result {
    ready()?;
    run(&params(from, from_at, to, to_at, size), stream)
}

fn linear(
    [target, target_pitch]: [u64; 2],
    [source, source_pitch]: [u64; 2],
    size: Extent,
    kind: c_uint,
    stream: CUstream,
) -> Result {
    if (target_pitch as usize) < size.width || (source_pitch as usize) < size.width {
        return Err(Code(12)); // cudaErrorInvalidPitchValue
    }
    let [from_device, to_device] = sides(kind, source, target)?;
    let end = |address, pitch: u64, is_device| End::Rows {
        address,
        pitch: pitch as usize,
        height: size.height,
        is_device,
    };
    let (from, to) = (
        end(source, source_pitch, from_device),
        end(target, target_pitch, to_device),
    );
    rectangle(from, START, to, START, size, stream)
}

/// Rows of linear memory that a copy to or from an array has at its other end.
fn beside_array(address: u64, pitch: usize, size: Extent, is_device: bool) -> End {
    End::Rows {
        address,
        pitch,
        height: size.height,
        is_device,
    }
}

/// The driver's form of `cudaMemcpy3DParms`.
pub(crate) fn of_params(copy: &Copy3dParams) -> Result<CUDA_MEMCPY3D> {
    let source = copy.from.start.addr() as u64;
    let target = copy.to.start.addr() as u64;
    let [from_device, to_device] = sides(copy.kind, source, target)?;
    // Beside an array, extents and positions count its elements.
    let element = match (copy.from_array.is_null(), copy.to_array.is_null()) {
        (true, true) => 1,
        (false, _) => element_bytes(copy.from_array)?,
        (true, false) => element_bytes(copy.to_array)?,
    };
    let end = |array: CUarray, linear: PitchedPointer, is_device| {
        if !array.is_null() {
            End::Array(array)
        } else {
            End::Rows {
                address: linear.start.addr() as u64,
                pitch: linear.pitch,
                height: linear.height,
                is_device,
            }
        }
    };
    // Elements of an array, but bytes of linear memory.
    let position = |at: Extent, array: CUarray| Extent {
        width: if array.is_null() {
            at.width
        } else {
            at.width.saturating_mul(element)
        },
        ..at
    };
    let extent = Extent {
        width: copy.extent.width.saturating_mul(element),
        ..copy.extent
    };
    Ok(params(
        end(copy.from_array, copy.from, from_device),
        position(copy.from_position, copy.from_array),
        end(copy.to_array, copy.to, to_device),
        position(copy.to_position, copy.to_array),
        extent,
    ))
}

/// The driver's form of `cudaMemcpy3DPeerParms`: each side is of its device.
fn of_peers(copy: &CopyPeerParams) -> Result<CUDA_MEMCPY3D_PEER> {
    let of = of_params(&Copy3dParams {
        from_array: copy.from_array,
        from_position: copy.from_position,
        from: copy.from,
        to_array: copy.to_array,
        to_position: copy.to_position,
        to: copy.to,
        extent: copy.extent,
        kind: DEFAULT,
    })?;
    Ok(CUDA_MEMCPY3D_PEER {
        srcXInBytes: of.srcXInBytes,
        srcY: of.srcY,
        srcZ: of.srcZ,
        srcLOD: of.srcLOD,
        srcMemoryType: of.srcMemoryType,
        srcHost: of.srcHost,
        srcDevice: of.srcDevice,
        srcArray: of.srcArray,
        srcContext: primary(copy.from_device)?,
        srcPitch: of.srcPitch,
        srcHeight: of.srcHeight,
        dstXInBytes: of.dstXInBytes,
        dstY: of.dstY,
        dstZ: of.dstZ,
        dstLOD: of.dstLOD,
        dstMemoryType: of.dstMemoryType,
        dstHost: of.dstHost,
        dstDevice: of.dstDevice,
        dstArray: of.dstArray,
        dstContext: primary(copy.to_device)?,
        dstPitch: of.dstPitch,
        dstHeight: of.dstHeight,
        WidthInBytes: of.WidthInBytes,
        Height: of.Height,
        Depth: of.Depth,
    })
}

fn fill(address: u64, value: c_int, bytes: usize, stream: CUstream) -> Result {
    ready()?;
    match bytes {
        0 => Ok(()),
        _ => driver!(cuMemsetD8Async(address, value as u8, bytes, stream)),
    }
}

fn fill_rows(address: u64, pitch: usize, value: c_int, size: Extent, stream: CUstream) -> Result {
    ready()?;
    if size.width == 0 || size.height == 0 {
        return Ok(());
    }
    driver!(cuMemsetD2D8Async(
        address,
        pitch,
        value as u8,
        size.width,
        size.height,
        stream
    ))
}

/// Slices follow each other as the pointer's height says.
fn fill_slices(target: PitchedPointer, value: c_int, extent: Extent, stream: CUstream) -> Result {
    let slice = target
        .pitch
        .checked_mul(target.height)
        .ok_or(Code::INVALID_VALUE)?;
    for index in 0..extent.depth {
        let offset = slice.checked_mul(index).ok_or(Code::INVALID_VALUE)?;
        let start = (target.start.addr() as u64).wrapping_add(offset as u64);
        fill_rows(start, target.pitch, value, extent, stream)?;
    }
    Ok(())
}

/// Where in a variable a copy begins, if all of it lies within.
pub(crate) fn within_symbol(variable: Place<c_void>, offset: usize, bytes: usize) -> Result<u64> {
    let (start, size) = symbol(variable)?;
    match offset.checked_add(bytes) {
        Some(end) if end <= size => Ok(start + offset as u64),
        _ => Err(Code::INVALID_VALUE),
    }
}

fn to_symbol(
    variable: Place<c_void>,
    source: u64,
    bytes: usize,
    offset: usize,
    kind: c_uint,
    stream: CUstream,
) -> Result {
    match kind {
        HOST_TO_DEVICE | DEVICE_TO_DEVICE | DEFAULT => copy(
            within_symbol(variable, offset, bytes)?,
            source,
            bytes,
            kind,
            stream,
        ),
        _ => Err(Code::INVALID_DIRECTION),
    }
}

fn from_symbol(
    target: u64,
    variable: Place<c_void>,
    bytes: usize,
    offset: usize,
    kind: c_uint,
    stream: CUstream,
) -> Result {
    match kind {
        DEVICE_TO_HOST | DEVICE_TO_DEVICE | DEFAULT => copy(
            target,
            within_symbol(variable, offset, bytes)?,
            bytes,
            kind,
            stream,
        ),
        _ => Err(Code::INVALID_DIRECTION),
    }
}

/// A place in an array: bytes and rows.
fn at(x: usize, y: usize) -> Extent {
    Extent {
        width: x,
        height: y,
        depth: 0,
    }
}

/// A rectangle of an array, and where its bytes are in what is copied.
struct Piece {
    offset: usize,
    at: Extent,
    size: Extent,
}

/// Copies bytes from array to array, in the order of the rows of each.
fn between_arrays(
    (source, [mut from_x, mut from_y]): (CUarray, [usize; 2]),
    (target, [mut to_x, mut to_y]): (CUarray, [usize; 2]),
    bytes: usize,
    stream: CUstream,
) -> Result {
    let (from_row, to_row) = (row_bytes(source)?, row_bytes(target)?);
    if from_x >= from_row || to_x >= to_row {
        return Err(Code::INVALID_VALUE);
    }
    let mut left = bytes;
    while left > 0 {
        let width = left.min(from_row - from_x).min(to_row - to_x);
        let (from, to) = (End::Array(source), End::Array(target));
        rectangle(
            from,
            at(from_x, from_y),
            to,
            at(to_x, to_y),
            rows(width, 1),
            stream,
        )?;
        left -= width;
        (from_x, to_x) = (from_x + width, to_x + width);
        if from_x == from_row {
            (from_x, from_y) = (0, from_y.saturating_add(1));
        }
        if to_x == to_row {
            (to_x, to_y) = (0, to_y.saturating_add(1));
        }
    }
    Ok(())
}

/// The rectangles that bytes fill in the order of an array's rows: the rest of a row, whole
/// rows, and the start of a row.
fn pieces(array: CUarray, [mut x, mut y]: [usize; 2], bytes: usize) -> Result<Vec<Piece>> {
    let row = row_bytes(array)?;
    if row == 0 || x >= row {
        return Err(Code::INVALID_VALUE);
    }
    let mut pieces = Vec::new();
    let mut offset = 0;
    while offset < bytes {
        let left = bytes - offset;
        let size = if x == 0 && left >= row {
            rows(row, left / row)
        } else {
            rows(left.min(row - x), 1)
        };
        pieces.push(Piece {
            offset,
            at: at(x, y),
            size,
        });
        offset += size.width * size.height;
        (x, y) = (0, y.saturating_add(size.height));
    }
    Ok(pieces)
}

entries! {
    /// Copies bytes.
    fn cudaMemcpy / cudaMemcpy_ptds(target: *mut c_void, source: *const c_void, bytes: usize, kind: c_uint) in stream {
        copy(target.addr(), source.addr(), bytes, kind, stream)?;
        wait(stream)
    }

    /// Copies bytes in stream order.
    fn cudaMemcpyAsync / cudaMemcpyAsync_ptsz(target: *mut c_void, source: *const c_void, bytes: usize, kind: c_uint, stream: Stream) {
        copy(target.addr(), source.addr(), bytes, kind, stream)
    }

    /// Copies rows.
    fn cudaMemcpy2D / cudaMemcpy2D_ptds(target: *mut c_void, target_pitch: usize, source: *const c_void, source_pitch: usize, width: usize, height: usize, kind: c_uint) in stream {
        linear([target.addr(), target_pitch as u64], [source.addr(), source_pitch as u64], rows(width, height), kind, stream)?;
        wait(stream)
    }

    /// Copies rows in stream order.
    fn cudaMemcpy2DAsync / cudaMemcpy2DAsync_ptsz(target: *mut c_void, target_pitch: usize, source: *const c_void, source_pitch: usize, width: usize, height: usize, kind: c_uint, stream: Stream) {
        linear([target.addr(), target_pitch as u64], [source.addr(), source_pitch as u64], rows(width, height), kind, stream)
    }

    /// Copies slices of rows.
    fn cudaMemcpy3D / cudaMemcpy3D_ptds(copy: *const Copy3dParams) in stream {
        ready()?;
        run(&of_params(&copy.get()?)?, stream)?;
        wait(stream)
    }

    /// Copies slices of rows in stream order.
    fn cudaMemcpy3DAsync / cudaMemcpy3DAsync_ptsz(copy: *const Copy3dParams, stream: Stream) {
        ready()?;
        run(&of_params(&copy.get()?)?, stream)
    }

    /// Copies rows into an array.
    fn cudaMemcpy2DToArray / cudaMemcpy2DToArray_ptds(array: CUarray, x: usize, y: usize, source: *const c_void, pitch: usize, width: usize, height: usize, kind: c_uint) in stream {
        let [is_device, _] = sides(kind, source.addr(), 0)?;
        let from = beside_array(source.addr(), pitch, rows(width, height), is_device);
        rectangle(from, START, End::Array(array.ptr()), at(x, y), rows(width, height), stream)?;
        wait(stream)
    }

    /// Copies rows into an array in stream order.
    fn cudaMemcpy2DToArrayAsync / cudaMemcpy2DToArrayAsync_ptsz(array: CUarray, x: usize, y: usize, source: *const c_void, pitch: usize, width: usize, height: usize, kind: c_uint, stream: Stream) {
        let [is_device, _] = sides(kind, source.addr(), 0)?;
        let from = beside_array(source.addr(), pitch, rows(width, height), is_device);
        rectangle(from, START, End::Array(array.ptr()), at(x, y), rows(width, height), stream)
    }

    /// Copies rows out of an array.
    fn cudaMemcpy2DFromArray / cudaMemcpy2DFromArray_ptds(target: *mut c_void, pitch: usize, array: CUarray, x: usize, y: usize, width: usize, height: usize, kind: c_uint) in stream {
        let [_, is_device] = sides(kind, 0, target.addr())?;
        let to = beside_array(target.addr(), pitch, rows(width, height), is_device);
        rectangle(End::Array(array.ptr()), at(x, y), to, START, rows(width, height), stream)?;
        wait(stream)
    }

    /// Copies rows out of an array in stream order.
    fn cudaMemcpy2DFromArrayAsync / cudaMemcpy2DFromArrayAsync_ptsz(target: *mut c_void, pitch: usize, array: CUarray, x: usize, y: usize, width: usize, height: usize, kind: c_uint, stream: Stream) {
        let [_, is_device] = sides(kind, 0, target.addr())?;
        let to = beside_array(target.addr(), pitch, rows(width, height), is_device);
        rectangle(End::Array(array.ptr()), at(x, y), to, START, rows(width, height), stream)
    }

    /// Copies rows from array to array.
    fn cudaMemcpy2DArrayToArray / cudaMemcpy2DArrayToArray_ptds(target: CUarray, x: usize, y: usize, source: CUarray, from_x: usize, from_y: usize, width: usize, height: usize, _kind: c_uint) in stream {
        rectangle(End::Array(source.ptr()), at(from_x, from_y), End::Array(target.ptr()), at(x, y), rows(width, height), stream)?;
        wait(stream)
    }

    /// Copies bytes from array to array, in the order of their rows.
    fn cudaMemcpyArrayToArray / cudaMemcpyArrayToArray_ptds(target: CUarray, x: usize, y: usize, source: CUarray, from_x: usize, from_y: usize, bytes: usize, _kind: c_uint) in stream {
        ready()?;
        between_arrays((source.ptr(), [from_x, from_y]), (target.ptr(), [x, y]), bytes, stream)?;
        wait(stream)
    }

    /// Copies bytes into an array, in the order of its rows.
    fn cudaMemcpyToArray / cudaMemcpyToArray_ptds(array: CUarray, x: usize, y: usize, source: *const c_void, bytes: usize, kind: c_uint) in stream {
        ready()?;
        let [is_device, _] = sides(kind, source.addr(), 0)?;
        for piece in pieces(array.ptr(), [x, y], bytes)? {
            let start = source.addr().wrapping_add(piece.offset as u64);
            let from = beside_array(start, piece.size.width, piece.size, is_device);
            rectangle(from, START, End::Array(array.ptr()), piece.at, piece.size, stream)?;
        }
        wait(stream)
    }

    /// Copies bytes out of an array.
    fn cudaMemcpyFromArray / cudaMemcpyFromArray_ptds(target: *mut c_void, array: CUarray, x: usize, y: usize, bytes: usize, kind: c_uint) in stream {
        ready()?;
        let [_, is_device] = sides(kind, 0, target.addr())?;
        for piece in pieces(array.ptr(), [x, y], bytes)? {
            let start = target.addr().wrapping_add(piece.offset as u64);
            let to = beside_array(start, piece.size.width, piece.size, is_device);
            rectangle(End::Array(array.ptr()), piece.at, to, START, piece.size, stream)?;
        }
        wait(stream)
    }

    /// Copies bytes into a variable.
    fn cudaMemcpyToSymbol / cudaMemcpyToSymbol_ptds(variable: *const c_void, source: *const c_void, bytes: usize, offset: usize, kind: c_uint) in stream {
        to_symbol(variable, source.addr(), bytes, offset, kind, stream)?;
        wait(stream)
    }

    /// Copies bytes into a variable in stream order.
    fn cudaMemcpyToSymbolAsync / cudaMemcpyToSymbolAsync_ptsz(variable: *const c_void, source: *const c_void, bytes: usize, offset: usize, kind: c_uint, stream: Stream) {
        to_symbol(variable, source.addr(), bytes, offset, kind, stream)
    }

    /// Copies bytes out of a variable.
    fn cudaMemcpyFromSymbol / cudaMemcpyFromSymbol_ptds(target: *mut c_void, variable: *const c_void, bytes: usize, offset: usize, kind: c_uint) in stream {
        from_symbol(target.addr(), variable, bytes, offset, kind, stream)?;
        wait(stream)
    }

    /// Copies bytes out of a variable in stream order.
    fn cudaMemcpyFromSymbolAsync / cudaMemcpyFromSymbolAsync_ptsz(target: *mut c_void, variable: *const c_void, bytes: usize, offset: usize, kind: c_uint, stream: Stream) {
        from_symbol(target.addr(), variable, bytes, offset, kind, stream)
    }

    /// Copies bytes from device to device.
    fn cudaMemcpyPeer(target: *mut c_void, to: c_int, source: *const c_void, from: c_int, bytes: usize) {
        ready()?;
        driver!(cuMemcpyPeer(target.addr(), primary(to)?, source.addr(), primary(from)?, bytes))
    }

    /// Copies bytes from device to device in stream order.
    fn cudaMemcpyPeerAsync(target: *mut c_void, to: c_int, source: *const c_void, from: c_int, bytes: usize, stream: Stream) {
        ready()?;
        driver!(cuMemcpyPeerAsync(target.addr(), primary(to)?, source.addr(), primary(from)?, bytes, stream))
    }

    /// Copies slices of rows from device to device.
    fn cudaMemcpy3DPeer / cudaMemcpy3DPeer_ptds(copy: *const CopyPeerParams) in stream {
        ready()?;
        driver!(cuMemcpy3DPeerAsync(&of_peers(&copy.get()?)?, stream))?;
        wait(stream)
    }

    /// Copies slices of rows from device to device in stream order.
    fn cudaMemcpy3DPeerAsync / cudaMemcpy3DPeerAsync_ptsz(copy: *const CopyPeerParams, stream: Stream) {
        ready()?;
        driver!(cuMemcpy3DPeerAsync(&of_peers(&copy.get()?)?, stream))
    }

    /// Fills bytes.
    fn cudaMemset / cudaMemset_ptds(address: *mut c_void, value: c_int, bytes: usize) in stream {
        fill(address.addr(), value, bytes, stream)?;
        wait(stream)
    }

    /// Fills bytes in stream order.
    fn cudaMemsetAsync / cudaMemsetAsync_ptsz(address: *mut c_void, value: c_int, bytes: usize, stream: Stream) {
        fill(address.addr(), value, bytes, stream)
    }

    /// Fills rows.
    fn cudaMemset2D / cudaMemset2D_ptds(address: *mut c_void, pitch: usize, value: c_int, width: usize, height: usize) in stream {
        fill_rows(address.addr(), pitch, value, rows(width, height), stream)?;
        wait(stream)
    }

    /// Fills rows in stream order.
    fn cudaMemset2DAsync / cudaMemset2DAsync_ptsz(address: *mut c_void, pitch: usize, value: c_int, width: usize, height: usize, stream: Stream) {
        fill_rows(address.addr(), pitch, value, rows(width, height), stream)
    }

    /// Fills slices of rows.
    fn cudaMemset3D / cudaMemset3D_ptds(target: PitchedPointer, value: c_int, extent: Extent) in stream {
        fill_slices(target, value, extent, stream)?;
        wait(stream)
    }

    /// Fills slices of rows in stream order.
    fn cudaMemset3DAsync / cudaMemset3DAsync_ptsz(target: PitchedPointer, value: c_int, extent: Extent, stream: Stream) {
        fill_slices(target, value, extent, stream)
    }
}
