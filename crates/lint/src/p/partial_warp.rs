//! `.reqntid 48`

use super::launch_bounds::LaunchBounds;
use crate::{Check, Code, Findings, FunctionContext, Rule};
use occupancy::WARP;

pub static RULE: Rule = Rule {
    code: Code::new('P', 303),
    name: "partial-warp",
    summary: "A block whose threads do not fill its last warp.",
    why: "Threads execute in warps of 32. If the block size is not a multiple of 32, the last \
          warp takes the time and registers of a full warp, with some lanes idle.",
    instead: "Use a multiple of 32 threads. The rule does not report kernels with one thread.",
    bad: "\
.entry k(.param .u64 out) .reqntid 72
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
.entry k(.param .u64 out) .reqntid 96
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
    let bounds = LaunchBounds::of(function.function, function.context.source);
    let Some((bounds, threads)) = bounds.and_then(|bounds| Some((bounds, bounds.threads?))) else {
        return;
    };
    let rest = threads % WARP;
    if rest == 0 || threads == 1 {
        return;
    }
    let warps = threads.div_ceil(WARP);
    let idle = WARP - rest;
    findings
        .add(
            bounds.span,
            format!("{threads} threads take {warps} warps: {idle} lanes of the last one are idle"),
        )
        .help(format!(
            "use {} threads, or {}",
            threads.next_multiple_of(WARP),
            match threads / WARP * WARP {
                0 => "combine several blocks into one warp".to_owned(),
                fewer => fewer.to_string(),
            },
        ));
}
