//! `shfl.sync` with a full mask where only some lanes come by.

use crate::flow::{DivergentBranch, Variance};
use crate::{Check, Code, Findings, Flow, FunctionContext, Rule};
use ptx::ast::{Instruction, Mnemonic};
use ptx::names::{Modifier, Opcode};

pub static RULE: Rule = Rule {
    code: Code::new('W', 302),
    name: "divergent-warp-operation",
    summary: "An operation of the whole warp stands behind a branch that only some of its lanes \
              take.",
    why: "`shfl.sync`, `vote.sync`, `match.sync`, `redux.sync` and `bar.warp.sync` wait for the \
          lanes of their mask, and `.aligned` operations such as `mma` for the warp. A lane that \
          took another way does not come: the result is undefined, or the warp hangs.",
    instead: "Execute the operation before the branch, or compute the mask of those that come \
              with `vote.sync.ballot` while all are together.",
    bad: "\
.entry k(.param .u64 dst)
{
	.reg .pred p;
	.reg .b32 t, a;
	.reg .b64 out;
	ld.param.u64 out, [dst];
	cvta.to.global.u64 out, out;
	mov.u32 t, %tid.x;
	setp.gt.u32 p, t, 15;
	@p bra DONE;
	shfl.sync.bfly.b32 a, t, 1, 31, 0xffffffff;
	st.global.b32 [out], a;
DONE:
	ret;
}
",
    good: "\
.entry k(.param .u64 dst)
{
	.reg .pred p;
	.reg .b32 t, a;
	.reg .b64 out;
	ld.param.u64 out, [dst];
	cvta.to.global.u64 out, out;
	mov.u32 t, %tid.x;
	setp.gt.u32 p, t, 15;
	shfl.sync.bfly.b32 a, t, 1, 31, 0xffffffff;
	@p bra DONE;
	st.global.b32 [out], a;
DONE:
	ret;
}
",
    default: true,
    check: Check::Function(check),
};

/// Whether all lanes of a warp have to execute it together.
fn wants_warp(
    function: &FunctionContext<'_, '_>,
    instruction: &Instruction,
    mnemonic: &Mnemonic<'_>,
) -> bool {
    let has = |word| mnemonic.modifiers.has(word);
    match mnemonic.opcode {
        Opcode::Shfl | Opcode::Vote | Opcode::Match | Opcode::Redux if has(Modifier::Sync) => {
            full_mask(function, instruction)
        }
        Opcode::Bar if has(Modifier::Warp) => full_mask(function, instruction),
        // Barriers of the block have a rule of their own.
        Opcode::Bar | Opcode::Barrier => false,
        _ => has(Modifier::Sync) && has(Modifier::Aligned),
    }
}

/// Whether the last operand names all 32 lanes.
fn full_mask(function: &FunctionContext<'_, '_>, instruction: &Instruction) -> bool {
    let Some(last) = instruction.operands.len.checked_sub(1) else {
        return false;
    };
    let place = (instruction.operands.start + last) as usize;
    let mask = function.linear(place).and_then(|mask| mask.as_number());
    mask.is_some_and(|mask| mask as u32 == u32::MAX)
}

fn check(function: &FunctionContext<'_, '_>, findings: &mut Findings) {
    let may = |opcode| {
        !matches!(
            opcode,
            Opcode::Ld | Opcode::St | Opcode::Add | Opcode::Mov | Opcode::Bra
        )
    };
    let mut candidates = function.instructions().filter(|i| may(i.opcode));
    if !function.context.has_mnemonic(wants_sync)
        || !candidates.any(|i| wants_sync(function.mnemonic(i)))
    {
        return;
    }
    let (Some(flow), Some(divergence)) = (function.flow(), function.divergence()) else {
        return;
    };
    for (id, step, instruction) in function.steps() {
        let mnemonic = function.mnemonic(instruction);
        if !wants_sync(mnemonic) || !wants_warp(function, instruction, mnemonic) {
            continue;
        }
        let guard = flow.values.guard(&flow.instructions, step);
        let text = &mnemonic.text;
        if guard.is_some_and(|value| divergence.of(value) == Variance::Thread) {
            findings
                .add(
                    instruction.opcode_span,
                    format!("not all lanes execute `{text}`: its guard depends on the thread"),
                )
                .help("let all lanes execute it, and guard what uses the result");
            continue;
        }
        let block = flow.graph.block_of(id);
        if divergence.control(block) != Variance::Thread {
            continue;
        }
        let divergent = divergence.divergent_branches.iter().find(|divergent| {
            divergent.variance == Variance::Thread && leaves_lanes_behind(flow, divergent, block)
        });
        if let Some(divergent) = divergent {
            let last = flow.graph.blocks[divergent.block.index()]
                .steps()
                .next_back();
            let branch = last.and_then(|id| flow.instructions.get(id));
            let line = branch.map_or(0, |branch| function.line(branch.span));
            findings
                .add(
                    instruction.opcode_span,
                    format!(
                        "not all lanes come to `{text}`: the branch in line {line} depends on the \
                         thread"
                    ),
                )
                .help("move it before the branch, or give it the mask of the lanes that come");
        }
    }
}

fn wants_sync(mnemonic: &Mnemonic<'_>) -> bool {
    mnemonic.modifiers.has(Modifier::Sync)
}

/// Whether the branch lies between the entry and `place`, so that some lanes
/// come there and others do not, or later.
fn leaves_lanes_behind(
    flow: &Flow<'_, '_>,
    divergent: &DivergentBranch,
    place: crate::flow::BlockId,
) -> bool {
    let graph = &flow.graph;
    let mut visited = vec![false; graph.blocks.len()];
    let mut open: Vec<_> = graph.successors(divergent.block).collect();
    while let Some(at) = open.pop() {
        if Some(at) == divergent.meets || std::mem::replace(&mut visited[at.index()], true) {
            continue;
        }
        open.extend(graph.successors(at));
    }
    visited[place.index()]
}
