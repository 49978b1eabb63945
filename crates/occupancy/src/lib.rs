//! Occupancy: how many blocks of a kernel a multiprocessor holds at once, and what limits
//! their number.
//!
//! The calculation is that of the driver's `cuOccupancyMaxActiveBlocksPerMultiprocessor`,
//! for every target and without a GPU. A block gets all its resources when it starts, in
//! units of the hardware:
//!
//! - *warps*: its threads, in warps of 32;
//! - *registers*: for each warp a multiple of 256, within one of the parts of the register
//!   file;
//! - *shared memory*: static, dynamic and what the system reserves, rounded up;
//! - *barriers*: those that its instructions name, from sm_90 on;
//! - one of the places for *blocks*.
//!
//! The scarcest of them limits the number of blocks.
//!
//! ```
//! use ptxkit_occupancy::{BlockResources, Limit, Multiprocessor};
//!
//! let hopper = Multiprocessor::of(90).unwrap();
//! let block = BlockResources { threads: 256, registers: 34, ..BlockResources::default() };
//! let occupancy = hopper.occupancy(&block);
//! assert_eq!((occupancy.blocks, occupancy.warps, occupancy.percent()), (6, 48, 75));
//! assert_eq!(occupancy.limit(), Limit::Registers);
//!
//! // What to change for one block more.
//! let step = hopper.next_block(&block).unwrap();
//! assert_eq!((step.block.registers, step.occupancy.blocks), (32, 8));
//! ```
//!
//! [`Throughput`] has what a multiprocessor computes in a clock cycle.
//!
//! [`Multiprocessor::clusters`] counts clusters; [`gpcs`] finds out what that depends on beside
//! the target, which is the multiprocessors of each GPC of the device. Kernels for sm_52 to sm_62 that are compiled
//! to cache global loads in L1 (`-dlcm=ca`) are calculated as without.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod cluster;
mod curve;
mod multiprocessor;
mod step;
mod throughput;

pub use cluster::{BLOCKS_IN_CLUSTERS, MAX_CLUSTER, PORTABLE_CLUSTER, gpcs};
pub use curve::{Axis, Point};
pub use multiprocessor::Multiprocessor;
pub use step::Step;
pub use throughput::Throughput;

/// Threads of a warp.
pub const WARP: u32 = 32;
/// The most threads of a block.
pub const MAX_THREADS: u32 = 1024;
/// The most registers of a thread.
pub const MAX_REGISTERS: u32 = 255;
/// The most barriers of a block.
pub const MAX_BARRIERS: u32 = 16;
/// The allocation unit of registers for a warp.
const REGISTER_UNIT: u32 = 256;

/// The resources of a thread block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockResources {
    /// Threads; 0 counts as 1.
    pub threads: u32,
    /// 32-bit registers of each thread; 0 if unknown, which is then no limit.
    pub registers: u32,
    /// Bytes of static and dynamic shared memory, without what the system reserves.
    pub shared: u32,
    /// Barriers, as `bar.sync` names them: the highest number and one.
    pub barriers: u32,
    /// The percentage of the on-chip memory that the kernel prefers as shared memory
    /// (`CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT`); `None` without a preference.
    pub carveout: Option<u32>,
}

impl BlockResources {
    /// The warps of the block.
    pub fn warps(&self) -> u32 {
        self.threads.max(1).div_ceil(WARP)
    }
}

/// A resource that limits occupancy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Limit {
    /// The number of warps.
    Warps,
    /// The number of blocks.
    Blocks,
    /// Registers.
    Registers,
    /// Shared memory.
    Shared,
    /// Barriers.
    Barriers,
}

/// The occupancy of a multiprocessor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Occupancy {
    /// Blocks that are resident at once; 0 if one alone does not fit.
    pub blocks: u32,
    /// Their warps.
    pub warps: u32,
    /// The most warps of the multiprocessor.
    pub of: u32,
    /// How many blocks each resource has room for; `None` where the block needs none of it.
    pub room: [(Limit, Option<u32>); 5],
}

impl Occupancy {
    /// Resident warps in percent of the most, rounded down.
    pub fn percent(&self) -> u32 {
        self.warps * 100 / self.of.max(1)
    }

    /// The resource that limits the number of blocks: the first, if several do.
    pub fn limit(&self) -> Limit {
        self.limits().next().unwrap_or(Limit::Warps)
    }

    /// All resources that limit the number of blocks.
    ///
    /// ```
    /// use ptxkit_occupancy::{BlockResources, Limit, Multiprocessor};
    ///
    /// let block = BlockResources { threads: 1024, registers: 64, ..BlockResources::default() };
    /// let occupancy = Multiprocessor::of(89).unwrap().occupancy(&block);
    /// assert!(occupancy.limits().eq([Limit::Warps, Limit::Registers]));
    /// ```
    pub fn limits(&self) -> impl Iterator<Item = Limit> {
        let limiting = |(limit, blocks)| (blocks == Some(self.blocks)).then_some(limit);
        self.room.into_iter().filter_map(limiting)
    }
}

impl Multiprocessor {
    /// How many such blocks are resident at once
    /// (`cuOccupancyMaxActiveBlocksPerMultiprocessor`).
    ///
    /// ```
    /// use ptxkit_occupancy::{BlockResources, Limit, Multiprocessor};
    ///
    /// let block = BlockResources { threads: 256, registers: 128, ..BlockResources::default() };
    /// let occupancy = Multiprocessor::of(90).unwrap().occupancy(&block);
    /// assert_eq!((occupancy.blocks, occupancy.percent()), (2, 25));
    /// assert_eq!(occupancy.limit(), Limit::Registers);
    /// ```
    pub fn occupancy(&self, block: &BlockResources) -> Occupancy {
        let room = [
            (Limit::Warps, Some(self.by_warps(block))),
            (Limit::Blocks, Some(self.blocks)),
            (Limit::Registers, self.by_registers(block)),
            (Limit::Shared, self.by_shared(block)),
            (Limit::Barriers, self.by_barriers(block)),
        ];
        let blocks = room.iter().filter_map(|(_, blocks)| *blocks).min();
        let blocks = blocks.unwrap_or(0);
        Occupancy {
            blocks,
            warps: blocks * block.warps(),
            of: self.warps,
            room,
        }
    }

    fn by_warps(&self, block: &BlockResources) -> u32 {
        if block.threads <= MAX_THREADS {
            self.warps / block.warps()
        } else {
            0
        }
    }

    fn by_registers(&self, block: &BlockResources) -> Option<u32> {
        if block.registers == 0 {
            return None;
        }
        if block.registers > MAX_REGISTERS || block.threads > MAX_THREADS {
            return Some(0);
        }
        let of_warp = (block.registers * WARP).next_multiple_of(REGISTER_UNIT);
        let blocks = |partitions: u32| {
            // The hardware checks a block as if each part had as many of its warps.
            let checked = of_warp * block.warps().next_multiple_of(partitions);
            let resident = self.registers / partitions / of_warp * partitions;
            if checked <= self.registers_of_block {
                resident / block.warps()
            } else {
                0
            }
        };
        // A kernel that fits no other processor of Pascal does not start on sm_60 either,
        // whose register file has fewer parts.
        let is_portable = self.partitions == 4 || blocks(4) > 0;
        Some(if is_portable {
            blocks(self.partitions)
        } else {
            0
        })
    }

    fn by_shared(&self, block: &BlockResources) -> Option<u32> {
        if block.shared > self.shared_of_block {
            return Some(0);
        }
        let allocated = (block.shared + self.reserved).next_multiple_of(self.shared_unit);
        match allocated {
            0 => None,
            _ if allocated > self.shared_of_block + self.reserved => Some(0),
            _ => Some(self.carved(block.carveout, allocated) / allocated),
        }
    }

    fn by_barriers(&self, block: &BlockResources) -> Option<u32> {
        match block.barriers {
            0 => None,
            1..=MAX_BARRIERS => Some(self.barriers? / block.barriers),
            _ => Some(0),
        }
    }
}

#[cfg(test)]
mod tests;
