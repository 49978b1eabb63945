//! An mbarrier that threads use before they can know that it is initialised.

use super::mbarriers::{self, MbarrierOperation, MbarrierUse, has_operation, uses};
use crate::flow::{BlockId, Divergence, InstructionId, Variance};
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
    let Some(flow) = function.flow() else {
        return;
    };
    let all = uses(function);
    // Another may be this one.
    let unknown = |init: &MbarrierUse<'_>| {
        init.operation == MbarrierOperation::Init
            && (init.place.variable.is_none() || init.place.offset.is_none())
    };
    if all.iter().any(unknown) {
        return;
    }
    let used = |one: &&MbarrierUse<'_>| {
        !matches!(
            one.operation,
            MbarrierOperation::Init | MbarrierOperation::Other
        )
    };
    let ordered = Ordered::new(function, flow);
    let unordered = |one: &&MbarrierUse<'_>| !ordered.is_before(flow, one.id);
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
    let guard = |one: &MbarrierUse<'_>| {
        let step = &flow.instructions.steps[one.id.index()];
        flow.values.guard(&flow.instructions, step)
    };
    let by_all = |one: &MbarrierUse<'_>, divergence: &Divergence| {
        let guarded = guard(one).map_or(Variance::Block, |guard| divergence.of(guard));
        divergence
            .control(first(flow.graph.block_of(one.id)))
            .max(guarded)
            == Variance::Block
    };
    let mut told = Vec::new();
    for one in all.iter().filter(used).filter(unordered).take(MANY) {
        let same = |init: &&MbarrierUse<'_>| {
            init.operation == MbarrierOperation::Init && init.place.is(&one.place)
        };
        let mut inits = all.iter().filter(same).peekable();
        if inits.peek().is_none() || told.contains(&one.place) {
            continue;
        }
        // Who has initialised it knows that it has.
        let home = flow.graph.block_of(one.id);
        let by_same = |init: &MbarrierUse<'_>| {
            let before = init.id < one.id && flow.graph.block_of(init.id) == home;
            before && guard(init) == guard(one)
        };
        if inits.clone().any(by_same) {
            continue;
        }
        // The dependence of all values takes long: nearly no kernel comes here.
        let Some(divergence) = function.divergence() else {
            return;
        };
        if !by_all(one, divergence) {
            continue;
        }
        let before = |init: &&MbarrierUse<'_>| leads_forward(flow, init.id, one.id);
        let earlier: Vec<_> = inits.filter(before).collect();
        if earlier.iter().any(|init| by_all(init, divergence)) {
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

/// What may order threads on a way from the start, loops left out.
struct Ordered {
    /// In source order.
    by: Vec<InstructionId>,
    /// By block, whether one stands before it.
    before: Vec<bool>,
}

impl Ordered {
    fn new(function: &FunctionContext<'_, '_>, flow: &Flow<'_, '_>) -> Ordered {
        let graph = &flow.graph;
        let found = function.instructions_with(|mnemonic, _| may_order(mnemonic));
        let by: Vec<InstructionId> = found.into_iter().map(|(id, _)| id).collect();
        let homes = by.iter().map(|id| graph.block_of(*id));
        let mut open: Vec<BlockId> = homes.filter(|home| graph.is_reached(*home)).collect();
        open.dedup();
        let mut before = vec![false; graph.blocks.len()];
        while let Some(block) = open.pop() {
            for next in graph.successors(block) {
                let known = &mut before[next.index()];
                if !graph.dominates(next, block) && !std::mem::replace(known, true) {
                    open.push(next);
                }
            }
        }
        Ordered { by, before }
    }

    /// Whether one stands before an instruction.
    fn is_before(&self, flow: &Flow<'_, '_>, id: InstructionId) -> bool {
        let home = flow.graph.block_of(id);
        let start = InstructionId(flow.graph.blocks[home.index()].start);
        let first = self.by.partition_point(|by| *by < start);
        self.before[home.index()] || self.by.get(first).is_some_and(|by| *by < id)
    }
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
