//! Branches that part threads which come back together: what one side executes and
//! the other does not.

use super::divergence::Variance;
use super::first_pass::FirstPass;
use super::graph::{BlockId, Graph};
use super::instructions::InstructionId;
use super::threads::ThreadSet;
use crate::Flow;
use ptx::ast::Instruction;

/// One side of a branch that some threads take and others do not.
#[derive(Debug)]
pub struct Parting {
    /// The branch, or a guarded instruction.
    pub branch: InstructionId,
    /// The threads that take this side, and those that take the other.
    pub threads: [ThreadSet; 2],
    /// The threads that come together, where a bound decides which do: the sets are of
    /// those that may come then.
    pub bound: Option<Variance>,
    /// Both sides come to one place again. Otherwise the threads of one end: they are
    /// not waited for.
    pub meets: bool,
    /// The blocks of this side alone, up to where both meet again; of a loop those of
    /// the turns that others do not take.
    pub own: Vec<BlockId>,
    /// The blocks of the other side.
    pub others: Vec<BlockId>,
}

impl Parting {
    /// The instructions of this side alone.
    pub fn instructions(&self, flow: &Flow<'_, '_>) -> impl Iterator<Item = InstructionId> {
        let blocks = self.own.iter().map(|at| flow.graph.blocks[at.index()]);
        let mut all: Vec<InstructionId> = blocks.flat_map(|block| block.steps()).collect();
        all.sort_unstable();
        all.into_iter()
    }

    /// Whether the other side has an instruction of which `pairs` is true.
    pub fn is_met(&self, flow: &Flow<'_, '_>, pairs: impl Fn(&Instruction) -> bool) -> bool {
        let blocks = self.others.iter().map(|at| flow.graph.blocks[at.index()]);
        let mut all = blocks.flat_map(|block| block.steps());
        all.any(|id| flow.instructions.get(id).is_some_and(&pairs))
    }
}

/// What is looked at of each block for all branches together, so that nested branches
/// of a large function take linear time.
const VISITS_OF_EACH: usize = 16;

/// The partings with a block of which `matters` is true.
pub(super) fn partings(flow: &Flow<'_, '_>, pass: &FirstPass, matters: &[bool]) -> Vec<Parting> {
    let graph = &flow.graph;
    let count = graph.blocks.len();
    let mut walk = Walk {
        graph,
        pass,
        visited: vec![(0, 0); count],
        epoch: 0,
        budget: count * VISITS_OF_EACH + 1000,
    };
    let mut found = Vec::new();
    for block in &graph.order {
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
        let meets = walk.meets(flow, *block, &sides);
        for side in [0, 1] {
            let mut surely = arrival.threads.without(may[side]);
            let bound = Some(truth.bound).filter(|_| bound && surely.is_empty());
            if bound.is_some() {
                surely = may[1 - side];
            }
            let own: Vec<BlockId> = sides[side]
                .iter()
                .copied()
                .filter(|at| walk.side_of(*at) == 1 << side)
                .collect();
            if !surely.is_empty() && own.iter().any(|at| matters[at.index()]) {
                found.push(Parting {
                    branch,
                    threads: [may[side], surely],
                    bound,
                    meets,
                    own,
                    others: sides[1 - side].clone(),
                });
            }
        }
    }
    found
}

struct Walk<'f> {
    graph: &'f Graph,
    pass: &'f FirstPass,
    /// The sides, a bit each, on which a block was visited in an epoch.
    visited: Vec<(u32, u8)>,
    epoch: u32,
    budget: usize,
}

impl Walk<'_> {
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
                self.budget = self.budget.checked_sub(1)?;
                let seen = self.side_of(at);
                if Some(at) == meets || self.pass.exits[at.index()] || seen & 1 << side != 0 {
                    continue;
                }
                self.visited[at.index()] = (self.epoch, seen | 1 << side);
                sides[side].push(at);
                if at != branch {
                    open.extend(self.graph.successors(at));
                }
            }
        }
        Some(sides)
    }

    /// Whether threads of both sides come to one place again. Those that have ended are
    /// not waited for; those that return from a function have not ended.
    fn meets(&self, flow: &Flow<'_, '_>, branch: BlockId, sides: &[Vec<BlockId>; 2]) -> bool {
        let leaves = |side: &Vec<BlockId>| {
            let mut blocks = side.iter();
            blocks.any(|at| self.graph.blocks[at.index()].leaves)
        };
        self.pass.meets[branch.index()].is_some()
            || sides[0].iter().any(|at| self.side_of(*at) == 3)
            || !flow.instructions.is_kernel() && sides.iter().all(leaves)
    }
}
