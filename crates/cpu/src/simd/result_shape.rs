//! The shapes of results, from those of operands.

use super::divergence::Divergence;
use super::shape::{Shape, affine, extended, indexed};
use crate::optimization::Optimization;
use crate::program::{Arg, Base, Instruction, Program, RegClass, Storage};
use ptx::names::{Modifier as M, Opcode as O, SpecialRegister as S, Type};

/// The most threads of a block.
const MAX_THREADS: u64 = 1024;

impl Divergence {
    /// Whether a special register differs from lane to lane.
    pub fn is_divergent_special(&self, special: S) -> bool {
        match special {
            S::TidY | S::TidZ => !self.rows,
            S::TidX
            | S::Laneid
            | S::LanemaskEq
            | S::LanemaskLe
            | S::LanemaskLt
            | S::LanemaskGe
            | S::LanemaskGt
            | S::Clock
            | S::Clock64
            | S::ClockHi
            | S::Globaltimer
            | S::GlobaltimerLo
            | S::GlobaltimerHi => true,
            _ => false,
        }
    }

    pub fn is_operand_divergent(&self, program: &Program<'_>, arg: Arg) -> bool {
        let mut divergent = match arg {
            Arg::Special(special) => self.is_divergent_special(special),
            Arg::Address(Base::Storage(Storage::Local(_)), _) => true,
            Arg::List(list) => program.list(list).iter().any(|arg| match arg {
                Arg::Special(special) => self.is_divergent_special(*special),
                _ => false,
            }),
            _ => false,
        };
        program.registers_of(arg, &mut |reg| divergent |= self.is_divergent(reg));
        divergent
    }

    /// The shape of the results of an instruction; `None` while an operand is unknown.
    pub fn result_shape(&self, program: &Program<'_>, i: &Instruction) -> Option<Shape> {
        let args = program.list(i.args);
        let sources = if i.meaning.accumulates {
            args
        } else {
            &args[usize::from(program.has_destination(i)).min(args.len())..]
        };
        let is_local = match i.opcode {
            O::Atom | O::Red => return Some(Shape::Divergent),
            O::Ld | O::St | O::Cvta => i.modifiers.has(M::Local),
            _ => false,
        };
        let carry =
            i.meaning.carry_in && program.carry.is_some_and(|carry| self.is_divergent(carry));
        let guard = i.guard.is_some_and(|guard| self.is_divergent(guard.reg));
        if is_local || carry || guard {
            return Some(Shape::Divergent);
        }
        if self.is_of_group(program, i) && Optimization::OfGroup.is_on() {
            return Some(Shape::Uniform);
        }
        let mut unknown = false;
        for &arg in sources {
            program.registers_of(arg, &mut |reg| {
                unknown |= self.shapes[reg.index()].is_none()
            });
        }
        let differs = sources
            .iter()
            .any(|arg| self.is_operand_divergent(program, *arg));
        match (unknown, differs) {
            (true, _) => None,
            (false, false) => Some(Shape::Uniform),
            (false, true) => {
                let shape = self.linear(program, i, args);
                Some(shape.filter(Shape::is_used).unwrap_or(Shape::Divergent))
            }
        }
    }

    /// The shape of an operand.
    fn operand_shape(&self, arg: Arg) -> Shape {
        match arg {
            Arg::Reg(reg) => self.shape(reg),
            Arg::Int(_) => Shape::Uniform,
            Arg::Special(S::TidX) if self.rows => Shape::Affine(1),
            Arg::Special(S::Laneid) => Shape::Affine(1),
            Arg::Special(special) if !self.is_divergent_special(special) => Shape::Uniform,
            Arg::Symbol(storage, _) if !matches!(storage, Storage::Local(_)) => Shape::Uniform,
            _ => Shape::Divergent,
        }
    }

    /// Whether an operand is the thread's index in its row, of which the first lane's is a multiple of the
    /// number of lanes.
    fn is_lane_index(&self, arg: Arg) -> bool {
        self.rows
            && match arg {
                Arg::Reg(reg) => self.is_tid[reg.index()],
                arg => arg == Arg::Special(S::TidX),
            }
    }

    /// Whether an instruction computes something of a group of lanes, such as its number `%tid.x / 32`, or
    /// whether `%tid.x < 32`: all lanes have the first one's result.
    pub fn is_of_group(&self, program: &Program<'_>, i: &Instruction) -> bool {
        let &[Arg::Reg(_), a, Arg::Int(number)] = program.list(i.args) else {
            return false;
        };
        let lanes = (1_u64 << self.lane_bits()) - 1;
        let is_of_group = match i.opcode {
            O::Shr => (self.lane_bits().into()..32).contains(&number),
            O::And => number & lanes == 0,
            O::Setp
                if i.modifiers
                    .types()
                    .all(|ty| matches!(ty, Type::U32 | Type::S32)) =>
            {
                // Lanes on one side of it differ from those on the other.
                let boundary = match i.comparison() {
                    Some(M::Lt | M::Lo | M::Ge | M::Hs) => number,
                    Some(M::Le | M::Ls | M::Gt | M::Hi) => number.wrapping_add(1),
                    _ => return false,
                };
                boundary <= MAX_THREADS && boundary & lanes == 0
            }
            _ => false,
        };
        is_of_group && i.guard.is_none() && self.is_lane_index(a)
    }

    /// The shape of sums and multiples of lanes' indices; `None` for everything else.
    fn linear(&self, program: &Program<'_>, i: &Instruction, args: &[Arg]) -> Option<Shape> {
        use Shape::{Affine, Divergent, Extended, Indexed, Uniform};
        let &[Arg::Reg(to), ref sources @ ..] = args else {
            return None;
        };
        let m = &i.modifiers;
        if m.first_of(&[M::Sat, M::Cc, M::Hi, M::Relu]).is_some() {
            return None;
        }
        let is_integer = |ty: Type| {
            use Type::*;
            matches!(ty, U32 | S32 | B32 | U64 | S64 | B64)
        };
        if !m.types().all(is_integer) {
            return None;
        }
        let ty = m.types().next()?;
        let signed = matches!(ty, Type::S32 | Type::S64);
        let shape = |n: usize| sources.get(n).map(|arg| self.operand_shape(*arg));
        let number = |n: usize| match sources.get(n) {
            Some(&Arg::Int(number)) => Some(number),
            _ => None,
        };
        let small = |number: u64, bits: u32| match bits {
            32 => i64::from((number as u32).cast_signed()),
            _ => number.cast_signed(),
        };
        match program.registers[to.index()] {
            RegClass::I32 if ty.bits() == 32 => Some(match i.opcode {
                O::Mov => match shape(0)? {
                    Affine(stride) => Affine(stride),
                    _ => return None,
                },
                O::Cvt if m.types().nth(1)?.bits() == 32 => match shape(0)? {
                    Affine(stride) => Affine(stride),
                    _ => return None,
                },
                O::Add | O::Sub => {
                    let sign = if i.opcode == O::Sub { -1 } else { 1 };
                    match (shape(0)?, shape(1)?) {
                        (Affine(a), Uniform) => Affine(a),
                        (Uniform, Affine(b)) => affine(sign * i64::from(b)),
                        (Affine(a), Affine(b)) => affine(i64::from(a) + sign * i64::from(b)),
                        _ => return None,
                    }
                }
                // The number of a lane in its warp.
                O::And if number(1)? == 31 && self.is_lane_index(sources[0]) => Affine(1),
                O::Shl => match (shape(0)?, number(1)?) {
                    (Affine(a), by @ 0..=20) => affine(i64::from(a) << by),
                    _ => return None,
                },
                O::Mul | O::Mad if !m.has(M::Wide) => {
                    let product = match (shape(0)?, shape(1)?) {
                        (Affine(a), Uniform) => i64::from(a).checked_mul(small(number(1)?, 32))?,
                        (Uniform, Affine(b)) => i64::from(b).checked_mul(small(number(0)?, 32))?,
                        (Uniform, Uniform) => 0,
                        _ => return None,
                    };
                    match (i.opcode, shape(2)) {
                        (O::Mul, _) | (_, Some(Uniform)) => affine(product),
                        (_, Some(Affine(c))) => affine(product.checked_add(c.into())?),
                        _ => return None,
                    }
                }
                _ => return None,
            }),
            RegClass::I64 if i.guard.is_none() => Some(match i.opcode {
                O::Mov if ty.bits() == 64 => sum(shape(0)?)?,
                O::Cvta if m.first_of(&[M::Global, M::Const]).is_some() => sum(shape(0)?)?,
                O::Cvt if ty.bits() == 64 => {
                    let from = m.types().nth(1)?;
                    match shape(0)? {
                        Affine(stride) if from.bits() == 32 => {
                            extended(stride, 1, matches!(from, Type::S32))
                        }
                        Divergent if from.bits() == 32 => indexed(1, matches!(from, Type::S32)),
                        _ => return None,
                    }
                }
                O::Mul | O::Mad if m.has(M::Wide) && ty.bits() == 32 => {
                    let scale = |number: u64| {
                        if signed {
                            small(number, 32)
                        } else {
                            i64::from(number as u32)
                        }
                    };
                    match (shape(0)?, shape(1)?, i.opcode, shape(2)) {
                        (index, Uniform, O::Mul, _) | (index, Uniform, _, Some(Uniform)) => {
                            match index {
                                Affine(stride) => extended(stride, scale(number(1)?), signed),
                                Divergent => indexed(scale(number(1)?), signed),
                                _ => return None,
                            }
                        }
                        (Uniform, Uniform, _, Some(c)) => sum(c)?,
                        _ => return None,
                    }
                }
                O::Add if ty.bits() == 64 => match (shape(0)?, shape(1)?) {
                    (x, Uniform) | (Uniform, x) => sum(x)?,
                    _ => return None,
                },
                O::Sub if ty.bits() == 64 => match (shape(0)?, shape(1)?) {
                    (x, Uniform) => sum(x)?,
                    _ => return None,
                },
                O::Shl if ty.bits() == 64 => match (shape(0)?, number(1)?) {
                    (
                        Extended {
                            stride,
                            scale,
                            signed,
                        },
                        by @ 0..=20,
                    ) => extended(stride, i64::from(scale) << by, signed),
                    (Indexed { scale, signed }, by @ 0..=20) => {
                        indexed(i64::from(scale) << by, signed)
                    }
                    _ => return None,
                },
                _ => return None,
            }),
            _ => None,
        }
    }
}

/// The shape of a sum of 64 bits.
fn sum(shape: Shape) -> Option<Shape> {
    matches!(shape, Shape::Extended { .. } | Shape::Indexed { .. }).then_some(shape)
}
