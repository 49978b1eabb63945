//! Divergence analysis: which values differ between the threads of a block, and
//! which instructions some threads execute without the others.
//!
//! A value is divergent if it depends on the thread: on `%tid`, `%laneid`, an atomic, a
//! load at a divergent address. An unknown value, such as the result of a call, counts
//! as uniform.

use super::STEPS_FOR_EACH;
use super::context::{Flow, FunctionContext};
use super::effect::Terminator;
use super::graph::BlockId;
use super::instructions::InstructionId;
use super::operands::Operands;
use super::values::{Definition, ValueId};
use analysis::dependence::{Dependence, Shape, Sources};
use ptx::ast::Function;
use ptx::isa::Effect;
use ptx::names::Modifier;

/// The threads that share a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Variance {
    /// All threads of a block: the value is uniform.
    #[default]
    Block,
    /// The threads of a warp: it is uniform within a warp.
    Warp,
    /// A single thread: it is divergent.
    Thread,
}

impl Variance {
    /// The threads of a block that surely share what depends on these.
    pub(super) fn of(sources: Sources, shape: &Shape) -> Variance {
        let rows = sources.any(Sources::ROW | Sources::PLANE) && !shape.has_whole_rows();
        match (
            sources.any(Sources::LANES) || rows,
            sources.any(Sources::THREAD),
        ) {
            (true, _) => Variance::Thread,
            (false, true) => Variance::Warp,
            (false, false) => Variance::Block,
        }
    }

    /// What a condition that these threads share decides.
    fn sources(self) -> Sources {
        match self {
            Variance::Block => Sources::NONE,
            Variance::Warp => Sources::WARP,
            Variance::Thread => Sources::THREAD,
        }
    }
}

/// A branch that not all threads of a block take.
#[derive(Clone, Copy, Debug)]
pub struct DivergentBranch {
    /// The block that ends with the branch.
    pub block: BlockId,
    /// The threads that take it together.
    pub variance: Variance,
    /// The point of reconvergence; `None` if some threads return.
    pub meets: Option<BlockId>,
}

/// The divergent values and branches of a function.
#[derive(Debug)]
pub struct Divergence {
    shape: Shape,
    /// By value; `None` where it is not reached.
    values: Vec<Option<Dependence>>,
    /// The threads that execute each block together.
    control: Vec<Variance>,
    /// The divergent branches.
    pub divergent_branches: Vec<DivergentBranch>,
}

/// The limit of rounds: values rise a few times, and nested loops take a round each.
const ROUNDS: usize = 24;

impl Divergence {
    /// `None` for a function whose analysis takes too many steps.
    pub(crate) fn new<'m, 'a>(
        function: &FunctionContext<'m, 'a>,
        flow: &Flow<'m, 'a>,
    ) -> Option<Divergence> {
        let blocks = flow.graph.blocks.len();
        let shape = required(function.function);
        let mut solver = Solver {
            function,
            flow,
            meets: flow.graph.post_dominators(),
            joins: vec![Variance::Block; blocks],
            loops: vec![Variance::Block; blocks],
            phis: flow.values.phis(&flow.graph),
            visited: vec![0; blocks],
            epoch: 0,
            budget: blocks * STEPS_FOR_EACH + 10_000,
            found: Divergence {
                shape,
                values: vec![None; flow.values.definitions.len()],
                control: vec![Variance::Block; blocks],
                divergent_branches: Vec::new(),
            },
        };
        for _ in 0..ROUNDS {
            if !solver.round()? {
                break;
            }
        }
        Some(solver.found)
    }

    /// How a value depends on the thread.
    pub fn dependence(&self, value: ValueId) -> Dependence {
        let known = self.values.get(value.index()).copied().flatten();
        known.unwrap_or(Dependence::uniform(Sources::NONE, value.0))
    }

    /// The threads that share a value.
    pub fn of(&self, value: ValueId) -> Variance {
        Variance::of(self.dependence(value).sources, &self.shape)
    }

    /// The threads that execute a block together.
    pub fn control(&self, block: BlockId) -> Variance {
        self.control[block.index()]
    }
}

/// The shape that `.reqntid` says.
fn required(function: &Function<'_>) -> Shape {
    let mut directives = function.directives.iter();
    let required = directives.find(|directive| directive.name == "reqntid");
    required.map_or(Shape::default(), |required| {
        let at = |place: usize| required.values.get(place).copied().unwrap_or(1);
        Shape::of(at(0), at(1), at(2))
    })
}

struct Solver<'c, 'm, 'a> {
    function: &'c FunctionContext<'m, 'a>,
    flow: &'c Flow<'m, 'a>,
    meets: Vec<Option<BlockId>>,
    /// Joins of divergent paths.
    joins: Vec<Variance>,
    /// Loops with divergent exits.
    loops: Vec<Variance>,
    /// The phis, in reverse post-order.
    phis: Vec<(BlockId, ValueId)>,
    visited: Vec<u32>,
    epoch: u32,
    budget: usize,
    found: Divergence,
}

impl Solver<'_, '_, '_> {
    /// Whether something has changed; `None` after too many steps.
    fn round(&mut self) -> Option<bool> {
        let flow = self.flow;
        let (instructions, values) = (&flow.instructions, &flow.values);
        let mut changed = false;
        let phis = std::mem::take(&mut self.phis);
        let mut next = phis.iter().peekable();
        for block in &flow.graph.order {
            while let Some((_, value)) = next.next_if(|(home, _)| home == block) {
                changed |= self.join(*value, *block);
            }
            for id in flow.graph.blocks[block.index()].steps() {
                let step = &instructions.steps[id.index()];
                for (_, written) in values.writes(instructions, step) {
                    // Nothing goes up that is at the top.
                    if !self.is_known(written) {
                        let result = self.result(written, id, *block);
                        changed |= self.raise(written, result);
                    }
                }
            }
            changed |= self.branch(*block)?;
        }
        self.phis = phis;
        Some(changed)
    }

    /// Whether a value depends on all of the thread, in no way that is known.
    fn is_known(&self, value: ValueId) -> bool {
        let top = Dependence::opaque(Sources::THREAD);
        self.found.values[value.index()] == Some(top)
    }

    fn raise(&mut self, value: ValueId, mut to: Dependence) -> bool {
        let known = &mut self.found.values[value.index()];
        if let Some(known) = known {
            to.sources = to.sources | known.sources;
        }
        if to.linear.is_none() {
            // No more is known, so that there are fewer steps to the top.
            to = Dependence::function(to.sources, value.0);
        }
        known.replace(to) != Some(to)
    }

    /// The dependence of a phi.
    fn join(&mut self, value: ValueId, block: BlockId) -> bool {
        let parts = self.flow.values.phi_operands(&self.flow.graph, value);
        let known = |part: &&ValueId| match self.found.values.get(part.index()) {
            Some(known) => known.is_some(),
            None => false,
        };
        let mut parts_known = parts.iter().filter(known);
        let Some(first) = parts_known.next() else {
            return false;
        };
        let first = self.read(*first, block);
        let mut joined = parts_known.fold(first, |all, part| {
            all.join(&self.read(*part, block), value.0)
        });
        // Different numbers are different. Of other values nothing is shown:
        // both sides may well have loaded the same.
        let number = |part: &ValueId| self.function.linear_of(*part)?.as_number();
        let mut numbers = parts.iter().map(number);
        let first = numbers.next().flatten();
        let all = first.is_some() && parts.iter().all(|part| number(part).is_some());
        let parted = self.joins[block.index()].sources();
        if all && numbers.any(|other| other != first) && parted != Sources::NONE {
            joined = Dependence::opaque(joined.sources | parted);
        }
        self.raise(value, joined)
    }

    /// What a value is to who reads it in this block: threads that left a loop
    /// at different times bring different values of it along.
    fn read(&self, value: ValueId, block: BlockId) -> Dependence {
        let known = self.found.dependence(value);
        let home = match self.flow.values.definition(value) {
            Some(Definition::Written(id)) => self.flow.graph.block_of(id),
            Some(Definition::Phi(home)) => home,
            _ => return known,
        };
        let of_loop = self.loops[home.index()];
        if self.loops[block.index()] < of_loop {
            Dependence::opaque(known.sources | of_loop.sources())
        } else {
            known
        }
    }

    fn branch(&mut self, block: BlockId) -> Option<bool> {
        let graph = &self.flow.graph;
        let Some(id) = graph.blocks[block.index()].steps().next_back() else {
            return Some(false);
        };
        let step = &self.flow.instructions.steps[id.index()];
        let splits = match step.terminator {
            Terminator::Jump | Terminator::Return => step.guarded,
            Terminator::IndirectJump => true,
            Terminator::FallThrough | Terminator::Trap => false,
        };
        if !splits {
            return Some(false);
        }
        let reads = self.flow.values.reads(&self.flow.instructions, step);
        let sources = reads.fold(Sources::NONE, |all, (_, value)| {
            all | self.read(value, block).sources
        });
        let variance = Variance::of(sources, &self.found.shape);
        let known = self
            .found
            .divergent_branches
            .iter_mut()
            .find(|divergent| divergent.block == block);
        match known {
            _ if variance == Variance::Block => return Some(false),
            Some(divergent) if divergent.variance >= variance => return Some(false),
            Some(divergent) => divergent.variance = variance,
            None => self.found.divergent_branches.push(DivergentBranch {
                block,
                variance,
                meets: self.meets[block.index()],
            }),
        }
        let end = self.meets[block.index()];
        self.epoch += 1;
        let mut region = Vec::new();
        let mut open: Vec<BlockId> = graph.successors(block).collect();
        let mut comes_back = false;
        while let Some(at) = open.pop() {
            if Some(at) == end {
                continue;
            }
            comes_back |= at == block;
            self.budget = self.budget.checked_sub(1)?;
            if std::mem::replace(&mut self.visited[at.index()], self.epoch) != self.epoch {
                region.push(at);
                open.extend(graph.successors(at));
            }
        }
        for at in &region {
            raise(&mut self.found.control[at.index()], variance);
            raise(&mut self.joins[at.index()], variance);
            if comes_back {
                raise(&mut self.loops[at.index()], variance);
            }
        }
        if let Some(end) = end {
            raise(&mut self.joins[end.index()], variance);
        }
        Some(true)
    }

    /// The dependence of what an instruction writes.
    fn result(&self, value: ValueId, id: InstructionId, block: BlockId) -> Dependence {
        let unknown = Dependence::uniform(Sources::NONE, value.0);
        let operands = Operands {
            function: self.function,
            flow: self.flow,
            shape: &self.found.shape,
        };
        let read = |value| self.read(value, block);
        let Some(instruction) = self.flow.instructions.get(id) else {
            return unknown;
        };
        let modifiers = &self.function.mnemonic(instruction).modifiers;
        let step = &self.flow.instructions.steps[id.index()];
        let effect = self.function.effect(step).meaning.effect;
        // What nothing is known of counts as uniform.
        if effect == Effect::Call || effect == Effect::Load && modifiers.has(Modifier::Local) {
            return unknown;
        }
        operands.result(value, id, read)
    }
}

fn raise(known: &mut Variance, to: Variance) {
    *known = to.max(*known);
}
