//! The log of a driver, in which it explains why calls fail.

use std::ffi::{c_char, c_uint, c_void};

use crate::driver::device::context::report_drop;
use crate::driver::device::driver::Driver;
use crate::driver::error::Error;
use crate::driver::process::listener::Listener;

/// More bytes than a driver keeps of its log.
const MOST_BYTES: usize = 32 << 10;

/// The log of a driver from some call on, which says more of an error than its number
/// (`cuLogsCurrent`, from CUDA 12.9). It has messages of all threads.
///
/// ```
/// # #[cfg(feature = "cpu")] {
/// use ptxkit::driver::{Context, DeviceBuffer, Driver};
/// let driver = Driver::cpu()?;
/// let context = Context::primary(&driver.device(0)?)?;
/// let mut log = driver.log()?;
/// assert!(DeviceBuffer::<u8>::new(&context, usize::MAX).is_err());
/// assert!(log.read()?.contains("CUDA_ERROR_OUT_OF_MEMORY"));
/// # }
/// # Ok::<(), ptxkit::driver::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct DriverLog {
    driver: Driver,
    next: c_uint,
}

/// How bad what a message of a driver says is (`CUlogLevel`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MessageLevel {
    /// A call failed.
    Error,
    /// It did something else than what was wanted.
    Warning,
    /// Any other number.
    Other(u32),
}

/// A function that a driver calls for each message, until this is dropped.
#[derive(Debug)]
pub struct LogListener {
    driver: Driver,
    handle: *mut c_void,
}

// SAFETY: the handle is a name; the driver locks by itself.
unsafe impl Send for LogListener {}
// SAFETY: as above.
unsafe impl Sync for LogListener {}

type OnMessage = Box<dyn Fn(MessageLevel, &str) + Send + Sync>;

impl Driver {
    /// The log from now on (`cuLogsCurrent`, from CUDA 12.9).
    pub fn log(&self) -> Result<DriverLog, Error> {
        let mut next = 0;
        // SAFETY: writes one number; the flags must be 0.
        unsafe { self.api().cuLogsCurrent(&mut next, 0) }?;
        Ok(DriverLog {
            driver: *self,
            next,
        })
    }

    /// Lets errors of NVIDIA's driver carry what it has logged since the one before
    /// ([`DriverError::detail`](crate::driver::DriverError::detail), by `cuLogsDumpToMemory`),
    /// in the whole process. It costs a call for each error, and names calls of other threads
    /// that fail at the same time. Errors of the CPU device always carry their reason.
    pub fn explain_errors(&self) -> Result<(), Error> {
        Ok(self.api().explain_errors()?)
    }

    /// Calls a function for each message from now on, in the thread that it is about
    /// (`cuLogsRegisterCallback`, and `cuLogsUnregisterCallback` when the result is dropped).
    /// The function must not call the driver. It is kept as long as the process, as a thread
    /// may be in it at any time.
    pub fn on_message(
        &self,
        function: impl Fn(MessageLevel, &str) + Send + Sync + 'static,
    ) -> Result<LogListener, Error> {
        let listener = Listener::<OnMessage>::new(Box::new(function));
        let mut handle = std::ptr::null_mut();
        // SAFETY: the function takes what it is given, which is never freed; writes one handle.
        unsafe {
            self.api()
                .cuLogsRegisterCallback(Some(called), listener.data(), &mut handle)
        }?;
        Ok(LogListener {
            driver: *self,
            handle,
        })
    }
}

unsafe extern "C" fn called(data: *mut c_void, level: c_uint, text: *mut c_char, length: usize) {
    if data.is_null() || text.is_null() {
        return;
    }
    // SAFETY: the driver gives back what was registered.
    let listener = unsafe { Listener::<OnMessage>::from_data(data) };
    // SAFETY: a message of that length, for the time of the call.
    let bytes = unsafe { std::slice::from_raw_parts(text.cast_const().cast::<u8>(), length) };
    let message = String::from_utf8_lossy(bytes);
    let level = match level {
        0 => MessageLevel::Error,
        1 => MessageLevel::Warning,
        other => MessageLevel::Other(other),
    };
    listener.call(|function| function(level, message.trim_end_matches(['\0', '\n'])));
}

impl DriverLog {
    /// What was logged since it was made or read last, a line each
    /// (`cuLogsDumpToMemory`). A driver keeps some 25 KB and forgets what is older.
    pub fn read(&mut self) -> Result<String, Error> {
        let mut text = vec![0_u8; MOST_BYTES];
        let mut bytes = text.len();
        let (api, buffer) = (self.driver.api(), text.as_mut_ptr().cast());
        // SAFETY: writes at most as many bytes as said, and two numbers; the flags must be 0.
        unsafe { api.cuLogsDumpToMemory(&mut self.next, buffer, &mut bytes, 0) }?;
        text.truncate(bytes);
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// Writes the same into a file (`cuLogsDumpToFile`).
    pub fn write_to(&mut self, path: &std::path::Path) -> Result<(), Error> {
        let bytes = path.as_os_str().as_encoded_bytes();
        let name = std::ffi::CString::new(bytes).map_err(|error| Error::File {
            path: path.to_owned(),
            source: std::sync::Arc::new(error.into()),
        })?;
        let api = self.driver.api();
        // SAFETY: a path that ends in NUL; writes one number; the flags must be 0.
        unsafe { Ok(api.cuLogsDumpToFile(&mut self.next, name.as_ptr(), 0)?) }
    }
}

impl Drop for LogListener {
    fn drop(&mut self) {
        // SAFETY: registered once, ended once.
        report_drop(unsafe { self.driver.api().cuLogsUnregisterCallback(self.handle) });
    }
}
