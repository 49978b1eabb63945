//! Simplification of the control-flow graph after lowering: jumps are threaded,
//! blocks merged, unreachable ones removed, and the rest numbered in text order.

use crate::program::ir::{BasicBlock, BlockId, Program, Terminator};

/// Threads jumps, merges straight-line blocks and removes unreachable ones.
/// `order` is that of the text.
pub(in crate::program) fn simplify(program: &mut Program<'_>, order: &[BlockId]) {
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
    renumber(program, retained, order);
}

/// Removes the other blocks, and puts those that `order` has in its order, after the entry.
fn renumber(program: &mut Program<'_>, mut retained: Vec<bool>, order: &[BlockId]) {
    let mut blocks: Vec<Option<BasicBlock>> = std::mem::take(&mut program.blocks)
        .into_iter()
        .map(Some)
        .collect();
    let mut numbers = vec![BlockId(0); blocks.len()];
    let entry = std::iter::once(BlockId(0));
    let others = (0..blocks.len() as u32).map(BlockId);
    for block in entry.chain(order.iter().copied()).chain(others) {
        if std::mem::take(&mut retained[block.index()]) {
            numbers[block.index()] = BlockId(program.blocks.len() as u32);
            program.blocks.extend(blocks[block.index()].take());
        }
    }
    for block in &mut program.blocks {
        retarget(&mut block.terminator, |to| numbers[to.index()]);
    }
}

/// Replaces every target of a terminator.
pub(in crate::program) fn retarget(terminator: &mut Terminator, to: impl Fn(BlockId) -> BlockId) {
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
