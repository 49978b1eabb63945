//! Values in memory that streams write and wait for.

use std::ffi::c_uint;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use super::context::Context;
use super::copy::Side;
use super::entry::{Given, entries};
use super::graph::{Kind, Work};
use super::status::{Answer, Status};
use super::stream;
use api::{CUdeviceptr, CUstream, MemoryOperation};

/// Between two looks at a value.
const PAUSE: Duration = Duration::from_micros(20);

/// `CU_STREAM_WAIT_VALUE_…`, and a flag that changes nothing here: remote
/// writes are seen in order.
const AT_LEAST: c_uint = 0;
const EQUAL: c_uint = 1;
const ANY_BIT: c_uint = 2;
const FLUSH: c_uint = 1 << 30;

/// A place that a stream may write and look at, aligned to its size.
fn place(address: u64, bytes: usize) -> Answer<Side> {
    if !(address as usize).is_multiple_of(bytes) {
        return Err(Status::INVALID_VALUE.because("the address of a value is misaligned"));
    }
    Side::any(address, bytes)
}

fn queue(stream: Given<cudarc::driver::sys::CUstream_st>, work: Work) -> Answer {
    let (context, stream) = stream::find(stream)?;
    if !stream.record(Kind::Memory, || work.clone())? {
        stream.push(&context, move |context| work(context));
    }
    Ok(())
}

/// Waits until what is there is as `flags` say.
fn wait(
    context: &Context,
    flags: c_uint,
    value: u64,
    look: impl Fn() -> u64,
    is_behind: impl Fn(u64) -> bool,
) {
    let done = || {
        let there = look();
        match flags & !FLUSH {
            AT_LEAST => !is_behind(there),
            EQUAL => there == value,
            ANY_BIT => there & value != 0,
            _ => has_bit_in_neither(there, value),
        }
    };
    while !done() && context.check().is_ok() {
        std::thread::sleep(PAUSE);
    }
}

/// `CU_STREAM_WAIT_VALUE_NOR`
fn has_bit_in_neither(there: u64, value: u64) -> bool {
    !(there | value) != 0
}

fn check_wait(flags: c_uint) -> Answer {
    match flags & !FLUSH {
        0..=3 => Ok(()),
        _ => Err(Status::INVALID_VALUE.because("unknown flags of a wait for a value")),
    }
}

fn check_write(flags: c_uint) -> Answer {
    match flags {
        0 | 1 => Ok(()),
        _ => Err(Status::INVALID_VALUE.because("unknown flags of a write of a value")),
    }
}

fn writing_32(address: u64, value: u32, flags: c_uint) -> Answer<Work> {
    check_write(flags)?;
    let side = place(address, 4)?;
    Ok(Arc::new(move |_| {
        // SAFETY: `place` checked address and alignment, or the caller answers for them.
        unsafe { AtomicU32::from_ptr(side.pointer(0).cast()) }.store(value, Ordering::Release);
    }))
}

fn writing_64(address: u64, value: u64, flags: c_uint) -> Answer<Work> {
    check_write(flags)?;
    let side = place(address, 8)?;
    Ok(Arc::new(move |_| {
        // SAFETY: as above.
        unsafe { AtomicU64::from_ptr(side.pointer(0).cast()) }.store(value, Ordering::Release);
    }))
}

fn waiting_32(address: u64, value: u32, flags: c_uint) -> Answer<Work> {
    check_wait(flags)?;
    let side = place(address, 4)?;
    Ok(Arc::new(move |context| {
        let look = || {
            // SAFETY: as above.
            unsafe { AtomicU32::from_ptr(side.pointer(0).cast()) }.load(Ordering::Acquire)
        };
        let behind = |there: u64| (there as u32).wrapping_sub(value).cast_signed() < 0;
        // Above the 32 bits there is nothing that could be in neither.
        let above = if flags & !FLUSH == 3 { !0 << 32 } else { 0 };
        let look = || u64::from(look()) | above;
        wait(context, flags, u64::from(value), look, behind);
    }))
}

fn waiting_64(address: u64, value: u64, flags: c_uint) -> Answer<Work> {
    check_wait(flags)?;
    let side = place(address, 8)?;
    Ok(Arc::new(move |context| {
        let look = || {
            // SAFETY: as above.
            unsafe { AtomicU64::from_ptr(side.pointer(0).cast()) }.load(Ordering::Acquire)
        };
        let behind = |there: u64| there.wrapping_sub(value).cast_signed() < 0;
        wait(context, flags, value, look, behind);
    }))
}

/// `CU_STREAM_MEM_OP_…`
fn operation(given: MemoryOperation) -> Answer<Work> {
    let MemoryOperation {
        operation,
        address,
        value,
        flags,
        ..
    } = given;
    match operation {
        1 => waiting_32(address, value as u32, flags), // of 64 bits the lower ones
        2 => writing_32(address, value as u32, flags),
        4 => waiting_64(address, value, flags),
        5 => writing_64(address, value, flags),
        // FLUSH_REMOTE_WRITES and BARRIER: all is seen in order here.
        3 | 6 => Ok(Arc::new(|_| ())),
        number => Err(Status::INVALID_VALUE
            .because(format!("no operation on memory has the number {number}"))),
    }
}

entries! {
    fn cuStreamWriteValue32_v2(stream: CUstream, address: CUdeviceptr, value: u32, flags: c_uint) {
        queue(stream, writing_32(address, value, flags)?)
    }

    fn cuStreamWriteValue64_v2(stream: CUstream, address: CUdeviceptr, value: u64, flags: c_uint) {
        queue(stream, writing_64(address, value, flags)?)
    }

    fn cuStreamWaitValue32_v2(stream: CUstream, address: CUdeviceptr, value: u32, flags: c_uint) {
        queue(stream, waiting_32(address, value, flags)?)
    }

    fn cuStreamWaitValue64_v2(stream: CUstream, address: CUdeviceptr, value: u64, flags: c_uint) {
        queue(stream, waiting_64(address, value, flags)?)
    }

    /// All or none: what cannot be done is found before anything is queued.
    fn cuStreamBatchMemOp_v2(
        stream: CUstream,
        count: c_uint,
        operations: *mut MemoryOperation,
        flags: c_uint,
    ) {
        if flags != 0 || count > 256 {
            return Err(Status::INVALID_VALUE
                .because("the flags of a batch must be 0, and it has at most 256 operations"));
        }
        let all = (0..count as usize)
            .map(|index| operation(operations.get_at(index)?))
            .collect::<Answer<Vec<Work>>>()?;
        queue(stream, Arc::new(move |context| all.iter().for_each(|work| work(context))))
    }
}
