//! The registers that hold no negative number, as far as sums don't wrap around.

use super::{Arg, Instruction, Program, Step, Terminator};
use ptx::names::{Opcode as O, Type};

/// By register.
pub(in crate::program) fn natural(program: &Program<'_>) -> Vec<bool> {
    let mut natural = vec![true; program.registers.len()];
    // What other lanes have is not followed.
    for block in &program.blocks {
        if let Terminator::Sync { instruction, .. } = &block.terminator {
            program.effects(instruction, &mut |_| {}, &mut |reg| {
                natural[reg.index()] = false;
            });
        }
    }
    let mut changed = true;
    while std::mem::take(&mut changed) {
        for step in program.blocks.iter().flat_map(|block| &block.steps) {
            let is_natural = match step {
                Step::Instruction(i) => keeps_sign(program, i, &natural),
                Step::SystemCall { .. } => false,
            };
            if !is_natural {
                program.step_effects(step, &mut |_| {}, &mut |reg| {
                    changed |= std::mem::replace(&mut natural[reg.index()], false);
                });
            }
        }
    }
    natural
}

/// Whether the result of an instruction is not negative if its operands are not.
fn keeps_sign(program: &Program<'_>, i: &Instruction, natural: &[bool]) -> bool {
    let args = program.list(i.args);
    let is_natural = |arg: &Arg| match *arg {
        Arg::Reg(reg) => natural[reg.index()],
        Arg::Int(number) => number.cast_signed() >= 0,
        Arg::Special(_) => true,
        _ => false,
    };
    let signed = |ty: Type| matches!(ty, Type::S16 | Type::S32 | Type::S64);
    match (i.opcode, args) {
        (O::Shr, [_, _, Arg::Int(1..)]) if !i.modifiers.types().any(signed) => true,
        (O::And, [_, rest @ ..]) => rest.iter().any(is_natural),
        (
            O::Mov
            | O::Cvt
            | O::Add
            | O::Mul
            | O::Mad
            | O::Shl
            | O::Shr
            | O::Div
            | O::Rem
            | O::Min
            | O::Max
            | O::Or,
            [_, rest @ ..],
        ) => rest.iter().all(is_natural),
        (O::Selp, [_, a, b, _]) => is_natural(a) && is_natural(b),
        _ => false,
    }
}
