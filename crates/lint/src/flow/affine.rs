//! Affine values: `4 * %tid.x + param + 16`.

use super::effect::Effect;
use super::graph::Graph;
use super::instructions::Instructions;
use super::names::{Reference, VariableId};
use super::values::{ValueId, Values};
use ptx::ast::{AddressBase, Instruction, Mnemonic, Operand, Space};
use ptx::names::{Modifier, Opcode, SpecialRegister};

/// A term of a [`Linear`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Term {
    /// `%tid.x`, `%ctaid.y` …
    Special(SpecialRegister),
    /// The address of a variable.
    Address(VariableId),
    /// The value of a parameter at this offset.
    Parameter(VariableId, i32),
    /// An opaque value.
    Value(ValueId),
    /// The product in the `mad` that makes this value.
    Product(ValueId),
}

/// A sum of at most four terms, each times a constant, and a constant.
///
/// Arithmetic is taken not to wrap: the sum is the address as long as no
/// intermediate result overflows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Linear {
    /// The constant.
    pub constant: i64,
    terms: [(Term, i64); Linear::MAX],
    len: u8,
}

impl Linear {
    const MAX: usize = 4;
    const NO_TERM: (Term, i64) = (Term::Value(ValueId::NONE), 0);

    /// A number.
    pub const fn number(constant: i64) -> Linear {
        Linear {
            constant,
            terms: [Linear::NO_TERM; Linear::MAX],
            len: 0,
        }
    }

    /// A term alone.
    pub fn term(term: Term) -> Linear {
        let mut linear = Linear::number(0);
        linear.terms[0] = (term, 1);
        linear.len = 1;
        linear
    }

    /// The terms with their coefficients.
    pub fn terms(&self) -> &[(Term, i64)] {
        &self.terms[..usize::from(self.len)]
    }

    /// The coefficient of a term; 0 if it has none.
    pub fn coefficient(&self, term: Term) -> i64 {
        let mut terms = self.terms().iter();
        terms.find(|(known, _)| *known == term).map_or(0, |t| t.1)
    }

    /// The number that it is, if it has no terms.
    pub fn as_number(&self) -> Option<i64> {
        (self.len == 0).then_some(self.constant)
    }

    /// `None` where there are too many terms, or numbers too large.
    pub fn plus(mut self, other: &Linear) -> Option<Linear> {
        self.constant = self.constant.checked_add(other.constant)?;
        for (term, times) in other.terms() {
            let len = usize::from(self.len);
            match self.terms[..len]
                .iter()
                .position(|(known, _)| known == term)
            {
                Some(place) => {
                    let sum = self.terms[place].1.checked_add(*times)?;
                    self.terms[place].1 = sum;
                    if sum == 0 {
                        self.terms[place] = self.terms[len - 1];
                        self.terms[len - 1] = Linear::NO_TERM;
                        self.len -= 1;
                    }
                }
                None => {
                    *self.terms.get_mut(len)? = (*term, *times);
                    self.len += 1;
                }
            }
        }
        Some(self)
    }

    /// The product with a constant.
    pub fn times(mut self, factor: i64) -> Option<Linear> {
        if factor == 0 {
            return Some(Linear::number(0));
        }
        self.constant = self.constant.checked_mul(factor)?;
        for (_, times) in &mut self.terms[..usize::from(self.len)] {
            *times = times.checked_mul(factor)?;
        }
        Some(self)
    }

    /// The sum without this term.
    pub fn without(self, term: Term) -> Linear {
        let coefficient = self.coefficient(term);
        match Linear::term(term).times(-coefficient) {
            Some(less) => self.plus(&less).unwrap_or(self),
            None => self,
        }
    }

    /// Every value that it can have is a multiple of this, the terms being any
    /// whole numbers: a power of two, up to 2^62.
    pub fn multiple(&self) -> u64 {
        let numbers = self.terms().iter().map(|(_, times)| *times);
        let bits = numbers.fold(self.constant, |bits, times| bits | times);
        1 << bits.trailing_zeros().min(62)
    }

    /// The one variable whose address is in it, once.
    pub fn variable(&self) -> Option<VariableId> {
        let mut found = None;
        for (term, times) in self.terms() {
            if let Term::Address(id) = term {
                if found.is_some() || *times != 1 {
                    return None;
                }
                found = Some(*id);
            }
        }
        found
    }
}

/// The sum that each value is.
#[derive(Debug)]
pub struct Affine {
    /// For each value its index in `sums`, from 1; 0 where no more is known than the value
    /// itself. Those are most, and a sum is large.
    index: Vec<u32>,
    sums: Vec<Linear>,
}

impl Affine {
    pub(crate) fn new(
        instructions: &Instructions<'_, '_>,
        graph: &Graph,
        values: &Values,
        mnemonics: &[Mnemonic<'_>],
        effects: &[Effect],
    ) -> Affine {
        let mut affine = Affine {
            index: vec![0; values.definitions.len()],
            sums: Vec::new(),
        };
        for block in &graph.order {
            for id in graph.blocks[block.index()].steps() {
                let step = &instructions.steps[id.index()];
                let whole = effects.get(step.mnemonic as usize).is_some_and(|e| e.whole);
                if step.partial || !whole {
                    continue;
                }
                let mut writes = values.writes(instructions, step);
                let (Some((_, written)), None) = (writes.next(), writes.next()) else {
                    continue;
                };
                let Some(instruction) = instructions.get(id) else {
                    continue;
                };
                let Some(mnemonic) = mnemonics.get(step.mnemonic as usize) else {
                    continue;
                };
                let reader = Reader {
                    instructions,
                    values,
                    affine: &affine,
                    written,
                    instruction,
                    mnemonic,
                };
                if let Some(sum) = reader.result() {
                    affine.sums.push(sum);
                    affine.index[written.index()] = affine.sums.len() as u32;
                }
            }
        }
        affine
    }

    /// The sum of a value; the value itself as a term where no more is known.
    pub fn of(&self, value: ValueId) -> Linear {
        let index = self.index.get(value.index()).copied().unwrap_or(0);
        match index.checked_sub(1) {
            Some(index) => self.sums[index as usize],
            None => Linear::term(Term::Value(value)),
        }
    }

    /// The sum of the operand with this index in the pool; `None` for a list, or for
    /// what is no integer.
    pub fn of_operand(
        &self,
        instructions: &Instructions<'_, '_>,
        values: &Values,
        place: usize,
    ) -> Option<Linear> {
        let named = |offset: i64| {
            let base = match instructions.reference(place) {
                Reference::Register(_) => self.of(values.of_operand(place)),
                Reference::Variable(id) => Linear::term(Term::Address(id)),
                Reference::Nothing => return None,
            };
            base.plus(&Linear::number(offset))
        };
        match *instructions.body.operands.get(place)? {
            Operand::Integer(integer) => Some(Linear::number(integer.value as i64)),
            Operand::Special(register, _) => Some(Linear::term(Term::Special(register))),
            Operand::Name(_) => named(0),
            Operand::Negated(_) => named(0)?.times(-1),
            Operand::Offset { offset, .. } => named(offset),
            Operand::Address {
                base: AddressBase::Name(_),
                offset,
                ..
            } => named(offset),
            Operand::Address {
                base: AddressBase::Immediate(_),
                offset,
                ..
            } => Some(Linear::number(offset)),
            _ => None,
        }
    }
}

struct Reader<'c, 'm, 'a> {
    instructions: &'c Instructions<'m, 'a>,
    values: &'c Values,
    affine: &'c Affine,
    written: ValueId,
    instruction: &'c Instruction,
    mnemonic: &'c Mnemonic<'a>,
}

impl Reader<'_, '_, '_> {
    fn operand(&self, number: u32) -> Option<Linear> {
        if number >= self.instruction.operands.len {
            return None;
        }
        let place = (self.instruction.operands.start + number) as usize;
        self.affine
            .of_operand(self.instructions, self.values, place)
    }

    fn result(&self) -> Option<Linear> {
        let modifiers = &self.mnemonic.modifiers;
        let ty = modifiers.types().last()?;
        // `0xFFFFFFFF` is -1 to 32 bits.
        let bits = ty.bits().clamp(8, 64);
        let signed = |number: i64| number << (64 - bits) >> (64 - bits);
        let number = |operand: u32| self.operand(operand)?.as_number();
        let constant = |operand: u32| number(operand).map(signed);
        let value = |operand: u32| {
            let linear = self.operand(operand)?;
            Some(match linear.as_number() {
                Some(number) => Linear::number(signed(number)),
                None => linear,
            })
        };
        let product = |a: u32, b: u32| match (constant(a), constant(b)) {
            (_, Some(factor)) => value(a)?.times(factor),
            (Some(factor), _) => value(b)?.times(factor),
            _ => None,
        };
        let high = modifiers.has(Modifier::Hi);
        match self.mnemonic.opcode {
            Opcode::Mov | Opcode::Cvta => value(1),
            // Only what is a whole number before and after; a narrower result
            // is the same as long as it fits.
            Opcode::Cvt => self.operand(1),
            Opcode::Add if !modifiers.has(Modifier::Sat) => value(1)?.plus(&value(2)?),
            Opcode::Sub if !modifiers.has(Modifier::Sat) => value(1)?.plus(&value(2)?.times(-1)?),
            Opcode::Neg => value(1)?.times(-1),
            Opcode::Mul | Opcode::Mul24 if !high => product(1, 2),
            Opcode::Mad | Opcode::Mad24 if !high => {
                let wide = modifiers.has(Modifier::Wide);
                let added = if wide { self.operand(3) } else { value(3) };
                match product(1, 2) {
                    Some(product) => product.plus(&added?),
                    // The product is some number, and what is added is known.
                    None => Linear::term(Term::Product(self.written)).plus(&added?),
                }
            }
            Opcode::Shl => {
                let by = u32::try_from(number(2)?)
                    .ok()
                    .filter(|by| *by < bits.min(62))?;
                value(1)?.times(1 << by)
            }
            // Bits that are surely 0 are set: a sum.
            Opcode::Or => {
                let (a, b) = (value(1)?, value(2)?);
                let (sum, added) = match (a.as_number(), b.as_number()) {
                    (None, Some(number)) => (a, number),
                    (Some(number), None) => (b, number),
                    _ => return None,
                };
                let disjoint = added >= 0 && (added as u64) < sum.multiple();
                if disjoint {
                    sum.plus(&Linear::number(added))
                } else {
                    None
                }
            }
            Opcode::Ld if modifiers.has(Modifier::Param) => {
                let place = self.instruction.operands.start as usize + 1;
                let Operand::Address { offset, .. } =
                    *self.instructions.body.operands.get(place)?
                else {
                    return None;
                };
                let Reference::Variable(id) = self.instructions.reference(place) else {
                    return None;
                };
                // Of a function's own parameter, not of what a call gave back.
                let is_param = self.instructions.variable(id).space == Space::Param;
                let offset = i32::try_from(offset).ok()?;
                (is_param && self.instructions.is_parameter(id))
                    .then(|| Linear::term(Term::Parameter(id, offset)))
            }
            _ => None,
        }
    }
}
