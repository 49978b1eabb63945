//! The shared memory of the blocks of a cluster.
//!
//! An address in `.shared::cluster` is an offset in the block's own memory, or the block's
//! rank plus 1 in the bits above [`OFFSET_BITS`] and an offset in that block's memory.

use crate::abi::BlockContext;
use crate::access;

/// Bits of an offset. No block has so much memory.
pub(crate) const OFFSET_BITS: u32 = 24;

/// The addresses of the blocks' shared memory, by rank.
fn blocks(context: &BlockContext) -> &[u64] {
    // SAFETY: the block sets both, and the addresses live as long.
    unsafe { std::slice::from_raw_parts(context.cluster_shared, context.cluster_blocks as usize) }
}

/// The rank of the block in whose memory a generic address is, and the offset there.
fn find(context: &BlockContext, generic: u64) -> Option<(u32, u64)> {
    let block = (0..).zip(blocks(context)).find(|(_, start)| {
        let offset = generic.wrapping_sub(**start);
        offset < context.shared_size
    });
    block.map(|(rank, start)| (rank, generic - start))
}

/// The generic address of one in `.shared::cluster`; 0 for a block that does not exist.
///
/// # Safety
/// See `device`: the context is that of the calling code.
pub(super) unsafe extern "C" fn cluster_to_generic(
    context: *mut BlockContext,
    address: u64,
) -> u64 {
    // SAFETY: the caller's contract.
    let context = unsafe { access::context(&context) };
    let offset = address & ((1 << OFFSET_BITS) - 1);
    match (address >> OFFSET_BITS).checked_sub(1) {
        None => context.shared.wrapping_add(address),
        Some(rank) => match blocks(context).get(usize::try_from(rank).unwrap_or(usize::MAX)) {
            Some(start) => start.wrapping_add(offset),
            None => 0,
        },
    }
}

/// The address in `.shared::cluster` of a generic one.
///
/// # Safety
/// See `device`.
pub(super) unsafe extern "C" fn generic_to_cluster(
    context: *mut BlockContext,
    generic: u64,
) -> u64 {
    // SAFETY: the caller's contract.
    let context = unsafe { access::context(&context) };
    match find(context, generic) {
        Some((rank, offset)) if rank != context.cluster_rank => {
            u64::from(rank + 1) << OFFSET_BITS | offset
        }
        _ => generic.wrapping_sub(context.shared),
    }
}

/// `mapa`: the generic address in the memory of the block `rank` of what is at `generic` in
/// that of another; 0 for a block that does not exist.
///
/// # Safety
/// See `device`.
pub(super) unsafe extern "C" fn map_generic(
    context: *mut BlockContext,
    generic: u64,
    rank: u32,
) -> u64 {
    // SAFETY: the caller's contract.
    let context = unsafe { access::context(&context) };
    let offset = match find(context, generic) {
        Some((_, offset)) => offset,
        // Just behind the memory, as the end of an array is.
        None => generic.wrapping_sub(context.shared),
    };
    match blocks(context).get(rank as usize) {
        Some(start) => start.wrapping_add(offset),
        None => 0,
    }
}

/// `getctarank`: the rank of the block in whose memory a generic address is, or all ones.
///
/// # Safety
/// See `device`.
pub(super) unsafe extern "C" fn rank_of(context: *mut BlockContext, generic: u64) -> u32 {
    // SAFETY: the caller's contract.
    let context = unsafe { access::context(&context) };
    find(context, generic).map_or(u32::MAX, |(rank, _)| rank)
}
