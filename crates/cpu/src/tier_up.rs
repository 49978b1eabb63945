//! Tier-up: hot kernels are compiled a second time, with optimization.
//!
//! The first compilation is fast: it uses the single-pass register allocator, and emits
//! scalar functions only. Once a kernel has run for [`HOT_AFTER`], a background thread
//! compiles it again, with the better register allocator and with a vector function where
//! that pays. Later launches use that code; the results are the same. It is not stored in
//! the binary, and so not in a cache.

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
    /// `None` if the second compilation failed.
    optimized: OnceLock<Option<ExecutableKernel>>,
}

impl TierUp {
    /// The optimized code, if it is ready.
    pub(crate) fn optimized(&self) -> Option<&ExecutableKernel> {
        self.optimized.get()?.as_ref()
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

    /// Ends the second compilation.
    pub(crate) fn finish(&self, optimized: Option<ExecutableKernel>) {
        let _ = self.optimized.set(optimized); // only one compiles it
    }
}
