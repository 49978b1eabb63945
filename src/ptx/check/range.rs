//! Constants that only some values may have, where no row of the table can say it.

use super::function::Checker;
use crate::ptx::ast::{Instruction, Integer, Operand};
use crate::ptx::diagnostic::{Code, Diagnostic};
use crate::ptx::names::{Modifier, Opcode};

pub fn check<'a>(checker: &mut Checker<'_, '_, 'a>, instruction: &Instruction<'a>) {
    let operands = checker.body.list(instruction.operands);
    let modifiers = checker.modifiers(instruction);
    let has = |modifier| modifiers.has(modifier);
    let found = match instruction.opcode {
        Opcode::Bar | Opcode::Barrier if !has(Modifier::Warp) && !has(Modifier::Cluster) => {
            barrier(operands, has(Modifier::Red))
        }
        Opcode::Cp if has(Modifier::Async) && (has(Modifier::Ca) || has(Modifier::Cg)) => {
            copy_size(operands, has(Modifier::Cg))
        }
        Opcode::St if has(Modifier::Const) => Some(Diagnostic::new(
            Code::StateSpace,
            instruction.opcode_span,
            "`.const` memory can only be read",
        )),
        _ => None,
    };
    if let Some(diagnostic) = found {
        checker.report.add(diagnostic);
    }
}

fn constant(operands: &[Operand<'_>], index: usize) -> Option<Integer> {
    match operands.get(index) {
        Some(Operand::Integer(integer)) => Some(*integer),
        _ => None,
    }
}

fn out_of_range(integer: Integer, message: &str) -> Option<Diagnostic> {
    Some(Diagnostic::new(Code::Range, integer.span, message))
}

/// A block has 16 barriers, and whole warps wait.
fn barrier(operands: &[Operand<'_>], reduces: bool) -> Option<Diagnostic> {
    let first = usize::from(reduces);
    if let Some(id) = constant(operands, first).filter(|id| id.value > 15) {
        return out_of_range(id, "barriers are numbered 0 to 15");
    }
    // The last operand of a reduction is a predicate.
    let count_at = first + 1;
    if operands.len() <= count_at + first {
        return None;
    }
    let threads = constant(operands, count_at).filter(|count| count.value % 32 != 0)?;
    out_of_range(
        threads,
        "the number of threads must be a multiple of 32, the warp size",
    )
}

fn copy_size(operands: &[Operand<'_>], global_cache: bool) -> Option<Diagnostic> {
    let size = constant(operands, 2)?;
    match (global_cache, size.value) {
        (true, 16) | (false, 4 | 8 | 16) => None,
        (true, _) => out_of_range(size, "`cp.async.cg` copies 16 bytes"),
        (false, _) => out_of_range(size, "`cp.async.ca` copies 4, 8 or 16 bytes"),
    }
}
