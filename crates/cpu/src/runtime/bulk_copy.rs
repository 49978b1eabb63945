//! Copies of many bytes.

use std::ops::Range;

use super::cluster::OFFSET_BITS;
use super::mbarrier::{AddressSpace, BarrierOperation, mbarrier, place};
use super::reduction::{Number, Reduction, reduce};
use crate::abi::{Access, BlockContext, FaultKind};
use crate::access::{context, record};
use crate::tensor_map::CopyFault;

/// Where the words of an encoded copy begin. The line is from bit 32 on.
pub(crate) struct Shifts {
    /// The spaces of the destination, of the source and of the barrier.
    pub to: u32,
    pub from: u32,
    pub barrier: u32,
    /// Whether the barrier counts the bytes.
    pub counted: u32,
    /// Whether a mask of the cluster's blocks is in the number of bytes, from bit 32 on.
    pub multicast: u32,
    /// A [`Reduction`], or 0, and its [`Number`].
    pub reduction: u32,
    pub number: u32,
}

pub(crate) const SHIFTS: Shifts = Shifts {
    to: 0,
    from: 4,
    barrier: 8,
    counted: 12,
    multicast: 13,
    reduction: 16,
    number: 24,
};

/// Bytes that addresses and sizes are multiples of.
pub(super) const PIECE: u64 = 16;

/// An address and its state space.
pub(super) type Place = (AddressSpace, u64);

/// The thread that copies, and the line of its instruction.
#[derive(Clone, Copy)]
pub(super) struct Copier {
    pub context: *mut BlockContext,
    pub thread: u32,
    pub line: u32,
}

impl Copier {
    /// The host address of `size` bytes; `None` after recording a fault.
    fn host(self, at: Place, size: u32, access: u32) -> Option<*mut u8> {
        let Copier {
            context,
            thread,
            line,
        } = self;
        // SAFETY: see `device`: the context is that of the calling code.
        unsafe { place(context, thread, line, at, size | access) }
    }

    /// Records an operand that no copy has.
    pub fn refuse<T>(self, address: u64) -> Option<T> {
        self.refuse_as(FaultKind::IllegalInstruction, address)
    }

    fn refuse_as<T>(self, kind: FaultKind, address: u64) -> Option<T> {
        // SAFETY: see `device`.
        let context = unsafe { context(&self.context) };
        record(context, kind, self.thread, address, 0, self.line);
        None
    }

    /// Whether the clusters of the grid have one block.
    fn has_no_cluster(self) -> bool {
        // SAFETY: see `device`.
        unsafe { context(&self.context) }.cluster_blocks <= 1
    }

    /// Records a copy that this device does not have.
    pub fn refuse_copy<T>(self, fault: CopyFault) -> Option<T> {
        self.refuse_as(FaultKind::TensorCopy, fault.number())
    }

    pub fn read(self, from: Place, bytes: &mut [u8]) -> Option<()> {
        for_pieces(from, bytes.len(), |at, range| {
            let host = self.host(at, range.len() as u32, 0)?;
            // SAFETY: `host` has checked these bytes.
            unsafe { host.copy_to_nonoverlapping(bytes[range.clone()].as_mut_ptr(), range.len()) };
            Some(())
        })
    }

    pub fn write(self, to: Place, bytes: &[u8]) -> Option<()> {
        for_pieces(to, bytes.len(), |at, range| {
            let host = self.host(at, range.len() as u32, Access::WRITE)?;
            // SAFETY: `host` has checked these bytes.
            unsafe { host.copy_from_nonoverlapping(bytes[range.clone()].as_ptr(), range.len()) };
            Some(())
        })
    }

    /// Combines elements with those in memory.
    pub fn reduce(
        self,
        to: Place,
        bytes: &[u8],
        reduction: Reduction,
        number: Number,
    ) -> Option<()> {
        let size = number.bytes();
        for (at, element) in (0..).step_by(size).zip(bytes.chunks_exact(size)) {
            let place = (to.0, to.1.wrapping_add(at));
            let access = Access::WRITE | Access::ATOMIC;
            let host = self.host(place, size as u32, access)?;
            let mut value = [0; 8];
            value[..size].copy_from_slice(element);
            let value = u64::from_le_bytes(value);
            // SAFETY: `host` has checked it and its alignment.
            if unsafe { reduce(reduction, number, host, value) }.is_none() {
                return self.refuse(place.1);
            }
        }
        Some(())
    }

    /// Counts bytes that have come at a barrier.
    pub fn count(self, (space, barrier): Place, bytes: u64) -> Option<()> {
        let encoded =
            BarrierOperation::CompleteTx as u64 | (space as u64) << 8 | u64::from(self.line) << 32;
        // SAFETY: see `device`.
        unsafe { mbarrier(self.context, self.thread, encoded, barrier, bytes) };
        // SAFETY: see `device`.
        (unsafe { context(&self.context) }.fault.kind == 0).then_some(())
    }
}

/// Calls `each` with pieces of at most 16 bytes that are aligned to their size, a power of 2.
fn for_pieces(
    (space, start): Place,
    length: usize,
    mut each: impl FnMut(Place, Range<usize>) -> Option<()>,
) -> Option<()> {
    let mut done = 0;
    while done < length {
        let at = start.wrapping_add(done as u64);
        let aligned = 1 << at.trailing_zeros().min(PIECE.trailing_zeros());
        let rest = length - done;
        let mut size: usize = aligned;
        while size > rest {
            size /= 2;
        }
        each((space, at), done..done + size)?;
        done += size;
    }
    Some(())
}

/// The same place in the memory of each block of a mask.
pub(super) fn in_blocks(address: u64, mask: u64) -> impl Iterator<Item = Place> {
    let offset = address & ((1 << OFFSET_BITS) - 1);
    let blocks = (0..16_u64).filter(move |rank| mask >> rank & 1 != 0);
    blocks.map(move |rank| (AddressSpace::Cluster, (rank + 1) << OFFSET_BITS | offset))
}

/// `encoded` has the words of [`SHIFTS`].
pub(super) unsafe extern "C" fn copy_bulk(
    context: *mut BlockContext,
    thread: u32,
    encoded: u64,
    to: u64,
    from: u64,
    bytes: u64,
    barrier: u64,
) -> u32 {
    let copier = Copier {
        context,
        thread,
        line: (encoded >> 32) as u32,
    };
    let (mask, bytes) = (bytes >> 32, bytes & u64::from(u32::MAX));
    let copied = bulk(copier, encoded as u32, to, from, (bytes, mask), barrier);
    u32::from(copied.is_none())
}

fn bulk(
    copier: Copier,
    encoded: u32,
    to: u64,
    from: u64,
    (bytes, mask): (u64, u64),
    barrier: u64,
) -> Option<()> {
    let space = |shift: u32| AddressSpace::from_number(encoded >> shift & 0xF);
    let is_set = |shift: u32| encoded >> shift & 1 != 0;
    if !bytes.is_multiple_of(PIECE) {
        return copier.refuse(to);
    }
    let reduction = Reduction::from_number((encoded >> SHIFTS.reduction) as u8 & 0xF);
    let number = Number::from_number((encoded >> SHIFTS.number) as u8 & 0xF)?;
    let multicast = is_set(SHIFTS.multicast);
    let places = |at: Place| -> Vec<Place> {
        if multicast {
            in_blocks(at.1, mask).collect()
        } else {
            vec![at]
        }
    };
    let is_between_blocks =
        space(SHIFTS.to) == AddressSpace::Cluster && space(SHIFTS.from) == AddressSpace::Shared;
    if is_between_blocks && copier.has_no_cluster() {
        return copier.refuse_as(FaultKind::NoCluster, to);
    }
    let targets = places((space(SHIFTS.to), to));
    for at in (0..bytes).step_by(PIECE as usize) {
        let mut piece = [0; PIECE as usize];
        let source = (space(SHIFTS.from), from.wrapping_add(at));
        // Pieces are aligned.
        let host = copier.host(source, PIECE as u32, 0)?;
        // SAFETY: `host` has checked these bytes.
        unsafe { host.copy_to_nonoverlapping(piece.as_mut_ptr(), piece.len()) };
        for &(space, start) in &targets {
            let target = (space, start.wrapping_add(at));
            match reduction {
                Some(reduction) => copier.reduce(target, &piece, reduction, number)?,
                None => {
                    let host = copier.host(target, PIECE as u32, Access::WRITE)?;
                    // SAFETY: as above.
                    unsafe { host.copy_from_nonoverlapping(piece.as_ptr(), piece.len()) };
                }
            }
        }
    }
    if is_set(SHIFTS.counted) {
        for barrier in places((space(SHIFTS.barrier), barrier)) {
            copier.count(barrier, bytes)?;
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_aligned_and_cover_all() {
        for start in 0..40 {
            for length in 0..70 {
                let mut next = 0;
                for_pieces((AddressSpace::Generic, start), length, |(_, at), range| {
                    let size = range.len() as u64;
                    assert!(size.is_power_of_two() && size <= 16 && at.is_multiple_of(size));
                    assert_eq!((range.start, at), (next, start + next as u64));
                    next = range.end;
                    Some(())
                })
                .unwrap();
                assert_eq!(next, length);
            }
        }
    }

    #[test]
    fn blocks_of_a_mask_have_the_same_offset() {
        let places: Vec<Place> = in_blocks(5 << OFFSET_BITS | 0x40, 0b1010).collect();
        let place = |rank: u64| (AddressSpace::Cluster, (rank + 1) << OFFSET_BITS | 0x40);
        assert_eq!(places, [place(1), place(3)]);
    }
}
