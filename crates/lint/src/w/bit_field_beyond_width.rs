//! `bfe.u32 a, b, 28, 8`

use crate::{Check, Code, Findings, FunctionContext, Rule};
use ptx::ast::Operand;
use ptx::names::Opcode;

pub static RULE: Rule = Rule {
    code: Code::new('W', 104),
    name: "bit-field-beyond-width",
    summary: "A bit field with a constant place and length reaches beyond the register.",
    why: "`bfe` gives zeros, or copies of the sign, for bits that are not there, and `bfi` drops \
          what it should insert. Place and length are two operands that are easily confused.\n\n\
          Places and lengths that registers hold are not looked at. (PTX ISA, \"Integer \
          Arithmetic Instructions: bfe\", \"bfi\".)",
    instead: "Take a field that ends at the width of the type, or a wider type.",
    bad: "\
.entry k(.param .u64 dst)
{
	.reg .b32 a;
	.reg .b64 out;
	ld.param.u64 out, [dst];
	cvta.to.global.u64 out, out;
	ld.global.b32 a, [out];
	bfe.u32 a, a, 28, 8;
	st.global.b32 [out], a;
	ret;
}
",
    good: "\
.entry k(.param .u64 dst)
{
	.reg .b32 a;
	.reg .b64 out;
	ld.param.u64 out, [dst];
	cvta.to.global.u64 out, out;
	ld.global.b32 a, [out];
	bfe.u32 a, a, 24, 8;
	st.global.b32 [out], a;
	ret;
}
",
    default: true,
    check: Check::Function(check),
};

fn check(function: &FunctionContext<'_, '_>, findings: &mut Findings) {
    let fields = function.instructions_with(|mnemonic, _| {
        matches!(mnemonic.opcode, Opcode::Bfe | Opcode::Bfi | Opcode::Bmsk)
    });
    for (_, instruction) in fields {
        let first = match instruction.opcode {
            Opcode::Bfe => 2,
            Opcode::Bfi => 3,
            Opcode::Bmsk => 1,
            _ => continue,
        };
        let modifiers = &function.mnemonic(instruction).modifiers;
        let Some(bits) = modifiers.types().last().map(|ty| u64::from(ty.bits())) else {
            continue;
        };
        let operands = function.operands(instruction);
        let number = |place: usize| match operands.get(place) {
            Some(Operand::Integer(integer)) => Some((integer.value, integer.span)),
            _ => None,
        };
        let (place, length) = (number(first), number(first + 1));
        // A field of no bits is one wherever it begins.
        if length.is_some_and(|(length, _)| length == 0) {
            continue;
        }
        let at = place.map_or(0, |(place, _)| place);
        let long = length.map_or(1, |(length, _)| length);
        if at.saturating_add(long) > bits
            && let Some((_, span)) = length.or(place)
        {
            let message = match (place, length) {
                (Some((at, _)), None) => format!("a field at bit {at} of {bits}"),
                _ => format!("a field of {long} bits at bit {at} of {bits}"),
            };
            findings
                .add(span, message)
                .help(format!("place and length add up to {bits} at most"));
        }
    }
}
