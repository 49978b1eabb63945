//! Post-dominators: the blocks that all paths from a block to the end pass through.

use super::{BlockId, DepthFirst, Graph, Lists, dominators};

impl Graph {
    /// The immediate post-dominator of each block, with paths into a trap or an endless
    /// loop left out; `None` where there is none. `leaves` says which blocks may end the
    /// function.
    ///
    /// For the threads that go on, `exits` has a flag for each block: where a block may also
    /// leave, itself or to one of those, that way is left out, unless it is the last. Without
    /// flags nothing is left out.
    pub fn post_dominators(
        &self,
        leaves: impl Fn(BlockId) -> bool,
        exits: &[bool],
    ) -> Vec<Option<BlockId>> {
        let count = self.block_count();
        // One more block is the virtual exit.
        let end = count as u32;
        let is_exit = |at: BlockId| exits.get(at.index()).copied().unwrap_or(false);
        let mut edges = Vec::new();
        let mut left_out = vec![false; count];
        for &block in &self.order {
            let leaves = leaves(block);
            let mut next = self.successors(block);
            let goes_on = !exits.is_empty() && next.any(|to| !is_exit(to));
            let mut next = self.successors(block);
            left_out[block.index()] = goes_on && (leaves || next.any(is_exit));
            let next = self.successors(block);
            let kept = next.filter(|to| !goes_on || !is_exit(*to));
            edges.extend(kept.map(|to| (block.0, to.0)));
            if leaves && !goes_on {
                edges.push((block.0, end));
            }
        }
        self.restore_last_exits(&mut edges, &left_out);
        let (after, before) = (
            Lists::new(count + 1, &edges),
            Lists::backward(count + 1, &edges),
        );
        let search = DepthFirst::new(&before, end);
        let found = dominators::immediate(&search, &after);
        let next = |at: &u32| Some(BlockId(*at)).filter(|at| at.0 < end);
        found[..count].iter().map(next).collect()
    }

    /// Adds an edge to the virtual exit where a loop has no other way out than one that
    /// was left out: behind all others.
    fn restore_last_exits(&self, edges: &mut Vec<(u32, u32)>, left_out: &[bool]) {
        if !left_out.contains(&true) {
            return;
        }
        let end = self.block_count() as u32;
        let before = Lists::backward(left_out.len() + 1, edges);
        let mut ends = vec![false; left_out.len() + 1];
        let mut open = vec![end];
        let mut last = self.order.iter().rev();
        loop {
            while let Some(at) = open.pop() {
                if !std::mem::replace(&mut ends[at as usize], true) {
                    open.extend(before.get(at));
                }
            }
            let Some(BlockId(at)) = last.find(|at| left_out[at.index()] && !ends[at.index()])
            else {
                return;
            };
            edges.push((*at, end));
            open.push(*at);
        }
    }
}
