//! How the results of instructions vary over the threads of a lane group, which differ in the low
//! bits of `%tid.x` alone, so that its first has a multiple of their number there. The lattice, and
//! what instructions make of it, is that of [`analysis::dependence`].

use std::collections::HashMap;

use super::butterflies::butterflies;
use super::clamps::{clamp, indices};
use super::ir::{Arg, Base, BlockId, Instruction, Program, Reg, RegClass, Storage};
use super::liveness::RegisterSet;
use analysis::dependence::{
    Dependence, Linear, Shape, Sources, WARP, Wrapping, exchanged, special, transfer,
};
use ptx::isa::Outcome;
use ptx::names::{Modifier as M, Opcode as O, SpecialRegister as S, Type};

/// No large stride is contiguous.
const MAX_STRIDE: u32 = 1 << 20;

/// How the value of a register varies over the threads of a lane group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Uniformity {
    /// All threads have the same value.
    Uniform,
    /// Thread `i` has the value of thread 0 plus `i` times this stride, modulo the
    /// register's width.
    Affine(i64),
    /// Nothing is known.
    Divergent,
}

impl Uniformity {
    /// That of a register of this class.
    pub(super) fn of(dependence: &Dependence, class: RegClass, group: Group) -> Uniformity {
        if dependence.is_uniform() {
            return Uniformity::Uniform;
        }
        let has_stride = matches!(class, RegClass::I32 | RegClass::I64);
        match dependence.linear {
            Some(linear) if has_stride => {
                let stride = linear.bits[0];
                let mut bits = linear.bits[..group.lane_bits()].iter().zip(0..);
                let same = bits.all(|(part, bit)| stride.checked_mul(1 << bit) == Some(*part));
                match same && stride.unsigned_abs() < MAX_STRIDE {
                    true => Uniformity::Affine(stride.into()),
                    false => Uniformity::Divergent,
                }
            }
            _ => Uniformity::Divergent,
        }
    }
}

/// The number of threads of a lane group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Group {
    HalfWarp,
    /// Its lanes execute the operations of [`together`] where they stand.
    Warp,
}

impl Group {
    /// The number of threads.
    pub const fn width(self) -> u32 {
        1 << self.lane_bits()
    }

    /// The bits of `%tid.x` in which they differ.
    pub(super) const fn lane_bits(self) -> usize {
        match self {
            Group::HalfWarp => 4,
            Group::Warp => 5,
        }
    }
}

/// Unknowns in registers have no number: at another time, the same register holds another.
pub(super) const UNKNOWN: u32 = 0;

pub(super) const DIVERGENT: Dependence = Dependence::opaque(Sources::LANES);

/// The minimum or maximum of an index and a bound: the index, unless it is clamped. Few are, at the
/// ends of a row; the scalar function runs those groups.
fn clamped(
    program: &Program<'_>,
    i: &Instruction,
    (group, indices): (Group, &RegisterSet),
    operands: &[Dependence],
) -> Option<Dependence> {
    clamp(program, i)?;
    let &[Arg::Reg(to), ..] = program.list(i.args) else {
        return None;
    };
    let (index, bound) = match operands {
        [a, b] if b.is_uniform() => (a, b),
        [a, b] if a.is_uniform() => (b, a),
        _ => return None,
    };
    if !indices.contains(to) || index.is_uniform() || !is_affine(index, group) {
        return None;
    }
    let mut result = *index;
    result.sources = index.sources | bound.sources;
    if let Some(linear) = &mut result.linear {
        let mut unknown = Linear::symbol(UNKNOWN, 0);
        unknown.bits = linear.bits;
        *linear = unknown;
    }
    Some(result)
}

/// What is recognized in a program before its facts are known.
pub(super) struct Idioms {
    /// The registers from which addresses are computed.
    pub indices: RegisterSet,
    /// See [`butterflies`](super::butterflies::butterflies).
    pub butterflies: HashMap<(BlockId, usize), u32>,
}

impl Idioms {
    pub fn of(program: &Program<'_>) -> Idioms {
        Idioms {
            indices: indices(program),
            butterflies: butterflies(program),
        }
    }
}

/// What is known of a register.
type Known<'k> = (View, &'k dyn Fn(Reg) -> Option<Dependence>);

/// What is asked for of the lanes of a group.
#[derive(Clone, Copy)]
pub(super) struct View {
    pub group: Group,
    /// What each computes for itself, too: that is linear in all bits of `%tid.x`, by which the
    /// bits of sums are known.
    pub of_each: bool,
}

impl View {
    fn of(self, dependence: Dependence, symbol: u32) -> Dependence {
        match self.of_each && dependence.linear.is_some() {
            true => dependence,
            false => dependence.of_group(self.group.lane_bits(), symbol),
        }
    }
}

/// The operands of an instruction without its destination; `None` as long as one is
/// unknown.
pub(super) fn operands(
    program: &Program<'_>,
    i: &Instruction,
    known: Known<'_>,
) -> Option<Vec<Dependence>> {
    let mut operands = Vec::new();
    for &arg in program.list(i.args).get(1..)? {
        operand(program, arg, known, &mut operands)?;
    }
    Some(operands)
}

pub(super) fn operand(
    program: &Program<'_>,
    arg: Arg,
    known: Known<'_>,
    operands: &mut Vec<Dependence>,
) -> Option<()> {
    // Each has an unknown of its own.
    let symbol = operands.len() as u32 + 1;
    let uniform = Dependence::uniform(Sources::NONE, symbol);
    let register = |reg: Reg| {
        let mut fact = known.1(reg)?;
        if let Some(linear) = &mut fact.linear {
            linear.base.symbol = linear.base.symbol.map(|_| symbol);
        }
        Some(fact)
    };
    operands.push(match arg {
        Arg::Reg(reg) => register(reg)?,
        Arg::Address(Base::Reg(reg), offset) => {
            let mut fact = register(reg)?;
            fact.linear = fact.linear.and_then(|linear| linear.moved(offset.bytes()));
            fact
        }
        Arg::Not(reg) | Arg::Select { reg, .. } => {
            Dependence::function(register(reg)?.sources, symbol)
        }
        Arg::Int(number) => Dependence::number(number.cast_signed()),
        Arg::Symbol(Storage::Shared(base), offset) if program.counts_in_shared => {
            Dependence::number(i64::from(base).wrapping_add(offset.bytes()))
        }
        Arg::Special(S::Laneid) if known.0.group == Group::Warp => {
            let lane = special(S::TidX, &Shape::of(WARP, 1, 1), symbol);
            known.0.of(lane, symbol)
        }
        // The lanes of a group are half of a warp, and it is not known which.
        Arg::Special(S::Laneid) => {
            let mut linear = Linear::symbol(symbol, 4);
            linear.bits[..4].copy_from_slice(&[1, 2, 4, 8]);
            let sources = linear.sources();
            let linear = Some(linear);
            known.0.of(Dependence { sources, linear }, symbol)
        }
        // There are lane groups only in blocks with a multiple of that many threads.
        Arg::Special(S::NtidX) => {
            let mut size = uniform;
            if let Some(linear) = &mut size.linear {
                linear.base.align = known.0.group.lane_bits() as u8;
            }
            size
        }
        Arg::Special(register) => known
            .0
            .of(special(register, &Shape::default(), symbol), symbol),
        Arg::Float(_) | Arg::Symbol(..) | Arg::Address(..) => uniform,
        Arg::List(list) => {
            for &part in program.list(list) {
                operand(program, part, known, operands)?;
            }
            return Some(());
        }
        Arg::Sink => return Some(()),
    });
    Some(())
}

/// How the result of an instruction in this place depends on the lane; `None` as long as that of an
/// operand is unknown.
pub(super) fn result(
    program: &Program<'_>,
    (place, i): ((BlockId, usize), &Instruction),
    idioms: &Idioms,
    known: Known<'_>,
) -> Option<Dependence> {
    let args = program.list(i.args);
    if !program.has_destination(i) {
        return None;
    }
    let operands = operands(program, i, known)?;
    let mut sources = operands
        .iter()
        .fold(Sources::NONE, |all, operand| all | operand.sources);
    if i.meaning.carry_in
        && let Some(carry) = program.carry
    {
        sources = sources | known.1(carry)?.sources;
    }
    if let Some(result) = clamped(program, i, (known.0.group, &idioms.indices), &operands) {
        return Some(result);
    }
    let function = Dependence::function(sources, UNKNOWN);
    // A copy of a register that was a call parameter.
    let copies = matches!(args, [Arg::Reg(_), Arg::Reg(_)]);
    let butterfly = idioms.butterflies.get(&place);
    let mut result = match i.opcode {
        _ if let Some(&bit) = butterfly => exchanged(&function, bit, UNKNOWN),
        O::Ld | O::Ldu | O::St if copies => match widths_match(program, i) {
            true => operands.first().copied().unwrap_or(function),
            false => function,
        },
        O::Ld | O::Ldu => match args.get(1) {
            // Each thread has its own local frame.
            Some(&Arg::Address(base, _)) if is_local(i, base) => DIVERGENT,
            // Lanes that read one address read it one after the other.
            _ if is_read_anew(i) && !function.is_uniform() => DIVERGENT,
            _ => function,
        },
        O::St => function,
        O::Isspacep => DIVERGENT,
        O::Cvta if i.modifiers.has(M::Local) => DIVERGENT,
        _ => match i.meaning.result {
            Outcome::Operands => function,
            Outcome::Linear | Outcome::Compared => {
                // The result of an extension is linear where a check says that nothing wraps.
                let of_each = known.0.of_each && extended(i).is_none();
                let scalar =
                    (of_each || !reads_divergent(program, i, known)) && !i.meaning.carry_in;
                let same_widths = i.opcode != O::Cvt || widths_match(program, i);
                match scalar && same_widths {
                    true => linear(i, &operands, known.0.group),
                    false => function,
                }
            }
            // These are sync points, but for those that are not supported.
            Outcome::Shuffled | Outcome::Warp | Outcome::Active | Outcome::Block => DIVERGENT,
            Outcome::Lane | Outcome::Thread => DIVERGENT,
        },
    };
    if !matches!(args, [Arg::Reg(_), ..]) {
        // Each is a part of it.
        result = Dependence::function(result.sources, UNKNOWN);
    }
    if let Some(guard) = i.guard {
        // Some threads keep the old value.
        let old = match args.first() {
            Some(&Arg::Reg(reg)) => known.1(reg),
            _ => None,
        };
        let old = old.map_or(Sources::NONE, |old| old.sources);
        let sources = result.sources | known.1(guard.reg)?.sources | old;
        result = Dependence::function(sources, UNKNOWN);
    }
    if known.0.of_each {
        result = known.0.of(result, UNKNOWN);
    }
    Some(result)
}

/// The result of integer arithmetic or of a comparison. Where an affine value is extended,
/// it is affine as long as it does not wrap.
fn linear(i: &Instruction, operands: &[Dependence], group: Group) -> Dependence {
    let result = computed(i, operands, Wrapping::Possible);
    if extended(i).is_none() || is_affine(&result, group) {
        return result;
    }
    let mut operands = operands.to_vec();
    for (operand, symbol) in operands.iter_mut().take(2).zip(1..) {
        if let Some(linear) = &mut operand.linear
            && !linear.is_uniform()
        {
            let mut unknown = Linear::symbol(symbol, 0);
            unknown.bits = linear.bits;
            *linear = unknown;
        }
    }
    computed(i, &operands, Wrapping::Ignored)
}

pub(super) fn computed(i: &Instruction, operands: &[Dependence], wrapping: Wrapping) -> Dependence {
    let result = i.meaning.result;
    transfer(result, i.opcode, &i.modifiers, operands, UNKNOWN, wrapping)
}

/// Whether it is uniform or has a stride.
pub(super) fn is_affine(dependence: &Dependence, group: Group) -> bool {
    Uniformity::of(dependence, RegClass::I64, group) != Uniformity::Divergent
}

/// The type that an instruction extends to 64 bits.
pub(crate) fn extended(i: &Instruction) -> Option<Type> {
    let types: Vec<Type> = i.modifiers.types().collect();
    match (i.opcode, types.as_slice()) {
        (O::Cvt, [to, from]) if to.bits() > from.bits() => Some(*from),
        (O::Mul | O::Mad, [ty]) if i.modifiers.has(M::Wide) => Some(*ty),
        _ => None,
    }
}

/// Whether an instruction reads a register that has a value for each thread: its result
/// cannot be computed once.
fn reads_divergent(program: &Program<'_>, i: &Instruction, known: Known<'_>) -> bool {
    let mut divergent = false;
    for &arg in program.list(i.args).get(1..).unwrap_or_default() {
        program.registers_of(arg, &mut |reg| {
            let class = program.registers[reg.index()];
            let uniformity = known.1(reg).map(|fact| Uniformity::of(&fact, class, known.0.group));
            divergent |= uniformity == Some(Uniformity::Divergent);
        });
    }
    divergent
}

/// Whether the registers of a conversion, or of a load of a call parameter, have the
/// widths of its types. A wider register holds an extended value, for which strides
/// and [`NoWrap`] are not computed.
fn widths_match(program: &Program<'_>, i: &Instruction) -> bool {
    let types: Vec<Type> = i.modifiers.types().collect();
    program.list(i.args).iter().enumerate().all(|(n, &arg)| {
        let ty = types.get(n).or(types.last());
        match arg {
            Arg::Reg(reg) => {
                let bits = u64::from(program.registers[reg.index()].bytes()) * 8;
                ty.is_some_and(|ty| u64::from(ty.bits()) == bits)
            }
            _ => true,
        }
    })
}

/// Whether another thread may be changing what a load reads.
fn is_read_anew(i: &Instruction) -> bool {
    i.meaning.strong || i.modifiers.has(M::Cv)
}

fn is_local(i: &Instruction, base: Base) -> bool {
    i.modifiers.has(M::Local) || matches!(base, Base::Storage(Storage::Local(_)))
}
