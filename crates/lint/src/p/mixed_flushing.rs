//! `add.f32` among `mul.ftz.f32`

use crate::{Check, Code, Findings, FunctionContext, Rule};
use ptx::names::{Modifier, Opcode, Type};

pub static RULE: Rule = Rule {
    code: Code::new('P', 206),
    name: "mixed-flushing",
    summary: "Some single-precision operations of a function flush subnormals to zero, and others \
              do not.",
    why: "Operations without `.ftz` preserve subnormals that those with it discard: the function \
          has the cost of subnormals without their benefit. Divisions and roots without `.ftz` \
          take several more instructions, and a `mul` and an `add` that differ in `.ftz` are \
          never fused.",
    instead: "Use one mode in the whole function: `-ftz=true` of nvcc, or `.ftz` on all \
              operations. The rule ignores conversions, comparisons, `ex2`, `rcp` and `rsqrt`, \
              for which compilers always write `.ftz`.",
    bad: "\
.entry k(.param .u64 out)
{
	.reg .f32 a, b;
	.reg .b64 p;
	ld.param.u64 p, [out];
	cvta.to.global.u64 p, p;
	ld.global.v2.f32 {a, b}, [p];
	mul.ftz.f32 a, a, b;
	fma.rn.ftz.f32 a, a, b, b;
	add.f32 a, a, b;
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
	mul.ftz.f32 a, a, b;
	fma.rn.ftz.f32 a, a, b, b;
	add.ftz.f32 a, a, b;
	st.global.f32 [p], a;
	ret;
}
",
    default: false,
    check: Check::Function(check),
};

fn check(function: &FunctionContext<'_, '_>, findings: &mut Findings) {
    // The numbers of operations that preserve and that flush subnormals, and the first of each.
    let mut count = [0_usize; 2];
    let mut first = [None; 2];
    for instruction in function.instructions() {
        let counts = matches!(
            instruction.opcode,
            Opcode::Add
                | Opcode::Sub
                | Opcode::Mul
                | Opcode::Fma
                | Opcode::Mad
                | Opcode::Div
                | Opcode::Sqrt
        );
        if !counts {
            continue;
        }
        let modifiers = &function.mnemonic(instruction).modifiers;
        if modifiers.types().next() != Some(Type::F32) {
            continue;
        }
        let flushes = usize::from(modifiers.has(Modifier::Ftz));
        count[flushes] += 1;
        first[flushes].get_or_insert(instruction.opcode_span);
    }
    let [keep, flush] = count;
    if keep == 0 || flush == 0 {
        return;
    }
    let all = keep + flush;
    let (span, message, help) = if keep <= flush {
        (
            first[0],
            format!("{flush} of {all} operations flush subnormals to zero, and this one does not"),
            "write `.ftz` here too",
        )
    } else {
        (
            first[1],
            format!("{flush} of {all} operations flush subnormals to zero, this one first"),
            "remove `.ftz` here, or write it on all",
        )
    };
    if let Some(span) = span {
        findings.add(span, message).help(help);
    }
}
