//! Simplification of the control-flow graph after lowering: jumps are threaded,
//! blocks merged, unreachable ones removed, and the rest numbered in text order.

use super::ir::{BasicBlock, BlockId, Program, Terminator};

/// Threads jumps, merges straight-line blocks and removes unreachable ones.
pub(super) fn simplify(program: &mut Program<'_>) {
    let count = program.blocks.len();
    // Skips empty blocks that only jump. The bound stops at a loop of empty blocks.
    let skip = |blocks: &[BasicBlock], mut at: BlockId| {
        for _ in 0..count {
            match &blocks[at.index()] {
                BasicBlock {
                    steps,
                    terminator: Terminator::Jump(to),
                } if steps.is_empty() => at = *to,
                _ => break,
            }
        }
        at
    };
    for i in 0..count {
        let mut terminator = program.blocks[i].terminator.clone();
        retarget(&mut terminator, |to| skip(&program.blocks, to));
        if let Terminator::Branch {
            then, otherwise, ..
        } = terminator
            && then == otherwise
        {
            terminator = Terminator::Jump(then);
        }
        program.blocks[i].terminator = terminator;
    }

    // An unreachable block must not be merged with a reachable successor.
    let reached = reachable(program);
    let predecessors = predecessors(program, &reached);
    for i in (0..count).filter(|&i| reached[i]) {
        while let Terminator::Jump(to) = program.blocks[i].terminator
            && to.index() != i
            && to.index() != 0
            && predecessors[to.index()] == 1
        {
            let empty = BasicBlock {
                steps: Vec::new(),
                terminator: Terminator::Exit,
            };
            let mut merged = std::mem::replace(&mut program.blocks[to.index()], empty);
            let block = &mut program.blocks[i];
            block.steps.append(&mut merged.steps);
            block.terminator = merged.terminator;
        }
    }
    renumber(program);
}

/// The number of edges to each block from reachable blocks.
fn predecessors(program: &Program<'_>, reached: &[bool]) -> Vec<u32> {
    let mut edges = vec![0; program.blocks.len()];
    for (block, _) in program.blocks.iter().zip(reached).filter(|&(_, &r)| r) {
        for to in block.terminator.successors() {
            edges[to.index()] += 1;
        }
    }
    edges
}

fn reachable(program: &Program<'_>) -> Vec<bool> {
    let mut reached = vec![false; program.blocks.len()];
    let mut worklist = vec![BlockId(0)];
    while let Some(at) = worklist.pop() {
        if !std::mem::replace(&mut reached[at.index()], true) {
            worklist.extend(program.blocks[at.index()].terminator.successors());
        }
    }
    reached
}

fn renumber(program: &mut Program<'_>) {
    let reached = reachable(program);
    let mut numbers = vec![BlockId(0); program.blocks.len()];
    let retained = numbers.iter_mut().zip(&reached).filter(|&(_, &r)| r);
    for (next, (number, _)) in retained.enumerate() {
        *number = BlockId(next as u32);
    }
    let mut reached = reached.iter();
    program
        .blocks
        .retain(|_| reached.next().copied().unwrap_or(false));
    for block in &mut program.blocks {
        retarget(&mut block.terminator, |to| numbers[to.index()]);
    }
}

/// Replaces every target of a terminator.
pub(super) fn retarget(terminator: &mut Terminator, to: impl Fn(BlockId) -> BlockId) {
    match terminator {
        Terminator::Jump(target) | Terminator::Sync { next: target, .. } => *target = to(*target),
        Terminator::Branch {
            then, otherwise, ..
        } => {
            *then = to(*then);
            *otherwise = to(*otherwise);
        }
        Terminator::Table { targets, .. } => {
            for target in targets {
                *target = to(*target);
            }
        }
        Terminator::Exit | Terminator::Trap { .. } => {}
    }
}
