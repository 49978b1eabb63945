//! `bar.sync` where not all threads of the block come by.

use crate::flow::{BlockId, DivergentBranch, Variance};
use crate::{Check, Code, Findings, Flow, FunctionContext, Rule};
use ptx::ast::{Instruction, Mnemonic};
use ptx::names::{Modifier, Opcode};

pub static RULE: Rule = Rule {
    code: Code::new('W', 301),
    name: "divergent-barrier",
    summary: "A barrier of the block stands behind a branch that some of its threads take and \
              others do not.",
    why: "`bar.sync` waits until all threads of the block have come, unless it says how many \
          do. Those that took another way never come: the block hangs, or goes on without \
          them and reads shared memory that nobody has written yet. `bar` and `.aligned` want \
          besides that all threads of a warp execute it together.\n\n\
          Threads that have ended are not waited for, so that a kernel which some threads leave \
          early may well run. The CUDA programming guide allows a barrier in conditional code \
          only where all threads of the block decide alike: that is what this rule says.",
    instead: "Move the barrier out of the branch, and guard the work alone. Where only some warps \
              meet, say how many threads: `bar.sync 1, 64`.",
    bad: "\
.entry k(.param .u64 .ptr .global .align 4 out)
{
	.reg .pred p;
	.reg .b32 t, a;
	.reg .b64 to;
	.shared .align 4 .b32 first;
	ld.param.u64 to, [out];
	mov.u32 t, %tid.x;
	setp.ne.u32 p, t, 0;
	@p bra REST;
	st.shared.b32 [first], 7;
	bar.sync 0;
REST:
	ld.shared.b32 a, [first];
	mad.wide.u32 to, t, 4, to;
	st.global.b32 [to], a;
	ret;
}
",
    good: "\
.entry k(.param .u64 .ptr .global .align 4 out)
{
	.reg .pred p;
	.reg .b32 t, a;
	.reg .b64 to;
	.shared .align 4 .b32 first;
	ld.param.u64 to, [out];
	mov.u32 t, %tid.x;
	setp.ne.u32 p, t, 0;
	@p bra REST;
	st.shared.b32 [first], 7;
REST:
	bar.sync 0;
	ld.shared.b32 a, [first];
	mad.wide.u32 to, t, 4, to;
	st.global.b32 [to], a;
	ret;
}
",
    default: true,
    check: Check::Function(check),
};

fn is_barrier(opcode: Opcode, mnemonic: &Mnemonic<'_>) -> bool {
    let has = |word| mnemonic.modifiers.has(word);
    matches!(opcode, Opcode::Bar | Opcode::Barrier)
        && !has(Modifier::Warp)
        && (has(Modifier::Sync) || has(Modifier::Red) || has(Modifier::Cluster))
}

/// A barrier that waits for every thread of the block.
fn waits_for_all(instruction: &Instruction, mnemonic: &Mnemonic<'_>) -> bool {
    let count = match mnemonic.modifiers.has(Modifier::Red) {
        // The result and the predicate are operands too.
        true => 4,
        false => 2,
    };
    is_barrier(instruction.opcode, mnemonic) && instruction.operands.len < count
}

fn is_aligned(instruction: &Instruction, mnemonic: &Mnemonic<'_>) -> bool {
    instruction.opcode == Opcode::Bar || mnemonic.modifiers.has(Modifier::Aligned)
}

fn check(function: &FunctionContext<'_, '_>, findings: &mut Findings) {
    let mut mnemonics = function.instructions().map(|i| (i, function.mnemonic(i)));
    if !mnemonics.any(|(i, mnemonic)| is_barrier(i.opcode, mnemonic)) {
        return;
    }
    let (Some(flow), Some(divergence)) = (function.flow(), function.divergence()) else {
        return;
    };
    for (id, step, instruction) in function.steps() {
        let mnemonic = function.mnemonic(instruction);
        if !is_barrier(instruction.opcode, mnemonic) {
            continue;
        }
        let (all, aligned) = (
            waits_for_all(instruction, mnemonic),
            is_aligned(instruction, mnemonic),
        );
        if !all && !aligned {
            continue;
        }
        let guard = flow.values.guard(&flow.instructions, step);
        let guard = guard.map_or(Variance::Block, |value| divergence.of(value));
        if guard == Variance::Thread || guard == Variance::Warp && all {
            let message = "not all threads of the block execute this barrier: its guard depends on \
                           the thread";
            report(instruction, all, message.to_owned(), findings);
            continue;
        }
        let block = flow.graph.block_of(id);
        if divergence.control(block) == Variance::Block {
            continue;
        }
        let divergent = divergence.divergent_branches.iter().find(|divergent| {
            let matters = all || divergent.variance == Variance::Thread && aligned;
            matters && splits(function, flow, divergent, block)
        });
        let Some(divergent) = divergent else {
            continue;
        };
        let last = flow.graph.blocks[divergent.block.index()]
            .steps()
            .next_back();
        let branch = last.and_then(|id| flow.instructions.get(id));
        let line = branch.map_or(0, |branch| function.line(branch.span));
        let message = format!(
            "not all threads of the block come to this barrier: the branch in line {line} depends \
             on the thread"
        );
        report(instruction, all, message, findings);
    }
}

fn report(instruction: &Instruction, all: bool, message: String, findings: &mut Findings) {
    let help = match all {
        true => {
            "move the barrier to where every thread comes, or give it the number of threads that do"
        }
        false => "all threads of a warp have to execute it together",
    };
    findings.add(instruction.opcode_span, message).help(help);
}

/// Whether the branch decides if a thread comes to `barrier`: one side leads
/// there and the other not, or sooner or later; and what the other side has
/// instead is no barrier.
fn splits(
    function: &FunctionContext<'_, '_>,
    flow: &Flow<'_, '_>,
    divergent: &DivergentBranch,
    barrier: BlockId,
) -> bool {
    let graph = &flow.graph;
    let mut sides = graph.successors(divergent.block).map(|side| {
        let mut visited = vec![false; graph.blocks.len()];
        let mut open = vec![side];
        while let Some(at) = open.pop() {
            if Some(at) == divergent.meets || std::mem::replace(&mut visited[at.index()], true) {
                continue;
            }
            open.extend(graph.successors(at));
        }
        visited
    });
    let (Some(one), other) = (sides.next(), sides.next()) else {
        return false;
    };
    let nothing = vec![false; graph.blocks.len()];
    let other = other.unwrap_or(nothing);
    let at = barrier.index();
    if !one[at] && !other[at] {
        return false;
    }
    // In a loop that threads leave at different times.
    if one[at] && other[at] {
        return one[divergent.block.index()] || other[divergent.block.index()];
    }
    let without = if one[at] { &other } else { &one };
    // Warps that go different ways may well meet at barriers on both.
    let meets_elsewhere = (0..graph.blocks.len()).filter(|at| without[*at]).any(|at| {
        graph.blocks[at].steps().any(|id| {
            let instruction = flow.instructions.get(id);
            instruction.is_some_and(|i| is_barrier(i.opcode, function.mnemonic(i)))
        })
    });
    divergent.variance == Variance::Thread || !meets_elsewhere
}
