//! The registers of a warp, which are in slots.

use super::operation::NO_SLOT;
use crate::abi::{BlockContext, SLOT_BYTES, WARP_SIZE};

/// The values of a register of 32 bits, by lane.
pub(super) type Words = [u32; WARP_SIZE as usize];
/// Those of a register of 64 bits.
pub(super) type Doubles = [u64; WARP_SIZE as usize];

/// The registers of an operation, by the number of their operand.
pub(super) struct Registers<'a> {
    /// Of the warp.
    slots: *mut u8,
    operands: &'a [u32],
}

impl<'a> Registers<'a> {
    /// # Safety
    /// The context is valid as long as the result, has the slots `operands` (but for
    /// [`NO_SLOT`]) and the warp whose first thread is `first`, and nothing else accesses its slots.
    pub(super) unsafe fn new(
        context: *mut BlockContext,
        first: u32,
        operands: &'a [u32],
    ) -> Registers<'a> {
        // SAFETY: the caller's contract.
        let slots = unsafe {
            let warp = (first / WARP_SIZE) as usize;
            (*context).slots.add(warp * (*context).slot_stride as usize)
        };
        Registers { slots, operands }
    }

    /// Those in a warp's slots, of 32 values each.
    #[cfg(test)]
    pub(super) fn in_memory(slots: &'a mut [Doubles], operands: &'a [u32]) -> Registers<'a> {
        assert!(operands.iter().all(|&slot| (slot as usize) < slots.len()));
        let slots = slots.as_mut_ptr().cast();
        Registers { slots, operands }
    }

    pub(super) fn len(&self) -> usize {
        self.operands.len()
    }

    /// The values of operand `n`, each of the size of `T`'s elements.
    #[inline]
    fn place<T>(&self, n: usize) -> Option<*mut T> {
        let slot = *self.operands.get(n)?;
        // SAFETY: the contract of `new`: the slot is in the array, and has 8 bytes for each lane.
        (slot != NO_SLOT)
            .then(|| unsafe { self.slots.add(slot as usize * SLOT_BYTES as usize).cast() })
    }

    #[inline]
    pub(super) fn words(&self, n: usize) -> &Words {
        // SAFETY: as above. Slots are aligned to 16 bytes, and are written by this type alone.
        self.place(n)
            .map_or(&[0; 32], |place: *mut Words| unsafe { &*place })
    }

    pub(super) fn doubles(&self, n: usize) -> Doubles {
        // SAFETY: as above.
        self.place(n).map_or([0; 32], |place| unsafe { *place })
    }

    /// `None` where nobody reads them.
    #[inline]
    pub(super) fn words_mut(&mut self, n: usize) -> Option<&mut Words> {
        // SAFETY: as above.
        self.place(n)
            .map(|place: *mut Words| unsafe { &mut *place })
    }

    #[inline]
    pub(super) fn set_words(&mut self, n: usize, words: &Words) {
        if let Some(place) = self.place(n) {
            // SAFETY: as above.
            unsafe { *place = *words };
        }
    }

    pub(super) fn set_doubles(&mut self, n: usize, doubles: &Doubles) {
        if let Some(place) = self.place(n) {
            // SAFETY: as above.
            unsafe { *place = *doubles };
        }
    }
}
