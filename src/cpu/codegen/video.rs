//! The video instructions (PTX ISA, "Video Instructions").

use super::emitter::{Emitted, Emitter};
use crate::cpu::program::Instruction;

impl Emitter<'_, '_> {
    pub fn video(&mut self, i: &Instruction) -> Emitted<()> {
        self.refuse(i, "video instructions")
    }
}
