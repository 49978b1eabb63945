//! What the names of a function mean.

use crate::program::ir::{BlockId, Reg, Storage};
use ptx::scope::{self, Meaning};

#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::program) enum Symbol {
    /// A register, or the first of `%r<9>`.
    Register(Reg),
    /// `.reg .v4 .f32 %v`: the first component and the number of components.
    Vector(Reg, u8),
    Variable(Storage),
    Label(BlockId),
    /// `.branchtargets`, `.calltargets`: the index of the statement.
    Targets(usize),
    /// `.callprototype`: the index of the statement.
    Prototype(usize),
    /// The address of a function.
    Function(u64),
}

impl Meaning for Symbol {
    type Register = Reg;

    fn register(&self) -> Option<Reg> {
        match self {
            Symbol::Register(reg) => Some(*reg),
            _ => None,
        }
    }
}

impl Symbol {
    /// One of a range.
    pub fn numbered(self, number: u32) -> Symbol {
        match self {
            Symbol::Register(Reg(first)) => Symbol::Register(Reg(first + number)),
            Symbol::Vector(Reg(first), components) => {
                Symbol::Vector(Reg(first + number * u32::from(components)), components)
            }
            one => one,
        }
    }
}

/// The scopes of one function instance.
pub(in crate::program) type Scopes<'a> = scope::Scopes<'a, Symbol>;
