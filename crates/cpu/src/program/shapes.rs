//! What neighbouring threads in step have in common: the same value, values a
//! constant apart, or neither.
//!
//! The threads of a group have consecutive `%tid.x` and one `%tid.y`, and take
//! every branch together. So what depends on equal values only is equal.

use super::{
    Arg, Base, BlockId, Class, Instruction, Liveness, Place, Program, Reg, Step, Terminator,
};
use ptx::names::{Modifier as M, Opcode as O, SpecialRegister as S, Type};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// One value for all.
    Uniform,
    /// Thread `i` of the group has the first one's value plus `i` times this,
    /// modulo the register's width.
    Affine(i64),
    Varying,
}

impl Shape {
    fn stride(self) -> Option<i64> {
        match self {
            Shape::Uniform => Some(0),
            Shape::Affine(stride) => Some(stride),
            Shape::Varying => None,
        }
    }

    fn of_stride(stride: i64) -> Shape {
        if stride == 0 {
            Shape::Uniform
        } else {
            Shape::Affine(stride)
        }
    }

    fn join(self, other: Shape) -> Shape {
        if self == other { self } else { Shape::Varying }
    }
}

/// A value that must not wrap around in its 32 bits from the first thread of a
/// group to the last: else its extension to 64 bits is no longer affine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoWrap {
    pub reg: Reg,
    pub stride: i64,
    pub signed: bool,
}

pub(crate) struct Shapes {
    of: Vec<Shape>,
}

impl Shapes {
    pub fn new(program: &Program<'_>) -> Shapes {
        // Nothing known at first: a loop's variable starts as what enters it.
        let mut known: Vec<Option<Shape>> = vec![None; program.registers.len()];
        // What may be read before it is written is 0 for all.
        for reg in Liveness::new(program).at(BlockId(0)).iter() {
            known[reg.index()] = Some(Shape::Uniform);
        }
        let mut changed = true;
        while changed {
            changed = false;
            let mut meet = |known: &mut Vec<Option<Shape>>, reg: Reg, shape: Shape| {
                let whole = matches!(program.registers[reg.index()], Class::I32 | Class::I64);
                // Strides are those of integers.
                let shape = if whole || shape == Shape::Uniform {
                    shape
                } else {
                    Shape::Varying
                };
                let old = known[reg.index()];
                let new = old.map_or(shape, |old| old.join(shape));
                if old != Some(new) {
                    known[reg.index()] = Some(new);
                    changed = true;
                }
            };
            for block in &program.blocks {
                for step in &block.steps {
                    match step {
                        Step::Instruction(i) => {
                            let shape = result(program, i, &known);
                            let mut written = Vec::new();
                            program.effects(i, &mut |_| {}, &mut |reg| written.push(reg));
                            if let Some(shape) = shape {
                                for reg in written {
                                    meet(&mut known, reg, shape);
                                }
                            }
                        }
                        Step::SystemCall { result, .. } => {
                            if let Some(reg) = result {
                                meet(&mut known, *reg, Shape::Varying);
                            }
                        }
                    }
                }
                if let Terminator::Sync { instruction, .. } = &block.terminator {
                    let mut written = Vec::new();
                    program.effects(instruction, &mut |_| {}, &mut |reg| written.push(reg));
                    for reg in written {
                        meet(&mut known, reg, Shape::Varying);
                    }
                }
            }
        }
        Shapes {
            of: known
                .into_iter()
                .map(|s| s.unwrap_or(Shape::Uniform))
                .collect(),
        }
    }

    pub fn of(&self, reg: Reg) -> Shape {
        self.of[reg.index()]
    }

    /// The shape of an operand's value, or of the address that it names.
    pub fn arg(&self, program: &Program<'_>, arg: Arg) -> Shape {
        let known: &dyn Fn(Reg) -> Option<Shape> = &|reg| Some(self.of(reg));
        arg_shape(program, arg, known).unwrap_or(Shape::Varying)
    }

    /// What must not wrap for the instruction's result to be affine.
    pub fn no_wrap(&self, program: &Program<'_>, i: &Instruction) -> Option<NoWrap> {
        let args = program.list(i.args);
        let Some(&Arg::Reg(to)) = args.first() else {
            return None;
        };
        if !matches!(self.of(to), Shape::Affine(_)) {
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
                Shape::Affine(stride) => Some(NoWrap {
                    reg,
                    stride,
                    signed,
                }),
                _ => None,
            },
            _ => None,
        })
    }

    /// Branches whose threads may disagree.
    pub fn may_diverge(&self, program: &Program<'_>, block: BlockId) -> bool {
        match &program.blocks[block.index()].terminator {
            Terminator::Branch { predicate, .. } => self.of(predicate.reg) != Shape::Uniform,
            Terminator::Table { index, .. } => self.arg(program, *index) != Shape::Uniform,
            _ => false,
        }
    }
}

fn arg_shape(
    program: &Program<'_>,
    arg: Arg,
    known: &dyn Fn(Reg) -> Option<Shape>,
) -> Option<Shape> {
    Some(match arg {
        Arg::Reg(reg) | Arg::Address(Base::Reg(reg), _) => known(reg)?,
        Arg::Not(reg) | Arg::Select { reg, .. } => match known(reg)? {
            Shape::Uniform => Shape::Uniform,
            _ => Shape::Varying,
        },
        Arg::Special(S::TidX | S::Laneid) => Shape::Affine(1),
        Arg::Special(
            S::LanemaskEq | S::LanemaskGe | S::LanemaskGt | S::LanemaskLe | S::LanemaskLt,
        ) => Shape::Varying,
        Arg::List(list) => {
            let mut all = Shape::Uniform;
            for &part in program.list(list) {
                if arg_shape(program, part, known)? != Shape::Uniform {
                    all = Shape::Varying;
                }
            }
            all
        }
        _ => Shape::Uniform,
    })
}

/// A constant operand.
fn constant(arg: Arg) -> Option<i64> {
    match arg {
        Arg::Int(n) => Some(n.cast_signed()),
        _ => None,
    }
}

/// The shape of what an instruction writes; `None` as long as an operand is
/// unknown.
fn result(program: &Program<'_>, i: &Instruction, known: &[Option<Shape>]) -> Option<Shape> {
    let args = program.list(i.args);
    let of = |reg: Reg| known[reg.index()];
    let shape = |n: usize| -> Option<Shape> {
        let arg = args.get(n).copied()?;
        arg_shape(program, arg, &of)
    };
    if i.opcode == O::St {
        // A parameter of a call that became a register.
        return shape(1);
    }
    if !program.has_destination(i) {
        return Some(Shape::Uniform);
    }

    let mut all_uniform = true;
    for n in 1..args.len() {
        all_uniform &= shape(n)? == Shape::Uniform;
    }
    if matches!(i.opcode, O::Addc | O::Subc | O::Madc)
        && let Some(carry) = program.carry
    {
        all_uniform &= of(carry)? == Shape::Uniform;
    }
    if let Some(guard) = i.guard {
        // Some threads keep the old value, so affine is not enough.
        let old = match args.first() {
            Some(&Arg::Reg(reg)) => of(reg),
            _ => None,
        };
        let uniform = all_uniform
            && of(guard.reg)? == Shape::Uniform
            && old.is_none_or(|o| o == Shape::Uniform);
        return Some(if uniform {
            Shape::Uniform
        } else {
            Shape::Varying
        });
    }

    Some(match i.opcode {
        O::Ld | O::Ldu => match args.get(1) {
            Some(Arg::Reg(_)) if all_uniform || of_its_width(program, i) => shape(1)?,
            Some(&Arg::Address(base, _)) if all_uniform && !is_local(i, base) => Shape::Uniform,
            _ => Shape::Varying,
        },
        // Each thread does its own.
        O::Atom => Shape::Varying,
        // Frames differ.
        O::Isspacep => Shape::Varying,
        O::Cvta if i.modifiers.has(M::Local) => Shape::Varying,
        _ if all_uniform => Shape::Uniform,
        O::Cvt if !of_its_width(program, i) => Shape::Varying,
        _ => affine(i, args, &shape)?,
    })
}

/// Have the registers of a conversion, or of a load of a parameter, the widths of
/// the types that it names? A wider one holds an extended value, which strides and
/// [`NoWrap`] do not know.
fn of_its_width(program: &Program<'_>, i: &Instruction) -> bool {
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
    i.modifiers.has(M::Local) || matches!(base, Base::Place(Place::Local(_)))
}

/// Instructions that keep values a constant apart.
fn affine(i: &Instruction, args: &[Arg], shape: &dyn Fn(usize) -> Option<Shape>) -> Option<Shape> {
    let types: Vec<Type> = i.modifiers.types().collect();
    let integer = |ty: Type| {
        matches!(
            ty,
            Type::U32 | Type::S32 | Type::B32 | Type::U64 | Type::S64 | Type::B64
        )
    };
    let varying = Some(Shape::Varying);
    let (Some(&ty), Some(&Arg::Reg(_))) = (types.first(), args.first()) else {
        return varying;
    };
    // Strides are those of whole registers.
    if !integer(ty)
        || i.modifiers.first_of(&[M::Sat, M::Cc, M::Hi]).is_some()
        || matches!(i.opcode, O::Addc | O::Subc | O::Madc)
    {
        return varying;
    }
    let stride = |n: usize| shape(n).map(Shape::stride);
    let wide = i.modifiers.has(M::Wide);
    if wide && ty.bits() != 32 {
        return varying;
    }
    // `a * b` of operands 1 and 2, one of them constant.
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
    // Far apart is as good as anywhere.
    Some(match found {
        Some(stride) if stride.abs() < 1 << 20 => Shape::of_stride(stride),
        _ => Shape::Varying,
    })
}

/// A constant as the multiplication takes it.
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
