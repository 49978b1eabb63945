//! A loop without a way out that does nothing.

use crate::flow::{BlockId, Graph, Terminator};
use crate::{Check, Code, Findings, FunctionContext, Rule};

pub static RULE: Rule = Rule {
    code: Code::new('W', 203),
    name: "endless-loop",
    summary: "A loop has no way out, and nothing in it has an effect.",
    why: "The thread stays there for ever, and the kernel never ends: the host waits, and a \
          display driver resets the device. A guard was forgotten, or the branch goes to the \
          wrong label.\n\n\
          A loop that stores, calls or waits is none, and nor is one whose way out never comes \
          true: that is `W0206`. (PTX ISA, \"Control Flow Instructions: bra\".)",
    instead: "Guard the branch, or leave the loop when it is done. To stop a thread, write `trap` \
              or `exit`.",
    bad: "\
.entry k()
{
	.reg .b32 i;
	mov.b32 i, 0;
LOOP:
	add.s32 i, i, 1;
	bra LOOP;
}
",
    good: "\
.entry k(.param .u64 dst)
{
	.reg .pred p;
	.reg .b32 i;
	.reg .b64 out;
	ld.param.u64 out, [dst];
	cvta.to.global.u64 out, out;
	mov.b32 i, 0;
LOOP:
	add.s32 i, i, 1;
	setp.lt.s32 p, i, 10;
	@p bra LOOP;
	st.global.b32 [out], i;
	ret;
}
",
    default: true,
    check: Check::Function(check),
};

/// Marks the blocks that lead to those of `open`.
fn spread(graph: &Graph, mut open: Vec<BlockId>, good: &mut [bool]) {
    while let Some(at) = open.pop() {
        if !std::mem::replace(&mut good[at.index()], true) {
            open.extend(graph.predecessors(at));
        }
    }
}

fn check(function: &FunctionContext<'_, '_>, findings: &mut Findings) {
    let Some(flow) = function.flow() else {
        return;
    };
    let graph = &flow.graph;
    let count = graph.blocks.len();
    // What leads to an end, or to anything that can be seen from outside. Nearly always all
    // of it leads to an end.
    let mut good = vec![false; count];
    let mut open: Vec<BlockId> = Vec::new();
    let ends = graph
        .order
        .iter()
        .filter(|at| graph.blocks[at.index()].leaves);
    open.extend(ends);
    spread(graph, open, &mut good);
    if graph.order.iter().all(|at| good[at.index()]) {
        return;
    }
    let mut open: Vec<BlockId> = Vec::new();
    for at in &graph.order {
        let block = &graph.blocks[at.index()];
        let effect = block.steps().any(|id| {
            let step = &flow.instructions.steps[id.index()];
            match step.terminator {
                Terminator::FallThrough => !function.effect(step).pure,
                Terminator::Return | Terminator::Trap => true,
                Terminator::Jump | Terminator::IndirectJump => false,
            }
        });
        if effect || block.leaves {
            open.push(*at);
        }
    }
    spread(graph, open, &mut good);
    // Of the rest, each loop once: at the last jump in it.
    let mut told = vec![false; count];
    for start in graph.order.iter().filter(|at| !good[at.index()]) {
        let mut last = None;
        let mut open = vec![*start];
        let mut new = false;
        let mut visited = Vec::new();
        while let Some(at) = open.pop() {
            if visited.contains(&at) || told[at.index()] {
                continue;
            }
            visited.push(at);
            new = true;
            let step = graph.blocks[at.index()].steps().next_back();
            last = last.max(step.filter(|id| {
                flow.instructions.steps[id.index()].terminator != Terminator::FallThrough
            }));
            open.extend(graph.successors(at));
        }
        for at in visited {
            told[at.index()] = true;
        }
        if new && let Some(instruction) = last.and_then(|id| flow.instructions.get(id)) {
            findings
                .add(
                    instruction.opcode_span,
                    "this loop never ends, and does nothing",
                )
                .help("guard the branch, or jump out of the loop");
        }
    }
}
