//! What registers hold, as sums: over the bits of the thread's index, over unknowns that the lanes of a
//! warp share, and one that they may not share.
//!
//! A register that several instructions write is an unknown of its own, if what they write depends on the
//! lane in the same way: lanes that are together in a loop have gone round as often.

use crate::program::ir::byte_offset::ByteOffset;
use crate::program::ir::natural::natural;
use crate::program::ir::{Arg, Base, Instruction, Program, Reg, Step, Storage, Terminator};
use analysis::dependence::{BITS, Base as Number, Dependence, Linear, Shape, Sources, Wrapping};
use analysis::dependence::{special, transfer};
use ptx::isa::Outcome;
use ptx::names::{Modifier as M, Opcode as O, SpecialRegister as S, Type};

/// What an unknown that never changes is a multiple of: 0.
const ANY_ALIGN: u8 = 62;
/// An analysis takes as many rounds at most.
const MAX_ROUNDS: usize = 16;
/// The terms of a sum.
const MAX_TERMS: usize = 8;

/// The memory that an address is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::program) enum Root {
    Variable(Storage),
    /// The offset of the parameter that points to it.
    Param(u32),
}

#[derive(Clone, Debug, PartialEq)]
pub(in crate::program) struct Sum {
    /// What the bits of the thread's index add, and a number.
    pub thread: Linear,
    /// The unknowns, each with its factor, in their order.
    pub terms: Vec<(u32, i64)>,
    /// What else is added may differ between lanes, and depends on these.
    pub other: Sources,
    /// Whether it depends on the block.
    block: Sources,
    pub root: Option<Root>,
}

impl Sum {
    fn number(number: i64) -> Sum {
        Sum {
            thread: Linear::number(number),
            terms: Vec::new(),
            other: Sources::NONE,
            block: Sources::NONE,
            root: None,
        }
    }

    fn symbol(symbol: u32, block: Sources) -> Sum {
        Sum {
            terms: vec![(symbol, 1)],
            block,
            ..Sum::number(0)
        }
    }

    fn opaque(sources: Sources) -> Sum {
        Sum {
            other: sources | Sources::LANES,
            block: sources.only(Sources::BLOCK),
            ..Sum::number(0)
        }
    }

    /// All that it may depend on.
    fn sources(&self) -> Sources {
        self.thread.sources() | self.other | self.block
    }

    fn as_number(&self) -> Option<i64> {
        let is_number = self.terms.is_empty() && self.other == Sources::NONE;
        self.thread.as_number().filter(|_| is_number)
    }

    /// Whether the lanes of a warp have the same, if rows are whole warps.
    fn is_uniform(&self) -> bool {
        !self.sources().any(Sources::LANES)
    }

    /// `self + factor * added`
    pub fn plus(&self, added: &Sum, factor: i64) -> Sum {
        let unknown = || Sum::opaque(self.sources() | added.sources());
        self.checked_plus(added, factor).unwrap_or_else(unknown)
    }

    fn checked_plus(&self, added: &Sum, factor: i64) -> Option<Sum> {
        let mut sum = self.clone();
        let add = |part: &mut i32, more: i32| {
            let all = i64::from(more).checked_mul(factor)?;
            *part = i32::try_from(all.checked_add((*part).into())?).ok()?;
            Some(())
        };
        for bit in 0..BITS {
            add(&mut sum.thread.bits[bit], added.thread.bits[bit])?;
        }
        add(&mut sum.thread.row, added.thread.row)?;
        add(&mut sum.thread.plane, added.thread.plane)?;
        let offset = added.thread.base.offset.checked_mul(factor)?;
        let number = &mut sum.thread.base.offset;
        *number = number.checked_add(offset)?;
        for &(symbol, times) in &added.terms {
            let times = times.checked_mul(factor)?;
            match sum.terms.binary_search_by_key(&symbol, |term| term.0) {
                Ok(at) => sum.terms[at].1 = sum.terms[at].1.checked_add(times)?,
                Err(at) => sum.terms.insert(at, (symbol, times)),
            }
        }
        sum.terms.retain(|term| term.1 != 0);
        sum.other = sum.other | added.other;
        sum.block = sum.block | added.block;
        sum.root = match (self.root, added.root) {
            (Some(root), None) | (None, Some(root)) if factor == 1 => Some(root),
            (root, None) => root,
            _ => None,
        };
        (sum.terms.len() <= MAX_TERMS).then_some(sum)
    }

    fn varies_like(&self, other: &Sum) -> bool {
        let parts = |sum: &Sum| (sum.thread.bits, sum.thread.row, sum.thread.plane);
        parts(self) == parts(other) && (self.other | other.other) == Sources::NONE
    }
}

/// An unknown.
#[derive(Clone, Copy)]
struct Symbol {
    /// It is a multiple of 2 to this power,
    align: u8,
    /// and so is what lies between two values that it has one after the other.
    step: u8,
}

pub(in crate::program) struct ThreadSums<'p, 'a> {
    program: &'p Program<'a>,
    known: Vec<Option<Sum>>,
    /// By register: what the first of several instructions writes.
    first: Vec<Option<Sum>>,
    /// By register: how many instructions write it.
    writes: Vec<u32>,
    symbols: Vec<Symbol>,
    /// The operands that are unknowns, behind the registers.
    operands: Vec<Arg>,
    /// By register: whether it is not negative.
    natural: Vec<bool>,
}

impl<'p, 'a> ThreadSums<'p, 'a> {
    pub fn new(program: &'p Program<'a>) -> ThreadSums<'p, 'a> {
        let count = program.registers.len();
        let still = Symbol {
            align: ANY_ALIGN,
            step: ANY_ALIGN,
        };
        let mut sums = ThreadSums {
            program,
            known: vec![None; count],
            first: vec![None; count],
            writes: vec![0; count],
            symbols: vec![still; count],
            operands: Vec::new(),
            natural: Vec::new(),
        };
        for block in &program.blocks {
            for step in &block.steps {
                program.step_effects(step, &mut |_| {}, &mut |reg| {
                    sums.writes[reg.index()] += 1;
                });
            }
            if let Terminator::Sync { instruction, .. } = &block.terminator {
                program.effects(instruction, &mut |_| {}, &mut |reg| {
                    sums.writes[reg.index()] += 1;
                });
            }
        }
        for round in 0.. {
            if !sums.round(round >= MAX_ROUNDS) {
                break;
            }
        }
        sums.natural = natural(program);
        sums
    }

    /// The sum that an address is.
    pub fn address(&mut self, base: Base, offset: i64) -> Sum {
        let unknown = Sum::opaque(Sources::THREAD | Sources::BLOCK);
        let sum = match base {
            Base::Reg(reg) => self.known[reg.index()].clone().unwrap_or(unknown),
            Base::Storage(storage) => self.variable(storage),
            Base::Absolute => Sum::number(0),
        };
        sum.plus(&Sum::number(offset), 1)
    }

    /// The power of 2 of which a term is a multiple, or that between two of its values.
    pub fn grain(&self, (symbol, factor): (u32, i64), in_time: bool) -> i64 {
        let Symbol { align, step } = self.symbols[symbol as usize];
        let power = if in_time { step } else { align };
        let grain = factor.checked_shl(power.into()).filter(|_| power < 32);
        grain.map_or(0, i64::saturating_abs)
    }

    /// Whether a term is not negative.
    pub fn is_natural(&self, (symbol, factor): (u32, i64)) -> bool {
        // Operands behind the registers are special registers and addresses.
        factor > 0 && self.natural.get(symbol as usize) != Some(&false)
    }

    fn variable(&mut self, storage: Storage) -> Sum {
        let sum = match storage {
            Storage::Shared(start) => Sum::number(start.into()),
            _ => self.unknown(
                Arg::Symbol(storage, ByteOffset::ZERO),
                ANY_ALIGN,
                Sources::NONE,
            ),
        };
        Sum {
            root: Some(Root::Variable(storage)),
            ..sum
        }
    }

    /// An operand that is the same at all times.
    fn unknown(&mut self, arg: Arg, align: u8, block: Sources) -> Sum {
        let at = self.operands.iter().position(|known| *known == arg);
        let at = at.unwrap_or_else(|| {
            self.operands.push(arg);
            self.symbols.push(Symbol {
                align: align.min(31),
                step: ANY_ALIGN,
            });
            self.operands.len() - 1
        });
        Sum::symbol((self.program.registers.len() + at) as u32, block)
    }

    /// Whether something has changed.
    fn round(&mut self, is_last: bool) -> bool {
        let program = self.program;
        let mut changed = false;
        for block in &program.blocks {
            for step in &block.steps {
                let (sum, to) = match step {
                    Step::Instruction(i) if !program.has_destination(i) => continue,
                    Step::Instruction(i) => match *program.list(i.args) {
                        // No address is computed from it.
                        [Arg::Reg(to), ..] if program.registers[to.index()].is_float() => {
                            (Some(self.memory()), Some(to))
                        }
                        [Arg::Reg(to), ..] => (self.result(i, to), Some(to)),
                        _ => (Some(self.memory()), None),
                    },
                    Step::SystemCall { .. } => (Some(self.memory()), None),
                };
                let Some(sum) = sum else { continue };
                match to {
                    Some(to) => changed |= self.meet(to, sum, is_last),
                    None => changed |= self.meet_all(step, &sum, is_last),
                }
            }
            if let Terminator::Sync { instruction, .. } = block.terminator {
                // All lanes may get the same, or each its own.
                let shared = matches!(instruction.opcode, O::Vote | O::Redux | O::Activemask);
                let step = Step::Instruction(instruction);
                let all = self.memory();
                let to = program.list(instruction.args).first();
                changed |= match to {
                    Some(&Arg::Reg(to)) if shared && program.has_destination(&instruction) => {
                        let sum = self.new_symbol(to, 0, 0, Sources::BLOCK);
                        self.meet(to, sum, is_last)
                    }
                    _ => self.meet_all(&step, &all, is_last),
                };
            }
        }
        changed
    }

    /// What comes from memory.
    fn memory(&self) -> Sum {
        Sum::opaque(Sources::THREAD | Sources::BLOCK)
    }

    fn new_symbol(&mut self, to: Reg, align: u8, step: u8, block: Sources) -> Sum {
        let symbol = &mut self.symbols[to.index()];
        symbol.align = symbol.align.min(align);
        symbol.step = symbol.step.min(step);
        Sum::symbol(to.0, block)
    }

    fn meet_all(&mut self, step: &Step, sum: &Sum, is_last: bool) -> bool {
        let mut written = Vec::new();
        self.program
            .step_effects(step, &mut |_| {}, &mut |reg| written.push(reg));
        let mut changed = false;
        for reg in written {
            changed |= self.meet(reg, sum.clone(), is_last);
        }
        changed
    }

    fn meet(&mut self, reg: Reg, sum: Sum, is_last: bool) -> bool {
        let at = reg.index();
        let Some(known) = self.known[at].clone() else {
            self.first[at] = Some(sum.clone());
            self.known[at] = Some(sum);
            return true;
        };
        if known == sum || known == self.memory() {
            return false;
        }
        if is_last {
            self.known[at] = Some(self.memory());
            return true;
        }
        if self.writes[at] == 1 {
            self.known[at] = Some(sum);
            return true;
        }
        if !known.varies_like(&sum) {
            let sources = known.sources() | sum.sources();
            let other = Sum {
                root: known.root.filter(|root| sum.root == Some(*root)),
                ..Sum::opaque(sources)
            };
            let changed = known != other;
            self.known[at] = Some(other);
            return changed;
        }
        let mut own = Sum {
            root: known.root.filter(|root| sum.root == Some(*root)),
            ..Sum::symbol(reg.0, known.block | sum.block)
        };
        own.thread = known.thread;
        own.thread.base = Number {
            offset: 0,
            ..Linear::number(0).base
        };
        // From what it had before, or from what it starts with.
        let is_next = sum.terms.iter().any(|term| term.0 == reg.0);
        let before = match self.first[at].as_ref() {
            Some(first) if !is_next => first,
            _ => &own,
        };
        let step = self.align_of(&sum.plus(before, -1));
        let align = if is_next {
            step
        } else {
            self.align_of(&sum).min(self.align_of(&known))
        };
        let symbol = &mut self.symbols[at];
        let (a, b) = (symbol.align.min(align), symbol.step.min(step));
        let changed = (symbol.align, symbol.step) != (a, b) || known != own;
        (symbol.align, symbol.step) = (a, b);
        self.known[at] = Some(own);
        changed
    }

    /// Of what the lanes of a warp have in common.
    fn align_of(&self, sum: &Sum) -> u8 {
        let of_term = |&(symbol, factor): &(u32, i64)| {
            let align = self.symbols[symbol as usize].align;
            (u32::from(align) + factor.trailing_zeros()).min(ANY_ALIGN.into()) as u8
        };
        let Linear {
            bits, row, plane, ..
        } = &sum.thread;
        let warps = bits[5..].iter().chain([row, plane]);
        let warps = warps.fold(sum.thread.base.offset, |all, part| all | i64::from(*part));
        let number = warps.trailing_zeros();
        let all = sum.terms.iter().map(of_term);
        all.fold(number.min(ANY_ALIGN.into()) as u8, u8::min)
    }

    pub fn operand(&mut self, arg: Arg) -> Option<Sum> {
        Some(match arg {
            Arg::Reg(reg) => self.known[reg.index()].clone()?,
            Arg::Not(reg) | Arg::Select { reg, .. } => {
                let sources = self.known[reg.index()].as_ref()?.sources();
                self.function(reg, sources)
            }
            Arg::Address(Base::Reg(reg), offset) => {
                let sum = self.known[reg.index()].as_ref()?;
                sum.plus(&Sum::number(offset.bytes()), 1)
            }
            Arg::Address(base, offset) => self.address(base, offset.bytes()),
            Arg::Symbol(storage, offset) => {
                self.variable(storage).plus(&Sum::number(offset.bytes()), 1)
            }
            Arg::Int(number) => Sum::number(number.cast_signed()),
            Arg::Special(register) => {
                let value = special(register, &Shape::default(), 1);
                match (value.is_uniform(), value.linear) {
                    (false, Some(linear)) => Sum {
                        thread: linear,
                        ..Sum::number(0)
                    },
                    (false, None) if register == S::Laneid => Sum {
                        thread: of_lane(),
                        ..Sum::number(0)
                    },
                    (false, None) => Sum::opaque(value.sources),
                    // Rows of whole warps: of others the lanes have addresses of their own, too.
                    (true, _) if register == S::NtidX => self.unknown(arg, 5, Sources::NONE),
                    (true, _) => self.unknown(arg, 0, value.sources.only(Sources::BLOCK)),
                }
            }
            Arg::Float(_) | Arg::Sink | Arg::List(_) => Sum::number(0),
        })
    }

    /// Some function of these sources, which a register has.
    fn function(&mut self, to: Reg, sources: Sources) -> Sum {
        if sources.any(Sources::LANES) {
            Sum::opaque(sources)
        } else {
            self.new_symbol(to, 0, 0, sources.only(Sources::BLOCK))
        }
    }

    /// The result of an instruction; `None` as long as an operand is not known.
    fn result(&mut self, i: &Instruction, to: Reg) -> Option<Sum> {
        let args = self.program.list(i.args).get(1..)?;
        let mut operands = Vec::with_capacity(args.len());
        for &arg in args {
            match arg {
                Arg::List(list) => {
                    for &part in self.program.list(list) {
                        operands.push(self.operand(part)?);
                    }
                }
                arg => operands.push(self.operand(arg)?),
            }
        }
        let copies = matches!(args, [Arg::Reg(_)]);
        match (i.opcode, operands.as_slice()) {
            (O::Ld | O::St, [value]) if copies => Some(value.clone()),
            (O::Ld | O::Ldu, _) => Some(self.loaded(i, args, &operands, to)),
            (O::Mul | O::Mad, [a, b, rest @ ..]) if is_product(i, [a, b]) => {
                let align = self.align_of(a).saturating_add(self.align_of(b));
                let block = (a.block | b.block).only(Sources::BLOCK);
                let align = align.min(ANY_ALIGN);
                let product = self.new_symbol(to, align, align, block);
                Some(rest.iter().fold(product, |sum, more| sum.plus(more, 1)))
            }
            _ => Some(match self.added(i, &operands) {
                Some(sum) => sum,
                None => self.computed(i, &operands, to),
            }),
        }
    }

    fn loaded(&mut self, i: &Instruction, args: &[Arg], operands: &[Sum], to: Reg) -> Sum {
        if let [Arg::Address(Base::Storage(Storage::Param(start)), offset)] = *args {
            let at = u32::try_from(i64::from(start) + offset.bytes()).ok();
            let root = at.filter(|_| self.program.registers[to.index()].bytes() == 8);
            let sum = self.new_symbol(to, 0, ANY_ALIGN, Sources::NONE);
            return Sum {
                root: root.map(Root::Param),
                ..sum
            };
        }
        let is_own = i.modifiers.has(M::Local);
        let is_same = operands.iter().all(Sum::is_uniform) && !i.meaning.strong && !is_own;
        if is_same {
            self.new_symbol(to, 0, 0, Sources::BLOCK)
        } else {
            self.memory()
        }
    }

    /// What adds its operands, or multiplies them by numbers.
    fn added(&self, i: &Instruction, operands: &[Sum]) -> Option<Sum> {
        let m = &i.modifiers;
        let is_word = |ty: Type| {
            use Type as T;
            matches!(ty, T::B32 | T::U32 | T::S32 | T::B64 | T::U64 | T::S64)
        };
        if !m.types().all(is_word) || m.has(M::Hi) || m.has(M::Sat) || i.meaning.carry_in {
            return None;
        }
        // `0xFFFFFFFC` is -4 to 32 bits.
        let ty = m.types().last()?;
        let wide = m.has(M::Wide);
        let is_signed = |place: usize| {
            if wide {
                ty == Type::S32 && place < 2
            } else {
                ty.bits() == 32
            }
        };
        let signed = |(place, sum): (usize, &Sum)| match sum.as_number() {
            Some(number) if is_signed(place) => Sum {
                root: sum.root,
                ..Sum::number(number << 32 >> 32)
            },
            _ => sum.clone(),
        };
        let operands: Vec<Sum> = operands.iter().enumerate().map(signed).collect();
        let zero = Sum::number(0);
        Some(match (i.opcode, operands.as_slice()) {
            (O::Mov | O::Cvta | O::Cvt, [a]) => a.clone(),
            (O::Add, [a, b]) => a.plus(b, 1),
            (O::Sub, [a, b]) => a.plus(b, -1),
            (O::Neg, [a]) => zero.plus(a, -1),
            (O::Shl, [a, by]) => {
                let by = by.as_number().filter(|by| (0..32).contains(by))?;
                zero.plus(a, 1 << by)
            }
            (O::Mul | O::Mad, [a, b, rest @ ..]) => {
                let product = match (a.as_number(), b.as_number()) {
                    (_, Some(factor)) => zero.plus(a, factor),
                    (Some(factor), _) => zero.plus(b, factor),
                    _ => return None,
                };
                rest.iter().fold(product, |sum, more| sum.plus(more, 1))
            }
            _ => return None,
        })
    }

    fn computed(&mut self, i: &Instruction, operands: &[Sum], to: Reg) -> Sum {
        let sources = operands.iter().map(Sum::sources);
        let sources = sources.fold(Sources::NONE, |all, one| all | one);
        let mut roots = operands.iter().filter_map(|operand| operand.root);
        let root = roots.next().filter(|_| roots.next().is_none());
        let is_linear = operands
            .iter()
            .all(|operand| operand.other == Sources::NONE);
        let of_each = |(symbol, sum): (u32, &Sum)| {
            let mut linear = sum.thread;
            if !sum.terms.is_empty() {
                linear.base.symbol = Some(symbol);
                let unknown = sum.terms.iter().map(|term| self.align_of_term(*term));
                linear.base.align = unknown.fold(ANY_ALIGN, u8::min);
            }
            Dependence {
                sources: sum.sources(),
                linear: Some(linear),
            }
        };
        let dependences: Vec<Dependence> = (1..).zip(operands).map(of_each).collect();
        let found = match i.meaning.result {
            Outcome::Linear if is_linear => {
                let (m, wrapping) = (&i.modifiers, Wrapping::Ignored);
                transfer(Outcome::Linear, i.opcode, m, &dependences, 0, wrapping).linear
            }
            Outcome::Linear | Outcome::Operands | Outcome::Compared => None,
            _ => return self.memory(),
        };
        let sum = match found {
            Some(mut linear) => {
                let mut sum = Sum::number(0);
                if linear.base.symbol.take().is_some() {
                    let align = linear.base.align;
                    sum = self.new_symbol(to, align, align, sources.only(Sources::BLOCK));
                }
                linear.base.align = Linear::number(0).base.align;
                sum.thread = linear;
                sum
            }
            None => self.function(to, sources),
        };
        Sum { root, ..sum }
    }

    fn align_of_term(&self, (symbol, factor): (u32, i64)) -> u8 {
        let align = self.symbols[symbol as usize].align;
        (u32::from(align) + factor.trailing_zeros()).min(ANY_ALIGN.into()) as u8
    }

    /// The registers whose sums have this unknown among their terms.
    pub fn dependents(&self) -> Vec<Vec<Reg>> {
        let mut dependents = vec![Vec::new(); self.program.registers.len()];
        for (reg, sum) in (0..).map(Reg).zip(&self.known) {
            for &(symbol, _) in sum.iter().flat_map(|sum| &sum.terms) {
                if let Some(all) = dependents.get_mut(symbol as usize)
                    && symbol != reg.0
                {
                    all.push(reg);
                }
            }
        }
        dependents
    }
}

fn of_lane() -> Linear {
    let mut linear = Linear::tid_x(None);
    linear.bits[5..].fill(0);
    linear
}

/// Whether it multiplies two values that the lanes of a warp have in common, none of them a number.
fn is_product(i: &Instruction, sides: [&Sum; 2]) -> bool {
    let integer = i.modifiers.types().all(|ty| {
        matches!(
            ty,
            Type::B32 | Type::U32 | Type::S32 | Type::B64 | Type::U64 | Type::S64
        )
    });
    let same = sides
        .iter()
        .all(|side| side.is_uniform() && side.as_number().is_none());
    integer && same && !i.modifiers.has(M::Hi) && !i.meaning.carry_in
}
