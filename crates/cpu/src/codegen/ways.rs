//! Which instructions a group of threads can run together, and whether that pays.

use super::Host;
use crate::Lanes;
use crate::program::{
    Arg, Base, Class, Instruction, Program, Reg, Shape, Shapes, Step, Terminator, weights,
};
use ptx::names::{Modifier as M, Opcode as O, Type as P};

/// How an instruction is written for a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Once.
    Once,
    /// Vector by vector.
    Vectors,
    /// A load or store of neighbouring values, vector by vector.
    Neighbours,
    /// Thread by thread.
    Singly,
}

/// Is a function of several lanes worth its compile time, and how many should
/// run together?
pub(super) fn choose(program: &Program<'_>, host: &Host, lanes: Lanes) -> Option<(u32, Shapes)> {
    // Cranelift's vectors need SSE4.1 on x86.
    if matches!(lanes, Lanes::Never | Lanes::WhenHot) || !host.has_rounding {
        return None;
    }
    let shapes = Shapes::new(program);
    let part_ways = program.blocks.iter().any(|b| match &b.terminator {
        Terminator::Table { index, .. } => shapes.arg(program, *index) != Shape::Uniform,
        _ => false,
    });
    if part_ways {
        return None;
    }
    let weights = weights(program);
    let loops = weights.iter().any(|&weight| weight > 1);
    let width = u64::from(WIDTH);
    // How long a group takes together and one by one; how much code together is.
    let (mut together, mut apart, mut code) = (0, 0, 0);
    for (block, weight) in program.blocks.iter().zip(weights) {
        for step in &block.steps {
            let memory = matches!(step, Step::Instruction(i)
                if matches!(i.opcode, O::Ld | O::Ldu | O::St | O::Atom | O::Red | O::Cp));
            let alone = if memory { 4 } else { 1 };
            let cost = match way(program, &|r| shapes.of(r), step, host.has_fma) {
                Way::Once => alone,
                Way::Vectors | Way::Neighbours => width / 4 + alone,
                // Taking vectors apart and putting them together costs, too.
                Way::Singly => width * (alone + 1),
            };
            together += cost * weight;
            apart += width * alone * weight;
            code += cost;
        }
        if let Terminator::Sync { instruction, .. } = &block.terminator {
            let barrier = matches!(instruction.opcode, O::Bar | O::Barrier);
            let cost = if barrier { 8 } else { width * 6 };
            together += cost * weight;
            apart += width * 6 * weight;
            code += cost;
        }
    }
    let pays = together * 2 < apart && code < if loops { CODE_WITH_LOOPS } else { CODE };
    (pays || lanes == Lanes::Always).then_some((WIDTH, shapes))
}

/// How much code may be made for several lanes, as `choose` counts it. Threads
/// without loops are over soon: the code for them must be cheap to make.
const CODE: u64 = 128;
const CODE_WITH_LOOPS: u64 = 1024;

/// Threads in a group.
const WIDTH: u32 = 16;

/// How a step is written for a group whose registers have these shapes.
pub(super) fn way(
    program: &Program<'_>,
    shape: &dyn Fn(Reg) -> Shape,
    step: &Step,
    has_fma: bool,
) -> Way {
    let Step::Instruction(i) = step else {
        return Way::Singly;
    };
    let args = program.list(i.args);
    let mut written = Vec::new();
    program.effects(i, &mut |_| {}, &mut |reg| written.push(reg));
    let shared = written.iter().all(|&reg| shape(reg) != Shape::Varying);
    match i.opcode {
        O::St if !program.has_destination(i) => {
            return match args {
                [Arg::Address(base, _), value]
                    if neighbouring(program, shape, i, *base, *value) =>
                {
                    Way::Neighbours
                }
                _ => Way::Singly,
            };
        }
        O::Ld | O::Ldu if !shared => {
            return match args {
                [to, Arg::Address(base, _)] if neighbouring(program, shape, i, *base, *to) => {
                    Way::Neighbours
                }
                [_, Arg::Reg(_)] if vectorizable(program, i, has_fma) => Way::Vectors,
                _ => Way::Singly,
            };
        }
        O::Red | O::Atom | O::Cp | O::Sust | O::Sured => return Way::Singly,
        _ => {}
    }
    if shared {
        Way::Once
    } else if vectorizable(program, i, has_fma) {
        Way::Vectors
    } else {
        Way::Singly
    }
}

/// Do the threads load or store values that lie side by side?
fn neighbouring(
    program: &Program<'_>,
    shape: &dyn Fn(Reg) -> Shape,
    i: &Instruction,
    base: Base,
    value: Arg,
) -> bool {
    let Some(ty) = i.modifiers.types().next() else {
        return false;
    };
    let Base::Reg(base) = base else { return false };
    let bytes = ty.bytes();
    let fits = match value {
        Arg::Reg(reg) => u64::from(program.registers[reg.index()].bytes()) == bytes,
        _ => false,
    };
    let ordered = i
        .modifiers
        .first_of(&[
            M::V2,
            M::V4,
            M::V8,
            M::Local,
            M::Param,
            M::Volatile,
            M::Relaxed,
            M::Acquire,
            M::Release,
            M::Mmio,
        ])
        .is_some();
    fits && !ordered && matches!(bytes, 4 | 8) && shape(base) == Shape::Affine(bytes.cast_signed())
}

/// Is there a vector instruction for it, of operands and result of one width?
fn vectorizable(program: &Program<'_>, i: &Instruction, has_fma: bool) -> bool {
    let m = &i.modifiers;
    let mut types = m.types();
    let Some(ty) = types.next() else { return false };
    let second = types.next();
    let args = program.list(i.args);
    let classes = |bytes: u32| {
        args.iter().all(|arg| match arg {
            Arg::Reg(reg) | Arg::Not(reg) => {
                let class = program.registers[reg.index()];
                class != Class::I16 && (class == Class::Pred || class.bytes() == bytes)
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
    // Predicates are masks of 32 bits.
    let predicates = args.iter().any(|arg| match arg {
        Arg::Reg(reg) | Arg::Not(reg) => program.registers[reg.index()] == Class::Pred,
        _ => false,
    }) || i.guard.is_some();
    if predicates && bytes == 8 {
        return false;
    }
    if m.first_of(&[
        M::Cc,
        M::Hi,
        M::Wide,
        M::Rz,
        M::Rm,
        M::Rp,
        M::Approx,
        M::Full,
    ])
    .is_some()
    {
        return false;
    }
    let float = matches!(ty, P::F32 | P::F64);
    let packed = matches!(ty, P::F16x2 | P::Bf16x2 | P::U16x2 | P::S16x2 | P::F32x2);
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
