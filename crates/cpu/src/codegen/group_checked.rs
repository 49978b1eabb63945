//! What is known of an access whose lanes are checked at once.

use cranelift_codegen::ir::Value;

use crate::program::Reg;

/// An access of which all lanes are in bounds.
pub(super) struct GroupChecked {
    /// The instruction, by the start of its operands.
    pub operands: u32,
    pub addresses: Addresses,
}

#[derive(Clone, Copy)]
pub(super) enum Addresses {
    /// The host address of the first lane, and the distance from lane to lane.
    Strided(Value, i64),
    /// The host address of shared memory; the place of each lane is in a register, at an offset.
    Register(Value, Reg, i32),
}
