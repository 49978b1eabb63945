//! Minima and maxima that keep an index in bounds.

use super::ir::{Arg, Base, Instruction, Program, Reg, RegClass, Step};
use super::liveness::RegisterSet;
use ptx::isa::Outcome;
use ptx::names::{Modifier as M, Opcode as O, Type};

/// The minimum or the maximum of an affine index and a uniform bound, such as the last row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Clamp {
    /// The maximum: it does not change what is at least the bound.
    pub at_least: bool,
    pub bound: Bound,
}

/// The uniform operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bound {
    Reg(Reg),
    Int(u64),
}

/// The registers from which addresses are computed by linear arithmetic.
pub(super) fn indices(program: &Program<'_>) -> RegisterSet {
    /// Longer chains of instructions in reverse order are not followed.
    const ROUNDS: usize = 4;
    let mut indices = RegisterSet::new(program.registers.len());
    for arg in &program.args {
        if let Arg::Address(Base::Reg(reg), _) = *arg {
            indices.insert(reg);
        }
    }
    for _ in 0..ROUNDS {
        for step in program
            .blocks
            .iter()
            .rev()
            .flat_map(|block| block.steps.iter().rev())
        {
            let Step::Instruction(i) = step else { continue };
            let computes = matches!(i.meaning.result, Outcome::Linear)
                || matches!(i.opcode, O::Cvta | O::Min | O::Max);
            let args = program.list(i.args);
            if let (true, Some(Arg::Reg(to))) = (computes, args.first())
                && indices.contains(*to)
            {
                for &arg in &args[1..] {
                    program.registers_of(arg, &mut |reg| indices.insert(reg));
                }
            }
        }
    }
    indices
}

/// Whether an instruction is the minimum or maximum of two integers of 32 bits, which are signed
/// or not.
pub(super) fn clamp(program: &Program<'_>, i: &Instruction) -> Option<bool> {
    let is_clamp = matches!(i.opcode, O::Min | O::Max) && i.guard.is_none();
    let args = program.list(i.args);
    let in_words = args.iter().all(|arg| match arg {
        Arg::Reg(reg) => program.registers[reg.index()] == RegClass::I32,
        Arg::Int(_) => true,
        _ => false,
    });
    if !is_clamp || args.len() != 3 || !in_words {
        return None;
    }
    match (i.modifiers.types().next()?, i.modifiers.has(M::Relu)) {
        (Type::S32, false) => Some(true),
        (Type::U32, false) => Some(false),
        _ => None,
    }
}
