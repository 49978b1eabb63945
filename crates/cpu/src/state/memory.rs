//! Allocations: device, pinned and managed memory, all in one arena, and the context
//! that each belongs to.

use std::collections::BTreeMap;
use std::ffi::c_uint;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::context::Context;
use super::device::arena;
use super::handle;
use super::managed;
use super::pool::{self, Sharing};
use super::status::{Result, Status};
use crate::memory::{Purpose, page_size};
use crate::sanitizer::fresh;
use api::CUdevice;

/// Allocations begin at multiples of this, those of a device at a page, so that they can be
/// shared with other processes: so does the memory of pools that are.
const ALIGNMENT: u64 = 256;

/// What is stored about an allocation, or about a range of registered memory.
#[derive(Clone, Copy)]
pub(crate) struct AllocationInfo {
    /// `Context::id`
    context: usize,
    /// The context's handle.
    pub(crate) context_handle: usize,
    pub(crate) device: i32,
    /// The flags of `cuMemHostAlloc`, `cuMemAllocManaged` or `cuMemHostRegister`.
    pub(crate) flags: c_uint,
    /// A number that no other allocation has or had.
    pub(crate) buffer: u64,
    registered: bool,
    /// The handle of the pool that it came from, or 0.
    pub(crate) pool: usize,
    /// `CU_POINTER_ATTRIBUTE_SYNC_MEMOPS`, without effect: synchronous copies always wait.
    pub(crate) synchronous: bool,
}

/// By first address.
static ALLOCATIONS: Mutex<BTreeMap<u64, AllocationInfo>> = Mutex::new(BTreeMap::new());

fn allocations() -> MutexGuard<'static, BTreeMap<u64, AllocationInfo>> {
    ALLOCATIONS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the number of the allocation.
fn insert(start: u64, context: &Context, flags: c_uint, registered: bool, pool: usize) -> u64 {
    let buffer = handle::reserve() as u64;
    allocations().insert(
        start,
        AllocationInfo {
            context: context.id(),
            context_handle: context.handle(),
            device: context.device(),
            flags,
            buffer,
            registered,
            pool,
            synchronous: false,
        },
    );
    buffer
}

/// What is stored about the allocation or registered range that begins at `start`.
pub(crate) fn info(start: u64) -> Option<AllocationInfo> {
    allocations().get(&start).copied()
}

/// Sets whether synchronous copies of an allocation always wait.
pub(crate) fn set_synchronous(start: u64, always: bool) {
    if let Some(info) = allocations().get_mut(&start) {
        info.synchronous = always;
    }
}

/// Frees what a context allocated and registered.
pub(crate) fn free_all(context: &Context) {
    let Ok(arena) = arena() else { return };
    let freed: Vec<_> = allocations()
        .extract_if(.., |_, info| info.context == context.id())
        .collect();
    for (start, info) in freed {
        // They were live a moment ago; another thread may have freed them since.
        let _ = if info.registered {
            arena.unregister(start)
        } else {
            let bytes = arena.range_of(start).map_or(0, |found| found.size);
            pool::freed(info.pool, bytes);
            managed::forget(start);
            arena.free(start)
        };
    }
}

pub(crate) fn allocate(
    context: &Context,
    bytes: usize,
    purpose: Purpose,
    flags: c_uint,
) -> Result<u64> {
    Ok(allocate_from(0, context, bytes, purpose, flags)?.0)
}

/// Addresses for what another process allocated in a pool, or without one (0).
pub(crate) fn allocate_imported(
    pool: usize,
    context: &Context,
    bytes: usize,
    purpose: Purpose,
) -> Result<u64> {
    Ok(allocate_from(pool, context, bytes, purpose, 0)?.0)
}

/// Memory from a pool, for a context of the pool's device.
pub(crate) fn allocate_from_pool(pool: usize, context: &Context, bytes: usize) -> Result<u64> {
    let found = pool::get(pool)?;
    // In the order of a stream, nothing may be allocated.
    let bytes = bytes.max(1);
    // CU_MEM_ATTACH_GLOBAL
    let flags = u32::from(found.place.0 == Purpose::Managed);
    found.allocate(context.device(), bytes, || {
        Ok(allocate_from(pool, context, bytes, found.place.0, flags)?.0)
    })
}

/// Returns the address and the number of the allocation.
fn allocate_from(
    pool: usize,
    context: &Context,
    bytes: usize,
    purpose: Purpose,
    flags: c_uint,
) -> Result<(u64, u64)> {
    if bytes == 0 {
        return Err(Status::INVALID_VALUE.because("an allocation of 0 bytes"));
    }
    let is_of_device = matches!(purpose, Purpose::Device | Purpose::Imported);
    let is_shared = pool::get(pool).is_ok_and(|pool| pool.sharing != Sharing::Private);
    let has_pages = is_of_device || is_shared;
    let alignment = if has_pages { page_size() } else { ALIGNMENT };
    let start = arena()?.allocate(bytes as u64, alignment, purpose);
    // Also for a size that no memory could have.
    let start = start.map_err(|error| Status::OUT_OF_MEMORY.because(error.to_string()))?;
    let buffer = insert(start, context, flags, false, pool);
    if purpose == Purpose::Device {
        fresh::allocated(start, bytes as u64);
    }
    if is_of_device {
        restrict(start, context.device(), pool)?;
    }
    Ok((start, buffer))
}

/// Lets a device access an allocation, and others as its pool says, or else as peers.
fn restrict(start: u64, device: CUdevice, pool: usize) -> Result {
    let (arena, device) = (arena()?, device as usize); // a device's number is not negative
    match pool::get(pool) {
        Ok(pool) => arena.restrict_to(start, device, pool.open_to.load(Ordering::Relaxed)),
        Err(_) => arena.restrict(start, device),
    }
    Ok(())
}

/// Gives all memory of a pool the access that it has now.
pub(crate) fn restrict_all(pool: usize) -> Result {
    let all = allocations();
    let of_pool = all.iter().filter(|(_, info)| info.pool == pool);
    for (&start, info) in of_pool {
        restrict(start, info.device, pool)?;
    }
    Ok(())
}

/// In place of a pool's handle: the memory belongs to a graph.
const OF_GRAPH: usize = usize::MAX;

/// Memory that a graph allocates and frees: its address and the number of the allocation.
pub(crate) fn allocate_for_graph(
    context: &Context,
    bytes: usize,
    purpose: Purpose,
) -> Result<(u64, u64)> {
    allocate_from(OF_GRAPH, context, bytes, purpose, 0)
}

/// Frees it after the graph and what was made of it are dropped.
pub(crate) fn free_of_graph(start: u64, buffer: u64) {
    let removed = {
        let mut allocations = allocations();
        // It may have been freed with its context, and the address be another's.
        let is_there = allocations
            .get(&start)
            .is_some_and(|info| info.buffer == buffer);
        is_there.then(|| allocations.remove(&start))
    };
    if let (Some(_), Ok(arena)) = (removed, arena()) {
        let _ = arena.free(start); // it was live a moment ago
    }
}

/// Removes the entry of an allocation of one of these purposes or of a pool, so that it cannot be
/// freed twice; the caller frees its memory. Returns its pool and its bytes.
pub(crate) fn remove(start: u64, purposes: &[Purpose]) -> Result<(usize, u64)> {
    let arena = arena()?;
    let found = arena.range_of(start).filter(|found| found.start == start);
    let removed = found.and_then(|found| {
        let mut allocations = allocations();
        let pool = allocations.get(&start)?.pool;
        // A pool's memory is freed like a device's, also where it is the host's.
        if pool == OF_GRAPH || pool == 0 && !purposes.contains(&found.purpose) {
            return None;
        }
        allocations.remove(&start);
        Some((pool, found.size))
    });
    managed::forget(start);
    removed.ok_or_else(|| {
        let what = arena.describe(start);
        Status::INVALID_VALUE.because(format!("{start:#x} cannot be freed here: {what}"))
    })
}

/// Registers host memory, which kernels can then access.
pub(crate) fn register(context: &Context, start: u64, bytes: usize, flags: c_uint) -> Result {
    // SAFETY: the caller of the entry answers for the memory until it unregisters it.
    unsafe { arena()?.register(start, bytes as u64) }?;
    insert(start, context, flags, true, 0);
    Ok(())
}

pub(crate) fn unregister(start: u64) -> Result {
    arena()?.unregister(start)?;
    allocations().remove(&start);
    Ok(())
}
