//! Copies and fills, and the endpoints of copies.

use std::sync::Arc;

use super::context::{self, Context};
use super::device::{self, arena};
use super::node::{NodeKind, Work};
use super::status::{Result, Status};
use super::stream::Stream;
use super::user_pointer::{UserPointer, may_be_memory};
use crate::observe::{self, Direction, Event, Transfer};
use crate::sanitizer::fresh;
use api::CUdevice;

/// Up to this many bytes, an asynchronous copy that has nothing to wait for costs less
/// than waking the stream's thread.
const SHORT: usize = 64 << 10;

/// An endpoint of a copy: memory that may be accessed until the copy is done.
#[derive(Clone, Copy)]
pub(crate) struct Endpoint {
    pub(crate) address: u64,
    /// The caller may reuse pageable memory as soon as the call returns, also after an
    /// asynchronous copy.
    pub(crate) pageable: bool,
}

impl Endpoint {
    /// Device memory, of which all bytes are checked.
    pub(crate) fn device(address: u64, bytes: usize) -> Result<Endpoint> {
        if bytes > 0 {
            arena()?.check(address, bytes as u64)?;
        }
        Ok(Endpoint {
            address,
            pageable: false,
        })
    }

    /// Host memory, for which the caller answers unless it is pinned.
    pub(crate) fn host(address: u64, bytes: usize) -> Result<Endpoint> {
        if address == 0 && bytes > 0 {
            return Err(Status::INVALID_VALUE.because("the host address is null"));
        }
        Endpoint::any(address, bytes)
    }

    /// Device or host memory, as the address tells.
    pub(crate) fn any(address: u64, bytes: usize) -> Result<Endpoint> {
        let arena = arena()?;
        let in_arena = address.wrapping_sub(arena.base()) < arena.size();
        if in_arena || arena.registered(address).is_some() {
            return Endpoint::device(address, bytes);
        }
        if bytes > 0 && !may_be_memory(address as usize, bytes) {
            let detail = format!("{bytes} bytes at {address:#x} are no memory of a process");
            return Err(Status::INVALID_VALUE.because(detail));
        }
        Ok(Endpoint {
            address,
            pageable: true,
        })
    }

    pub(crate) fn pointer(self, offset: usize) -> *mut u8 {
        std::ptr::with_exposed_provenance_mut((self.address as usize).wrapping_add(offset))
    }
}

/// When a copy is done.
#[derive(Clone, Copy)]
pub(crate) enum CopyMode {
    /// Before the entry returns.
    Synchronous,
    /// In the order of the stream, which may be later.
    Asynchronous,
}

/// The direction of a copy, for the observer.
pub(crate) fn direction(to: Endpoint, from: Endpoint) -> Direction {
    let is_device = |end: Endpoint| {
        let arena = arena().ok();
        !end.pageable && arena.is_some_and(|arena| arena.device_of(end.address).is_some())
    };
    match (is_device(from), is_device(to)) {
        (true, true) => Direction::DeviceToDevice,
        (true, false) => Direction::DeviceToHost,
        (false, true) => Direction::HostToDevice,
        (false, false) => Direction::HostToHost,
    }
}

/// Work that the observer is told of.
pub(crate) fn observed(
    direction: impl Fn() -> Direction + Send + Sync + 'static,
    bytes: usize,
    work: impl Fn() + Send + Sync + 'static,
) -> impl Fn() + Send + Sync + 'static {
    move || {
        let watch = observe::start();
        work();
        watch.end(|span| {
            Event::Copy(Transfer {
                stream: observe::stream(),
                direction: direction(),
                bytes: bytes as u64,
                span,
            })
        });
    }
}

/// Does the `work` of a copy in the order of the stream: on this thread if the caller
/// waits for it, because the copy is synchronous or its memory is pageable. In a capturing stream
/// it becomes a node.
pub(crate) fn perform(
    (context, stream): &(Arc<Context>, Arc<Stream>),
    mode: CopyMode,
    pageable: bool,
    bytes: usize,
    direction: impl Fn() -> Direction + Send + Sync + 'static,
    work: impl Fn() + Send + Sync + 'static,
) -> Result {
    let work = observed(direction, bytes, work);
    perform_as(
        NodeKind::Copy,
        (context, stream),
        mode,
        pageable,
        bytes,
        work,
    )
}

/// The same; in a capturing stream it becomes a node of this kind.
fn perform_as(
    kind: NodeKind,
    (context, stream): (&Arc<Context>, &Arc<Stream>),
    mode: CopyMode,
    pageable: bool,
    bytes: usize,
    work: impl Fn() + Send + Sync + 'static,
) -> Result {
    if stream.may_capture() {
        let work: Work = Arc::new(move |_| work());
        if !stream.record(kind, || work.clone())? {
            // The capture ended meanwhile.
            stream.push(context, move |context| work(context)).wait();
        }
        return Ok(());
    }
    match mode {
        CopyMode::Asynchronous if !pageable && bytes <= SHORT => {
            drop(stream.run_or_push(context, move |_| work()))
        }
        CopyMode::Asynchronous if !pageable => drop(stream.push(context, move |_| work())),
        _ => {
            stream.run_here(context, || {
                work();
                Ok(())
            })?;
        }
    }
    Ok(())
}

pub(crate) fn copy(
    stream: &(Arc<Context>, Arc<Stream>),
    mode: CopyMode,
    to: Endpoint,
    from: Endpoint,
    bytes: usize,
) -> Result {
    if bytes == 0 {
        return Ok(());
    }
    let work = move || {
        // SAFETY: both endpoints were checked, or the caller answers for them.
        // Memory that is freed meanwhile stays mapped with the arena. `copy`
        // allows overlaps.
        unsafe { std::ptr::copy(from.pointer(0), to.pointer(0), bytes) }
        fresh::copied(to.address, from.address, bytes as u64);
    };
    let others = if stream.1.is_default() {
        contexts_between(&stream.0, to, from)?
    } else {
        Vec::new()
    };
    match mode {
        CopyMode::Asynchronous if !others.is_empty() => {
            let work = observed(move || direction(to, from), bytes, work);
            let before = others.iter().flat_map(|other| other.unfinished_of_all());
            let (context, stream) = stream;
            let done = stream.push_after(context, before.collect(), move |_| work());
            for other in others {
                let after = vec![done.clone()];
                other.default_queue().push(after, Box::new(|| ()));
            }
            Ok(())
        }
        _ => {
            others.iter().for_each(|other| other.wait());
            let pageable = to.pageable || from.pageable;
            perform(
                stream,
                mode,
                pageable,
                bytes,
                move || direction(to, from),
                work,
            )
        }
    }
}

/// The contexts beside the current one that a copy in the default stream is ordered with: those
/// of both devices, if the memory is that of two. It starts when all work of both is done, and
/// what their streams get later starts after it.
fn contexts_between(
    context: &Arc<Context>,
    to: Endpoint,
    from: Endpoint,
) -> Result<Vec<Arc<Context>>> {
    if device::count() == 1 {
        return Ok(Vec::new());
    }
    let arena = arena()?;
    Ok(
        match (arena.device_of(to.address), arena.device_of(from.address)) {
            (Some(to), Some(from)) if to != from => {
                context::others_of([to, from].map(|device| device as CUdevice), context)
            }
            _ => Vec::new(),
        },
    )
}

/// An element that a fill writes.
pub(crate) trait Element: Copy + Send + Sync + 'static {}
impl Element for u8 {}
impl Element for u16 {}
impl Element for u32 {}

/// Fills `rows` rows of `count` elements that lie `pitch` bytes apart.
pub(crate) fn fill<T: Element>(
    (context, stream): &(Arc<Context>, Arc<Stream>),
    mode: CopyMode,
    address: u64,
    pitch: usize,
    value: T,
    count: usize,
    rows: usize,
) -> Result {
    let work = fill_work(address, pitch, value, count, rows)?;
    let bytes = count.saturating_mul(size_of::<T>()).saturating_mul(rows);
    if bytes == 0 {
        return Ok(());
    }
    perform_as(NodeKind::Fill, (context, stream), mode, false, bytes, work)
}

/// The work of a fill, whose memory is checked now.
pub(crate) fn fill_work<T: Element>(
    address: u64,
    pitch: usize,
    value: T,
    count: usize,
    rows: usize,
) -> Result<impl Fn() + Send + Sync + 'static> {
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
    let memory = Endpoint::device(address, bytes)?;
    let work = move || {
        for at in 0..rows {
            let row = memory.pointer(at * pitch).cast::<T>();
            for index in 0..count {
                // SAFETY: the whole range was checked, and it is aligned for `T`. No reference
                // is made: kernels may access the memory meanwhile.
                unsafe { row.add(index).write(value) };
            }
            let start = memory.address + (at * pitch) as u64;
            fresh::wrote(start, (count * size_of::<T>()) as u64);
        }
    };
    Ok(observed(|| Direction::Fill, row * rows, work))
}

/// An endpoint in host memory, from a caller's pointer.
pub(crate) fn host(pointer: UserPointer<std::ffi::c_void>, bytes: usize) -> Result<Endpoint> {
    // The stream's thread makes the pointer anew from the address.
    Endpoint::host(pointer.as_ptr().expose_provenance() as u64, bytes)
}
