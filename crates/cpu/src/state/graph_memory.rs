//! Memory that graphs allocate and free by themselves. It has its address from the
//! node that allocates it up to the end of the graph and of what is made of it; the
//! numbers that a device reports of it follow CUDA's rules.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::context::Context;
use super::device::{self, MAX_DEVICES};
use super::memory;
use super::status::Result;
use api::CUdevice;

/// One allocation of a graph.
pub(crate) struct GraphAllocation {
    address: u64,
    bytes: u64,
    device: usize,
    /// A node of the graph frees it.
    is_freed: AtomicBool,
    /// A launch has reached it, so that it counts as in use.
    is_used: AtomicBool,
}

/// `CU_GRAPH_MEM_ATTR_…` of a device, in their order.
type Attributes = [u64; 4];
const USED: usize = 0;
const RESERVED: usize = 2;

static ATTRIBUTES: Mutex<[Attributes; MAX_DEVICES as usize]> =
    Mutex::new([[0; 4]; MAX_DEVICES as usize]);

fn all_attributes() -> MutexGuard<'static, [Attributes; MAX_DEVICES as usize]> {
    ATTRIBUTES.lock().unwrap_or_else(PoisonError::into_inner)
}

impl GraphAllocation {
    pub(crate) fn new(context: &Context, bytes: usize) -> Result<Arc<GraphAllocation>> {
        Ok(Arc::new(GraphAllocation {
            address: memory::allocate_for_graph(context, bytes)?,
            bytes: bytes as u64,
            device: context.device() as usize,
            is_freed: AtomicBool::new(false),
            is_used: AtomicBool::new(false),
        }))
    }

    pub(crate) fn address(&self) -> u64 {
        self.address
    }

    pub(crate) fn is_freed(&self) -> bool {
        self.is_freed.load(Ordering::Acquire)
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

impl Drop for GraphAllocation {
    fn drop(&mut self) {
        if *self.is_used.get_mut() {
            all_attributes()[self.device][USED] -= self.bytes;
        }
        memory::free_of_graph(self.address);
    }
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
