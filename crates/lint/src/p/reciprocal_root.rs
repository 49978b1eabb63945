//! `rcp` of `sqrt`

use super::float_division::constant;
use crate::flow::{Definition, Reference};
use crate::{Check, Code, Findings, FunctionContext, Rule};
use ptx::names::{Opcode, Type};

pub static RULE: Rule = Rule {
    code: Code::new('P', 207),
    name: "reciprocal-of-root",
    summary: "The reciprocal of a square root, in two steps.",
    why: "The hardware computes the reciprocal root in one, and `sqrt` is made of it: the root is \
          multiplied out first and inverted again then. Each step rounds, and takes care of \
          subnormals on its own.",
    instead: "`rsqrt.approx`, which is accurate to two units in the last place (`rsqrtf` in C++).",
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
                "a division by a square root takes two steps of several instructions: `rsqrt` and \
                 a `mul` are 2"
            }
            _ => "a root and its reciprocal take two steps of several instructions: `rsqrt` is one",
        };
        findings
            .add(instruction.opcode_span, message)
            .help("`rsqrt.approx` of what the root is taken of");
    }
}
