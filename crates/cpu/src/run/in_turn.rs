//! Blocks that run the loops of a grid in turn, each one step after the other block's.
//!
//! A loop that goes on by the size of the grid accesses a short run of memory in each iteration, far
//! from the one before. The runs of neighbouring blocks follow each other, so that the blocks of a
//! worker together read and write long ones, which prefetchers follow.

use std::ops::Range;

use super::cluster::Cluster;
use super::schedule::Outcome;
use super::{Launch, Workers};

/// The threads of the blocks that run in turn: with 4 bytes for each, runs of 16 KiB.
const THREADS: u64 = 4096;
/// Blocks that a worker runs in turn, at most.
const BLOCKS: u64 = 64;

/// The number of blocks that a worker runs in turn; 1 if it runs them one after the other.
pub(super) fn blocks(launch: &Launch<'_>) -> u64 {
    match launch.kernel.fastest().code.has_steps && launch.config.cluster_blocks() == 1 {
        true => (THREADS / u64::from(launch.threads.max(1))).clamp(1, BLOCKS),
        false => 1,
    }
}

impl<'a> Workers<'a> {
    /// Runs blocks in turn from their starts, and leaves those that are done in `spare`. Returns
    /// false if the launch must end.
    pub(super) fn run_in_turn(
        &self,
        spare: &mut Vec<Cluster<'a>>,
        blocks: Range<u64>,
        worker: u32,
    ) -> bool {
        let kernel = self.launch.kernel.fastest();
        let mut running = Vec::new();
        for index in blocks {
            spare.retain(|block| block.runs(kernel));
            let block = match spare.pop() {
                Some(block) => Ok(block),
                None => Cluster::new(self.launch, kernel),
            };
            match block {
                Ok(mut block) => {
                    block.start(index, worker);
                    block.take_turns(true);
                    running.push(block);
                }
                // Without memory for all, what is left runs alone.
                Err(_) => {
                    if !self.run_block(&mut None, index, worker) {
                        return false;
                    }
                }
            }
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
        true
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
