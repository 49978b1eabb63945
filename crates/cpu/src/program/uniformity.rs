//! Uniformity analysis: whether the threads of a lane group have the same value
//! in a register, values with a constant stride, or unrelated values.
//!
//! A lane group is a set of threads that differ in the low bits of `%tid.x` alone, so that
//! its first has a multiple of their number there. It takes every branch as a whole; where the
//! threads diverge, the scalar function takes over. So a value computed from uniform values
//! is uniform. The lattice, and what instructions make of it, is that of
//! [`analysis::dependence`].

use super::clamps::{Bound, Clamp, clamp, indices};
use super::ir::{
    Arg, Base, BlockId, Instruction, Program, Reg, RegClass, Step, Storage, Terminator,
};
use super::liveness::{Liveness, RegisterSet};
use super::together::{Together, together};
use analysis::dependence::{Dependence, Linear, Shape, Sources, Wrapping, special, transfer};
use ptx::isa::Outcome;
use ptx::names::{Modifier as M, Opcode as O, SpecialRegister as S, Type};

/// No large stride is contiguous.
const MAX_STRIDE: i32 = 1 << 20;

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
    fn of(dependence: &Dependence, class: RegClass, group: Group) -> Uniformity {
        if dependence.is_uniform() {
            return Uniformity::Uniform;
        }
        let has_stride = matches!(class, RegClass::I32 | RegClass::I64);
        match dependence.linear {
            Some(linear) if has_stride => {
                let stride = linear.bits[0];
                let mut bits = linear.bits[..group.lane_bits()].iter().zip(0..);
                let same = bits.all(|(part, bit)| stride.checked_mul(1 << bit) == Some(*part));
                match same && stride.abs() < MAX_STRIDE {
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
    const fn lane_bits(self) -> usize {
        match self {
            Group::HalfWarp => 4,
            Group::Warp => 5,
        }
    }
}

/// Unknowns in registers have no number: at another time, the same register holds another.
const UNKNOWN: u32 = 0;

const DIVERGENT: Dependence = Dependence::opaque(Sources::LANES);

/// A 32-bit affine value that must not wrap around within the lane group: otherwise
/// its extension to 64 bits is not affine. Nor may a clamp change it, if there is one: otherwise
/// the result of that is not affine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoWrap {
    pub reg: Reg,
    pub stride: i64,
    pub signed: bool,
    pub clamp: Option<Clamp>,
}

/// The result of the analysis, by register.
pub(crate) struct UniformityInfo {
    pub group: Group,
    /// The kernel multiplies matrices, whose registers are in slots: loads put them there.
    multiplies: bool,
    facts: Vec<Dependence>,
    registers: Vec<Uniformity>,
}

impl UniformityInfo {
    pub fn new(program: &Program<'_>, group: Group) -> UniformityInfo {
        let mut facts = Facts {
            program,
            group,
            indices: indices(program),
            // `None` is the optimistic start: a loop-carried register has the uniformity
            // of its initial value until the back edge says otherwise.
            known: vec![None; program.registers.len()],
        };
        let uniform = Dependence::uniform(Sources::NONE, UNKNOWN);
        // Registers that may be read before they are written are 0 in all threads.
        for reg in Liveness::new(program).live_in(BlockId(0)) {
            facts.known[reg.index()] = Some(uniform);
        }
        while facts.round() {}
        // What is never written is never read.
        let known = facts.known.into_iter();
        let facts: Vec<_> = known.map(|fact| fact.unwrap_or(uniform)).collect();
        let multiplies = program.blocks.iter().any(|block| match &block.terminator {
            Terminator::Sync { instruction, .. } => {
                instruction.is_matrix() && instruction.opcode != O::Ldmatrix
            }
            _ => false,
        });
        UniformityInfo {
            group,
            multiplies,
            registers: facts
                .iter()
                .zip(&program.registers)
                .map(|(fact, class)| Uniformity::of(fact, *class, group))
                .collect(),
            facts,
        }
    }

    pub fn of(&self, reg: Reg) -> Uniformity {
        self.registers[reg.index()]
    }

    /// Whether all threads of a lane group have the same in an operand.
    pub fn is_uniform(&self, program: &Program<'_>, arg: Arg) -> bool {
        let mut parts = Vec::new();
        let known = |reg: Reg| Some(self.facts[reg.index()]);
        let known = operand(program, arg, (self.group, &known), &mut parts);
        known.is_some() && parts.iter().all(Dependence::is_uniform)
    }

    /// The operand that must not wrap for the instruction's result to be affine.
    pub fn no_wrap(&self, program: &Program<'_>, i: &Instruction) -> Option<NoWrap> {
        let args = program.list(i.args);
        let Some(&Arg::Reg(to)) = args.first() else {
            return None;
        };
        let Uniformity::Affine(_) = self.of(to) else {
            return None;
        };
        if let Some(signed) = clamp(program, i) {
            return self.unclamped(i, args, signed);
        }
        let from = extended(i)?;
        let known = |reg: Reg| Some(self.facts[reg.index()]);
        let operands = operands(program, i, (self.group, &known))?;
        // It cannot wrap.
        if is_affine(&computed(i, &operands, Wrapping::Possible), self.group) {
            return None;
        }
        args[1..].iter().take(2).find_map(|&arg| match arg {
            Arg::Reg(reg) => match self.of(reg) {
                Uniformity::Affine(stride) => Some(NoWrap {
                    reg,
                    stride,
                    signed: from == Type::S32,
                    clamp: None,
                }),
                _ => None,
            },
            _ => None,
        })
    }

    /// What keeps the result of a minimum or maximum affine.
    fn unclamped(&self, i: &Instruction, args: &[Arg], signed: bool) -> Option<NoWrap> {
        let (mut affine, mut bound) = (None, None);
        for &arg in &args[1..] {
            match arg {
                Arg::Int(number) => bound = Some(Bound::Int(number)),
                Arg::Reg(reg) => match self.of(reg) {
                    Uniformity::Affine(stride) => affine = Some((reg, stride)),
                    _ => bound = Some(Bound::Reg(reg)),
                },
                _ => {}
            }
        }
        let (reg, stride) = affine?;
        Some(NoWrap {
            reg,
            stride,
            signed,
            clamp: Some(Clamp {
                at_least: i.opcode == O::Max,
                bound: bound?,
            }),
        })
    }

    /// Whether the lanes of a group execute this sync point where they stand.
    pub fn executes_together(&self, program: &Program<'_>, i: &Instruction) -> bool {
        let in_slots = self.multiplies && i.is_matrix();
        self.group == Group::Warp && !in_slots && together(program, i).is_some()
    }

    /// Whether the threads of a lane group may diverge at the end of a block.
    pub fn may_diverge(&self, program: &Program<'_>, block: BlockId) -> bool {
        match &program.blocks[block.index()].terminator {
            Terminator::Branch { predicate, .. } => self.of(predicate.reg) != Uniformity::Uniform,
            Terminator::Table { index, .. } => !self.is_uniform(program, *index),
            _ => false,
        }
    }
}

/// What is known so far of each register: of all its values, as a register is not followed
/// from block to block.
struct Facts<'p, 'a> {
    program: &'p Program<'a>,
    group: Group,
    /// The registers from which addresses are computed.
    indices: RegisterSet,
    known: Vec<Option<Dependence>>,
}

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

impl Facts<'_, '_> {
    /// Whether something has changed.
    fn round(&mut self) -> bool {
        let program = self.program;
        let mut changed = false;
        for block in &program.blocks {
            for step in &block.steps {
                let fact = match step {
                    Step::Instruction(i) => {
                        let known = |reg: Reg| self.known[reg.index()];
                        result(program, i, &self.indices, (self.group, &known))
                    }
                    Step::SystemCall { .. } => Some(DIVERGENT),
                };
                if let Some(fact) = fact {
                    program.step_effects(step, &mut |_| {}, &mut |reg| {
                        changed |= self.meet(reg, fact);
                    });
                }
            }
            if let Terminator::Sync { instruction, .. } = &block.terminator {
                let fact = self.synchronized(instruction);
                if let Some(fact) = fact {
                    program.effects(instruction, &mut |_| {}, &mut |reg| {
                        changed |= self.meet(reg, fact);
                    });
                }
            }
        }
        changed
    }

    /// The results of a sync point; `None` as long as an operand is unknown.
    fn synchronized(&self, i: &Instruction) -> Option<Dependence> {
        if self.group != Group::Warp {
            return Some(DIVERGENT);
        }
        let shared = match together(self.program, i) {
            Some(Together::Shared) => true,
            Some(Together::SharedFrom(lane)) => {
                let known = |reg: Reg| self.known[reg.index()];
                let mut parts = Vec::new();
                operand(self.program, lane, (self.group, &known), &mut parts)?;
                parts.iter().all(Dependence::is_uniform)
            }
            Some(Together::Each) | None => false,
        };
        Some(match shared {
            true => Dependence::uniform(Sources::NONE, UNKNOWN),
            false => DIVERGENT,
        })
    }

    fn meet(&mut self, reg: Reg, mut fact: Dependence) -> bool {
        if let Some(linear) = &mut fact.linear {
            linear.base.symbol = linear.base.symbol.map(|_| UNKNOWN);
        }
        let known = &mut self.known[reg.index()];
        let met = known.map_or(fact, |known| known.join(&fact, UNKNOWN));
        known.replace(met) != Some(met)
    }
}

/// What is known of a register.
type Known<'k> = (Group, &'k dyn Fn(Reg) -> Option<Dependence>);

/// The operands of an instruction without its destination; `None` as long as one is
/// unknown.
fn operands(program: &Program<'_>, i: &Instruction, known: Known<'_>) -> Option<Vec<Dependence>> {
    let mut operands = Vec::new();
    for &arg in program.list(i.args).get(1..)? {
        operand(program, arg, known, &mut operands)?;
    }
    Some(operands)
}

fn operand(
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
            fact.linear = fact.linear.and_then(|linear| linear.moved(offset));
            fact
        }
        Arg::Not(reg) | Arg::Select { reg, .. } => {
            Dependence::function(register(reg)?.sources, symbol)
        }
        Arg::Int(number) => Dependence::number(number.cast_signed()),
        // The lanes of a group are those of one warp.
        Arg::Special(S::TidX | S::Laneid) => {
            special(S::TidX, &Shape::default(), symbol).of_group(known.0.lane_bits(), symbol)
        }
        // There are lane groups only in blocks with a multiple of that many threads.
        Arg::Special(S::NtidX) => {
            let mut size = uniform;
            if let Some(linear) = &mut size.linear {
                linear.base.align = known.0.lane_bits() as u8;
            }
            size
        }
        Arg::Special(register) => {
            special(register, &Shape::default(), symbol).of_group(known.0.lane_bits(), symbol)
        }
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

/// How the result of an instruction depends on the lane; `None` as long as that of an
/// operand is unknown.
fn result(
    program: &Program<'_>,
    i: &Instruction,
    indices: &RegisterSet,
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
    if let Some(result) = clamped(program, i, (known.0, indices), &operands) {
        return Some(result);
    }
    let function = Dependence::function(sources, UNKNOWN);
    // A copy of a register that was a call parameter.
    let copies = matches!(args, [Arg::Reg(_), Arg::Reg(_)]);
    let mut result = match i.opcode {
        O::Ld | O::Ldu | O::St if copies => match widths_match(program, i) {
            true => operands.first().copied().unwrap_or(function),
            false => function,
        },
        O::Ld | O::Ldu => match args.get(1) {
            // Each thread has its own local frame.
            Some(&Arg::Address(base, _)) if is_local(i, base) => DIVERGENT,
            _ => function,
        },
        O::St => function,
        O::Isspacep => DIVERGENT,
        O::Cvta if i.modifiers.has(M::Local) => DIVERGENT,
        _ => match i.meaning.result {
            Outcome::Operands => function,
            Outcome::Linear | Outcome::Compared => {
                let scalar = !reads_divergent(program, i, known) && !i.meaning.carry_in;
                let same_widths = i.opcode != O::Cvt || widths_match(program, i);
                match scalar && same_widths {
                    true => linear(i, &operands, known.0),
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

fn computed(i: &Instruction, operands: &[Dependence], wrapping: Wrapping) -> Dependence {
    let result = i.meaning.result;
    transfer(result, i.opcode, &i.modifiers, operands, UNKNOWN, wrapping)
}

/// Whether it is uniform or has a stride.
fn is_affine(dependence: &Dependence, group: Group) -> bool {
    Uniformity::of(dependence, RegClass::I64, group) != Uniformity::Divergent
}

/// The type that an instruction extends to 64 bits.
fn extended(i: &Instruction) -> Option<Type> {
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
            let uniformity = known.1(reg).map(|fact| Uniformity::of(&fact, class, known.0));
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

fn is_local(i: &Instruction, base: Base) -> bool {
    i.modifiers.has(M::Local) || matches!(base, Base::Storage(Storage::Local(_)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::{build, module_data};
    use ptx::ast::Item;

    #[test]
    fn parts_of_the_index_of_a_thread() {
        let source = ".version 8.0\n.target sm_80\n.address_size 64\n.entry k() {
            .reg .b32 %r<16>; .reg .b64 %x<4>; .reg .pred %p<2>;
            mov.u32 %r0, %tid.x;
            and.b32 %r1, %r0, 31;
            shr.u32 %r2, %r0, 5;
            and.b32 %r3, %r0, -16;
            mov.u32 %r4, %ctaid.x; mov.u32 %r5, %ntid.x; mad.lo.s32 %r6, %r4, %r5, %r0;
            shr.s32 %r7, %r6, 4;
            xor.b32 %r8, %r0, 1;
            bfe.u32 %r9, %r0, 0, 5; shl.b32 %r10, %r9, 2;
            mul.lo.u32 %r11, %r0, %r4;
            add.s32 %r12, %r6, 3; shr.u32 %r13, %r12, 4;
            mov.u32 %r14, %laneid; mov.u32 %r15, %lanemask_lt;
            setp.lt.u32 %p0, %r1, 32; setp.lt.u32 %p1, %r1, 7;
            mul.wide.s32 %x0, %r6, 4; mul.wide.s32 %x1, %r12, 4;
            add.s64 %x2, %x0, %x1; cvt.u64.u32 %x3, %r8;
        }";
        let reading = ptx::read(source);
        let (data, _) = module_data(&reading.module, source);
        let Some(Item::Function(kernel)) = reading.module.items.first() else {
            panic!("no kernel");
        };
        let program = build(&data, kernel, kernel.body.as_ref().unwrap()).unwrap();
        let info = UniformityInfo::new(&program, Group::HalfWarp);
        use Uniformity::{Affine, Divergent, Uniform};
        let found: Vec<_> = (0..22).map(|reg| info.of(Reg(reg))).collect();
        let integers = [
            Affine(1),
            Affine(1),
            Uniform,
            Uniform,
            Uniform,
            Uniform,
            Affine(1),
            Uniform,
            Divergent,
            Affine(1),
            Affine(4),
            Divergent,
            Affine(1),
            Divergent,
            Affine(1),
            Divergent,
        ];
        assert_eq!(found[..16], integers);
        assert_eq!(found[16..20], [Affine(4), Affine(4), Affine(8), Divergent]);
        assert_eq!(found[20..], [Uniform, Divergent]);
        // The first index is a multiple of the group, so that nothing in it is carried.
        let steps = program.blocks.iter().flat_map(|block| &block.steps);
        let checks: Vec<_> = steps
            .filter_map(|step| match step {
                Step::Instruction(i) => info.no_wrap(&program, i),
                Step::SystemCall { .. } => None,
            })
            .collect();
        let check = NoWrap {
            reg: Reg(12),
            stride: 1,
            signed: true,
            clamp: None,
        };
        assert_eq!(checks, [check]);
    }
}
