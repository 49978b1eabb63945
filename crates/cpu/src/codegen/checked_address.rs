//! Addresses that a check has found to be in bounds.

use cranelift_codegen::ir::{MemFlagsData, Value};

use crate::program::Instruction;

/// A checked host address: `address + offset`.
#[derive(Clone, Copy)]
pub(super) struct CheckedAddress {
    pub address: Value,
    pub offset: i32,
    /// Nothing is written there while the address is known.
    pub is_unwritten: bool,
}

impl CheckedAddress {
    pub const fn new(address: Value, offset: i32) -> CheckedAddress {
        CheckedAddress {
            address,
            offset,
            is_unwritten: false,
        }
    }

    /// The flags of a load: what it loads is loaded where it is used if that makes no difference.
    pub fn load_flags(&self) -> MemFlagsData {
        match self.is_unwritten {
            true => MemFlagsData::trusted().with_readonly().with_can_move(),
            false => MemFlagsData::trusted(),
        }
    }
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
    pub is_unwritten: bool,
}

impl InBounds {
    /// The address `iteration` iterations later, if it is that of this instruction.
    pub fn at(&self, i: &Instruction, iteration: u32) -> Option<CheckedAddress> {
        let offset = self.distance + self.step * i64::from(iteration);
        (self.operands == i.args.start).then_some(CheckedAddress {
            address: self.address,
            offset: i32::try_from(offset).ok()?,
            is_unwritten: self.is_unwritten,
        })
    }
}
