//! Addresses that a check has found to be in bounds.

use cranelift_codegen::ir::Value;

/// A checked host address: `address + offset`.
#[derive(Clone, Copy)]
pub(in crate::codegen) struct CheckedAddress {
    pub address: Value,
    pub offset: i32,
}

impl CheckedAddress {
    pub const fn new(address: Value, offset: i32) -> CheckedAddress {
        CheckedAddress { address, offset }
    }
}
