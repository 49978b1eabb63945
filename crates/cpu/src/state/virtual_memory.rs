//! Virtual memory management: reserved addresses, physical memory, and mappings.

use std::collections::BTreeMap;
use std::ffi::c_uint;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::context;
use super::device::{self, MAX_DEVICES, arena};
use super::handle::{self, Handles};
use super::status::{Failure, Result, Status};
use crate::memory::{Physical, Purpose};
use api::{CUdevice, MemAccessDesc};

/// Sizes and addresses are multiples of this, as on GPUs.
pub(crate) const GRANULARITY: u64 = 2 << 20;

/// `CU_MEM_LOCATION_TYPE_DEVICE`
pub(crate) const DEVICE: c_uint = 1;

/// `CU_MEM_ACCESS_FLAGS_PROT_…`
pub(crate) const NO_ACCESS: c_uint = 0;
const READ: c_uint = 1;
const READ_WRITE: c_uint = 3;

/// Physical memory of a caller.
pub(crate) struct Memory {
    handle: usize,
    physical: Physical,
    pub(crate) device: CUdevice,
    pub(crate) handle_types: c_uint,
    /// References to the handle; mappings retain the memory without it.
    references: AtomicU32,
}

impl Memory {
    /// A file that other processes can import.
    pub(crate) fn export(&self) -> Result<std::fs::File> {
        self.physical.export().map_err(|error| system(&error))
    }
}

static MEMORY: Handles<Memory> = Handles::new();

/// Physical memory that is mapped.
struct Mapping {
    memory: Arc<Memory>,
    bytes: u64,
    access: [c_uint; MAX_DEVICES as usize],
}

/// By first address.
static MAPPED: Mutex<BTreeMap<u64, Mapping>> = Mutex::new(BTreeMap::new());

fn all_mapped() -> MutexGuard<'static, BTreeMap<u64, Mapping>> {
    MAPPED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The mapping of an address.
pub(crate) struct Mapped {
    pub(crate) start: u64,
    pub(crate) bytes: u64,
    pub(crate) device: CUdevice,
    /// The access of the current context's device.
    pub(crate) access: c_uint,
}

/// The mapping that holds an address.
pub(crate) fn mapped(address: u64) -> Option<Mapped> {
    let device = context::current_device();
    let mapped = all_mapped();
    let (&start, mapping) = at(&mapped, address)?;
    Some(Mapped {
        start,
        bytes: mapping.bytes,
        device: mapping.memory.device,
        access: mapping.access.get(device as usize).copied().unwrap_or(0),
    })
}

fn at(mapped: &BTreeMap<u64, Mapping>, address: u64) -> Option<(&u64, &Mapping)> {
    let (start, mapping) = mapped.range(..=address).next_back()?;
    (address - start < mapping.bytes).then_some((start, mapping))
}

pub(crate) fn find(handle: u64) -> Result<Arc<Memory>> {
    MEMORY
        .get(handle as usize)
        .ok_or_else(|| Status::INVALID_VALUE.because("no live physical memory has this handle"))
}

pub(crate) fn is_whole(number: u64) -> bool {
    number.is_multiple_of(GRANULARITY)
}

pub(crate) fn system(error: &std::io::Error) -> Failure {
    match error.kind() {
        std::io::ErrorKind::Unsupported => Status::NOT_SUPPORTED,
        _ => Status::OUT_OF_MEMORY,
    }
    .because(format!("system error: {error}"))
}

/// The reservation that holds a range, by its first address.
fn reservation(address: u64, bytes: u64) -> Result<u64> {
    let found = arena()?.range_of(address).filter(|found| {
        let offset = address - found.start;
        found.purpose == Purpose::Reserved && bytes <= found.size - offset
    });
    found.map(|found| found.start).ok_or_else(|| {
        Status::INVALID_VALUE.because(format!(
            "{bytes} bytes at {address:#x} are not within reserved addresses"
        ))
    })
}

/// The mappings that cover a range without gaps.
fn whole_mappings(mapped: &BTreeMap<u64, Mapping>, start: u64, bytes: u64) -> Result<Vec<u64>> {
    let bad = || {
        Status::INVALID_VALUE.because(format!(
            "{bytes} bytes at {start:#x} are not one or several mappings"
        ))
    };
    let end = start
        .checked_add(bytes)
        .filter(|_| bytes > 0)
        .ok_or_else(bad)?;
    let mut found = Vec::new();
    let mut next = start;
    while next < end {
        next += mapped.get(&next).ok_or_else(bad)?.bytes;
        found.push(
            found
                .last()
                .map_or(start, |&last: &u64| last + mapped[&last].bytes),
        );
    }
    if next == end { Ok(found) } else { Err(bad()) }
}

pub(crate) fn insert(physical: Physical, device: CUdevice, handle_types: c_uint) -> u64 {
    let handle = handle::reserve();
    let memory = Memory {
        handle,
        physical,
        device,
        handle_types,
        references: AtomicU32::new(1),
    };
    MEMORY.insert_at(handle, Arc::new(memory));
    handle as u64
}

/// Allocates physical memory; returns its handle.
pub(crate) fn create(bytes: u64, device: CUdevice, handle_types: c_uint) -> Result<u64> {
    if bytes > arena()?.size() {
        return Err(Status::OUT_OF_MEMORY.because(format!(
            "{bytes} bytes requested, the device has {}",
            arena()?.size()
        )));
    }
    let physical = Physical::new(bytes).map_err(|error| system(&error))?;
    Ok(insert(physical, device, handle_types))
}

/// Gives back one reference to a handle.
pub(crate) fn release(handle: u64) -> Result {
    let memory = find(handle)?;
    if memory.references.fetch_sub(1, Ordering::AcqRel) == 1 {
        MEMORY.remove(memory.handle);
    }
    Ok(())
}

/// Takes a reference to the handle of the memory that is mapped at an address.
pub(crate) fn retain(address: u64) -> Result<u64> {
    let mapped = all_mapped();
    let (_, mapping) = at(&mapped, address).ok_or_else(nothing_mapped)?;
    let memory = &mapping.memory;
    if memory.references.fetch_add(1, Ordering::AcqRel) == 0 {
        MEMORY.insert_at(memory.handle, memory.clone());
    }
    Ok(memory.handle as u64)
}

fn nothing_mapped() -> Failure {
    Status::INVALID_VALUE.because("no physical memory is mapped there")
}

/// Frees addresses that [`DeviceMemory::reserve`](crate::memory::DeviceMemory::reserve)
/// has reserved.
pub(crate) fn free(address: u64, bytes: u64) -> Result {
    let arena = arena()?;
    let found = arena.range_of(address).filter(|found| {
        found.purpose == Purpose::Reserved && (found.start, found.size) == (address, bytes)
    });
    if found.is_none() {
        return Err(Status::INVALID_VALUE.because("addresses are freed as they were reserved"));
    }
    let mapped = all_mapped();
    if mapped.range(address..address + bytes).next().is_some() {
        return Err(Status::INVALID_VALUE.because("memory is still mapped at the addresses"));
    }
    drop(mapped);
    Ok(arena.free(address)?)
}

/// Maps physical memory as a whole to reserved addresses, without access.
pub(crate) fn map(address: u64, bytes: u64, memory: Arc<Memory>) -> Result {
    reservation(address, bytes)?;
    let mut mapped = all_mapped();
    let end = address + bytes;
    let taken = mapped
        .range(..end)
        .next_back()
        .is_some_and(|(start, mapping)| start + mapping.bytes > address);
    if taken {
        return Err(Status::INVALID_VALUE.because("memory is mapped there already"));
    }
    if !is_whole(address) || bytes != memory.physical.bytes() {
        return Err(Status::INVALID_VALUE.because(format!(
            "physical memory is mapped as a whole, at a multiple of {GRANULARITY}"
        )));
    }
    arena()?
        .map(address, bytes, Some(&memory.physical))
        .map_err(|error| system(&error))?;
    let mapping = Mapping {
        memory,
        bytes,
        access: [NO_ACCESS; MAX_DEVICES as usize],
    };
    mapped.insert(address, mapping);
    Ok(())
}

/// Removes mappings after the work of the current context.
pub(crate) fn unmap(address: u64, bytes: u64) -> Result {
    if let Ok(context) = context::current() {
        context.wait();
    }
    let mut mapped = all_mapped();
    // Like on NVIDIA's driver, reserved addresses without memory can be unmapped again.
    let is_unmapped = is_whole(address)
        && is_whole(bytes)
        && reservation(address, bytes).is_ok()
        && mapped
            .range(address..address.saturating_add(bytes))
            .next()
            .is_none()
        && at(&mapped, address).is_none();
    if is_unmapped && bytes > 0 {
        return Ok(());
    }
    for start in whole_mappings(&mapped, address, bytes)? {
        if let Some(mapping) = mapped.remove(&start) {
            let arena = arena()?;
            arena.close(start, mapping.bytes);
            arena
                .map(start, mapping.bytes, None)
                .map_err(|error| system(&error))?;
        }
    }
    Ok(())
}

/// Sets which devices access mapped memory.
pub(crate) fn set_access(address: u64, bytes: u64, descs: &[MemAccessDesc]) -> Result {
    let mut mapped = all_mapped();
    let starts = whole_mappings(&mapped, address, bytes)?;
    for &MemAccessDesc { location, flags } in descs {
        match flags {
            _ if location.kind != DEVICE => {
                return Err(
                    Status::NOT_SUPPORTED.because("only devices have access to mapped memory")
                );
            }
            NO_ACCESS | READ_WRITE => device::check_location(location.id)?,
            READ => {
                return Err(Status::NOT_SUPPORTED.because("the CPU device has no read-only memory"));
            }
            _ => return Err(Status::INVALID_VALUE.because("unknown access flags")),
        }
    }
    for start in starts {
        let Some(mapping) = mapped.get_mut(&start) else {
            continue;
        };
        for &MemAccessDesc { location, flags } in descs {
            if let Some(access) = mapping.access.get_mut(location.id as usize) {
                *access = flags;
            }
            let allowed = flags == READ_WRITE;
            arena()?.open(location.id as usize, start, mapping.bytes, allowed);
        }
    }
    Ok(())
}

/// `CU_MEM_ACCESS_FLAGS_PROT_…` of a device to mapped memory; `None` is the host.
pub(crate) fn access(device: Option<CUdevice>, address: u64) -> Result<c_uint> {
    let mapped = all_mapped();
    let (_, mapping) = at(&mapped, address).ok_or_else(nothing_mapped)?;
    let Some(device) = device else {
        return Ok(NO_ACCESS);
    };
    device::check(device)?;
    Ok(mapping.access.get(device as usize).copied().unwrap_or(0))
}
