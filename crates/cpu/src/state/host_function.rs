//! Host functions of callers, which run in the order of a stream.

use std::cell::Cell;

thread_local! {
    static RUNNING: Cell<bool> = const { Cell::new(false) };
}

/// Runs a caller's host function. It may not call the driver, as it could wait for
/// its own stream.
pub(crate) fn run(call: impl FnOnce()) {
    RUNNING.set(true);
    call();
    RUNNING.set(false);
}

/// Whether this thread is in a host function.
pub(crate) fn is_running() -> bool {
    RUNNING.get()
}
