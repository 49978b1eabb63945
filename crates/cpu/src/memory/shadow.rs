//! Updates of the shadow memory.

use memmap2::MmapRaw;

use super::allocator::{GRANULE, GRANULE_SHIFT};
use super::arena::DeviceMemory;

impl DeviceMemory {
    /// Sets the number of valid bytes of granules from `start` on.
    pub(super) fn set_valid_bytes(&self, shadow: &MmapRaw, start: u64, granules: u64, number: u64) {
        let first = (start - self.base) >> GRANULE_SHIFT;
        debug_assert!(first + granules <= self.size >> GRANULE_SHIFT);
        for granule in first..first + granules {
            // SAFETY: a shadow has a number for each granule of the arena, and only the holder of
            // the allocator's lock writes the numbers of an allocation. Compiled code may read
            // them at the same time, as a kernel may race with a free on a GPU; it reads the old
            // or the new value.
            let place = unsafe { shadow.as_mut_ptr().cast::<u16>().add(granule as usize) };
            // SAFETY: as above. No reference is made.
            unsafe { place.write(number as u16) };
        }
    }

    fn shadows(&self) -> impl Iterator<Item = &MmapRaw> {
        std::iter::once(&self.shadow).chain(&self.device_shadows)
    }

    /// Makes the bytes of an allocation accessible to all devices.
    pub(super) fn mark(&self, start: u64, bytes: u64) {
        self.shadows()
            .for_each(|shadow| self.mark_in(shadow, start, bytes));
    }

    /// Makes the bytes of an allocation accessible in one shadow.
    pub(super) fn mark_in(&self, shadow: &MmapRaw, start: u64, bytes: u64) {
        let whole = bytes / GRANULE;
        self.set_valid_bytes(shadow, start, whole, GRANULE);
        if !bytes.is_multiple_of(GRANULE) {
            self.set_valid_bytes(shadow, start + whole * GRANULE, 1, bytes % GRANULE);
        }
    }

    /// Makes the granules of an allocation inaccessible.
    pub(super) fn clear(&self, start: u64, bytes: u64) {
        self.shadows()
            .for_each(|shadow| self.set_valid_bytes(shadow, start, bytes.div_ceil(GRANULE), 0));
    }
}
