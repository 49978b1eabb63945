//! Loops of a program.

use super::{BlockId, Program};

/// How often each block runs, roughly: eight times for each loop around it.
pub(crate) fn weights(program: &Program<'_>) -> Vec<u64> {
    let mut weights = vec![1_u64; program.blocks.len()];
    for (from, to) in back_edges(program) {
        let inside = natural_loop(program, from, to);
        for (weight, _) in weights.iter_mut().zip(inside).filter(|(_, i)| *i) {
            *weight = (*weight * 8).min(1 << 15);
        }
    }
    weights
}

/// Edges that lead back to a block on the way to them.
pub(super) fn back_edges(program: &Program<'_>) -> Vec<(BlockId, BlockId)> {
    #[derive(Clone, Copy, PartialEq)]
    enum Mark {
        New,
        Open,
        Done,
    }
    let mut marks = vec![Mark::New; program.blocks.len()];
    let mut edges = Vec::new();
    let mut stack = vec![(BlockId(0), 0_usize)];
    marks[0] = Mark::Open;
    while let Some((at, child)) = stack.last_mut() {
        let at = *at;
        let next = program.blocks[at.index()]
            .terminator
            .successors()
            .nth(*child);
        *child += 1;
        match next {
            None => {
                marks[at.index()] = Mark::Done;
                stack.pop();
            }
            Some(to) => match marks[to.index()] {
                Mark::New => {
                    marks[to.index()] = Mark::Open;
                    stack.push((to, 0));
                }
                Mark::Open => edges.push((at, to)),
                Mark::Done => {}
            },
        }
    }
    edges.sort_unstable();
    edges.dedup();
    edges
}

/// The blocks from which `from` is reached without passing `to`, and `to`.
pub(super) fn natural_loop(program: &Program<'_>, from: BlockId, to: BlockId) -> Vec<bool> {
    let mut before = vec![Vec::new(); program.blocks.len()];
    for (i, block) in program.blocks.iter().enumerate() {
        for next in block.terminator.successors() {
            before[next.index()].push(i);
        }
    }
    let mut inside = vec![false; program.blocks.len()];
    inside[to.index()] = true;
    let mut open = vec![from.index()];
    while let Some(at) = open.pop() {
        if !std::mem::replace(&mut inside[at], true) {
            open.extend(&before[at]);
        }
    }
    inside
}
