//! `div.rn.f32 a, a, 4.0`

use crate::flow::{Definition, Reference};
use crate::{Check, Code, Edit, Findings, FunctionContext, Rule};
use ptx::ast::{FloatValue, Instruction, Operand};
use ptx::names::{Opcode, Type};

pub static RULE: Rule = Rule {
    code: Code::new('P', 205),
    name: "float-division-by-power-of-two",
    summary: "A floating-point division by a power of two.",
    why: "The reciprocal of a power of two is exact, so multiplying by it gives the same result \
          with one instruction. ptxas does not replace the division: it generates the full \
          sequence, with a call.",
    instead: "Multiply by the reciprocal, with the same rounding mode.",
    bad: "\
.entry k(.param .u64 out)
{
	.reg .f32 a;
	.reg .b64 p;
	ld.param.u64 p, [out];
	cvta.to.global.u64 p, p;
	ld.global.f32 a, [p];
	div.rn.f32 a, a, 0f40800000;
	st.global.f32 [p], a;
	ret;
}
",
    good: "\
.entry k(.param .u64 out)
{
	.reg .f32 a;
	.reg .b64 p;
	ld.param.u64 p, [out];
	cvta.to.global.u64 p, p;
	ld.global.f32 a, [p];
	mul.rn.f32 a, a, 0f3E800000;
	st.global.f32 [p], a;
	ret;
}
",
    default: false,
    check: Check::Function(check),
};

/// A constant divisor.
pub(super) struct Divisor {
    pub value: f64,
    /// The notation of its reciprocal, if that is exact.
    pub reciprocal: Option<String>,
}

fn check(function: &FunctionContext<'_, '_>, findings: &mut Findings) {
    for instruction in function.instructions() {
        let Some(Divisor {
            value,
            reciprocal: Some(reciprocal),
        }) = divisor(function, instruction)
        else {
            continue;
        };
        let mnemonic = &function.mnemonic(instruction).text;
        // `mul` does not have `.full` and `.approx`.
        let rounded = mnemonic.contains(".r");
        let instructions = match mnemonic.ends_with("f64") {
            true => "about 20 instructions and a call",
            false if rounded => "about 11 instructions and a call",
            false => "2 to 8 instructions",
        };
        let finding = findings.add(
            instruction.opcode_span,
            format!(
                "a division by {value} takes {instructions}, a multiplication by {} takes 1",
                1.0 / value
            ),
        );
        let Some(rest) = mnemonic.strip_prefix("div.").filter(|_| rounded) else {
            finding.help(format!("multiply by `{reciprocal}`, which is exact"));
            continue;
        };
        finding.help(format!(
            "use `mul.{rest}` by `{reciprocal}`, which gives the same result"
        ));
        if let Some(last) = function.operands(instruction).last() {
            finding.fix([
                Edit {
                    span: instruction.opcode_span,
                    replacement: format!("mul.{rest}"),
                },
                Edit {
                    span: function.operand_span(instruction, last),
                    replacement: reciprocal,
                },
            ]);
        }
    }
}

/// The constant divisor of a floating-point division.
pub(super) fn divisor(
    function: &FunctionContext<'_, '_>,
    instruction: &Instruction,
) -> Option<Divisor> {
    if instruction.opcode != Opcode::Div {
        return None;
    }
    let ty = function.mnemonic(instruction).modifiers.types().next()?;
    let place = instruction.operands.start as usize + 2;
    match ty {
        Type::F32 => {
            let value = constant(function, place)? as f32;
            let inverse = 1.0 / value;
            let exact = value.to_bits() << 9 == 0 && value.is_normal() && inverse.is_normal();
            Some(Divisor {
                value: f64::from(value),
                reciprocal: exact.then(|| format!("0f{:08X}", inverse.to_bits())),
            })
        }
        Type::F64 => {
            let value = constant(function, place)?;
            let inverse = 1.0 / value;
            let exact = value.to_bits() << 12 == 0 && value.is_normal() && inverse.is_normal();
            Some(Divisor {
                value,
                reciprocal: exact.then(|| format!("0d{:016X}", inverse.to_bits())),
            })
        }
        _ => None,
    }
}

/// The constant value of an operand, or of the register in it.
pub(super) fn constant(function: &FunctionContext<'_, '_>, place: usize) -> Option<f64> {
    let literal = |place: usize| match function.body.operands.get(place)? {
        Operand::Float(float) => Some(match float.value {
            FloatValue::F32(bits) => f64::from(f32::from_bits(bits)),
            FloatValue::F64(bits) => f64::from_bits(bits),
        }),
        _ => None,
    };
    if let Some(number) = literal(place) {
        return Some(number);
    }
    let flow = function.flow()?;
    let Reference::Register(_) = flow.instructions.reference(place) else {
        return None;
    };
    let value = flow.values.of_operand(place);
    let Definition::Written(id) = flow.values.definition(value)? else {
        return None;
    };
    let made = flow.instructions.get(id)?;
    let whole = made.opcode == Opcode::Mov && flow.values.prior(value).is_none();
    whole.then(|| literal(made.operands.start as usize + 1))?
}
