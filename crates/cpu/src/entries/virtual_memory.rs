//! Virtual memory management.

use std::ffi::{c_uint, c_void};

use super::descriptor::{self, FILE_DESCRIPTOR};
use super::entry::entries;
use crate::memory::Physical;
use crate::state::context;
use crate::state::device::{self, arena};
use crate::state::status::{Result, Status};
use crate::state::user_pointer::UserPointer;
use crate::state::virtual_memory::{self, DEVICE, GRANULARITY, find, insert, is_whole};
use api::{CUdeviceptr, MemAccessDesc, MemAllocationProp, MemLocation};

/// `CU_MEM_ALLOCATION_TYPE_PINNED`
const PINNED: c_uint = 1;

fn checked(properties: UserPointer<MemAllocationProp>) -> Result<MemAllocationProp> {
    let properties = properties.get()?;
    if properties.alloc_type != PINNED || properties.location.kind != DEVICE {
        return Err(Status::INVALID_VALUE
            .because("physical memory of the CPU device is pinned (1), and a device's (1)"));
    }
    device::check(properties.location.id)?;
    if properties.handle_types & !FILE_DESCRIPTOR != 0 {
        return Err(
            Status::NOT_SUPPORTED.because("physical memory is exported as a file (1) alone")
        );
    }
    Ok(properties)
}

entries! {
    fn cuMemGetAllocationGranularity(
        granularity: *mut usize,
        properties: *const MemAllocationProp,
        option: c_uint,
    ) {
        checked(properties)?;
        if option > 1 {
            return Err(Status::INVALID_VALUE.because("a granularity is the least (0) or the best (1)"));
        }
        granularity.put(GRANULARITY as usize)
    }

    fn cuMemCreate(
        handle: *mut u64,
        bytes: usize,
        properties: *const MemAllocationProp,
        flags: u64,
    ) {
        let properties = checked(properties)?;
        let bytes = bytes as u64;
        if handle.is_null() || flags != 0 || bytes == 0 || !is_whole(bytes) {
            return Err(Status::INVALID_VALUE
                .because(format!("physical memory has a multiple of {GRANULARITY} bytes")));
        }
        handle.put(virtual_memory::create(
            bytes,
            properties.location.id,
            properties.handle_types,
        )?)
    }

    fn cuMemRelease(handle: u64) {
        virtual_memory::release(handle)
    }

    fn cuMemRetainAllocationHandle(handle: *mut u64, address: *mut c_void) {
        handle.put(virtual_memory::retain(address.addr() as u64)?)
    }

    fn cuMemGetAllocationPropertiesFromHandle(properties: *mut MemAllocationProp, handle: u64) {
        let memory = find(handle)?;
        properties.put(MemAllocationProp {
            alloc_type: PINNED,
            handle_types: memory.handle_types,
            location: MemLocation { kind: DEVICE, id: memory.device },
            win32_meta: std::ptr::null_mut(),
            compression: 0,
            gpu_direct_rdma: 0,
            usage: 0,
            reserved: [0; 4],
        })
    }

    /// The addresses come from the arena, which limits their number.
    fn cuMemAddressReserve(
        address: *mut CUdeviceptr,
        bytes: usize,
        alignment: usize,
        _hint: CUdeviceptr,
        flags: u64,
    ) {
        let (bytes, align) = (bytes as u64, (alignment as u64).max(GRANULARITY));
        if address.is_null()
            || flags != 0
            || bytes == 0
            || !is_whole(bytes)
            || alignment != 0 && !alignment.is_power_of_two()
        {
            return Err(Status::INVALID_VALUE.because(format!(
                "addresses are reserved in multiples of {GRANULARITY}, aligned to a power of two"
            )));
        }
        address.put(arena()?.reserve(bytes, align)?)
    }

    fn cuMemAddressFree(address: CUdeviceptr, bytes: usize) {
        virtual_memory::free(address, bytes as u64)
    }

    fn cuMemMap(address: CUdeviceptr, bytes: usize, offset: usize, handle: u64, flags: u64) {
        let memory = find(handle)?;
        if offset != 0 {
            return Err(Status::NOT_SUPPORTED.because("the offset of cuMemMap must be 0"));
        }
        if flags != 0 {
            return Err(Status::INVALID_VALUE.because("the flags of cuMemMap must be 0"));
        }
        virtual_memory::map(address, bytes as u64, memory)
    }

    fn cuMemUnmap(address: CUdeviceptr, bytes: usize) {
        virtual_memory::unmap(address, bytes as u64)
    }

    fn cuMemSetAccess(
        address: CUdeviceptr,
        bytes: usize,
        params: *const MemAccessDesc,
        count: usize,
    ) {
        if count == 0 {
            return Err(Status::INVALID_VALUE.because("count is 0; pass at least one access descriptor"));
        }
        virtual_memory::set_access(address, bytes as u64, params.slice(count)?)
    }

    fn cuMemGetAccess(flags: *mut u64, location: *const MemLocation, address: CUdeviceptr) {
        let location = location.get()?;
        let device = (location.kind == DEVICE).then_some(location.id);
        flags.put(u64::from(virtual_memory::access(device, address)?))
    }

    fn cuMemExportToShareableHandle(
        result: *mut c_void,
        handle: u64,
        handle_type: c_uint,
        flags: u64,
    ) {
        let memory = find(handle)?;
        if handle_type != FILE_DESCRIPTOR || flags != 0 || memory.handle_types & handle_type == 0 {
            return Err(Status::INVALID_VALUE
                .because("the memory was not made to be exported so"));
        }
        if result.is_null() {
            return Err(Status::INVALID_VALUE.into());
        }
        descriptor::export(result.cast(), memory.export()?)
    }

    fn cuMemImportFromShareableHandle(
        handle: *mut u64,
        descriptor: *mut c_void,
        handle_type: c_uint,
    ) {
        if handle_type != FILE_DESCRIPTOR || handle.is_null() {
            return Err(Status::INVALID_VALUE.because("memory is imported from a file (1) alone"));
        }
        let physical = import(descriptor.addr())?;
        let device = context::working()?.device();
        handle.put(insert(physical, device, FILE_DESCRIPTOR))
    }
}

fn import(descriptor: usize) -> Result<Physical> {
    let physical = descriptor::import(descriptor).map(Physical::of_file)?;
    match physical {
        Ok(physical) if physical.bytes() > 0 && is_whole(physical.bytes()) => Ok(physical),
        _ => Err(Status::INVALID_VALUE.because("the descriptor is not of exported memory")),
    }
}
