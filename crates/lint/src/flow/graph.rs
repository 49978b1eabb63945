//! The basic blocks of a function and their control-flow graph. Blocks are numbered in
//! the order of the text; the entry, block 0, is empty and has no predecessor.

use std::ops::Deref;

use super::effect::Terminator;
use super::instructions::{InstructionId, Instructions};
use analysis::control_flow;
pub use analysis::control_flow::BlockId;

/// A basic block: instructions that are executed in sequence.
#[derive(Clone, Copy, Debug)]
pub struct BasicBlock {
    /// The first instruction.
    pub start: u32,
    /// Behind the last.
    pub end: u32,
    /// Control may fall off the end of the body behind it.
    pub falls_off: bool,
    /// It ends in `ret` or `exit`, guarded or not, or falls off the end.
    pub leaves: bool,
}

impl BasicBlock {
    /// Its instructions.
    pub fn steps(&self) -> impl DoubleEndedIterator<Item = InstructionId> + use<> {
        (self.start..self.end).map(InstructionId)
    }

    /// Their indices.
    pub(super) fn range(&self) -> std::ops::Range<usize> {
        self.start as usize..self.end as usize
    }
}

/// The control-flow graph of a function.
#[derive(Debug)]
pub struct Graph {
    /// In the order of the text.
    pub blocks: Vec<BasicBlock>,
    block_of: Vec<u32>,
    graph: control_flow::Graph,
}

/// What follows what is the same for all graphs.
impl Deref for Graph {
    type Target = control_flow::Graph;

    fn deref(&self) -> &control_flow::Graph {
        &self.graph
    }
}

impl Graph {
    pub(crate) fn new(instructions: &Instructions<'_, '_>) -> Graph {
        let (blocks, edges, block_of) = blocks(instructions);
        Graph {
            graph: control_flow::Graph::new(blocks.len(), &edges),
            blocks,
            block_of,
        }
    }

    /// The block of an instruction.
    pub fn block_of(&self, instruction: InstructionId) -> BlockId {
        BlockId(self.block_of[instruction.index()])
    }

    /// The immediate post-dominator of each block, with paths into a trap or an endless
    /// loop left out; `None` where there is none.
    pub(crate) fn post_dominators(&self) -> Vec<Option<BlockId>> {
        self.post_dominators_past(&[])
    }

    /// The same for the threads that go on: where a block may also leave the function,
    /// itself or to a block of `exits`, that way is left out, unless it is the last.
    pub(crate) fn post_dominators_past(&self, exits: &[bool]) -> Vec<Option<BlockId>> {
        let leaves = |block: BlockId| self.blocks[block.index()].leaves;
        self.graph.post_dominators(leaves, exits)
    }
}

type Blocks = (Vec<BasicBlock>, Vec<(u32, u32)>, Vec<u32>);

/// The blocks, the edges, and the block of each instruction.
fn blocks(instructions: &Instructions<'_, '_>) -> Blocks {
    let count = instructions.steps.len();
    let mut leads = vec![false; count + 1];
    // Behind the last instruction its block ends.
    leads[count] = true;
    for at in &instructions.labels {
        leads[*at as usize] = true;
    }
    for (at, step) in instructions.steps.iter().enumerate() {
        if step.terminator != Terminator::FallThrough {
            leads[at + 1] = true;
        }
    }
    let mut blocks = Vec::with_capacity(1 + leads.iter().filter(|leads| **leads).count());
    blocks.push(BasicBlock {
        start: 0,
        end: 0,
        falls_off: false,
        leaves: false,
    });
    let mut block_of = Vec::with_capacity(count);
    let mut start = 0;
    for end in (1..=count).filter(|at| leads[*at]) {
        block_of.resize(end, blocks.len() as u32);
        blocks.push(BasicBlock {
            start,
            end: end as u32,
            ..blocks[0]
        });
        start = end as u32;
    }
    // A label may stand behind the last instruction.
    let end = blocks.len() as u32;
    let block_at = |at: u32| block_of.get(at as usize).copied().unwrap_or(end);
    let mut edges = Vec::with_capacity(blocks.len() * 2);
    edges.push((0, 1));
    for (at, block) in blocks.iter_mut().enumerate().skip(1) {
        let from = at as u32;
        let Some(step) = instructions.steps.get(block.end as usize - 1) else {
            continue;
        };
        let last = InstructionId(block.end - 1);
        let first = edges.len();
        match step.terminator {
            Terminator::Jump | Terminator::IndirectJump => {
                let targets = instructions.targets(last);
                edges.extend(targets.map(|at| (from, block_at(at))));
            }
            Terminator::Return => block.leaves = true,
            Terminator::FallThrough | Terminator::Trap => {}
        }
        if step.terminator == Terminator::FallThrough || step.guarded {
            edges.push((from, from + 1));
        }
        // So all of them are in order.
        edges[first..].sort_unstable();
    }
    // An edge behind the last block leaves the function.
    let out = |&(_, to): &(u32, u32)| to >= end;
    for (from, _) in edges.iter().filter(|edge| out(edge)) {
        let block = &mut blocks[*from as usize];
        block.falls_off = true;
        block.leaves = true;
    }
    edges.retain(|edge| !out(edge));
    edges.dedup();
    (blocks, edges, block_of)
}
