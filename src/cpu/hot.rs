//! Modules that have proved hot are compiled a second time, better.
//!
//! The first compilation is quick: its functions run one thread at a time. Once
//! a module's kernels have run for [`HOT`], a thread of its own compiles the
//! module for several threads at once, and later launches take that code. Both
//! compute the same.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::code::Code;
use super::compile::compile_image;
use super::{CompileOptions, Lanes};

/// What the better code costs to compile, or less: a module that ran this long
/// is likely to run as long again.
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
        let mut options = CompileOptions::default();
        options.lanes = Lanes::Auto;
        let start = std::time::Instant::now();
        let better = compile_image(&self.ptx, &options)
            .ok()
            .filter(|image| image.kernels.iter().any(|kernel| kernel.lanes.is_some()))
            .and_then(|image| Code::new(&image.code, image.kernels).ok());
        tracing::debug!(
            ms = start.elapsed().as_secs_f64() * 1e3,
            better = better.is_some(),
            "compiled a hot module again"
        );
        let _ = self.better.set(better);
    }
}
