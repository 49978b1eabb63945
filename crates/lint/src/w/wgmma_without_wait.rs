//! `wgmma.mma_async` that nothing waits for.

use super::copy_without_wait::unwaited;
use crate::flow::AsyncEvent;
use crate::{Check, Code, Findings, FunctionContext, Rule};
use ptx::ast::Mnemonic;
use ptx::names::{Modifier, Opcode};

pub static RULE: Rule = Rule {
    code: Code::new('W', 403),
    name: "wgmma-without-wait",
    summary: "No way behind a `wgmma.mma_async` commits it and waits for it.",
    why: "The registers of the result belong to the tensor core until `wgmma.wait_group` behind a \
          `wgmma.commit_group`. Whoever reads them before gets what they held, or anything.\n\n\
          A wait on any way behind the product is enough, also one in a function that is called. \
          (PTX ISA, \"Asynchronous Warpgroup Level Matrix Instructions: wgmma.wait_group\".)",
    instead: "Write `wgmma.commit_group` and `wgmma.wait_group 0` before the result is read.",
    bad: "\
.version 9.0
.target sm_90a
.address_size 64

.entry k(.param .u64 dst)
{
	.reg .b64 out;
	.reg .b64 a, b;
	.reg .b32 d<4>;
	ld.param.u64 out, [dst];
	cvta.to.global.u64 out, out;
	ld.global.v2.b64 {a, b}, [out];
	mov.b32 d0, 0;
	mov.b32 d1, 0;
	wgmma.fence.sync.aligned;
	wgmma.mma_async.sync.aligned.m64n8k16.f16.f16.f16 {d0, d1}, a, b, 1, 1, 1, 0, 0;
	st.global.v2.b32 [out], {d0, d1};
	ret;
}
",
    good: "\
.version 9.0
.target sm_90a
.address_size 64

.entry k(.param .u64 dst)
{
	.reg .b64 out;
	.reg .b64 a, b;
	.reg .b32 d<4>;
	ld.param.u64 out, [dst];
	cvta.to.global.u64 out, out;
	ld.global.v2.b64 {a, b}, [out];
	mov.b32 d0, 0;
	mov.b32 d1, 0;
	wgmma.fence.sync.aligned;
	wgmma.mma_async.sync.aligned.m64n8k16.f16.f16.f16 {d0, d1}, a, b, 1, 1, 1, 0, 0;
	wgmma.commit_group.sync.aligned;
	wgmma.wait_group.sync.aligned 0;
	st.global.v2.b32 [out], {d0, d1};
	ret;
}
",
    default: true,
    check: Check::Function(check),
};

fn begins(mnemonic: &Mnemonic<'_>) -> bool {
    mnemonic.opcode == Opcode::Wgmma
        && event(mnemonic) == AsyncEvent::None
        && mnemonic.modifiers.types().next().is_some()
}

fn event(mnemonic: &Mnemonic<'_>) -> AsyncEvent {
    let has = |word| mnemonic.modifiers.has(word);
    match mnemonic.opcode {
        Opcode::Wgmma if has(Modifier::CommitGroup) => AsyncEvent::Commit,
        Opcode::Wgmma if has(Modifier::WaitGroup) => AsyncEvent::WaitForGroups,
        _ => AsyncEvent::None,
    }
}

fn check(function: &FunctionContext<'_, '_>, findings: &mut Findings) {
    unwaited(function, begins, event, |instruction| {
        findings
            .add(
                instruction.opcode_span,
                "nothing behind this commits the product and waits for it",
            )
            .help(
                "write `wgmma.commit_group.sync.aligned` and `wgmma.wait_group.sync.aligned 0` \
                 before the result is read",
            );
    });
}
