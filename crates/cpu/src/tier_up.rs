//! Tier-up: hot kernels are compiled a second time, with optimization.
//!
//! The first compilation is fast: it uses the single-pass register allocator, and emits
//! scalar functions only. Once a kernel has run for [`HOT_AFTER`], a background thread
//! compiles it again, with the better register allocator and with a vector function where
//! that pays. Later launches use that code; the results are the same.
//!
//! The optimized code is for blocks of one size, which tells the compiler which threads are a warp
//! and how far apart their addresses are. A kernel has code for the first sizes with which it is
//! launched, and code for all others.
//!
//! A module with a [`CodeStore`](super::CodeStore) gives it the optimized code of each hot
//! kernel, as a binary of that kernel alone. The first launch of a kernel looks there, so that a
//! process that finds it neither compiles nor reads PTX. Functions, line numbers and sync
//! points of the optimized code are in that binary; variables are those of the module, by
//! their numbers. So it fits one text alone, whose key the store has.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::executable::ExecutableKernel;

/// About the time to compile the optimized code of a small kernel. A kernel that has run for
/// this long is likely to run as long again.
const HOT_AFTER: Duration = Duration::from_millis(3);

/// The tier-up state of a kernel.
#[derive(Debug, Default)]
pub(crate) struct TierUp {
    /// The time that it has run, in nanoseconds.
    run_time: AtomicU64,
    /// Whether the module's store was searched.
    searched: OnceLock<()>,
    /// `None` if the second compilation failed.
    optimized: OnceLock<Option<ExecutableKernel>>,
}

impl TierUp {
    /// The optimized code, if it is ready.
    pub(crate) fn optimized(&self) -> Option<&ExecutableKernel> {
        self.optimized.get()?.as_ref()
    }

    /// Whether it ended: with optimized code or without it.
    pub(crate) fn is_finished(&self) -> bool {
        self.optimized.get().is_some()
    }

    /// Takes what `find` finds for the optimized code. Only the first call searches; others
    /// wait for it.
    pub(crate) fn search(&self, find: impl FnOnce() -> Option<ExecutableKernel>) {
        self.searched.get_or_init(|| {
            if let Some(found) = find() {
                self.finish(Some(found));
            }
        });
    }

    /// Records that the kernel ran for `time`. True once: where that makes it hot.
    pub(crate) fn becomes_hot(&self, time: Duration) -> bool {
        if self.optimized.get().is_some() {
            return false;
        }
        let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX / 2);
        let before = self
            .run_time
            .fetch_add(nanoseconds(time), Ordering::Relaxed);
        let limit = nanoseconds(HOT_AFTER);
        before < limit && before.saturating_add(nanoseconds(time)) >= limit
    }

    /// Ends the second compilation, or the search for its result.
    pub(crate) fn finish(&self, optimized: Option<ExecutableKernel>) {
        let _ = self.optimized.set(optimized); // only one compiles it
    }
}
