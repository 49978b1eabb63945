//! `if (i >= n) return;` before `__syncthreads()`.

use super::divergent_barrier::{is_barrier, waits_for_all};
use super::parted::{because, has_collective};
use crate::flow::{BlockId, ThreadSet, Variance};
use crate::{Check, Code, Findings, FunctionContext, Rule};

pub static RULE: Rule = Rule {
    code: Code::new('W', 305),
    name: "early-exit-before-barrier",
    summary: "Threads of a block end before a barrier that others of it come to.",
    why: "The CUDA programming guide allows `__syncthreads()` in conditional code only where all \
          threads of the block decide alike, and a thread that returns early has decided \
          otherwise. Barriers of PTX do not wait for threads that have ended, so that such a \
          kernel runs as long as nobody misses their work: shared memory that they would have \
          filled, their part of a sum. `.aligned` operations on tensors, such as `mma`, are \
          undefined once a lane of the warp has ended.\n\n\
          Many kernels are written so and work, therefore the rule is not on by default. Whether \
          the threads of a block do decide differently may depend on the launch: `i < n` is the \
          same for all if `n` is a multiple of the size of the block. (PTX ISA, \"bar, barrier\"; \
          CUDA C++ Programming Guide, \"Synchronization Functions\".)",
    instead: "Let all threads come to the barrier, and guard the work before and behind it.",
    bad: "\
.entry k(.param .u64 .ptr .global .align 4 out, .param .u32 n)
{
	.reg .pred p;
	.reg .b32 i, c, s, end;
	.reg .b64 to;
	ld.param.u64 to, [out];
	ld.param.u32 end, [n];
	mov.u32 i, %tid.x;
	mov.u32 c, %ctaid.x;
	mov.u32 s, %ntid.x;
	mad.lo.u32 i, c, s, i;
	setp.ge.u32 p, i, end;
	@p ret;
	bar.sync 0;
	mad.wide.u32 to, i, 4, to;
	st.global.b32 [to], i;
	ret;
}
",
    good: "\
.entry k(.param .u64 .ptr .global .align 4 out, .param .u32 n)
{
	.reg .pred p;
	.reg .b32 i, c, s, end;
	.reg .b64 to;
	ld.param.u64 to, [out];
	ld.param.u32 end, [n];
	mov.u32 i, %tid.x;
	mov.u32 c, %ctaid.x;
	mov.u32 s, %ntid.x;
	mad.lo.u32 i, c, s, i;
	setp.ge.u32 p, i, end;
	bar.sync 0;
	@p ret;
	mad.wide.u32 to, i, 4, to;
	st.global.b32 [to], i;
	ret;
}
",
    default: false,
    check: Check::Function(check),
};

fn check(function: &FunctionContext<'_, '_>, findings: &mut Findings) {
    if !has_collective(function, is_barrier) {
        return;
    }
    let (Some(flow), Some(pass), Some(divergence)) = (
        function.flow(),
        function.first_pass(),
        function.divergence(),
    ) else {
        return;
    };
    let graph = &flow.graph;
    // The first barrier that each block leads to, by the number of the instruction.
    let mut leads_to = vec![None; graph.blocks.len()];
    let mut open = Vec::new();
    for (id, step, instruction) in function.steps() {
        let block = graph.block_of(id);
        if waits_for_all(instruction, function.effect(step)) && graph.is_reached(block) {
            open.push((block, id));
        }
    }
    open.reverse();
    while let Some((block, barrier)) = open.pop() {
        if leads_to[block.index()].is_none() {
            leads_to[block.index()] = Some(barrier);
            open.extend(graph.predecessors(block).map(|before| (before, barrier)));
        }
    }
    for block in &graph.order {
        let Some(branch) = graph.blocks[block.index()].steps().next_back() else {
            continue;
        };
        let is_exit = |to: &BlockId| pass.exits[to.index()];
        let leaves = graph.blocks[block.index()].leaves && flow.instructions.is_kernel();
        let mut others = graph.successors(*block).filter(|to| !is_exit(to));
        if !(leaves || graph.successors(*block).any(|to| is_exit(&to))) {
            continue;
        }
        let step = &flow.instructions.steps[branch.index()];
        let guard = flow.values.guard(&flow.instructions, step);
        if guard.is_none_or(|guard| divergence.of(guard) == Variance::Block) {
            continue;
        }
        if let Some(barrier) = others.find_map(|to| leads_to[to.index()])
            && let Some(barrier) = flow.instructions.get(barrier)
            && let Some(instruction) = flow.instructions.get(branch)
        {
            let line = function.line(barrier.span);
            let because = because(function, flow, branch, &[ThreadSet::EMPTY; 2]);
            findings
                .add(
                    instruction.opcode_span,
                    format!(
                        "threads that end here do not come to the barrier in line {line}: {because}"
                    ),
                )
                .help("let them come to the barrier, and guard the work alone");
        }
    }
}
