//! Accesses of lane groups to shared memory that are checked together, before they are made.

use super::block_check::{self, BlockCheck};
use super::counted_loop::{self, CountedLoop};
use crate::program::{BlockId, Program, Terminator, UniformityInfo};

#[derive(Default)]
pub(super) struct CheckedTogether {
    /// Loops, before they start.
    pub loops: Vec<CountedLoop>,
    /// By block, at its start.
    pub blocks: Vec<Vec<BlockCheck>>,
}

impl CheckedTogether {
    /// Those of a block.
    pub fn blocks_of(&self, block: BlockId) -> &[BlockCheck] {
        let checks = self.blocks.get(block.index());
        checks.map_or(&[], Vec::as_slice)
    }

    /// Those of a kernel with sync points: its groups have the slots that it takes to resume.
    pub fn find(
        program: &Program<'_>,
        uniformity: &UniformityInfo,
        has_fma: bool,
    ) -> CheckedTogether {
        let synchronizes = |terminator: &Terminator| matches!(terminator, Terminator::Sync { .. });
        let mut blocks = program.blocks.iter();
        if !blocks.any(|block| synchronizes(&block.terminator)) {
            return CheckedTogether::default();
        }
        let loops = counted_loop::find(program, uniformity, has_fma);
        let mut blocks = block_check::find(program, uniformity, has_fma);
        for block in loops.iter().flat_map(|counted| &counted.blocks) {
            blocks[block.index()].clear();
        }
        CheckedTogether { loops, blocks }
    }
}
