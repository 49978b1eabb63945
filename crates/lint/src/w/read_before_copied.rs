//! A read of what `cp.async` copies, with no wait between.

use crate::flow::{Hazard, early_accesses};
use crate::{Check, Code, Findings, FunctionContext, Rule};

pub static RULE: Rule = Rule {
    code: Code::new('W', 409),
    name: "read-before-copied",
    summary: "A thread reads shared memory that a `cp.async` has begun to write, and nothing has \
              waited for the copy.",
    why: "A barrier does not wait for a copy. `cp.async.wait_group N` waits until at most the N \
          newest groups are pending: what is to be read has to be in an older one, and a copy \
          that is committed behind the wait is in none.\n\n\
          From each copy the ways on are followed, once through each loop, with the groups that \
          are committed on them. A read is reported if no way to it has waited, and a thread \
          reads bytes that one copies: their addresses are worked out in the first turn of each \
          loop, in a block of the size that `.reqntid` or `.maxntid` says, or of 128 threads. \
          Nothing is said of addresses that depend on data. (PTX ISA, \"cp.async\", \
          \"cp.async.wait_group\".)",
    instead: "Commit the copy and wait for its group before the barrier that the readers come \
              to.",
    bad: "\
.entry k(.param .u64 src) .reqntid 128
{
	.reg .b32 t, at, a;
	.reg .b64 in;
	.shared .align 16 .b8 tile[1024];
	ld.param.u64 in, [src];
	cvta.to.global.u64 in, in;
	mov.u32 t, %tid.x;
	mad.wide.u32 in, t, 4, in;
	mov.b32 at, tile;
	mad.lo.u32 at, t, 4, at;
	cp.async.ca.shared.global [at], [in], 4;
	cp.async.commit_group;
	cp.async.ca.shared.global [at+512], [in+512], 4;
	cp.async.commit_group;
	cp.async.wait_group 1;
	bar.sync 0;
	ld.shared.b32 a, [at+512];
	st.global.b32 [in], a;
	cp.async.wait_group 0;
	ret;
}
",
    good: "\
.entry k(.param .u64 src) .reqntid 128
{
	.reg .b32 t, at, a;
	.reg .b64 in;
	.shared .align 16 .b8 tile[1024];
	ld.param.u64 in, [src];
	cvta.to.global.u64 in, in;
	mov.u32 t, %tid.x;
	mad.wide.u32 in, t, 4, in;
	mov.b32 at, tile;
	mad.lo.u32 at, t, 4, at;
	cp.async.ca.shared.global [at], [in], 4;
	cp.async.commit_group;
	cp.async.ca.shared.global [at+512], [in+512], 4;
	cp.async.commit_group;
	cp.async.wait_group 1;
	bar.sync 0;
	ld.shared.b32 a, [at];
	st.global.b32 [in], a;
	cp.async.wait_group 0;
	ret;
}
",
    default: true,
    check: Check::Function(check),
};

fn check(function: &FunctionContext<'_, '_>, findings: &mut Findings) {
    let help = "commit the copy and wait for its group before this";
    report(function, Hazard::Copied, "reads", help, findings);
}

/// Tells of each access that has to wait for a copy, and what it does.
pub(super) fn report(
    function: &FunctionContext<'_, '_>,
    hazard: Hazard,
    does: &str,
    help: &str,
    findings: &mut Findings,
) {
    for early in early_accesses(function, hazard) {
        let Some(flow) = function.flow() else {
            return;
        };
        let (Some(copy), Some(access)) = (
            flow.instructions.get(early.copy),
            flow.instructions.get(early.access),
        ) else {
            continue;
        };
        let line = function.line(copy.span);
        let whose = match early.threads {
            (copies, other) if copies == other => format!("thread {other} {does} what it copies"),
            (copies, other) => format!("thread {other} {does} what thread {copies} copies"),
        };
        findings
            .add_once(
                access.opcode_span,
                format!("{whose} in line {line}, and nothing has waited for the copy"),
            )
            .help(help);
    }
}
