//! Virtual memory management: addresses, physical memory, and what is where.

use std::collections::BTreeMap;
use std::ffi::{c_int, c_uint, c_void};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::context;
use super::device::{self, MOST_DEVICES};
use super::entry::{Given, entries};
use super::handle::{Handles, reserve};
use super::memory::{arena, failure};
use super::status::{Answer, Failure, Status};
use crate::memory::{Physical, Purpose};
use api::{CUdevice, CUdeviceptr, MemAccessDesc, MemAllocationProp, MemLocation};

/// What sizes and addresses are multiples of, as on GPUs.
const GRANULARITY: u64 = 2 << 20;

/// `CU_MEM_LOCATION_TYPE_DEVICE`, `CU_MEM_ALLOCATION_TYPE_PINNED`,
/// `CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR`
const DEVICE: c_uint = 1;
const PINNED: c_uint = 1;
const FILE_DESCRIPTOR: c_uint = 1;

/// `CU_MEM_ACCESS_FLAGS_PROT_…`
const NO_ACCESS: c_uint = 0;
const READ: c_uint = 1;
const READ_WRITE: c_uint = 3;

/// Physical memory that a caller has.
struct Memory {
    handle: usize,
    physical: Physical,
    device: CUdevice,
    handle_types: c_uint,
    /// Uses of the handle; mappings keep the memory without it.
    uses: AtomicU32,
}

static MEMORY: Handles<Memory> = Handles::new();

/// Physical memory at its addresses.
struct Mapping {
    memory: Arc<Memory>,
    bytes: u64,
    access: [c_uint; MOST_DEVICES as usize],
}

/// By first address.
static MAPPED: Mutex<BTreeMap<u64, Mapping>> = Mutex::new(BTreeMap::new());

fn all_mapped() -> MutexGuard<'static, BTreeMap<u64, Mapping>> {
    MAPPED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is told of an address in mapped memory.
pub(super) struct Mapped {
    pub(super) start: u64,
    pub(super) bytes: u64,
    pub(super) device: CUdevice,
    /// Of the current context's device.
    pub(super) access: c_uint,
}

pub(super) fn mapped(address: u64) -> Option<Mapped> {
    let device = context::current().map_or(0, |context| context.device());
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

fn find(handle: u64) -> Answer<Arc<Memory>> {
    MEMORY
        .at(handle as usize)
        .ok_or_else(|| Status::INVALID_VALUE.because("no live physical memory has this handle"))
}

fn checked(properties: Given<MemAllocationProp>) -> Answer<MemAllocationProp> {
    let asked = properties.get()?;
    if asked.alloc_type != PINNED || asked.location.kind != DEVICE {
        return Err(Status::NOT_SUPPORTED
            .because("physical memory of the CPU device is pinned (1), and a device's (1)"));
    }
    device::check(asked.location.id)?;
    if asked.handle_types & !FILE_DESCRIPTOR != 0 {
        return Err(
            Status::NOT_SUPPORTED.because("physical memory is exported as a file (1) alone")
        );
    }
    Ok(asked)
}

fn is_whole(number: u64) -> bool {
    number.is_multiple_of(GRANULARITY)
}

fn system(error: &std::io::Error) -> Failure {
    match error.kind() {
        std::io::ErrorKind::Unsupported => Status::NOT_SUPPORTED,
        _ => Status::OUT_OF_MEMORY,
    }
    .because(format!("the system says: {error}"))
}

/// The reservation that holds a range, by its first address.
fn reservation(address: u64, bytes: u64) -> Answer<u64> {
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

/// The mappings that make up a range without gaps.
fn whole_mappings(mapped: &BTreeMap<u64, Mapping>, start: u64, bytes: u64) -> Answer<Vec<u64>> {
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

fn insert(physical: Physical, device: CUdevice, handle_types: c_uint) -> u64 {
    let handle = reserve();
    let memory = Memory {
        handle,
        physical,
        device,
        handle_types,
        uses: AtomicU32::new(1),
    };
    MEMORY.insert_at(handle, Arc::new(memory));
    handle as u64
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
        let asked = checked(properties)?;
        let bytes = bytes as u64;
        if handle.is_null() || flags != 0 || bytes == 0 || !is_whole(bytes) {
            return Err(Status::INVALID_VALUE
                .because(format!("physical memory has a multiple of {GRANULARITY} bytes")));
        }
        if bytes > arena()?.size() {
            return Err(Status::OUT_OF_MEMORY
                .because(format!("{bytes} bytes asked for, the device has {}", arena()?.size())));
        }
        let physical = Physical::new(bytes).map_err(|error| system(&error))?;
        handle.put(insert(physical, asked.location.id, asked.handle_types))
    }

    fn cuMemRelease(handle: u64) {
        let memory = find(handle)?;
        if memory.uses.fetch_sub(1, Ordering::AcqRel) == 1 {
            MEMORY.remove(memory.handle);
        }
        Ok(())
    }

    fn cuMemRetainAllocationHandle(handle: *mut u64, address: *mut c_void) {
        let mapped = all_mapped();
        let (_, mapping) = at(&mapped, address.addr() as u64)
            .ok_or_else(|| Status::INVALID_VALUE.because("no physical memory is mapped there"))?;
        let memory = &mapping.memory;
        if memory.uses.fetch_add(1, Ordering::AcqRel) == 0 {
            MEMORY.insert_at(memory.handle, memory.clone());
        }
        handle.put(memory.handle as u64)
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

    /// The addresses are of the device's memory, so that there are as many.
    fn cuMemAddressReserve(
        address: *mut CUdeviceptr,
        bytes: usize,
        alignment: usize,
        _wish: CUdeviceptr,
        flags: u64,
    ) {
        let (bytes, align) = (bytes as u64, (alignment as u64).max(GRANULARITY));
        if address.is_null()
            || flags != 0
            || bytes == 0
            || !is_whole(bytes)
            || !align.is_power_of_two()
        {
            return Err(Status::INVALID_VALUE.because(format!(
                "addresses are reserved in multiples of {GRANULARITY}, aligned to a power of two"
            )));
        }
        let start = arena()?.reserve(bytes, align).map_err(|error| failure(&error))?;
        address.put(start)
    }

    fn cuMemAddressFree(address: CUdeviceptr, bytes: usize) {
        let arena = arena()?;
        let found = arena.range_of(address).filter(|found| {
            found.purpose == Purpose::Reserved
                && (found.start, found.size) == (address, bytes as u64)
        });
        if found.is_none() {
            return Err(Status::INVALID_VALUE
                .because("addresses are given back as they were reserved"));
        }
        if all_mapped().range(address..address + bytes as u64).next().is_some() {
            return Err(Status::INVALID_VALUE.because("memory is still mapped at the addresses"));
        }
        arena.free(address).map_err(|error| failure(&error))
    }

    fn cuMemMap(address: CUdeviceptr, bytes: usize, offset: usize, handle: u64, flags: u64) {
        let memory = find(handle)?;
        let size = bytes as u64;
        reservation(address, size)?;
        let mut mapped = all_mapped();
        let end = address + size;
        let taken = mapped
            .range(..end)
            .next_back()
            .is_some_and(|(start, mapping)| start + mapping.bytes > address);
        if taken {
            return Err(Status::INVALID_VALUE.because("memory is mapped there already"));
        }
        if offset != 0
            || flags != 0
            || !is_whole(address)
            || size != memory.physical.bytes()
        {
            return Err(Status::INVALID_VALUE.because(format!(
                "physical memory is mapped as a whole, at a multiple of {GRANULARITY}"
            )));
        }
        arena()?
            .map(address, size, Some(&memory.physical))
            .map_err(|error| system(&error))?;
        mapped.insert(address, Mapping {
            memory,
            bytes: size,
            access: [NO_ACCESS; MOST_DEVICES as usize],
        });
        Ok(())
    }

    /// Waits for the work of the current context first.
    fn cuMemUnmap(address: CUdeviceptr, bytes: usize) {
        if let Ok(context) = context::current() {
            context.wait();
        }
        let mut mapped = all_mapped();
        for start in whole_mappings(&mapped, address, bytes as u64)? {
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

    fn cuMemSetAccess(
        address: CUdeviceptr,
        bytes: usize,
        described: *const MemAccessDesc,
        count: usize,
    ) {
        let mut mapped = all_mapped();
        let starts = whole_mappings(&mapped, address, bytes as u64)?;
        let described = described.slice(count)?;
        for &MemAccessDesc { location, flags } in described {
            match flags {
                _ if location.kind != DEVICE => return Err(Status::NOT_SUPPORTED
                    .because("access to mapped memory is a device's")),
                NO_ACCESS | READ_WRITE => device::check(location.id)?,
                READ => return Err(Status::NOT_SUPPORTED
                    .because("the CPU device has no memory that can only be read")),
                _ => return Err(Status::INVALID_VALUE.because("unknown access flags")),
            }
        }
        for start in starts {
            let Some(mapping) = mapped.get_mut(&start) else { continue };
            for &MemAccessDesc { location, flags } in described {
                if let Some(access) = mapping.access.get_mut(location.id as usize) {
                    *access = flags;
                }
                let allowed = flags == READ_WRITE;
                arena()?.open(location.id as usize, start, mapping.bytes, allowed);
            }
        }
        Ok(())
    }

    fn cuMemGetAccess(flags: *mut u64, location: *const MemLocation, address: CUdeviceptr) {
        let location = location.get()?;
        let mapped = all_mapped();
        let (_, mapping) = at(&mapped, address)
            .ok_or_else(|| Status::INVALID_VALUE.because("no physical memory is mapped there"))?;
        let access = match location.kind {
            DEVICE => {
                device::check(location.id)?;
                mapping.access.get(location.id as usize).copied().unwrap_or(0)
            }
            _ => NO_ACCESS,
        };
        flags.put(u64::from(access))
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
        let file = memory.physical.export().map_err(|error| system(&error))?;
        export(result.cast(), file)
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

/// The caller gets the descriptor, and closes it.
#[cfg(unix)]
fn export(result: Given<c_int>, file: std::fs::File) -> Answer {
    use std::os::fd::IntoRawFd;
    result.put(file.into_raw_fd())
}

#[cfg(not(unix))]
fn export(_: Given<c_int>, _: std::fs::File) -> Answer {
    Err(Status::NOT_SUPPORTED.into())
}

/// The descriptor stays the caller's.
#[cfg(unix)]
fn import(descriptor: usize) -> Answer<Physical> {
    use std::os::fd::BorrowedFd;
    let bad = || Status::INVALID_VALUE.because("the descriptor is not of exported memory");
    let number = c_int::try_from(descriptor)
        .ok()
        .filter(|number| *number >= 0)
        .ok_or_else(bad)?;
    // SAFETY: the caller answers for the descriptor; it is borrowed for the copy below.
    let file = unsafe { BorrowedFd::borrow_raw(number) };
    let file = file.try_clone_to_owned().map_err(|_| bad())?;
    let physical = Physical::of_file(file.into()).map_err(|_| bad())?;
    match physical.bytes() {
        bytes if bytes > 0 && is_whole(bytes) => Ok(physical),
        _ => Err(bad()),
    }
}

#[cfg(not(unix))]
fn import(_: usize) -> Answer<Physical> {
    Err(Status::NOT_SUPPORTED.into())
}
