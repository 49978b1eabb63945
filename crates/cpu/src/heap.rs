//! The heap of kernels (`malloc` and `free`): allocations of device memory up to the limit
//! `CU_LIMIT_MALLOC_HEAP_SIZE`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::memory::{DeviceMemory, MemoryError, Purpose};

/// The default limit: 8 MiB.
pub const DEFAULT_LIMIT: u64 = 8 << 20;

/// The heap of a device. Allocations outlive the launch: a later kernel may use and free
/// them.
pub struct Heap {
    memory: Arc<DeviceMemory>,
    limit: AtomicU64,
    used: AtomicU64,
}

impl Heap {
    pub(super) fn new(memory: Arc<DeviceMemory>) -> Heap {
        Heap {
            memory,
            limit: AtomicU64::new(DEFAULT_LIMIT),
            used: AtomicU64::new(0),
        }
    }

    /// The limit in bytes.
    pub fn limit(&self) -> u64 {
        self.limit.load(Ordering::Relaxed)
    }

    /// Sets the limit (`cuCtxSetLimit`).
    pub fn set_limit(&self, bytes: u64) {
        self.limit.store(bytes, Ordering::Relaxed);
    }

    /// Allocated bytes.
    #[cfg(test)]
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// `malloc`: an address aligned to 256, or 0 if the limit is reached, device memory is
    /// exhausted, or `bytes` is 0.
    pub fn allocate(&self, bytes: u64) -> u64 {
        let limit = self.limit();
        let fits = |used: u64| used.checked_add(bytes).filter(|&sum| sum <= limit);
        if bytes == 0
            || self
                .used
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits)
                .is_err()
        {
            return 0;
        }
        self.memory
            .allocate(bytes, 256, Purpose::Heap)
            .unwrap_or_else(|_| {
                self.used.fetch_sub(bytes, Ordering::Relaxed);
                0
            })
    }

    /// `free`. Freeing 0 does nothing, as in C.
    pub fn free(&self, address: u64) -> Result<(), MemoryError> {
        if address == 0 {
            return Ok(());
        }
        let allocation = self.memory.range_of(address);
        let Some(allocation) =
            allocation.filter(|a| a.start == address && a.purpose == Purpose::Heap)
        else {
            let what = self.memory.describe(address);
            return Err(MemoryError::NotAllocated { address, what });
        };
        // If two threads free the same address, one of them fails here.
        self.memory.free(address)?;
        self.used.fetch_sub(allocation.size, Ordering::Relaxed);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_holds_and_freed_memory_counts_again() {
        let memory = Arc::new(DeviceMemory::with_size(1 << 20).unwrap());
        let heap = Heap::new(Arc::clone(&memory));
        heap.set_limit(1000);
        let a = heap.allocate(600);
        assert!(a != 0 && a.is_multiple_of(16));
        assert_eq!(heap.allocate(401), 0);
        assert_ne!(heap.allocate(400), 0);
        assert!(heap.free(a + 16).is_err());
        heap.free(a).unwrap();
        assert!(heap.free(a).is_err());
        assert_eq!(heap.used(), 400);
        assert_ne!(heap.allocate(600), 0);
        assert!(heap.free(0).is_ok());
        assert_eq!(heap.allocate(0), 0);
    }

    #[test]
    fn only_what_malloc_gave_can_be_freed() {
        let memory = Arc::new(DeviceMemory::with_size(1 << 20).unwrap());
        let heap = Heap::new(Arc::clone(&memory));
        let buffer = memory.allocate(64, 256, Purpose::Device).unwrap();
        assert!(matches!(
            heap.free(buffer),
            Err(MemoryError::NotAllocated { .. })
        ));
    }
}
