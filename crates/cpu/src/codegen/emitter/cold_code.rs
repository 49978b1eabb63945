//! Blocks beside the way that code usually takes, such as what follows a check that fails.

use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::ir::{Block, InstBuilder};

use super::Emitter;

impl Emitter<'_, '_> {
    /// Starts a block to which only branches lead that were made already. Those of
    /// [`back_to`](Self::back_to) do not count.
    pub fn enter(&mut self, block: Block) {
        self.b.seal_block(block);
        self.b.switch_to_block(block);
    }

    /// A block by which cold code, which has written no register, returns to `block`. The builder
    /// does not know of that branch: otherwise it would look for the value of every variable on
    /// both ways.
    pub fn back_to(&mut self, block: Block) -> Block {
        let back = self.b.create_block();
        self.b.set_cold_block(back);
        let mut cursor = FuncCursor::new(self.b.func);
        cursor.insert_block(back);
        cursor.ins().jump(block, &[]);
        back
    }
}
