//! Tensor memory (`tcgen05`): its allocation, and what one thread does with it.

use super::mbarrier::{AddressSpace, place};
use crate::abi::{Access, BlockContext, WARP_SIZE};
use crate::access::{context, record_tensor_fault};
use crate::matrix::{Flags, Product, copy, multiply};

/// `tcgen05.alloc`, which the first lane of the warp does for all. `encoded`: the space of the
/// address in bits 0 to 7, the line from bit 32 on. Returns 0, or 1 after recording a fault.
pub(super) unsafe extern "C" fn tensor_allocate(
    block: *mut BlockContext,
    thread: u32,
    encoded: u64,
    address: u64,
    columns: u32,
) -> u32 {
    if !thread.is_multiple_of(WARP_SIZE) {
        return 0;
    }
    let line = (encoded >> 32) as u32;
    let to = (AddressSpace::from_number(encoded as u32 & 0xFF), address);
    // SAFETY: see `access`.
    let Some(place) = (unsafe { place(block, thread, line, to, 4 | Access::WRITE) }) else {
        return 1;
    };
    // SAFETY: see `access`; a block has its tensor memory as long as it runs.
    let allocated = unsafe { (*context(&block).tensor_memory).allocate(columns) };
    match allocated {
        Ok(first) => {
            // SAFETY: `place` has checked 4 bytes and their alignment.
            unsafe { place.cast::<u32>().write(first) };
            0
        }
        Err(fault) => {
            // SAFETY: see `access`.
            unsafe { record_tensor_fault(block, thread, fault, line) };
            1
        }
    }
}

/// `tcgen05.dealloc`, likewise.
pub(super) unsafe extern "C" fn tensor_free(
    block: *mut BlockContext,
    thread: u32,
    line: u32,
    address: u32,
    columns: u32,
) -> u32 {
    if !thread.is_multiple_of(WARP_SIZE) {
        return 0;
    }
    // SAFETY: as above.
    let freed = unsafe { (*context(&block).tensor_memory).free(address, columns) };
    let Err(fault) = freed else { return 0 };
    // SAFETY: see `access`.
    unsafe { record_tensor_fault(block, thread, fault, line) };
    1
}

/// `tcgen05.mma`. `encoded`: [`Flags`](crate::matrix::Flags), and the line from bit 32 on.
/// `low`, `high`: the lanes that stay, or the addresses of the scales.
/// Returns 0, or 1 after recording a fault.
#[allow(
    clippy::too_many_arguments,
    reason = "compiled code passes them in registers"
)]
pub(super) unsafe extern "C" fn tensor_multiply(
    block: *mut BlockContext,
    thread: u32,
    encoded: u64,
    d: u32,
    a: u64,
    b: u64,
    instruction: u32,
    adds: u32,
    low: u64,
    high: u64,
) -> u32 {
    // A product that has scales disables no lanes.
    let (disabled, scales) = match encoded as u32 >> Flags::SCALES & 3 {
        0 => (u128::from(high) << 64 | u128::from(low), [0; 2]),
        _ => (0, [low as u32, high as u32]),
    };
    let product = Product {
        encoded: encoded as u32,
        d,
        a,
        b,
        instruction,
        adds: adds != 0,
        disabled,
        scales,
    };
    let line = (encoded >> 32) as u32;
    // SAFETY: see `access`.
    let done = unsafe { multiply(&product, block, thread, line) };
    u32::from(done.is_none())
}

/// `tcgen05.cp`. `encoded`: the number of the form, and the line from bit 32 on. Returns 0, or 1
/// after recording a fault.
pub(super) unsafe extern "C" fn tensor_copy(
    block: *mut BlockContext,
    thread: u32,
    encoded: u64,
    to: u32,
    from: u64,
) -> u32 {
    let line = (encoded >> 32) as u32;
    let number = encoded as u32 as usize;
    // SAFETY: see `access`.
    let done = unsafe { copy(number, (to, from), block, thread, line) };
    u32::from(done.is_none())
}
