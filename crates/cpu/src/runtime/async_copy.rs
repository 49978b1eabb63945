//! `cp.async` of which some bytes are not copied.

use crate::abi::{Access, BlockContext};
use crate::access::host_address;

/// Copies for so many threads from `thread` on, whose addresses are at the distances `to_stride`
/// and `from_stride`: of `size` bytes in shared memory the first `counts`, and then zeros. Returns
/// 0, or 1 after recording a fault. `encoded`: the size in bits 0 to 15, the number of threads in
/// 16 to 31, the line in 32 to 63.
///
/// # Safety
/// The context is that of a block that is running, and no other reference to it is in use. There
/// are so many counts.
pub(crate) unsafe extern "C" fn copy_partial(
    context: *mut BlockContext,
    thread: u32,
    encoded: u64,
    to: u64,
    to_stride: u64,
    from: u64,
    from_stride: u64,
    counts: *const u32,
) -> u32 {
    let (size, threads) = (encoded as u32 & 0xFFFF, encoded as u32 >> 16);
    let line = (encoded >> 32) as u32;
    for number in 0..threads {
        let distance = u64::from(number);
        let to = to.wrapping_add(to_stride.wrapping_mul(distance));
        let from = from.wrapping_add(from_stride.wrapping_mul(distance));
        // SAFETY: the caller's contract.
        let count = unsafe { *counts.add(number as usize) }.min(size);
        let thread = thread + number;
        let access = Access::WRITE | Access::SHARED | size;
        // SAFETY: the caller's contract.
        let Some(to) = (unsafe { host_address(context, thread, to, access, line) }) else {
            return 1;
        };
        // What is copied, byte by byte: nothing says how it is aligned.
        for at in 0..count {
            let from = from.wrapping_add(at.into());
            // SAFETY: the caller's contract.
            let Some(from) = (unsafe { host_address(context, thread, from, 1, line) }) else {
                return 1;
            };
            // SAFETY: both addresses have been checked.
            unsafe { to.add(at as usize).write(from.read()) };
        }
        // SAFETY: `size` bytes from this address have been checked.
        unsafe {
            to.add(count as usize)
                .write_bytes(0, (size - count) as usize)
        };
    }
    0
}
