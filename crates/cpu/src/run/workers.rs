//! The workers of a launch: threads of the host that run its blocks.

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

/// A worker takes so many parts of its share of the blocks that are left.
const PARTS: u64 = 8;
/// The most blocks of a part where they may be suspended: so many are, if each waits for the one before
/// it.
const MAX_SUSPENDED: u64 = 256;

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
                let Some(index) = self.take() else { break };
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
        });
        match self.lock().fault.take() {
            Some((_, fault)) => Err(Box::new(fault)),
            None => Ok(()),
        }
    }

    /// Runs blocks until there are no more.
    fn work(&self, mut spare: Option<Cluster<'a>>, worker: u32) {
        while !self.launch.stop.load(Ordering::Relaxed) {
            if let Some(mut blocks) = self.take_part() {
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
        let most = if self.launch.kernel.fastest().code.points.is_empty() {
            u64::MAX
        } else {
            MAX_SUSPENDED
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

    /// Takes the next block of the grid.
    fn take(&self) -> Option<u64> {
        let first = self.launch.next.fetch_add(1, Ordering::Relaxed);
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
            Outcome::Waiting | Outcome::AtClusterBarrier => {
                // Another worker may go on with it.
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
}
