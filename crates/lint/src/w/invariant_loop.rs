//! A loop whose condition does not change in it.

use crate::flow::{Definition, Loop, LoopId, Loops, ValueId};
use crate::{Check, Code, Findings, Flow, FunctionContext, Rule};
use ptx::names::Opcode;

pub static RULE: Rule = Rule {
    code: Code::new('W', 206),
    name: "invariant-loop-condition",
    summary: "The only conditions that end a loop do not change in it.",
    why: "Whoever takes the branch back once takes it for ever: the kernel never ends. The \
          variable that counts was forgotten, or another is compared.\n\n\
          A condition counts as unchanging if all that it is computed from is computed before \
          the loop. It is taken to change where it depends on anything that the loop loads, on \
          an atomic, a call or another thread, so that a thread may wait for others (PTX ISA, \
          \"Control Flow Instructions\").",
    instead: "Change in the loop what its condition is computed from.",
    bad: "\
.entry k(.param .u64 dst, .param .u32 count)
{
	.reg .pred p;
	.reg .b32 i, j, n;
	.reg .b64 out;
	ld.param.u64 out, [dst];
	ld.param.u32 n, [count];
	cvta.to.global.u64 out, out;
	mov.b32 i, 0;
	mov.b32 j, 0;
LOOP:
	st.global.b32 [out], j;
	add.s32 j, j, 1;
	setp.lt.s32 p, i, n;
	@p bra LOOP;
	ret;
}
",
    good: "\
.entry k(.param .u64 dst, .param .u32 count)
{
	.reg .pred p;
	.reg .b32 j, n;
	.reg .b64 out;
	ld.param.u64 out, [dst];
	ld.param.u32 n, [count];
	cvta.to.global.u64 out, out;
	mov.b32 j, 0;
LOOP:
	st.global.b32 [out], j;
	add.s32 j, j, 1;
	setp.lt.s32 p, j, n;
	@p bra LOOP;
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
    let graph = &flow.graph;
    let back = |block: &crate::flow::BlockId| graph.successors(*block).any(|to| to <= *block);
    if !graph.order.iter().any(back) {
        return;
    }
    let Some(loops) = function.loops() else {
        return;
    };
    let mut exits: Vec<Exits> = loops.ids().map(|_| Exits::default()).collect();
    for block in &graph.order {
        let around = loops.around(loops.innermost(*block));
        let last = graph.blocks[block.index()].steps().next_back();
        let ends = graph.blocks[block.index()].leaves;
        for id in around {
            let leaves = graph.successors(*block).any(|to| !loops.contains(id, to));
            if !ends && !leaves {
                continue;
            }
            let guard = last.and_then(|last| {
                let step = &flow.instructions.steps[last.index()];
                let is_branch = flow.instructions.get(last)?.opcode == Opcode::Bra;
                let guard = flow.values.guard(&flow.instructions, step)?;
                is_branch.then_some((last, guard))
            });
            let within = Within {
                function,
                flow,
                loops,
                id,
            };
            match guard {
                Some((last, guard)) if !ends && within.is_invariant(guard, DEPTH) => {
                    exits[id.index()].last = Some(last);
                }
                _ => exits[id.index()].changes = true,
            }
        }
    }
    for (id, exits) in loops.ids().zip(exits) {
        let Loop { latches, .. } = loops.get(id);
        // A way that a trap ends on is a way out.
        if let (false, Some(last), [_]) = (exits.changes, exits.last, &latches[..])
            && let Some(instruction) = flow.instructions.get(last)
        {
            findings
                .add(
                    instruction.opcode_span,
                    "nothing in this loop changes the condition that ends it",
                )
                .help("change in the loop what the condition is computed from");
        }
    }
}

/// The ways out of a loop.
#[derive(Clone, Default)]
struct Exits {
    /// One of them may come to be taken.
    changes: bool,
    /// The last branch out of it of which that is not so.
    last: Option<crate::flow::InstructionId>,
}

/// A condition that takes more instructions in a row is not followed.
const DEPTH: u32 = 6;

struct Within<'c, 'm, 'a> {
    function: &'c FunctionContext<'m, 'a>,
    flow: &'c Flow<'m, 'a>,
    loops: &'c Loops,
    id: LoopId,
}

impl Within<'_, '_, '_> {
    /// Whether a value is the same in each turn of the loop.
    fn is_invariant(&self, value: ValueId, depth: u32) -> bool {
        let flow = self.flow;
        let Some(Definition::Written(id)) = flow.values.definition(value) else {
            return match flow.values.definition(value) {
                Some(Definition::Phi(block)) => !self.loops.contains(self.id, block),
                Some(Definition::Start) => true,
                _ => false,
            };
        };
        if !self.loops.contains(self.id, flow.graph.block_of(id)) {
            return true;
        }
        let step = &flow.instructions.steps[id.index()];
        let Some(instruction) = flow.instructions.get(id) else {
            return false;
        };
        let loads = matches!(instruction.opcode, Opcode::Ld | Opcode::Ldu);
        let special = self.function.operands(instruction).iter();
        let mut special = special.filter(|o| matches!(o, ptx::ast::Operand::Special(..)));
        depth > 0
            && !step.partial
            && !loads
            && special.next().is_none()
            && self.function.effect(step).pure
            && flow
                .values
                .reads(&flow.instructions, step)
                .all(|(_, value)| self.is_invariant(value, depth - 1))
    }
}
