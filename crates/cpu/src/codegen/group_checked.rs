//! What is known of an access whose lanes are checked at once.

use cranelift_codegen::ir::Value;

use crate::abi::WARP_SIZE;
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
    /// That of the first lane, and the distance of each lane from it.
    Lanes(Value, [i32; WARP_SIZE as usize]),
    /// The host address of shared memory; the place of each lane is in a register, at an offset.
    Register(Value, Reg, i32),
    /// The same where the lanes of the register are loaded one by one.
    Loaded(Value, Reg, i32),
}
