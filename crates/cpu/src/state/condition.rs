//! Values that kernels set, and that conditional nodes of graphs read.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::context::Context;
use super::memory;
use super::status::Result;
use crate::memory::Purpose;

/// A value of four bytes in device memory, whose address is its handle: so a kernel sets it by
/// a store.
pub(crate) struct Condition {
    address: u64,
    /// What it is at the start of each launch of its graph; `None` for what it was.
    default: Option<u32>,
}

impl Condition {
    pub(crate) fn new(context: &Context, default: Option<u32>) -> Result<Arc<Condition>> {
        let address = memory::allocate_for_graph(context, size_of::<u32>(), Purpose::Device)?;
        let condition = Condition { address, default };
        condition
            .value()
            .store(default.unwrap_or(0), Ordering::Release);
        Ok(Arc::new(condition))
    }

    pub(crate) fn handle(&self) -> u64 {
        self.address
    }

    pub(crate) fn value(&self) -> &AtomicU32 {
        let place = std::ptr::with_exposed_provenance_mut(self.address as usize);
        // SAFETY: the memory was allocated, aligned, for this value, and lives as long.
        unsafe { AtomicU32::from_ptr(place) }
    }

    /// A launch of the graph begins.
    pub(crate) fn reset(&self) {
        if let Some(value) = self.default {
            self.value().store(value, Ordering::Release);
        }
    }
}

impl Drop for Condition {
    fn drop(&mut self) {
        memory::free_of_graph(self.address);
    }
}
