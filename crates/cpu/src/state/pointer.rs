//! The allocation of an address.

use std::ffi::{c_int, c_uint};

use super::device::arena;
use super::memory::{self, AllocationInfo};
use super::status::Result;
use super::virtual_memory;
use crate::memory::Purpose;

/// `CU_MEM_ACCESS_FLAGS_PROT_READWRITE`
const READ_WRITE: c_uint = 3;

/// An address in an allocation or in registered memory.
pub(crate) struct Place {
    pub(crate) address: u64,
    pub(crate) start: u64,
    pub(crate) size: u64,
    /// `None` for registered memory.
    pub(crate) purpose: Option<Purpose>,
    /// `None` for variables of modules and the like.
    pub(crate) allocation: Option<AllocationInfo>,
    /// The device of mapped memory.
    pub(crate) device: c_int,
    /// `CU_MEM_ACCESS_FLAGS_…`
    pub(crate) access: c_uint,
}

/// Where an address lies, if the device knows its memory.
pub(crate) fn place(address: u64) -> Result<Option<Place>> {
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
        allocation: memory::info(start),
        device: 0,
        access: READ_WRITE,
    };
    if purpose == Some(Purpose::Reserved) {
        // Reserved addresses without memory.
        let Some(mapped) = virtual_memory::mapped(address) else {
            return Ok(None);
        };
        (place.device, place.access) = (mapped.device, mapped.access);
    }
    Ok(Some(place))
}
