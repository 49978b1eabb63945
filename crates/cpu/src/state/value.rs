//! The work of writing a value to memory, and of waiting for one.

use std::ffi::c_uint;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use super::context::Context;
use super::copy::Endpoint;
use super::node::Work;
use super::status::{Result, Status};
use crate::sanitizer::fresh;

/// The time between two reads of a value.
const PAUSE: Duration = Duration::from_micros(20);

/// `CU_STREAM_WAIT_VALUE_…`, and a flag without effect: remote writes are visible in
/// order.
const AT_LEAST: c_uint = 0;
const EQUAL: c_uint = 1;
const ANY_BIT: c_uint = 2;
const FLUSH: c_uint = 1 << 30;

/// Memory that a stream may read and write, aligned to its size.
fn place(address: u64, bytes: usize) -> Result<Endpoint> {
    if !(address as usize).is_multiple_of(bytes) {
        return Err(Status::INVALID_VALUE.because("the address of a value is misaligned"));
    }
    Endpoint::any(address, bytes)
}

/// Waits until the value in memory compares as `flags` say, or the context has a fault.
fn wait(
    context: &Context,
    flags: c_uint,
    value: u64,
    read: impl Fn() -> u64,
    is_behind: impl Fn(u64) -> bool,
) {
    let done = || {
        let current = read();
        match flags & !FLUSH {
            AT_LEAST => !is_behind(current),
            EQUAL => current == value,
            ANY_BIT => current & value != 0,
            _ => has_common_zero_bit(current, value),
        }
    };
    while !done() && context.check().is_ok() {
        std::thread::sleep(PAUSE);
    }
}

/// `CU_STREAM_WAIT_VALUE_NOR`
fn has_common_zero_bit(current: u64, value: u64) -> bool {
    !(current | value) != 0
}

fn check_wait(flags: c_uint) -> Result {
    match flags & !FLUSH {
        0..=3 => Ok(()),
        _ => Err(Status::INVALID_VALUE.because("unknown flags of a wait for a value")),
    }
}

fn check_write(flags: c_uint) -> Result {
    match flags {
        0 => Ok(()),
        _ => Err(Status::INVALID_VALUE.because(format!(
            "the flags of a write of a value are {flags:#x}; pass CU_STREAM_WRITE_VALUE_DEFAULT (0)"
        ))),
    }
}

pub(crate) fn write_32(address: u64, value: u32, flags: c_uint) -> Result<Work> {
    check_write(flags)?;
    let endpoint = place(address, 4)?;
    Ok(Arc::new(move |_| {
        // SAFETY: `place` checked address and alignment, or the caller answers for them.
        unsafe { AtomicU32::from_ptr(endpoint.pointer(0).cast()) }.store(value, Ordering::Release);
        fresh::wrote(address, size_of_val(&value) as u64);
    }))
}

pub(crate) fn write_64(address: u64, value: u64, flags: c_uint) -> Result<Work> {
    check_write(flags)?;
    let endpoint = place(address, 8)?;
    Ok(Arc::new(move |_| {
        // SAFETY: as above.
        unsafe { AtomicU64::from_ptr(endpoint.pointer(0).cast()) }.store(value, Ordering::Release);
        fresh::wrote(address, size_of_val(&value) as u64);
    }))
}

pub(crate) fn wait_32(address: u64, value: u32, flags: c_uint) -> Result<Work> {
    check_wait(flags)?;
    let endpoint = place(address, 4)?;
    Ok(Arc::new(move |context| {
        let read = || {
            // SAFETY: as above.
            unsafe { AtomicU32::from_ptr(endpoint.pointer(0).cast()) }.load(Ordering::Acquire)
        };
        let behind = |current: u64| (current as u32).wrapping_sub(value).cast_signed() < 0;
        // The upper 32 bits are no common zero bits.
        let above = if flags & !FLUSH == 3 { !0 << 32 } else { 0 };
        let read = || u64::from(read()) | above;
        wait(context, flags, u64::from(value), read, behind);
    }))
}

pub(crate) fn wait_64(address: u64, value: u64, flags: c_uint) -> Result<Work> {
    check_wait(flags)?;
    let endpoint = place(address, 8)?;
    Ok(Arc::new(move |context| {
        let read = || {
            // SAFETY: as above.
            unsafe { AtomicU64::from_ptr(endpoint.pointer(0).cast()) }.load(Ordering::Acquire)
        };
        let behind = |current: u64| current.wrapping_sub(value).cast_signed() < 0;
        wait(context, flags, value, read, behind);
    }))
}
