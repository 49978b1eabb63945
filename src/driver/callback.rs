//! Functions of the program that a driver calls.

/// Calls a function of the program on a thread of the driver. A panic is logged and ends here: it
/// must not unwind into the driver.
pub(crate) fn call_back(what: &'static str, function: impl FnOnce()) {
    if api::contain_panic(function).is_none() {
        // The subscriber that receives it is of the program too.
        let _ = api::contain_panic(|| tracing::error!("{what} panicked"));
    }
}
