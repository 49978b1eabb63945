//! A loop-invariant load

use crate::flow::memory::{Access, AccessKind};
use crate::flow::{BlockId, Definition, Loops, Term};
use crate::{Check, Code, Findings, Flow, FunctionContext, Rule};
use ptx::ast::Space;
use ptx::names::Opcode;

pub static RULE: Rule = Rule {
    code: Code::new('P', 108),
    name: "invariant-load",
    summary: "A load in a loop from an address that does not change, without a store that could \
              change the value.",
    why: "Each iteration waits for the same value again. ptxas does not hoist the load, because \
          it would then also execute if the loop is not entered.",
    instead: "Load the value before the loop, and keep it in a register.",
    bad: "\
.entry k(.param .u64 out, .param .u32 count)
{
	.reg .b32 i, a, b;
	.reg .b64 p;
	.reg .pred q;
	ld.param.u64 p, [out];
	cvta.to.global.u64 p, p;
	ld.param.u32 i, [count];
	mov.u32 a, 0;
AGAIN:
	ld.global.u32 b, [p];
	mad.lo.u32 a, a, b, i;
	sub.u32 i, i, 1;
	setp.ne.u32 q, i, 0;
	@q bra AGAIN;
	st.global.u32 [p], a;
	ret;
}
",
    good: "\
.entry k(.param .u64 out, .param .u32 count)
{
	.reg .b32 i, a, b;
	.reg .b64 p;
	.reg .pred q;
	ld.param.u64 p, [out];
	cvta.to.global.u64 p, p;
	ld.param.u32 i, [count];
	mov.u32 a, 0;
	ld.global.u32 b, [p];
AGAIN:
	mad.lo.u32 a, a, b, i;
	sub.u32 i, i, 1;
	setp.ne.u32 q, i, 0;
	@q bra AGAIN;
	st.global.u32 [p], a;
	ret;
}
",
    default: false,
    check: Check::Function(check),
};

fn check(function: &FunctionContext<'_, '_>, findings: &mut Findings) {
    let (Some(flow), Some(loops)) = (function.flow(), function.loops()) else {
        return;
    };
    let graph = &flow.graph;
    // Report each load only for its innermost loop.
    let mut told = vec![false; flow.instructions.steps.len()];
    let changed = changed(function, flow, loops);
    for block in &graph.order {
        for round in loops.around(loops.innermost(*block)) {
            let within = |block: BlockId| loops.contains(round, block);
            // Only what executes in every iteration.
            let mut latches = loops.get(round).latches.iter();
            if changed[round.index()] || !latches.all(|end| graph.dominates(*block, *end)) {
                continue;
            }
            for id in graph.blocks[block.index()].steps() {
                let step = &flow.instructions.steps[id.index()];
                let Some(instruction) = flow.instructions.get(id) else {
                    continue;
                };
                if instruction.opcode != Opcode::Ld || step.guarded || !function.effect(step).pure {
                    continue;
                }
                let access = Access::of(function, instruction);
                let Some(access) = access.filter(|access| {
                    let space = matches!(access.space, Some(Space::Global | Space::Shared) | None);
                    space && access.kind == AccessKind::Load
                }) else {
                    continue;
                };
                let Some(linear) = function.linear(access.address) else {
                    continue;
                };
                let moves = linear.terms().iter().any(|(term, _)| {
                    let (Term::Value(value) | Term::Product(value)) = term else {
                        return false;
                    };
                    match flow.values.definition(*value) {
                        Some(Definition::Written(id)) => within(graph.block_of(id)),
                        Some(Definition::Phi(block)) => within(block),
                        _ => false,
                    }
                });
                if !moves && !std::mem::replace(&mut told[id.index()], true) {
                    findings
                        .add(
                            access.span,
                            format!(
                                "each iteration of the loop loads the same {} bytes again",
                                access.bytes,
                            ),
                        )
                        .help(
                            "load the value before the loop: nothing in the loop writes to memory",
                        );
                }
            }
        }
    }
}

/// Which loops may write to memory, or synchronize with other threads that do.
fn changed(function: &FunctionContext<'_, '_>, flow: &Flow<'_, '_>, loops: &Loops) -> Vec<bool> {
    let mut changed = vec![false; loops.ids().count()];
    for block in &flow.graph.order {
        let mut steps = flow.graph.blocks[block.index()].steps();
        let changes = steps.any(|id| {
            let step = &flow.instructions.steps[id.index()];
            let control = flow.instructions.get(id).is_some_and(|i| {
                matches!(
                    i.opcode,
                    Opcode::Bra | Opcode::Brx | Opcode::Ret | Opcode::Exit
                )
            });
            !function.effect(step).pure && !control
        });
        for round in loops.around(loops.innermost(*block)) {
            changed[round.index()] |= changes;
        }
    }
    changed
}
