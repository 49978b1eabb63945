//! `if (i < n) { … __syncthreads(); … }`

use super::divergent_barrier::{apart, is_barrier};
use super::parted::{because, has_collective, others};
use crate::flow::ThreadSet;
use crate::{Check, Code, Findings, FunctionContext, Rule};

pub static RULE: Rule = Rule {
    code: Code::new('W', 306),
    name: "barrier-under-bound",
    summary: "A barrier stands behind a comparison of the thread's index with a bound.",
    why: "Where the bound lies within a block, some of its threads come to the barrier and others \
          do not: the block hangs, or goes on without them. That is right only if the bound is \
          always a multiple of the size of the block, which the text does not show.\n\n\
          It is the comparison itself that is looked at, `i < n` with an `i` that is counted from \
          `%tid`: a condition on data is not reported, nor one that whole warps decide alike \
          before a barrier that counts threads. Threads that end beyond the bound are those of \
          `early-exit-before-barrier`. (PTX ISA, \"bar, barrier\"; CUDA C++ Programming Guide, \
          \"Synchronization Functions\".)",
    instead: "Let all threads come to the barrier, and guard the work before and behind it.",
    bad: "\
.entry k(.param .u64 .ptr .global .align 4 out, .param .u32 n)
{
	.reg .pred p;
	.reg .b32 t, end;
	.reg .b64 to;
	ld.param.u64 to, [out];
	ld.param.u32 end, [n];
	mov.u32 t, %tid.x;
	mad.wide.u32 to, t, 4, to;
	setp.ge.u32 p, t, end;
	@p bra REST;
	bar.sync 0;
REST:
	st.global.b32 [to], t;
	ret;
}
",
    good: "\
.entry k(.param .u64 .ptr .global .align 4 out, .param .u32 n)
{
	.reg .pred p;
	.reg .b32 t, end;
	.reg .b64 to;
	ld.param.u64 to, [out];
	ld.param.u32 end, [n];
	mov.u32 t, %tid.x;
	mad.wide.u32 to, t, 4, to;
	setp.ge.u32 p, t, end;
	bar.sync 0;
	@p bra REST;
	st.global.b32 [to], t;
REST:
	ret;
}
",
    default: true,
    check: Check::Function(check),
};

fn check(function: &FunctionContext<'_, '_>, findings: &mut Findings) {
    if !has_collective(function, is_barrier) {
        return;
    }
    let (Some(flow), Some(pass)) = (function.flow(), function.first_pass()) else {
        return;
    };
    for (parting, barriers) in apart(function, flow, pass, true) {
        if let Some(instruction) = barriers.first() {
            let more = others(barriers.len() - 1);
            let because = because(function, flow, parting.branch, &[ThreadSet::EMPTY; 2]);
            findings
                .add(
                    instruction.opcode_span,
                    format!("where the bound lies within a block, not all its threads come to this barrier{more}: {because}"),
                )
                .help("let all threads come to it, and guard the work alone");
        }
    }
}
