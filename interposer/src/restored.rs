//! The state of the calling thread, which is restored after this library has used the driver.

use std::ffi::{c_int, c_uint};
use std::ptr::null_mut;

use api::CUcontext;
use ptxkit::driver::Driver;

use super::number;

/// `CU_STREAM_CAPTURE_MODE_RELAXED`
const RELAXED: c_uint = 2;

/// Restores the current context and the capture mode of the thread. In between, loads do not end a stream's capture.
pub struct Restored {
    driver: Driver,
    before: CUcontext,
    mode: Option<c_uint>,
}

impl Restored {
    /// Notes the state. An error is the driver's.
    pub fn of(driver: Driver) -> Result<Restored, c_int> {
        let mut before = null_mut();
        // SAFETY: writes one handle.
        unsafe { driver.api().cuCtxGetCurrent(&mut before) }.map_err(number)?;
        let mut mode = RELAXED;
        // SAFETY: reads and writes one number.
        let exchanged = unsafe { driver.api().cuThreadExchangeStreamCaptureMode(&mut mode) };
        Ok(Restored {
            driver,
            before,
            mode: exchanged.is_ok().then_some(mode),
        })
    }

    /// The context that was current; null if none was.
    pub fn context(&self) -> CUcontext {
        self.before
    }
}

impl Drop for Restored {
    fn drop(&mut self) {
        let api = self.driver.api();
        if let Some(mut mode) = self.mode {
            // SAFETY: reads and writes one number.
            let _ = unsafe { api.cuThreadExchangeStreamCaptureMode(&mut mode) };
        }
        let mut now = null_mut();
        // SAFETY: writes one handle.
        let read = unsafe { api.cuCtxGetCurrent(&mut now) };
        if read.is_ok() && now != self.before {
            // SAFETY: it was current when the program called.
            let _ = unsafe { api.cuCtxSetCurrent(self.before) };
        }
    }
}
