//! What NVIDIA's compilers as libraries have in common: nvJitLink and nvptxcompiler.

use std::ffi::{c_int, c_void};
use std::path::Path;

/// A compilation of one of the libraries.
pub(in crate::driver) type Handle = *mut c_void;
pub(in crate::driver) type GetSize = unsafe extern "C" fn(Handle, *mut usize) -> c_int;
pub(in crate::driver) type Get = unsafe extern "C" fn(Handle, *mut c_void) -> c_int;

/// Reads a result: code or a log. An error is the library's code.
///
/// # Safety
/// The handle must be live, and the functions the library's for one kind of result.
pub(in crate::driver) unsafe fn read(
    handle: Handle,
    get_size: GetSize,
    get: Get,
) -> Result<Vec<u8>, c_int> {
    let mut size = 0;
    // SAFETY: the caller's; writes one size.
    match unsafe { get_size(handle, &mut size) } {
        0 => {}
        code => return Err(code),
    }
    // An empty log has a NUL that its size does not count.
    let mut bytes = vec![0_u8; size + 1];
    // SAFETY: the caller's; writes `size` bytes, and perhaps a NUL.
    match unsafe { get(handle, bytes.as_mut_ptr().cast()) } {
        0 => {
            bytes.truncate(size);
            Ok(bytes)
        }
        code => Err(code),
    }
}

/// A log without the NUL at its end.
pub(in crate::driver) fn log_text(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.trim_end_matches('\0').to_owned()
}

/// The message of the system's loader.
pub(in crate::driver) fn reason(error: &libloading::Error) -> String {
    let source = std::error::Error::source(error).map(ToString::to_string);
    source.unwrap_or_else(|| error.to_string())
}

/// A file's size and time, which distinguish builds of one version.
pub(in crate::driver) fn stamp(path: &Path) -> String {
    let Ok(metadata) = std::fs::metadata(path) else {
        return String::new();
    };
    let time = metadata.modified().ok();
    let time = time.and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
    let seconds = time.map_or(0, |since| since.as_secs());
    format!("{} {seconds}", metadata.len())
}
