//! Constants that only some values may have, where no row of the table can say it.

use super::function::Checker;
use crate::ptx::ast::Instruction;
use crate::ptx::diagnostic::{Code, Diagnostic};
use crate::ptx::names::{Modifier, Opcode};

pub fn check<'a>(checker: &mut Checker<'_, '_, 'a>, instruction: &Instruction<'a>) {
    let modifiers = checker.modifiers(instruction);
    let has = |modifier| modifiers.has(modifier);
    let found = match instruction.opcode {
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
