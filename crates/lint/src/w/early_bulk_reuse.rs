//! A write to what a bulk copy still reads, or a read of what it writes, with no wait
//! between.

use super::read_before_copied::report;
use crate::flow::Hazard;
use crate::{Check, Code, Findings, FunctionContext, Rule};

pub static RULE: Rule = Rule {
    code: Code::new('W', 410),
    name: "early-bulk-reuse",
    summary: "A thread overwrites shared memory that a bulk copy still reads, or reads global \
              memory that one still writes: nothing has waited for the group of the copy.",
    why: "`cp.async.bulk` out of shared memory goes on while the thread does, and a barrier does \
          not wait for it. `cp.async.bulk.wait_group.read N` waits until all but the N newest \
          groups have read their sources, which may then be overwritten; without `.read`, until \
          they have written their destinations too. A copy that is committed behind the wait is \
          in no group.\n\n\
          The ways are followed as in `W0409`, with the same limits: forward from each copy, \
          once through each loop, and an access is reported if no way to it has waited and its \
          bytes are those of the copy. Of a tensor, the first 16 bytes in shared memory count, \
          and no destination. Nothing is said where `elect.sync` chooses the thread that copies, \
          of sizes in registers, or of addresses that depend on data. (PTX ISA, \
          \"cp.async.bulk\", \"cp.async.bulk.wait_group\".)",
    instead: "Let the thread that copies commit and wait for the group, then let the block meet \
              at a barrier, and use the memory after that.",
    bad: "\
.entry k(.param .u64 dst) .reqntid 128
{
	.reg .pred first;
	.reg .b32 t, at;
	.reg .b64 out;
	.shared .align 16 .b8 tile[512];
	ld.param.u64 out, [dst];
	cvta.to.global.u64 out, out;
	mov.u32 t, %tid.x;
	setp.eq.u32 first, t, 0;
	mov.b32 at, tile;
	mad.lo.u32 at, t, 4, at;
	st.shared.b32 [at], t;
	fence.proxy.async.shared::cta;
	bar.sync 0;
	@first cp.async.bulk.global.shared::cta.bulk_group [out], [tile], 512;
	@first cp.async.bulk.commit_group;
	bar.sync 0;
	st.shared.b32 [at], 0;
	cp.async.bulk.wait_group 0;
	ret;
}
",
    good: "\
.entry k(.param .u64 dst) .reqntid 128
{
	.reg .pred first;
	.reg .b32 t, at;
	.reg .b64 out;
	.shared .align 16 .b8 tile[512];
	ld.param.u64 out, [dst];
	cvta.to.global.u64 out, out;
	mov.u32 t, %tid.x;
	setp.eq.u32 first, t, 0;
	mov.b32 at, tile;
	mad.lo.u32 at, t, 4, at;
	st.shared.b32 [at], t;
	fence.proxy.async.shared::cta;
	bar.sync 0;
	@first cp.async.bulk.global.shared::cta.bulk_group [out], [tile], 512;
	@first cp.async.bulk.commit_group;
	cp.async.bulk.wait_group.read 0;
	bar.sync 0;
	st.shared.b32 [at], 0;
	cp.async.bulk.wait_group 0;
	ret;
}
",
    default: true,
    check: Check::Function(check),
};

fn check(function: &FunctionContext<'_, '_>, findings: &mut Findings) {
    let help = "wait with `cp.async.bulk.wait_group.read`, and at a barrier, before this";
    report(function, Hazard::BulkSource, "overwrites", help, findings);
    let help = "wait with `cp.async.bulk.wait_group`, and at a barrier, before this";
    report(function, Hazard::BulkDestination, "reads", help, findings);
}
