//! The log of calls that failed.

use std::ffi::{c_char, c_uint, c_void};

use super::entry::entries;
use crate::state::handle::pointer;
use crate::state::log;
use crate::state::status::{Result, Status};
use crate::state::user_pointer::UserPointer;
use api::LogsCallback;

fn check_flags(flags: c_uint) -> Result {
    match flags {
        0 => Ok(()),
        _ => Err(Status::INVALID_VALUE.because("the flags of the log must be 0")),
    }
}

/// Where to begin: all of it for null.
fn begin(iterator: UserPointer<c_uint>) -> Result<c_uint> {
    if iterator.is_null() {
        Ok(0)
    } else {
        iterator.get()
    }
}

entries! {
    early cuLogsRegisterCallback(
        callback: LogsCallback,
        user_data: *mut c_void,
        handle: *mut *mut c_void,
    ) {
        if callback.is_none() {
            return Err(Status::INVALID_VALUE.because("no function to call"));
        }
        let data = user_data.as_ptr().expose_provenance();
        handle.put_optional(pointer(log::listen(callback, data)));
        Ok(())
    }

    early cuLogsUnregisterCallback(handle: *mut c_void) {
        if log::unlisten(handle.addr()) { Ok(()) } else { Err(Status::INVALID_VALUE.because("no function is registered so")) }
    }

    /// NVIDIA's driver ignores the flags.
    early cuLogsCurrent(iterator: *mut c_uint, _flags: c_uint) {
        iterator.put(log::next())
    }

    early cuLogsDumpToFile(iterator: *mut c_uint, path: *const c_char, flags: c_uint) {
        check_flags(flags)?;
        let (text, _, next) = log::from(begin(iterator)?, usize::MAX);
        let path = path.path()?;
        std::fs::write(&path, text).map_err(|error| {
            Status::INVALID_VALUE.because(format!("{}: {error}", path.display()))
        })?;
        iterator.put_optional(next);
        Ok(())
    }

    early cuLogsDumpToMemory(
        iterator: *mut c_uint,
        buffer: *mut c_char,
        size: *mut usize,
        flags: c_uint,
    ) {
        check_flags(flags)?;
        let capacity = size.get()?;
        let (text, count, next) = log::from(begin(iterator)?, capacity.saturating_sub(1));
        if capacity == 0 || (count > 0 && text.is_empty()) {
            size.put(0)?;
            return Err(Status::INVALID_VALUE.because("no message fits into the buffer"));
        }
        buffer.put_text(&text, capacity)?;
        size.put(text.len())?;
        iterator.put_optional(next);
        Ok(())
    }
}
