//! The heap of kernels (`malloc` and `free`): allocations of device memory up to the limit
//! `CU_LIMIT_MALLOC_HEAP_SIZE`, and who has made and freed them.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::lines::Line;
use super::memory::{DeviceMemory, FREED, MemoryError, Purpose};
use ptx::line_table::SourceLine;

/// The default limit: 8 MiB.
pub const DEFAULT_LIMIT: u64 = 8 << 20;

/// A thread that calls `malloc` or `free`, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Caller {
    /// The kernel's name.
    pub kernel: Box<str>,
    /// `%ctaid` of the block.
    pub block: [u32; 3],
    /// `%tid` of the thread.
    pub thread: [u32; 3],
    /// The line in the PTX, 1-based; 0 where unknown.
    pub line: u32,
    /// What that was compiled from, by `.loc`.
    pub source_line: Option<SourceLine>,
}

impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [[x, y, z], [a, b, c]] = [self.block, self.thread];
        write!(
            f,
            "kernel {}, block ({x},{y},{z}), thread ({a},{b},{c})",
            self.kernel
        )?;
        match self.line {
            0 => Ok(()),
            ptx => {
                let source = self.source_line.clone();
                write!(f, " at PTX line {}", Line { ptx, source })
            }
        }
    }
}

/// Who has made an allocation, and who has freed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Past {
    pub(crate) allocated: Caller,
    pub(crate) freed: Option<Caller>,
}

/// By first address.
#[derive(Default)]
struct History {
    live: HashMap<u64, Caller>,
    /// The last ones that were freed.
    freed: VecDeque<(u64, Past)>,
}

/// The heap of a device. Allocations outlive the launch: a later kernel may use and free
/// them.
pub struct Heap {
    memory: Arc<DeviceMemory>,
    limit: AtomicU64,
    used: AtomicU64,
    history: Mutex<History>,
}

impl Heap {
    pub(super) fn new(memory: Arc<DeviceMemory>) -> Heap {
        Heap {
            memory,
            limit: AtomicU64::new(DEFAULT_LIMIT),
            used: AtomicU64::new(0),
            history: Mutex::default(),
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
    pub fn allocate(&self, bytes: u64, caller: Caller) -> u64 {
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
        match self.memory.allocate(bytes, 256, Purpose::Heap) {
            Ok(address) => {
                self.history().live.insert(address, caller);
                address
            }
            Err(_) => {
                self.used.fetch_sub(bytes, Ordering::Relaxed);
                0
            }
        }
    }

    /// `free`. Freeing 0 does nothing, as in C.
    pub fn free(&self, address: u64, caller: Caller) -> Result<(), MemoryError> {
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
        let mut history = self.history();
        // If two threads free the same address, one of them fails here.
        self.memory.free(address)?;
        if let Some(allocated) = history.live.remove(&address) {
            if history.freed.len() == FREED {
                history.freed.pop_front();
            }
            let freed = Some(caller);
            history
                .freed
                .push_back((address, Past { allocated, freed }));
        }
        self.used.fetch_sub(allocation.size, Ordering::Relaxed);
        Ok(())
    }

    /// What is known of the allocation with this first address: of the live one, or else of the
    /// last that was freed there.
    pub(crate) fn past(&self, start: u64) -> Option<Past> {
        let history = self.history();
        let live = history.live.get(&start).cloned();
        live.map(|allocated| Past {
            allocated,
            freed: None,
        })
        .or_else(|| {
            let mut freed = history.freed.iter().rev();
            let found = freed.find(|(address, _)| *address == start);
            found.map(|(_, past)| past.clone())
        })
    }

    fn history(&self) -> MutexGuard<'_, History> {
        // No code panics between two changes that belong together.
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(line: u32) -> Caller {
        Caller {
            kernel: "k".into(),
            block: [1, 0, 0],
            thread: [2, 0, 0],
            line,
            source_line: None,
        }
    }

    #[test]
    fn the_limit_holds_and_freed_memory_counts_again() {
        let memory = Arc::new(DeviceMemory::with_size(1 << 20).unwrap());
        let heap = Heap::new(Arc::clone(&memory));
        heap.set_limit(1000);
        let a = heap.allocate(600, at(1));
        assert!(a != 0 && a.is_multiple_of(16));
        assert_eq!(heap.allocate(401, at(2)), 0);
        assert_ne!(heap.allocate(400, at(3)), 0);
        assert!(heap.free(a + 16, at(4)).is_err());
        heap.free(a, at(5)).unwrap();
        assert!(heap.free(a, at(6)).is_err());
        assert_eq!(heap.used(), 400);
        assert_ne!(heap.allocate(600, at(7)), 0);
        assert!(heap.free(0, at(8)).is_ok());
        assert_eq!(heap.allocate(0, at(9)), 0);
    }

    #[test]
    fn only_what_malloc_gave_can_be_freed() {
        let memory = Arc::new(DeviceMemory::with_size(1 << 20).unwrap());
        let heap = Heap::new(Arc::clone(&memory));
        let buffer = memory.allocate(64, 256, Purpose::Device).unwrap();
        assert!(matches!(
            heap.free(buffer, at(1)),
            Err(MemoryError::NotAllocated { .. })
        ));
        assert_eq!(heap.past(buffer), None);
    }

    #[test]
    fn it_is_known_who_allocated_and_who_freed() {
        let memory = Arc::new(DeviceMemory::with_size(1 << 20).unwrap());
        let heap = Heap::new(memory);
        let a = heap.allocate(64, at(1));
        let past = heap.past(a).unwrap();
        assert_eq!((past.allocated, past.freed), (at(1), None));
        heap.free(a, at(2)).unwrap();
        let past = heap.past(a).unwrap();
        assert_eq!((past.allocated, past.freed), (at(1), Some(at(2))));
        // The same address again.
        let again = heap.allocate(64, at(3));
        assert_eq!(again, a);
        assert_eq!(heap.past(a).unwrap().allocated, at(3));
        assert_eq!(
            at(3).to_string(),
            "kernel k, block (1,0,0), thread (2,0,0) at PTX line 3"
        );
    }

    #[test]
    fn the_history_ends() {
        let memory = Arc::new(DeviceMemory::with_size(1 << 20).unwrap());
        let heap = Heap::new(memory);
        for line in 0..1000 {
            let a = heap.allocate(64, at(line));
            heap.free(a, at(line)).unwrap();
        }
        let history = heap.history();
        assert_eq!((history.live.len(), history.freed.len()), (0, FREED));
    }
}
