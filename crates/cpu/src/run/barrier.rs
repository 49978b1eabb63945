//! The sixteen barriers of a block.

use super::warp::{Lanes, lanes};
use crate::block::{Request, SyncKind, WARP};

/// How many barriers a block has.
pub(super) const BARRIERS: usize = 16;

/// Who has come to a barrier.
#[derive(Clone, Debug, Default)]
pub(super) struct Barrier {
    /// Threads that wait, by warp; empty until the first one does.
    waiting: Vec<Lanes>,
    waiting_count: u32,
    /// Threads that came by `bar.arrive` and went on.
    arrived: Vec<Lanes>,
    arrived_count: u32,
    /// Threads that it waits for; 0: all of the block.
    expected: u32,
}

impl Barrier {
    /// Nobody has come yet.
    pub(super) fn is_idle(&self) -> bool {
        self.waiting_count + self.arrived_count == 0
    }

    /// Lanes of a warp come and wait.
    pub(super) fn wait(&mut self, warp: usize, set: Lanes, expected: u32) {
        add(&mut self.waiting, warp, set);
        self.waiting_count += set.count_ones();
        self.expected = self.expected.max(expected);
    }

    /// Lanes of a warp come and go on.
    pub(super) fn arrive(&mut self, warp: usize, set: Lanes, expected: u32) {
        add(&mut self.arrived, warp, set);
        self.arrived_count += set.count_ones();
        self.expected = self.expected.max(expected);
    }

    /// Whether all have come: `live` threads have not exited, and `exited` are
    /// the lanes of a warp that have. A warp that comes counts whole, with
    /// its exited lanes, when the barrier counts threads.
    pub(super) fn is_complete(&self, live: u32, exited: impl Fn(usize) -> Lanes) -> bool {
        let come = self.waiting_count + self.arrived_count;
        if self.waiting_count == 0 && (self.expected == 0 || come < self.expected) {
            return false;
        }
        if self.expected == 0 {
            return come >= live;
        }
        if come >= self.expected {
            return true;
        }
        let warps = self.waiting.len().max(self.arrived.len());
        let gone = (0..warps).map(|warp| {
            let at = |set: &[Lanes]| set.get(warp).copied().unwrap_or(0);
            if at(&self.waiting) | at(&self.arrived) == 0 {
                0
            } else {
                exited(warp).count_ones()
            }
        });
        come + gone.sum::<u32>() >= self.expected
    }

    /// Ends this phase: gives `bar.red` its results and `go_on` the lanes that
    /// waited. `requests` are the block's.
    pub(super) fn release(
        &mut self,
        kind_of: impl Fn(usize) -> SyncKind,
        requests: &mut [Request],
        mut go_on: impl FnMut(usize, Lanes),
    ) {
        let threads = || {
            self.waiting.iter().enumerate().flat_map(|(warp, &set)| {
                lanes(set).map(move |lane| warp * WARP as usize + lane as usize)
            })
        };
        reduce(threads, kind_of, requests);
        for (warp, set) in self.waiting.iter_mut().enumerate() {
            if *set != 0 {
                go_on(warp, std::mem::take(set));
            }
        }
        self.arrived.fill(0);
        self.waiting_count = 0;
        self.arrived_count = 0;
        self.expected = 0;
    }

    /// Forgets all, for the next block.
    pub(super) fn reset(&mut self) {
        *self = Barrier::default();
    }
}

fn add(sets: &mut Vec<Lanes>, warp: usize, set: Lanes) {
    if sets.len() <= warp {
        sets.resize(warp + 1, 0);
    }
    sets[warp] |= set;
}

/// Gives the threads at `bar.red` their results.
pub(super) fn reduce<I: Iterator<Item = usize>>(
    threads: impl Fn() -> I,
    kind_of: impl Fn(usize) -> SyncKind,
    requests: &mut [Request],
) {
    let takes_part = |&thread: &usize| {
        matches!(
            kind_of(thread),
            SyncKind::BarrierPopc | SyncKind::BarrierAnd | SyncKind::BarrierOr
        )
    };
    let (mut all, mut set) = (0_u64, 0_u64);
    for thread in threads().filter(takes_part) {
        all += 1;
        set += requests[thread].operands[2] & 1;
    }
    if all == 0 {
        return;
    }
    for thread in threads() {
        let result = match kind_of(thread) {
            SyncKind::BarrierPopc => set,
            SyncKind::BarrierAnd => u64::from(set == all),
            SyncKind::BarrierOr => u64::from(set > 0),
            _ => continue,
        };
        requests[thread].results = [result, 0];
    }
}
