//! A launch, and the kernel that it runs.

use std::sync::atomic::{AtomicBool, AtomicU64};

use super::config::LaunchConfig;
use super::schedule::CompiledKernel;
use crate::abi::{EXTENTS, Extent, LaunchInfo, MAX_UNITS};
use crate::runtime;

/// A kernel that is launched.
pub(super) struct Kernel<'a> {
    pub(super) name: &'a str,
    pub(super) code: CompiledKernel<'a>,
    pub(super) shared_bytes: u32,
    pub(super) local_bytes: u32,
    pub(super) slots: u32,
    pub(super) globals: &'a [u64],
}

/// The code of a kernel, of which better may come while it is launched.
pub(super) trait Versions: Sync {
    /// The code that blocks which start now run.
    fn fastest(&self) -> &Kernel<'_>;
}

/// A launch, shared by all workers.
pub(super) struct Launch<'a> {
    /// The number of threads that run blocks.
    pub(super) workers: u32,
    pub(super) kernel: &'a (dyn Versions + 'a),
    pub(super) config: LaunchConfig,
    /// Threads of a block.
    pub(super) threads: u32,
    /// Clusters of the grid.
    pub(super) total: u64,
    pub(super) params: *const u8,
    pub(super) extents: &'a [Extent; EXTENTS],
    pub(super) helpers: &'static [usize; runtime::Helper::ALL.len()],
    pub(super) info: LaunchInfo<'a>,
    pub(super) grid_id: u64,
    /// The first cluster that no worker has taken.
    pub(super) next: AtomicU64,
    pub(super) stop: AtomicBool,
    /// The clusters that have memory, or are trying to allocate it.
    pub(super) clusters: AtomicU64,
}

/// Threads of a grid that stores more than caches keep.
const THREADS: u64 = 4 << 20;
/// What it stores to: 32 MiB, which a following kernel would hardly find there. Counted like
/// [`Extent::places`].
const WORDS: u64 = (8 << 20) + 1 - MAX_UNITS;

impl Launch<'_> {
    /// The least places for words of an allocation to which its threads store past the caches.
    pub(super) fn streamed(&self) -> u64 {
        let blocks = self
            .total
            .saturating_mul(self.config.cluster_blocks().into());
        match blocks.saturating_mul(self.threads.into()) {
            ..THREADS => u64::MAX,
            _ => WORDS,
        }
    }
}

// SAFETY: the parameters outlive the launch, and workers only read them. All else may be
// shared between threads.
unsafe impl Sync for Launch<'_> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_of_32_mib_are_large() {
        let places = |bytes| Extent::new(0, bytes).places[2];
        assert!(places(32 << 20) >= WORDS && places((32 << 20) - 4) < WORDS);
    }
}
