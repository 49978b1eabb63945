//! `bar.sync` in a block of 32 threads

use super::launch_bounds::LaunchBounds;
use crate::{Check, Code, Findings, FunctionContext, Rule};
use occupancy::WARP;
use ptx::names::{Modifier, Opcode};

pub static RULE: Rule = Rule {
    code: Code::new('P', 306),
    name: "single-warp-barrier",
    summary: "A block-wide barrier in a kernel whose blocks consist of one warp.",
    why: "`bar.sync` is a round trip to the barrier unit of the multiprocessor. For the threads \
          of one warp `bar.warp.sync` gives the same memory ordering without it. ptxas does not \
          replace the barrier, even if `.reqntid` or `.maxntid` imply a single warp.",
    instead: "Use `bar.warp.sync 0xFFFFFFFF` (`__syncwarp()` in C++).",
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
                    format!("a block-wide barrier in a block of 1 warp, with {threads} threads"),
                )
                .help("use `bar.warp.sync` with the mask of the threads");
        }
    }
}
