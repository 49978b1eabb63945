//! Values that kernels set, and that conditional nodes of graphs read.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::context::Context;
use super::memory;
use super::status::Result;
use crate::memory::Purpose;
use crate::sanitizer::fresh;

/// A value of four bytes in device memory, whose address is its handle: so a kernel sets it by
/// a store.
pub(crate) struct Condition {
    address: u64,
    /// The number of its allocation.
    buffer: u64,
    /// What it is at the start of each launch of its graph; `None` for what it was.
    default: Option<u32>,
}

impl Condition {
    pub(crate) fn new(context: &Context, default: Option<u32>) -> Result<Arc<Condition>> {
        let (address, buffer) =
            memory::allocate_for_graph(context, size_of::<u32>(), Purpose::Device)?;
        fresh::wrote(address, size_of::<u32>() as u64);
        let condition = Condition {
            address,
            buffer,
            default,
        };
        if let Some(place) = condition.place() {
            place.store(default.unwrap_or(0), Ordering::Release);
        }
        Ok(Arc::new(condition))
    }

    pub(crate) fn handle(&self) -> u64 {
        self.address
    }

    /// Where it is; `None` if its context, with which its memory ends, was destroyed.
    fn place(&self) -> Option<&AtomicU32> {
        let found = memory::info(self.address).map(|info| info.buffer);
        let place = std::ptr::with_exposed_provenance_mut(self.address as usize);
        // SAFETY: the memory was allocated, aligned, for this value, and is still its.
        (found == Some(self.buffer)).then(|| unsafe { AtomicU32::from_ptr(place) })
    }

    /// The value, 0 after its context.
    pub(crate) fn value(&self) -> u32 {
        self.place()
            .map_or(0, |place| place.load(Ordering::Acquire))
    }

    /// A launch of the graph begins.
    pub(crate) fn reset(&self) {
        if let (Some(value), Some(place)) = (self.default, self.place()) {
            place.store(value, Ordering::Release);
        }
    }
}

impl Drop for Condition {
    fn drop(&mut self) {
        memory::free_of_graph(self.address, self.buffer);
    }
}
