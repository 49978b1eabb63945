//! Sums in place of `or` and `xor` of operands that have no bit in common. Compilers write `2 * i | 1` for
//! `2 * i + 1`; only the sum shows how far apart the values of neighbouring threads are.

use ptx::ast::Modifiers;
use ptx::names::{Modifier as M, Opcode as O, SpecialRegister as S, Type};

use crate::optimization::Optimization;
use crate::program::ir::{Arg, Instruction, Program, Reg, Step, Terminator};

/// By register: the bits that may be set, if it has one definition.
struct Bits {
    of: Vec<Option<u64>>,
    block: Option<[u32; 3]>,
}

pub(in crate::program) fn to_sums(program: &mut Program<'_>) {
    let mut definitions = vec![0_u32; program.registers.len()];
    for block in &program.blocks {
        let mut define = |reg: Reg| definitions[reg.index()] += 1;
        for step in &block.steps {
            program.step_effects(step, &mut |_| {}, &mut define);
        }
        if let Terminator::Sync { instruction, .. } = &block.terminator {
            program.effects(instruction, &mut |_| {}, &mut define);
        }
    }
    let mut bits = Bits {
        of: vec![None; program.registers.len()],
        block: program.block,
    };
    // A definition that comes before its operands', around a loop, knows nothing of them.
    for at in program.graph().order {
        let mut steps = std::mem::take(&mut program.blocks[at.index()].steps);
        for step in &mut steps {
            let Step::Instruction(i) = step else {
                continue;
            };
            let args = program.list(i.args);
            if let Some(sum) = Optimization::DisjointOr.at(bits.sum_of(i, args)) {
                *i = sum;
            }
            if let Some(&Arg::Reg(to)) = args.first()
                && definitions[to.index()] == 1
            {
                bits.of[to.index()] = bits.of_result(i, args);
            }
        }
        program.blocks[at.index()].steps = steps;
    }
}

fn width(i: &Instruction) -> Option<u32> {
    match i.modifiers.types().next()? {
        Type::B32 | Type::U32 | Type::S32 => Some(32),
        Type::B64 | Type::U64 | Type::S64 => Some(64),
        _ => None,
    }
}

/// The bits of numbers up to this one.
fn up_to(number: u64) -> u64 {
    u64::MAX.checked_shr(number.leading_zeros()).unwrap_or(0)
}

impl Bits {
    fn of_arg(&self, arg: Arg, width: u32) -> u64 {
        let all = u64::MAX >> (64 - width);
        let size = |n: usize, most: u32| {
            let size = self.block.map_or(most, |block| block[n]);
            up_to(u64::from(size).saturating_sub(1))
        };
        all & match arg {
            Arg::Int(number) => number,
            Arg::Reg(reg) => self.of[reg.index()].unwrap_or(u64::MAX),
            Arg::Special(S::TidX) => size(0, 1024),
            Arg::Special(S::TidY) => size(1, 1024),
            Arg::Special(S::TidZ) => size(2, 64),
            Arg::Special(S::Laneid) => 31,
            _ => u64::MAX,
        }
    }

    /// An addition in place of an instruction.
    fn sum_of(&self, i: &Instruction, args: &[Arg]) -> Option<Instruction> {
        let (O::Or | O::Xor, &[_, a, b]) = (i.opcode, args) else {
            return None;
        };
        let width = width(i)?;
        if self.of_arg(a, width) & self.of_arg(b, width) != 0 {
            return None;
        }
        let mut modifiers = Modifiers::default();
        modifiers.push(if width == 32 { M::U32 } else { M::U64 });
        let mut sum = Instruction::new(O::Add, modifiers, i.args, i.span, i.line);
        sum.guard = i.guard;
        Some(sum)
    }

    fn of_result(&self, i: &Instruction, args: &[Arg]) -> Option<u64> {
        let is_plain = i.modifiers.first_of(&[M::Sat, M::Hi, M::Wide]).is_none();
        let width = width(i).filter(|_| is_plain)?;
        let all = u64::MAX >> (64 - width);
        let arg = |n: usize| args.get(n).map(|&arg| self.of_arg(arg, width));
        let shift = || match args.get(2) {
            Some(&Arg::Int(by)) if by < width.into() => Some(by as u32),
            _ => None,
        };
        let found = match i.opcode {
            O::Mov => arg(1)?,
            O::Shl => arg(1)? << shift()?,
            // The sign is not set, or the shift is of an unsigned number.
            O::Shr if !i.modifiers.has(signed(width)) || arg(1)? >> (width - 1) == 0 => {
                arg(1)? >> shift()?
            }
            O::And => arg(1)? & arg(2)?,
            O::Or | O::Xor => arg(1)? | arg(2)?,
            O::Add => sum(arg(1)?, arg(2)?),
            O::Mul => product(arg(1)?, arg(2)?),
            O::Mad => sum(product(arg(1)?, arg(2)?) & all, arg(3)?),
            _ => return None,
        };
        Some(found & all)
    }
}

fn signed(width: u32) -> M {
    if width == 32 { M::S32 } else { M::S64 }
}

/// The bits of sums of numbers with these bits.
fn sum(a: u64, b: u64) -> u64 {
    let below = (a | b).trailing_zeros();
    let upper = a.checked_add(b).map_or(u64::MAX, up_to);
    upper & u64::MAX.checked_shl(below).unwrap_or(0)
}

fn product(a: u64, b: u64) -> u64 {
    let below = a.trailing_zeros() + b.trailing_zeros();
    let upper = a.checked_mul(b).map_or(u64::MAX, up_to);
    upper & u64::MAX.checked_shl(below).unwrap_or(0)
}
