//! `div.u32 a, a, 8`

use super::integer_division::Division;
use crate::{Check, Code, Edit, Findings, FunctionContext, Rule};
use ptx::ast::Operand;

pub static RULE: Rule = Rule {
    code: Code::new('P', 202),
    name: "division-by-power-of-two",
    summary: "An integer division or remainder by a power of two.",
    why: "The hardware has no integer division: ptxas expands a 32-bit division into about 14 \
          instructions, and a 64-bit division into a call of about 60, even for constants. It \
          expects the compiler to replace the division by a shift.",
    instead: "For unsigned numbers `shr` gives the quotient, and `and` with the divisor minus \
              one the remainder. Signed division rounds towards 0, so add the divisor minus one \
              to negative dividends before the `shr`.",
    bad: "\
.entry k(.param .u64 out)
{
	.reg .b32 a;
	.reg .b64 p;
	ld.param.u64 p, [out];
	cvta.to.global.u64 p, p;
	ld.global.u32 a, [p];
	div.u32 a, a, 8;
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
	shr.u32 a, a, 3;
	st.global.u32 [p], a;
	ret;
}
",
    default: false,
    check: Check::Function(check),
};

fn check(function: &FunctionContext<'_, '_>, findings: &mut Findings) {
    for instruction in function.instructions() {
        let Some(division) = Division::of(function, instruction) else {
            continue;
        };
        let (by, bits) = (division.by, division.bits);
        if !by.is_power_of_two() || by == 1 && division.negative {
            continue;
        }
        let (name, instructions) = (division.name(), division.instructions());
        let shift = by.trailing_zeros();
        let (opcode, operand, takes) = match (division.remainder, division.signed) {
            (true, false) => (format!("and.b{bits}"), by - 1, "`and`, 1"),
            (false, false) => (format!("shr.u{bits}"), u64::from(shift), "`shr`, 1"),
            (_, true) => (String::new(), 0, "shifts, 4 or 5"),
        };
        let finding = findings.add(
            instruction.opcode_span,
            format!("a {name} by {by} takes about {instructions} instructions, with {takes}"),
        );
        if division.signed {
            finding.help(format!(
                "add {} to negative dividends, and shift right by {shift}; or use unsigned numbers",
                by - 1,
            ));
            continue;
        }
        finding.help(format!("write `{opcode}` with {operand}"));
        if let Some(last @ (Operand::Integer(_) | Operand::Name(_))) = division.operands.last() {
            finding.fix([
                Edit {
                    span: instruction.opcode_span,
                    replacement: opcode,
                },
                Edit {
                    span: function.operand_span(instruction, last),
                    replacement: operand.to_string(),
                },
            ]);
        }
    }
}
