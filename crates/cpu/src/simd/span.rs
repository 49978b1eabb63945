//! Accesses of a block to memory that one check covers.

use std::collections::HashMap;

use super::machine::Value;
use crate::program::{Instruction, Reg};

/// What the spans of the current block are.
#[derive(Default)]
pub(super) struct Spans {
    pub all: Vec<Span>,
    /// By the start of an instruction's operands.
    pub of: HashMap<u32, usize>,
}

/// Accesses of so many bytes at constant distances from one value of a register.
pub(super) struct Span {
    pub base: Reg,
    pub bytes: u32,
    /// The distances of the first byte, and behind the last one, of all lanes.
    pub low: i64,
    pub end: i64,
    pub members: Vec<Instruction>,
    /// The host address of the first byte, once it is checked.
    pub host: Option<Value>,
}
