//! Loops of the control-flow graph.

use super::ir::{BlockId, Program};

/// A static estimate of how often each block runs: eight times for each loop around
/// it.
pub(crate) fn block_frequencies(program: &Program<'_>) -> Vec<u64> {
    let mut frequencies = vec![1_u64; program.blocks.len()];
    for (from, to) in back_edges(program) {
        let inside = natural_loop(program, from, to);
        for (frequency, _) in frequencies.iter_mut().zip(inside).filter(|(_, i)| *i) {
            *frequency = (*frequency * 8).min(1 << 15);
        }
    }
    frequencies
}

/// The edges to a block that is on the stack of a depth-first search.
pub(super) fn back_edges(program: &Program<'_>) -> Vec<(BlockId, BlockId)> {
    #[derive(Clone, Copy, PartialEq)]
    enum Visit {
        Unvisited,
        OnStack,
        Done,
    }
    let mut visits = vec![Visit::Unvisited; program.blocks.len()];
    let mut edges = Vec::new();
    let mut stack = vec![(BlockId(0), 0_usize)];
    visits[0] = Visit::OnStack;
    while let Some((at, child)) = stack.last_mut() {
        let at = *at;
        let next = program.blocks[at.index()]
            .terminator
            .successors()
            .nth(*child);
        *child += 1;
        match next {
            None => {
                visits[at.index()] = Visit::Done;
                stack.pop();
            }
            Some(to) => match visits[to.index()] {
                Visit::Unvisited => {
                    visits[to.index()] = Visit::OnStack;
                    stack.push((to, 0));
                }
                Visit::OnStack => edges.push((at, to)),
                Visit::Done => {}
            },
        }
    }
    edges.sort_unstable();
    edges.dedup();
    edges
}

/// The natural loop of a back edge: the header `to`, and the blocks that reach `from`
/// without passing through it.
pub(super) fn natural_loop(program: &Program<'_>, from: BlockId, to: BlockId) -> Vec<bool> {
    let mut predecessors = vec![Vec::new(); program.blocks.len()];
    for (i, block) in program.blocks.iter().enumerate() {
        for next in block.terminator.successors() {
            predecessors[next.index()].push(i);
        }
    }
    let mut inside = vec![false; program.blocks.len()];
    inside[to.index()] = true;
    let mut worklist = vec![from.index()];
    while let Some(at) = worklist.pop() {
        if !std::mem::replace(&mut inside[at], true) {
            worklist.extend(&predecessors[at]);
        }
    }
    inside
}
