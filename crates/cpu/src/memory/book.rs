//! Which parts of the arena are free, which are whose.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::view::{Owner, Reach};
use super::{Allocation, Purpose};

/// How many freed allocations are remembered for messages.
const FREED: usize = 256;

/// Allocations, free stretches and registered host memory.
#[derive(Default)]
pub(super) struct Book {
    pub(super) live: BTreeMap<u64, Live>,
    /// Free stretches: length by first address, whole granules.
    free: BTreeMap<u64, u64>,
    /// The same by length, for the best fit.
    pub(super) by_length: BTreeSet<(u64, u64)>,
    pub(super) free_bytes: u64,
    freed: VecDeque<(u64, u64)>,
    /// Registered host memory: length by first address.
    pub(super) registered: BTreeMap<u64, u64>,
    /// Parts of reservations that may be accessed: length by first address.
    pub(super) open: BTreeMap<u64, u64>,
    pub(super) reach: Reach,
}

#[derive(Clone, Copy)]
pub(super) struct Live {
    pub(super) size: u64,
    /// Bytes taken from the free stretches, with the granule behind.
    pub(super) reserved: u64,
    pub(super) purpose: Purpose,
    /// The device whose own it is, where there are several.
    pub(super) owner: Option<Owner>,
}

impl Book {
    pub(super) fn new(reach: Reach) -> Book {
        Book {
            reach,
            ..Book::default()
        }
    }

    /// Remembers what was freed, for messages.
    pub(super) fn remember(&mut self, start: u64, size: u64) {
        if self.freed.len() == FREED {
            self.freed.pop_front();
        }
        self.freed.push_back((start, size));
    }

    /// Takes the shortest free stretch that fits, and gives back what is over.
    pub(super) fn take(&mut self, bytes: u64, align: u64) -> Option<u64> {
        // A stretch with room for any alignment ends the search, so it looks at
        // more than one only for alignments above a granule.
        let (start, length, at) =
            self.by_length
                .range((bytes, 0)..)
                .find_map(|&(length, start)| {
                    let at = start.checked_next_multiple_of(align)?;
                    let need = (at - start).checked_add(bytes)?;
                    (need <= length).then_some((start, length, at))
                })?;
        self.split(start, length, at, bytes);
        Some(at)
    }

    /// Takes the end of the longest free stretch. What comes and goes with each
    /// launch is kept away from what was freed, so that accesses to that are
    /// found for longer.
    pub(super) fn take_far(&mut self, bytes: u64) -> Option<u64> {
        let &(length, start) = self.by_length.last()?;
        let at = start + length.checked_sub(bytes)?;
        self.split(start, length, at, bytes);
        Some(at)
    }

    /// Takes `bytes` at `at` out of a free stretch.
    fn split(&mut self, start: u64, length: u64, at: u64, bytes: u64) {
        self.by_length.remove(&(length, start));
        self.free.remove(&start);
        self.free_bytes -= length;
        if at > start {
            self.give(start, at - start);
        }
        if at + bytes < start + length {
            self.give(at + bytes, start + length - at - bytes);
        }
    }

    /// Adds a free stretch, joined with its neighbours.
    pub(super) fn give(&mut self, mut start: u64, mut length: u64) {
        self.free_bytes += length;
        if let Some((&before, &n)) = self.free.range(..start).next_back()
            && before + n == start
        {
            self.free.remove(&before);
            self.by_length.remove(&(n, before));
            start = before;
            length += n;
        }
        if let Some(n) = self.free.remove(&(start + length)) {
            self.by_length.remove(&(n, start + length));
            length += n;
        }
        self.free.insert(start, length);
        self.by_length.insert((length, start));
    }

    /// The last allocation that starts at `address` or before.
    pub(super) fn before(&self, address: u64) -> Option<Allocation> {
        let (&start, live) = self.live.range(..=address).next_back()?;
        Some(Allocation {
            start,
            size: live.size,
            purpose: live.purpose,
        })
    }

    /// The device whose own an address is.
    pub(super) fn owner(&self, address: u64) -> Option<Owner> {
        let (start, live) = self.live.range(..=address).next_back()?;
        live.owner.filter(|_| address - start < live.size)
    }

    /// Whether bytes of an allocation may be accessed: of a reservation only
    /// those that were opened.
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

    pub(super) fn what_is_at(&self, address: u64) -> String {
        if address < 4096 {
            return if address == 0 {
                "a null pointer".into()
            } else {
                "a null pointer plus an offset".into()
            };
        }
        let bytes = |n: u64| {
            if n == 1 {
                "1 byte".into()
            } else {
                format!("{n} bytes")
            }
        };
        let named =
            |a: Allocation| format!("the {}-byte {} at {:#x}", a.size, a.purpose.noun(), a.start);
        let before = self.before(address);
        if let Some(a) = before.filter(|a| address - a.start < a.size) {
            return match address - a.start {
                0 => format!("the start of {}", named(a)),
                offset => format!("{} into {}", bytes(offset), named(a)),
            };
        }
        let freed = self
            .freed
            .iter()
            .rev()
            .find(|&&(start, size)| address.wrapping_sub(start) < size);
        if let Some((start, size)) = freed {
            return format!(
                "{} into a freed {size}-byte allocation at {start:#x}",
                bytes(address - start)
            );
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
                match distance {
                    0 => format!("just past the end of {}", named(a)),
                    n => format!("{} past the end of {}", bytes(n), named(a)),
                }
            }
            (_, Some((distance, a))) => format!("{} before {}", bytes(distance), named(a)),
            _ => "no allocation exists".into(),
        }
    }
}
