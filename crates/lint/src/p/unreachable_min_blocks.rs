//! `.maxntid 1024 .minnctapersm 4`

use super::launch_bounds::LaunchBounds;
use crate::multiprocessor::{Multiprocessor, WARP};
use crate::{Check, Code, Findings, FunctionContext, Rule};

pub static RULE: Rule = Rule {
    code: Code::new('P', 307),
    name: "unreachable-min-blocks",
    summary: "`.minnctapersm` asks for more resident blocks than a multiprocessor has room for.",
    why: "It tells the assembler to use so few registers that this many blocks are resident. More \
          threads than a multiprocessor holds cannot be: ptxas says so on its standard error, \
          ignores it, and compiles as if nothing was asked for. A driver that compiles says \
          nothing.",
    instead: "Ask for no more blocks than fit, with blocks of the size of `.maxntid`; the limits \
              differ between targets.",
    bad: "\
.entry k(.param .u64 out) .maxntid 1024 .minnctapersm 4
{
	.reg .b32 i;
	.reg .b64 p;
	ld.param.u64 p, [out];
	cvta.to.global.u64 p, p;
	mov.u32 i, %ctaid.x;
	st.global.u32 [p], i;
	ret;
}
",
    good: "\
.entry k(.param .u64 out) .maxntid 1024 .minnctapersm 2
{
	.reg .b32 i;
	.reg .b64 p;
	ld.param.u64 p, [out];
	cvta.to.global.u64 p, p;
	mov.u32 i, %ctaid.x;
	st.global.u32 [p], i;
	ret;
}
",
    default: false,
    check: Check::Function(check),
};

fn check(function: &FunctionContext<'_, '_>, findings: &mut Findings) {
    let context = function.context;
    let bounds = LaunchBounds::of(function.function, context.source);
    let Some((threads, (blocks, span))) =
        bounds.and_then(|bounds| Some((bounds.threads?, bounds.blocks?)))
    else {
        return;
    };
    let Some((target, multiprocessor)) = context
        .target
        .and_then(|target| Some((target, Multiprocessor::of(target)?)))
    else {
        return;
    };
    let warps = threads.max(1).div_ceil(WARP);
    let most = (multiprocessor.warps / warps).min(multiprocessor.blocks);
    if blocks > most && most > 0 {
        findings
            .add(
                span,
                format!(
                    "{blocks} blocks of {threads} threads are {} warps: {target} holds {}, in {} \
                     blocks at most",
                    blocks.saturating_mul(warps),
                    multiprocessor.warps,
                    multiprocessor.blocks,
                ),
            )
            .help(format!("ask for {most} or less"));
    }
}
