//! Host functions of callers, which run in the order of a stream.

use std::cell::Cell;
use std::sync::Arc;

use super::context::{self, Context};

thread_local! {
    static RUNNING: Cell<bool> = const { Cell::new(false) };
}

/// Runs a caller's host function, with the context of its stream as the current one. It may query
/// streams, and not call the driver otherwise, as it could wait for its own stream.
pub(crate) fn run(context: &Arc<Context>, call: impl FnOnce()) {
    RUNNING.set(true);
    context::push(context.clone());
    call();
    context::pop_if(context);
    RUNNING.set(false);
}

/// Whether this thread is in a host function.
pub(crate) fn is_running() -> bool {
    RUNNING.get()
}
