//! Modules that have proved hot are compiled a second time, better.
//!
//! The first compilation is quick: registers are allocated in one pass, and the
//! functions run one thread at a time. Once a module's kernels have run for
//! [`HOT`], a thread of its own compiles the module with care, for several
//! threads at once where that pays, and later launches take that code. Both
//! compute the same. The better code is of this process alone: it is not in the
//! binary that a cache keeps.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::code::Code;
use super::compile::compile_image;
use super::{CompileOptions, Lanes};

/// About what the better code of a small module costs to compile: one that ran
/// this long is likely to run as long again.
const HOT: Duration = Duration::from_millis(3);

/// The second life of a module's code.
#[derive(Debug)]
pub(crate) struct Hot {
    ptx: String,
    /// Nanoseconds that its kernels ran.
    spent: AtomicU64,
    /// `None` where nothing better came out.
    better: OnceLock<Option<Code>>,
}

impl Hot {
    /// For a module with this text; an empty text has no second life.
    pub(crate) fn new(ptx: String) -> Arc<Hot> {
        Arc::new(Hot {
            ptx,
            spent: AtomicU64::new(0),
            better: OnceLock::new(),
        })
    }

    /// The better code, once it is there.
    pub(crate) fn better(&self) -> Option<&Code> {
        self.better.get()?.as_ref()
    }

    /// Notes that a kernel of the module ran for `time`.
    pub(crate) fn ran(self: &Arc<Hot>, time: Duration) {
        if self.ptx.is_empty() || self.better.get().is_some() {
            return;
        }
        let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX / 2);
        let before = self.spent.fetch_add(nanoseconds(time), Ordering::Relaxed);
        let limit = nanoseconds(HOT);
        // Exactly one caller takes it over the limit.
        if before >= limit || before.saturating_add(nanoseconds(time)) < limit {
            return;
        }
        let hot = Arc::clone(self);
        // Without a thread the module stays as it is.
        let _ = std::thread::Builder::new()
            .name("ptxkit compiler".into())
            .spawn(move || hot.compile());
    }

    fn compile(&self) {
        let options = CompileOptions {
            lanes: Lanes::Auto,
            ..CompileOptions::default()
        };
        let start = std::time::Instant::now();
        let better = compile_image(&self.ptx, &options)
            .ok()
            .and_then(|image| Code::new(&image.code, image.kernels).ok());
        tracing::debug!(
            ms = start.elapsed().as_secs_f64() * 1e3,
            better = better.is_some(),
            "compiled a hot module again"
        );
        let _ = self.better.set(better);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::LoadedModule;
    use crate::memory::{DeviceMemory, Purpose};
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
            image.kernels[0].lanes.is_none(),
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
