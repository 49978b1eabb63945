//! What is known of an address.

use std::ffi::{c_int, c_uint, c_void};

use super::entry::{Given, entries};
use super::handle;
use super::memory::{Owned, arena, owner, set_synchronous};
use super::status::{Answer, Status};
use super::{context, virtual_memory};
use crate::memory::Purpose;
use api::{CUcontext, CUdeviceptr};

/// `CU_MEM_ACCESS_FLAGS_PROT_READWRITE`
const READ_WRITE: c_uint = 3;

/// `CU_POINTER_ATTRIBUTE_SYNC_MEMOPS`
const SYNCHRONOUS: c_uint = 6;

/// An address in an allocation or in registered memory.
struct Place {
    address: u64,
    start: u64,
    size: u64,
    /// Of registered memory none.
    purpose: Option<Purpose>,
    /// Of a module's variables and the like none.
    owned: Option<Owned>,
    /// Whose mapped memory it is.
    device: c_int,
    /// `CU_MEM_ACCESS_FLAGS_…`
    access: c_uint,
}

fn place(address: u64) -> Answer<Option<Place>> {
    let arena = arena()?;
    let (start, size, purpose) = match (arena.range_of(address), arena.registered(address)) {
        (Some(found), _) => (found.start, found.size, Some(found.purpose)),
        (None, Some((start, size))) => (start, size, None),
        (None, None) => return Ok(None),
    };
    let mut place = Place {
        address,
        start,
        size,
        purpose,
        owned: owner(start),
        device: 0,
        access: READ_WRITE,
    };
    if purpose == Some(Purpose::Reserved) {
        // Addresses alone are no memory.
        let Some(mapped) = virtual_memory::mapped(address) else {
            return Ok(None);
        };
        (place.start, place.size) = (mapped.start, mapped.bytes);
        (place.device, place.access) = (mapped.device, mapped.access);
    }
    Ok(Some(place))
}

/// Writes `CU_POINTER_ATTRIBUTE_…` number `attribute` of a place; what an
/// address outside of any place has is zeros.
fn attribute(attribute: c_uint, place: Option<&Place>, data: Given<c_void>) -> Answer {
    let purpose = place.and_then(|place| place.purpose);
    let owned = place.and_then(|place| place.owned);
    let on_host = place.is_some() && matches!(purpose, None | Some(Purpose::Host));
    let for_host = on_host || purpose == Some(Purpose::Managed);
    // One byte: callers pass a bool or a zeroed integer.
    let truth = |is: bool| data.cast::<bool>().put(is);
    let address = |address: Option<u64>| data.cast::<u64>().put(address.unwrap_or(0));
    match attribute {
        1 => data
            .cast::<CUcontext>()
            .put(handle::pointer(owned.map_or(0, |owned| owned.context))), // CONTEXT
        2 => data.cast::<c_uint>().put(match place {
            // MEMORY_TYPE: CU_MEMORYTYPE_HOST or _DEVICE
            None => 0,
            Some(_) if on_host => 1,
            Some(_) => 2,
        }),
        3 => address(place.map(|place| place.address)), // DEVICE_POINTER
        4 if for_host => address(place.map(|place| place.address)), // HOST_POINTER
        4 if place.is_some() => {
            Err(Status::INVALID_VALUE.because("the host has no pointer to device memory"))
        }
        4 => address(None),
        6 => truth(owned.is_some_and(|owned| owned.synchronous)), // SYNC_MEMOPS
        7 => address(owned.map(|owned| owned.buffer)),            // BUFFER_ID
        8 => truth(purpose == Some(Purpose::Managed)),            // IS_MANAGED
        9 => data.cast::<c_int>().put(match (place, owned) {
            // DEVICE_ORDINAL; -2 is CU_DEVICE_INVALID
            (Some(_), Some(owned)) => owned.device,
            (Some(place), None) => place.device,
            (None, _) => -2,
        }),
        10 | 15 => truth(false), // IS_LEGACY_CUDA_IPC_CAPABLE, IS_GPU_DIRECT_RDMA_CAPABLE
        11 => address(place.map(|place| place.start)), // RANGE_START_ADDR
        12 => address(place.map(|place| place.size)), // RANGE_SIZE
        13 => truth(place.is_some()), // MAPPED
        14 => address(None),     // ALLOWED_HANDLE_TYPES
        16 => data
            .cast::<c_uint>()
            .put(place.map_or(0, |place| place.access)), // ACCESS_FLAGS
        17 => address(owned.map(|owned| owned.pool as u64)), // MEMPOOL_HANDLE
        _ => Err(Status::INVALID_VALUE
            .because(format!("no pointer attribute has the number {attribute}"))),
    }
}

entries! {
    fn cuPointerGetAttribute(data: *mut c_void, number: c_uint, address: CUdeviceptr) {
        context::working()?;
        match place(address)? {
            Some(place) => attribute(number, Some(&place), data),
            None => Err(Status::INVALID_VALUE.because(format!(
                "{address:#x} is not in memory that the device knows"
            ))),
        }
    }

    fn cuPointerSetAttribute(value: *const c_void, number: c_uint, address: CUdeviceptr) {
        context::working()?;
        let place = place(address)?
            .filter(|place| place.purpose == Some(Purpose::Device) && place.owned.is_some());
        match (number, place) {
            (SYNCHRONOUS, Some(place)) => {
                let always = value.cast::<c_uint>().get()? != 0;
                set_synchronous(place.start, always);
                Ok(())
            }
            (SYNCHRONOUS, None) => Err(Status::INVALID_DEVICE
                .because(format!("{address:#x} is not in memory of cuMemAlloc"))),
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
        context::working()?;
        let place = place(address)?;
        for index in 0..count as usize {
            let slot = data.follow(index)?;
            let number = numbers.get_at(index)?;
            match attribute(number, place.as_ref(), slot) {
                // Of several attributes one that the address lacks reads as null.
                Err(_) if number == 4 => slot.cast::<u64>().put(0)?,
                other => other?,
            }
        }
        Ok(())
    }
}
