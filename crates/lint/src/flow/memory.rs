//! Instructions that read or write memory.

use super::affine::{Linear, Term};
use super::context::FunctionContext;
use super::instructions::InstructionId;
use super::origin::Origin;
use super::values::ValueId;
use super::{HashMap, roomy_map};
use ptx::ast::{Instruction, Modifiers, Operand, Space, Span, Variable};
use ptx::isa::Effect;
use ptx::names::{Modifier, SpecialRegister};
use ptx::resolution::{Reference, VariableId};
use ptx::signature::layout;

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
    #[inline]
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

/// An instruction that accesses memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemoryAccess<'m> {
    pub id: InstructionId,
    pub instruction: &'m Instruction,
    pub access: Access,
}

impl MemoryAccess<'_> {
    /// Whether it is one to global memory, or may be.
    pub fn is_global(&self) -> bool {
        matches!(self.access.space, None | Some(Space::Global))
    }
}

/// Every access to memory, in source order.
pub(crate) fn accesses<'m>(function: &FunctionContext<'m, '_>) -> Vec<MemoryAccess<'m>> {
    if function.flow().is_none() {
        return Vec::new();
    }
    let accessing = function.instructions_with(|_, effect| effect.access.is_some());
    let mut found = Vec::with_capacity(accessing.len());
    found.extend(accessing.into_iter().filter_map(|(id, instruction)| {
        let access = Access::of(function, instruction)?;
        Some(MemoryAccess {
            id,
            instruction,
            access,
        })
    }));
    found
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
    /// Of an instruction with this effect; the address is behind what it writes.
    pub(super) fn of(effect: Effect, writes: u8, modifiers: &Modifiers) -> Option<AccessShape> {
        let kind = match effect {
            Effect::Load => AccessKind::Load,
            Effect::Store => AccessKind::Store,
            Effect::Update => AccessKind::Atomic,
            Effect::Pure
            | Effect::Fetch
            | Effect::Jump
            | Effect::Table
            | Effect::Return
            | Effect::Exit
            | Effect::Trap
            | Effect::Call
            | Effect::Effectful => return None,
        };
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
            number: u32::from(writes),
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

/// An access to a variable that is known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'m, 'a> {
    pub id: VariableId,
    pub variable: &'m Variable<'a>,
    /// Bytes of the variable; `None` where the launch or another module says.
    pub size: Option<u64>,
    /// Bytes that it is aligned to at least.
    pub align: u64,
    pub access: Access,
    /// Bytes from the start of the variable.
    pub offset: Linear,
}

impl Place<'_, '_> {
    /// Whether the offset is no multiple of the size, in some thread at least.
    pub fn is_misaligned(&self) -> bool {
        let bytes = self.access.bytes as i64;
        // Of terms that nothing is known of, the best is hoped for.
        let (mut known, mut odd) = (true, self.offset.constant % bytes != 0);
        for (term, times) in self.offset.terms() {
            if times % bytes == 0 {
                continue;
            }
            match term {
                // Thread 1 is not aligned if thread 0 is.
                Term::Special(SpecialRegister::TidX) => odd = true,
                _ => known = false,
            }
        }
        known && odd
    }
}

/// Every access to a variable that is known.
pub(crate) fn places<'m, 'a>(function: &FunctionContext<'m, 'a>) -> Vec<Place<'m, 'a>> {
    let Some(flow) = function.flow() else {
        return Vec::new();
    };
    let accesses = function.accesses();
    let mut places = Vec::with_capacity(accesses.len());
    // Many accesses are at a number of bytes from the same value.
    let mut bases: HashMap<ValueId, Option<(VariableId, Linear)>> = roomy_map();
    for MemoryAccess { access, .. } in accesses {
        let access = *access;
        let Some(Operand::Address { offset, .. }) = function.body.operands.get(access.address)
        else {
            continue;
        };
        if access.bytes == 0 {
            continue;
        }
        let found = match flow.instructions.reference(access.address) {
            // Nearly all parameters are named so.
            Reference::Variable(id) => Some((id, Linear::number(*offset))),
            Reference::Register(_) => {
                let value = flow.values.of_operand(access.address);
                let base = bases.entry(value);
                let base = base.or_insert_with(|| in_variable(function, access.address, value));
                base.and_then(|(id, mut linear)| {
                    linear.constant = linear.constant.checked_add(*offset)?;
                    Some((id, linear))
                })
            }
            _ => None,
        };
        let Some((id, offset)) = found else {
            continue;
        };
        let variable = flow.instructions.variable(id);
        let (size, align) = layout(variable);
        let open = variable.dims.contains(&None) && variable.init.is_none();
        places.push(Place {
            id,
            variable,
            size: (!open).then_some(size),
            align,
            access,
            offset,
        });
    }
    places
}

/// The variable that the value of an address lies in, and the bytes from its start.
fn in_variable(
    function: &FunctionContext<'_, '_>,
    address: usize,
    value: ValueId,
) -> Option<(VariableId, Linear)> {
    // Sums are found for addresses alone that come from a variable.
    let (Origin::Variable(_) | Origin::Generic(_, Some(_))) = function.origin(address)? else {
        return None;
    };
    let linear = function.linear_of(value)?;
    let id = linear.variable()?;
    Some((id, linear.without(Term::Address(id))))
}
