//! Memory pools.

use std::ffi::{c_int, c_uint, c_void};

use super::entry::entries;
use crate::state::handle::pointer;
use crate::state::status::{Result, Status};
use crate::state::{device, memory, pool, stream};
use api::{
    CUdevice, CUdeviceptr, CUmemoryPool, CUstream, MemAccessDesc, MemLocation, MemPoolProps,
};

/// `CU_MEM_LOCATION_TYPE_DEVICE`, `CU_MEM_ALLOCATION_TYPE_PINNED`,
/// `CU_MEM_ACCESS_FLAGS_PROT_READWRITE`
const DEVICE: c_uint = 1;
const PINNED: c_uint = 1;
const READ_WRITE: c_uint = 3;

/// The device that a location names.
fn device_of(location: MemLocation) -> Result<CUdevice> {
    if location.kind != DEVICE {
        return Err(Status::INVALID_VALUE.because("the location of a pool is a device"));
    }
    device::check(location.id)?;
    Ok(location.id)
}

entries! {
    fn cuMemPoolCreate(result: *mut CUmemoryPool, properties: *const MemPoolProps) {
        let properties = properties.get()?;
        let device = device_of(properties.location)?;
        if properties.alloc_type != PINNED || result.is_null() {
            return Err(Status::INVALID_VALUE.because("pools have pinned memory (1)"));
        }
        if properties.handle_types != 0 {
            return Err(Status::NOT_SUPPORTED
                .because("the CPU device shares nothing between processes: no pool is exported"));
        }
        result.put(pointer(pool::create(device, properties.max_size as u64)))
    }

    fn cuMemPoolDestroy(handle: CUmemoryPool) {
        pool::destroy(handle.addr())
    }

    fn cuMemPoolTrimTo(handle: CUmemoryPool, keep: usize) {
        pool::find(handle.addr())?.state().trim(keep as u64);
        Ok(())
    }

    fn cuMemPoolGetAttribute(handle: CUmemoryPool, number: c_uint, value: *mut c_void) {
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

    fn cuMemPoolSetAttribute(handle: CUmemoryPool, number: c_uint, value: *mut c_void) {
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
        for desc in map.slice(count)? {
            let device = device_of(desc.location)?;
            match (desc.flags, device == pool.device) {
                (READ_WRITE, true) | (0, false) => {}
                (READ_WRITE, false) => return Err(Status::NOT_SUPPORTED
                    .because("a pool of the CPU device is open to its device alone")),
                (0, true) => return Err(Status::INVALID_DEVICE
                    .because("a pool's own device always reaches it")),
                _ => return Err(Status::INVALID_VALUE
                    .because("a device reaches a pool to read and write (3), or not (0)")),
            }
        }
        Ok(())
    }

    fn cuMemPoolGetAccess(flags: *mut c_uint, handle: CUmemoryPool, location: *mut MemLocation) {
        let pool = pool::find(handle.addr())?;
        let is_own = device_of(location.get()?)? == pool.device;
        flags.put(if is_own { READ_WRITE } else { 0 })
    }

    fn cuDeviceGetDefaultMemPool(result: *mut CUmemoryPool, device: CUdevice) {
        result.put(pointer(pool::of_device(device)?[0]))
    }

    fn cuDeviceGetMemPool(result: *mut CUmemoryPool, device: CUdevice) {
        result.put(pointer(pool::of_device(device)?[1]))
    }

    fn cuDeviceSetMemPool(device: CUdevice, handle: CUmemoryPool) {
        pool::of_device(device)?;
        if pool::find(handle.addr())?.device != device {
            return Err(Status::INVALID_VALUE.because("the pool is another device's"));
        }
        pool::set_current(device, handle.addr());
        Ok(())
    }

    fn cuMemAllocAsync(address: *mut CUdeviceptr, bytes: usize, stream: CUstream) {
        let (context, stream) = stream::find(stream.addr())?;
        stream.refuse_captured("graphs of the CPU device allocate by nodes alone")?;
        if address.is_null() {
            return Err(Status::INVALID_VALUE.into());
        }
        let current = pool::of_device(context.device())?[1];
        address.put(memory::allocate_from_pool(current, &context, bytes)?)
    }

    fn cuMemAllocFromPoolAsync(
        address: *mut CUdeviceptr,
        bytes: usize,
        handle: CUmemoryPool,
        stream: CUstream,
    ) {
        let (context, stream) = stream::find(stream.addr())?;
        stream.refuse_captured("graphs of the CPU device allocate by nodes alone")?;
        pool::find(handle.addr())?;
        if address.is_null() {
            return Err(Status::INVALID_VALUE.into());
        }
        address.put(memory::allocate_from_pool(handle.addr(), &context, bytes)?)
    }
}
