//! `cuGetProcAddress`: the driver's functions by name, with those of this library in their places.

use std::ffi::{c_char, c_int, c_uint, c_void};

use super::forward::{self, real};

type GetProcAddress = unsafe extern "C" fn(*const c_char, *mut *mut c_void, c_int, u64) -> c_int;
type GetProcAddressV2 =
    unsafe extern "C" fn(*const c_char, *mut *mut c_void, c_int, u64, *mut c_uint) -> c_int;

/// The driver decides which form of an entry a program gets: this library's function replaces the one that the
/// driver returned.
fn replaced(address: *mut c_void) -> *mut c_void {
    let own = forward::own();
    let mut own = own.iter();
    own.find(|(number, _)| real(*number) == address)
        .map_or(address, |(_, function)| *function)
}

/// Returns a function by its name, for a CUDA version and a kind of default stream.
///
/// # Safety
/// As CUDA's documentation of the entry says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetProcAddress_v2(
    symbol: *const c_char,
    function: *mut *mut c_void,
    version: c_int,
    flags: u64,
    status: *mut c_uint,
) -> c_int {
    // SAFETY: the driver's function of this name has this type.
    let entry: GetProcAddressV2 =
        unsafe { std::mem::transmute(real(forward::CUGETPROCADDRESS_V2)) };
    // SAFETY: the caller's.
    let code = unsafe { entry(symbol, function, version, flags, status) };
    if code == 0 && !function.is_null() {
        // SAFETY: the driver has written it.
        unsafe { *function = replaced(*function) };
    }
    code
}

/// The same without the status.
///
/// # Safety
/// As CUDA's documentation of the entry says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetProcAddress(
    symbol: *const c_char,
    function: *mut *mut c_void,
    version: c_int,
    flags: u64,
) -> c_int {
    // SAFETY: the driver's function of this name has this type.
    let entry: GetProcAddress = unsafe { std::mem::transmute(real(forward::CUGETPROCADDRESS)) };
    // SAFETY: the caller's.
    let code = unsafe { entry(symbol, function, version, flags) };
    if code == 0 && !function.is_null() {
        // SAFETY: the driver has written it.
        unsafe { *function = replaced(*function) };
    }
    code
}
