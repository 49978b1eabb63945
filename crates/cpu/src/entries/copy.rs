//! Copies and fills of consecutive bytes.

use std::ffi::{c_uint, c_void};
use std::sync::Arc;

use super::context::{self, Context};
use super::entry::{Given, entries};
use super::graph::{Kind, Work};
use super::memory::{arena, failure};
use super::status::{Answer, Status};
use super::stream::{self, Stream};
use api::{CUdeviceptr, CUstream};

/// Up to this many bytes an asynchronous copy whose turn it is costs less than
/// waking the stream's thread.
const SHORT: usize = 64 << 10;

/// One side of a copy: memory that may be accessed until the copy is done.
#[derive(Clone, Copy)]
pub(super) struct Side {
    pub(super) address: u64,
    /// The caller may use ordinary memory again as soon as the call returns,
    /// also of an asynchronous copy.
    pub(super) pageable: bool,
}

impl Side {
    /// Device memory, of which all bytes are checked.
    pub(super) fn device(address: u64, bytes: usize) -> Answer<Side> {
        if bytes > 0 {
            arena()?
                .check(address, bytes as u64)
                .map_err(|error| failure(&error))?;
        }
        Ok(Side {
            address,
            pageable: false,
        })
    }

    /// Host memory, for which the caller answers unless it is pinned.
    pub(super) fn host(address: u64, bytes: usize) -> Answer<Side> {
        if address == 0 && bytes > 0 {
            return Err(Status::INVALID_VALUE.because("the host address is null"));
        }
        Side::any(address, bytes)
    }

    /// Whatever the address says it is.
    pub(super) fn any(address: u64, bytes: usize) -> Answer<Side> {
        let arena = arena()?;
        let in_arena = address.wrapping_sub(arena.base()) < arena.size();
        if in_arena || arena.registered(address).is_some() {
            return Side::device(address, bytes);
        }
        if address < 4096 && bytes > 0 {
            return Err(Status::INVALID_VALUE.because(format!("{address:#x} is no address")));
        }
        Ok(Side {
            address,
            pageable: true,
        })
    }

    pub(super) fn pointer(self, offset: usize) -> *mut u8 {
        std::ptr::with_exposed_provenance_mut((self.address as usize).wrapping_add(offset))
    }
}

/// When a caller wants a copy done.
#[derive(Clone, Copy)]
pub(super) enum When {
    /// Before the entry returns.
    Now,
    /// In the order of the stream.
    InOrder,
}

/// Does `work` on the sides of a copy in its turn: here if the caller must
/// wait for it, because it asked to or because its memory is pageable.
pub(super) fn perform(
    (context, stream): &(Arc<Context>, Arc<Stream>),
    when: When,
    pageable: bool,
    bytes: usize,
    work: impl Fn() + Send + Sync + 'static,
) -> Answer {
    perform_as(Kind::Copy, (context, stream), when, pageable, bytes, work)
}

/// The same, and what it is in a graph, if the stream captures: there it is
/// done with each launch, with what the memory holds then.
fn perform_as(
    kind: Kind,
    (context, stream): (&Arc<Context>, &Arc<Stream>),
    when: When,
    pageable: bool,
    bytes: usize,
    work: impl Fn() + Send + Sync + 'static,
) -> Answer {
    if stream.may_capture() {
        let work: Work = Arc::new(move |_| work());
        if !stream.record(kind, || work.clone())? {
            // The capture ended meanwhile.
            stream.push(context, move |context| work(context)).wait();
        }
        return Ok(());
    }
    match when {
        When::InOrder if !pageable && bytes <= SHORT => drop(stream.soon(context, move |_| work())),
        When::InOrder if !pageable => drop(stream.push(context, move |_| work())),
        _ => {
            stream.run(context, || {
                work();
                Ok(())
            })?;
        }
    }
    Ok(())
}

pub(super) fn copy(
    stream: &(Arc<Context>, Arc<Stream>),
    when: When,
    to: Side,
    from: Side,
    bytes: usize,
) -> Answer {
    if bytes == 0 {
        return Ok(());
    }
    perform(
        stream,
        when,
        to.pageable || from.pageable,
        bytes,
        move || {
            // SAFETY: both sides were checked, or the caller answers for them; a
            // side that is freed meanwhile stays mapped with the arena. They may
            // overlap, as the sides of a move.
            unsafe { std::ptr::copy(from.pointer(0), to.pointer(0), bytes) }
        },
    )
}

/// The default stream, in which calls without a stream are ordered.
pub(super) fn default_stream() -> Answer<(Arc<Context>, Arc<Stream>)> {
    let context = context::working()?;
    context.refuse_default_stream()?;
    let stream = context.legacy.clone();
    Ok((context, stream))
}

/// What a fill writes again and again.
pub(super) trait Element: Copy + Send + Sync + 'static {}
impl Element for u8 {}
impl Element for u16 {}
impl Element for u32 {}

/// Fills `rows` rows of `count` elements that lie `pitch` bytes apart.
fn fill<T: Element>(
    (context, stream): &(Arc<Context>, Arc<Stream>),
    when: When,
    address: u64,
    pitch: usize,
    value: T,
    count: usize,
    rows: usize,
) -> Answer {
    let work = fill_work(address, pitch, value, count, rows)?;
    let bytes = count.saturating_mul(size_of::<T>()).saturating_mul(rows);
    if bytes == 0 {
        return Ok(());
    }
    perform_as(Kind::Fill, (context, stream), when, false, bytes, work)
}

/// What a fill does, once its memory is checked.
pub(super) fn fill_work<T: Element>(
    address: u64,
    pitch: usize,
    value: T,
    count: usize,
    rows: usize,
) -> Answer<impl Fn() + Send + Sync + 'static> {
    let bad = || {
        Status::INVALID_VALUE.because("a fill is misaligned, or its rows are longer than the pitch")
    };
    let row = count.checked_mul(size_of::<T>()).ok_or_else(bad)?;
    let rows = if row == 0 { 0 } else { rows };
    let pitch = if rows <= 1 { row } else { pitch };
    if rows > 0
        && (!(address as usize).is_multiple_of(size_of::<T>())
            || !pitch.is_multiple_of(size_of::<T>())
            || pitch < row)
    {
        return Err(bad());
    }
    let bytes = match rows {
        0 => 0,
        _ => pitch
            .checked_mul(rows - 1)
            .and_then(|bytes| bytes.checked_add(row))
            .ok_or_else(bad)?,
    };
    let side = Side::device(address, bytes)?;
    Ok(move || {
        for at in 0..rows {
            // SAFETY: the whole range was checked, it is aligned for `T`, and
            // device memory is nothing that Rust holds references to.
            unsafe { std::slice::from_raw_parts_mut(side.pointer(at * pitch).cast::<T>(), count) }
                .fill(value);
        }
    })
}

entries! {
    fn cuMemcpy(to: CUdeviceptr, from: CUdeviceptr, bytes: usize) {
        copy(
            &default_stream()?,
            When::Now,
            Side::any(to, bytes)?,
            Side::any(from, bytes)?,
            bytes,
        )
    }

    fn cuMemcpyAsync(to: CUdeviceptr, from: CUdeviceptr, bytes: usize, stream: CUstream) {
        copy(
            &stream::find(stream)?,
            When::InOrder,
            Side::any(to, bytes)?,
            Side::any(from, bytes)?,
            bytes,
        )
    }

    fn cuMemcpyHtoD_v2(to: CUdeviceptr, from: *const c_void, bytes: usize) {
        copy(
            &default_stream()?,
            When::Now,
            Side::device(to, bytes)?,
            host(from, bytes)?,
            bytes,
        )
    }

    fn cuMemcpyDtoH_v2(to: *mut c_void, from: CUdeviceptr, bytes: usize) {
        copy(
            &default_stream()?,
            When::Now,
            host(to, bytes)?,
            Side::device(from, bytes)?,
            bytes,
        )
    }

    fn cuMemcpyDtoD_v2(to: CUdeviceptr, from: CUdeviceptr, bytes: usize) {
        copy(
            &default_stream()?,
            When::Now,
            Side::device(to, bytes)?,
            Side::device(from, bytes)?,
            bytes,
        )
    }

    fn cuMemcpyHtoDAsync_v2(to: CUdeviceptr, from: *const c_void, bytes: usize, stream: CUstream) {
        copy(
            &stream::find(stream)?,
            When::InOrder,
            Side::device(to, bytes)?,
            host(from, bytes)?,
            bytes,
        )
    }

    fn cuMemcpyDtoHAsync_v2(to: *mut c_void, from: CUdeviceptr, bytes: usize, stream: CUstream) {
        copy(
            &stream::find(stream)?,
            When::InOrder,
            host(to, bytes)?,
            Side::device(from, bytes)?,
            bytes,
        )
    }

    fn cuMemcpyDtoDAsync_v2(to: CUdeviceptr, from: CUdeviceptr, bytes: usize, stream: CUstream) {
        copy(
            &stream::find(stream)?,
            When::InOrder,
            Side::device(to, bytes)?,
            Side::device(from, bytes)?,
            bytes,
        )
    }

    fn cuMemsetD8_v2(to: CUdeviceptr, value: u8, count: usize) {
        fill(&default_stream()?, When::Now, to, 0, value, count, 1)
    }

    fn cuMemsetD16_v2(to: CUdeviceptr, value: u16, count: usize) {
        fill(&default_stream()?, When::Now, to, 0, value, count, 1)
    }

    fn cuMemsetD32_v2(to: CUdeviceptr, value: c_uint, count: usize) {
        fill(&default_stream()?, When::Now, to, 0, value, count, 1)
    }

    fn cuMemsetD8Async(to: CUdeviceptr, value: u8, count: usize, stream: CUstream) {
        fill(
            &stream::find(stream)?,
            When::InOrder,
            to,
            0,
            value,
            count,
            1,
        )
    }

    fn cuMemsetD16Async(to: CUdeviceptr, value: u16, count: usize, stream: CUstream) {
        fill(
            &stream::find(stream)?,
            When::InOrder,
            to,
            0,
            value,
            count,
            1,
        )
    }

    fn cuMemsetD32Async(to: CUdeviceptr, value: c_uint, count: usize, stream: CUstream) {
        fill(
            &stream::find(stream)?,
            When::InOrder,
            to,
            0,
            value,
            count,
            1,
        )
    }

    fn cuMemsetD2D8Async(
        to: CUdeviceptr,
        pitch: usize,
        value: u8,
        width: usize,
        height: usize,
        stream: CUstream,
    ) {
        fill(
            &stream::find(stream)?,
            When::InOrder,
            to,
            pitch,
            value,
            width,
            height,
        )
    }

    fn cuMemsetD2D8_v2(to: CUdeviceptr, pitch: usize, value: u8, width: usize, height: usize) {
        fill(
            &default_stream()?,
            When::Now,
            to,
            pitch,
            value,
            width,
            height,
        )
    }

    fn cuMemsetD2D16Async(
        to: CUdeviceptr,
        pitch: usize,
        value: u16,
        width: usize,
        height: usize,
        stream: CUstream,
    ) {
        fill(
            &stream::find(stream)?,
            When::InOrder,
            to,
            pitch,
            value,
            width,
            height,
        )
    }

    fn cuMemsetD2D16_v2(to: CUdeviceptr, pitch: usize, value: u16, width: usize, height: usize) {
        fill(
            &default_stream()?,
            When::Now,
            to,
            pitch,
            value,
            width,
            height,
        )
    }

    fn cuMemsetD2D32Async(
        to: CUdeviceptr,
        pitch: usize,
        value: c_uint,
        width: usize,
        height: usize,
        stream: CUstream,
    ) {
        fill(
            &stream::find(stream)?,
            When::InOrder,
            to,
            pitch,
            value,
            width,
            height,
        )
    }

    fn cuMemsetD2D32_v2(to: CUdeviceptr, pitch: usize, value: c_uint, width: usize, height: usize) {
        fill(
            &default_stream()?,
            When::Now,
            to,
            pitch,
            value,
            width,
            height,
        )
    }
}

/// A caller's pointer as a side.
pub(super) fn host(pointer: Given<c_void>, bytes: usize) -> Answer<Side> {
    // The stream's thread makes the pointer anew from the address.
    Side::host(pointer.as_ptr().expose_provenance() as u64, bytes)
}
