//! A progress bar on standard error, if it is a terminal and the check takes long.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// The bar appears after this time.
const PATIENCE: Duration = Duration::from_millis(500);

/// The number of files that are done.
pub struct Progress {
    started: Instant,
    files: u64,
    done: std::sync::atomic::AtomicU64,
    bar: OnceLock<ProgressBar>,
}

impl Progress {
    pub fn new(files: usize) -> Progress {
        Progress {
            started: Instant::now(),
            files: files as u64,
            done: Default::default(),
            bar: OnceLock::new(),
        }
    }

    /// Counts a finished file.
    pub fn one_more(&self) {
        let done = self.done.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1;
        if self.files > 1 && self.started.elapsed() > PATIENCE {
            // Draws nothing where standard error is not a terminal.
            let bar = self.bar.get_or_init(|| {
                let style =
                    ProgressStyle::with_template("{wide_bar} {pos}/{len} files, {eta} left");
                let bar = ProgressBar::new(self.files);
                bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
            });
            bar.set_position(done);
        }
    }

    /// Hides the bar while `print` runs.
    pub fn aside(&self, print: impl FnOnce()) {
        match self.bar.get() {
            Some(bar) => bar.suspend(print),
            None => print(),
        }
    }

    /// Removes the bar.
    pub fn end(&self) {
        if let Some(bar) = self.bar.get() {
            bar.finish_and_clear();
        }
    }
}
