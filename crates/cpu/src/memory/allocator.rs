//! The allocator of the arena: best fit over free ranges.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::allocation::{Allocation, Purpose};
use super::near::{Near, Side};
use super::owner::{Owner, PeerAccess};
use super::physical::Physical;

/// The shadow memory has a number for each granule of this many bytes.
pub(crate) const GRANULE: u64 = 256;

/// log2 of [`GRANULE`].
pub(crate) const GRANULE_SHIFT: u32 = 8;

/// The number of freed allocations that are recorded for messages.
pub(crate) const FREED: usize = 256;

/// What lies below is a null pointer with an offset.
pub(super) const NULL_PAGE: u64 = 4096;

/// Allocations, free ranges and registered host memory.
#[derive(Default)]
pub(super) struct Allocator {
    pub(super) live: BTreeMap<u64, LiveAllocation>,
    /// Free ranges in whole granules: length by first address.
    free_ranges: BTreeMap<u64, u64>,
    /// The same, ordered by length for best fit.
    pub(super) free_by_length: BTreeSet<(u64, u64)>,
    pub(super) free_bytes: u64,
    freed: VecDeque<(u64, u64)>,
    /// Registered host memory: length by first address.
    pub(super) registered: BTreeMap<u64, u64>,
    /// Accessible parts of reservations: length by first address.
    pub(super) open: BTreeMap<u64, u64>,
    /// The files of allocations whose pages other processes may map.
    pub(super) shared: BTreeMap<u64, Physical>,
    pub(super) peer_access: PeerAccess,
}

#[derive(Clone, Copy)]
pub(super) struct LiveAllocation {
    pub(super) size: u64,
    /// Bytes taken from the free ranges, including the guard granule.
    pub(super) reserved: u64,
    pub(super) purpose: Purpose,
    /// The device that owns it, if there are several.
    pub(super) owner: Option<Owner>,
}

impl Allocator {
    pub(super) fn new(peer_access: PeerAccess) -> Allocator {
        Allocator {
            peer_access,
            ..Allocator::default()
        }
    }

    /// Records a freed allocation for messages.
    pub(super) fn record_freed(&mut self, start: u64, size: u64) {
        if self.freed.len() == FREED {
            self.freed.pop_front();
        }
        self.freed.push_back((start, size));
    }

    /// Allocates from the shortest free range that fits.
    pub(super) fn allocate(&mut self, bytes: u64, align: u64) -> Option<u64> {
        // Free ranges are aligned to granules, so that the search looks at more than one
        // range only for larger alignments.
        let (start, length, at) =
            self.free_by_length
                .range((bytes, 0)..)
                .find_map(|&(length, start)| {
                    let at = start.checked_next_multiple_of(align)?;
                    let need = (at - start).checked_add(bytes)?;
                    (need <= length).then_some((start, length, at))
                })?;
        self.split(start, length, at, bytes);
        Some(at)
    }

    /// Allocates the end of the longest free range. The memory of launches comes from there,
    /// so that it reuses freed addresses late: until then, accesses to them are faults.
    pub(super) fn allocate_at_end(&mut self, bytes: u64) -> Option<u64> {
        let &(length, start) = self.free_by_length.last()?;
        let at = start + length.checked_sub(bytes)?;
        self.split(start, length, at, bytes);
        Some(at)
    }

    /// Removes `bytes` at `at` from a free range.
    fn split(&mut self, start: u64, length: u64, at: u64, bytes: u64) {
        self.free_by_length.remove(&(length, start));
        self.free_ranges.remove(&start);
        self.free_bytes -= length;
        if at > start {
            self.free(start, at - start);
        }
        if at + bytes < start + length {
            self.free(at + bytes, start + length - at - bytes);
        }
    }

    /// Adds a free range, and merges it with adjacent ones.
    pub(super) fn free(&mut self, mut start: u64, mut length: u64) {
        self.free_bytes += length;
        if let Some((&before, &n)) = self.free_ranges.range(..start).next_back()
            && before + n == start
        {
            self.free_ranges.remove(&before);
            self.free_by_length.remove(&(n, before));
            start = before;
            length += n;
        }
        if let Some(n) = self.free_ranges.remove(&(start + length)) {
            self.free_by_length.remove(&(n, start + length));
            length += n;
        }
        self.free_ranges.insert(start, length);
        self.free_by_length.insert((length, start));
    }

    /// The last allocation that starts at or before `address`.
    pub(super) fn last_before(&self, address: u64) -> Option<Allocation> {
        let (&start, live) = self.live.range(..=address).next_back()?;
        Some(Allocation {
            start,
            size: live.size,
            purpose: live.purpose,
        })
    }

    /// The owner of the memory at an address.
    pub(super) fn owner(&self, address: u64) -> Option<Owner> {
        let (start, live) = self.live.range(..=address).next_back()?;
        live.owner.filter(|_| address - start < live.size)
    }

    /// Whether bytes of an allocation may be accessed. In a reservation, only the opened
    /// parts may.
    pub(super) fn allows(&self, found: &Allocation, address: u64, bytes: u64) -> bool {
        if found.purpose != Purpose::Reserved {
            return true;
        }
        let (mut at, end) = (address, address + bytes);
        while at < end {
            match self.open.range(..=at).next_back() {
                Some((start, length)) if at < start + length => at = start + length,
                _ => return false,
            }
        }
        true
    }

    pub(super) fn registered_before(&self, address: u64) -> Option<(u64, u64)> {
        self.registered
            .range(..=address)
            .next_back()
            .map(|(&start, &size)| (start, size))
    }

    pub(super) fn describe_address(&self, address: u64) -> String {
        if address < NULL_PAGE {
            return if address == 0 {
                "a null pointer".into()
            } else {
                "a null pointer plus an offset".into()
            };
        }
        match self.near(address) {
            Some(near) => near.to_string(),
            None => "no allocation exists".into(),
        }
    }

    /// The allocation that an address lies in; else one that was freed, or the nearest.
    pub(super) fn near(&self, address: u64) -> Option<Near> {
        let of = |a: Allocation, side| Near {
            start: a.start,
            size: a.size,
            freed: false,
            noun: a.purpose.noun(),
            side,
        };
        let before = self.last_before(address);
        if let Some(a) = before.filter(|a| address - a.start < a.size) {
            return Some(of(a, Side::Into(address - a.start)));
        }
        let freed = self
            .freed
            .iter()
            .rev()
            .find(|&&(start, size)| address.wrapping_sub(start) < size);
        if let Some(&(start, size)) = freed {
            return Some(Near {
                start,
                size,
                freed: true,
                noun: "allocation",
                side: Side::Into(address - start),
            });
        }
        let after = self.live.range(address..).next();
        let after = after.map(|(&start, live)| Allocation {
            start,
            size: live.size,
            purpose: live.purpose,
        });
        let behind = before.map(|a| (address - a.start - a.size, a));
        let ahead = after.map(|a| (a.start - address, a));
        match (behind, ahead) {
            (Some((distance, a)), other) if other.is_none_or(|(d, _)| distance < d) => {
                Some(of(a, Side::Past(distance)))
            }
            (_, other) => other.map(|(distance, a)| of(a, Side::Before(distance))),
        }
    }
}
