//! The loop nest of a function: its natural loops, and which lies in which.

use super::{BlockId, Graph};

/// A loop, by number; inner loops come before those around them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LoopId(u32);

impl LoopId {
    /// Its number.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A natural loop: one block that every way into it goes through.
#[derive(Debug)]
pub struct Loop {
    /// The block that dominates all others of it.
    pub head: BlockId,
    /// The blocks that jump back to the head.
    pub latches: Vec<BlockId>,
    /// The loop around it.
    pub parent: Option<LoopId>,
    /// 1 for an outermost loop.
    pub depth: usize,
}

/// The limit of steps for each block: the time must not be superlinear.
const STEPS_FOR_EACH: usize = 200;

/// No deeper nest is followed: whoever asks what lies in what goes through it.
const NESTED: usize = 32;

/// The loops of a function.
#[derive(Debug)]
pub struct Loops {
    loops: Vec<Loop>,
    /// The innermost loop of each block.
    innermost: Vec<Option<LoopId>>,
}

impl Loops {
    /// `None` where a loop has two entries, or where it takes too many steps or is too
    /// deep.
    pub fn new(graph: &Graph) -> Option<Loops> {
        let count = graph.block_count();
        let mut nest = Loops {
            loops: Vec::new(),
            innermost: vec![None; count],
        };
        let mut budget = count * STEPS_FOR_EACH + 10_000;
        // The heads of inner loops come later in reverse post-order.
        for head in graph.order.iter().rev() {
            let mut latches = Vec::new();
            for before in graph.predecessors(*head) {
                if graph.dominates(*head, before) {
                    latches.push(before);
                } else if graph.place(before) >= graph.place(*head) {
                    return None;
                }
            }
            if latches.is_empty() {
                continue;
            }
            let id = LoopId(nest.loops.len() as u32);
            // What is in an inner loop of the same head belongs to that one.
            nest.innermost[head.index()] = Some(id);
            let mut open = latches.clone();
            nest.loops.push(Loop {
                head: *head,
                latches,
                parent: None,
                depth: 0,
            });
            while let Some(block) = open.pop() {
                budget = budget.checked_sub(1)?;
                let Some(mut outer) = nest.innermost[block.index()] else {
                    nest.innermost[block.index()] = Some(id);
                    open.extend(graph.predecessors(block));
                    continue;
                };
                while let Some(parent) = nest.get(outer).parent {
                    budget = budget.checked_sub(1)?;
                    outer = parent;
                }
                if outer != id {
                    nest.loops[outer.index()].parent = Some(id);
                    open.extend(graph.predecessors(nest.get(outer).head));
                }
            }
        }
        for at in (0..nest.loops.len()).rev() {
            let around = nest.loops[at].parent.map_or(0, |id| nest.get(id).depth);
            nest.loops[at].depth = around + 1;
            if around >= NESTED {
                return None;
            }
        }
        Some(nest)
    }

    /// All of them.
    pub fn ids(&self) -> impl Iterator<Item = LoopId> + use<> {
        (0..self.loops.len() as u32).map(LoopId)
    }

    /// A loop by its number.
    #[inline]
    pub fn get(&self, id: LoopId) -> &Loop {
        &self.loops[id.index()]
    }

    /// The innermost loop around a block.
    #[inline]
    pub fn innermost(&self, block: BlockId) -> Option<LoopId> {
        self.innermost[block.index()]
    }

    /// The loop whose head a block is.
    #[inline]
    pub fn headed_by(&self, block: BlockId) -> Option<LoopId> {
        self.innermost(block)
            .filter(|id| self.get(*id).head == block)
    }

    /// The loop itself and those around it, from the inside out.
    #[inline]
    pub fn around(&self, from: Option<LoopId>) -> impl Iterator<Item = LoopId> + '_ {
        std::iter::successors(from, |id| self.get(*id).parent)
    }

    /// The number of loops around a block.
    #[inline]
    pub fn depth(&self, block: BlockId) -> usize {
        self.innermost(block).map_or(0, |id| self.get(id).depth)
    }

    /// Whether a block lies in a loop.
    #[inline]
    pub fn contains(&self, id: LoopId, block: BlockId) -> bool {
        self.around(self.innermost(block)).any(|outer| outer == id)
    }
}
