//! Loops that wait for another thread: `while (atomicCAS(lock, 0, 1));`.
//!
//! The threads of a block run one after the other, so that such a loop would never
//! end. If the exit condition of a loop depends on an atomic operation or on a
//! volatile or ordered load in the loop, its back edge gets a sync point that yields
//! to the other threads. One thread may do so for its block, and tell the others
//! through memory, or by a vote: what is stored in the loop is read in it, and the result of a sync point
//! depends on its operands.
//!
//! So does a loop that reads the same memory by weak loads and never ends by itself.

use std::cell::OnceCell;
use std::collections::HashSet;

use super::simplify_cfg::retarget;
use crate::program::ir::liveness::RegisterSet;
use crate::program::ir::{
    Arg, ArgList, BasicBlock, BlockId, Instruction, Modifiers, Program, Step, Terminator,
};
use analysis::control_flow::Graph;
use ptx::ast::Span;
use ptx::isa::Effect;
use ptx::names::{Modifier, Opcode, SpecialRegister as S};

/// Loops that wait are short.
const MAX_BLOCKS: u32 = 8;

pub(in crate::program) fn insert_yields(program: &mut Program<'_>) {
    let polls = program.blocks.iter().any(|b| b.steps.iter().any(is_poll));
    // Loops that may wait by plain loads: from a block with a branch back, to the first one.
    let branches_back = |(from, block): (u32, &BasicBlock)| {
        let near = from.saturating_sub(MAX_BLOCKS)..=from;
        let mut targets = block.terminator.successors();
        let to = targets.find(|to| near.contains(&to.0))?;
        let inside = &program.blocks[to.index()..=from as usize];
        let mut steps = inside.iter().flat_map(|block| &block.steps);
        let loads = steps.clone().any(loads_common_memory);
        (loads && steps.all(is_quiet)).then_some((BlockId(from), to))
    };
    let quiet: HashSet<_> = (0..)
        .zip(&program.blocks)
        .filter_map(branches_back)
        .collect();
    if !polls && quiet.is_empty() {
        return;
    }
    let graph = program.graph();
    let post_dominators = PostDominators::new(program, &graph);
    let waiting = |&(from, to): &(BlockId, BlockId)| {
        let is_quiet = quiet.contains(&(from, to));
        if !polls && !is_quiet {
            return false;
        }
        let inside = graph.natural_loop(from, to);
        polls && exit_depends_on_poll(program, &inside, &post_dominators)
            || is_quiet && ends_by_memory_alone(program, to, &inside)
    };
    let waiting: Vec<_> = graph.back_edges().filter(waiting).collect();
    for (from, to) in waiting {
        let line =
            program.blocks[from.index()]
                .steps
                .iter()
                .last()
                .map_or(program.line, |s| match s {
                    Step::Instruction(i) => i.line,
                    Step::SystemCall { line, .. } => *line,
                });
        let yield_block = BlockId(program.blocks.len() as u32);
        let (modifiers, args) = (Modifiers::default(), ArgList::default());
        let instruction =
            Instruction::new(Opcode::Nanosleep, modifiers, args, Span::default(), line);
        program.blocks.push(BasicBlock {
            steps: Vec::new(),
            terminator: Terminator::Sync {
                instruction,
                next: to,
            },
        });
        let mut terminator = program.blocks[from.index()].terminator.clone();
        retarget(&mut terminator, |t| if t == to { yield_block } else { t });
        program.blocks[from.index()].terminator = terminator;
    }
}

/// Whether the step reads memory that another thread may be changing.
fn is_poll(step: &Step) -> bool {
    let Step::Instruction(i) = step else {
        return false;
    };
    match i.meaning.effect {
        // A barrier that other threads arrive at.
        _ if i.opcode == Opcode::Mbarrier => {
            let waits = [Modifier::TestWait, Modifier::TryWait];
            i.modifiers.first_of(&waits).is_some()
        }
        Effect::Update => true,
        // `.cv` asks for the memory again each time, too.
        Effect::Load => i.meaning.strong || i.modifiers.has(Modifier::Cv),
        _ => false,
    }
}

fn has_effect(step: &Step, effect: Effect) -> bool {
    matches!(step, Step::Instruction(i) if i.meaning.effect == effect)
}

/// Whether a branch out of the loop depends on a value that is polled in it, or is executed
/// only where one allows it.
fn exit_depends_on_poll(
    program: &Program<'_>,
    inside: &[bool],
    post_dominators: &PostDominators<'_>,
) -> bool {
    let mut polled = RegisterSet::new(program.registers.len());
    // Whether memory holds what was polled.
    let mut stored = false;
    // The blocks that are executed only if a polled value says so.
    let mut controlled = vec![false; program.blocks.len()];
    let blocks = || (0..).map(BlockId).zip(&program.blocks).zip(inside);
    let blocks = || blocks().filter_map(|(block, is_inside)| is_inside.then_some(block));
    loop {
        let mut changed = false;
        for (at, block) in blocks() {
            for step in &with_sync(block) {
                let mut tainted = is_poll(step) || (stored && loads_what_is_stored(step));
                let mut written = Vec::new();
                program.step_effects(
                    step,
                    &mut |reg| tainted |= polled.contains(reg),
                    &mut |reg| written.push(reg),
                );
                if tainted && !stored && has_effect(step, Effect::Store) {
                    stored = true;
                    changed = true;
                }
                // What is stored there and read again is left out: many loops do so, and wait for
                // nothing.
                tainted |= controlled[at.index()];
                for reg in written {
                    if tainted && !polled.contains(reg) {
                        polled.insert(reg);
                        changed = true;
                    }
                }
            }
            let decides = match &block.terminator {
                Terminator::Branch { predicate, .. } => polled.contains(predicate.reg),
                Terminator::Table {
                    index: Arg::Reg(reg),
                    ..
                } => polled.contains(*reg),
                _ => false,
            };
            if !decides && !controlled[at.index()] {
                continue;
            }
            let ways = block.terminator.successors().count();
            let mut next = block.terminator.successors();
            let leaves = |to: BlockId| {
                let end = &program.blocks[to.index()].terminator;
                !inside[to.index()] && !matches!(end, Terminator::Fault { .. })
            };
            if ways > 1 && next.any(leaves) {
                return true;
            }
            if decides {
                // Control dependence: all up to where the ways meet.
                let meet = post_dominators.of(at);
                for to in block.terminator.successors() {
                    let mut next = Some(to);
                    while let Some(to) = next.filter(|_| next != meet) {
                        if !inside[to.index()] || controlled[to.index()] {
                            break;
                        }
                        controlled[to.index()] = true;
                        changed = true;
                        next = post_dominators.of(to);
                    }
                }
            }
        }
        if !changed {
            return false;
        }
    }
}

/// Where the ways from a block meet. Most kernels never ask.
struct PostDominators<'g> {
    graph: &'g Graph,
    ends: Vec<bool>,
    found: OnceCell<Vec<Option<BlockId>>>,
}

impl<'g> PostDominators<'g> {
    fn new(program: &Program<'_>, graph: &'g Graph) -> Self {
        let ends = |block: &BasicBlock| matches!(block.terminator, Terminator::Exit);
        PostDominators {
            graph,
            ends: program.blocks.iter().map(ends).collect(),
            found: OnceCell::new(),
        }
    }

    fn of(&self, block: BlockId) -> Option<BlockId> {
        let leaves = |block: BlockId| self.ends[block.index()];
        let found = self
            .found
            .get_or_init(|| self.graph.post_dominators(leaves, &[]));
        found[block.index()]
    }
}

/// Whether it is a load of memory that the kernel may write.
fn loads_what_is_stored(step: &Step) -> bool {
    let constant = [Modifier::Param, Modifier::Const, Modifier::Nc];
    match step {
        Step::Instruction(i) => {
            i.meaning.effect == Effect::Load && i.modifiers.first_of(&constant).is_none()
        }
        Step::SystemCall { .. } => false,
    }
}

/// Whether it is a load of memory that other threads may write.
fn loads_common_memory(step: &Step) -> bool {
    let is_local =
        |step: &Step| matches!(step, Step::Instruction(i) if i.modifiers.has(Modifier::Local));
    loads_what_is_stored(step) && !is_local(step)
}

/// The steps of a block, and the sync point that ends it.
fn with_sync(block: &BasicBlock) -> Vec<Step> {
    let sync = match block.terminator {
        Terminator::Sync { instruction, .. } => Some(Step::Instruction(instruction)),
        _ => None,
    };
    block.steps.iter().copied().chain(sync).collect()
}

/// Whether a step does nothing but load, compute and meet other threads.
fn is_quiet(step: &Step) -> bool {
    let meets = matches!(step, Step::Instruction(i) if i.is_sync_point() && !i.is_matrix()
        || matches!(i.opcode, Opcode::Membar | Opcode::Fence));
    meets || has_effect(step, Effect::Pure) || has_effect(step, Effect::Load)
}

/// Whether no branch out of a loop depends on what an iteration changes, and one does on what is loaded
/// in it: only another thread can end it. The loop goes from block to block without inner branches.
fn ends_by_memory_alone(program: &Program<'_>, head: BlockId, inside: &[bool]) -> bool {
    let (mut steps, mut exits, mut at) = (Vec::new(), Vec::new(), head);
    for _ in 0..=MAX_BLOCKS {
        let block = &program.blocks[at.index()];
        steps.extend(with_sync(block));
        at = match &block.terminator {
            Terminator::Jump(next) | Terminator::Sync { next, .. } => *next,
            Terminator::Branch {
                predicate,
                then,
                otherwise,
            } => {
                exits.push(predicate.reg);
                match (inside[then.index()], inside[otherwise.index()]) {
                    (true, false) => *then,
                    (false, true) => *otherwise,
                    _ => return false,
                }
            }
            _ => return false,
        };
        if at == head {
            break;
        }
    }
    if at != head || !steps.iter().all(is_quiet) {
        return false;
    }
    let mut defined = HashSet::new();
    for step in &steps {
        program.step_effects(step, &mut |_| {}, &mut |reg| {
            defined.insert(reg);
        });
    }
    // What an iteration has from the one before, or from a clock, and what comes from memory.
    let (mut varies, mut loaded, mut seen) = (HashSet::new(), HashSet::new(), HashSet::new());
    loop {
        let before = (varies.len(), loaded.len());
        for step in &steps {
            let mut is_varying = reads_clock(program, step);
            let mut is_loaded = loads_common_memory(step);
            let mut written = Vec::new();
            let mut used = |reg| {
                let is_carried = defined.contains(&reg) && !seen.contains(&reg);
                is_varying |= is_carried || varies.contains(&reg);
                is_loaded |= loaded.contains(&reg);
            };
            program.step_effects(step, &mut used, &mut |reg| written.push(reg));
            for reg in written {
                seen.insert(reg);
                if is_varying {
                    varies.insert(reg);
                }
                if is_loaded {
                    loaded.insert(reg);
                }
            }
        }
        if (varies.len(), loaded.len()) == before {
            break;
        }
    }
    let mut varying = exits.iter().filter(|reg| varies.contains(*reg));
    varying.next().is_none() && exits.iter().any(|reg| loaded.contains(reg))
}

fn reads_clock(program: &Program<'_>, step: &Step) -> bool {
    let is_clock = |arg: &Arg| {
        matches!(
            arg,
            Arg::Special(
                S::Clock
                    | S::ClockHi
                    | S::Clock64
                    | S::Globaltimer
                    | S::GlobaltimerLo
                    | S::GlobaltimerHi
            )
        )
    };
    match step {
        Step::Instruction(i) => program.list(i.args).iter().any(is_clock),
        Step::SystemCall { .. } => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::test_program::with_program;

    /// How many loops of a kernel let others run.
    fn yields(body: &str) -> usize {
        let source = format!(
            ".version 8.0\n.target sm_80\n.address_size 64\n.entry k(.param .u64 a) {{
            .reg .b64 %x<4>; .reg .b32 %r<8>; .reg .pred %p<4>; .shared .b8 tile[64];
            ld.param.u64 %x0, [a]; mov.u32 %r1, 0; mov.u32 %r2, %tid.x;\n{body}\n}}"
        );
        let is_yield = |block: &&BasicBlock| {
            matches!(&block.terminator, Terminator::Sync { instruction, .. }
                if instruction.opcode == Opcode::Nanosleep)
        };
        with_program(&source, |program| {
            program.blocks.iter().filter(is_yield).count()
        })
    }

    #[test]
    fn loops_that_end_by_what_others_store() {
        for body in [
            "A: ld.global.u32 %r3, [%x0]; setp.ne.u32 %p0, %r3, %r2; @%p0 bra A;",
            "A: ld.global.u32 %r3, [%x0]; add.u64 %x1, %x0, 8; ld.global.u32 %r4, [%x1];
             add.u32 %r3, %r3, %r4; setp.ne.u32 %p0, %r3, 7; @%p0 bra A;",
            "A: ld.shared.u32 %r3, [tile]; setp.ne.u32 %p0, %r3, 0; @%p0 bra B; bra A; B:",
            "A: ld.global.u32 %r3, [%x0]; membar.gl; setp.eq.u32 %p0, %r3, 0; @%p0 bra A;",
            "A: mov.u32 %r4, %ctaid.x; mul.wide.u32 %x1, %r4, 4; add.u64 %x1, %x0, %x1;
             ld.global.u32 %r3, [%x1]; setp.eq.u32 %p0, %r3, 0; @%p0 bra A;",
            "A: setp.eq.u32 %p1, %r2, 0; @%p1 bra B; ld.global.u32 %r3, [%x0];
             setp.eq.u32 %p0, %r3, 0; @%p0 bra A; B:",
            // The lanes of a warp look together.
            "A: ld.global.u32 %r3, [%x0]; bar.warp.sync -1; setp.eq.u32 %p0, %r3, 0; @%p0 bra A;",
            "A: ld.global.u32 %r3, [%x0]; setp.eq.u32 %p0, %r3, 0; vote.sync.all.pred %p1, %p0, -1; @%p1 bra A;",
            "A: ld.shared.u32 %r3, [tile]; activemask.b32 %r4; setp.ne.u32 %p0, %r3, %r4; @%p0 bra A;",
            // The address is where the memory says.
            "A: ld.global.u64 %x1, [%x0]; ld.global.u32 %r3, [%x1]; setp.eq.u32 %p0, %r3, 0; @%p0 bra A;",
        ] {
            assert_eq!(yields(body), 1, "{body}");
        }
    }

    #[test]
    fn loops_whose_way_depends_on_a_poll() {
        let poll = "ld.acquire.gpu.global.u32 %r3, [%x0]; setp.eq.u32 %p0, %r3, 0;";
        for rest in [
            // It counts what it sees, or notes that it has.
            "@%p0 bra B; add.u32 %r1, %r1, 1; B: setp.lt.u32 %p1, %r1, 2; @%p1 bra A;",
            "@%p0 bra B; mov.u32 %r1, 1; st.global.u32 [%x0+4], %r1; B: setp.eq.u32 %p1, %r1, 0; @%p1 bra A;",
            "mov.u32 %r1, 1; @%p0 bra B; bra C; B: mov.u32 %r1, 0; C: setp.eq.u32 %p1, %r1, 0; @%p1 bra A;",
            "@%p0 bra B; setp.eq.u32 %p1, %r2, 0; @%p1 bra C; B: bra A; C:",
            "T: .branchtargets A, C; brx.idx %r3, T; C:",
        ] {
            assert_eq!(yields(&format!("A: {poll} {rest}")), 1, "{rest}");
        }
        for rest in [
            // What a warp or a block makes of what each of its threads has seen.
            "vote.sync.any.pred %p1, %p0, -1; @%p1 bra A;",
            "mov.u32 %r1, 0; @!%p0 bra B; mov.u32 %r1, 1; B: setp.ne.u32 %p1, %r1, 0; \
             vote.sync.ballot.b32 %r4, %p1, -1; setp.ne.u32 %p2, %r4, 0; @%p2 bra A;",
            "shfl.sync.idx.b32 %r4, %r3, 0, 31, -1; setp.eq.u32 %p1, %r4, 0; @%p1 bra A;",
            "match.all.sync.b32 %r4|%p1, %r3, -1; @!%p1 bra A;",
            "redux.sync.min.u32 %r4, %r3, -1; setp.eq.u32 %p1, %r4, 0; @%p1 bra A;",
            "bar.red.or.pred %p1, 0, %p0; @%p1 bra A;",
        ] {
            assert_eq!(yields(&format!("A: {poll} {rest}")), 1, "{rest}");
        }
        for rest in [
            // Both ways meet before the register is written.
            "@%p0 bra B; st.shared.u32 [tile], %r2; B: add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 9; @%p1 bra A;",
            "@%p0 bra B; add.u32 %r4, %r4, 1; B: add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 9; @%p1 bra A;",
            // A parent is noted, and the number of edges read again.
            "@%p0 bra B; st.global.u32 [%x0+4], %r2; B: ld.global.u32 %r4, [%x0+8]; add.u32 %r1, %r1, 1; \
             setp.lt.u32 %p1, %r1, %r4; @%p1 bra A;",
            "@%p0 bra B; setp.gt.u32 %p2, %r1, 7; @%p2 bra C; B: add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 9; \
             @%p1 bra A; bra D; C: trap; D:",
        ] {
            assert_eq!(yields(&format!("A: {poll} {rest}")), 0, "{rest}");
        }
    }

    #[test]
    fn loops_that_end_by_themselves() {
        for body in [
            // They count, or go on.
            "A: ld.global.u32 %r3, [%x0]; add.u32 %r1, %r1, 1; setp.lt.u32 %p0, %r1, %r3; @%p0 bra A;",
            "A: ld.global.u32 %r3, [%x0]; add.u64 %x0, %x0, 4; setp.ne.u32 %p0, %r3, 0; @%p0 bra A;",
            "A: ld.global.u64 %x0, [%x0]; setp.ne.u64 %p0, %x0, 0; @%p0 bra A;",
            "A: ld.global.u32 %r3, [%x0]; add.u32 %r1, %r1, 1; setp.eq.u32 %p1, %r1, 99; @%p1 bra B;
             setp.ne.u32 %p0, %r3, 0; @%p0 bra A; B:",
            "A: @%p1 bra B; mov.u64 %x1, %x0; B: add.u64 %x1, %x1, 4; ld.global.u32 %r3, [%x1];
             setp.ne.u32 %p0, %r3, 0; @%p0 bra A;",
            "A: ld.global.nc.u32 %r3, [%x0]; setp.eq.u32 %p0, %r3, 0; @%p0 bra A;",
            // They store, or look at the time.
            "A: ld.global.u32 %r3, [%x0]; sub.u32 %r3, %r3, 1; st.global.u32 [%x0], %r3;
             setp.ne.u32 %p0, %r3, 0; @%p0 bra A;",
            "A: mov.u32 %r4, %clock; ld.global.u32 %r3, [%x0]; setp.lt.u32 %p0, %r4, %r3; @%p0 bra A;",
            // Nobody ever ends it.
            "A: ld.global.u32 %r3, [%x0]; setp.ne.u32 %p0, %r2, 0; @%p0 bra A;",
            "A: ld.global.u32 %r3, [%x0]; bra A;",
        ] {
            assert_eq!(yields(body), 0, "{body}");
        }
    }
}
