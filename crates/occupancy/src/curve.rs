//! Occupancy as a function of one resource.

use crate::{BlockResources, MAX_REGISTERS, MAX_THREADS, Multiprocessor, Occupancy, WARP};

/// The resource that a curve varies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Axis {
    /// Threads of a block: 1 to 1024.
    Threads,
    /// Registers of a thread: 1 to 255.
    Registers,
    /// Bytes of shared memory of a block: 0 to the most that a kernel can opt in to.
    Shared,
}

/// A step of a curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Point {
    /// Its first value on the axis. It ends before the next step.
    pub from: u32,
    /// The occupancy within it.
    pub occupancy: Occupancy,
}

impl Axis {
    /// All axes.
    pub const ALL: [Axis; 3] = [Axis::Threads, Axis::Registers, Axis::Shared];

    /// The value of a block on the axis.
    pub fn of(self, block: &BlockResources) -> u32 {
        match self {
            Axis::Threads => block.threads,
            Axis::Registers => block.registers,
            Axis::Shared => block.shared,
        }
    }

    /// The same block with another value on the axis.
    #[must_use]
    pub fn with(self, value: u32, block: &BlockResources) -> BlockResources {
        let mut block = *block;
        match self {
            Axis::Threads => block.threads = value,
            Axis::Registers => block.registers = value,
            Axis::Shared => block.shared = value,
        }
        block
    }
}

impl Multiprocessor {
    /// The last value of an axis.
    pub fn end(&self, axis: Axis) -> u32 {
        match axis {
            Axis::Threads => MAX_THREADS,
            Axis::Registers => MAX_REGISTERS,
            Axis::Shared => self.shared_of_block,
        }
    }

    /// The occupancy over one resource, while the block keeps the others: steps in
    /// ascending order, of which neighbours differ in blocks or warps.
    ///
    /// ```
    /// use ptxkit_occupancy::{Axis, BlockResources, Multiprocessor};
    ///
    /// let block = BlockResources { threads: 512, ..BlockResources::default() };
    /// let curve = Multiprocessor::of(90).unwrap().curve(Axis::Registers, &block);
    /// let steps: Vec<_> = curve.iter().map(|step| (step.from, step.occupancy.blocks)).collect();
    /// assert_eq!(steps, [(1, 4), (33, 3), (41, 2), (65, 1), (129, 0)]);
    /// ```
    pub fn curve(&self, axis: Axis, block: &BlockResources) -> Vec<Point> {
        // The values of one allocation unit have the same occupancy; here is the first of each.
        let (first, unit) = match axis {
            Axis::Threads => (1, WARP),
            // 256 registers of a warp.
            Axis::Registers => (1, 8),
            Axis::Shared => (0, self.shared_unit),
        };
        let mut curve: Vec<Point> = Vec::new();
        let (mut from, end) = (first, self.end(axis));
        while from <= end {
            let occupancy = self.occupancy(&axis.with(from, block));
            let of = |occupancy: &Occupancy| (occupancy.blocks, occupancy.warps);
            if curve
                .last()
                .is_none_or(|last| of(&last.occupancy) != of(&occupancy))
            {
                curve.push(Point { from, occupancy });
            }
            // Of shared memory, 0 bytes are a unit of their own.
            from = match from {
                0 => 1,
                _ => from + unit,
            };
        }
        curve
    }
}
