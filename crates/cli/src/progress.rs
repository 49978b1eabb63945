//! A progress bar for work on the cache, if standard error is a terminal and the work takes
//! long.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use terminal::output::Escaped;

/// The bar appears after this time.
const PATIENCE: Duration = Duration::from_millis(500);

/// A progress bar, removed on drop.
pub struct Progress {
    what: &'static str,
    /// The template for the counts.
    count: &'static str,
    started: Instant,
    bar: Option<ProgressBar>,
}

impl Progress {
    pub fn new(what: &'static str) -> Progress {
        Progress::counting(what, "{pos}/{len}")
    }

    /// A bar that counts bytes.
    pub fn of_bytes(what: &'static str) -> Progress {
        Progress::counting(what, "{binary_bytes} of {binary_total_bytes}")
    }

    fn counting(what: &'static str, count: &'static str) -> Progress {
        Progress {
            what,
            count,
            started: Instant::now(),
            bar: None,
        }
    }

    /// Updates the bar: `done` of `of`, with `last` as the last item.
    pub fn show(&mut self, done: u64, of: u64, last: &str) {
        if self.started.elapsed() < PATIENCE {
            return;
        }
        let bar = self.bar.get_or_insert_with(|| {
            // Draws nothing where standard error is not a terminal.
            let template = format!("{{prefix}} {{bar:30}} {} {{wide_msg}}", self.count);
            let style = ProgressStyle::with_template(&template);
            ProgressBar::new(of)
                .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
                .with_prefix(self.what)
        });
        bar.set_position(done);
        bar.set_message(Escaped::new(last).to_string());
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
