//! The vectorizer's cost model: how each instruction is lowered for a lane group,
//! and whether a vector function is worth its compile time.

use super::host::HostIsa;
use super::{async_copy, convert};
use crate::program::{
    Arg, Base, BasicBlock, Group, Instruction, Program, Reg, RegClass, Step, Terminator,
    Uniformity, UniformityInfo, block_frequencies, pass, together, unroll_shuffle_loops,
};
use ptx::isa::Effect;
use ptx::names::{Modifier as M, Opcode as O, SpecialRegister as S, Type as P};

/// When a kernel gets a vector function, which runs several consecutive threads at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Vectorization {
    /// If it is likely to be faster, once the kernel has run for a while. Optimized code
    /// takes several times as long to compile. That happens in the background while the
    /// kernel runs in code that was compiled quickly.
    #[default]
    WhenHot,
    /// Immediately, if it is likely to be faster.
    Auto,
    /// Whenever it is possible.
    Always,
    /// Never: the smallest binary and the fastest compilation.
    Never,
}

/// How an instruction is lowered for a lane group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lowering {
    /// Once, for a uniform or affine result.
    Uniform,
    /// One SIMD instruction for each vector of the group.
    Widened,
    /// A load or store of consecutive addresses: vector loads or stores.
    Contiguous,
    /// Once, for the first lane: a result that all lanes share, of operands that differ.
    FirstLane,
    /// Once, for the last lane: a store to an address that all lanes share.
    LastLane,
    /// Once for each lane.
    Scalarized,
}

/// The uniformity of registers in a lane group, if the kernel gets a vector function, for which
/// its loops over shuffles are unrolled.
pub(super) fn choose(
    program: &mut Program<'_>,
    host: &HostIsa,
    vectorization: Vectorization,
) -> Option<UniformityInfo> {
    // Cranelift's vectors need SSE4.1 on x86.
    if matches!(vectorization, Vectorization::Never | Vectorization::WhenHot) || !host.has_rounding
    {
        return None;
    }
    // Rows of blocks are whole groups.
    let has_groups = |[x, ..]: [u32; 3]| x.is_multiple_of(Group::HalfWarp.width());
    if !program.block.is_none_or(has_groups) {
        return None;
    }
    unroll_shuffle_loops(program);
    pass::done(program, "shuffle_loops");
    let program = &*program;
    let mut uniformity = UniformityInfo::new(program, group_for(program, host));
    if program.required_threads.is_none()
        && program
            .block
            .is_none_or(|[x, ..]| x.is_multiple_of(Group::Warp.width()))
        && !host.is_sanitized
        && streams(program, &uniformity, host.has_fma)
    {
        uniformity = UniformityInfo::new(program, Group::Warp);
    }
    // Divergence at a jump table has no lowering.
    let divergent_table = program.blocks.iter().any(|b| match &b.terminator {
        Terminator::Table { index, .. } => !uniformity.is_uniform(program, *index),
        _ => false,
    });
    if divergent_table {
        return None;
    }
    let frequencies = block_frequencies(program);
    let width = u64::from(uniformity.group.width());
    let copies_by_lane = |step: &Step| match step {
        Step::Instruction(i) => async_copy::by_lane(program, i).is_some(),
        Step::SystemCall { .. } => false,
    };
    // Estimated run time of a lane group, vectorized and scalar; size of vector code.
    let (mut vector, mut scalar, mut code) = (0, 0, 0);
    for (block, frequency) in program.blocks.iter().zip(frequencies) {
        for step in &block.steps {
            let memory = matches!(step, Step::Instruction(i)
                if matches!(i.opcode, O::Ld | O::Ldu | O::St | O::Atom | O::Red | O::Cp));
            let cost_of_one = if memory { 4 } else { 1 };
            let cost = match lowering(program, &|r| uniformity.of(r), step, host.has_fma) {
                Lowering::Uniform | Lowering::FirstLane | Lowering::LastLane => cost_of_one,
                Lowering::Widened | Lowering::Contiguous => width / 4 + cost_of_one,
                // One call.
                Lowering::Scalarized if copies_by_lane(step) => width + cost_of_one,
                // Most are checked for all lanes at once.
                Lowering::Scalarized if memory => width * 2,
                // Extracting and inserting lanes costs, too.
                Lowering::Scalarized => width * (cost_of_one + 1),
            };
            vector += cost * frequency;
            scalar += width * cost_of_one * frequency;
            code += cost;
        }
        if let Terminator::Sync { instruction, .. } = &block.terminator {
            // The group stops as a whole. An operation on matrices runs outside of the function.
            let is_common =
                matches!(instruction.opcode, O::Bar | O::Barrier) || instruction.is_matrix();
            let cost = match is_common {
                _ if uniformity.executes_together(program, instruction) => width / 4 * 3,
                true => 8,
                false => width * 6,
            };
            vector += cost * frequency;
            scalar += width * 6 * frequency;
            code += cost;
        }
    }
    let pays = vector * 2 < scalar && code < MAX_CODE * width / 16;
    (pays || vectorization == Vectorization::Always).then_some(uniformity)
}

/// Whole warps, if the kernel has operations that their lanes execute together, unless its
/// blocks have rows of half warps.
fn group_for(program: &Program<'_>, host: &HostIsa) -> Group {
    // Operations on matrices are executed outside of the function then.
    let multiplies = UniformityInfo::multiplies(program);
    let shares = |block: &BasicBlock| match &block.terminator {
        // A barrier alone gains nothing.
        Terminator::Sync { instruction, .. } => {
            together(program, instruction).is_some()
                && instruction.opcode != O::Bar
                && !(multiplies && instruction.is_matrix())
        }
        _ => false,
    };
    let width = Group::Warp.width();
    let whole = match (program.required_threads, program.block) {
        (Some([x, ..]), _) if !multiplies => x.is_multiple_of(width),
        (_, Some([x, ..])) if !x.is_multiple_of(width) => false,
        _ => program.blocks.iter().any(shares),
    };
    match whole && !host.is_sanitized {
        true => Group::Warp,
        false => Group::HalfWarp,
    }
}

/// Whether a kernel over one dimension mostly loads and stores consecutive values. With whole
/// warps it does so in runs of 128 bytes: the threads of a grid that goes on by its own size
/// stride through memory, and runs of one cache line are not prefetched there. Other kernels keep
/// more values, for which half warps have enough vector registers.
fn streams(program: &Program<'_>, uniformity: &UniformityInfo, has_fma: bool) -> bool {
    let (mut accesses, mut widened) = (0, 0);
    for (block, frequency) in program.blocks.iter().zip(block_frequencies(program)) {
        if matches!(block.terminator, Terminator::Sync { .. }) {
            return false;
        }
        for step in &block.steps {
            let Step::Instruction(i) = step else {
                return false;
            };
            // Such blocks often have rows of half warps.
            let is_plane = |arg: &Arg| matches!(arg, Arg::Special(S::TidY | S::TidZ));
            if program.list(i.args).iter().any(is_plane) {
                return false;
            }
            match lowering(program, &|reg| uniformity.of(reg), step, has_fma) {
                Lowering::Uniform => {}
                Lowering::Contiguous => accesses += frequency,
                Lowering::Widened => widened += frequency,
                Lowering::FirstLane | Lowering::LastLane | Lowering::Scalarized => return false,
            }
        }
    }
    accesses > 0 && widened <= accesses * MAX_WIDENED
}

/// Of a kernel that streams: vector instructions for each access.
const MAX_WIDENED: u64 = 4;

/// The largest vector function for half warps, in the cost model's units: larger ones take long to
/// compile, and their values do not fit the registers.
const MAX_CODE: u64 = 3840;

/// The lowering of a step for a lane group whose registers have this uniformity.
pub(super) fn lowering(
    program: &Program<'_>,
    uniformity_of: &dyn Fn(Reg) -> Uniformity,
    step: &Step,
    has_fma: bool,
) -> Lowering {
    let Step::Instruction(i) = step else {
        return Lowering::Scalarized;
    };
    let args = program.list(i.args);
    let mut written = Vec::new();
    program.effects(i, &mut |_| {}, &mut |reg| written.push(reg));
    let uniform = written
        .iter()
        .all(|&reg| uniformity_of(reg) != Uniformity::Divergent);
    match i.meaning.effect {
        Effect::Store if !program.has_destination(i) => {
            return match args {
                [Arg::Address(Base::Reg(base), _), Arg::Reg(value)]
                    if is_last_store(program, uniformity_of, i, *base, *value) =>
                {
                    Lowering::LastLane
                }
                [Arg::Address(base, _), value]
                    if is_contiguous(program, uniformity_of, i, *base, *value) =>
                {
                    Lowering::Contiguous
                }
                _ => Lowering::Scalarized,
            };
        }
        Effect::Load if !uniform => {
            return match args {
                [to, Arg::Address(base, _)]
                    if is_contiguous(program, uniformity_of, i, *base, *to) =>
                {
                    Lowering::Contiguous
                }
                [_, Arg::Reg(_)] if is_widenable(program, i, has_fma) => Lowering::Widened,
                _ => Lowering::Scalarized,
            };
        }
        Effect::Update => return Lowering::Scalarized,
        // Copies are complete where they stand.
        Effect::Effectful if i.opcode == O::Cp && async_copy::is_wait(i) => {
            return Lowering::Uniform;
        }
        Effect::Effectful if i.opcode == O::Cp => {
            return match async_copy::is_contiguous(program, uniformity_of, i) {
                true => Lowering::Contiguous,
                false => Lowering::Scalarized,
            };
        }
        // Each thread does it with its own operands.
        Effect::Effectful if !args.is_empty() => return Lowering::Scalarized,
        Effect::Store | Effect::Load | Effect::Effectful => {}
        Effect::Pure | Effect::Fetch => {}
        // These are terminators.
        Effect::Jump
        | Effect::Table
        | Effect::Return
        | Effect::Exit
        | Effect::Trap
        | Effect::Call => {}
    }
    let is_divergent = |&reg: &Reg| uniformity_of(reg) == Uniformity::Divergent;
    let moves_halves = convert::halves(program, i).is_some() && written.iter().all(is_divergent);
    let mut read = Vec::new();
    program.effects(i, &mut |reg| read.push(reg), &mut |_| {});
    if uniform && i.meaning.effect == Effect::Pure && read.iter().any(is_divergent) {
        Lowering::FirstLane
    } else if uniform {
        Lowering::Uniform
    } else if moves_halves || is_widenable(program, i, has_fma) {
        Lowering::Widened
    } else {
        Lowering::Scalarized
    }
}

/// Whether all threads store to one address, where that of the last stays.
fn is_last_store(
    program: &Program<'_>,
    uniformity_of: &dyn Fn(Reg) -> Uniformity,
    i: &Instruction,
    base: Reg,
    value: Reg,
) -> bool {
    let class = program.registers[value.index()];
    let is_plain = i.modifiers.first_of(&[M::Shared, M::SharedCta, M::Global]);
    let orders = [M::Volatile, M::Relaxed, M::Release, M::Mmio, M::Async];
    is_plain.is_some()
        && i.modifiers.first_of(&orders).is_none()
        && class != RegClass::Pred
        && uniformity_of(base) == Uniformity::Uniform
}

/// Whether the threads load or store consecutive addresses.
fn is_contiguous(
    program: &Program<'_>,
    uniformity_of: &dyn Fn(Reg) -> Uniformity,
    i: &Instruction,
    base: Base,
    value: Arg,
) -> bool {
    let Some(ty) = i.modifiers.types().next() else {
        return false;
    };
    let Base::Reg(base) = base else { return false };
    let bytes = ty.bytes();
    let Arg::Reg(value) = value else { return false };
    let class = program.registers[value.index()];
    let has_width = u64::from(class.bytes()) == bytes && matches!(bytes, 4 | 8);
    // These are extended to lanes of 32 bits, or stored from them. A half has its upper bits 0.
    let is_global = i.modifiers.first_of(&[M::Shared, M::SharedCta]).is_none();
    let is_extended = matches!(
        (class, ty),
        (
            RegClass::I32 | RegClass::I16,
            P::U8 | P::B8 | P::U16 | P::B16
        ) | (RegClass::I32, P::S8 | P::S16)
    );
    let is_half = class == RegClass::I16 && bytes == 2;
    let fits = has_width || is_extended && is_global && (i.opcode != O::St || is_half);
    let ordered = i
        .modifiers
        .first_of(&[
            M::V2,
            M::V4,
            M::V8,
            M::Local,
            M::Param,
            M::SharedCluster,
            M::Volatile,
            M::Relaxed,
            M::Acquire,
            M::Release,
            M::Mmio,
        ])
        .is_some();
    fits && !ordered && uniformity_of(base) == Uniformity::Affine(bytes.cast_signed())
}

/// Whether there is a SIMD instruction, whose operands and result have one width.
fn is_widenable(program: &Program<'_>, i: &Instruction, has_fma: bool) -> bool {
    let m = &i.modifiers;
    let mut types = m.types();
    let Some(ty) = types.next() else { return false };
    let second = types.next();
    let args = program.list(i.args);
    if let Some(is_widenable) = is_half_widenable(program, i, (ty, second)) {
        return is_widenable;
    }
    let classes = |bytes: u32| {
        args.iter().all(|arg| match arg {
            Arg::Reg(reg) | Arg::Not(reg) => {
                let class = program.registers[reg.index()];
                class != RegClass::I16 && (class == RegClass::Pred || class.bytes() == bytes)
            }
            Arg::Int(_) | Arg::Float(_) | Arg::Symbol(..) => true,
            _ => false,
        })
    };
    let bytes = match ty {
        P::Pred => 4,
        _ => ty.bytes() as u32,
    };
    if !matches!(bytes, 4 | 8) || !classes(bytes) {
        return false;
    }
    // Vectors of predicates have lanes of 32 bits.
    let predicates = args.iter().any(|arg| match arg {
        Arg::Reg(reg) | Arg::Not(reg) => program.registers[reg.index()] == RegClass::Pred,
        _ => false,
    }) || i.guard.is_some();
    if predicates && bytes == 8 {
        return false;
    }
    if m.first_of(&[M::Cc, M::Hi, M::Wide, M::Rz, M::Rm, M::Rp])
        .is_some()
    {
        return false;
    }
    if m.first_of(&[M::Approx, M::Full]).is_some() {
        let known = matches!(i.opcode, O::Div | O::Rcp | O::Sqrt | O::Ex2);
        return known && ty == P::F32;
    }
    let float = matches!(ty, P::F32 | P::F64);
    let packed = matches!(
        ty,
        P::F16x2 | P::Bf16x2 | P::U16x2 | P::S16x2 | P::U8x4 | P::S8x4 | P::F32x2
    );
    match i.opcode {
        _ if packed => false,
        O::Mov => true,
        O::Ld | O::Ldu | O::St => true,
        O::And | O::Or | O::Xor | O::Not => true,
        O::Add | O::Sub => float || !m.has(M::Sat),
        O::Mul => float || bytes == 4,
        O::Mad => float && has_fma || !float && bytes == 4 && !m.has(M::Sat),
        O::Fma => has_fma,
        O::Div | O::Sqrt => float,
        O::Neg | O::Abs => float || bytes == 4,
        O::Min | O::Max => bytes == 4 && !m.has(M::Abs) && args.len() == 3,
        O::Shl | O::Shr => bytes == 4 && matches!(args.get(2), Some(Arg::Int(_))),
        O::Lop3 => m.first_of(&[M::And, M::Or]).is_none(),
        O::Setp => bytes == 4 && args.iter().all(|arg| !matches!(arg, Arg::List(_))),
        O::Selp => bytes == 4,
        O::Cvt => match (ty, second) {
            (P::F32, Some(P::S32 | P::U32)) => true,
            (P::S32 | P::U32, Some(P::F32)) => m.has(M::Rzi),
            (P::U32 | P::S32 | P::B32, Some(P::U32 | P::S32 | P::B32)) => !m.has(M::Sat),
            _ => false,
        },
        _ => false,
    }
}

/// Whether there are SIMD instructions for an instruction on values of 16 bits, which have lanes of
/// 32 bits with zeros above. `None` for other instructions.
fn is_half_widenable(
    program: &Program<'_>,
    i: &Instruction,
    (ty, second): (P, Option<P>),
) -> Option<bool> {
    let is_move = i.opcode == O::Mov && matches!(ty, P::B16 | P::U16 | P::S16);
    let (to, from) = match (i.opcode, ty, second) {
        _ if is_move => (2, 2),
        (O::Cvt, P::F32, Some(P::F16)) => (4, 2),
        (O::Cvt, P::F16, Some(P::F32)) => (2, 4),
        (O::Cvt, P::U32 | P::S32 | P::B32, Some(P::U16 | P::B16)) => (4, 2),
        _ => return None,
    };
    let has_bytes = |arg: Option<&Arg>, bytes: u32| match arg {
        Some(Arg::Reg(reg)) => {
            let class = program.registers[reg.index()];
            class != RegClass::Pred && class.bytes() == bytes
        }
        Some(Arg::Int(_)) => is_move,
        _ => false,
    };
    let args = program.list(i.args);
    let others = [M::Rz, M::Rm, M::Rp, M::Sat, M::Satfinite, M::Relu, M::Ftz];
    let plain = i.modifiers.first_of(&others).is_none();
    Some(plain && args.len() == 2 && has_bytes(args.first(), to) && has_bytes(args.get(1), from))
}

/// Whether others can see what a step does.
pub(super) fn has_effect(step: &Step) -> bool {
    match step {
        Step::Instruction(i) => !matches!(
            i.meaning.effect,
            Effect::Pure | Effect::Load | Effect::Fetch
        ),
        Step::SystemCall { .. } => true,
    }
}

/// Whether its registers have lanes of 32 bits.
pub(super) fn is_narrow(program: &Program<'_>, i: &Instruction) -> bool {
    let mut wide = false;
    let registers = &program.registers;
    program.effects(
        i,
        &mut |reg| wide |= registers[reg.index()].bytes() > 4,
        &mut |_| {},
    );
    program.effects(i, &mut |_| {}, &mut |reg| {
        wide |= registers[reg.index()].bytes() > 4
    });
    !wide
}
