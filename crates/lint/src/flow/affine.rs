//! Affine values: `4 * %tid.x + param + 16`.

use super::context::{Flow, FunctionContext};
use super::instructions::Step;
use super::values::{Definition, ValueId};
use ptx::ast::{AddressBase, Instruction, Mnemonic, Operand, Space};
use ptx::names::{Modifier, Opcode, SpecialRegister};
use ptx::resolution::{Reference, VariableId};

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

/// The sums that values are, each worked out when somebody asks for it: few but those that
/// make addresses are asked for.
#[derive(Debug)]
pub(super) struct Affine {
    /// For each value what is known, or its index in `sums` and `KNOWN`.
    index: Vec<u32>,
    sums: Vec<Linear>,
    /// Values that are worked out; empty in between.
    open: Vec<ValueId>,
}

/// Nobody has asked for the value.
const OPEN: u32 = 0;

/// No more is known than the value itself. Those are most, and a sum is large.
const OPAQUE: u32 = 1;

/// What the first of the sums has as index.
const KNOWN: u32 = 2;

impl Affine {
    pub fn new(flow: &Flow<'_, '_>) -> Affine {
        Affine {
            index: vec![OPEN; flow.values.definitions.len()],
            sums: Vec::with_capacity(flow.values.definitions.len() / 4),
            open: Vec::with_capacity(16),
        }
    }

    /// The sum of a value; the value itself as a term where no more is known.
    pub fn of_value(&mut self, function: &FunctionContext<'_, '_>, value: ValueId) -> Linear {
        self.ask(function, value);
        self.of(value)
    }

    /// The number that the operand with this index in the pool is, without its sum, which is
    /// large.
    pub fn number(
        &mut self,
        function: &FunctionContext<'_, '_>,
        flow: &Flow<'_, '_>,
        place: usize,
    ) -> Option<i64> {
        if let Reference::Register(_) = flow.instructions.reference(place) {
            let value = flow.values.of_operand(place);
            self.ask(function, value);
            let index = self.index.get(value.index())?.checked_sub(KNOWN)?;
            self.sums[index as usize].as_number()?;
        }
        self.of_operand(function, flow, place)?.as_number()
    }

    /// The sum of the operand with this index in the pool; `None` for a list, or for
    /// what is no integer.
    pub fn of_operand(
        &mut self,
        function: &FunctionContext<'_, '_>,
        flow: &Flow<'_, '_>,
        place: usize,
    ) -> Option<Linear> {
        self.ask(function, flow.values.of_operand(place));
        self.read(flow, place)
    }

    fn of(&self, value: ValueId) -> Linear {
        let index = self.index.get(value.index()).copied().unwrap_or(OPAQUE);
        match index.checked_sub(KNOWN) {
            Some(index) => self.sums[index as usize],
            None => Linear::term(Term::Value(value)),
        }
    }

    fn is_open(&self, value: ValueId) -> bool {
        self.index.get(value.index()) == Some(&OPEN)
    }

    /// Works out a value, unless it is known.
    #[inline]
    fn ask(&mut self, function: &FunctionContext<'_, '_>, value: ValueId) {
        if self.is_open(value) {
            self.work_out(function, value);
        }
    }

    /// Works out a value, after those that it is made of.
    fn work_out(&mut self, function: &FunctionContext<'_, '_>, value: ValueId) {
        let Some(flow) = function.flow() else {
            return;
        };
        let mut open = std::mem::take(&mut self.open);
        open.push(value);
        while let Some(&top) = open.last() {
            if !self.is_open(top) {
                open.pop();
                continue;
            }
            let sum = match Reader::new(function, flow, top) {
                None => None,
                Some(reader) => {
                    let before = open.len();
                    let parts = reader.parts().filter(|part| self.is_open(*part));
                    open.extend(parts);
                    if open.len() > before {
                        continue;
                    }
                    reader.result(self)
                }
            };
            self.index[top.index()] = match sum {
                Some(sum) => {
                    self.sums.push(sum);
                    self.sums.len() as u32 - 1 + KNOWN
                }
                None => OPAQUE,
            };
        }
        self.open = open;
    }

    fn read(&self, flow: &Flow<'_, '_>, place: usize) -> Option<Linear> {
        let named = |offset: i64| {
            let mut base = match flow.instructions.reference(place) {
                Reference::Register(_) => self.of(flow.values.of_operand(place)),
                Reference::Variable(id) => Linear::term(Term::Address(id)),
                _ => return None,
            };
            base.constant = base.constant.checked_add(offset)?;
            Some(base)
        };
        match *flow.instructions.body.operands.get(place)? {
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

/// Whether the result of an instruction may be a sum of its operands, or is a parameter.
pub(super) const fn is_sum(opcode: Opcode) -> bool {
    matches!(
        opcode,
        Opcode::Mov
            | Opcode::Cvta
            | Opcode::Cvt
            | Opcode::Add
            | Opcode::Sub
            | Opcode::Neg
            | Opcode::Mul
            | Opcode::Mul24
            | Opcode::Mad
            | Opcode::Mad24
            | Opcode::Shl
            | Opcode::Or
            | Opcode::Ld
    )
}

/// The instruction that makes a value which may be a sum.
struct Reader<'c, 'm, 'a> {
    flow: &'c Flow<'m, 'a>,
    step: &'c Step,
    written: ValueId,
    instruction: &'m Instruction,
    mnemonic: &'m Mnemonic<'a>,
}

impl<'c, 'm, 'a> Reader<'c, 'm, 'a> {
    fn new(
        function: &FunctionContext<'m, 'a>,
        flow: &'c Flow<'m, 'a>,
        value: ValueId,
    ) -> Option<Self> {
        let Definition::Written(id) = flow.values.definition(value)? else {
            return None;
        };
        let step = &flow.instructions.steps[id.index()];
        let one = flow.instructions.writes(step).len() == 1;
        if step.partial || !one || !function.effect(step).sums {
            return None;
        }
        let instruction = flow.instructions.get(id)?;
        Some(Reader {
            flow,
            step,
            written: value,
            instruction,
            mnemonic: function.mnemonic(instruction),
        })
    }

    /// The values that the sum may be made of.
    fn parts(&self) -> impl Iterator<Item = ValueId> + use<'c, 'm, 'a> {
        let is_loaded = self.instruction.opcode == Opcode::Ld;
        let (flow, step) = (self.flow, self.step);
        let reads = (!is_loaded).then(|| flow.values.reads(&flow.instructions, step));
        reads.into_iter().flatten().map(|(_, value)| value)
    }

    fn result(&self, affine: &Affine) -> Option<Linear> {
        let operand = |number: u32| {
            if number >= self.instruction.operands.len {
                return None;
            }
            affine.read(
                self.flow,
                (self.instruction.operands.start + number) as usize,
            )
        };
        let modifiers = &self.mnemonic.modifiers;
        let ty = modifiers.types().last()?;
        // `0xFFFFFFFF` is -1 to 32 bits.
        let bits = ty.bits().clamp(8, 64);
        let signed = |number: i64| number << (64 - bits) >> (64 - bits);
        let number = |at: u32| operand(at)?.as_number();
        let constant = |at: u32| number(at).map(signed);
        let value = |at: u32| {
            let linear = operand(at)?;
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
            Opcode::Cvt => operand(1),
            Opcode::Add if !modifiers.has(Modifier::Sat) => value(1)?.plus(&value(2)?),
            Opcode::Sub if !modifiers.has(Modifier::Sat) => value(1)?.plus(&value(2)?.times(-1)?),
            Opcode::Neg => value(1)?.times(-1),
            Opcode::Mul | Opcode::Mul24 if !high => product(1, 2),
            Opcode::Mad | Opcode::Mad24 if !high => {
                let wide = modifiers.has(Modifier::Wide);
                let added = if wide { operand(3) } else { value(3) };
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
                    *self.flow.instructions.body.operands.get(place)?
                else {
                    return None;
                };
                let Reference::Variable(id) = self.flow.instructions.reference(place) else {
                    return None;
                };
                // Of a function's own parameter, not of what a call gave back.
                let is_param = self.flow.instructions.variable(id).space == Space::Param;
                let offset = i32::try_from(offset).ok()?;
                (is_param && self.flow.instructions.is_parameter(id))
                    .then(|| Linear::term(Term::Parameter(id, offset)))
            }
            _ => None,
        }
    }
}
