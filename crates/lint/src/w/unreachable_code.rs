//! Instructions that are never executed.

use crate::flow::{BlockId, Terminator};
use crate::{Check, Code, Findings, Flow, FunctionContext, Rule};

pub static RULE: Rule = Rule {
    code: Code::new('W', 201),
    name: "unreachable-code",
    summary: "No way through the function leads to an instruction.",
    why: "What stands behind an unconditional `bra`, `ret` or `trap` without a label that \
          something jumps to is never executed. A label is missing or never named, or a guard was \
          forgotten.\n\n\
          Behind inline assembly that leaves, compilers write on: that is no finding. A branch by a \
          table is a way to each of its labels. (PTX ISA, \"Control Flow Instructions\".)",
    instead: "Jump there, guard what leads away, or leave the code out.",
    bad: "\
.entry k(.param .u64 dst)
{
	.reg .b64 out;
	ld.param.u64 out, [dst];
	cvta.to.global.u64 out, out;
	st.global.b32 [out], 1;
	ret;
	st.global.b32 [out], 2;
	ret;
}
",
    good: "\
.entry k(.param .u64 dst)
{
	.reg .b64 out;
	ld.param.u64 out, [dst];
	cvta.to.global.u64 out, out;
	st.global.b32 [out], 1;
	st.global.b32 [out], 2;
	ret;
}
",
    default: true,
    check: Check::Function(check),
};

/// Whether inline assembly leads away at the end of a block: the compiler does
/// not see that, and writes on.
fn ends_in_assembly(
    function: &FunctionContext<'_, '_>,
    flow: &Flow<'_, '_>,
    block: BlockId,
) -> bool {
    let last = flow.graph.blocks[block.index()].steps().next_back();
    let last = last.and_then(|id| flow.instructions.get(id));
    last.is_some_and(|instruction| function.is_inline_assembly(instruction))
}

fn check(function: &FunctionContext<'_, '_>, findings: &mut Findings) {
    let Some(flow) = function.flow() else {
        return;
    };
    let graph = &flow.graph;
    let mut told = false;
    for at in 1..graph.blocks.len() as u32 {
        if graph.is_reached(BlockId(at)) {
            told = false;
            continue;
        }
        // One finding for what stands together; a `ret` to be sure is none.
        let steps = graph.blocks[at as usize].steps();
        let mut steps = steps
            .filter(|id| flow.instructions.steps[id.index()].terminator == Terminator::FallThrough);
        if told || ends_in_assembly(function, flow, BlockId(at - 1)) {
            continue;
        }
        if let Some(instruction) = steps.next().and_then(|id| flow.instructions.get(id)) {
            told = true;
            findings
                .add(instruction.opcode_span, "nothing leads to this instruction")
                .help("a label that something jumps to is missing before it");
        }
    }
}
