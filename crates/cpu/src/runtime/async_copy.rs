//! `cp.async` of which some bytes are not copied, and of the lanes of a group to any addresses.

use crate::abi::{Access, BlockContext, WARP_SIZE};
use crate::access::{context, host_address, passes_inline_check};

/// The operands of a copy by lane.
#[repr(C)]
pub(crate) struct CopyLanes {
    /// Addresses in shared memory.
    pub to: [u32; WARP_SIZE as usize],
    pub from: [u64; WARP_SIZE as usize],
    /// The bytes that are copied; zeros follow them.
    pub counts: [u32; WARP_SIZE as usize],
}

/// Copies for the lanes of a group, whose first thread is `thread`. Returns 0, or 1 after recording
/// a fault. `encoded` is that of [`copy_partial`]. The offsets are added to all addresses.
///
/// # Safety
/// That of [`copy_partial`]; `lanes` has the operands of so many lanes.
pub(crate) unsafe extern "C" fn copy_lanes(
    context: *mut BlockContext,
    thread: u32,
    encoded: u64,
    to_offset: u64,
    from_offset: u64,
    lanes: *const CopyLanes,
) -> u32 {
    // SAFETY: the caller's contract.
    let lanes = unsafe { &*lanes };
    let threads = encoded as u32 >> 16 & 0xFFFF;
    for lane in 0..threads.min(WARP_SIZE) as usize {
        // Addresses of shared memory have 32 bits.
        let to = u64::from(lanes.to[lane].wrapping_add(to_offset as u32));
        let from = lanes.from[lane].wrapping_add(from_offset);
        let (thread, count) = (thread + lane as u32, lanes.counts[lane]);
        // SAFETY: the caller's contract.
        if unsafe { copy_lane(context, thread, encoded, [to, from], count) } != 0 {
            return 1;
        }
    }
    0
}

/// Copies the first `count` of the bytes in `encoded` for one thread, and zeros for the others. Returns 0, or
/// 1 after recording a fault.
///
/// # Safety
/// That of [`copy_partial`].
pub(super) unsafe fn copy_lane(
    context: *mut BlockContext,
    thread: u32,
    encoded: u64,
    addresses: [u64; 2],
    count: u32,
) -> u32 {
    // SAFETY: the caller's contract.
    unsafe {
        match encoded as u32 & 0xFFFF {
            16 => copy_sized::<16>(context, thread, encoded, addresses, count),
            8 => copy_sized::<8>(context, thread, encoded, addresses, count),
            _ => copy_sized::<4>(context, thread, encoded, addresses, count),
        }
    }
}

/// # Safety
/// That of [`copy_lane`].
unsafe fn copy_sized<const SIZE: usize>(
    context: *mut BlockContext,
    thread: u32,
    encoded: u64,
    [to, from]: [u64; 2],
    count: u32,
) -> u32 {
    let size = SIZE as u32;
    // SAFETY: the caller's contract.
    let block = unsafe { self::context(&context) };
    let access = Access::WRITE | Access::SHARED | size;
    let is_valid = passes_inline_check(block, to, size.into(), access)
        && (count == 0 || count >= size && passes_inline_check(block, from, size.into(), size));
    if !is_valid {
        // SAFETY: the caller's contract.
        return unsafe { copy_one(context, thread, encoded, [to, from], count) };
    }
    let to = block.shared.wrapping_add(to) as *mut [u8; SIZE];
    // SAFETY: the bytes have been checked.
    unsafe {
        *to = match count {
            0 => [0; SIZE],
            _ => *(from as *const [u8; SIZE]),
        }
    }
    0
}

/// The same for one lane that is not in the usual memory, or copies a part.
///
/// # Safety
/// That of [`copy_lanes`].
#[cold]
unsafe fn copy_one(
    context: *mut BlockContext,
    thread: u32,
    encoded: u64,
    [to, from]: [u64; 2],
    count: u32,
) -> u32 {
    let (size, line) = (encoded as u32 & 0xFFFF, (encoded >> 32) as u32);
    if count < size {
        let encoded = encoded & !0xFFFF_0000 | 1 << 16;
        // SAFETY: the caller's contract.
        return unsafe { copy_partial(context, thread, encoded, to, 0, from, 0, &count) };
    }
    let access = Access::WRITE | Access::SHARED | size;
    // SAFETY: the caller's contract.
    unsafe {
        let Some(to) = host_address(context, thread, to, access, line) else {
            return 1;
        };
        let Some(from) = host_address(context, thread, from, size, line) else {
            return 1;
        };
        from.copy_to(to, size as usize);
    }
    0
}

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
