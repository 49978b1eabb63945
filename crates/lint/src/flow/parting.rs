//! Branches that part threads which come back together: what one side executes and
//! the other does not.

use super::context::Flow;
use super::divergence::Variance;
use super::first_pass::{FirstPass, Together};
use super::graph::BlockId;
use super::instructions::InstructionId;
use super::threads::ThreadSet;

/// One side of a branch that some threads take and others do not.
#[derive(Debug)]
pub struct Parting {
    /// The branch.
    pub branch: InstructionId,
    /// The threads that take this side, and those that take the other.
    pub threads: [ThreadSet; 2],
    /// The threads that surely come to the branch together. What else decides behind it
    /// does not matter: nobody of the other side comes.
    pub together: Variance,
    /// The threads that the branch keeps together, where a bound decides which take this
    /// side: the sets are of those that may.
    pub bound: Option<Variance>,
    /// Both sides come to one place again. Otherwise the threads of one end: they are
    /// not waited for.
    pub meets: bool,
    /// What threads of this side execute together, and those of the other do not, up to
    /// where both meet again; of a loop, in the turns that others do not take.
    pub own: Vec<InstructionId>,
    /// What threads of the other side execute together.
    pub others: Vec<InstructionId>,
}

/// What is looked at of each block for all branches together, so that nested branches
/// of a large function take linear time.
const VISITS_OF_EACH: usize = 16;

/// The branches that part threads before what they have to execute together.
pub(super) fn partings(
    flow: &Flow<'_, '_>,
    pass: &FirstPass,
    together: &Together,
    decides: &[bool],
) -> Vec<Parting> {
    let graph = &flow.graph;
    let count = graph.blocks.len();
    let mut walk = Walk {
        flow,
        pass,
        together,
        visited: vec![(0, 0); count],
        epoch: 0,
        budget: (count + together.instructions.len()) * VISITS_OF_EACH + 1000,
    };
    let mut found = Vec::new();
    let branches = graph.order.iter().filter(|at| decides[at.index()]);
    for block in branches {
        let Some(branch) = graph.blocks[block.index()].steps().next_back() else {
            continue;
        };
        let (Some(truth), Some(arrival)) = (pass.guard(flow, branch), pass.arrival(*block)) else {
            continue;
        };
        let may = truth.may.map(|may| may.and(arrival.threads));
        let bound = truth.bound > Variance::Block;
        if may[0].is_empty() || may[1].is_empty() || may[0] == may[1] && !bound {
            continue;
        }
        let fall = BlockId(block.0 + 1);
        let mut sides = graph.successors(*block).filter(|to| *to != fall);
        let Some(taken) = sides.next().filter(|_| sides.next().is_none()) else {
            continue;
        };
        let Some(sides) = walk.sides(*block, [taken, fall]) else {
            break;
        };
        let meets = walk.meets(*block, &sides);
        for side in [0, 1] {
            let mut surely = arrival.threads.without(may[side]);
            let bound = Some(truth.bound).filter(|_| bound && surely.is_empty());
            if bound.is_some() {
                surely = may[1 - side];
            }
            let own = sides[side].iter().copied();
            let own = own.filter(|at| walk.side_of(*at) == 1 << side);
            let own = walk.instructions(own);
            if !surely.is_empty() && !own.is_empty() {
                let others = sides[1 - side].iter().copied();
                found.push(Parting {
                    branch,
                    threads: [may[side], surely],
                    together: arrival.together,
                    bound,
                    meets,
                    own,
                    others: walk.instructions(others),
                });
            }
        }
    }
    found
}

struct Walk<'f, 'm, 'a> {
    flow: &'f Flow<'m, 'a>,
    pass: &'f FirstPass,
    together: &'f Together,
    /// The sides, a bit each, on which a block was visited in an epoch.
    visited: Vec<(u32, u8)>,
    epoch: u32,
    budget: usize,
}

impl Walk<'_, '_, '_> {
    /// What threads execute together in these blocks.
    fn instructions(&self, blocks: impl Iterator<Item = BlockId>) -> Vec<InstructionId> {
        let mut all: Vec<InstructionId> = Vec::new();
        blocks.for_each(|at| all.extend(self.together.of(self.flow, at)));
        all.sort_unstable();
        all
    }

    fn side_of(&self, block: BlockId) -> u8 {
        let (epoch, sides) = self.visited[block.index()];
        if epoch == self.epoch { sides } else { 0 }
    }

    /// The blocks of each side: up to where both meet, and not past the branch again.
    fn sides(&mut self, branch: BlockId, starts: [BlockId; 2]) -> Option<[Vec<BlockId>; 2]> {
        self.epoch += 1;
        let meets = self.pass.meets[branch.index()];
        let mut sides = [Vec::new(), Vec::new()];
        for (side, start) in starts.into_iter().enumerate() {
            let mut open = vec![start];
            while let Some(at) = open.pop() {
                let looked_at = 1 + self.together.of(self.flow, at).len();
                self.budget = self.budget.checked_sub(looked_at)?;
                let seen = self.side_of(at);
                if Some(at) == meets || self.pass.exits[at.index()] || seen & 1 << side != 0 {
                    continue;
                }
                self.visited[at.index()] = (self.epoch, seen | 1 << side);
                sides[side].push(at);
                if at != branch {
                    open.extend(self.flow.graph.successors(at));
                }
            }
        }
        Some(sides)
    }

    /// Whether threads of both sides come to one place again. Those that have ended are
    /// not waited for; those that return from a function have not ended.
    fn meets(&self, branch: BlockId, sides: &[Vec<BlockId>; 2]) -> bool {
        let leaves = |side: &Vec<BlockId>| {
            let mut blocks = side.iter();
            blocks.any(|at| self.flow.graph.blocks[at.index()].leaves)
        };
        self.pass.meets[branch.index()].is_some()
            || sides[0].iter().any(|at| self.side_of(*at) == 3)
            || !self.flow.instructions.is_kernel() && sides.iter().all(leaves)
    }
}
