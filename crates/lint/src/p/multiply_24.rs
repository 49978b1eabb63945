//! `mul24.lo.u32`

use crate::{Check, Code, Findings, FunctionContext, Rule};
use ptx::names::Opcode;

pub static RULE: Rule = Rule {
    code: Code::new('P', 209),
    name: "multiply-24",
    summary: "A 24-bit multiplication.",
    why: "The first devices multiplied 24 bits faster than 32. Since sm_20 the hardware \
          multiplies 32 bits, and `mul24` must first truncate both factors, which makes it three \
          instructions instead of one.",
    instead: "Use `mul.lo` or `mad.lo`, which give the same result for factors of up to 24 bits.",
    bad: "\
.entry k(.param .u64 out)
{
	.reg .b32 a;
	.reg .b64 p;
	ld.param.u64 p, [out];
	cvta.to.global.u64 p, p;
	ld.global.u32 a, [p];
	mul24.lo.u32 a, a, a;
	st.global.u32 [p], a;
	ret;
}
",
    good: "\
.entry k(.param .u64 out)
{
	.reg .b32 a;
	.reg .b64 p;
	ld.param.u64 p, [out];
	cvta.to.global.u64 p, p;
	ld.global.u32 a, [p];
	mul.lo.u32 a, a, a;
	st.global.u32 [p], a;
	ret;
}
",
    default: false,
    check: Check::Function(check),
};

/// The first target that multiplies 32 bits in one instruction.
const SINCE: u16 = 20;

fn check(function: &FunctionContext<'_, '_>, findings: &mut Findings) {
    let old = |number: u16| number < SINCE;
    if function
        .context
        .target
        .is_some_and(|target| old(target.number))
    {
        return;
    }
    for instruction in function.instructions() {
        let wide = match instruction.opcode {
            Opcode::Mul24 => "mul.lo",
            Opcode::Mad24 => "mad.lo",
            _ => continue,
        };
        findings
            .add(
                instruction.opcode_span,
                "a 24-bit multiplication takes 3 instructions, a 32-bit one takes 1",
            )
            .help(format!(
                "use `{wide}`, which gives the same result for factors of up to 24 bits"
            ));
    }
}
