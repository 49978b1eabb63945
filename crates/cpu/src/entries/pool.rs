//! Memory pools.

use std::ffi::{c_int, c_uint, c_void};
use std::ops::RangeInclusive;
use std::sync::atomic::Ordering;

use super::descriptor::{FABRIC, FILE_DESCRIPTOR};
use super::entry::entries;
use super::graph_memory;
use crate::memory::Purpose;
use crate::state::handle::pointer;
use crate::state::pool::{Place, Sharing};
use crate::state::status::{Result, Status};
use crate::state::{capture, device, memory, pool, stream};
use api::{
    CUdevice, CUdeviceptr, CUmemoryPool, CUstream, MemAccessDesc, MemLocation, MemPoolProps,
};

/// `CU_MEM_LOCATION_TYPE_DEVICE`, `_HOST`, `_HOST_NUMA` and `_HOST_NUMA_CURRENT`
const DEVICE: c_uint = 1;
const HOST: RangeInclusive<c_uint> = 2..=4;
/// `CU_MEM_ALLOCATION_TYPE_PINNED` and `_MANAGED`, `CU_MEM_ACCESS_FLAGS_PROT_READWRITE`
const PINNED: c_uint = 1;
const MANAGED: c_uint = 2;
const READ_WRITE: c_uint = 3;

/// The device that a location names; `None` for the host, which reaches all but what is a
/// device's alone.
fn device_of(location: MemLocation) -> Result<Option<CUdevice>> {
    if HOST.contains(&location.kind) {
        return Ok(None);
    }
    if location.kind != DEVICE {
        return Err(Status::INVALID_VALUE.because("the location of a pool is a device or the host"));
    }
    device::check_location(location.id)?;
    Ok(Some(location.id))
}

/// What memory of this kind and location is for. That of the host, and managed memory, belong
/// to all devices alike.
fn place(location: MemLocation, kind: c_uint) -> Result<Place> {
    match kind {
        // CU_MEM_LOCATION_TYPE_NONE: the driver chooses.
        MANAGED if location.kind == 0 => Ok((Purpose::Managed, 0)),
        MANAGED => device_of(location).map(|_| (Purpose::Managed, 0)),
        PINNED => Ok(match device_of(location)? {
            Some(device) => (Purpose::Device, device),
            None => (Purpose::Host, 0),
        }),
        _ => Err(Status::INVALID_VALUE.because("pools have pinned (1) or managed (2) memory")),
    }
}

/// Makes a pool that of its place.
fn set_current(place: Place, handle: usize) -> Result {
    pool::of_place(place)?;
    if pool::find(handle)?.place != place {
        return Err(Status::INVALID_VALUE.because("the pool is another device's"));
    }
    pool::set_current(place, handle);
    Ok(())
}

entries! {
    capture_unsafe cuMemPoolCreate(result: *mut CUmemoryPool, properties: *const MemPoolProps) {
        let properties = properties.get()?;
        let place = place(properties.location, properties.alloc_type)?;
        if result.is_null() {
            return Err(Status::INVALID_VALUE.because("the pointer for the pool is null"));
        }
        let sharing = match properties.handle_types {
            0 | FABRIC => Sharing::Private,
            FILE_DESCRIPTOR if cfg!(unix) && place.0 != Purpose::Managed => Sharing::Shareable,
            _ => return Err(Status::NOT_SUPPORTED
                .because("processes share pools of pinned memory, by descriptors of files (1)")),
        };
        result.put(pointer(pool::create(place, properties.max_size as u64, sharing)))
    }

    fn cuMemPoolDestroy(handle: CUmemoryPool) {
        pool::destroy(handle.addr())
    }

    capture_unsafe cuMemPoolTrimTo(handle: CUmemoryPool, keep: usize) {
        pool::find(handle.addr())?.state().trim(keep as u64);
        Ok(())
    }

    capture_unsafe cuMemPoolGetAttribute(handle: CUmemoryPool, number: c_uint, value: *mut c_void) {
        let pool = pool::find(handle.addr())?;
        let state = pool.state();
        let bytes = match number {
            1..=3 => return value.cast::<c_int>().put(state.reuse[number as usize - 1]),
            4 => state.threshold,
            5 => state.reserved,
            6 => state.reserved_high,
            7 => state.used,
            8 => state.used_high,
            _ => return Err(Status::INVALID_VALUE
                .because(format!("no pool attribute has the number {number}"))),
        };
        value.cast::<u64>().put(bytes)
    }

    capture_unsafe cuMemPoolSetAttribute(handle: CUmemoryPool, number: c_uint, value: *mut c_void) {
        let pool = pool::find(handle.addr())?;
        let mut state = pool.state();
        match number {
            1..=3 => {
                let open = value.cast::<c_int>().get()?;
                state.reuse[number as usize - 1] = c_int::from(open != 0);
            }
            4 => state.threshold = value.cast::<u64>().get()?,
            6 | 8 if value.cast::<u64>().get()? != 0 => {
                return Err(Status::INVALID_VALUE.because("a high-water mark is set to 0 alone"));
            }
            6 => state.reserved_high = state.reserved,
            8 => state.used_high = state.used,
            _ => return Err(Status::INVALID_VALUE
                .because(format!("no pool attribute with the number {number} can be set"))),
        }
        Ok(())
    }

    fn cuMemPoolSetAccess(handle: CUmemoryPool, map: *const MemAccessDesc, count: usize) {
        let pool = pool::find(handle.addr())?;
        let mut open_to = pool.open_to.load(Ordering::Relaxed);
        for desc in map.slice(count)? {
            match (desc.flags, device_of(desc.location)?) {
                _ if pool.place.0 != Purpose::Device && matches!(desc.flags, 0..=READ_WRITE) => {}
                (READ_WRITE, Some(device)) => open_to |= 1 << device,
                (READ_WRITE, None) => return Err(Status::NOT_SUPPORTED
                    .because("the host does not reach a device's pool")),
                (0, Some(device)) if device == pool.place.1 => return Err(Status::INVALID_DEVICE
                    .because("a pool's own device always reaches it")),
                (0, device) => open_to &= device.map_or(!0, |device| !(1 << device)),
                _ => return Err(Status::INVALID_VALUE
                    .because("a device reaches a pool to read and write (3), or not (0)")),
            }
        }
        // Nothing is allocated from it meanwhile.
        let _state = pool.state();
        pool.open_to.store(open_to, Ordering::Relaxed);
        memory::restrict_all(handle.addr())
    }

    fn cuMemPoolGetAccess(flags: *mut c_uint, handle: CUmemoryPool, location: *mut MemLocation) {
        let pool = pool::find(handle.addr())?;
        let is_open = match device_of(location.get()?)? {
            _ if pool.place.0 != Purpose::Device => true,
            Some(device) if device == pool.place.1 => true,
            device => device.is_some_and(|device| {
                pool.open_to.load(Ordering::Relaxed) & (1 << device) != 0
            }),
        };
        flags.put(if is_open { READ_WRITE } else { 0 })
    }

    fn cuDeviceGetDefaultMemPool(result: *mut CUmemoryPool, device: CUdevice) {
        result.put(pointer(pool::of_place((Purpose::Device, device))?[0]))
    }

    fn cuDeviceGetMemPool(result: *mut CUmemoryPool, device: CUdevice) {
        device::check_location(device)?;
        result.put(pointer(pool::of_place((Purpose::Device, device))?[1]))
    }

    capture_unsafe cuDeviceSetMemPool(device: CUdevice, handle: CUmemoryPool) {
        device::check_location(device)?;
        set_current((Purpose::Device, device), handle.addr())
    }

    fn cuMemGetDefaultMemPool(result: *mut CUmemoryPool, location: *mut MemLocation, kind: c_uint) {
        result.put(pointer(pool::of_place(place(location.get()?, kind)?)?[0]))
    }

    fn cuMemGetMemPool(result: *mut CUmemoryPool, location: *mut MemLocation, kind: c_uint) {
        result.put(pointer(pool::of_place(place(location.get()?, kind)?)?[1]))
    }

    fn cuMemSetMemPool(location: *mut MemLocation, kind: c_uint, handle: CUmemoryPool) {
        set_current(place(location.get()?, kind)?, handle.addr())
    }

    fn cuMemAllocAsync(address: *mut CUdeviceptr, bytes: usize, stream: CUstream) {
        let (context, stream) = stream::find(stream.addr())?;
        if address.is_null() {
            return Err(Status::INVALID_VALUE.into());
        }
        if let Some(captured) = graph_memory::allocate_captured(&context, &stream, bytes)? {
            return address.put(captured);
        }
        capture::refuse_unsafe_call()?;
        if bytes == 0 {
            return address.put(0);
        }
        let current = pool::of_place((Purpose::Device, context.device()))?[1];
        address.put(memory::allocate_from_pool(current, &context, bytes)?)
    }

    fn cuMemAllocFromPoolAsync(
        address: *mut CUdeviceptr,
        bytes: usize,
        handle: CUmemoryPool,
        stream: CUstream,
    ) {
        let (context, stream) = stream::find(stream.addr())?;
        pool::find(handle.addr())?;
        if address.is_null() {
            return Err(Status::INVALID_VALUE.into());
        }
        if let Some(captured) = graph_memory::allocate_captured(&context, &stream, bytes)? {
            return address.put(captured);
        }
        capture::refuse_unsafe_call()?;
        if bytes == 0 {
            return address.put(0);
        }
        address.put(memory::allocate_from_pool(handle.addr(), &context, bytes)?)
    }
}
