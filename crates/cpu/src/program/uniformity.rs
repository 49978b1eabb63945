//! Uniformity analysis: whether the threads of a lane group have the same value
//! in a register, values with a constant stride, or unrelated values.
//!
//! A lane group is a set of threads with consecutive `%tid.x` and the same `%tid.y`
//! and `%tid.z`. It takes every branch as a whole; where the threads diverge, the
//! scalar function takes over. So a value computed from uniform values is uniform.

use super::ir::{
    Arg, Base, BlockId, Instruction, Program, Reg, RegClass, Step, Storage, Terminator,
};
use super::liveness::Liveness;
use ptx::isa::Outcome;
use ptx::names::{Modifier as M, Opcode as O, SpecialRegister as S, Type};

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
    fn stride(self) -> Option<i64> {
        match self {
            Uniformity::Uniform => Some(0),
            Uniformity::Affine(stride) => Some(stride),
            Uniformity::Divergent => None,
        }
    }

    fn from_stride(stride: i64) -> Uniformity {
        if stride == 0 {
            Uniformity::Uniform
        } else {
            Uniformity::Affine(stride)
        }
    }

    fn join(self, other: Uniformity) -> Uniformity {
        if self == other {
            self
        } else {
            Uniformity::Divergent
        }
    }
}

/// A 32-bit affine value that must not wrap around within the lane group: otherwise
/// its extension to 64 bits is not affine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoWrap {
    pub reg: Reg,
    pub stride: i64,
    pub signed: bool,
}

/// The result of the analysis, by register.
pub(crate) struct UniformityInfo {
    registers: Vec<Uniformity>,
}

impl UniformityInfo {
    pub fn new(program: &Program<'_>) -> UniformityInfo {
        // `None` is the optimistic start: a loop-carried register has the uniformity
        // of its initial value until the back edge says otherwise.
        let mut facts: Vec<Option<Uniformity>> = vec![None; program.registers.len()];
        // Registers that may be read before they are written are 0 in all threads.
        for reg in Liveness::new(program).live_in(BlockId(0)).iter() {
            facts[reg.index()] = Some(Uniformity::Uniform);
        }
        let mut changed = true;
        while changed {
            changed = false;
            let mut meet =
                |facts: &mut Vec<Option<Uniformity>>, reg: Reg, uniformity: Uniformity| {
                    let has_stride = matches!(
                        program.registers[reg.index()],
                        RegClass::I32 | RegClass::I64
                    );
                    let uniformity = if has_stride || uniformity == Uniformity::Uniform {
                        uniformity
                    } else {
                        Uniformity::Divergent
                    };
                    let old = facts[reg.index()];
                    let new = old.map_or(uniformity, |old| old.join(uniformity));
                    if old != Some(new) {
                        facts[reg.index()] = Some(new);
                        changed = true;
                    }
                };
            for block in &program.blocks {
                for step in &block.steps {
                    match step {
                        Step::Instruction(i) => {
                            let uniformity = result(program, i, &facts);
                            let mut written = Vec::new();
                            program.effects(i, &mut |_| {}, &mut |reg| written.push(reg));
                            if let Some(uniformity) = uniformity {
                                for reg in written {
                                    meet(&mut facts, reg, uniformity);
                                }
                            }
                        }
                        Step::SystemCall { result, .. } => {
                            if let Some(reg) = result {
                                meet(&mut facts, *reg, Uniformity::Divergent);
                            }
                        }
                    }
                }
                if let Terminator::Sync { instruction, .. } = &block.terminator {
                    let mut written = Vec::new();
                    program.effects(instruction, &mut |_| {}, &mut |reg| written.push(reg));
                    for reg in written {
                        meet(&mut facts, reg, Uniformity::Divergent);
                    }
                }
            }
        }
        UniformityInfo {
            registers: facts
                .into_iter()
                .map(|s| s.unwrap_or(Uniformity::Uniform))
                .collect(),
        }
    }

    pub fn of(&self, reg: Reg) -> Uniformity {
        self.registers[reg.index()]
    }

    /// The uniformity of an operand's value, or of the address that it names.
    pub fn arg(&self, program: &Program<'_>, arg: Arg) -> Uniformity {
        let facts: &dyn Fn(Reg) -> Option<Uniformity> = &|reg| Some(self.of(reg));
        arg_uniformity(program, arg, facts).unwrap_or(Uniformity::Divergent)
    }

    /// The operand that must not wrap for the instruction's result to be affine.
    pub fn no_wrap(&self, program: &Program<'_>, i: &Instruction) -> Option<NoWrap> {
        let args = program.list(i.args);
        let Some(&Arg::Reg(to)) = args.first() else {
            return None;
        };
        if !matches!(self.of(to), Uniformity::Affine(_)) {
            return None;
        }
        let types: Vec<Type> = i.modifiers.types().collect();
        let from = match (i.opcode, types.as_slice()) {
            (O::Cvt, [to, from]) if to.bits() > from.bits() => *from,
            (O::Mul | O::Mad, [ty]) if i.modifiers.has(M::Wide) => *ty,
            _ => return None,
        };
        let signed = matches!(from, Type::S32);
        args[1..].iter().take(2).find_map(|&arg| match arg {
            Arg::Reg(reg) => match self.of(reg) {
                Uniformity::Affine(stride) => Some(NoWrap {
                    reg,
                    stride,
                    signed,
                }),
                _ => None,
            },
            _ => None,
        })
    }

    /// Whether the threads of a lane group may diverge at the end of a block.
    pub fn may_diverge(&self, program: &Program<'_>, block: BlockId) -> bool {
        match &program.blocks[block.index()].terminator {
            Terminator::Branch { predicate, .. } => self.of(predicate.reg) != Uniformity::Uniform,
            Terminator::Table { index, .. } => self.arg(program, *index) != Uniformity::Uniform,
            _ => false,
        }
    }
}

fn arg_uniformity(
    program: &Program<'_>,
    arg: Arg,
    facts: &dyn Fn(Reg) -> Option<Uniformity>,
) -> Option<Uniformity> {
    Some(match arg {
        Arg::Reg(reg) | Arg::Address(Base::Reg(reg), _) => facts(reg)?,
        Arg::Not(reg) | Arg::Select { reg, .. } => match facts(reg)? {
            Uniformity::Uniform => Uniformity::Uniform,
            _ => Uniformity::Divergent,
        },
        Arg::Special(S::TidX | S::Laneid) => Uniformity::Affine(1),
        Arg::Special(
            S::LanemaskEq | S::LanemaskGe | S::LanemaskGt | S::LanemaskLe | S::LanemaskLt,
        ) => Uniformity::Divergent,
        Arg::List(list) => {
            let mut all = Uniformity::Uniform;
            for &part in program.list(list) {
                if arg_uniformity(program, part, facts)? != Uniformity::Uniform {
                    all = Uniformity::Divergent;
                }
            }
            all
        }
        _ => Uniformity::Uniform,
    })
}

/// A constant operand.
fn constant(arg: Arg) -> Option<i64> {
    match arg {
        Arg::Int(n) => Some(n.cast_signed()),
        _ => None,
    }
}

/// The uniformity of an instruction's result; `None` as long as that of an operand
/// is unknown.
fn result(
    program: &Program<'_>,
    i: &Instruction,
    facts: &[Option<Uniformity>],
) -> Option<Uniformity> {
    let args = program.list(i.args);
    let of = |reg: Reg| facts[reg.index()];
    let uniformity = |n: usize| -> Option<Uniformity> {
        let arg = args.get(n).copied()?;
        arg_uniformity(program, arg, &of)
    };
    if i.opcode == O::St {
        // A store to a promoted call parameter.
        return uniformity(1);
    }
    if !program.has_destination(i) {
        return Some(Uniformity::Uniform);
    }

    let mut all_uniform = true;
    for n in 1..args.len() {
        all_uniform &= uniformity(n)? == Uniformity::Uniform;
    }
    if i.meaning.carry_in
        && let Some(carry) = program.carry
    {
        all_uniform &= of(carry)? == Uniformity::Uniform;
    }
    if let Some(guard) = i.guard {
        // Some threads keep the old value, so that affine values get divergent.
        let old = match args.first() {
            Some(&Arg::Reg(reg)) => of(reg),
            _ => None,
        };
        let uniform = all_uniform
            && of(guard.reg)? == Uniformity::Uniform
            && old.is_none_or(|o| o == Uniformity::Uniform);
        return Some(if uniform {
            Uniformity::Uniform
        } else {
            Uniformity::Divergent
        });
    }

    Some(match i.opcode {
        O::Ld | O::Ldu => match args.get(1) {
            Some(Arg::Reg(_)) if all_uniform || widths_match(program, i) => uniformity(1)?,
            Some(&Arg::Address(base, _)) if all_uniform && !is_local(i, base) => {
                Uniformity::Uniform
            }
            _ => Uniformity::Divergent,
        },
        // Each thread has its own local frame.
        O::Isspacep => Uniformity::Divergent,
        O::Cvta if i.modifiers.has(M::Local) => Uniformity::Divergent,
        _ if all_uniform => match i.meaning.result {
            Outcome::Operands | Outcome::Linear | Outcome::Compared => Uniformity::Uniform,
            // These are sync points, but for those that are not supported.
            Outcome::Shuffled | Outcome::Warp | Outcome::Active | Outcome::Block => {
                Uniformity::Divergent
            }
            Outcome::Lane | Outcome::Thread => Uniformity::Divergent,
        },
        O::Cvt if !widths_match(program, i) => Uniformity::Divergent,
        _ => affine(i, args, &uniformity)?,
    })
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

/// The uniformity of a result whose operands may be affine.
fn affine(
    i: &Instruction,
    args: &[Arg],
    uniformity: &dyn Fn(usize) -> Option<Uniformity>,
) -> Option<Uniformity> {
    let types: Vec<Type> = i.modifiers.types().collect();
    let integer = |ty: Type| {
        matches!(
            ty,
            Type::U32 | Type::S32 | Type::B32 | Type::U64 | Type::S64 | Type::B64
        )
    };
    let divergent = Some(Uniformity::Divergent);
    let (Some(&ty), Some(&Arg::Reg(_))) = (types.first(), args.first()) else {
        return divergent;
    };
    // A stride is known only for arithmetic in the full width of the register.
    if !integer(ty) || i.modifiers.first_of(&[M::Sat, M::Cc, M::Hi]).is_some() || i.meaning.carry_in
    {
        return divergent;
    }
    let stride = |n: usize| uniformity(n).map(Uniformity::stride);
    let wide = i.modifiers.has(M::Wide);
    if wide && ty.bits() != 32 {
        return divergent;
    }
    // The stride of operand 1 times operand 2, one of them constant.
    let product = || -> Option<Option<i64>> {
        let (a, b) = (stride(1)?, stride(2)?);
        Some(match (a, b, constant(args[1]), constant(args[2])) {
            (Some(0), Some(0), _, _) => Some(0),
            (Some(a), _, _, Some(c)) => a.checked_mul(factor(c, ty, wide)),
            (_, Some(b), Some(c), _) => b.checked_mul(factor(c, ty, wide)),
            _ => None,
        })
    };
    let found: Option<i64> = match i.opcode {
        O::Mov if args.len() == 2 && !matches!(args[1], Arg::List(_)) => stride(1)?,
        O::Cvta => stride(1)?,
        O::Add => combine(stride(1)?, stride(2)?, i64::checked_add),
        O::Sub => combine(stride(1)?, stride(2)?, i64::checked_sub),
        O::Mul => product()?,
        O::Mad => combine(product()?, stride(3)?, i64::checked_add),
        O::Shl => match constant(args[2]) {
            Some(by @ 0..=31) => stride(1)?.and_then(|s| s.checked_mul(1 << by)),
            _ => None,
        },
        O::Cvt => match types.as_slice() {
            [to, from] if integer(*to) && integer(*from) && !i.modifiers.has(M::Sat) => stride(1)?,
            _ => None,
        },
        _ => None,
    };
    // No large stride is contiguous, and products of it could overflow.
    Some(match found {
        Some(stride) if stride.abs() < 1 << 20 => Uniformity::from_stride(stride),
        _ => Uniformity::Divergent,
    })
}

/// A constant factor, extended as the multiplication extends it.
fn factor(constant: i64, ty: Type, wide: bool) -> i64 {
    match (ty, wide) {
        (Type::U32, true) => i64::from(constant as u32),
        (_, _) if ty.bits() == 32 => i64::from(constant as i32),
        _ => constant,
    }
}

fn combine(a: Option<i64>, b: Option<i64>, f: impl Fn(i64, i64) -> Option<i64>) -> Option<i64> {
    f(a?, b?)
}
