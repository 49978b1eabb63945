//! A cluster: its blocks share one host thread, on which they run in turn.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use super::fault::Fault;
use super::launch::{Kernel, Launch};
use super::schedule::Outcome;
use super::thread_block::ThreadBlock;
use crate::memory::MemoryError;

/// The blocks of a cluster that is running; of a launch without clusters, one. When it is
/// done, it can be started with another index.
pub(super) struct Cluster<'a> {
    kernel: &'a Kernel<'a>,
    blocks: Vec<ThreadBlock<'a>>,
    /// The addresses of their shared memory, to which several blocks point.
    _shared: Vec<u64>,
    /// Fields are dropped in their order: who finds none has found the memory free before.
    _counted: Counted<'a>,
}

/// One of the launch's [`clusters`](Launch::clusters).
struct Counted<'a>(&'a AtomicU64);

impl<'a> Counted<'a> {
    fn new(clusters: &'a AtomicU64) -> Counted<'a> {
        clusters.fetch_add(1, Ordering::AcqRel);
        Counted(clusters)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Release);
    }
}

impl<'a> Cluster<'a> {
    /// Allocates the memory of a cluster of the launch, which runs this code of its kernel. `Err(None)`
    /// if there is none now: another cluster of this launch will free some.
    pub(super) fn new(
        launch: &'a Launch<'a>,
        kernel: &'a Kernel<'a>,
    ) -> Result<Cluster<'a>, Option<MemoryError>> {
        let counted = Counted::new(&launch.clusters);
        let allocate = || {
            let new = |_| ThreadBlock::new(launch, kernel);
            let mut blocks: Vec<_> = (0..launch.config.cluster_blocks()).map(new).collect();
            blocks.iter_mut().try_for_each(ThreadBlock::allocate)?;
            Ok(blocks)
        };
        let is_alone = || launch.clusters.load(Ordering::Acquire) == 1;
        // Another one may have been there when the first attempt failed.
        let again = |error| {
            if is_alone() {
                allocate().map_err(Some)
            } else {
                Err(Some(error))
            }
        };
        let allocated = allocate().or_else(again);
        let mut blocks = allocated.map_err(|error| error.filter(|_| is_alone()))?;
        let mut shared = Vec::new();
        if let [block] = blocks.as_mut_slice() {
            block.be_alone();
        } else {
            shared.extend(blocks.iter().map(ThreadBlock::shared));
            for (rank, block) in (0..).zip(&mut blocks) {
                block.join(rank, &shared);
            }
        }
        Ok(Cluster {
            kernel,
            blocks,
            _shared: shared,
            _counted: counted,
        })
    }

    /// Whether it runs this code.
    pub(super) fn runs(&self, kernel: &Kernel<'_>) -> bool {
        std::ptr::eq(self.kernel, kernel)
    }

    /// Resets it to the start of cluster `index` of the grid.
    pub(super) fn start(&mut self, index: u64, worker: u32) {
        for block in &mut self.blocks {
            block.start(index, worker);
        }
    }

    /// Runs others from their starts, in the arrays of the one that is done, as long as each is done
    /// and there is no better code.
    pub(super) fn run_others(&mut self, others: &mut Range<u64>, worker: u32) -> Outcome {
        let [block] = self.blocks.as_mut_slice() else {
            return Outcome::Done;
        };
        if !block.is_done() {
            return Outcome::Done;
        }
        match block.run_others(others, worker) {
            // Its cluster has no other block.
            Outcome::AtClusterBarrier => self.run(worker),
            outcome => outcome,
        }
    }

    /// Runs the blocks until they are done or wait for others.
    pub(super) fn run(&mut self, worker: u32) -> Outcome {
        loop {
            let (mut waits, mut at_barrier) = (false, false);
            for block in self.blocks.iter_mut().filter(|block| !block.is_done()) {
                match block.run(worker) {
                    Outcome::Done => {}
                    Outcome::Waiting => waits = true,
                    Outcome::AtClusterBarrier => at_barrier = true,
                    ended @ (Outcome::Faulted | Outcome::Stopped) => return ended,
                }
            }
            if !waits && !at_barrier {
                return Outcome::Done;
            }
            if self.blocks.iter().all(ThreadBlock::has_arrived) {
                for block in &mut self.blocks {
                    block.release_cluster_barrier();
                }
            } else if waits {
                return Outcome::Waiting;
            } else {
                // What the blocks wait for, none of them can do.
                if let Some(block) = self.blocks.iter_mut().find(|block| !block.is_done()) {
                    block.deadlock();
                }
                return Outcome::Faulted;
            }
        }
    }

    /// The fault of one of its blocks, and the block's number in the grid.
    pub(super) fn fault(&mut self) -> Option<(u64, Fault)> {
        let block = self.blocks.iter_mut().find(|block| block.has_fault())?;
        Some((block.index(), block.fault()))
    }
}
