//! Addresses that a check has found to be in bounds.

use cranelift_codegen::ir::Value;

use crate::program::Instruction;

/// A checked host address: `address + offset`.
#[derive(Clone, Copy)]
pub(super) struct CheckedAddress {
    pub address: Value,
    pub offset: i32,
}

/// An access that the guard of a loop has found to be in bounds: its address in the first
/// iteration.
#[derive(Clone, Copy)]
pub(super) struct InBounds {
    /// The instruction, by the start of its operands.
    pub operands: u32,
    pub address: Value,
    pub distance: i64,
    pub step: i64,
}

impl InBounds {
    /// The address `iteration` iterations later, if it is that of this instruction.
    pub fn at(&self, i: &Instruction, iteration: u32) -> Option<CheckedAddress> {
        let offset = self.distance + self.step * i64::from(iteration);
        (self.operands == i.args.start).then_some(CheckedAddress {
            address: self.address,
            offset: i32::try_from(offset).ok()?,
        })
    }
}
