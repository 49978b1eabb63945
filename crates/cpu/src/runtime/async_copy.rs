//! `cp.async`: by lane, and where some bytes are not copied.

use crate::abi::{Access, BlockContext};
use crate::access::{context, host_address, passes_inline_check};

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
/// That of [`copy_lane`].
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
        // SAFETY: the caller's contract.
        return unsafe { copy_partial(context, thread, encoded, to, from, count) };
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

/// Copies for a thread: of `size` bytes in shared memory the first `count`, and then zeros. Returns
/// 0, or 1 after recording a fault. `encoded`: the size in bits 0 to 15, the line in 32 to 63.
///
/// # Safety
/// The context is that of a block that is running, and no other reference to it is in use.
pub(crate) unsafe extern "C" fn copy_partial(
    context: *mut BlockContext,
    thread: u32,
    encoded: u64,
    to: u64,
    from: u64,
    count: u32,
) -> u32 {
    let (size, line) = (encoded as u32 & 0xFFFF, (encoded >> 32) as u32);
    let count = count.min(size);
    let access = Access::WRITE | Access::SHARED | size;
    // SAFETY: the caller's contract.
    let Some(to) = (unsafe { host_address(context, thread, to, access, line) }) else {
        return 1;
    };
    // Byte by byte: nothing says how they are aligned.
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
    0
}
