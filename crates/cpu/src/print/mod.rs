//! The output of kernels: `vprintf` formats as CUDA's `printf`, into a buffer that is written
//! when the host synchronizes.

mod format;

use std::collections::VecDeque;
use std::io::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};

pub(super) use format::{Arguments, format};

/// The default size of the buffer in bytes (`CU_LIMIT_PRINTF_FIFO_SIZE`), as on an H200.
pub const DEFAULT_LIMIT: u64 = 8_650_752;

/// The buffer of printed text that is not written yet. If it exceeds the limit, the oldest
/// text is lost, as on a GPU. The text of one `printf` that is longer than the limit is lost.
pub struct Output {
    state: Mutex<State>,
}

struct State {
    limit: u64,
    /// The texts one after the other, and the length of each.
    printed: VecDeque<u8>,
    lengths: VecDeque<usize>,
    /// Messages of failed assertions, up to the limit.
    failed: Vec<u8>,
}

impl Default for Output {
    fn default() -> Output {
        let state = State {
            limit: DEFAULT_LIMIT,
            printed: VecDeque::new(),
            lengths: VecDeque::new(),
            failed: Vec::new(),
        };
        Output {
            state: Mutex::new(state),
        }
    }
}

impl Output {
    /// The size of the buffer in bytes.
    pub fn limit(&self) -> u64 {
        self.state().limit
    }

    /// Sets the limit (`cuCtxSetLimit`).
    pub fn set_limit(&self, bytes: u64) {
        self.state().limit = bytes;
    }

    /// Takes the text printed since the last call.
    pub fn take_printed(&self) -> Vec<u8> {
        let mut state = self.state();
        state.lengths.clear();
        std::mem::take(&mut state.printed).into()
    }

    /// Takes the messages of assertions that failed since the last call.
    pub fn take_failed(&self) -> Vec<u8> {
        std::mem::take(&mut self.state().failed)
    }

    /// Writes the printed text to stdout and messages of failed assertions to stderr.
    pub fn flush(&self) {
        let printed = self.take_printed();
        // A closed stdout or stderr must not fail the program.
        if !printed.is_empty() {
            let mut out = std::io::stdout().lock();
            let _ = out.write_all(&printed).and_then(|()| out.flush());
        }
        let failed = self.take_failed();
        if !failed.is_empty() {
            let _ = std::io::stderr().lock().write_all(&failed);
        }
    }

    pub(super) fn print(&self, text: &[u8]) {
        let mut guard = self.state();
        let state = &mut *guard;
        if text.is_empty() || text.len() as u64 > state.limit {
            return;
        }
        state.printed.extend(text);
        state.lengths.push_back(text.len());
        while state.printed.len() as u64 > state.limit {
            let Some(lost) = state.lengths.pop_front() else {
                break;
            };
            state.printed.drain(..lost);
        }
    }

    /// Adds the message of a failed assertion. Those beyond the limit are lost.
    pub(super) fn fail(&self, text: &[u8]) {
        let mut state = self.state();
        if (state.failed.len() + text.len()) as u64 <= state.limit {
            state.failed.extend_from_slice(text);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_output_is_lost_first() {
        let output = Output::default();
        output.set_limit(10);
        for piece in [b"aaaa", b"bbbb", b"cccc"] {
            output.print(piece);
        }
        output.print(b"longer than the limit");
        assert_eq!(output.take_printed(), b"bbbbcccc");
        assert_eq!(output.take_printed(), b"");
    }

    #[test]
    fn messages_of_assertions_are_limited() {
        let output = Output::default();
        output.set_limit(10);
        for piece in [b"aaaa", b"bbbb", b"cccc"] {
            output.fail(piece);
        }
        assert_eq!(output.take_failed(), b"aaaabbbb");
    }
}
