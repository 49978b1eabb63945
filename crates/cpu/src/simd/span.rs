//! Accesses of a block to memory that one check covers.

use std::collections::HashMap;

use super::machine::Value;
use crate::program::{Instruction, Reg};

/// The spans of the current block.
#[derive(Default)]
pub(super) struct Spans {
    pub all: Vec<Span>,
    /// By the start of an instruction's operands: its span, and its distance.
    pub of: HashMap<u32, (usize, i64)>,
}

/// Accesses of the same size, at constant distances from one value of a register.
pub(super) struct Span {
    pub base: Reg,
    pub bytes: u32,
    /// The distance of the first byte that a lane accesses, and the end of the last one.
    pub low: i64,
    pub end: i64,
    pub members: Vec<Instruction>,
    /// The host address of the first byte, once it is checked.
    pub host: Option<Value>,
}
