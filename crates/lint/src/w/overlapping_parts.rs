//! Neighbouring threads that write into each other's part of memory.

use crate::flow::overlaps;
use crate::{Check, Code, Findings, FunctionContext, Rule};

pub static RULE: Rule = Rule {
    code: Code::new('W', 316),
    name: "overlapping-parts",
    summary: "A thread writes more bytes of global memory than the next thread's part is apart.",
    why: "Each thread has a part of memory of its own, one behind the other; but what it writes \
          reaches into the part of the next thread, which writes there too, at any time. Of \
          structures that are copied, the size is wrong, or that of the index.\n\n\
          Compared are stores of one basic block whose addresses differ by constants and move \
          with `%tid.x`, in two threads of which the second is the next, under the conditions \
          that both come there. Nothing is said where an address or a condition depends on what \
          a thread has loaded, where both leave the same number, and where a barrier stands \
          between. (PTX ISA, \"Memory Consistency Model\".)",
    instead: "Multiply the index of the thread by all the bytes that it writes, or write fewer.",
    bad: "\
.entry k(.param .u64 data, .param .u64 dst)
{
	.reg .b32 t, a, b;
	.reg .b64 at, from, to;
	ld.param.u64 from, [data];
	ld.param.u64 to, [dst];
	cvta.to.global.u64 from, from;
	cvta.to.global.u64 to, to;
	mov.u32 t, %tid.x;
	mul.wide.u32 at, t, 4;
	add.u64 from, from, at;
	add.u64 to, to, at;
	ld.global.b32 a, [from];
	ld.global.b32 b, [from+4];
	st.global.b32 [to], a;
	st.global.b32 [to+4], b;
	ret;
}
",
    good: "\
.entry k(.param .u64 data, .param .u64 dst)
{
	.reg .b32 t, a, b;
	.reg .b64 at, from, to;
	ld.param.u64 from, [data];
	ld.param.u64 to, [dst];
	cvta.to.global.u64 from, from;
	cvta.to.global.u64 to, to;
	mov.u32 t, %tid.x;
	mul.wide.u32 at, t, 12;
	add.u64 from, from, at;
	add.u64 to, to, at;
	ld.global.b32 a, [from];
	ld.global.b32 b, [from+8];
	st.global.b32 [to], a;
	st.global.b32 [to+8], b;
	ret;
}
",
    default: true,
    check: Check::Function(check),
};

fn check(function: &FunctionContext<'_, '_>, findings: &mut Findings) {
    let Some(flow) = function.flow() else {
        return;
    };
    for found in overlaps(function) {
        let (Some(store), Some(next)) = (
            flow.instructions.get(found.store),
            flow.instructions.get(found.next),
        ) else {
            continue;
        };
        let (thread, after) = (found.thread, found.thread + 1);
        let (line, apart, bytes) = (function.line(next.span), found.apart, found.bytes);
        findings
            .add(
                store.opcode_span,
                format!(
                    "thread {thread} writes here what thread {after} writes in line {line}: \
                     their parts begin {apart} bytes apart, and reach over {bytes}"
                ),
            )
            .help(format!("multiply the index of the thread by {bytes}"));
    }
}
