//! The first pass of a block of threads through a function: which of them come to
//! each block of the graph, and which way a branch sends them.
//!
//! Every phi of a loop has the value that it has at first, so that what is found
//! happens in some launch. Data may be anything: where a condition depends on it,
//! threads may go either way.

use super::HashMap;
use super::context::{Flow, FunctionContext};
use super::divergence::Variance;
use super::effect::Terminator;
use super::graph::BlockId;
use super::instructions::InstructionId;
use super::parting::{Parting, partings};
use super::threads::{Block, ThreadSet};
use super::truth::{Truth, Truths};
use super::values::ValueId;
use ptx::isa::Effect;
use ptx::names::SpecialRegister;

/// The threads that come to a block of the graph.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// Those that may come.
    pub threads: ThreadSet,
    /// The threads that come together, if any do.
    pub together: Variance,
}

/// What is known of the first pass.
#[derive(Debug)]
pub struct FirstPass {
    /// The block of threads.
    pub block: Block,
    /// The point of reconvergence of each branch, of the threads that go on.
    pub meets: Vec<Option<BlockId>>,
    /// Blocks of the graph in which nothing happens but that the kernel ends.
    pub exits: Vec<bool>,
    /// The branches that part threads before an operation that wants them together.
    pub partings: Vec<Parting>,
    /// Where in `truths` that of each guard stands, which is large.
    conditions: HashMap<ValueId, u32>,
    truths: Vec<Truth>,
    arrivals: Vec<Arrival>,
}

impl FirstPass {
    /// `None` for a function whose graph takes too many steps.
    pub(crate) fn new<'m, 'a>(
        function: &FunctionContext<'m, 'a>,
        flow: &Flow<'m, 'a>,
    ) -> Option<FirstPass> {
        let (graph, instructions) = (&flow.graph, &flow.instructions);
        let names = |register: SpecialRegister| function.names_special(|named| named == register);
        let block = Block::of(function.function, names);
        let exits = exits(function, flow);
        let meets = graph.post_dominators_past(&exits);
        let together = Together::new(function, flow);
        let decides = deciding(flow, &meets, &exits, &together.blocks);
        let mut conditions = Truths::new(function, flow, block);
        let lasts = (0..graph.blocks.len()).filter(|at| decides[*at]);
        let lasts = lasts.filter_map(|at| graph.blocks[at].steps().next_back());
        let guarded = together.instructions.iter().copied();
        let mut found: HashMap<ValueId, u32> = HashMap::default();
        let mut truths = Vec::with_capacity(graph.blocks.len() / 2);
        for id in lasts.chain(guarded) {
            let step = &instructions.steps[id.index()];
            if let Some(guard) = flow.values.guard(instructions, step) {
                found.entry(guard).or_insert_with(|| {
                    truths.push(conditions.of(guard));
                    truths.len() as u32 - 1
                });
            }
        }
        let mut pass = FirstPass {
            block,
            meets,
            exits,
            partings: Vec::new(),
            conditions: found,
            truths,
            arrivals: Vec::new(),
        };
        let mut all = pass.truths.iter();
        if all.any(|truth| conditions.tells(truth)) {
            pass.arrivals = arrivals(flow, &mut conditions, &pass.meets, &decides);
            pass.partings = partings(flow, &pass, &together, &decides);
        }
        Some(pass)
    }

    /// For which threads the guard of an instruction lets it be executed; `None`
    /// without a guard.
    pub fn guard(&self, flow: &Flow<'_, '_>, id: InstructionId) -> Option<Truth> {
        let step = &flow.instructions.steps[id.index()];
        let guard = flow.values.guard(&flow.instructions, step)?;
        let truth = self.truths[*self.conditions.get(&guard)? as usize];
        Some(if step.negated { truth.not() } else { truth })
    }

    /// The threads that execute a guarded instruction and those that come to it and do
    /// not, if both are known; threads that are `together` come as one.
    pub fn parted(
        &self,
        flow: &Flow<'_, '_>,
        id: InstructionId,
        together: Variance,
    ) -> Option<[ThreadSet; 2]> {
        let truth = self.guard(flow, id)?;
        let arrival = self.arrival(flow.graph.block_of(id))?;
        let own = truth.may[0].and(arrival.threads);
        let others = arrival.threads.without(own);
        (arrival.together <= together && !own.is_empty() && !others.is_empty())
            .then_some([own, others])
    }

    /// The threads that come to a block of the graph; `None` where no condition is
    /// known.
    pub fn arrival(&self, block: BlockId) -> Option<&Arrival> {
        self.arrivals.get(block.index())
    }
}

/// The instructions that several threads execute together, and calls of what may have
/// such.
pub(super) struct Together {
    /// In the order of the text.
    pub instructions: Vec<InstructionId>,
    /// The blocks of the graph that have one.
    pub blocks: Vec<bool>,
}

impl Together {
    fn new(function: &FunctionContext<'_, '_>, flow: &Flow<'_, '_>) -> Together {
        let mut blocks = vec![false; flow.graph.blocks.len()];
        // A function that is called may have such.
        let found = function.instructions_with(|_, effect| {
            effect.meaning.is_collective() || effect.meaning.effect == Effect::Call
        });
        let mut instructions = Vec::with_capacity(found.len());
        for (id, _) in found {
            instructions.push(id);
            blocks[flow.graph.block_of(id).index()] = true;
        }
        Together {
            instructions,
            blocks,
        }
    }

    /// Those of a block of the graph.
    pub fn of(&self, flow: &Flow<'_, '_>, block: BlockId) -> &[InstructionId] {
        let block = flow.graph.blocks[block.index()];
        let from = self.instructions.partition_point(|id| id.0 < block.start);
        let to = self.instructions.partition_point(|id| id.0 < block.end);
        &self.instructions[from..to]
    }
}

/// Nested branches beyond this number are not looked at.
const ROUNDS: usize = 64;

/// The blocks whose branch decides whether threads come to one that is wanted, or to
/// another such branch: those that it is control dependent on.
fn deciding(
    flow: &Flow<'_, '_>,
    meets: &[Option<BlockId>],
    exits: &[bool],
    wanted: &[bool],
) -> Vec<bool> {
    let graph = &flow.graph;
    let mut matters = wanted.to_vec();
    let mut decides = vec![false; graph.blocks.len()];
    // Where threads end, they do not come to what is behind.
    for block in &graph.order {
        let mut next = graph.successors(*block);
        let ends = graph.blocks[block.index()].leaves || next.any(|to| exits[to.index()]);
        if ends && !exits[block.index()] {
            decides[block.index()] = true;
            matters[block.index()] = true;
        }
    }
    for _ in 0..ROUNDS {
        let above = count_above(meets, &matters);
        let of = |block: Option<BlockId>| block.map_or(0, |block| above[block.index()]);
        let mut changed = false;
        for block in &graph.order {
            if decides[block.index()] || graph.successors(*block).count() < 2 {
                continue;
            }
            let end = of(meets[block.index()]);
            if graph.successors(*block).any(|to| of(Some(to)) > end) {
                decides[block.index()] = true;
                changed |= !std::mem::replace(&mut matters[block.index()], true);
            }
        }
        if !changed {
            break;
        }
    }
    decides
}

/// How many of the blocks that matter each comes to at last, itself included: those
/// above it in the tree of post-dominators.
fn count_above(meets: &[Option<BlockId>], matters: &[bool]) -> Vec<u32> {
    const OPEN: u32 = u32::MAX;
    let mut above = vec![OPEN; meets.len()];
    let mut path = Vec::new();
    for start in 0..meets.len() {
        let mut at = Some(start);
        while let Some(block) = at.filter(|block| above[*block] == OPEN) {
            path.push(block);
            at = meets[block].map(BlockId::index);
        }
        let mut sum = at.map_or(0, |block| above[block]);
        while let Some(block) = path.pop() {
            sum += u32::from(matters[block]);
            above[block] = sum;
        }
    }
    above
}

/// Blocks in which nothing happens but that the kernel ends.
fn exits(function: &FunctionContext<'_, '_>, flow: &Flow<'_, '_>) -> Vec<bool> {
    let graph = &flow.graph;
    let mut exits = vec![false; graph.blocks.len()];
    for block in graph.order.iter().rev() {
        let mut next = graph.successors(*block).peekable();
        let goes_on = next.peek().is_some();
        if !next.all(|to| exits[to.index()]) {
            continue;
        }
        let mut ends = false;
        let quiet = graph.blocks[block.index()].steps().all(|id| {
            let step = &flow.instructions.steps[id.index()];
            let exit = function.effect(step).meaning.effect == Effect::Exit;
            match step.terminator {
                Terminator::FallThrough => function.effect(step).pure,
                Terminator::Jump => true,
                Terminator::Return => {
                    ends |= !step.guarded;
                    exit || flow.instructions.is_kernel()
                }
                Terminator::IndirectJump | Terminator::Trap => false,
            }
        });
        ends |= graph.blocks[block.index()].falls_off && flow.instructions.is_kernel();
        exits[block.index()] = quiet && (ends || goes_on);
    }
    exits
}

/// The threads that come to each block.
fn arrivals(
    flow: &Flow<'_, '_>,
    conditions: &mut Truths<'_, '_, '_>,
    meets: &[Option<BlockId>],
    decides: &[bool],
) -> Vec<Arrival> {
    let graph = &flow.graph;
    let nobody = Arrival {
        threads: ThreadSet::EMPTY,
        together: Variance::Block,
    };
    let mut arrivals = vec![nobody; graph.blocks.len()];
    for block in &graph.order {
        if *block == BlockId::ENTRY {
            arrivals[block.index()].threads = conditions.all();
            continue;
        }
        let mut sum = nobody;
        for before in graph.predecessors(*block) {
            if graph.place(before) >= graph.place(*block) {
                continue;
            }
            let from = &arrivals[before.index()];
            let one = if decides[before.index()] {
                along(flow, conditions, from, before, *block)
            } else {
                *from
            };
            sum.threads = sum.threads.or(one.threads);
            sum.together = sum.together.max(one.together);
        }
        let above = graph.dominator(*block);
        if meets[above.index()] == Some(*block) {
            sum.together = arrivals[above.index()].together;
        }
        arrivals[block.index()] = sum;
    }
    arrivals
}

/// The threads that go from a block to one behind it.
fn along(
    flow: &Flow<'_, '_>,
    conditions: &mut Truths<'_, '_, '_>,
    from: &Arrival,
    block: BlockId,
    to: BlockId,
) -> Arrival {
    let mut result = *from;
    let Some(last) = flow.graph.blocks[block.index()].steps().next_back() else {
        return result;
    };
    let step = &flow.instructions.steps[last.index()];
    let targets = flow.graph.successors(block).count();
    let falls = to.0 == block.0 + 1;
    match step.terminator {
        Terminator::Jump if step.guarded && targets == 2 => {}
        Terminator::Return | Terminator::Trap if step.guarded && falls => {}
        Terminator::IndirectJump => {
            let reads = flow.values.reads(&flow.instructions, step);
            let variance = reads.map(|(_, value)| conditions.variance(value)).max();
            result.together = result.together.max(variance.unwrap_or_default());
            return result;
        }
        _ => return result,
    }
    let Some(guard) = flow.values.guard(&flow.instructions, step) else {
        return result;
    };
    let truth = conditions.of(guard);
    let side = usize::from(step.negated != falls);
    result.threads = result.threads.and(truth.may[side]);
    result.together = result.together.max(truth.hidden[side]);
    result
}
