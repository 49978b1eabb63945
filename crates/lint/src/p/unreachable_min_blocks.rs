//! `.maxntid 1024 .minnctapersm 4`

use super::launch_bounds::LaunchBounds;
use crate::{Check, Code, Findings, FunctionContext, Rule};
use occupancy::{Multiprocessor, WARP};

pub static RULE: Rule = Rule {
    code: Code::new('P', 307),
    name: "unreachable-min-blocks",
    summary: "`.minnctapersm` requests more resident blocks than a multiprocessor supports.",
    why: "The directive makes ptxas limit the registers so that this many blocks can be \
          resident. If the threads exceed the limit of the multiprocessor, ptxas prints a \
          message, ignores the directive, and compiles without it. The driver's compiler ignores \
          it silently.",
    instead: "Request no more blocks than can be resident with the block size of `.maxntid`; the \
              limits depend on the target.",
    bad: "\
.entry k(.param .u64 out) .maxntid 1024 .minnctapersm 4
{
	.reg .b32 i;
	.reg .b64 p;
	ld.param.u64 p, [out];
	cvta.to.global.u64 p, p;
	mov.u32 i, %ctaid.x;
	mad.wide.u32 p, i, 4, p;
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
	mad.wide.u32 p, i, 4, p;
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
        .and_then(|target| Some((target, Multiprocessor::of(target.number)?)))
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
                    "{blocks} blocks of {threads} threads are {} warps: the limits of {target} are {} \
                     warps and {} blocks",
                    blocks.saturating_mul(warps),
                    multiprocessor.warps,
                    multiprocessor.blocks,
                ),
            )
            .help(format!("request at most {most}"));
    }
}
