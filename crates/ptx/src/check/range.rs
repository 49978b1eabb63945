//! Checks the ranges of constants that the table cannot express.

use super::function::Checker;
use crate::ast::{FloatValue, Instruction, Operand};
use crate::diagnostic::{Code, Diagnostic};
use crate::names::{Modifier, Opcode};

pub fn check<'a>(checker: &mut Checker<'_, '_, 'a>, instruction: &Instruction) {
    if instruction.opcode != Opcode::Createpolicy {
        return;
    }
    let modifiers = checker.modifiers(instruction);
    let operands = checker.body.list(instruction.operands);
    let found = if modifiers.has(Modifier::Fractional) {
        fraction(operands)
    } else if modifiers.has(Modifier::Range) {
        sizes(operands)
    } else {
        None
    };
    if let Some(diagnostic) = found {
        checker.report.add(diagnostic);
    }
}

/// Checks the fraction of the accesses that a policy applies to.
fn fraction(operands: &[Operand<'_>]) -> Option<Diagnostic> {
    let [_, Operand::Float(float)] = operands else {
        return None;
    };
    let value = match float.value {
        FloatValue::F32(bits) => f64::from(f32::from_bits(bits)),
        FloatValue::F64(bits) => f64::from_bits(bits),
    };
    if value > 0.0 && value <= 1.0 {
        return None;
    }
    let message = "a fraction must be greater than 0 and at most 1";
    Some(Diagnostic::new(Code::Range, float.span, message))
}

/// Checks that the primary size of a policy is within its total size.
fn sizes(operands: &[Operand<'_>]) -> Option<Diagnostic> {
    let [_, _, Operand::Integer(primary), Operand::Integer(total)] = operands else {
        return None;
    };
    if primary.value as u32 <= total.value as u32 {
        return None;
    }
    let message = "the primary size is larger than the total size";
    Some(Diagnostic::new(Code::Range, primary.span, message))
}
