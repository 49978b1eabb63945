//! Loops that wait for another thread: `while (atomicCAS(lock, 0, 1));`.
//!
//! Threads of a block run one after the other, so such a loop would never end.
//! Where the way out of a loop depends on an atomic, volatile or acquire load
//! inside of it, the way back becomes a place where the thread lets others run.

use super::loops::{back_edges, natural_loop};
use super::{
    ArgList, Block, BlockId, Instruction, Modifiers, Program, RegisterSet, Step, Terminator,
};
use ptx::ast::Span;
use ptx::names::{Modifier, Opcode};

pub(super) fn let_others_run(program: &mut Program<'_>) {
    let polls = program.blocks.iter().any(|b| b.steps.iter().any(is_poll));
    if !polls {
        return;
    }
    for (from, to) in back_edges(program) {
        let inside = natural_loop(program, from, to);
        if !waits(program, &inside) {
            continue;
        }
        let line =
            program.blocks[from.index()]
                .steps
                .iter()
                .last()
                .map_or(program.line, |s| match s {
                    Step::Instruction(i) => i.line,
                    Step::SystemCall { line, .. } => *line,
                });
        let yields = BlockId(program.blocks.len() as u32);
        let instruction = Instruction {
            opcode: Opcode::Nanosleep,
            modifiers: Modifiers::default(),
            args: ArgList::default(),
            guard: None,
            span: Span::default(),
            line,
        };
        program.blocks.push(Block {
            steps: Vec::new(),
            terminator: Terminator::Sync {
                instruction,
                next: to,
            },
        });
        let mut terminator = program.blocks[from.index()].terminator.clone();
        super::flow::retarget(&mut terminator, |t| if t == to { yields } else { t });
        program.blocks[from.index()].terminator = terminator;
    }
}

/// Reads what another thread may change.
fn is_poll(step: &Step) -> bool {
    use Modifier as M;
    let Step::Instruction(i) = step else {
        return false;
    };
    match i.opcode {
        Opcode::Atom => true,
        Opcode::Ld => i
            .modifiers
            .first_of(&[M::Volatile, M::Acquire, M::Relaxed, M::Mmio, M::Cv])
            .is_some(),
        _ => false,
    }
}

/// Does a branch out of the loop depend on a value polled inside of it?
fn waits(program: &Program<'_>, inside: &[bool]) -> bool {
    let mut polled = RegisterSet::new(program.registers.len());
    let blocks = || {
        program
            .blocks
            .iter()
            .zip(inside)
            .filter(|&(_, &i)| i)
            .map(|(b, _)| b)
    };
    loop {
        let mut grown = false;
        for step in blocks().flat_map(|b| &b.steps) {
            let mut taken = is_poll(step);
            let mut written = Vec::new();
            program.step_effects(step, &mut |reg| taken |= polled.contains(reg), &mut |reg| {
                written.push(reg)
            });
            for reg in written {
                if taken && !polled.contains(reg) {
                    polled.insert(reg);
                    grown = true;
                }
            }
        }
        if !grown {
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
