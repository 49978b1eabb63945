//! Start, version and error texts: the entries that work before `cuInit`.

use std::ffi::{c_char, c_int, c_uint};

use super::entry::{check_report, entries, initialise, last_detail};

use crate::state::device;
use crate::state::status::Status;

/// The CUDA version whose driver API this device serves: 13.0.
const VERSION: c_int = 13000;

entries! {
    early cuInit(flags: c_uint) {
        if flags != 0 {
            return Err(Status::INVALID_VALUE.because("the flags of cuInit must be 0"));
        }
        device::check_settings()?;
        check_report()?;
        initialise()
    }

    early cuDriverGetVersion(version: *mut c_int) {
        version.put(VERSION)
    }

    early cuGetErrorName(error: c_uint, text: *mut *const c_char) {
        match Status(error.cast_signed()).name() {
            Some(name) => text.put(name.as_ptr()),
            None => {
                text.put_optional(std::ptr::null());
                Err(Status::INVALID_VALUE.into())
            }
        }
    }

    early cuGetErrorString(error: c_uint, text: *mut *const c_char) {
        match Status(error.cast_signed()).text() {
            Some(words) => text.put(words.as_ptr()),
            None => {
                text.put_optional(std::ptr::null());
                Err(Status::INVALID_VALUE.into())
            }
        }
    }

    /// What the last entry that failed on this thread had to say: of a kernel's
    /// fault the kernel, thread, address and PTX line. Empty if nothing.
    early ptxkitGetLastFault(buffer: *mut c_char, len: usize) {
        buffer.put_text(&last_detail(), len)
    }

    capture_unsafe cuProfilerStart() {
        Ok(())
    }

    capture_unsafe cuProfilerStop() {
        Ok(())
    }
}
