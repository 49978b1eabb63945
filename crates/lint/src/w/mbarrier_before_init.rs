//! An mbarrier that threads use before they can know that it is initialised.

use super::mbarriers::{self, MbarrierOperation, MbarrierUse, has_operation, uses};
use crate::flow::{BlockId, InstructionId, Variance};
use crate::{Check, Code, Findings, Flow, FunctionContext, Rule};
use ptx::ast::Mnemonic;
use ptx::names::{Modifier, Opcode};

pub static RULE: Rule = Rule {
    code: Code::new('W', 407),
    name: "mbarrier-before-init",
    summary: "All threads use an mbarrier that one of them initialises, with no barrier between, \
              or before it is initialised.",
    why: "What one thread writes to shared memory others see behind a barrier of the block. \
          Before it, the mbarrier is what shared memory happened to hold, and the \
          initialisation may come after the first arrivals and undo them.\n\n\
          Reported are uses that all threads come to, where no way from the start of the kernel \
          leads over anything that orders threads: a barrier, a wait, an atomic, a call. \
          mbarriers are told apart by variable and constant offset. (PTX ISA, \"mbarrier.init\" \
          and \"Memory Consistency Model\".)",
    instead: "Execute `bar.sync` behind `mbarrier.init`, in a cluster `barrier.cluster` behind \
              `fence.mbarrier_init`, and use the mbarrier after that.",
    bad: "\
.entry k()
{
	.reg .pred p;
	.reg .b32 t;
	.shared .align 8 .b64 bar;
	mov.u32 t, %tid.x;
	setp.eq.u32 p, t, 0;
	@p mbarrier.init.shared.b64 [bar], 32;
	mbarrier.arrive.shared.b64 _, [bar];
	ret;
}
",
    good: "\
.entry k()
{
	.reg .pred p;
	.reg .b32 t;
	.shared .align 8 .b64 bar;
	mov.u32 t, %tid.x;
	setp.eq.u32 p, t, 0;
	@p mbarrier.init.shared.b64 [bar], 32;
	bar.sync 0;
	mbarrier.arrive.shared.b64 _, [bar];
	ret;
}
",
    default: true,
    check: Check::Function(check),
};

/// So many uses of a kernel are looked at.
const MANY: usize = 64;

fn check(function: &FunctionContext<'_, '_>, findings: &mut Findings) {
    if !has_operation(function, MbarrierOperation::Init) {
        return;
    }
    let (Some(flow), Some(divergence)) = (function.flow(), function.divergence()) else {
        return;
    };
    let all = uses(function);
    // Threads come to the head of a loop a first time as they come to the one block before it,
    // also where some go round more often.
    let first = |block| {
        let outside = |from: &BlockId| !flow.graph.dominates(block, *from);
        let mut before = flow.graph.predecessors(block).filter(outside);
        match (before.next(), before.next()) {
            (Some(before), None) if flow.graph.successors(before).count() == 1 => before,
            _ => block,
        }
    };
    let by_all = |one: &&MbarrierUse<'_>| {
        let step = &flow.instructions.steps[one.id.index()];
        let guard = flow.values.guard(&flow.instructions, step);
        let guarded = guard.map_or(Variance::Block, |guard| divergence.of(guard));
        divergence
            .control(first(flow.graph.block_of(one.id)))
            .max(guarded)
            == Variance::Block
    };
    let used = |one: &&MbarrierUse<'_>| {
        !matches!(
            one.operation,
            MbarrierOperation::Init | MbarrierOperation::Other
        )
    };
    let mut told = Vec::new();
    for one in all.iter().filter(used).filter(by_all).take(MANY) {
        let same = |init: &&MbarrierUse<'_>| {
            init.operation == MbarrierOperation::Init && init.place.is(&one.place)
        };
        let mut inits = all.iter().filter(same).peekable();
        if inits.peek().is_none() || told.contains(&one.place) {
            continue;
        }
        // Another may be this one.
        let unknown = |init: &MbarrierUse<'_>| {
            init.operation == MbarrierOperation::Init
                && (init.place.variable.is_none() || init.place.offset.is_none())
        };
        if all.iter().any(unknown) || is_ordered(function, flow, one.id) {
            continue;
        }
        let before = |init: &&MbarrierUse<'_>| leads_forward(flow, init.id, one.id);
        let earlier: Vec<_> = inits.filter(before).collect();
        // Who has initialised it knows that it has.
        if earlier.iter().any(by_all) {
            continue;
        }
        told.push(one.place);
        let name = mbarriers::name(function, &one.place);
        let message = match earlier.first() {
            Some(init) => format!(
                "all threads use {name} here, and no barrier stands between this and line {}, \
                 where only some initialise it",
                function.line(init.instruction.span)
            ),
            None => format!("{name} is used here before anything initialises it"),
        };
        findings
            .add(one.instruction.opcode_span, message)
            .help("initialise it first, and let the block meet at `bar.sync`");
    }
}

/// Whether an instruction may order the threads of a block, or pass something from one to
/// another.
fn may_order(mnemonic: &Mnemonic<'_>) -> bool {
    let has = |word| mnemonic.modifiers.has(word);
    match mnemonic.opcode {
        Opcode::Bar | Opcode::Barrier | Opcode::Call | Opcode::Atom | Opcode::Griddepcontrol => {
            true
        }
        Opcode::Mbarrier => has(Modifier::TryWait) || has(Modifier::TestWait),
        Opcode::Ld => has(Modifier::Acquire) || has(Modifier::Volatile) || has(Modifier::Relaxed),
        _ => has(Modifier::Sync),
    }
}

/// Whether something on a way from the start to an instruction may order threads, loops left
/// out.
fn is_ordered(function: &FunctionContext<'_, '_>, flow: &Flow<'_, '_>, to: InstructionId) -> bool {
    let graph = &flow.graph;
    let orders = |id: InstructionId| {
        let instruction = flow.instructions.get(id);
        instruction.is_none_or(|instruction| may_order(function.mnemonic(instruction)))
    };
    let home = graph.block_of(to);
    let mut visited = vec![false; graph.blocks.len()];
    let mut open = vec![home];
    while let Some(block) = open.pop() {
        if std::mem::replace(&mut visited[block.index()], true) {
            continue;
        }
        let mut steps = graph.blocks[block.index()].steps();
        let before = |id: &InstructionId| block != home || *id < to;
        if steps.any(|id| before(&id) && orders(id)) {
            return true;
        }
        open.extend(
            graph
                .predecessors(block)
                .filter(|from| !graph.dominates(block, *from)),
        );
    }
    false
}

/// Whether a way leads from one instruction to another, loops left out.
pub(super) fn leads_forward(flow: &Flow<'_, '_>, from: InstructionId, to: InstructionId) -> bool {
    let graph = &flow.graph;
    let (start, end) = (graph.block_of(from), graph.block_of(to));
    if start == end {
        return from < to;
    }
    let mut visited = vec![false; graph.blocks.len()];
    let mut open = vec![start];
    while let Some(block) = open.pop() {
        if block == end {
            return true;
        }
        if !std::mem::replace(&mut visited[block.index()], true) {
            open.extend(
                graph
                    .successors(block)
                    .filter(|to| !graph.dominates(*to, block)),
            );
        }
    }
    false
}
