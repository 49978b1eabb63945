//! The control-flow graph of a function: basic blocks, dominators, control
//! dependence.

use super::HashMap;
use super::STEPS_FOR_EACH;
use super::effect::Terminator;
use super::instructions::{InstructionId, Instructions};
use ptx::ast::Operand;

/// A basic block, by number in the order of the text; block 0 is empty and is the
/// entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlockId(pub u32);

impl BlockId {
    /// The entry, which has no predecessor.
    pub const ENTRY: BlockId = BlockId(0);

    /// Its index in [`Graph::blocks`].
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

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
}

/// Lists of numbers in one array.
#[derive(Debug, Default)]
struct Lists {
    starts: Vec<u32>,
    all: Vec<u32>,
}

impl Lists {
    /// From pairs of a list and an element.
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

/// The control-flow graph of a function.
#[derive(Debug)]
pub struct Graph {
    /// In the order of the text.
    pub blocks: Vec<BasicBlock>,
    successors: Lists,
    predecessors: Lists,
    /// The reachable blocks in reverse post-order.
    pub order: Vec<BlockId>,
    /// The index in `order`; `NONE` for unreachable blocks.
    rank: Vec<u32>,
    dominator: Vec<u32>,
    /// Entry and exit numbers of a walk of the dominator tree: a block's interval contains
    /// those of the blocks that it dominates.
    entered: Vec<u32>,
    left: Vec<u32>,
    frontier: Lists,
    block_of: Vec<u32>,
}

impl Graph {
    /// `None` for a function whose graph takes too many steps.
    pub(crate) fn new(instructions: &Instructions<'_, '_>) -> Option<Graph> {
        let (blocks, edges, block_of) = blocks(instructions);
        let count = blocks.len();
        let successors = Lists::new(count, &edges);
        let backward: Vec<_> = edges.iter().map(|(from, to)| (*to, *from)).collect();
        let predecessors = Lists::new(count, &backward);
        let order = depth_first(count, |at| successors.get(at), &[0]);
        let rank = ranks(count, &order);
        let budget = (instructions.steps.len() + count) * STEPS_FOR_EACH + 10_000;
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

    /// The successors of a block.
    pub fn successors(&self, block: BlockId) -> impl Iterator<Item = BlockId> + '_ {
        self.successors.get(block.0).iter().copied().map(BlockId)
    }

    /// The reachable predecessors of a block.
    pub fn predecessors(&self, block: BlockId) -> impl Iterator<Item = BlockId> + '_ {
        let all = self.predecessors.get(block.0).iter().copied().map(BlockId);
        all.filter(|block| self.is_reached(*block))
    }

    /// The block of an instruction.
    pub fn block_of(&self, instruction: InstructionId) -> BlockId {
        BlockId(self.block_of[instruction.index()])
    }

    /// Whether a block is reachable from the entry.
    pub fn is_reached(&self, block: BlockId) -> bool {
        self.rank[block.index()] != NONE
    }

    /// Its index in [`Graph::order`].
    pub(super) fn place(&self, block: BlockId) -> u32 {
        self.rank[block.index()]
    }

    /// Whether `above` dominates `below`.
    pub fn dominates(&self, above: BlockId, below: BlockId) -> bool {
        let (above, below) = (above.index(), below.index());
        self.entered[above] <= self.entered[below] && self.left[below] <= self.left[above]
    }

    /// The immediate dominator.
    pub(crate) fn dominator(&self, block: BlockId) -> BlockId {
        BlockId(self.dominator[block.index()])
    }

    /// Whether there is a path from `from` to `to`.
    pub(crate) fn leads_to(&self, from: BlockId, to: BlockId) -> bool {
        let mut visited = vec![false; self.blocks.len()];
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

    /// The dominance frontier of a block.
    pub(super) fn frontier(&self, block: BlockId) -> impl Iterator<Item = BlockId> + '_ {
        self.frontier.get(block.0).iter().copied().map(BlockId)
    }

    /// The immediate post-dominator of each block, with paths into a trap or an endless
    /// loop left out; `None` where there is none.
    pub(crate) fn post_dominators(&self) -> Option<Vec<Option<BlockId>>> {
        self.post_dominators_past(&[])
    }

    /// The same for the threads that go on: where a block may also leave the function,
    /// itself or to a block of `exits`, that way is left out, unless it is the last.
    pub(crate) fn post_dominators_past(&self, exits: &[bool]) -> Option<Vec<Option<BlockId>>> {
        let count = self.blocks.len();
        // One more block is the virtual exit.
        let end = count as u32;
        let is_exit = |at: u32| exits.get(at as usize).copied().unwrap_or(false);
        let mut edges = Vec::new();
        let mut left_out = vec![false; count];
        for &BlockId(at) in &self.order {
            let next = self.successors.get(at);
            let leaves = self.blocks[at as usize].leaves;
            let goes_on = !exits.is_empty() && next.iter().any(|to| !is_exit(*to));
            left_out[at as usize] = goes_on && (leaves || next.iter().any(|to| is_exit(*to)));
            let kept = next.iter().filter(|to| !goes_on || !is_exit(**to));
            edges.extend(kept.map(|to| (at, *to)));
            if leaves && !goes_on {
                edges.push((at, end));
            }
        }
        self.restore_last_exits(&mut edges, &left_out);
        let backward: Vec<_> = edges.iter().map(|(from, to)| (*to, *from)).collect();
        let (after, before) = (
            Lists::new(count + 1, &edges),
            Lists::new(count + 1, &backward),
        );
        let order = depth_first(count + 1, |at| before.get(at), &[end]);
        let rank = ranks(count + 1, &order);
        let budget = (count + 1) * STEPS_FOR_EACH + 10_000;
        let found = dominators(&order, &rank, |at| after.get(at), budget)?;
        let next = |at: &u32| Some(BlockId(*at)).filter(|at| at.0 < end);
        Some(found[..count].iter().map(next).collect())
    }
}

impl Graph {
    /// Adds an edge to the virtual exit where a loop has no other way out than one that
    /// was left out: behind all others.
    fn restore_last_exits(&self, edges: &mut Vec<(u32, u32)>, left_out: &[bool]) {
        if !left_out.contains(&true) {
            return;
        }
        let end = self.blocks.len() as u32;
        let backward: Vec<_> = edges.iter().map(|(from, to)| (*to, *from)).collect();
        let before = Lists::new(left_out.len() + 1, &backward);
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

type Blocks = (Vec<BasicBlock>, Vec<(u32, u32)>, Vec<u32>);

/// The blocks, the edges, and the block of each instruction.
fn blocks(instructions: &Instructions<'_, '_>) -> Blocks {
    let count = instructions.steps.len();
    let mut leads = vec![false; count + 1];
    if let Some(first) = leads.first_mut() {
        *first = true;
    }
    for label in &instructions.labels {
        leads[label.at as usize] = true;
    }
    for (at, step) in instructions.steps.iter().enumerate() {
        if step.terminator != Terminator::FallThrough {
            leads[at + 1] = true;
        }
    }
    let mut blocks = vec![BasicBlock {
        start: 0,
        end: 0,
        falls_off: false,
        leaves: false,
    }];
    let mut block_of = vec![0; count];
    for at in 0..count {
        if leads[at] {
            blocks.push(BasicBlock {
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
    let labels: HashMap<(u32, &str), u32> = instructions
        .labels
        .iter()
        .map(|label| ((label.scope, label.name.text), block_at(label.at)))
        .collect();
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
                targets(instructions, last, &labels, |to| edges.push((from, to)))
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

/// The targets of a jump.
fn targets(
    instructions: &Instructions<'_, '_>,
    jump: InstructionId,
    labels: &HashMap<(u32, &str), u32>,
    mut lead: impl FnMut(u32),
) {
    let Some(instruction) = instructions.get(jump) else {
        return;
    };
    let mut find = |name: &str| {
        let mut scope = instructions.jumps.get(&jump.0).copied().unwrap_or(0);
        loop {
            if let Some(block) = labels.get(&(scope, name)) {
                return lead(*block);
            }
            if scope == 0 {
                return;
            }
            scope = instructions.scopes[scope as usize];
        }
    };
    let operands = instructions.body.list(instruction.operands);
    let Some(Operand::Name(name)) = operands.last() else {
        return;
    };
    match instructions.tables.get(name.text) {
        Some(table) => table.targets.iter().for_each(|target| find(target.text)),
        None => find(name.text),
    }
}

/// The nodes reachable from `roots`, in reverse post-order.
fn depth_first<'l>(count: usize, next: impl Fn(u32) -> &'l [u32], roots: &[u32]) -> Vec<u32> {
    let mut visited = vec![false; count];
    let mut order = Vec::with_capacity(count);
    let mut open: Vec<(u32, usize)> = Vec::new();
    for root in roots {
        if !std::mem::replace(&mut visited[*root as usize], true) {
            open.push((*root, 0));
        }
        while let Some((at, place)) = open.last_mut() {
            match next(*at).get(*place) {
                Some(to) => {
                    *place += 1;
                    if !std::mem::replace(&mut visited[*to as usize], true) {
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

/// The dominator tree (Cooper, Harvey, Kennedy: "A Simple, Fast Dominance
/// Algorithm"); the root is its own parent, unreachable nodes have none.
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

/// The entry and exit numbers of a walk of the dominator tree.
fn nesting(order: &[u32], dominator: &[u32], count: usize) -> (Vec<u32>, Vec<u32>) {
    let below: Vec<_> = order
        .iter()
        .filter(|at| dominator[**at as usize] != **at)
        .map(|at| (dominator[*at as usize], *at))
        .collect();
    let below = Lists::new(count, &below);
    // An unreachable node dominates nothing and is dominated by nothing.
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
