//! `div.rn.f32`, `sqrt.rn.f32`, `rcp.rn.f32`

use super::float_division::divisor;
use crate::{Check, Code, Findings, FunctionContext, Rule};
use ptx::names::{Modifier, Opcode, Type};

pub static RULE: Rule = Rule {
    code: Code::new('P', 204),
    name: "exact-division",
    summary: "A correctly rounded division, reciprocal or root of single precision.",
    why: "The hardware only has approximations. For correct rounding ptxas adds about ten \
          instructions and a call for special cases, with the registers of a call: `div.rn.f32` \
          becomes about 11 instructions and a function of 100, `div.full` 8, `div.approx.ftz` 2.",
    instead: "If an error of two units in the last place is acceptable, use `div.full`, \
              `div.approx`, `rcp.approx` or `sqrt.approx` (`-prec-div=false` and \
              `-prec-sqrt=false` of nvcc, or `__fdividef`), with `.ftz` if subnormals do not \
              matter either.",
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
        // Another rule reports this.
        if divisor(function, instruction).is_some_and(|known| known.reciprocal.is_some()) {
            continue;
        }
        findings
            .add(
                instruction.opcode_span,
                format!(
                    "a correctly rounded {name} takes about {exact} instructions and a call, an \
                     approximate one {approximate}",
                ),
            )
            .help(format!(
                "use `{instead}` if an approximate result is acceptable"
            ));
    }
}
