//! What to change for a higher occupancy.

use crate::{
    Axis, BlockResources, Limit, MAX_REGISTERS, MAX_THREADS, Multiprocessor, Occupancy, WARP,
};

/// A change of a block's resources, and the occupancy after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Step {
    /// The resources after the change.
    pub block: BlockResources,
    /// The occupancy after the change.
    pub occupancy: Occupancy,
}

impl Multiprocessor {
    fn step(&self, block: BlockResources) -> Step {
        Step {
            block,
            occupancy: self.occupancy(&block),
        }
    }

    /// The least reduction of registers, shared memory and barriers after which more blocks of
    /// the same size are resident; a preferred carveout that is in the way is dropped. `None`
    /// where no reduction is enough.
    ///
    /// ```
    /// use ptxkit_occupancy::{BlockResources, Multiprocessor};
    ///
    /// let ampere = Multiprocessor::of(80).unwrap();
    /// let block = BlockResources {
    ///     threads: 256,
    ///     registers: 90,
    ///     shared: 60 << 10,
    ///     ..BlockResources::default()
    /// };
    /// assert_eq!(ampere.occupancy(&block).blocks, 2);
    /// // Both of them allow two blocks only.
    /// let next = ampere.next_block(&block).unwrap();
    /// assert_eq!((next.block.registers, next.block.shared), (80, 54_912));
    /// assert_eq!(next.occupancy.blocks, 3);
    /// ```
    pub fn next_block(&self, block: &BlockResources) -> Option<Step> {
        let wanted = self.occupancy(block).blocks + 1;
        let mut changed = *block;
        for (limit, room) in self.occupancy(block).room {
            if room.is_none_or(|blocks| blocks >= wanted) {
                continue;
            }
            match limit {
                Limit::Warps | Limit::Blocks => return None,
                Limit::Registers => {
                    let most = self.registers_for(block.threads, wanted)?;
                    changed.registers = most.min(block.registers);
                }
                Limit::Shared => {
                    changed.carveout = None;
                    changed.shared = self.shared_for(&changed, wanted)?.min(block.shared);
                }
                Limit::Barriers => {
                    changed.barriers = self.barriers? / wanted;
                    if changed.barriers == 0 {
                        return None;
                    }
                }
            }
        }
        let step = self.step(changed);
        (step.occupancy.blocks >= wanted).then_some(step)
    }

    /// The smaller and the larger block size, nearest to that of the block, with which more
    /// warps are resident.
    ///
    /// ```
    /// use ptxkit_occupancy::{BlockResources, Multiprocessor};
    ///
    /// let ada = Multiprocessor::of(89).unwrap();
    /// let block = BlockResources { threads: 1024, ..BlockResources::default() };
    /// let [smaller, larger] = ada.other_sizes(&block);
    /// assert_eq!(smaller.unwrap().block.threads, 768);
    /// assert_eq!(smaller.unwrap().occupancy.warps, 48);
    /// assert!(larger.is_none());
    /// ```
    pub fn other_sizes(&self, block: &BlockResources) -> [Option<Step>; 2] {
        let now = self.occupancy(block).warps;
        let better = |warps: u32| {
            let step = self.step(Axis::Threads.with(warps * WARP, block));
            (step.occupancy.warps > now).then_some(step)
        };
        let warps = block.warps();
        let most = MAX_THREADS / WARP;
        [
            (1..warps.min(most + 1)).rev().find_map(better),
            (warps + 1..=most).find_map(better),
        ]
    }

    /// The most registers of a thread, and the most bytes of shared memory of a block, with
    /// which as many blocks stay resident: what the kernel can use more at no cost. Each is
    /// for itself. Where no block fits, what the block has.
    ///
    /// ```
    /// use ptxkit_occupancy::{BlockResources, Multiprocessor};
    ///
    /// let hopper = Multiprocessor::of(90).unwrap();
    /// let block = BlockResources { threads: 256, registers: 20, ..BlockResources::default() };
    /// let most = hopper.most(&block);
    /// assert_eq!((most.registers, most.shared), (32, (27 << 10) + 512));
    /// ```
    #[must_use]
    pub fn most(&self, block: &BlockResources) -> BlockResources {
        let blocks = self.occupancy(block).blocks;
        if blocks == 0 {
            return *block;
        }
        let registers = self.registers_for(block.threads, blocks);
        let shared = self.shared_for(block, blocks);
        BlockResources {
            registers: registers.unwrap_or(block.registers),
            shared: shared.unwrap_or(0).max(block.shared),
            ..*block
        }
    }

    /// The most registers of a thread with which the register file has room for so many blocks
    /// of this size; `None` if it has none at all.
    ///
    /// ```
    /// let hopper = ptxkit_occupancy::Multiprocessor::of(90).unwrap();
    /// assert_eq!(hopper.registers_for(1024, 1), Some(64));
    /// assert_eq!(hopper.registers_for(1024, 2), Some(32));
    /// ```
    pub fn registers_for(&self, threads: u32, blocks: u32) -> Option<u32> {
        let fits = |registers: &u32| {
            let block = BlockResources {
                threads,
                registers: *registers,
                ..BlockResources::default()
            };
            self.by_registers(&block).is_none_or(|room| room >= blocks)
        };
        (1..=MAX_REGISTERS).rev().find(fits)
    }

    /// The most bytes of shared memory, static and dynamic, with which so many such blocks have
    /// room in shared memory; `None` if they have none at all.
    ///
    /// ```
    /// use ptxkit_occupancy::{BlockResources, Multiprocessor};
    ///
    /// let hopper = Multiprocessor::of(90).unwrap();
    /// let block = BlockResources { threads: 128, ..BlockResources::default() };
    /// assert_eq!(hopper.shared_for(&block, 1), Some(227 << 10));
    /// assert_eq!(hopper.shared_for(&block, 2), Some(113 << 10));
    /// ```
    pub fn shared_for(&self, block: &BlockResources, blocks: u32) -> Option<u32> {
        let fits = |bytes: &u32| {
            let room = self.by_shared(&Axis::Shared.with(*bytes, block));
            room.is_none_or(|room| room >= blocks)
        };
        // The last byte of each allocation unit.
        let units = (self.shared_of_block + self.reserved) / self.shared_unit;
        let ends = (0..=units).rev().map(|unit| unit * self.shared_unit);
        ends.filter_map(|end| end.checked_sub(self.reserved))
            .find(fits)
    }
}
