//! The workers of a launch: threads of the host that run its blocks.
//!
//! A loop that goes on by the size of the grid accesses a short run of memory in each iteration, far
//! from the one before. The runs of neighbouring blocks follow each other. A worker runs such blocks
//! in turn, each one step of the loop after the other's: together they read and write long runs,
//! which prefetchers follow.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::cluster::Cluster;
use super::fault::Fault;
use super::launch::{Kernel, Launch};
use super::pool::Pool;
use super::schedule::Outcome;
use crate::abi::FaultKind;
use crate::memory::MemoryError;

/// A launch that takes less than this runs on the launching thread: waking another
/// thread costs about as much.
const SHARE_AFTER: Duration = Duration::from_micros(10);

/// How often a worker that waits for memory looks for it.
const MEMORY_POLL: Duration = Duration::from_micros(50);

/// The threads of the blocks that run in turn: with 4 bytes for each, runs of 64 KiB.
const THREADS: u64 = 16384;
/// Blocks that a worker runs in turn, at most, and their shared and local memory in bytes.
const BLOCKS: u64 = 64;
const BYTES: u64 = 4 << 20;

/// A worker takes so many parts of its share of the blocks that are left.
const PARTS: u64 = 8;
/// The most blocks of a part where they may be suspended: so many are, if each waits for the one before
/// it.
const MAX_SUSPENDED: u64 = 256;

/// The number of blocks that a worker runs in turn; 1 if it runs them one after the other. A small grid
/// is shared by all workers.
fn blocks_in_turn(launch: &Launch<'_>) -> u64 {
    let kernel = launch.kernel.fastest();
    if !kernel.code.has_steps || launch.config.cluster_blocks() > 1 {
        return 1;
    }
    let share = launch.total / u64::from(launch.workers.max(1));
    let threads = u64::from(launch.threads.max(1));
    let shared = u64::from(kernel.shared_bytes) + u64::from(launch.config.shared_bytes);
    let bytes = shared + u64::from(kernel.local_bytes) * threads;
    let blocks = (THREADS / threads).min(BYTES / bytes.max(1));
    blocks.min(share).clamp(1, BLOCKS)
}

/// Has this worker's non-temporal stores done before others read what it has stored: nothing else
/// orders them.
fn drain_streams() {
    // SAFETY: each processor of this architecture has the instruction.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}

/// The workers of a launch.
pub(super) struct Workers<'a> {
    pool: &'a Pool,
    launch: &'a Launch<'a>,
    shared: Mutex<WorkerState<'a>>,
    /// How many workers wait for memory.
    short: AtomicU32,
}

#[derive(Default)]
struct WorkerState<'a> {
    /// Blocks that wait for other blocks, in the order in which they were suspended.
    waiting: VecDeque<Cluster<'a>>,
    /// The fault of the first faulting block in grid order.
    fault: Option<(u64, Fault)>,
}

impl<'a> Workers<'a> {
    pub(super) fn new(pool: &'a Pool, launch: &'a Launch<'a>) -> Workers<'a> {
        Workers {
            pool,
            launch,
            shared: Mutex::default(),
            short: AtomicU32::new(0),
        }
    }

    /// Runs all blocks of the launch; the fault of the first one in the grid that has one.
    pub(super) fn run(&self) -> Result<(), Box<Fault>> {
        let mut spare = None;
        if self.launch.total > 1 {
            // A small grid is done before another thread would start.
            let start = Instant::now();
            while start.elapsed() < SHARE_AFTER {
                let Some(index) = self.take(1) else { break };
                if !self.run_block(&mut spare, index, 0) {
                    break;
                }
            }
        }
        let stopped = self.launch.stop.load(Ordering::Relaxed);
        let left = if stopped {
            0
        } else {
            self.launch
                .total
                .saturating_sub(self.launch.next.load(Ordering::Relaxed))
        };
        let waiting = self.lock().waiting.len() as u64;
        let extra_workers = u32::try_from((left + waiting).saturating_sub(1)).unwrap_or(u32::MAX);
        let spare = Mutex::new(spare);
        self.pool.share(extra_workers, &|worker| {
            // This thread retains the block that it has already allocated.
            let retained = if worker == 0 {
                spare.lock().map_or(None, |mut spare| spare.take())
            } else {
                None
            };
            self.work(retained, worker);
            drain_streams();
        });
        match self.lock().fault.take() {
            Some((_, fault)) => Err(Box::new(fault)),
            None => Ok(()),
        }
    }

    /// Runs blocks until there are no more.
    fn work(&self, mut spare: Option<Cluster<'a>>, worker: u32) {
        let mut in_turn = Vec::new();
        while !self.launch.stop.load(Ordering::Relaxed) {
            let together = blocks_in_turn(self.launch);
            if together > 1 {
                if let Some(first) = self.take(together) {
                    let blocks = first..(first + together).min(self.launch.total);
                    // Its memory may be all that there is.
                    in_turn.extend(spare.take());
                    if !self.run_in_turn(&mut in_turn, blocks, worker) {
                        return;
                    }
                    continue;
                }
            } else if let Some(mut blocks) = self.take_part() {
                while let Some(index) = blocks.next() {
                    if self.launch.stop.load(Ordering::Relaxed)
                        || !self.run_block(&mut spare, index, worker)
                        || !self.run_others(&mut spare, &mut blocks, worker)
                    {
                        return;
                    }
                }
                continue;
            }
            in_turn.clear();
            if self.short.load(Ordering::Relaxed) > 0 {
                // What waits may wait for a block that has no memory.
                spare = None;
            }
            let Some(block) = self.lock().waiting.pop_front() else {
                return;
            };
            let mut block = Some(block);
            if !self.resume(&mut block, worker) {
                return;
            }
            spare = block.or(spare);
        }
    }

    /// Takes a part of the blocks that are left: many side by side at first, and fewer and fewer,
    /// so that all workers end at about the same time.
    fn take_part(&self) -> Option<Range<u64>> {
        let Launch { total, workers, .. } = *self.launch;
        let most = match self.launch.kernel.fastest().code.points.is_empty() {
            true => u64::MAX,
            false => MAX_SUSPENDED,
        };
        let part = |first: u64| {
            let left = total.saturating_sub(first);
            (left / (u64::from(workers.max(1)) * PARTS)).clamp(1, most)
        };
        let next = &self.launch.next;
        let mut first = next.load(Ordering::Relaxed);
        while first < total {
            let end = first + part(first);
            let taken =
                next.compare_exchange_weak(first, end, Ordering::Relaxed, Ordering::Relaxed);
            match taken {
                Ok(_) => return Some(first..end),
                Err(other) => first = other,
            }
        }
        None
    }

    /// Takes the next `count` blocks of the grid, and returns the first.
    fn take(&self, count: u64) -> Option<u64> {
        let first = self.launch.next.fetch_add(count, Ordering::Relaxed);
        (first < self.launch.total).then_some(first)
    }

    /// Runs a block from its start. Returns false if the launch must end.
    fn run_block(&self, spare: &mut Option<Cluster<'a>>, index: u64, worker: u32) -> bool {
        let kernel = self.launch.kernel.fastest();
        if spare.as_ref().is_some_and(|block| !block.runs(kernel)) {
            *spare = None;
        }
        // It stays where it is: moving it takes as long as what else starts it.
        let block = match spare {
            Some(block) => block,
            None => match self.allocate(kernel, index, worker) {
                Some(block) => spare.insert(block),
                None => return false,
            },
        };
        block.start(index, worker);
        self.resume(spare, worker)
    }

    /// The memory for a block. `None` if the launch must end.
    fn allocate(&self, kernel: &'a Kernel<'a>, index: u64, worker: u32) -> Option<Cluster<'a>> {
        let error = match Cluster::new(self.launch, kernel) {
            Ok(block) => return Some(block),
            Err(error) => error,
        };
        let Some(error) = error else {
            self.short.fetch_add(1, Ordering::Relaxed);
            let block = self.wait_for_memory(worker);
            self.short.fetch_sub(1, Ordering::Relaxed);
            return block.unwrap_or_else(|error| self.no_memory(index, &error));
        };
        self.no_memory(index, &error)
    }

    /// Goes on with blocks that wait until one is done, or others are.
    fn wait_for_memory(&self, worker: u32) -> Result<Option<Cluster<'a>>, MemoryError> {
        loop {
            let kernel = self.launch.kernel.fastest();
            match Cluster::new(self.launch, kernel) {
                Ok(block) => return Ok(Some(block)),
                Err(Some(error)) => return Err(error),
                Err(None) if self.launch.stop.load(Ordering::Relaxed) => return Ok(None),
                Err(None) => {}
            }
            let mut waiting = self.lock().waiting.pop_front();
            if waiting.is_none() {
                std::thread::sleep(MEMORY_POLL);
            } else if !self.resume(&mut waiting, worker) {
                return Ok(None);
            } else if waiting.as_ref().is_some_and(|block| block.runs(kernel)) {
                return Ok(waiting);
            }
        }
    }

    /// Runs blocks of a part from their starts with the arrays of the one before, as long as each is
    /// done. Returns false if the launch must end.
    fn run_others(
        &self,
        running: &mut Option<Cluster<'a>>,
        blocks: &mut Range<u64>,
        worker: u32,
    ) -> bool {
        match running {
            Some(block) => {
                let outcome = block.run_others(blocks, worker);
                self.ended(running, outcome)
            }
            None => true,
        }
    }

    /// Continues a block, which stays there when it is done. Returns false if the launch must end.
    fn resume(&self, running: &mut Option<Cluster<'a>>, worker: u32) -> bool {
        let Some(block) = running else { return true };
        let outcome = block.run(worker);
        self.ended(running, outcome)
    }

    /// What follows when a block has run. Returns false if the launch must end.
    fn ended(&self, running: &mut Option<Cluster<'a>>, outcome: Outcome) -> bool {
        match outcome {
            Outcome::Done => {}
            Outcome::Waiting | Outcome::AtClusterBarrier | Outcome::InLoop => {
                // Another worker may go on with it.
                drain_streams();
                self.lock().waiting.extend(running.take());
                std::thread::yield_now();
            }
            Outcome::Stopped => return false,
            Outcome::Faulted => {
                if let Some((index, fault)) = running.as_mut().and_then(Cluster::fault) {
                    self.fail(index, fault);
                }
                return false;
            }
        }
        true
    }

    fn no_memory(&self, index: u64, why: &MemoryError) -> Option<Cluster<'a>> {
        let threads = self.launch.threads;
        let what = format!("no memory for a block of {threads} threads: {why}");
        let block = self.launch.config.position(index, 0);
        let name = self.launch.kernel.fastest().name;
        let fault = Fault::plain(FaultKind::OutOfMemory, name, block, what);
        self.fail(self.launch.config.index(fault.block), fault);
        None
    }

    fn fail(&self, index: u64, fault: Fault) {
        self.launch.stop.store(true, Ordering::Relaxed);
        let mut shared = self.lock();
        if shared
            .fault
            .as_ref()
            .is_none_or(|(first, _)| index < *first)
        {
            shared.fault = Some((index, fault));
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, WorkerState<'a>> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs blocks in turn from their starts, and leaves those that are done in `spare`. Returns
    /// false if the launch must end.
    fn run_in_turn(
        &self,
        spare: &mut Vec<Cluster<'a>>,
        mut blocks: Range<u64>,
        worker: u32,
    ) -> bool {
        let kernel = self.launch.kernel.fastest();
        let mut running = Vec::new();
        spare.retain(|block| block.runs(kernel));
        while blocks.start < blocks.end {
            let block = match spare.pop() {
                Some(block) => Ok(block),
                None => Cluster::new(self.launch, kernel),
            };
            // Without memory for all, what is left runs alone, when these are done.
            let Ok(mut block) = block else { break };
            block.start(blocks.start, worker);
            block.take_turns(true);
            running.push(block);
            blocks.start += 1;
        }
        while !running.is_empty() {
            let mut at = 0;
            while at < running.len() {
                match running[at].run(worker) {
                    Outcome::InLoop => at += 1,
                    Outcome::Done => spare.push(running.remove(at)),
                    Outcome::Waiting | Outcome::AtClusterBarrier => {
                        let mut block = running.remove(at);
                        block.take_turns(false);
                        drain_streams();
                        self.lock().waiting.push_back(block);
                    }
                    Outcome::Stopped => return false,
                    Outcome::Faulted => {
                        running.truncate(at + 1);
                        self.fail_first(running, worker);
                        return false;
                    }
                }
            }
        }
        if blocks.is_empty() {
            return true;
        }
        let mut alone = spare.pop();
        spare.clear();
        blocks.all(|index| self.run_block(&mut alone, index, worker))
    }

    /// The last of these blocks has a fault. Where one in front of it would have, that is reported,
    /// as if they ran one after the other.
    fn fail_first(&self, mut blocks: Vec<Cluster<'a>>, worker: u32) {
        let last = blocks.len() - 1;
        for (number, block) in blocks.iter_mut().enumerate() {
            block.take_turns(false);
            if number == last || block.run(worker) == Outcome::Faulted {
                if let Some((index, fault)) = block.fault() {
                    self.fail(index, fault);
                }
                return;
            }
        }
    }
}
