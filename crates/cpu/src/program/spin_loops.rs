//! Loops that wait for another thread: `while (atomicCAS(lock, 0, 1));`.
//!
//! The threads of a block run one after the other, so that such a loop would never
//! end. If the exit condition of a loop depends on an atomic operation or on a
//! volatile or ordered load in the loop, its back edge gets a sync point that yields
//! to the other threads. One thread may do so for its block, and tell the others
//! through memory: what is stored in the loop is read in it.
//!
//! So does a loop that reads the same memory by weak loads and never ends by itself.

use std::collections::HashSet;

use super::ir::{
    Arg, ArgList, BasicBlock, BlockId, Instruction, Modifiers, Program, Step, Terminator,
};
use super::liveness::RegisterSet;
use super::simplify_cfg::retarget;
use ptx::ast::Span;
use ptx::isa::Effect;
use ptx::names::{Modifier, Opcode, SpecialRegister as S};

/// Loops that wait are short.
const MAX_BLOCKS: u32 = 8;

pub(super) fn insert_yields(program: &mut Program<'_>) {
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
    let waiting = |&(from, to): &(BlockId, BlockId)| {
        let is_quiet = quiet.contains(&(from, to));
        if !polls && !is_quiet {
            return false;
        }
        let inside = graph.natural_loop(from, to);
        polls && exit_depends_on_poll(program, &inside)
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

/// Whether a branch out of the loop depends on a value that is polled in it.
fn exit_depends_on_poll(program: &Program<'_>, inside: &[bool]) -> bool {
    let mut polled = RegisterSet::new(program.registers.len());
    // Whether memory holds what was polled.
    let mut stored = false;
    let blocks = || {
        program
            .blocks
            .iter()
            .zip(inside)
            .filter(|&(_, &i)| i)
            .map(|(b, _)| b)
    };
    loop {
        let mut changed = false;
        for step in blocks().flat_map(|b| &b.steps) {
            let mut tainted = is_poll(step) || (stored && has_effect(step, Effect::Load));
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
            for reg in written {
                if tainted && !polled.contains(reg) {
                    polled.insert(reg);
                    changed = true;
                }
            }
        }
        if !changed {
            break;
        }
    }
    blocks().any(|b| match &b.terminator {
        Terminator::Branch {
            predicate,
            then,
            otherwise,
        } => polled.contains(predicate.reg) && !(inside[then.index()] && inside[otherwise.index()]),
        _ => false,
    })
}

/// Whether it is a load of memory that other threads may write.
fn loads_common_memory(step: &Step) -> bool {
    let own = [
        Modifier::Param,
        Modifier::Local,
        Modifier::Const,
        Modifier::Nc,
    ];
    match step {
        Step::Instruction(i) => {
            i.meaning.effect == Effect::Load && i.modifiers.first_of(&own).is_none()
        }
        Step::SystemCall { .. } => false,
    }
}

/// Whether a step does nothing that another thread sees.
fn is_quiet(step: &Step) -> bool {
    let is_fence = matches!(step, Step::Instruction(i)
        if matches!(i.opcode, Opcode::Membar | Opcode::Fence));
    is_fence || has_effect(step, Effect::Pure) || has_effect(step, Effect::Load)
}

/// Whether no branch out of a loop depends on what an iteration changes, and one does on what is loaded
/// in it: only another thread can end it. The loop goes from block to block without inner branches.
fn ends_by_memory_alone(program: &Program<'_>, head: BlockId, inside: &[bool]) -> bool {
    let (mut steps, mut exits, mut at) = (Vec::new(), Vec::new(), head);
    for _ in 0..=MAX_BLOCKS {
        let block = &program.blocks[at.index()];
        steps.extend(&block.steps);
        at = match &block.terminator {
            Terminator::Jump(next) => *next,
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
    if at != head || !steps.iter().copied().all(is_quiet) {
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
            // The address is where the memory says.
            "A: ld.global.u64 %x1, [%x0]; ld.global.u32 %r3, [%x1]; setp.eq.u32 %p0, %r3, 0; @%p0 bra A;",
        ] {
            assert_eq!(yields(body), 1, "{body}");
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
