//! `rcp` of `sqrt`

use super::float_division::constant;
use crate::flow::{Definition, Reference};
use crate::{Check, Code, Findings, FunctionContext, Rule};
use ptx::names::{Opcode, Type};

pub static RULE: Rule = Rule {
    code: Code::new('P', 207),
    name: "reciprocal-of-root",
    summary: "The reciprocal of a square root, computed in two steps.",
    why: "The hardware computes the reciprocal square root in one step, and `sqrt` is derived \
          from it: the root is first multiplied out and then inverted again. Each step rounds, \
          and handles subnormals separately.",
    instead: "Use `rsqrt.approx`, whose error is at most two units in the last place (`rsqrtf` \
              in C++).",
    bad: "\
.entry k(.param .u64 out)
{
	.reg .f32 a;
	.reg .b64 p;
	ld.param.u64 p, [out];
	cvta.to.global.u64 p, p;
	ld.global.f32 a, [p];
	sqrt.approx.f32 a, a;
	rcp.approx.f32 a, a;
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
	rsqrt.approx.f32 a, a;
	st.global.f32 [p], a;
	ret;
}
",
    default: false,
    check: Check::Function(check),
};

fn check(function: &FunctionContext<'_, '_>, findings: &mut Findings) {
    for instruction in function.instructions() {
        let first = instruction.operands.start as usize;
        let place = match instruction.opcode {
            Opcode::Rcp => first + 1,
            Opcode::Div => first + 2,
            _ => continue,
        };
        let modifiers = &function.mnemonic(instruction).modifiers;
        if modifiers.types().next() != Some(Type::F32) {
            continue;
        }
        let Some(flow) = function.flow() else {
            return;
        };
        let Reference::Register(_) = flow.instructions.reference(place) else {
            continue;
        };
        let value = flow.values.of_operand(place);
        let Some(Definition::Written(id)) = flow.values.definition(value) else {
            continue;
        };
        let root = flow.instructions.get(id);
        if root.is_none_or(|root| root.opcode != Opcode::Sqrt)
            || flow.values.prior(value).is_some()
            || flow.values.read_count(value) != 1
        {
            continue;
        }
        let message = match instruction.opcode {
            Opcode::Div if constant(function, first + 1) != Some(1.0) => {
                "a square root and a division take several instructions each: `rsqrt` and `mul` are \
                 one each"
            }
            _ => "a square root and its reciprocal take several instructions each: `rsqrt` is one",
        };
        findings
            .add(instruction.opcode_span, message)
            .help("use `rsqrt.approx` of the operand of the root");
    }
}
