//! Forms of `mma` that ptxas expands to other instructions, which take fewer operands.

use super::function::Checker;
use super::type_match;
use crate::ast::{Instruction, Operand, Span};
use crate::diagnostic::{Code, Diagnostic};
use crate::names::{Modifier, Opcode, Type};

/// The error if an operand does not fit the expansion.
///
/// - fp8 elements on sm_90 to sm_110: a discarded result, a constant of `.f16x2` as a sum
/// - matrices of `.s4` and `.u4` from sm_90: predicates as elements
/// - matrices that are scaled by block: elements that all have a type other than `.b32`
/// - sparse matrices of fp8 elements there, of `.s4` and `.u4` from sm_90, of `.f16`
///   and integers without `.sp::ordered_metadata` from sm_100: metadata in braces
pub fn wrong(checker: &Checker<'_, '_, '_>, instruction: &Instruction) -> Option<Diagnostic> {
    if instruction.opcode != Opcode::Mma {
        return None;
    }
    let target = checker.context.allowed.target?;
    let modifiers = checker.modifiers(instruction);
    let has_any = |words: &[Modifier]| words.iter().any(|word| modifiers.has(*word));
    let words = modifiers.as_slice();
    let has_kind = words.iter().any(|word| word.text().starts_with("kind::"));
    let expands_fp8 = has_any(&[Modifier::E4m3, Modifier::E5m2])
        && !has_kind
        && (90..120).contains(&target.number);
    let operands = checker.body.list(instruction.operands);
    let error = |span: Span, message: &str| {
        let message = format!("{message} in this form of `mma` on {target}");
        Some(Diagnostic::new(Code::OperandKind, span, message))
    };
    let expands_sparse = expands_fp8
        || target.number >= 90 && has_any(&[Modifier::S4, Modifier::U4])
        || target.number >= 100
            && modifiers.has(Modifier::Sp)
            && !has_any(&[
                Modifier::Bf16,
                Modifier::Tf32,
                Modifier::E4m3,
                Modifier::E5m2,
            ]);
    if expands_sparse && let Some(Operand::Vector(_, span)) = operands.get(4) {
        return error(*span, "metadata cannot be a list");
    }
    let [results, a, b, sums, ..] = operands else {
        return None;
    };
    let elements = |operand: &Operand<'_>| match *operand {
        Operand::Vector(list, _) => checker.body.list(list),
        _ => &[],
    };
    let expands_fours = target.number >= 90 && has_any(&[Modifier::S4, Modifier::U4]);
    let is_scaled = modifiers.has(Modifier::BlockScale);
    for matrix in [a, b] {
        let Operand::Vector(_, span) = matrix else {
            continue;
        };
        let mut types = elements(matrix)
            .iter()
            .map(|element| checker.register_type(element));
        if expands_fours && types.clone().any(|ty| ty == Some(Type::Pred)) {
            return error(*span, "expected registers of 32 bits, not predicates,");
        }
        if is_scaled && types.all(|ty| ty.is_some_and(|ty| ty != type_match::bits_of(ty))) {
            return error(*span, "expected `.b32` registers");
        }
    }
    if !expands_fp8 {
        return None;
    }
    for result in elements(results) {
        if let Operand::Sink(span) = *result {
            return error(span, "a result cannot be discarded with `_`");
        }
    }
    if !modifiers.has(Modifier::F16) {
        return None;
    }
    let constant = |sum: &Operand<'_>| match sum {
        Operand::Integer(integer) => Some(integer.span),
        Operand::Float(float) => Some(float.span),
        _ => None,
    };
    let span = elements(sums).iter().find_map(constant)?;
    error(span, "expected a register")
}
