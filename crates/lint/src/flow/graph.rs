//! Which way a function may go: blocks, what dominates what, what depends on
//! which branch.

use std::collections::HashMap;

use super::STEPS_FOR_EACH;
use super::code::{Code, InstructionId};
use super::effect::Ends;
use ptx::ast::Operand;

/// A block, by number in the order of the text; block 0 is empty and comes
/// before all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlockId(pub u32);

impl BlockId {
    /// The entry, which nothing jumps to.
    pub const ENTRY: BlockId = BlockId(0);

    /// Its place in [`Graph::blocks`].
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Instructions that are executed one after the other.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    /// The first instruction.
    pub start: u32,
    /// Behind the last.
    pub end: u32,
    /// Control may run out of the body behind it.
    pub falls_off: bool,
    /// It ends in `ret` or `exit`, under a guard or not, or falls off.
    pub leaves: bool,
}

impl Block {
    /// Its instructions.
    pub fn steps(&self) -> impl DoubleEndedIterator<Item = InstructionId> + use<> {
        (self.start..self.end).map(InstructionId)
    }
}

/// Lists of numbers, one behind the other.
#[derive(Debug, Default)]
struct Lists {
    starts: Vec<u32>,
    all: Vec<u32>,
}

impl Lists {
    /// Of pairs of list and element.
    fn new(count: usize, pairs: &[(u32, u32)]) -> Lists {
        let mut starts = vec![0; count + 1];
        for (list, _) in pairs {
            starts[*list as usize + 1] += 1;
        }
        for at in 1..starts.len() {
            starts[at] += starts[at - 1];
        }
        let mut next = starts.clone();
        let mut all = vec![0; pairs.len()];
        for (list, element) in pairs {
            let place = &mut next[*list as usize];
            all[*place as usize] = *element;
            *place += 1;
        }
        Lists { starts, all }
    }

    fn get(&self, list: u32) -> &[u32] {
        let at = list as usize;
        &self.all[self.starts[at] as usize..self.starts[at + 1] as usize]
    }
}

/// No block.
const NONE: u32 = u32::MAX;

/// The ways through a function.
#[derive(Debug)]
pub struct Graph {
    /// In the order of the text.
    pub blocks: Vec<Block>,
    successors: Lists,
    predecessors: Lists,
    /// Blocks that can be reached, each before what it leads to, loops aside.
    pub order: Vec<BlockId>,
    /// Place in `order`; `NONE` for what cannot be reached.
    rank: Vec<u32>,
    dominator: Vec<u32>,
    /// Numbers of the tree of dominators: inside of a block's are those below.
    entered: Vec<u32>,
    left: Vec<u32>,
    frontier: Lists,
    block_of: Vec<u32>,
}

impl Graph {
    /// `None` for a function whose graph is out of all proportion.
    pub(crate) fn new(code: &Code<'_, '_>) -> Option<Graph> {
        let (blocks, edges, block_of) = blocks(code);
        let count = blocks.len();
        let successors = Lists::new(count, &edges);
        let backward: Vec<_> = edges.iter().map(|(from, to)| (*to, *from)).collect();
        let predecessors = Lists::new(count, &backward);
        let order = depth_first(count, |at| successors.get(at), &[0]);
        let rank = ranks(count, &order);
        let budget = (code.steps.len() + count) * STEPS_FOR_EACH + 10_000;
        let dominator = dominators(&order, &rank, |at| predecessors.get(at), budget)?;
        let frontier = frontier(&order, &rank, &dominator, &predecessors, budget)?;
        let (entered, left) = nesting(&order, &dominator, count);
        Some(Graph {
            blocks,
            successors,
            predecessors,
            order: order.into_iter().map(BlockId).collect(),
            rank,
            dominator,
            entered,
            left,
            frontier,
            block_of,
        })
    }

    /// Where control may go behind a block.
    pub fn successors(&self, block: BlockId) -> impl Iterator<Item = BlockId> + '_ {
        self.successors.get(block.0).iter().copied().map(BlockId)
    }

    /// Where it may come from, as far as that can be reached.
    pub fn predecessors(&self, block: BlockId) -> impl Iterator<Item = BlockId> + '_ {
        let all = self.predecessors.get(block.0).iter().copied().map(BlockId);
        all.filter(|block| self.is_reached(*block))
    }

    /// The block of an instruction.
    pub fn block_of(&self, instruction: InstructionId) -> BlockId {
        BlockId(self.block_of[instruction.index()])
    }

    /// Whether some path from the entry leads there.
    pub fn is_reached(&self, block: BlockId) -> bool {
        self.rank[block.index()] != NONE
    }

    /// Its place in [`Graph::order`].
    pub(super) fn place(&self, block: BlockId) -> u32 {
        self.rank[block.index()]
    }

    /// Whether every path to `below` goes through `above`.
    pub fn dominates(&self, above: BlockId, below: BlockId) -> bool {
        let (above, below) = (above.index(), below.index());
        self.entered[above] <= self.entered[below] && self.left[below] <= self.left[above]
    }

    /// The nearest block that every path to this one goes through.
    pub(crate) fn dominator(&self, block: BlockId) -> BlockId {
        BlockId(self.dominator[block.index()])
    }

    /// Whether some path from `from` comes to `to`.
    pub(crate) fn leads_to(&self, from: BlockId, to: BlockId) -> bool {
        let mut seen = vec![false; self.blocks.len()];
        let mut open = vec![from];
        while let Some(at) = open.pop() {
            if at == to {
                return true;
            }
            if !std::mem::replace(&mut seen[at.index()], true) {
                open.extend(self.successors(at));
            }
        }
        false
    }

    /// Where what this block dominates ends.
    pub(super) fn frontier(&self, block: BlockId) -> impl Iterator<Item = BlockId> + '_ {
        self.frontier.get(block.0).iter().copied().map(BlockId)
    }

    /// For each block the next that every path to the end goes through, paths
    /// into a trap or an endless loop aside; `None` where there is none.
    pub(crate) fn post_dominators(&self) -> Option<Vec<Option<BlockId>>> {
        let count = self.blocks.len();
        // One more block stands for the end.
        let end = count as u32;
        let leaving: Vec<u32> = (0..end)
            .filter(|at| self.blocks[*at as usize].leaves && self.rank[*at as usize] != NONE)
            .collect();
        let before = |at: u32| match at == end {
            true => leaving.as_slice(),
            false => self.predecessors.get(at),
        };
        let order = depth_first(count + 1, before, &[end]);
        let rank = ranks(count + 1, &order);
        let mut edges = Vec::new();
        for &at in order.iter().filter(|at| **at != end) {
            edges.extend(self.successors.get(at).iter().map(|to| (at, *to)));
            if self.blocks[at as usize].leaves {
                edges.push((at, end));
            }
        }
        let after = Lists::new(count + 1, &edges);
        let budget = (count + 1) * STEPS_FOR_EACH + 10_000;
        let found = dominators(&order, &rank, |at| after.get(at), budget)?;
        let next = |at: &u32| Some(BlockId(*at)).filter(|at| at.0 < end);
        Some(found[..count].iter().map(next).collect())
    }
}

type Blocks = (Vec<Block>, Vec<(u32, u32)>, Vec<u32>);

/// The blocks, what leads where, and the block of each instruction.
fn blocks(code: &Code<'_, '_>) -> Blocks {
    let count = code.steps.len();
    let mut leads = vec![false; count + 1];
    if let Some(first) = leads.first_mut() {
        *first = true;
    }
    for label in &code.labels {
        leads[label.at as usize] = true;
    }
    for (at, step) in code.steps.iter().enumerate() {
        if step.ends != Ends::No {
            leads[at + 1] = true;
        }
    }
    let mut blocks = vec![Block {
        start: 0,
        end: 0,
        falls_off: false,
        leaves: false,
    }];
    let mut block_of = vec![0; count];
    for at in 0..count {
        if leads[at] {
            blocks.push(Block {
                start: at as u32,
                ..blocks[0]
            });
        }
        let last = blocks.len() - 1;
        blocks[last].end = at as u32 + 1;
        block_of[at] = last as u32;
    }
    // A label may stand behind the last instruction.
    let end = blocks.len() as u32;
    let block_at = |at: u32| block_of.get(at as usize).copied().unwrap_or(end);
    let labels: HashMap<(u32, &str), u32> = code
        .labels
        .iter()
        .map(|label| ((label.scope, label.name.text), block_at(label.at)))
        .collect();
    let mut edges = Vec::with_capacity(blocks.len() * 2);
    let mut falls = Vec::new();
    edges.push((0, 1));
    for (at, block) in blocks.iter_mut().enumerate().skip(1) {
        let from = at as u32;
        let Some(step) = code.steps.get(block.end as usize - 1) else {
            continue;
        };
        let last = InstructionId(block.end - 1);
        match step.ends {
            Ends::Jump | Ends::Table => targets(code, last, &labels, |to| edges.push((from, to))),
            Ends::Leave => block.leaves = true,
            Ends::No | Ends::Trap => {}
        }
        if step.ends == Ends::No || step.guarded {
            edges.push((from, from + 1));
        }
        falls.push(from);
    }
    // What leads behind the last block leads out.
    let out = |&(_, to): &(u32, u32)| to >= end;
    for (from, _) in edges.iter().filter(|edge| out(edge)) {
        let block = &mut blocks[*from as usize];
        block.falls_off = true;
        block.leaves = true;
    }
    edges.retain(|edge| !out(edge));
    edges.sort_unstable();
    edges.dedup();
    (blocks, edges, block_of)
}

/// The blocks that a jump may lead to.
fn targets(
    code: &Code<'_, '_>,
    jump: InstructionId,
    labels: &HashMap<(u32, &str), u32>,
    mut lead: impl FnMut(u32),
) {
    let Some(instruction) = code.instruction(jump) else {
        return;
    };
    let mut find = |name: &str| {
        let mut scope = code.jumps.get(&jump.0).copied().unwrap_or(0);
        loop {
            if let Some(block) = labels.get(&(scope, name)) {
                return lead(*block);
            }
            if scope == 0 {
                return;
            }
            scope = code.scopes[scope as usize];
        }
    };
    let operands = code.body.list(instruction.operands);
    let Some(Operand::Name(name)) = operands.last() else {
        return;
    };
    match code.tables.get(name.text) {
        Some(table) => table.targets.iter().for_each(|target| find(target.text)),
        None => find(name.text),
    }
}

/// What can be reached from `roots`, each before what it leads to, loops aside.
fn depth_first<'l>(count: usize, next: impl Fn(u32) -> &'l [u32], roots: &[u32]) -> Vec<u32> {
    let mut seen = vec![false; count];
    let mut order = Vec::with_capacity(count);
    let mut open: Vec<(u32, usize)> = Vec::new();
    for root in roots {
        if !std::mem::replace(&mut seen[*root as usize], true) {
            open.push((*root, 0));
        }
        while let Some((at, place)) = open.last_mut() {
            match next(*at).get(*place) {
                Some(to) => {
                    *place += 1;
                    if !std::mem::replace(&mut seen[*to as usize], true) {
                        open.push((*to, 0));
                    }
                }
                None => {
                    order.push(*at);
                    open.pop();
                }
            }
        }
    }
    order.reverse();
    order
}

fn ranks(count: usize, order: &[u32]) -> Vec<u32> {
    let mut rank = vec![NONE; count];
    for (place, at) in order.iter().enumerate() {
        rank[*at as usize] = place as u32;
    }
    rank
}

/// The tree of dominators (Cooper, Harvey, Kennedy: "A Simple, Fast Dominance
/// Algorithm"); the root is its own, what is not in `order` has none.
fn dominators<'l>(
    order: &[u32],
    rank: &[u32],
    before: impl Fn(u32) -> &'l [u32],
    mut budget: usize,
) -> Option<Vec<u32>> {
    let mut dominator = vec![NONE; rank.len()];
    let Some((&root, rest)) = order.split_first() else {
        return Some(dominator);
    };
    dominator[root as usize] = root;
    let mut changed = true;
    while changed {
        changed = false;
        for &at in rest {
            let mut new = NONE;
            for &from in before(at) {
                if dominator[from as usize] == NONE {
                    continue;
                }
                let (mut a, mut b) = (from, new);
                if b != NONE {
                    while a != b {
                        budget = budget.checked_sub(1)?;
                        if rank[a as usize] > rank[b as usize] {
                            a = dominator[a as usize];
                        } else {
                            b = dominator[b as usize];
                        }
                    }
                }
                new = a;
            }
            if dominator[at as usize] != new {
                dominator[at as usize] = new;
                changed = true;
            }
        }
    }
    Some(dominator)
}

fn frontier(
    order: &[u32],
    rank: &[u32],
    dominator: &[u32],
    predecessors: &Lists,
    mut budget: usize,
) -> Option<Lists> {
    let mut pairs = Vec::new();
    for &at in order {
        let before = predecessors.get(at);
        let before = before.iter().filter(|from| rank[**from as usize] != NONE);
        if before.clone().count() < 2 {
            continue;
        }
        for &from in before {
            let mut runner = from;
            while runner != dominator[at as usize] {
                budget = budget.checked_sub(1)?;
                pairs.push((runner, at));
                runner = dominator[runner as usize];
            }
        }
    }
    pairs.sort_unstable();
    pairs.dedup();
    Some(Lists::new(rank.len(), &pairs))
}

/// Numbers on the way down and up the tree of dominators.
fn nesting(order: &[u32], dominator: &[u32], count: usize) -> (Vec<u32>, Vec<u32>) {
    let below: Vec<_> = order
        .iter()
        .filter(|at| dominator[**at as usize] != **at)
        .map(|at| (dominator[*at as usize], *at))
        .collect();
    let below = Lists::new(count, &below);
    // What is not reached lies below nothing, and nothing below it.
    let mut entered = vec![NONE; count];
    let mut left = vec![0; count];
    let mut clock = 0;
    let mut open = vec![(0, 0)];
    entered[0] = 0;
    while let Some((at, place)) = open.last_mut() {
        clock += 1;
        match below.get(*at).get(*place) {
            Some(to) => {
                *place += 1;
                entered[*to as usize] = clock;
                open.push((*to, 0));
            }
            None => {
                left[*at as usize] = clock;
                open.pop();
            }
        }
    }
    (entered, left)
}
