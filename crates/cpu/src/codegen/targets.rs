//! Which of Cranelift's blocks a branch goes to.

use cranelift_codegen::ir::Block;

use crate::program::BlockId;

/// Cranelift's blocks for those of the kernel.
pub(super) struct Targets<'t> {
    pub blocks: &'t [Block],
    /// Copies of some.
    pub copies: &'t [(BlockId, Block)],
}

impl Targets<'_> {
    pub fn of(&self, block: BlockId) -> Block {
        let copy = self.copies.iter().find(|(original, _)| *original == block);
        copy.map_or(self.blocks[block.index()], |(_, copy)| *copy)
    }
}
