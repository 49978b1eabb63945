//! How many files are done, on standard error, if that is a terminal and the check takes long.

use std::io::IsTerminal;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use terminal::output::eprint;

/// The line appears after this time.
const PATIENCE: Duration = Duration::from_millis(500);

/// The time between two changes of the line.
const PAUSE: Duration = Duration::from_millis(100);

/// Back to the start of the line, which is cleared.
const CLEAR: &str = "\r\x1b[K";

/// The number of files that are done.
pub struct Progress {
    files: usize,
    state: Mutex<State>,
}

struct State {
    done: usize,
    /// When the line may next be written; `None` where there is none to be.
    next: Option<Instant>,
    /// The line is on the screen.
    shown: bool,
}

impl Progress {
    /// Of more than one file, the progress is shown if that is `wanted`.
    pub fn new(files: usize, wanted: bool) -> Progress {
        let shows = wanted && files > 1 && std::io::stderr().is_terminal();
        Progress {
            files,
            state: Mutex::new(State {
                done: 0,
                next: shows.then(|| Instant::now() + PATIENCE),
                shown: false,
            }),
        }
    }

    /// Counts a finished file.
    pub fn one_more(&self) {
        self.with(|state| {
            state.done += 1;
            let now = Instant::now();
            if state.next.is_some_and(|next| next <= now) {
                eprint(&format!("{CLEAR}{} of {} files", state.done, self.files));
                state.next = Some(now + PAUSE);
                state.shown = true;
            }
        });
    }

    /// Prints something in place of the line.
    pub fn aside(&self, print: impl FnOnce()) {
        self.with(|state| {
            if std::mem::take(&mut state.shown) {
                eprint(CLEAR);
            }
            print();
        });
    }

    /// Removes the line.
    pub fn end(&self) {
        self.aside(|| {});
    }

    fn with(&self, f: impl FnOnce(&mut State)) {
        // A thread that panicked leaves a number that is right.
        let mut state = self.state.lock().unwrap_or_else(|error| error.into_inner());
        f(&mut state);
    }
}
