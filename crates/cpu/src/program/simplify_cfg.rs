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
    let graph = program.graph();
    let mut retained: Vec<bool> = (0..count as u32)
        .map(|block| graph.is_reached(BlockId(block)))
        .collect();
    for i in 0..count {
        while let Terminator::Jump(to) = program.blocks[i].terminator
            && retained[i]
            && to.index() != i
            && to.index() != 0
            && graph.predecessors(to).nth(1).is_none()
        {
            let empty = BasicBlock {
                steps: Vec::new(),
                terminator: Terminator::Exit,
            };
            let mut merged = std::mem::replace(&mut program.blocks[to.index()], empty);
            let block = &mut program.blocks[i];
            block.steps.append(&mut merged.steps);
            block.terminator = merged.terminator;
            retained[to.index()] = false;
        }
    }
    renumber(program, &retained);
}

/// Removes the other blocks.
fn renumber(program: &mut Program<'_>, retained: &[bool]) {
    let mut numbers = vec![BlockId(0); program.blocks.len()];
    let numbered = numbers.iter_mut().zip(retained).filter(|&(_, &r)| r);
    for (next, (number, _)) in numbered.enumerate() {
        *number = BlockId(next as u32);
    }
    let mut retained = retained.iter();
    program
        .blocks
        .retain(|_| retained.next().copied().unwrap_or(false));
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
        Terminator::Table {
            targets, otherwise, ..
        } => {
            for target in targets.iter_mut().chain(otherwise) {
                *target = to(*target);
            }
        }
        Terminator::Exit | Terminator::Fault { .. } => {}
    }
}
