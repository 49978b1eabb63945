//! What is shown of work that takes long, if standard error is a terminal: a bar where parts are
//! counted, and else how long it has taken.

use std::io::IsTerminal;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use terminal::output::Escaped;

/// It appears after this time.
const PATIENCE: Duration = Duration::from_millis(500);
/// A clock is drawn anew after this time.
const TICK: Duration = Duration::from_millis(200);

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

/// The time that a call takes, such as a launch, which counts nothing. Removed on drop.
pub struct Waiting {
    drawing: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Waiting {
    pub fn new(what: &str) -> Waiting {
        if !std::io::stderr().is_terminal() {
            return Waiting { drawing: None };
        }
        let (ended, end) = channel();
        let what = Escaped::new(what).to_string();
        let thread = std::thread::Builder::new().spawn(move || {
            let ends_within = |time| end.recv_timeout(time) != Err(RecvTimeoutError::Timeout);
            let started = Instant::now();
            if ends_within(PATIENCE) {
                return;
            }
            let style = ProgressStyle::with_template("{prefix} {wide_msg}");
            let clock = ProgressBar::new_spinner()
                .with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()))
                .with_prefix(what);
            loop {
                clock.set_message(format!("{:.1} s", started.elapsed().as_secs_f64()));
                if ends_within(TICK) {
                    return clock.finish_and_clear();
                }
            }
        });
        // Without a thread the work goes on all the same.
        Waiting {
            drawing: thread.ok().map(|thread| (ended, thread)),
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some((ended, thread)) = self.drawing.take() {
            drop(ended);
            let _ = thread.join();
        }
    }
}
