//! Memory pools. What a pool frees goes back to the arena at once, where an
//! access to it is found; a pool's reserve is a number that follows CUDA's rules.

use std::ffi::{c_int, c_uint, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::context::Context;
use super::device::{self, MOST_DEVICES};
use super::entry::{Given, entries};
use super::handle::{Handles, pointer};
use super::memory::allocate_from;
use super::status::{Answer, Status};
use super::stream;
use crate::memory::Purpose;
use api::{
    CUdevice, CUdeviceptr, CUmemoryPool, CUstream, MemAccessDesc, MemLocation, MemPoolProps,
};

static POOLS: Handles<Pool> = Handles::new();

/// The default pool of each device and the one that is current, by handle; 0
/// where nobody has asked yet.
static OF_DEVICES: Mutex<[[usize; 2]; MOST_DEVICES as usize]> =
    Mutex::new([[0; 2]; MOST_DEVICES as usize]);

/// Whether something was freed since the last [`settle`].
static FREED: AtomicBool = AtomicBool::new(false);

pub(super) struct Pool {
    device: CUdevice,
    is_default: bool,
    state: Mutex<State>,
}

struct State {
    /// May memory be used again after events, by chance, by dependencies.
    reuse: [c_int; 3],
    threshold: u64,
    most: u64,
    used: u64,
    used_high: u64,
    reserved: u64,
    reserved_high: u64,
    /// Its handle is gone, its memory may not be.
    destroyed: bool,
}

impl Pool {
    fn insert(device: CUdevice, is_default: bool, most: u64) -> usize {
        POOLS.insert(Arc::new(Pool {
            device,
            is_default,
            state: Mutex::new(State {
                reuse: [1; 3],
                threshold: 0,
                most,
                used: 0,
                used_high: 0,
                reserved: 0,
                reserved_high: 0,
                destroyed: false,
            }),
        }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Keeps at least so much of what is not in use.
    fn trim(&mut self, keep: u64) {
        self.reserved = self.used.max(self.reserved.min(keep));
    }
}

/// Default and current pool of a device.
fn of_device(device: CUdevice) -> Answer<[usize; 2]> {
    device::check(device)?;
    let mut all = OF_DEVICES.lock().unwrap_or_else(PoisonError::into_inner);
    let pools = all.get_mut(device as usize).ok_or(Status::INVALID_DEVICE)?;
    if pools[0] == 0 {
        *pools = [Pool::insert(device, true, 0); 2];
    }
    Ok(*pools)
}

fn set_current(device: CUdevice, handle: usize) {
    let mut all = OF_DEVICES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(pools) = all.get_mut(device as usize) {
        pools[1] = handle;
    }
}

pub(super) fn find(handle: Given<cudarc::driver::sys::CUmemPoolHandle_st>) -> Answer<Arc<Pool>> {
    let found = POOLS.get(handle).filter(|pool| !pool.state().destroyed);
    found.ok_or_else(|| Status::INVALID_VALUE.because("no live memory pool has this handle"))
}

fn allocate(handle: usize, context: &Context, bytes: usize) -> Answer<u64> {
    let pool = POOLS.at(handle).ok_or(Status::INVALID_VALUE)?;
    if pool.device != context.device() {
        return Err(Status::NOT_SUPPORTED
            .because("a stream takes memory from pools of its own device alone"));
    }
    let mut state = pool.state();
    let used = state.used.saturating_add(bytes as u64);
    if state.most > 0 && used > state.most {
        return Err(Status::OUT_OF_MEMORY.because(format!(
            "the pool has {} bytes, {} in use, {bytes} asked for",
            state.most, state.used
        )));
    }
    let start = allocate_from(handle, context, bytes, Purpose::Device, 0)?;
    state.used = used;
    state.used_high = state.used_high.max(used);
    state.reserved = state.reserved.max(used);
    state.reserved_high = state.reserved_high.max(state.reserved);
    Ok(start)
}

/// So many bytes came back to a pool; 0 is none.
pub(super) fn freed(handle: usize, bytes: u64) {
    let Some(pool) = POOLS.at(handle) else { return };
    let mut state = pool.state();
    state.used = state.used.saturating_sub(bytes);
    FREED.store(true, Ordering::Release);
    if state.destroyed && state.used == 0 {
        drop(state);
        POOLS.remove(handle);
    }
}

/// After a caller has waited for work: pools keep what their threshold allows.
pub(super) fn settle() {
    if FREED.swap(false, Ordering::AcqRel) {
        POOLS.for_each(|pool| {
            let mut state = pool.state();
            let keep = state.threshold;
            state.trim(keep);
        });
    }
}

/// What a caller means by a place in a pool's matters: one of the devices.
fn device_of(location: MemLocation) -> Answer<CUdevice> {
    if location.kind != DEVICE {
        return Err(Status::INVALID_VALUE.because("pools are of devices"));
    }
    device::check(location.id)?;
    Ok(location.id)
}

/// `CU_MEM_LOCATION_TYPE_DEVICE`, `CU_MEM_ALLOCATION_TYPE_PINNED`,
/// `CU_MEM_ACCESS_FLAGS_PROT_READWRITE`
const DEVICE: c_uint = 1;
const PINNED: c_uint = 1;
const READ_WRITE: c_uint = 3;

entries! {
    fn cuMemPoolCreate(result: *mut CUmemoryPool, properties: *const MemPoolProps) {
        let asked = properties.get()?;
        let device = device_of(asked.location)?;
        if asked.alloc_type != PINNED || result.is_null() {
            return Err(Status::INVALID_VALUE.because("pools have pinned memory (1)"));
        }
        if asked.handle_types != 0 {
            return Err(Status::NOT_SUPPORTED
                .because("the CPU device shares nothing between processes: no pool is exported"));
        }
        result.put(pointer(Pool::insert(device, false, asked.max_size as u64)))
    }

    fn cuMemPoolDestroy(handle: CUmemoryPool) {
        let pool = find(handle)?;
        if pool.is_default {
            return Err(Status::INVALID_VALUE.because("a default pool is not destroyed"));
        }
        let [default, current] = of_device(pool.device)?;
        if current == handle.addr() {
            set_current(pool.device, default);
        }
        let mut state = pool.state();
        state.destroyed = true;
        if state.used == 0 {
            drop(state);
            POOLS.remove(handle.addr());
        }
        Ok(())
    }

    fn cuMemPoolTrimTo(handle: CUmemoryPool, keep: usize) {
        find(handle)?.state().trim(keep as u64);
        Ok(())
    }

    fn cuMemPoolGetAttribute(handle: CUmemoryPool, number: c_uint, value: *mut c_void) {
        let pool = find(handle)?;
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
        let pool = find(handle)?;
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
        let pool = find(handle)?;
        for described in map.slice(count)? {
            let device = device_of(described.location)?;
            match (described.flags, device == pool.device) {
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
        let pool = find(handle)?;
        let is_own = device_of(location.get()?)? == pool.device;
        flags.put(if is_own { READ_WRITE } else { 0 })
    }

    fn cuDeviceGetDefaultMemPool(result: *mut CUmemoryPool, device: CUdevice) {
        result.put(pointer(of_device(device)?[0]))
    }

    fn cuDeviceGetMemPool(result: *mut CUmemoryPool, device: CUdevice) {
        result.put(pointer(of_device(device)?[1]))
    }

    fn cuDeviceSetMemPool(device: CUdevice, handle: CUmemoryPool) {
        of_device(device)?;
        if find(handle)?.device != device {
            return Err(Status::INVALID_VALUE.because("the pool is another device's"));
        }
        set_current(device, handle.addr());
        Ok(())
    }

    fn cuMemAllocAsync(address: *mut CUdeviceptr, bytes: usize, stream: CUstream) {
        let (context, stream) = stream::find(stream)?;
        stream.refuse_captured("graphs of the CPU device allocate by nodes alone")?;
        if address.is_null() {
            return Err(Status::INVALID_VALUE.into());
        }
        let current = of_device(context.device())?[1];
        address.put(allocate(current, &context, bytes)?)
    }

    fn cuMemAllocFromPoolAsync(
        address: *mut CUdeviceptr,
        bytes: usize,
        handle: CUmemoryPool,
        stream: CUstream,
    ) {
        let (context, stream) = stream::find(stream)?;
        stream.refuse_captured("graphs of the CPU device allocate by nodes alone")?;
        find(handle)?;
        if address.is_null() {
            return Err(Status::INVALID_VALUE.into());
        }
        address.put(allocate(handle.addr(), &context, bytes)?)
    }
}
