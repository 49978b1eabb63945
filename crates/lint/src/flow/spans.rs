//! Where accesses lie, as ranges: a first look at whether any of them can meet.

use super::lanes::Lanes;

/// Places, as the first and the last of each of some ranges that lie apart, in order.
pub(super) struct Spans(Vec<(i64, i64)>);

impl Spans {
    pub fn new(spans: impl Iterator<Item = (i64, i64)>) -> Spans {
        let mut all: Vec<_> = spans.collect();
        all.sort_unstable();
        all.dedup_by(|next, before| {
            let meet = next.0 <= before.1;
            if meet {
                before.1 = before.1.max(next.1);
            }
            meet
        });
        Spans(all)
    }

    /// Whether a range has a place of these.
    pub fn meet(&self, (first, last): (i64, i64)) -> bool {
        let at = self.0.partition_point(|span| span.1 < first);
        self.0.get(at).is_some_and(|span| span.0 <= last)
    }
}

/// The bytes that each warp touches, from the first to the last.
#[derive(Default)]
pub(super) struct Touches(Vec<Touch>);

/// What lies further from its base is no address.
pub(super) const FAR: i64 = 1 << 40;

/// As many bits of a number tell which touch it is, and the bits above where it starts.
const BITS: u32 = 22;
const _: () = assert!((2 * FAR).ilog2() + 1 + BITS <= u64::BITS);

struct Touch {
    start: i64,
    /// Behind the last byte.
    end: i64,
    warp: u32,
    writes: bool,
}

impl Touches {
    /// Adds an access of so many bytes of each thread.
    pub fn add(&mut self, addresses: &Lanes, threads: usize, bytes: u64, writes: bool) {
        let (first, last) = addresses.range();
        if first < -FAR || last > FAR {
            return;
        }
        let mut warps = 0_u32..;
        addresses.each_warp(threads, |(least, most)| {
            self.0.push(Touch {
                start: least,
                end: most.saturating_add_unsigned(bytes),
                warp: warps.next().unwrap_or(u32::MAX),
                writes,
            });
        });
    }

    /// Whether a warp may write what another touches.
    pub fn meet(self) -> bool {
        if !self.0.iter().any(|touch| touch.writes) {
            return false;
        }
        // Too many to tell apart.
        if self.0.len() >= 1 << BITS {
            return true;
        }
        // Numbers are sorted faster than what they stand for.
        let starts = (0_u64..).zip(&self.0);
        let starts = starts.map(|(at, touch)| ((touch.start + FAR) as u64) << BITS | at);
        let mut order: Vec<u64> = starts.collect();
        order.sort_unstable();
        let (mut written, mut touched) = (Furthest::default(), Furthest::default());
        order.iter().any(|key| {
            let touch = &self.0[(key & ((1 << BITS) - 1)) as usize];
            let before = if touch.writes { &touched } else { &written };
            let meets = before
                .of_others(touch.warp)
                .is_some_and(|end| end > touch.start);
            touched.add(touch);
            if touch.writes {
                written.add(touch);
            }
            meets
        })
    }
}

/// How far the warps so far reach: the one that reaches furthest, and the next.
#[derive(Default)]
struct Furthest {
    first: Option<(i64, u32)>,
    second: Option<(i64, u32)>,
}

impl Furthest {
    fn add(&mut self, touch: &Touch) {
        let new = Some((touch.end, touch.warp));
        match self.first {
            Some((end, warp)) if warp == touch.warp => {
                if end < touch.end {
                    self.first = new;
                }
            }
            Some((end, _)) if end >= touch.end => {
                if self.second.is_none_or(|(end, _)| end < touch.end) {
                    self.second = new;
                }
            }
            before => (self.first, self.second) = (new, before),
        }
    }

    /// How far those reach that are not this warp.
    fn of_others(&self, warp: u32) -> Option<i64> {
        let furthest = self.first.filter(|(_, known)| *known != warp);
        furthest.or(self.second).map(|(end, _)| end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meet(accesses: &[(&[i64], bool)]) -> bool {
        let mut touches = Touches::default();
        for (of_warps, writes) in accesses {
            let threads = of_warps
                .iter()
                .flat_map(|start| (0..32).map(move |at| start + 4 * at));
            let threads: Vec<i64> = threads.collect();
            let lanes = Lanes::each(threads.iter().copied());
            touches.add(&lanes, threads.len(), 4, *writes);
        }
        touches.meet()
    }

    #[test]
    fn warps_that_touch_the_same_bytes_are_told() {
        // Each warp its own.
        assert!(!meet(&[(&[0, 128, 256], true), (&[0, 128, 256], false)]));
        // One reads what the next writes, or writes it too.
        assert!(meet(&[(&[0, 128, 256], true), (&[128, 256, 384], false)]));
        assert!(meet(&[(&[0, 128, 256], true), (&[124, 512, 640], true)]));
        // All read the same, and what they write lies elsewhere.
        assert!(!meet(&[(&[0, 0, 0], false), (&[128, 256, 384], true)]));
        assert!(meet(&[(&[0, 0, 0], true)]));
        // The one that reaches furthest is the own.
        assert!(meet(&[(&[0, 64], true), (&[1000, 100], false)]));
        assert!(!meet(&[
            (&[0, 512], true),
            (&[8, 520], false),
            (&[16, 600], true)
        ]));
    }
}
