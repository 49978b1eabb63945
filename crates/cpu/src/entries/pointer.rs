//! Attributes of addresses, which a thread without a context reads too.

use std::ffi::{c_int, c_uint, c_void};

use super::entry::entries;
use crate::memory::Purpose;
use crate::state::pointer::{self, Place};
use crate::state::status::{Result, Status};
use crate::state::user_pointer::UserPointer;
use crate::state::{context, handle, memory};
use api::{CUcontext, CUdeviceptr};

/// `CU_POINTER_ATTRIBUTE_SYNC_MEMOPS`
const SYNCHRONOUS: c_uint = 6;

/// `CU_POINTER_ATTRIBUTE_P2P_TOKENS`: a token and the number of the address space, which is one for
/// all devices.
const P2P_TOKENS: c_uint = 5;
const ADDRESS_SPACE: u64 = 0xfe00;

/// Writes `CU_POINTER_ATTRIBUTE_…` number `attribute` of a place, or 0 without one.
fn attribute(attribute: c_uint, place: Option<&Place>, data: UserPointer<c_void>) -> Result {
    let purpose = place.and_then(|place| place.purpose);
    let allocation = place.and_then(|place| place.allocation);
    let on_host = place.is_some() && matches!(purpose, None | Some(Purpose::Host));
    let for_host = on_host || purpose == Some(Purpose::Managed);
    // One byte: callers pass a bool or a zeroed integer.
    let truth = |is: bool| data.cast::<bool>().put(is);
    let address = |address: Option<u64>| data.cast::<u64>().put(address.unwrap_or(0));
    match attribute {
        1 => data.cast::<CUcontext>().put(handle::pointer(
            allocation.map_or(0, |allocation| allocation.context_handle),
        )), // CONTEXT
        2 => data.cast::<c_uint>().put(match place {
            // MEMORY_TYPE: CU_MEMORYTYPE_HOST or _DEVICE
            None => 0,
            Some(_) if on_host => 1,
            Some(_) => 2,
        }),
        P2P_TOKENS if !on_host && place.is_some() => {
            data.cast::<[u64; 2]>().put([0, ADDRESS_SPACE])
        }
        3 => address(place.map(|place| place.address)), // DEVICE_POINTER
        4 if for_host => address(place.map(|place| place.address)), // HOST_POINTER
        4 if place.is_some() => {
            Err(Status::INVALID_VALUE.because("the host has no pointer to device memory"))
        }
        4 => address(None),
        6 => truth(allocation.is_some_and(|allocation| allocation.synchronous)), // SYNC_MEMOPS
        7 => address(allocation.map(|allocation| allocation.buffer)),            // BUFFER_ID
        8 => truth(purpose == Some(Purpose::Managed)),                           // IS_MANAGED
        9 => data.cast::<c_int>().put(match (place, allocation) {
            // DEVICE_ORDINAL; -2 is CU_DEVICE_INVALID
            (Some(_), Some(allocation)) => allocation.device,
            (Some(place), None) => place.device,
            (None, _) => -2,
        }),
        10 => truth(allocation.is_some()), // IS_LEGACY_CUDA_IPC_CAPABLE
        // IS_GPU_DIRECT_RDMA_CAPABLE: a network card reaches it as memory of the host.
        15 => truth(purpose == Some(Purpose::Device)),
        11 => address(place.map(|place| place.start)), // RANGE_START_ADDR
        12 => address(place.map(|place| place.size)),  // RANGE_SIZE
        13 => truth(place.is_some()),                  // MAPPED
        14 => address(None),                           // ALLOWED_HANDLE_TYPES
        16 => data
            .cast::<c_uint>()
            .put(place.map_or(0, |place| place.access)), // ACCESS_FLAGS
        17 => address(allocation.map(|allocation| allocation.pool as u64)), // MEMPOOL_HANDLE
        _ => Err(Status::INVALID_VALUE
            .because(format!("no pointer attribute has the number {attribute}"))),
    }
}

entries! {
    fn cuPointerGetAttribute(data: *mut c_void, number: c_uint, address: CUdeviceptr) {
        context::check_current()?;
        match pointer::place(address)? {
            Some(place) => attribute(number, Some(&place), data),
            None => Err(Status::INVALID_VALUE.because(format!(
                "{address:#x} is not in memory that the device knows"
            ))),
        }
    }

    fn cuPointerSetAttribute(value: *const c_void, number: c_uint, address: CUdeviceptr) {
        context::working()?;
        let place = pointer::place(address)?
            .filter(|place| place.allocation.is_some());
        match (number, place) {
            (SYNCHRONOUS, Some(place)) => {
                let always = value.cast::<c_uint>().get()? != 0;
                memory::set_synchronous(place.start, always);
                Ok(())
            }
            (SYNCHRONOUS, None) => Err(Status::INVALID_VALUE
                .because(format!("{address:#x} is not in memory that the driver allocated"))),
            _ => Err(Status::INVALID_VALUE
                .because(format!("no pointer attribute with the number {number} can be set"))),
        }
    }

    fn cuPointerGetAttributes(
        count: c_uint,
        numbers: *mut c_uint,
        data: *mut *mut c_void,
        address: CUdeviceptr,
    ) {
        context::check_current()?;
        if count == 0 {
            return Err(Status::INVALID_VALUE.because("numAttributes is 0; pass at least one attribute"));
        }
        let place = pointer::place(address)?;
        for index in 0..count as usize {
            let slot = data.follow(index)?;
            let number = numbers.get_at(index)?;
            match attribute(number, place.as_ref(), slot) {
                // Among several attributes, one that the address lacks is null.
                Err(_) if number == 4 => slot.cast::<u64>().put(0)?,
                other => other?,
            }
        }
        Ok(())
    }
}
