//! `shl.b32 a, a, 32`

use crate::{Check, Code, Findings, FunctionContext, Rule};
use ptx::ast::Operand;
use ptx::names::{Modifier, Opcode};

pub static RULE: Rule = Rule {
    code: Code::new('W', 103),
    name: "shift-beyond-width",
    summary: "A shift by a constant that is no less than the width of what is shifted.",
    why: "`shl` and `shr` clamp the amount to the width: all bits are gone, and the result is 0, \
          or the sign of a negative number. `shf.wrap` takes the amount modulo 32, and shifts by \
          nothing at all. Who writes such an amount means another one, or another width.\n\n\
          Amounts in registers are not looked at. (PTX ISA, \"Logic and Shift Instructions: \
          shl\", \"shf\".)",
    instead: "Shift a wider register, or by less. For 0, `mov` it.",
    bad: "\
.entry k(.param .u64 dst)
{
	.reg .b32 a;
	.reg .b64 p;
	ld.param.u64 p, [dst];
	cvta.to.global.u64 p, p;
	ld.global.b32 a, [p];
	shl.b32 a, a, 32;
	st.global.b32 [p], a;
	ret;
}
",
    good: "\
.entry k(.param .u64 dst)
{
	.reg .b32 a;
	.reg .b64 p;
	ld.param.u64 p, [dst];
	cvta.to.global.u64 p, p;
	ld.global.b32 a, [p];
	shl.b32 a, a, 31;
	st.global.b32 [p], a;
	ret;
}
",
    default: true,
    check: Check::Function(check),
};

fn check(function: &FunctionContext<'_, '_>, findings: &mut Findings) {
    let shifts = function.instructions_with(|mnemonic, _| {
        matches!(mnemonic.opcode, Opcode::Shl | Opcode::Shr | Opcode::Shf)
    });
    for (_, instruction) in shifts {
        let modifiers = &function.mnemonic(instruction).modifiers;
        let Some(bits) = modifiers.types().next().map(|ty| ty.bits()) else {
            continue;
        };
        // Of two registers, `shf.clamp` takes all of either at 32.
        let most = match instruction.opcode {
            Opcode::Shf if modifiers.has(Modifier::Clamp) => bits,
            _ => bits - 1,
        };
        if let Some(Operand::Integer(amount)) = function.operands(instruction).last()
            && amount.value > u64::from(most)
        {
            let amount_text = amount.value as i64;
            findings
                .add(
                    amount.span,
                    format!("a shift by {amount_text} of {bits} bits"),
                )
                .help(format!(
                    "an amount from 0 to {} leaves some of the bits",
                    bits - 1
                ));
        }
    }
}
