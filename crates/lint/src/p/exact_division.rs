//! `div.rn.f32`, `sqrt.rn.f32`, `rcp.rn.f32`

use super::float_division::divisor;
use crate::{Check, Code, Findings, FunctionContext, Rule};
use ptx::names::{Modifier, Opcode, Type};

pub static RULE: Rule = Rule {
    code: Code::new('P', 204),
    name: "exact-division",
    summary: "A division, reciprocal or root of single precision that is rounded exactly.",
    why: "The hardware has approximations alone. For the last bit ptxas adds about ten instructions \
          and a call for unusual arguments, with the registers that a call takes: `div.rn.f32` \
          becomes about 11 instructions and a function of 100, `div.full` 8, `div.approx.ftz` 2.",
    instead: "Where two units in the last place do not matter, use `div.full`, `div.approx`, \
              `rcp.approx` or `sqrt.approx` (`-prec-div=false` and `-prec-sqrt=false` of nvcc, or \
              `__fdividef`), with `.ftz` where subnormals do not matter either.",
    bad: "\
.entry k(.param .u64 out)
{
	.reg .f32 a, b;
	.reg .b64 p;
	ld.param.u64 p, [out];
	cvta.to.global.u64 p, p;
	ld.global.v2.f32 {a, b}, [p];
	div.rn.f32 a, a, b;
	st.global.f32 [p], a;
	ret;
}
",
    good: "\
.entry k(.param .u64 out)
{
	.reg .f32 a, b;
	.reg .b64 p;
	ld.param.u64 p, [out];
	cvta.to.global.u64 p, p;
	ld.global.v2.f32 {a, b}, [p];
	div.full.f32 a, a, b;
	st.global.f32 [p], a;
	ret;
}
",
    default: false,
    check: Check::Function(check),
};

fn check(function: &FunctionContext<'_, '_>, findings: &mut Findings) {
    let rounding = [Modifier::Rn, Modifier::Rz, Modifier::Rm, Modifier::Rp];
    for instruction in function.instructions() {
        let (name, exact, approximate, instead) = match instruction.opcode {
            Opcode::Div => ("division", 11, 5, "div.full` or `div.approx"),
            Opcode::Rcp => ("reciprocal", 11, 8, "rcp.approx"),
            Opcode::Sqrt => ("square root", 11, 4, "sqrt.approx"),
            _ => continue,
        };
        let modifiers = &function.mnemonic(instruction).modifiers;
        if modifiers.types().next() != Some(Type::F32) || modifiers.first_of(&rounding).is_none() {
            continue;
        }
        // That has a rule of its own.
        if divisor(function, instruction).is_some_and(|known| known.reciprocal.is_some()) {
            continue;
        }
        findings
            .add(
                instruction.opcode_span,
                format!(
                    "a {name} to the last bit takes about {exact} instructions and a call, an \
                     approximate one {approximate}",
                ),
            )
            .help(format!("`{instead}` where the last bit does not matter"));
    }
}
