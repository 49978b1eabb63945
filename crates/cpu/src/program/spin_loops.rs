//! Loops that wait for another thread: `while (atomicCAS(lock, 0, 1));`.
//!
//! The threads of a block run one after the other, so that such a loop would never
//! end. If the exit condition of a loop depends on an atomic operation or on a
//! volatile or ordered load in the loop, its back edge gets a sync point that yields
//! to the other threads. One thread may do so for its block, and tell the others
//! through memory: what is stored in the loop is read in it.

use super::ir::{ArgList, BasicBlock, BlockId, Instruction, Modifiers, Program, Step, Terminator};
use super::liveness::RegisterSet;
use super::simplify_cfg::retarget;
use ptx::ast::Span;
use ptx::isa::Effect;
use ptx::names::{Modifier, Opcode};

pub(super) fn insert_yields(program: &mut Program<'_>) {
    let polls = program.blocks.iter().any(|b| b.steps.iter().any(is_poll));
    if !polls {
        return;
    }
    let graph = program.graph();
    let waiting = |&(from, to): &(BlockId, BlockId)| {
        exit_depends_on_poll(program, &graph.natural_loop(from, to))
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
