//! The integer constants that a block has last used. First code takes them again: it has no optimizer that
//! would find them.

use cranelift_codegen::ir::{Block, Value};

/// How many constants, each in the place that its lowest bits say.
const COUNT: usize = 16;

/// Of each, its block, the number and the value.
#[derive(Default)]
pub(in crate::codegen) struct RecentConstants([Option<(Block, i64, Value)>; COUNT]);

impl RecentConstants {
    /// The value, of any type, that was noted last for this number in this block.
    pub fn find(&self, block: Block, number: i64) -> Option<Value> {
        let (of, known, value) = self.0[place(number)]?;
        ((of, known) == (block, number)).then_some(value)
    }

    pub fn note(&mut self, block: Block, number: i64, value: Value) {
        self.0[place(number)] = Some((block, number, value));
    }
}

fn place(number: i64) -> usize {
    number as usize % COUNT
}
