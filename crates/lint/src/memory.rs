//! Instructions that read or write memory.

use super::context::FunctionContext;
use ptx::ast::{Instruction, Mnemonic, Modifiers, Operand, Space, Span};
use ptx::names::{Modifier, Opcode};

/// The kind of an access.
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
    /// Load, store or atomic.
    pub kind: AccessKind,
    /// `None` for a generic address.
    pub space: Option<Space>,
    /// Bytes of one element.
    pub element: u64,
    /// Bytes that a thread reads or writes at once.
    pub bytes: u64,
    /// Index of the address in the operand pool.
    pub address: usize,
    /// Of the address.
    pub span: Span,
}

impl Access {
    /// The access of an instruction; `None` if it does not access memory.
    pub fn of(function: &FunctionContext<'_, '_>, instruction: &Instruction) -> Option<Access> {
        let shape = function.effect_of(instruction)?.access?;
        if shape.number >= instruction.operands.len {
            return None;
        }
        let address = (instruction.operands.start + shape.number) as usize;
        let operand = function.body.operands.get(address)?;
        matches!(operand, Operand::Address { .. }).then(|| Access {
            kind: shape.kind,
            space: shape.space,
            element: shape.element,
            bytes: shape.bytes,
            address,
            span: function.operand_span(instruction, operand),
        })
    }
}

/// The properties that all accesses with one mnemonic share.
#[derive(Clone, Copy, Debug)]
pub struct AccessShape {
    kind: AccessKind,
    space: Option<Space>,
    element: u64,
    bytes: u64,
    /// Which operand is the address.
    number: u32,
}

impl AccessShape {
    /// Read from the opcode and its modifiers.
    pub fn of(mnemonic: &Mnemonic<'_>) -> Option<AccessShape> {
        let (kind, number) = match mnemonic.opcode {
            Opcode::Ld | Opcode::Ldu => (AccessKind::Load, 1),
            Opcode::St => (AccessKind::Store, 0),
            Opcode::Atom => (AccessKind::Atomic, 1),
            Opcode::Red => (AccessKind::Atomic, 0),
            _ => return None,
        };
        let modifiers = &mnemonic.modifiers;
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
        Some(AccessShape {
            kind,
            space: space(modifiers),
            element,
            bytes: element * vector,
            number,
        })
    }
}

/// The state space of an instruction.
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
