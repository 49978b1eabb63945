//! Memory: device, pinned and managed, all in the one arena.

use std::collections::BTreeMap;
use std::ffi::{c_uint, c_void};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::context::{self, Context};
use super::device::engine;
use super::entry::entries;
use super::status::{Answer, Failure, Status};
use super::stream;
use super::{managed, pool};
use crate::memory::{DeviceMemory, MemoryError, Purpose};
use api::{CUdeviceptr, CUstream};

/// Allocations begin at multiples of this.
const ALIGNMENT: u64 = 256;

/// Rows of pitched memory begin at multiples of this.
const PITCH: usize = 512;

/// The memory of all devices.
pub(super) fn arena() -> Answer<&'static Arc<DeviceMemory>> {
    Ok(engine()?.memory())
}

/// Total bytes of memory.
pub(super) fn total() -> Answer<usize> {
    Ok(arena()?.size() as usize)
}

/// The number for what memory could not do.
pub(super) fn failure(error: &MemoryError) -> Failure {
    let status = match error {
        MemoryError::Reserve { .. } | MemoryError::OutOfMemory { .. } => Status::OUT_OF_MEMORY,
        MemoryError::Registration {
            state: "already", ..
        } => Status::HOST_MEMORY_ALREADY_REGISTERED,
        MemoryError::Registration { .. } => Status::HOST_MEMORY_NOT_REGISTERED,
        _ => Status::INVALID_VALUE,
    };
    status.because(error.to_string())
}

/// What the API knows of an allocation, or of a range of registered memory.
#[derive(Clone, Copy)]
pub(super) struct Owned {
    /// `Context::id`
    pub(super) context: usize,
    pub(super) device: i32,
    /// As `cuMemHostAlloc`, `cuMemAllocManaged` or `cuMemHostRegister` got them.
    pub(super) flags: c_uint,
    /// A number that no other allocation has or had.
    pub(super) buffer: u64,
    registered: bool,
    /// The handle of the pool that it came from, or 0.
    pub(super) pool: usize,
    /// Whether synchronous copies of it always wait: here they do anyway.
    pub(super) synchronous: bool,
}

/// By first address.
static OWNED: Mutex<BTreeMap<u64, Owned>> = Mutex::new(BTreeMap::new());

fn owned() -> MutexGuard<'static, BTreeMap<u64, Owned>> {
    OWNED.lock().unwrap_or_else(PoisonError::into_inner)
}

fn own(start: u64, context: &Context, flags: c_uint, registered: bool, pool: usize) {
    let buffer = super::handle::reserve() as u64;
    owned().insert(
        start,
        Owned {
            context: context.id(),
            device: context.device(),
            flags,
            buffer,
            registered,
            pool,
            synchronous: false,
        },
    );
}

/// Who owns the allocation or registered range that begins at `start`.
pub(super) fn owner(start: u64) -> Option<Owned> {
    owned().get(&start).copied()
}

/// Remembers whether synchronous copies of an allocation always wait.
pub(super) fn set_synchronous(start: u64, always: bool) {
    if let Some(owned) = owned().get_mut(&start) {
        owned.synchronous = always;
    }
}

/// Frees what a context allocated and registered.
pub(super) fn free_all(context: &Context) {
    let Ok(arena) = arena() else { return };
    let gone: Vec<_> = owned()
        .extract_if(.., |_, owned| owned.context == context.id())
        .collect();
    for (start, owned) in gone {
        // Both were found in the books a moment ago; if they are gone by
        // another thread's hand, that is what was wanted.
        let _ = if owned.registered {
            arena.unregister(start)
        } else {
            let bytes = arena.range_of(start).map_or(0, |found| found.size);
            pool::freed(owned.pool, bytes);
            managed::forget(start);
            arena.free(start)
        };
    }
}

pub(super) fn allocate(
    context: &Context,
    bytes: usize,
    purpose: Purpose,
    flags: c_uint,
) -> Answer<u64> {
    allocate_from(0, context, bytes, purpose, flags)
}

pub(super) fn allocate_from(
    pool: usize,
    context: &Context,
    bytes: usize,
    purpose: Purpose,
    flags: c_uint,
) -> Answer<u64> {
    if bytes == 0 {
        return Err(Status::INVALID_VALUE.because("0 bytes asked for"));
    }
    let start = arena()?.allocate(bytes as u64, ALIGNMENT, purpose);
    // Also a size that no memory could have.
    let start = start.map_err(|error| Status::OUT_OF_MEMORY.because(error.to_string()))?;
    own(start, context, flags, false, pool);
    if purpose == Purpose::Device {
        arena()?.restrict(start, context.device() as usize); // a device's number is not negative
    }
    Ok(start)
}

/// In place of a pool's handle: the memory is a graph's, which frees it.
const OF_GRAPH: usize = usize::MAX;

/// Memory for a graph to allocate.
pub(super) fn allocate_of_graph(context: &Context, bytes: usize) -> Answer<u64> {
    allocate_from(OF_GRAPH, context, bytes, Purpose::Device, 0)
}

/// The graph and what was made of it are gone.
pub(super) fn free_of_graph(start: u64) {
    // With its context it may have gone before.
    if let (Some(_), Ok(arena)) = (owned().remove(&start), arena()) {
        let _ = arena.free(start); // it was live a moment ago
    }
}

/// Takes an allocation of one of these purposes out of the books, so that it
/// cannot be freed twice; its bytes are still to be freed. Gives its pool and
/// its bytes.
fn disown(start: u64, purposes: &[Purpose]) -> Answer<(usize, u64)> {
    let arena = arena()?;
    let found = arena
        .range_of(start)
        .filter(|found| found.start == start && purposes.contains(&found.purpose));
    let gone = found.and_then(|found| {
        let mut owned = owned();
        let pool = owned.get(&start)?.pool;
        if pool == OF_GRAPH {
            return None;
        }
        owned.remove(&start);
        Some((pool, found.size))
    });
    managed::forget(start);
    gone.ok_or_else(|| {
        let what = arena.describe(start);
        Status::INVALID_VALUE.because(format!("{start:#x} cannot be freed here: {what}"))
    })
}

/// What `cuMemFree` and `cuMemFreeAsync` take.
const OF_DEVICE: &[Purpose] = &[Purpose::Device, Purpose::Managed];

entries! {
    fn cuMemGetInfo_v2(free: *mut usize, all: *mut usize) {
        context::working()?;
        free.put(arena()?.free_bytes() as usize)?;
        all.put(total()?)
    }

    fn cuMemAlloc_v2(address: *mut CUdeviceptr, bytes: usize) {
        let context = context::working()?;
        if address.is_null() {
            return Err(Status::INVALID_VALUE.into());
        }
        address.put(allocate(&context, bytes, Purpose::Device, 0)?)
    }

    fn cuMemAllocPitch_v2(
        address: *mut CUdeviceptr,
        pitch: *mut usize,
        width: usize,
        height: usize,
        element: c_uint,
    ) {
        let context = context::working()?;
        if address.is_null() || pitch.is_null() || !matches!(element, 4 | 8 | 16) {
            return Err(
                Status::INVALID_VALUE.because("elements of pitched memory have 4, 8 or 16 bytes")
            );
        }
        let row = width
            .checked_next_multiple_of(PITCH)
            .ok_or(Status::INVALID_VALUE)?;
        let bytes = row.checked_mul(height).ok_or(Status::INVALID_VALUE)?;
        address.put(allocate(&context, bytes, Purpose::Device, 0)?)?;
        pitch.put(row)
    }

    fn cuMemAllocManaged(address: *mut CUdeviceptr, bytes: usize, flags: c_uint) {
        let context = context::working()?;
        // CU_MEM_ATTACH_GLOBAL or _HOST
        if address.is_null() || !matches!(flags, 1 | 2) {
            return Err(Status::INVALID_VALUE
                .because("managed memory is attached globally (1) or to the host (2)"));
        }
        address.put(allocate(&context, bytes, Purpose::Managed, flags)?)
    }

    /// Waits for all work first, which may still use the memory.
    fn cuMemFree_v2(address: CUdeviceptr) {
        let context = context::working()?;
        let (pool, bytes) = disown(address, OF_DEVICE)?;
        context.wait();
        arena()?.free(address).map_err(|error| failure(&error))?;
        pool::freed(pool, bytes);
        context.settle()
    }

    fn cuMemFreeAsync(address: CUdeviceptr, stream: CUstream) {
        let (context, stream) = stream::find(stream)?;
        stream.refuse_captured("graphs of the CPU device allocate by nodes alone")?;
        let (pool, bytes) = disown(address, OF_DEVICE)?;
        let arena = arena()?;
        stream.soon(&context, move |_| {
            let _ = arena.free(address); // it was live when it was disowned, by this thread alone
            pool::freed(pool, bytes);
        });
        Ok(())
    }

    fn cuMemGetAddressRange_v2(start: *mut CUdeviceptr, bytes: *mut usize, address: CUdeviceptr) {
        context::working()?;
        let found = arena()?
            .range_of(address)
            .ok_or_else(|| Status::NOT_FOUND.because("no allocation holds this address"))?;
        start.put_if_asked(found.start);
        bytes.put_if_asked(found.size as usize);
        Ok(())
    }

    fn cuMemHostAlloc(address: *mut *mut c_void, bytes: usize, flags: c_uint) {
        let context = context::working()?;
        // CU_MEMHOSTALLOC_PORTABLE, _DEVICEMAP, _WRITECOMBINED
        if address.is_null() || flags & !7 != 0 {
            return Err(Status::INVALID_VALUE
                .because("unknown flags of pinned memory, or nowhere to put its address"));
        }
        let start = allocate(&context, bytes, Purpose::Host, flags)?;
        address.put(std::ptr::with_exposed_provenance_mut(start as usize))
    }

    fn cuMemFreeHost(address: *mut c_void) {
        let context = context::working()?;
        let start = address.addr() as u64;
        disown(start, &[Purpose::Host])?;
        context.wait();
        arena()?.free(start).map_err(|error| failure(&error))
    }

    /// Kernels use the host's own addresses.
    fn cuMemHostGetDevicePointer_v2(device: *mut CUdeviceptr, host: *mut c_void, flags: c_uint) {
        context::working()?;
        let arena = arena()?;
        let address = host.addr() as u64;
        let pinned = arena
            .range_of(address)
            .is_some_and(|found| found.purpose == Purpose::Host);
        if flags != 0 || !(pinned || arena.registered(address).is_some()) {
            return Err(Status::INVALID_VALUE.because("the address is not in pinned memory"));
        }
        device.put(address)
    }

    fn cuMemHostGetFlags(flags: *mut c_uint, host: *mut c_void) {
        context::working()?;
        let arena = arena()?;
        let address = host.addr() as u64;
        let pinned = arena
            .range_of(address)
            .filter(|found| found.purpose == Purpose::Host)
            .map(|found| found.start);
        let start = pinned.or_else(|| arena.registered(address).map(|(start, _)| start));
        match start.and_then(owner) {
            Some(owned) => flags.put(owned.flags),
            None => Err(Status::INVALID_VALUE.because("the address is not in pinned memory")),
        }
    }

    fn cuMemHostRegister_v2(host: *mut c_void, bytes: usize, flags: c_uint) {
        let context = context::working()?;
        if host.is_null() || flags & !0xf != 0 {
            return Err(Status::INVALID_VALUE.because("no memory to register, or unknown flags"));
        }
        let start = host.addr() as u64;
        let arena = arena()?;
        if arena.range_of(start).is_some() {
            return Err(
                Status::HOST_MEMORY_ALREADY_REGISTERED.because("the memory is the device's own")
            );
        }
        host.as_ptr().expose_provenance(); // kernels make pointers from the address
        // SAFETY: the caller of the entry answers for the memory until it unregisters it.
        unsafe { arena.register(start, bytes as u64) }.map_err(|error| failure(&error))?;
        own(start, &context, flags, true, 0);
        Ok(())
    }

    fn cuMemHostUnregister(host: *mut c_void) {
        let context = context::working()?;
        let start = host.addr() as u64;
        context.wait();
        arena()?
            .unregister(start)
            .map_err(|error| failure(&error))?;
        owned().remove(&start);
        Ok(())
    }
}
