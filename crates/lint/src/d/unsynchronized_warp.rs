//! `shfl.up.b32`, `vote.all.pred`

use crate::{Check, Code, Findings, FunctionContext, Rule};
use ptx::names::{Modifier, Opcode};

pub static RULE: Rule = Rule {
    code: Code::new('D', 101),
    name: "unsynchronized-warp-operation",
    summary: "A `shfl` or `vote` without `.sync`.",
    why: "From sm_70 on the threads of a warp go their own ways: without a mask nobody knows \
          which of them take part. PTX 6.0 deprecated these forms, and since 6.4 there are none \
          for sm_70 and later. A driver that compiles such a module for a newer GPU gives what \
          the threads happen to hold.",
    instead: "Write `shfl.sync` or `vote.sync` with the threads that take part, `0xffffffff` for \
              all of a warp; they need PTX 6.0 and sm_30. `activemask` is not that set.",
    bad: "\
.version 6.3
.target sm_60
.address_size 64

.entry k(.param .u64 out)
{
	.reg .b32 lane;
	.reg .b64 p;
	ld.param.u64 p, [out];
	cvta.to.global.u64 p, p;
	mov.u32 lane, %laneid;
	shfl.up.b32 lane, lane, 1, 0;
	st.global.b32 [p], lane;
	ret;
}
",
    good: "\
.version 6.3
.target sm_60
.address_size 64

.entry k(.param .u64 out)
{
	.reg .b32 lane;
	.reg .b64 p;
	ld.param.u64 p, [out];
	cvta.to.global.u64 p, p;
	mov.u32 lane, %laneid;
	shfl.sync.up.b32 lane, lane, 1, 0, 0xffffffff;
	st.global.b32 [p], lane;
	ret;
}
",
    default: false,
    check: Check::Function(check),
};

fn check(function: &FunctionContext<'_, '_>, findings: &mut Findings) {
    for instruction in function.instructions() {
        if !matches!(instruction.opcode, Opcode::Shfl | Opcode::Vote) {
            continue;
        }
        let mnemonic = function.mnemonic(instruction);
        if !mnemonic.modifiers.has(Modifier::Sync) {
            let opcode = instruction.opcode.text();
            let message = format!("`{opcode}` without `.sync` is deprecated since PTX 6.0");
            findings.add(instruction.opcode_span, message).help(format!(
                "write `{opcode}.sync` with a mask of the threads that take part"
            ));
        }
    }
}
