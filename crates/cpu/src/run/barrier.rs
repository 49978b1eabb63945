//! The 16 barriers of a block.

use super::warp::{LaneMask, lanes_of};
use crate::abi::{Request, SyncKind, WARP_SIZE};
use crate::sanitizer::Arrived;

/// The number of barriers of a block.
pub(super) const BARRIERS: usize = 16;

/// The state of a barrier.
#[derive(Clone, Debug, Default)]
pub(super) struct Barrier {
    /// Threads that wait, by warp. Empty until the first one does.
    waiting: Vec<LaneMask>,
    waiting_count: u32,
    /// Threads that arrived by `bar.arrive`, which does not wait.
    arrived: Vec<LaneMask>,
    arrived_count: u32,
    /// Number of threads that it waits for; 0 for all threads of the block.
    expected: u32,
}

impl Barrier {
    /// Whether no thread has arrived.
    pub(super) fn is_idle(&self) -> bool {
        self.waiting_count + self.arrived_count == 0
    }

    /// Lanes of a warp arrive and wait.
    pub(super) fn wait(&mut self, warp: usize, set: LaneMask, expected: u32) {
        add(&mut self.waiting, warp, set);
        self.waiting_count += set.count_ones();
        self.expected = self.expected.max(expected);
    }

    /// Lanes of a warp arrive without waiting.
    pub(super) fn arrive(&mut self, warp: usize, set: LaneMask, expected: u32) {
        add(&mut self.arrived, warp, set);
        self.arrived_count += set.count_ones();
        self.expected = self.expected.max(expected);
    }

    /// Whether all threads have arrived. `live` is the number of threads that have not
    /// exited. `gone` returns the lanes of a warp that have, and those that never were. If the barrier
    /// counts threads, a warp that arrives counts with the former; with both, if it counts warps.
    pub(super) fn is_complete(
        &self,
        live: u32,
        gone: impl Fn(usize) -> (LaneMask, LaneMask),
    ) -> bool {
        let arrived = self.waiting_count + self.arrived_count;
        if self.expected == 0 {
            return self.waiting_count > 0 && arrived >= live;
        }
        if arrived >= self.expected {
            return true;
        }
        let counts_warps = self.expected.is_multiple_of(WARP_SIZE);
        let warps = self.waiting.len().max(self.arrived.len());
        let gone_with_warp = (0..warps).map(|warp| {
            let at = |set: &[LaneMask]| set.get(warp).copied().unwrap_or(0);
            let here = at(&self.waiting) | at(&self.arrived);
            if here == 0 {
                return 0;
            }
            let (exited, missing) = gone(warp);
            let gone = if counts_warps {
                exited | missing
            } else {
                exited
            };
            // A lane may exit behind `bar.arrive`.
            (gone & !here).count_ones()
        });
        arrived + gone_with_warp.sum::<u32>() >= self.expected
    }

    /// The threads that have arrived.
    pub(super) fn arrived(&self) -> Vec<Arrived> {
        let threads = |sets: &[LaneMask], waits: bool| {
            let warps = (0..).zip(sets.to_vec());
            warps.flat_map(move |(warp, set)| {
                let thread = move |lane| warp * WARP_SIZE + lane;
                lanes_of(set).map(move |lane| Arrived {
                    thread: thread(lane),
                    waits,
                })
            })
        };
        let waiting = threads(&self.waiting, true);
        waiting.chain(threads(&self.arrived, false)).collect()
    }

    /// Completes the phase: computes the results of `bar.red`, and calls `resume` with the
    /// waiting lanes of each warp. `requests` are those of the block.
    pub(super) fn release(
        &mut self,
        kind_of: impl Fn(usize) -> SyncKind,
        requests: &mut [Request],
        mut resume: impl FnMut(usize, LaneMask),
    ) {
        let threads = || {
            self.waiting.iter().enumerate().flat_map(|(warp, &set)| {
                lanes_of(set).map(move |lane| warp * WARP_SIZE as usize + lane as usize)
            })
        };
        reduce(threads, kind_of, requests);
        for (warp, set) in self.waiting.iter_mut().enumerate() {
            if *set != 0 {
                resume(warp, std::mem::take(set));
            }
        }
        self.arrived.fill(0);
        self.waiting_count = 0;
        self.arrived_count = 0;
        self.expected = 0;
    }

    /// Resets the barrier for the next block.
    pub(super) fn reset(&mut self) {
        *self = Barrier::default();
    }
}

fn add(sets: &mut Vec<LaneMask>, warp: usize, set: LaneMask) {
    if sets.len() <= warp {
        sets.resize(warp + 1, 0);
    }
    sets[warp] |= set;
}

/// Computes the results of the threads at `bar.red`.
pub(super) fn reduce<I: Iterator<Item = usize>>(
    threads: impl Fn() -> I,
    kind_of: impl Fn(usize) -> SyncKind,
    requests: &mut [Request],
) {
    let is_reduction = |&thread: &usize| {
        matches!(
            kind_of(thread),
            SyncKind::BarrierPopc | SyncKind::BarrierAnd | SyncKind::BarrierOr
        )
    };
    let (mut all, mut set) = (0_u64, 0_u64);
    for thread in threads().filter(is_reduction) {
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
