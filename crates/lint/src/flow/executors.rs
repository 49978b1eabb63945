//! Which threads execute an instruction, as far as comparisons with constants say:
//! `if (blockIdx.x == 0)`.

use super::context::FunctionContext;
use super::instructions::InstructionId;
use super::intervals::Orders;
use super::values::{Definition, ValueId};
use super::{BlockId, Term};
use ptx::names::{Modifier, Opcode, SpecialRegister};

/// What holds of the threads that execute an instruction.
#[derive(Debug, Default)]
pub struct Executors {
    /// The register is this number, or is not.
    known: Vec<(SpecialRegister, i64, bool)>,
    /// Something else decides too.
    pub others: bool,
}

impl Executors {
    /// `None` where too much decides.
    pub fn of(function: &FunctionContext<'_, '_>, id: InstructionId) -> Option<Executors> {
        let orders = Orders::of_function(function)?;
        let flow = function.flow()?;
        let block = flow.graph.block_of(id);
        let mut executors = Executors::default();
        for fact in orders.facts_above(block, BlockId::ENTRY)? {
            executors.add(function, fact.predicate, fact.holds);
        }
        let step = &flow.instructions.steps[id.index()];
        if let Some(guard) = flow.values.guard(&flow.instructions, step) {
            executors.add(function, guard, !step.negated);
        }
        Some(executors)
    }

    fn add(&mut self, function: &FunctionContext<'_, '_>, predicate: ValueId, holds: bool) {
        match Equality::of(function, predicate) {
            Some(Equality {
                term: Term::Special(register),
                number,
                equal,
            }) => self.known.push((register, number, equal == holds)),
            _ => self.others = true,
        }
    }

    /// Whether they are told apart by their block.
    pub fn are_of_some_blocks(&self) -> bool {
        self.known
            .iter()
            .any(|(register, ..)| is_of_block(*register))
    }

    /// The register by which no thread is among these and those, that of the block first.
    pub fn parted(&self, other: &Executors) -> Option<SpecialRegister> {
        let parts = |(register, number, is): &(SpecialRegister, i64, bool)| {
            other.known.iter().any(|(with, of_other, other_is)| {
                register == with && (*is || *other_is) && (number == of_other) == (is != other_is)
            })
        };
        let mut found: Vec<SpecialRegister> = self
            .known
            .iter()
            .filter(|known| parts(known))
            .map(|(register, ..)| *register)
            .collect();
        found.sort_by_key(|register| !is_of_block(*register));
        found.first().copied()
    }
}

/// Whether it is the number of the block.
pub fn is_of_block(register: SpecialRegister) -> bool {
    matches!(
        register,
        SpecialRegister::CtaidX | SpecialRegister::CtaidY | SpecialRegister::CtaidZ
    )
}

/// A predicate that compares something with a constant.
pub struct Equality {
    /// What is compared.
    pub term: Term,
    /// With this number.
    pub number: i64,
    /// The predicate holds where they are equal, rather than where they are not.
    pub equal: bool,
}

impl Equality {
    /// That which makes a predicate.
    pub fn of(function: &FunctionContext<'_, '_>, predicate: ValueId) -> Option<Equality> {
        let flow = function.flow()?;
        let Some(Definition::Written(id)) = flow.values.definition(predicate) else {
            return None;
        };
        let instruction = flow.instructions.get(id)?;
        let modifiers = &function.mnemonic(instruction).modifiers;
        let equal = modifiers.first_of(&[Modifier::Eq, Modifier::Ne])? == Modifier::Eq;
        let step = &flow.instructions.steps[id.index()];
        if instruction.opcode != Opcode::Setp || instruction.operands.len != 3 || step.partial {
            return None;
        }
        let first = instruction.operands.start as usize;
        let (a, b) = (function.linear(first + 1)?, function.linear(first + 2)?);
        let difference = a.plus(&b.times(-1)?)?;
        let [(term, times @ (1 | -1))] = *difference.terms() else {
            return None;
        };
        Some(Equality {
            term,
            number: difference.constant.checked_mul(-times)?,
            equal,
        })
    }
}
