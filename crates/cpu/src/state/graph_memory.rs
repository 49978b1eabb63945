//! Memory that graphs allocate and free by themselves. It has its address from the
//! node that allocates it up to the end of the graph and of what is made of it; the
//! numbers that a device reports of it follow CUDA's rules.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::context::Context;
use super::device::{self, MAX_DEVICES};
use super::memory;
use super::status::{Result, Status};
use crate::memory::Purpose;
use api::CUdevice;

/// One allocation of a graph.
pub(crate) struct GraphAllocation {
    address: u64,
    /// The number of the allocation, which no other has at this address.
    buffer: u64,
    bytes: u64,
    device: usize,
    /// A node of the graph frees it.
    is_freed: AtomicBool,
    /// A launch was queued that allocates it, and nothing that frees it.
    is_live: AtomicBool,
    /// A launch has reached it, so that it counts as in use.
    is_used: AtomicBool,
}

/// `CU_GRAPH_MEM_ATTR_…` of a device, in their order.
type Attributes = [u64; 4];
const USED: usize = 0;
const RESERVED: usize = 2;

static ATTRIBUTES: Mutex<[Attributes; MAX_DEVICES as usize]> =
    Mutex::new([[0; 4]; MAX_DEVICES as usize]);

/// Allocations of graphs by address, with their numbers. Some may have ended with their context.
type Live = BTreeMap<u64, (u64, Weak<GraphAllocation>)>;

fn live() -> MutexGuard<'static, Live> {
    static LIVE: Mutex<Live> = Mutex::new(Live::new());
    LIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn all_attributes() -> MutexGuard<'static, [Attributes; MAX_DEVICES as usize]> {
    ATTRIBUTES.lock().unwrap_or_else(PoisonError::into_inner)
}

impl GraphAllocation {
    pub(crate) fn new(
        context: &Context,
        bytes: usize,
        purpose: Purpose,
    ) -> Result<Arc<GraphAllocation>> {
        let (address, buffer) = memory::allocate_for_graph(context, bytes, purpose)?;
        let allocation = Arc::new(GraphAllocation {
            address,
            buffer,
            bytes: bytes as u64,
            device: context.device() as usize,
            is_freed: AtomicBool::new(false),
            is_live: AtomicBool::new(false),
            is_used: AtomicBool::new(false),
        });
        live().insert(address, (buffer, Arc::downgrade(&allocation)));
        Ok(allocation)
    }

    pub(crate) fn address(&self) -> u64 {
        self.address
    }

    /// Sets whether a node frees it; returns whether one did before.
    pub(crate) fn set_freed(&self, is_freed: bool) -> bool {
        self.is_freed.swap(is_freed, Ordering::AcqRel)
    }

    /// The work of the node that allocates it.
    pub(crate) fn allocate(&self) {
        if self.is_used.swap(true, Ordering::AcqRel) {
            return;
        }
        let mut all = all_attributes();
        let attributes = &mut all[self.device];
        attributes[USED] += self.bytes;
        attributes[RESERVED] = attributes[RESERVED].max(attributes[USED]);
        for number in [USED, RESERVED] {
            attributes[number + 1] = attributes[number + 1].max(attributes[number]);
        }
    }
}

impl GraphAllocation {
    /// Whether a launch that is queued now would allocate memory that is still allocated.
    pub(crate) fn is_live(&self) -> bool {
        self.is_live.load(Ordering::Acquire)
    }

    /// A launch of its graph is queued.
    pub(crate) fn launched(&self) {
        let is_freed = self.is_freed.load(Ordering::Acquire);
        self.is_live.store(!is_freed, Ordering::Release);
    }

    /// The memory is not in use any more. It stays in place for the next launch.
    pub(crate) fn free(&self) {
        if self.is_used.swap(false, Ordering::AcqRel) {
            all_attributes()[self.device][USED] -= self.bytes;
        }
    }
}

impl Drop for GraphAllocation {
    fn drop(&mut self) {
        let mut live = live();
        // What has the address now may be another's.
        if live
            .get(&self.address)
            .is_some_and(|(buffer, _)| *buffer == self.buffer)
        {
            live.remove(&self.address);
        }
        drop(live);
        self.free();
        memory::free_of_graph(self.address, self.buffer);
    }
}

/// Whether memory of a graph begins at the address.
pub(crate) fn is_live(address: u64) -> bool {
    let buffer = live().get(&address).map(|(buffer, _)| *buffer);
    buffer.is_some() && buffer == memory::info(address).map(|info| info.buffer)
}

/// Memory that a launch allocates and its graph does not free, when the caller queues its end.
pub(crate) fn release(address: u64) -> Result<Arc<GraphAllocation>> {
    let found = live().get(&address).and_then(|(_, found)| found.upgrade());
    match found.filter(|allocation| allocation.is_live.swap(false, Ordering::AcqRel)) {
        Some(allocation) => Ok(allocation),
        None => Err(Status::INVALID_VALUE.because(format!(
            "{address:#x} is memory of a graph that no launch has allocated"
        ))),
    }
}

/// Sets a high-water mark to what it marks.
pub(crate) fn reset_high(device: CUdevice, number: usize) -> Result {
    device::check(device)?;
    let attributes = &mut all_attributes()[device as usize];
    attributes[number] = attributes[number - 1];
    Ok(())
}

/// Releases what a device reserves beyond what is in use.
pub(crate) fn trim(device: CUdevice) -> Result {
    device::check(device)?;
    let attributes = &mut all_attributes()[device as usize];
    attributes[RESERVED] = attributes[USED];
    Ok(())
}

/// `CU_GRAPH_MEM_ATTR_…` of a device.
pub(crate) fn attributes(device: CUdevice) -> Result<[u64; 4]> {
    device::check(device)?;
    Ok(all_attributes()[device as usize])
}
