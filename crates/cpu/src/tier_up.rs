//! Tier-up: hot modules are compiled a second time, with optimization.
//!
//! The first compilation is fast: it uses the single-pass register allocator, and emits
//! scalar functions only. Once the kernels of a module have run for [`HOT_AFTER`], a
//! background thread compiles the module again, with the better register allocator and
//! with vector functions where they pay. Later launches use that code; the results are
//! the same. It is not stored in the binary, and so not in a cache.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::codegen::Vectorization;
use super::compile::{CompileOptions, compile_image};
use super::executable::ExecutableCode;

/// About the time to compile the optimized code of a small module. A module that has run for
/// this long is likely to run as long again.
const HOT_AFTER: Duration = Duration::from_millis(3);

/// The tier-up state of a module.
#[derive(Debug)]
pub(crate) struct TierUp {
    ptx: String,
    /// The time that its kernels have run, in nanoseconds.
    run_time: AtomicU64,
    /// `None` if the second compilation failed.
    optimized: OnceLock<Option<ExecutableCode>>,
}

impl TierUp {
    /// The state for a module with this text. With an empty text there is no tier-up.
    pub(crate) fn new(ptx: String) -> Arc<TierUp> {
        Arc::new(TierUp {
            ptx,
            run_time: AtomicU64::new(0),
            optimized: OnceLock::new(),
        })
    }

    /// The optimized code, if it is ready.
    pub(crate) fn optimized(&self) -> Option<&ExecutableCode> {
        self.optimized.get()?.as_ref()
    }

    /// Records that a kernel of the module ran for `time`.
    pub(crate) fn record_run(self: &Arc<TierUp>, time: Duration) {
        if self.ptx.is_empty() || self.optimized.get().is_some() {
            return;
        }
        let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX / 2);
        let before = self
            .run_time
            .fetch_add(nanoseconds(time), Ordering::Relaxed);
        let limit = nanoseconds(HOT_AFTER);
        // Exactly one caller crosses the limit.
        if before >= limit || before.saturating_add(nanoseconds(time)) < limit {
            return;
        }
        let tier_up = Arc::clone(self);
        // If no thread can be created, the module keeps its first code.
        let _ = std::thread::Builder::new()
            .name("ptxkit compiler".into())
            .spawn(move || tier_up.compile());
    }

    fn compile(&self) {
        let options = CompileOptions {
            vectorization: Vectorization::Auto,
            ..CompileOptions::default()
        };
        let start = std::time::Instant::now();
        let optimized = compile_image(&self.ptx, &options)
            .ok()
            .and_then(|image| ExecutableCode::new(&image.code, image.kernels).ok());
        tracing::debug!(
            ms = start.elapsed().as_secs_f64() * 1e3,
            optimized = optimized.is_some(),
            "compiled a hot module again"
        );
        let _ = self.optimized.set(optimized);
    }
}
