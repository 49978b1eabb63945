//! The driver of the process, as far as libraries beside it need it.

use std::ffi::{c_int, c_uint, c_void};
use std::sync::LazyLock;

use libloading::Library;

/// `libcuda.so.1`, once a process. The error says why it does not open or start.
pub fn driver() -> Result<&'static Library, &'static str> {
    static DRIVER: LazyLock<Result<Library, String>> = LazyLock::new(|| {
        // SAFETY: the driver that the process uses, or would use, runs its initialisers.
        let library = unsafe { Library::new("libcuda.so.1") }.map_err(|error| error.to_string())?;
        type Init = unsafe extern "C" fn(c_uint) -> c_int;
        // SAFETY: the symbol has this type in CUDA's headers.
        let init = unsafe { library.get::<Init>("cuInit") }.map_err(|error| error.to_string())?;
        // SAFETY: 0 is the one argument that it has.
        match unsafe { init(0) } {
            0 => Ok(library),
            code => Err(format!("cuInit of libcuda.so.1 returns {code}")),
        }
    });
    DRIVER.as_ref().map_err(String::as_str)
}

/// Whether the CPU device is the driver and runs code for an architecture such as `sm_90a`:
/// one of its own major version.
pub fn is_of_cpu_device(arch: &str) -> bool {
    let number = |text: &str| {
        text.trim_end_matches(char::is_alphabetic)
            .parse::<c_int>()
            .ok()
    };
    let named = arch.strip_prefix("sm_").and_then(number);
    named.is_some_and(|named| {
        (0..MAX_DEVICES)
            .map_while(major)
            .any(|major| major == named / 10)
    })
}

/// The most devices that the CPU device is told to be.
const MAX_DEVICES: c_int = 8;

/// The major version of the compute capability of one of the CPU devices.
fn major(device: c_int) -> Option<c_int> {
    type GetAttribute = unsafe extern "C" fn(*mut c_int, c_uint, c_int) -> c_int;
    const COMPUTE_CAPABILITY_MAJOR: c_uint = 75;
    let driver = driver().ok()?;
    let mut major = 0;
    // SAFETY: the first symbol is only asked for; the second has this type in CUDA's
    // headers, and writes one integer.
    unsafe {
        driver.get::<*mut c_void>("ptxkitGetLastFault").ok()?;
        let get = driver.get::<GetAttribute>("cuDeviceGetAttribute").ok()?;
        (get(&mut major, COMPUTE_CAPABILITY_MAJOR, device) == 0).then_some(major)
    }
}
