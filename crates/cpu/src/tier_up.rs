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

use super::compile::{CompileOptions, Vectorization, compile_image};
use super::module::ExecutableCode;

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{DeviceMemory, Purpose};
    use crate::module::LoadedModule;
    use crate::run::{Engine, LaunchShape};

    /// Numbers that differ from thread to thread, after a loop that takes a while.
    const PTX: &str = "
.version 6.0 .target sm_50 .address_size 64
.visible .entry k(.param .u64 out, .param .u64 out2) {
    .reg .b32 %t, %i, %x; .reg .b64 %out, %at; .reg .pred %p;
    ld.param.u64 %out, [out];
    mov.u32 %t, %tid.x;
    mov.u32 %x, %t;
    mov.u32 %i, 2000;
more:
    mad.lo.u32 %x, %x, 1664525, 1013904223;
    sub.u32 %i, %i, 1;
    setp.ne.u32 %p, %i, 0;
    @%p bra more;
    mul.wide.u32 %at, %t, 4;
    add.u64 %at, %at, %out;
    st.global.u32 [%at], %x;
    ret;
}";

    #[test]
    fn a_hot_module_is_compiled_again_and_computes_the_same() {
        let image = compile_image(PTX, &CompileOptions::default()).unwrap();
        assert!(
            image.kernels[0].vector.is_none(),
            "the first code runs one thread at a time"
        );
        let memory = Arc::new(DeviceMemory::with_size(16 << 20).unwrap());
        let module = LoadedModule::new(image, &memory).unwrap();
        let engine = Engine::with_workers(Arc::clone(&memory), 1);
        let out = memory.allocate(256, 256, Purpose::Device).unwrap();
        let shape = LaunchShape {
            grid: [1; 3],
            block: [64, 1, 1],
            shared_bytes: 0,
        };
        let launch = || {
            // SAFETY: 256 bytes of the allocation made above, which no kernel writes now.
            unsafe { std::ptr::write_bytes(out as *mut u8, 0, 256) };
            engine
                .launch(&module, 0, shape, &out.to_le_bytes())
                .unwrap();
            // SAFETY: as above.
            unsafe { std::slice::from_raw_parts(out as *const u32, 64) }.to_vec()
        };
        assert!(!module.is_hot());
        let cold = launch();
        let expected = (0..2000).fold(7_u32, |x, _| {
            x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223)
        });
        assert_eq!(cold[7], expected);
        let start = std::time::Instant::now();
        while !module.is_hot() {
            assert!(
                start.elapsed() < Duration::from_secs(60),
                "it never gets hot"
            );
            assert_eq!(launch(), cold);
        }
        assert_eq!(launch(), cold);
    }
}
