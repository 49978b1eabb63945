//! A launch, and the kernel that it runs.

use std::sync::atomic::{AtomicBool, AtomicU64};

use super::config::LaunchConfig;
use super::schedule::CompiledKernel;
use crate::abi::{EXTENTS, Extent, LaunchInfo};
use crate::runtime;

/// A kernel that is launched.
pub(super) struct Kernel<'a> {
    pub(super) name: &'a str,
    pub(super) code: CompiledKernel<'a>,
    pub(super) shared_bytes: u32,
    pub(super) local_bytes: u32,
    pub(super) slots: u32,
    /// The size of the packed registers of a group of the vector function, in bytes.
    pub(super) packed_bytes: u32,
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

// SAFETY: the parameters outlive the launch, and workers only read them. All else may be
// shared between threads.
unsafe impl Sync for Launch<'_> {}
