//! The first and the optimized code of a kernel that is launched.
//!
//! Blocks that start when the optimized code is ready run that, so that one long launch does not
//! end in the first code. Those that run already keep theirs.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::config::Grid;
use super::launch::{Kernel, Versions};
use super::schedule::CompiledKernel;
use crate::executable::ExecutableKernel;
use crate::module::LoadedModule;

/// A kernel of a module in a launch.
pub(super) struct Tiers<'m> {
    module: &'m LoadedModule,
    kernel: usize,
    grid: &'m Grid,
    first: Kernel<'m>,
    optimized: OnceLock<Kernel<'m>>,
    /// There was no optimized code when the launch started, and blocks start later.
    may_improve: bool,
    /// `None` if the module has the optimized code already.
    start: Option<Instant>,
    /// The nanoseconds of the launch that the module was told of.
    recorded: AtomicU64,
}

impl<'m> Tiers<'m> {
    /// `None` if there is no code. The launch starts now.
    pub(super) fn new(
        module: &'m LoadedModule,
        kernel: usize,
        compiled: &'m ExecutableKernel,
        grid: &'m Grid,
    ) -> Option<Tiers<'m>> {
        let is_first = module.code().may_improve(kernel, grid.config.block);
        Some(Tiers {
            module,
            kernel,
            grid,
            first: launched(module, compiled, grid)?,
            optimized: OnceLock::new(),
            may_improve: is_first && grid.blocks > 1,
            start: is_first.then(Instant::now),
            recorded: AtomicU64::new(0),
        })
    }

    /// Tells the module how long the launch has run.
    pub(super) fn record(&self) {
        let Some(start) = self.start else { return };
        let now = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let before = self.recorded.fetch_max(now, Ordering::Relaxed);
        let since = Duration::from_nanos(now.saturating_sub(before));
        let block = self.grid.config.block;
        self.module.code().record_run(self.kernel, block, since);
    }
}

impl Versions for Tiers<'_> {
    fn fastest(&self) -> &Kernel<'_> {
        if self.may_improve && self.optimized.get().is_none() {
            self.record();
            let code = self
                .module
                .code()
                .optimized(self.kernel, self.grid.config.block);
            if let Some(better) = code.and_then(|code| launched(self.module, code, self.grid)) {
                let _ = self.optimized.set(better); // another worker may have done so
            }
        }
        self.optimized.get().unwrap_or(&self.first)
    }
}

/// What the launch of some code on a grid runs.
fn launched<'m>(
    module: &'m LoadedModule,
    compiled: &'m ExecutableKernel,
    grid: &Grid,
) -> Option<Kernel<'m>> {
    let image = compiled.image();
    let vector = compiled.vector();
    let vector = vector.filter(|(_, width)| width.is_power_of_two() && *width <= grid.threads);
    Some(Kernel {
        name: &image.name,
        code: CompiledKernel {
            scalar: compiled.scalar()?,
            vector,
            stateless: image.stateless,
            points: &image.sync_points,
            lines: module,
            matrices: &image.matrices,
        },
        shared_bytes: image.shared_bytes,
        local_bytes: image.local_bytes,
        slots: image.slots,
        packed_bytes: image.vector.map_or(0, |function| function.packed_bytes),
        globals: module.addresses(),
    })
}
