//! Device, pinned, managed and registered memory.

use std::ffi::{c_uint, c_void};

use super::entry::entries;
use super::graph_memory::free_captured;
use crate::memory::Purpose;
use crate::state::device::{self, arena};
use crate::state::status::{Result, Status};
use crate::state::user_pointer::{UserPointer, may_be_memory};
use crate::state::{capture, context, graph_memory, ipc, memory, pool, stream, virtual_memory};
use api::{CUdeviceptr, CUstream};

/// Rows of pitched memory begin at multiples of this.
const PITCH: usize = 512;

/// `CU_MEMHOSTALLOC_DEVICEMAP`, which pinned memory always has.
const DEVICE_MAP: c_uint = 2;

/// What `cuMemFree` and `cuMemFreeAsync` take.
const OF_DEVICE: &[Purpose] = &[Purpose::Device, Purpose::Managed];

fn allocate_pinned(address: UserPointer<*mut c_void>, bytes: usize, flags: c_uint) -> Result {
    let context = context::working()?;
    // CU_MEMHOSTALLOC_PORTABLE, _DEVICEMAP, _WRITECOMBINED
    if address.is_null() || flags & !7 != 0 {
        return Err(Status::INVALID_VALUE
            .because("unknown flags of pinned memory, or the pointer for its address is null"));
    }
    if bytes == 0 {
        return address.put(std::ptr::null_mut());
    }
    let start = memory::allocate(&context, bytes, Purpose::Host, flags | DEVICE_MAP)?;
    address.put(std::ptr::with_exposed_provenance_mut(start as usize))
}

/// Whether another process's memory in a pool, which is freed here, is open more often.
fn is_still_open(address: CUdeviceptr) -> bool {
    memory::info(address).is_some_and(|info| info.pool != 0) && ipc::closed(address) == Some(false)
}

entries! {
    fn cuMemGetInfo_v2(free: *mut usize, all: *mut usize) {
        context::working()?;
        free.put_optional(arena()?.free_bytes() as usize);
        all.put_optional(device::total()?);
        Ok(())
    }

    capture_unsafe cuMemAlloc_v2(address: *mut CUdeviceptr, bytes: usize) {
        let context = context::working()?;
        if address.is_null() {
            return Err(Status::INVALID_VALUE.into());
        }
        address.put(memory::allocate(&context, bytes, Purpose::Device, 0)?)
    }

    capture_unsafe cuMemAllocPitch_v2(
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
        address.put(memory::allocate(&context, bytes, Purpose::Device, 0)?)?;
        pitch.put(row)
    }

    capture_unsafe cuMemAllocManaged(address: *mut CUdeviceptr, bytes: usize, flags: c_uint) {
        let context = context::working()?;
        // CU_MEM_ATTACH_GLOBAL or _HOST
        if address.is_null() || !matches!(flags, 1 | 2) {
            return Err(Status::INVALID_VALUE
                .because("managed memory is attached globally (1) or to the host (2)"));
        }
        address.put(memory::allocate(&context, bytes, Purpose::Managed, flags)?)
    }

    /// Waits for all work first, which may still use the memory.
    capture_unsafe cuMemFree_v2(address: CUdeviceptr) {
        // Freeing null needs no context, but fails after a fault.
        if address == 0 {
            return context::top().map_or(Ok(()), |_| context::working().map(drop));
        }
        let context = context::working()?;
        if graph_memory::is_live(address) {
            let freed = graph_memory::release(address)?;
            context.wait();
            freed.free();
            return context.finish_wait();
        }
        if is_still_open(address) {
            return Ok(());
        }
        let (pool, bytes) = memory::remove(address, OF_DEVICE)?;
        context.wait();
        arena()?.free(address)?;
        pool::freed(pool, bytes);
        context.finish_wait()
    }

    fn cuMemFreeAsync(address: CUdeviceptr, stream: CUstream) {
        let (context, stream) = stream::find(stream.addr())?;
        if address == 0 {
            return Ok(());
        }
        if free_captured(&stream, address)? {
            return Ok(());
        }
        capture::refuse_unsafe_call()?;
        if graph_memory::is_live(address) {
            let freed = graph_memory::release(address)?;
            stream.run_or_push(&context, move |_| freed.free());
            return Ok(());
        }
        if is_still_open(address) {
            return Ok(());
        }
        let (pool, bytes) = memory::remove(address, OF_DEVICE)?;
        let arena = arena()?;
        stream.run_or_push(&context, move |_| {
            let _ = arena.free(address); // only this thread has removed its entry
            pool::freed(pool, bytes);
        });
        Ok(())
    }

    fn cuMemGetAddressRange_v2(start: *mut CUdeviceptr, bytes: *mut usize, address: CUdeviceptr) {
        context::working()?;
        let found = arena()?
            .range_of(address)
            .ok_or_else(|| Status::NOT_FOUND.because("no allocation holds this address"))?;
        let mapped = virtual_memory::mapped(address);
        let (first, size) = match (found.purpose, mapped) {
            (Purpose::Reserved, Some(mapped)) => (mapped.start, mapped.bytes),
            _ => (found.start, found.size),
        };
        start.put_optional(first);
        bytes.put_optional(size as usize);
        Ok(())
    }

    capture_unsafe cuMemHostAlloc(address: *mut *mut c_void, bytes: usize, flags: c_uint) {
        allocate_pinned(address, bytes, flags)
    }

    capture_unsafe cuMemAllocHost_v2(address: *mut *mut c_void, bytes: usize) {
        allocate_pinned(address, bytes, 0)
    }

    capture_unsafe cuMemFreeHost(address: *mut c_void) {
        let context = context::working()?;
        if address.is_null() {
            return Ok(());
        }
        let start = address.addr() as u64;
        memory::remove(start, &[Purpose::Host])?;
        context.wait();
        Ok(arena()?.free(start)?)
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
            .filter(|found| matches!(found.purpose, Purpose::Host | Purpose::Managed))
            .map(|found| found.start);
        let start = pinned.or_else(|| arena.registered(address).map(|(start, _)| start));
        match start.and_then(memory::info) {
            Some(info) => flags.put(info.flags),
            None => Err(Status::INVALID_VALUE.because("the address is not in pinned memory")),
        }
    }

    capture_unsafe cuMemHostRegister_v2(host: *mut c_void, bytes: usize, flags: c_uint) {
        let context = context::working()?;
        if !may_be_memory(host.addr(), bytes) || flags & !0xf != 0 {
            return Err(Status::INVALID_VALUE.because("no memory to register, or unknown flags"));
        }
        let start = host.addr() as u64;
        if arena()?.range_of(start).is_some() {
            return Err(
                Status::INVALID_VALUE.because("the driver allocated this memory; register memory of the host")
            );
        }
        host.as_ptr().expose_provenance(); // kernels form pointers from the address
        memory::register(&context, start, bytes, flags | DEVICE_MAP)
    }

    capture_unsafe cuMemHostUnregister(host: *mut c_void) {
        let context = context::working()?;
        let start = host.addr() as u64;
        let within = arena()?.registered(start);
        if within.is_some_and(|(first, _)| first != start) {
            return Err(Status::INVALID_VALUE.because("the registered memory begins before this address"));
        }
        if start == 0 || within.is_none() && arena()?.range_of(start).is_some() {
            return Err(Status::INVALID_VALUE
                .because("the address is null, or the driver allocated it; cuMemFreeHost frees pinned memory"));
        }
        context.wait();
        memory::unregister(start)
    }
}
