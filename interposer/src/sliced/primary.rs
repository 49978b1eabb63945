//! The entries that end a device's primary context, in which slices are compiled.

use std::ffi::c_int;

use api::CUdevice;

use super::super::forward::{self, real};
use super::super::without_panic;
use super::ahead::Paused;

type Reset = unsafe extern "C" fn(CUdevice) -> c_int;

/// # Safety
/// `number` must be the place of an entry of this type.
unsafe fn reset(number: usize, device: CUdevice) -> c_int {
    let _paused = without_panic(Paused::new);
    // SAFETY: the caller's.
    let entry: Reset = unsafe { std::mem::transmute(real(number)) };
    // SAFETY: the caller's.
    unsafe { entry(device) }
}

/// Resets a device's primary context.
///
/// # Safety
/// As CUDA's documentation of the entry says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDevicePrimaryCtxReset(device: CUdevice) -> c_int {
    // SAFETY: the caller's.
    unsafe { reset(forward::CUDEVICEPRIMARYCTXRESET, device) }
}

/// Resets a device's primary context.
///
/// # Safety
/// As CUDA's documentation of the entry says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDevicePrimaryCtxReset_v2(device: CUdevice) -> c_int {
    // SAFETY: the caller's.
    unsafe { reset(forward::CUDEVICEPRIMARYCTXRESET_V2, device) }
}
