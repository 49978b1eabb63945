//! `bar.sync` in a block of 32 threads

use super::launch_bounds::LaunchBounds;
use crate::multiprocessor::WARP;
use crate::{Check, Code, Findings, FunctionContext, Rule};
use ptx::names::{Modifier, Opcode};

pub static RULE: Rule = Rule {
    code: Code::new('P', 306),
    name: "single-warp-barrier",
    summary: "A barrier of the block in a kernel whose blocks are one warp.",
    why: "`bar.sync` goes to the barrier unit of the multiprocessor and back. For the threads of a \
          warp `bar.warp.sync` orders memory just as well without leaving it. ptxas does not \
          exchange them, even though `.reqntid` or `.maxntid` say that there is one warp.",
    instead: "`bar.warp.sync 0xFFFFFFFF` (`__syncwarp()` in C++).",
    bad: "\
.entry k(.param .u64 out) .reqntid 32
{
	.shared .align 4 .b8 tile[128];
	.reg .b32 i, a, q;
	.reg .b64 p;
	ld.param.u64 p, [out];
	cvta.to.global.u64 p, p;
	mov.u32 i, %tid.x;
	mov.u32 q, tile;
	mad.lo.u32 q, i, 4, q;
	st.shared.u32 [q], i;
	bar.sync 0;
	ld.shared.u32 a, [tile+4];
	st.global.u32 [p], a;
	ret;
}
",
    good: "\
.entry k(.param .u64 out) .reqntid 32
{
	.shared .align 4 .b8 tile[128];
	.reg .b32 i, a, q;
	.reg .b64 p;
	ld.param.u64 p, [out];
	cvta.to.global.u64 p, p;
	mov.u32 i, %tid.x;
	mov.u32 q, tile;
	mad.lo.u32 q, i, 4, q;
	st.shared.u32 [q], i;
	bar.warp.sync 0xFFFFFFFF;
	ld.shared.u32 a, [tile+4];
	st.global.u32 [p], a;
	ret;
}
",
    default: false,
    check: Check::Function(check),
};

fn check(function: &FunctionContext<'_, '_>, findings: &mut Findings) {
    let bounds = LaunchBounds::of(function.function, function.context.source);
    let threads = bounds.and_then(|bounds| bounds.threads);
    let Some(threads) = threads.filter(|threads| *threads <= WARP) else {
        return;
    };
    for instruction in function.instructions() {
        let modifiers = &function.mnemonic(instruction).modifiers;
        let of_block = matches!(instruction.opcode, Opcode::Bar | Opcode::Barrier)
            && modifiers.has(Modifier::Sync)
            && !modifiers.has(Modifier::Warp)
            && !modifiers.has(Modifier::Cluster);
        if of_block {
            findings
                .add(
                    instruction.opcode_span,
                    format!("a barrier of the block, which has {threads} threads in 1 warp"),
                )
                .help("`bar.warp.sync` with the mask of its threads does the same");
        }
    }
}
