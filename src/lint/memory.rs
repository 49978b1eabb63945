//! Instructions that read or write memory.

use super::subject::FunctionSubject;
use crate::ptx::ast::{Instruction, Modifiers, Operand, Space, Span};
use crate::ptx::names::{Modifier, Opcode};

/// What an access does to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessKind {
    /// `ld`, `ldu`
    Load,
    /// `st`
    Store,
    /// `atom`, `red`
    Atomic,
}

/// An `ld`, `st`, `atom` or `red`.
#[derive(Clone, Copy, Debug)]
pub struct Access {
    /// What it does.
    pub kind: AccessKind,
    /// `None` for a generic address.
    pub space: Option<Space>,
    /// Bytes of one element.
    pub element: u64,
    /// Bytes that a thread reads or writes at once.
    pub bytes: u64,
    /// Place of the address in the operand pool.
    pub address: usize,
    /// Of the address.
    pub span: Span,
}

impl Access {
    /// The access that an instruction is, if it is one.
    pub fn of<'a>(
        function: &FunctionSubject<'_, 'a>,
        instruction: &Instruction<'a>,
    ) -> Option<Access> {
        let (kind, number) = match instruction.opcode {
            Opcode::Ld | Opcode::Ldu => (AccessKind::Load, 1),
            Opcode::St => (AccessKind::Store, 0),
            Opcode::Atom => (AccessKind::Atomic, 1),
            Opcode::Red => (AccessKind::Atomic, 0),
            _ => return None,
        };
        let modifiers = &function.subject.module.mnemonic(instruction).modifiers;
        if modifiers.has(Modifier::Async) || modifiers.has(Modifier::Bulk) {
            return None;
        }
        let element = modifiers.types().last()?.bytes();
        let vector = match modifiers.first_of(&[Modifier::V2, Modifier::V4, Modifier::V8]) {
            Some(Modifier::V2) => 2,
            Some(Modifier::V4) => 4,
            Some(Modifier::V8) => 8,
            _ => 1,
        };
        if number >= instruction.operands.len {
            return None;
        }
        let address = (instruction.operands.start + number) as usize;
        let operand = function.body.operands.get(address)?;
        matches!(operand, Operand::Address { .. }).then_some(Access {
            kind,
            space: space(modifiers),
            element,
            bytes: element * vector,
            address,
            span: function.operand_span(instruction, operand),
        })
    }
}

/// The state space that an instruction names.
pub fn space(modifiers: &Modifiers) -> Option<Space> {
    modifiers.as_slice().iter().find_map(|word| {
        Some(match word {
            Modifier::Const => Space::Const,
            Modifier::Global => Space::Global,
            Modifier::Local => Space::Local,
            Modifier::Param | Modifier::ParamEntry | Modifier::ParamFunc => Space::Param,
            Modifier::Shared | Modifier::SharedCta | Modifier::SharedCluster => Space::Shared,
            _ => return None,
        })
    })
}
