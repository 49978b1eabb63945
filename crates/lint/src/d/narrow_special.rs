//! `mov.u16 h, %tid.x`

use crate::{Check, Code, Findings, FunctionContext, Rule};
use ptx::ast::Operand;
use ptx::isa::special;
use ptx::names::Opcode;

pub static RULE: Rule = Rule {
    code: Code::new('D', 106),
    name: "narrow-special-register",
    summary: "A special register read with fewer bits than it has.",
    why: "`%tid`, `%ntid`, `%ctaid` and `%nctaid` had 16 bits in PTX 1.x and have 32 since then; \
          `%gridid` has 64 since PTX 3.0. The narrow read remains for old code and only gives \
          the low bits: in a grid of 70,000 blocks two blocks read the number 4,464.",
    instead: "Read 32 bits (64 for `%gridid`), and convert the value if it is known to be small.",
    bad: "\
.entry k(.param .u64 out)
{
	.reg .u16 size;
	.reg .b64 p;
	ld.param.u64 p, [out];
	cvta.to.global.u64 p, p;
	mov.u16 size, %ntid.x;
	st.global.u16 [p], size;
	ret;
}
",
    good: "\
.entry k(.param .u64 out)
{
	.reg .u32 size;
	.reg .b64 p;
	ld.param.u64 p, [out];
	cvta.to.global.u64 p, p;
	mov.u32 size, %ntid.x;
	st.global.u32 [p], size;
	ret;
}
",
    default: false,
    check: Check::Function(check),
};

fn check(function: &FunctionContext<'_, '_>, findings: &mut Findings) {
    for instruction in function.instructions() {
        if !matches!(instruction.opcode, Opcode::Mov | Opcode::Cvt) {
            continue;
        }
        for operand in function.operands(instruction) {
            let Operand::Special(register, span) = *operand else {
                continue;
            };
            let read = function.mnemonic(instruction).modifiers.types().last();
            let whole = special::of(register).types.iter().map(|ty| ty.bits()).max();
            if let (Some(read), Some(whole)) = (read, whole)
                && read.bits() < whole
            {
                let (bits, name) = (read.bits(), register.text());
                let message =
                    format!("this only reads the low {bits} of the {whole} bits of `{name}`");
                findings
                    .add(span, message)
                    .help(format!("read it as `.u{whole}`"));
            }
        }
    }
}
