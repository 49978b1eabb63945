//! The limits of a multiprocessor, by target, and occupancy (CUDA C++ Programming
//! Guide, "Technical Specifications per Compute Capability" and "Arithmetic
//! Instructions"; the allocation of registers and shared memory is that of the
//! occupancy calculator).

use ptx::isa::target::Target;

/// Threads of a warp.
pub const WARP: u32 = 32;
/// The most threads of a block.
pub const MAX_THREADS: u32 = 1024;
/// The most registers of a thread.
pub const MAX_REGISTERS: u32 = 255;
/// The allocation unit of registers for a warp.
const REGISTER_UNIT: u32 = 256;
/// The allocation unit of warps: one for each scheduler.
const WARP_UNIT: u32 = 4;

/// The limits of one target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Multiprocessor {
    /// Compute capability times ten, the number of the target.
    pub number: u16,
    /// Warps that can be resident at once.
    pub warps: u32,
    /// Blocks that can be resident at once.
    pub blocks: u32,
    /// 32-bit registers.
    pub registers: u32,
    /// Bytes of shared memory.
    pub shared: u32,
    /// Bytes of shared memory reserved by the system for each block.
    pub reserved: u32,
    /// The allocation unit of shared memory in bytes.
    pub shared_unit: u32,
    /// The ratio of `f32` to `f64` throughput.
    pub double_rate: u32,
}

const K: u32 = 1024;

#[rustfmt::skip]
const TABLE: &[Multiprocessor] = &[
    row(70,  64, 32,  96, 0, 256,  2),
    row(75,  32, 16,  64, 0, 256, 32),
    row(80,  64, 32, 164, K, 128,  2),
    row(86,  48, 16, 100, K, 128, 64),
    row(87,  48, 16, 164, K, 128, 64),
    row(89,  48, 24, 100, K, 128, 64),
    row(90,  64, 32, 228, K, 128,  2),
    row(100, 64, 32, 228, K, 128,  2),
    row(120, 48, 24, 100, K, 128, 64),
    row(121, 48, 24, 100, K, 128, 64),
];

const fn row(
    number: u16,
    warps: u32,
    blocks: u32,
    shared: u32,
    reserved: u32,
    shared_unit: u32,
    double_rate: u32,
) -> Multiprocessor {
    Multiprocessor {
        number,
        warps,
        blocks,
        registers: 64 * K,
        shared: shared * K,
        reserved,
        shared_unit,
        double_rate,
    }
}

/// The resources of a thread block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockResources {
    /// Threads.
    pub threads: u32,
    /// 32-bit registers per thread; 0 if unknown.
    pub registers: u32,
    /// Bytes of shared memory.
    pub shared: u32,
}

/// The occupancy of a multiprocessor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Occupancy {
    /// Blocks that are resident at once.
    pub blocks: u32,
    /// Their warps.
    pub warps: u32,
    /// The most warps of the multiprocessor.
    pub of: u32,
    /// The resource that limits the number of blocks.
    pub limit: Limit,
}

impl Occupancy {
    /// In percent.
    pub fn percent(&self) -> u32 {
        self.warps * 100 / self.of.max(1)
    }
}

/// The resource that limits occupancy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The number of warps.
    Warps,
    /// The number of blocks.
    Blocks,
    /// Registers.
    Registers,
    /// Shared memory.
    Shared,
}

impl Multiprocessor {
    /// The limits of a target; `None` if they are not published.
    ///
    /// ```
    /// use ptxkit_lint::multiprocessor::Multiprocessor;
    /// use ptx::isa::target::Target;
    /// let hopper = Multiprocessor::of(Target::from_text("sm_90a").unwrap()).unwrap();
    /// assert_eq!((hopper.warps, hopper.shared), (64, 228 * 1024));
    /// ```
    pub fn of(target: Target) -> Option<&'static Multiprocessor> {
        TABLE.iter().find(|row| row.number == target.number)
    }

    /// The number of such blocks that are resident at once, and the limiting resource.
    ///
    /// ```
    /// use ptxkit_lint::multiprocessor::{BlockResources, Limit, Multiprocessor};
    /// use ptx::isa::target::Target;
    /// let hopper = Multiprocessor::of(Target::from_text("sm_90").unwrap()).unwrap();
    /// let block = BlockResources { threads: 256, registers: 128, shared: 0 };
    /// let occupancy = hopper.occupancy(&block);
    /// assert_eq!((occupancy.blocks, occupancy.percent()), (2, 25));
    /// assert_eq!(occupancy.limit, Limit::Registers);
    /// ```
    pub fn occupancy(&self, block: &BlockResources) -> Occupancy {
        let warps = block.threads.max(1).div_ceil(WARP);
        let mut blocks = self.warps / warps;
        let mut limit = Limit::Warps;
        let mut restrict = |most: u32, by: Limit| {
            if most < blocks {
                (blocks, limit) = (most, by);
            }
        };
        restrict(self.blocks, Limit::Blocks);
        if block.registers > 0 {
            let of_warp = (block.registers * WARP).next_multiple_of(REGISTER_UNIT);
            let most = self.registers / of_warp / WARP_UNIT * WARP_UNIT;
            restrict(most / warps, Limit::Registers);
        }
        let shared = block.shared.saturating_add(self.reserved);
        let shared = shared.checked_next_multiple_of(self.shared_unit);
        if let Some(shared) = shared.filter(|shared| *shared > 0) {
            restrict(self.shared / shared, Limit::Shared);
        }
        Occupancy {
            blocks,
            warps: blocks * warps,
            of: self.warps,
            limit,
        }
    }

    /// The maximum number of registers per thread for a block of this size.
    pub fn registers_for(&self, threads: u32) -> u32 {
        let warps = threads.max(1).div_ceil(WARP).next_multiple_of(WARP_UNIT);
        let of_warp = self.registers / warps / REGISTER_UNIT * REGISTER_UNIT;
        (of_warp / WARP).min(MAX_REGISTERS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(number: u16, threads: u32, registers: u32, shared: u32) -> Occupancy {
        let row = TABLE.iter().find(|row| row.number == number);
        let block = BlockResources {
            threads,
            registers,
            shared,
        };
        row.expect("a row").occupancy(&block)
    }

    #[test]
    fn occupancy_is_that_of_the_calculator() {
        let (full, half) = (of(90, 1024, 32, 0), of(90, 1024, 33, 0));
        assert_eq!((full.percent(), full.limit), (100, Limit::Warps));
        assert_eq!((half.percent(), half.limit), (50, Limit::Registers));
        assert_eq!(of(90, 32, 0, 0).limit, Limit::Blocks);
        // 48 KB and the 1 KB of the system: four blocks of 228 KB.
        let shared = of(90, 64, 0, 48 * K);
        assert_eq!((shared.blocks, shared.limit), (4, Limit::Shared));
        assert_eq!(of(75, 64, 0, 48 * K).blocks, 1);
        assert_eq!(of(86, 1024, 0, 0).percent(), 66);
        assert_eq!(of(90, 1024, 65, 0).blocks, 0);
    }

    #[test]
    fn registers_for_a_block_let_it_fit() {
        for row in TABLE {
            for threads in [32, 96, 256, 512, 768, 1024] {
                let registers = row.registers_for(threads);
                let mut block = BlockResources {
                    threads,
                    registers,
                    shared: 0,
                };
                assert!(row.occupancy(&block).blocks > 0, "{threads} {registers}");
                block.registers += 1;
                let fits = row.occupancy(&block).blocks > 0;
                assert!(registers == MAX_REGISTERS || !fits, "{threads} {registers}");
            }
        }
    }
}
