//! Barrier intervals: what threads execute between one barrier of the block and the
//! next, also round a loop.

use std::cell::OnceCell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::context::callee;
use super::context::{Flow, FunctionContext};
use super::effect::{Effect, Terminator};
use super::evaluate::Turns;
use super::graph::BlockId;
use super::instructions::{InstructionId, Step};
use super::values::ValueId;
use analysis::control_flow::{LoopId, Loops};
use ptx::ast::Instruction;
use ptx::isa::{self, Class, Convergence, Meaning};
use ptx::names::{Modifier, Opcode};

/// How an instruction bears on the order of the threads of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Not at all.
    None,
    /// All threads of the block meet.
    Barrier,
    /// Some may wait for others, or tell them something.
    Other,
}

/// The order that each instruction of a function makes, and the loops in which one
/// does.
#[derive(Debug)]
pub struct Synchronization {
    of: Vec<Order>,
    /// Whether the threads of a warp wait for each other, and those of a block never.
    of_warps_alone: bool,
    /// Whether threads are ordered in each loop.
    ordered: Vec<bool>,
}

/// The order of the threads in a function, with its graph and its loops.
pub struct Orders<'c, 'm, 'a> {
    flow: &'c Flow<'m, 'a>,
    loops: &'c Loops,
    synchronization: &'c Synchronization,
}

/// A predicate has this truth at the end of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fact {
    /// The block that the predicate guards the last instruction of.
    pub block: BlockId,
    /// The predicate.
    pub predicate: ValueId,
    /// Whether it holds.
    pub holds: bool,
}

/// A part of a block that is executed in an interval.
#[derive(Clone, Copy, Debug)]
pub struct Node {
    /// The block.
    pub block: BlockId,
    /// The first instruction in the interval.
    pub start: u32,
    /// Behind the last.
    pub end: u32,
    /// 0, or the depth of the loop whose next turn it is in.
    pub layer: usize,
    /// Whether every way here from the start of the interval has no barrier.
    pub proven: bool,
    /// The last node that all ways here go through.
    above: Option<u32>,
    depth: u32,
    fact: Option<Fact>,
    /// Nothing in it ends the interval.
    open: bool,
}

/// What follows a barrier, or the start of the kernel, up to the next.
#[derive(Debug)]
pub struct Interval {
    /// What is executed, by layer and then in reverse post-order.
    pub nodes: Vec<Node>,
    /// Where the nodes that lead to each end in `ways`.
    ends: Vec<u32>,
    ways: Vec<u32>,
    /// The block that it starts in.
    home: BlockId,
}

/// An interval of more nodes is not followed.
const NODES: usize = 4_000;

/// So many blocks are followed up to collect what holds in one.
const FOLLOWED: usize = 600;

impl Synchronization {
    /// Reads the instructions of a function.
    pub(crate) fn new<'m, 'a>(
        function: &FunctionContext<'m, 'a>,
        flow: &Flow<'m, 'a>,
        loops: &Loops,
    ) -> Self {
        let tested = OnceCell::new();
        let tested = || tested.get_or_init(|| Tested::new(function, flow));
        let mut of = vec![Order::None; flow.instructions.steps.len()];
        let mut ordered = vec![false; loops.ids().count()];
        // Most instructions bear on no order, and that their mnemonic says.
        for (id, instruction) in function.instructions_with(|_, effect| may_bear(effect)) {
            let step = &flow.instructions.steps[id.index()];
            let order = order(function, flow, tested, step, instruction);
            let block = flow.graph.block_of(id);
            if order != Order::None && flow.graph.is_reached(block) {
                for around in loops.around(loops.innermost(block)) {
                    if std::mem::replace(&mut ordered[around.index()], true) {
                        break;
                    }
                }
            }
            of[id.index()] = order;
        }
        let waits = |effect: &Effect| {
            let Meaning {
                class, convergence, ..
            } = effect.meaning;
            class == Class::Barrier && convergence == Convergence::Mask
        };
        let of_warps_alone = !of.contains(&Order::Barrier) && function.has_effect(waits);
        Synchronization {
            of,
            of_warps_alone,
            ordered,
        }
    }
}

impl<'c, 'm, 'a> Orders<'c, 'm, 'a> {
    /// `None` for a function whose graph or loops are not followed.
    pub fn of_function(function: &'c FunctionContext<'m, 'a>) -> Option<Self> {
        Some(Orders {
            flow: function.flow()?,
            loops: function.loops()?,
            synchronization: function.synchronization()?,
        })
    }

    /// The order that an instruction makes.
    pub fn of(&self, id: InstructionId) -> Order {
        let known = self.synchronization.of.get(id.index());
        known.copied().unwrap_or(Order::Other)
    }

    /// Whether the threads of a warp wait for each other, and those of a block never.
    pub fn of_warps_alone(&self) -> bool {
        self.synchronization.of_warps_alone
    }

    /// Whether threads are not ordered anywhere in a loop.
    pub fn leaves_alone(&self, id: LoopId) -> bool {
        !self.synchronization.ordered[id.index()]
    }

    /// What starts intervals: the entry, `None`, and the reachable barriers.
    pub fn starts(&self) -> impl Iterator<Item = Option<InstructionId>> + '_ {
        let graph = &self.flow.graph;
        let blocks = graph.order.iter();
        let steps = blocks.flat_map(|block| graph.blocks[block.index()].steps());
        let barriers = steps.filter(|id| self.of(*id) == Order::Barrier);
        std::iter::once(None).chain(barriers.map(Some))
    }

    /// The interval that starts behind an instruction; `None` if it is too large.
    pub fn interval(&self, start: Option<InstructionId>) -> Option<Interval> {
        let graph = &self.flow.graph;
        let home = start.map_or(BlockId::ENTRY, |id| graph.block_of(id));
        const USUAL: usize = 16;
        let mut interval = Interval {
            nodes: Vec::with_capacity(USUAL),
            ends: Vec::with_capacity(USUAL),
            ways: Vec::with_capacity(USUAL),
            home,
        };
        // Ways to blocks, by layer and rank, and the node that each comes from.
        let mut open: BinaryHeap<Reverse<(usize, u32, u32)>> = BinaryHeap::new();
        let mut next = Some((0, graph.place(home)));
        while let Some((layer, rank)) = next {
            if interval.nodes.len() >= NODES {
                return None;
            }
            let first = interval.ways.len();
            while let Some(Reverse((of_layer, of_rank, from))) = open.peek().copied()
                && (of_layer, of_rank) == (layer, rank)
            {
                open.pop();
                interval.ways.push(from);
            }
            let block = graph.order[rank as usize];
            let at = interval.nodes.len() as u32;
            let node = self.node(&interval, start, block, layer, &interval.ways[first..]);
            interval.nodes.push(node);
            interval.ends.push(interval.ways.len() as u32);
            let successors = graph.successors(block).filter(|_| node.open);
            for next in successors {
                let back = graph.place(next) <= rank;
                let entered = self.loops.headed_by(next).filter(|_| back);
                let to = match entered {
                    // The other turns of a loop within are not other code.
                    Some(id) if !self.loops.contains(id, home) => continue,
                    Some(_) if layer != 0 => continue,
                    Some(id) => self.loops.get(id).depth,
                    None => layer,
                };
                open.push(Reverse((to, graph.place(next), at)));
            }
            next = open.peek().map(|Reverse((layer, rank, _))| (*layer, *rank));
        }
        Some(interval)
    }

    fn node(
        &self,
        interval: &Interval,
        start: Option<InstructionId>,
        block: BlockId,
        layer: usize,
        from: &[u32],
    ) -> Node {
        let (graph, nodes) = (&self.flow.graph, &interval.nodes);
        let around = graph.blocks[block.index()];
        let first = from.is_empty();
        let begin = match start {
            Some(id) if first => id.0 + 1,
            _ => around.start,
        };
        let stop = (begin..around.end).find(|at| self.of(InstructionId(*at)) != Order::None);
        // Where a layer starts, what comes before it is of another.
        let root = match layer {
            0 => interval.home,
            _ => self.head(interval.home, layer),
        };
        let entered = layer != 0 && block == root;
        let latches = self
            .loops
            .headed_by(block)
            .map(|id| &self.loops.get(id).latches);
        let mut ways = graph.predecessors(block).filter(|before| {
            let is_latch = latches.is_some_and(|latches| latches.contains(before));
            if entered {
                is_latch
            } else {
                !is_latch && graph.place(*before) >= graph.place(root)
            }
        });
        let leads = |before: BlockId| {
            let mut from = from.iter().map(|at| &nodes[*at as usize]);
            from.any(|node| node.block == before && node.proven)
        };
        let proven =
            first || ways.all(|before| leads(before) && !self.skips(interval, before, block));
        let above = from.iter().copied().reduce(|a, b| meeting(nodes, a, b));
        let fact = match from {
            [only] => {
                let before = nodes[*only as usize].block;
                let left = self.left(interval, before, block);
                if left { None } else { self.fact(before, block) }
            }
            _ => None,
        };
        Node {
            block,
            start: begin,
            end: stop.unwrap_or(around.end),
            layer,
            proven,
            above,
            depth: above.map_or(0, |at| nodes[at as usize].depth + 1),
            fact,
            open: stop.is_none(),
        }
    }

    fn head(&self, home: BlockId, depth: usize) -> BlockId {
        let mut around = self.loops.around(self.loops.innermost(home));
        let found = around.find(|id| self.loops.get(*id).depth == depth);
        found.map_or(home, |id| self.loops.get(id).head)
    }

    /// The loops without the start of the interval that an edge leaves.
    fn leaves<'s>(
        &'s self,
        interval: &'s Interval,
        from: BlockId,
        to: BlockId,
    ) -> impl Iterator<Item = LoopId> + 's {
        let around = self.loops.around(self.loops.innermost(from));
        around.take_while(move |id| {
            !self.loops.contains(*id, to) && !self.loops.contains(*id, interval.home)
        })
    }

    fn left(&self, interval: &Interval, from: BlockId, to: BlockId) -> bool {
        self.leaves(interval, from, to).next().is_some()
    }

    /// Whether an edge goes round a barrier, as that past a loop of no turns does, or
    /// nothing is known of when it is taken.
    fn skips(&self, interval: &Interval, from: BlockId, to: BlockId) -> bool {
        let last = self.flow.graph.blocks[from.index()].steps().next_back();
        let step = last.map(|id| self.flow.instructions.steps[id.index()]);
        step.is_some_and(|step| step.terminator == Terminator::IndirectJump)
            || self
                .leaves(interval, from, to)
                .any(|id| !self.leaves_alone(id))
    }

    /// What holds where control goes from one block to the next.
    pub fn fact(&self, from: BlockId, to: BlockId) -> Option<Fact> {
        let flow = self.flow;
        let id = flow.graph.blocks[from.index()].steps().next_back()?;
        let step = &flow.instructions.steps[id.index()];
        let splits = matches!(
            step.terminator,
            Terminator::Jump | Terminator::Return | Terminator::Trap
        );
        let passed = to.0 == from.0 + 1;
        let twice = step.terminator == Terminator::Jump && flow.graph.successors(from).count() < 2;
        if !splits || twice {
            return None;
        }
        Some(Fact {
            block: from,
            predicate: flow.values.guard(&flow.instructions, step)?,
            holds: passed == step.negated,
        })
    }

    /// What holds at a node of an interval since its start, with the layer of each;
    /// `None` if that is too much.
    pub fn facts_of(&self, interval: &Interval, node: &Node) -> Option<Vec<(Fact, usize)>> {
        let mut facts = Vec::new();
        let mut at = Some(node);
        let mut steps = 0..FOLLOWED;
        while let Some(node) = at {
            steps.next()?;
            facts.extend(node.fact.map(|fact| {
                let above = node
                    .above
                    .map_or(0, |above| interval.nodes[above as usize].layer);
                (fact, above)
            }));
            at = node.above.map(|above| &interval.nodes[above as usize]);
        }
        Some(facts)
    }

    /// What holds in a block since another that dominates it, or since the entry;
    /// `None` if that is too much.
    pub fn facts_above(&self, block: BlockId, since: BlockId) -> Option<Vec<Fact>> {
        let graph = &self.flow.graph;
        let mut facts = Vec::new();
        let mut at = block;
        let mut steps = 0..FOLLOWED;
        while at != since && at != BlockId::ENTRY {
            steps.next()?;
            let above = graph.dominator(at);
            let latches = self
                .loops
                .headed_by(at)
                .map(|id| &self.loops.get(id).latches);
            let mut ways = graph
                .predecessors(at)
                .filter(|before| latches.is_none_or(|latches| !latches.contains(before)));
            let only = ways.next() == Some(above) && ways.next().is_none();
            let mut around = self.loops.around(self.loops.innermost(above));
            let left = around
                .next()
                .is_some_and(|id| !self.loops.contains(id, block));
            if only && !left {
                facts.extend(self.fact(above, at));
            }
            at = above;
        }
        Some(facts)
    }

    /// What holds of every turn of a loop before the last: it goes on. `None` where it
    /// does in several ways.
    pub fn facts_of_turn(&self, id: LoopId) -> Option<Vec<Fact>> {
        let around = self.loops.get(id);
        let [latch] = around.latches[..] else {
            return None;
        };
        let mut facts = self.facts_above(latch, around.head)?;
        facts.extend(self.fact(latch, around.head));
        Some(facts)
    }

    /// The turns of the loops around a block: `turn` of the innermost loop around the
    /// start of the interval, `inner` of the loop `of`, and 0 of all others.
    pub fn turns(
        &self,
        interval: &Interval,
        block: BlockId,
        layer: usize,
        turn: u64,
        inner: Option<(LoopId, u64)>,
    ) -> Turns {
        let own = self.loops.innermost(interval.home);
        let mut turns = Turns::default();
        for id in self.loops.around(self.loops.innermost(block)) {
            let depth = self.loops.get(id).depth;
            if depth > Turns::DEPTH {
                continue;
            }
            let number = if self.loops.contains(id, interval.home) {
                let base = if own == Some(id) { turn } else { 0 };
                match layer {
                    0 => base,
                    _ if depth == layer => base + 1,
                    _ if depth > layer => 0,
                    _ => base,
                }
            } else {
                inner
                    .filter(|(of, _)| *of == id)
                    .map_or(0, |(_, turn)| turn)
            };
            turns = turns.with(depth, number);
        }
        turns
    }
}

impl Interval {
    /// Whether one of two nodes comes after the other.
    pub fn in_sequence(&self, a: usize, b: usize) -> bool {
        // Nodes lead to later ones.
        let (first, last) = (a.min(b), a.max(b));
        let mut reached = vec![false; last + 1];
        reached[last] = true;
        for at in (first..=last).rev() {
            if reached[at] {
                for before in self.ways_to(at) {
                    reached[*before as usize] = true;
                }
            }
        }
        reached[first]
    }

    /// The nodes that lead to one.
    fn ways_to(&self, node: usize) -> &[u32] {
        let first = node.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.ways[first as usize..self.ends[node] as usize]
    }

    /// The block that it starts in.
    pub fn home(&self) -> BlockId {
        self.home
    }
}

/// The last node that all ways to both go through.
fn meeting(nodes: &[Node], mut a: u32, mut b: u32) -> u32 {
    while a != b {
        let (left, right) = (&nodes[a as usize], &nodes[b as usize]);
        let (from, above) = if left.depth >= right.depth {
            (&mut a, left.above)
        } else {
            (&mut b, right.above)
        };
        match above {
            Some(above) => *from = above,
            None => return 0,
        }
    }
    a
}

/// The values that a comparison reads.
struct Tested(Vec<bool>);

impl Tested {
    fn new(function: &FunctionContext<'_, '_>, flow: &Flow<'_, '_>) -> Tested {
        let mut tested = vec![false; flow.values.definitions.len()];
        for (id, _) in function.instructions_with(|mnemonic, _| mnemonic.opcode == Opcode::Setp) {
            let step = &flow.instructions.steps[id.index()];
            for (_, value) in flow.values.reads(&flow.instructions, step) {
                if let Some(tested) = tested.get_mut(value.index()) {
                    *tested = true;
                }
            }
        }
        Tested(tested)
    }

    fn any(&self, flow: &Flow<'_, '_>, step: &Step) -> bool {
        let mut written = flow.values.writes(&flow.instructions, step);
        written.any(|(_, value)| self.0.get(value.index()) == Some(&true))
    }
}

fn order<'t>(
    function: &FunctionContext<'_, '_>,
    flow: &Flow<'_, '_>,
    tested: impl Fn() -> &'t Tested,
    step: &Step,
    instruction: &Instruction,
) -> Order {
    let effect = function.effect(step);
    let Meaning {
        convergence,
        strong,
        orders,
        arrives,
        ..
    } = effect.meaning;
    let modifiers = &function.mnemonic(instruction).modifiers;
    match convergence {
        Convergence::Block if !step.guarded && !arrives => {
            // Without a number of threads, all of the block.
            let number_alone = if effect.writes > 0 { 3 } else { 1 };
            return if instruction.operands.len == number_alone {
                Order::Barrier
            } else {
                Order::Other
            };
        }
        Convergence::Block | Convergence::Cluster => return Order::Other,
        Convergence::Alone | Convergence::Active | Convergence::Mask | Convergence::Warp => {}
    }
    match effect.meaning.effect {
        isa::Effect::Call => {
            let callee = callee(function.operands(instruction));
            let waits = callee.is_none_or(|name| function.context.may_have(name, may_order));
            if waits { Order::Other } else { Order::None }
        }
        // What an atomic finds out, or a load of a flag, matters if it is looked at.
        isa::Effect::Update
            if effect.writes > 0
                && modifiers
                    .first_of(&[Modifier::Cas, Modifier::Exch])
                    .is_none() =>
        {
            if tested().any(flow, step) {
                Order::Other
            } else {
                Order::None
            }
        }
        isa::Effect::Load if strong && !modifiers.has(Modifier::Acquire) => {
            if tested().any(flow, step) {
                Order::Other
            } else {
                Order::None
            }
        }
        _ if orders => Order::Other,
        _ => Order::None,
    }
}

/// Whether an instruction may bear on the order of threads, for its operands or users
/// too.
fn may_bear(effect: &Effect) -> bool {
    let meaning = &effect.meaning;
    let by_users = meaning.effect == isa::Effect::Call
        || meaning.effect == isa::Effect::Load && meaning.strong;
    by_users || meaning.orders
}

fn may_order(effect: &Effect) -> bool {
    effect.meaning.orders
}
