//! Checks that are asked for: reads of memory that nobody wrote, and data races
//! (`PTXKIT_CPU_CHECK`).
//!
//! Compiled code tells of each access. Two accesses of one word race if they are of different
//! threads, one of them is a write that is neither atomic nor volatile, and nothing orders
//! them: no barrier that both threads meet at, and no fences of both. Vector clocks say what
//! is ordered, so the order in which this device happens to run the threads hides nothing.
//!
//! What is taken as ordered though it may not be: all fences of a block, and blocks that have
//! both executed a fence. A write of the value that is there already is no race, nor is a plain
//! read beside atomic writes, with which loops around `atom.cas` begin. So what is reported is
//! a race, and races that hide behind fences are not found. Accesses by textures,
//! bulk copies and instructions on matrices are not checked for races.

mod checks;
mod clocks;
pub(crate) mod fresh;
mod shadow;

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use clocks::Clocks;
use shadow::{Shadow, Stamp, WORD, Written};

pub use checks::{Checks, ChecksInUse};
pub(crate) use clocks::Arrived;

/// What the blocks of a launch share.
#[derive(Debug)]
pub(crate) struct LaunchSanitizer {
    checks: Checks,
    shared: Mutex<Global>,
}

#[derive(Debug, Default)]
struct Global {
    shadow: Shadow,
    /// Blocks that have executed a fence.
    fenced: HashSet<u64>,
}

impl LaunchSanitizer {
    /// `None` where no checks are asked for.
    pub(crate) fn new(checks: Checks) -> Option<LaunchSanitizer> {
        checks.any().then(|| LaunchSanitizer {
            checks,
            shared: Mutex::default(),
        })
    }

    fn global(&self) -> MutexGuard<'_, Global> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A range of addresses of the host.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Range {
    pub start: u64,
    pub length: u64,
}

impl Range {
    fn contains(self, address: u64) -> bool {
        address.wrapping_sub(self.start) < self.length
    }
}

/// An access of a thread to an address of the host.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Observed {
    pub thread: u32,
    pub address: u64,
    pub size: u32,
    pub line: u32,
    /// One or both of these.
    pub reads: bool,
    pub writes: bool,
    /// An atomic operation, or one that other threads may observe while it is made.
    pub strong: bool,
    /// It acquires or releases what other threads do, as a fence.
    pub synchronizes: bool,
}

/// What a sanitizer found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finding {
    Uninitialised,
    /// The access that this one races with, and whether that wrote.
    Race(Earlier, bool),
}

/// An access before the one that is told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Earlier {
    pub block: u64,
    pub thread: u32,
    pub line: u32,
}

/// The state of a block.
#[derive(Debug)]
pub(crate) struct BlockSanitizer {
    /// Its number in the grid.
    block: u64,
    epoch: u32,
    clocks: Clocks,
    /// Device memory, of which the rest is global.
    arena: Range,
    shared_written: Written,
    local_written: Written,
    shared: Shadow,
    pub(crate) found: Option<Finding>,
}

impl BlockSanitizer {
    /// For blocks of so many threads, whose memory lies there.
    pub(crate) fn new(threads: u32, arena: Range, shared: Range, local: Range) -> BlockSanitizer {
        BlockSanitizer {
            block: 0,
            epoch: 0,
            clocks: Clocks::new(threads),
            arena,
            shared_written: Written::none(shared.start, shared.length),
            local_written: Written::none(local.start, local.length),
            shared: Shadow::default(),
            found: None,
        }
    }

    /// Begins with a block of the grid.
    pub(crate) fn start(&mut self, block: u64) {
        self.block = block;
        self.meet_all();
        self.epoch = 0;
        self.shared.clear();
        self.shared_written.clear();
        self.local_written.clear();
        self.found = None;
    }

    /// All threads of the block have met.
    pub(crate) fn meet_all(&mut self) {
        self.epoch += 1;
        self.clocks.reset();
    }

    /// These threads have met. Those that did not wait have gone on before.
    pub(crate) fn meet(&mut self, threads: &[Arrived]) {
        self.clocks.meet(threads);
    }

    /// A fence, or an access that acquires or releases.
    pub(crate) fn fence(&mut self, launch: &LaunchSanitizer, thread: u32) {
        self.clocks.fence(thread);
        launch.global().fenced.insert(self.block);
    }

    /// The device itself writes there for the kernel.
    pub(crate) fn wrote(&mut self, address: u64, size: u32) {
        self.shared_written.write(address, size.into());
        self.local_written.write(address, size.into());
        fresh::wrote(address, size.into());
    }

    /// An access that was made, or that will be if it reads. `word` reads a word of device
    /// memory.
    pub(crate) fn observe(
        &mut self,
        launch: &LaunchSanitizer,
        access: Observed,
        word: impl Fn(u64) -> u32,
    ) -> Option<Finding> {
        let size = access.size;
        if access.synchronizes {
            self.fence(launch, access.thread);
        }
        if launch.checks.init {
            let all = [&self.shared_written, &self.local_written];
            let (address, bytes) = (access.address, u64::from(size));
            let is_written = |written: &Written| written.is_written(address, bytes);
            let is_read = access.reads;
            if is_read && !(all.into_iter().all(is_written) && fresh::is_written(address, bytes)) {
                return self.find(Finding::Uninitialised);
            }
            if access.writes {
                self.wrote(access.address, size);
            }
        }
        let is_private = self.local_written.contains(access.address);
        if !launch.checks.race || is_private || !self.arena.contains(access.address) {
            return None;
        }
        let end = access.address + u64::from(size);
        let mut at = access.address;
        while at < end {
            let start = at - at % WORD;
            let next = end.min(start + WORD);
            let bytes = (at..next).fold(0, |bytes, byte| bytes | 1 << (byte - start));
            if let Some(found) = self.access_word(launch, access, start, bytes, &word) {
                return self.find(found);
            }
            at = next;
        }
        None
    }

    fn find(&mut self, found: Finding) -> Option<Finding> {
        self.found = Some(found);
        self.found
    }

    fn access_word(
        &mut self,
        launch: &LaunchSanitizer,
        access: Observed,
        address: u64,
        bytes: u8,
        word: impl Fn(u64) -> u32,
    ) -> Option<Finding> {
        let now = Stamp {
            bytes,
            strong: access.strong,
            thread: access.thread,
            block: self.block,
            epoch: self.epoch,
            time: self.clocks.now(access.thread),
            line: access.line,
        };
        let (block, epoch, clocks) = (self.block, self.epoch, &self.clocks);
        let mut guard = None;
        let (cell, fenced) = if self.shared_written.contains(address) {
            (self.shared.cell(address), None)
        } else {
            let global = &mut **guard.insert(launch.global());
            (global.shadow.cell(address), Some(&global.fenced))
        };
        let is_ordered = |earlier: &Stamp| {
            if earlier.block == block {
                earlier.thread == now.thread
                    || earlier.epoch < epoch
                    || clocks.is_before(earlier.thread, earlier.time, now.thread)
            } else {
                fenced.is_none_or(|fenced| {
                    [earlier.block, block]
                        .iter()
                        .all(|one| fenced.contains(one))
                })
            }
        };
        let is_write = access.writes;
        let value = if is_write { word(address) } else { 0 };
        let races = cell.before(bytes, is_write).find(|(earlier, wrote)| {
            let same_value = is_write && *wrote && differing(value, cell.value) & bytes == 0;
            let plain_write = *wrote && !earlier.strong || is_write && !now.strong;
            plain_write && !same_value && !is_ordered(earlier)
        });
        if is_write {
            cell.written(now, value)
        } else {
            cell.read(now)
        }
        races.map(|(earlier, wrote)| {
            let Stamp {
                block,
                thread,
                line,
                ..
            } = earlier;
            let earlier = Earlier {
                block,
                thread,
                line,
            };
            Finding::Race(earlier, wrote)
        })
    }
}

/// The bytes in which two words differ, a bit each.
fn differing(a: u32, b: u32) -> u8 {
    let pairs = a.to_le_bytes().into_iter().zip(b.to_le_bytes()).enumerate();
    pairs.fold(0, |bits, (n, (a, b))| bits | u8::from(a != b) << n)
}

#[cfg(test)]
mod tests;
