//! The control-flow graph of a function, without its instructions: which block follows
//! which, what dominates what, and the loops.
//!
//! It knows no intermediate representation. Whoever has basic blocks numbers them, and
//! gives the edges.
//!
//! ```
//! use ptxkit_analysis::control_flow::{BlockId, Graph, Loops};
//!
//! // A loop of block 1 between the entry and the end.
//! let graph = Graph::new(3, &[(0, 1), (1, 1), (1, 2)]);
//! assert!(graph.dominates(BlockId(1), BlockId(2)));
//! let loops = Loops::new(&graph).expect("one entry");
//! assert_eq!(loops.depth(BlockId(1)), 1);
//! assert_eq!(loops.depth(BlockId(2)), 0);
//! ```

mod dominators;
mod lists;
mod loops;
mod post_dominators;

#[cfg(test)]
mod tests;

pub use lists::Lists;
pub use loops::{Loop, LoopId, Loops};

/// A basic block, by number; block 0 is the entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlockId(pub u32);

impl BlockId {
    /// The entry.
    pub const ENTRY: BlockId = BlockId(0);

    /// Its index in whatever has a place for each block.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// No block.
const NONE: u32 = u32::MAX;

/// The control-flow graph of a function.
#[derive(Clone, Debug)]
pub struct Graph {
    successors: Lists,
    predecessors: Lists,
    /// The reachable blocks in reverse post-order.
    pub order: Vec<BlockId>,
    /// The index in `order`; `NONE` for unreachable blocks.
    rank: Vec<u32>,
    dominator: Vec<u32>,
    /// The places of a block in a walk of the dominator tree, and behind those that it dominates:
    /// its interval contains theirs.
    entered: Vec<u32>,
    left: Vec<u32>,
}

impl Graph {
    /// The graph of so many blocks, at least one, with these edges, each once.
    pub fn new(blocks: usize, edges: &[(u32, u32)]) -> Graph {
        let successors = Lists::new(blocks, edges);
        let predecessors = Lists::backward(blocks, edges);
        let search = DepthFirst::new(&successors, BlockId::ENTRY.0);
        let order: Vec<_> = search.reverse_post_order().map(BlockId).collect();
        let mut rank = vec![NONE; blocks];
        for (place, at) in (0..).zip(&order) {
            rank[at.index()] = place;
        }
        let dominator = dominators::immediate(&search, &predecessors);
        let (entered, left) = dominators::intervals(&search, &dominator);
        Graph {
            successors,
            predecessors,
            order,
            rank,
            dominator,
            entered,
            left,
        }
    }

    /// The number of blocks.
    #[inline]
    pub fn block_count(&self) -> usize {
        self.rank.len()
    }

    /// The successors of a block.
    #[inline]
    pub fn successors(&self, block: BlockId) -> impl Iterator<Item = BlockId> + '_ {
        self.successors.get(block.0).iter().copied().map(BlockId)
    }

    /// The reachable predecessors of a block.
    #[inline]
    pub fn predecessors(&self, block: BlockId) -> impl Iterator<Item = BlockId> + '_ {
        let all = self.predecessors.get(block.0).iter().copied().map(BlockId);
        all.filter(|block| self.is_reached(*block))
    }

    /// Whether a block is reachable from the entry.
    #[inline]
    pub fn is_reached(&self, block: BlockId) -> bool {
        self.rank[block.index()] != NONE
    }

    /// Its index in [`Graph::order`]; `u32::MAX` for one that is not reachable.
    #[inline]
    pub fn place(&self, block: BlockId) -> u32 {
        self.rank[block.index()]
    }

    /// Whether `above` dominates `below`, where one of them is reachable.
    #[inline]
    pub fn dominates(&self, above: BlockId, below: BlockId) -> bool {
        let (above, below) = (above.index(), below.index());
        self.entered[above] <= self.entered[below] && self.left[below] <= self.left[above]
    }

    /// The immediate dominator of a reachable block; the entry is its own.
    #[inline]
    pub fn dominator(&self, block: BlockId) -> BlockId {
        BlockId(self.dominator[block.index()])
    }

    /// The dominance frontier of each block; `None` if that is more than `budget` blocks.
    pub fn dominance_frontiers(&self, budget: usize) -> Option<Lists> {
        dominators::frontiers(self, budget)
    }

    /// Whether there is a path from `from` to `to`.
    pub fn leads_to(&self, from: BlockId, to: BlockId) -> bool {
        let mut visited = vec![false; self.block_count()];
        let mut open = vec![from];
        while let Some(at) = open.pop() {
            if at == to {
                return true;
            }
            if !std::mem::replace(&mut visited[at.index()], true) {
                open.extend(self.successors(at));
            }
        }
        false
    }

    /// The edges that go back in reverse post-order. Each cycle has one. In a loop with one
    /// entry, they lead to that entry.
    pub fn back_edges(&self) -> impl Iterator<Item = (BlockId, BlockId)> + '_ {
        self.order.iter().flat_map(move |from| {
            let back = self.successors(*from);
            let back = back.filter(|to| self.place(*to) <= self.place(*from));
            back.map(|to| (*from, to))
        })
    }

    /// The natural loop of a back edge, a flag for each block: the blocks that reach `from`
    /// without passing through `to`.
    pub fn natural_loop(&self, from: BlockId, to: BlockId) -> Vec<bool> {
        let mut inside = vec![false; self.block_count()];
        inside[to.index()] = true;
        let mut open = vec![from];
        while let Some(at) = open.pop() {
            if !std::mem::replace(&mut inside[at.index()], true) {
                open.extend(self.predecessors(at));
            }
        }
        inside
    }
}

/// A depth-first search of the nodes that are reachable from a root.
struct DepthFirst {
    /// The nodes in the order in which they are found.
    nodes: Vec<u32>,
    /// By that order, the number of the node from which each is found.
    parent: Vec<u32>,
    /// By node, its number in that order; `NONE` for unreachable ones.
    number: Vec<u32>,
    /// The nodes in the order in which they are left.
    left: Vec<u32>,
}

impl DepthFirst {
    fn new(next: &Lists, root: u32) -> DepthFirst {
        let mut search = DepthFirst {
            nodes: Vec::with_capacity(next.count()),
            parent: Vec::with_capacity(next.count()),
            number: vec![NONE; next.count()],
            left: Vec::with_capacity(next.count()),
        };
        search.enter(root, 0);
        let mut open: Vec<(u32, usize)> = Vec::with_capacity(next.count());
        open.push((root, 0));
        while let Some((at, place)) = open.last_mut() {
            match next.get(*at).get(*place) {
                Some(to) => {
                    *place += 1;
                    if search.number[*to as usize] == NONE {
                        search.enter(*to, search.number[*at as usize]);
                        open.push((*to, 0));
                    }
                }
                None => {
                    search.left.push(*at);
                    open.pop();
                }
            }
        }
        search
    }

    fn enter(&mut self, node: u32, parent: u32) {
        self.number[node as usize] = self.nodes.len() as u32;
        self.nodes.push(node);
        self.parent.push(parent);
    }

    fn reverse_post_order(&self) -> impl Iterator<Item = u32> + '_ {
        self.left.iter().rev().copied()
    }
}
