//! How an instruction of a function depends on the thread, from what its operands do.

use super::context::{Flow, FunctionContext};
use super::instructions::{InstructionId, RegisterOperand};
use super::values::{Definition, ValueId};
use analysis::dependence::{self, Dependence, Shape, Sources, Wrapping};
use ptx::ast::{AddressBase, Operand};
use ptx::names::{Modifier, Opcode};
use ptx::resolution::Reference;

/// Symbols of what is no value: variables and special registers.
const VARIABLES: u32 = 1 << 30;
const SPECIALS: u32 = 1 << 31;

/// The operands of a function in a block of this shape.
pub(super) struct Operands<'c, 'm, 'a> {
    pub function: &'c FunctionContext<'m, 'a>,
    pub flow: &'c Flow<'m, 'a>,
    pub shape: &'c Shape,
}

impl Operands<'_, '_, '_> {
    /// The dependence of what an instruction writes; `of` has that of each value that it
    /// reads.
    pub fn result(
        &self,
        value: ValueId,
        id: InstructionId,
        of: impl Fn(ValueId) -> Dependence,
    ) -> Dependence {
        let flow = self.flow;
        let step = &flow.instructions.steps[id.index()];
        let Some(instruction) = flow.instructions.get(id) else {
            return Dependence::opaque(Sources::THREAD);
        };
        let mnemonic = self.function.mnemonic(instruction);
        let first = instruction.operands.start;
        let effect = self.function.effect(step);
        let mut operands = Vec::new();
        if effect.meaning.result.distinguishes_operands() {
            for number in u32::from(effect.writes)..instruction.operands.len {
                self.read((first + number) as usize, value.0, &of, &mut operands);
            }
        } else {
            let reads = flow.values.reads(&flow.instructions, step);
            let reads = reads.filter(|(slot, _)| slot.operand != RegisterOperand::GUARD);
            let reads = reads.map(|(_, value)| of(value).sources);
            let written = self.function.operands(instruction).iter();
            let specials = written.filter_map(|operand| match operand {
                Operand::Special(register, _) => {
                    Some(dependence::special(*register, self.shape, 0).sources)
                }
                _ => None,
            });
            let all = reads.chain(specials);
            let sources = all.fold(Sources::NONE, |all, one| all | one);
            operands.push(Dependence::opaque(sources));
        }
        let mut result = self
            .exchanged(mnemonic.opcode, first, value.0, &of)
            .unwrap_or_else(|| {
                dependence::transfer(
                    effect.meaning.result,
                    mnemonic.opcode,
                    &mnemonic.modifiers,
                    &operands,
                    value.0,
                    Wrapping::Ignored,
                )
            });
        let is_part = match self.function.body.operands.get(first as usize) {
            Some(Operand::Vector(..)) => true,
            Some(Operand::Pair(list, _)) => {
                mnemonic.opcode == Opcode::Shfl
                    && flow.values.of_operand(list.start as usize) != value
            }
            _ => false,
        };
        if is_part {
            result = Dependence::function(result.sources, value.0);
        }
        if let Some(prior) = flow.values.prior(value) {
            let guard = flow.values.guard(&flow.instructions, step);
            let guard = guard.map_or(Sources::NONE, |guard| of(guard).sources);
            let sources = result.sources | of(prior).sources | guard;
            result = Dependence::function(sources, value.0);
        }
        result
    }

    /// A step of a butterfly: a value and that of the lane across one bit, of which
    /// both lanes make the same.
    fn exchanged(
        &self,
        opcode: Opcode,
        first: u32,
        symbol: u32,
        of: impl Fn(ValueId) -> Dependence,
    ) -> Option<Dependence> {
        if !dependence::commutes(opcode) {
            return None;
        }
        let values = &self.flow.values;
        let (a, b) = (
            values.of_operand(first as usize + 1),
            values.of_operand(first as usize + 2),
        );
        let across = |one: ValueId, other: ValueId| {
            let bit = self.bit_of_butterfly(one, other)?;
            Some(dependence::exchanged(&of(other), bit, symbol))
        };
        across(a, b).or_else(|| across(b, a))
    }

    /// The bit of the lane across which `value` is a butterfly of `from`.
    fn bit_of_butterfly(&self, value: ValueId, from: ValueId) -> Option<u32> {
        let flow = self.flow;
        let Definition::Written(id) = flow.values.definition(value)? else {
            return None;
        };
        let instruction = flow.instructions.get(id)?;
        let modifiers = &self.function.mnemonic(instruction).modifiers;
        let place = instruction.operands.start as usize;
        let butterfly = instruction.opcode == Opcode::Shfl
            && modifiers.has(Modifier::Bfly)
            && !flow.instructions.steps[id.index()].guarded
            && from != ValueId::NONE
            && flow.values.of_operand(place + 1) == from;
        match self.function.body.operands.get(place + 2)? {
            Operand::Integer(mask) if butterfly && mask.value.count_ones() == 1 => {
                let bit = mask.value.trailing_zeros();
                (bit < 5).then_some(bit)
            }
            _ => None,
        }
    }

    /// The operand with this index in the pool, or each element of a list. `symbol`
    /// stands for what is only known to be the same for all threads.
    pub fn read(
        &self,
        place: usize,
        symbol: u32,
        of: &impl Fn(ValueId) -> Dependence,
        all: &mut Vec<Dependence>,
    ) {
        let flow = self.flow;
        let named = || match flow.instructions.reference(place) {
            Reference::Register(_) => of(flow.values.of_operand(place)),
            Reference::Variable(id) => Dependence::uniform(Sources::NONE, VARIABLES | id.0),
            _ => Dependence::uniform(Sources::NONE, symbol),
        };
        let moved = |offset: i64| {
            let mut base = named();
            base.linear = base.linear.and_then(|linear| linear.moved(offset));
            base
        };
        all.push(match self.function.body.operands.get(place) {
            Some(Operand::Integer(integer)) => Dependence::number(integer.value as i64),
            Some(Operand::Special(register, _)) => {
                dependence::special(*register, self.shape, SPECIALS | *register as u32)
            }
            Some(Operand::Name(_)) => named(),
            Some(
                Operand::Offset { offset, .. }
                | Operand::Address {
                    base: AddressBase::Name(_),
                    offset,
                    ..
                },
            ) => moved(*offset),
            Some(
                Operand::Component { .. }
                | Operand::Not(_)
                | Operand::Negated(_)
                | Operand::Select { .. },
            ) => Dependence::function(named().sources, symbol),
            Some(
                Operand::Vector(list, _)
                | Operand::Arguments(list, _)
                | Operand::Element(list, _)
                | Operand::Indexed(list, _)
                | Operand::Pair(list, _),
            ) => {
                for element in list.start..list.start + list.len {
                    self.read(element as usize, symbol, of, all);
                }
                return;
            }
            Some(Operand::Address { offset, .. }) => Dependence::number(*offset),
            Some(Operand::Float(_)) => Dependence::uniform(Sources::NONE, symbol),
            Some(Operand::Sink(_)) | None => return,
        });
    }
}
