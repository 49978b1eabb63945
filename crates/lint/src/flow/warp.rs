//! What a warp executes on its way from one barrier to the next, in a block of a given
//! size: the numbers that branches to barriers depend on are worked out lane by lane.

use std::collections::HashMap;

use super::context::callee;
use super::context::{Flow, FunctionContext};
use super::effect::Terminator;
use super::graph::BlockId;
use super::instructions::{InstructionId, Step};
use super::lanes::{Lanes, Shape, Sum, WARP};
use super::values::{Definition, ValueId};
use ptx::ast::{Instruction, Mnemonic, Operand};
use ptx::names::{Modifier, Opcode, SpecialRegister};
use ptx::resolution::Reference;

/// A set of the 16 barriers of a block, a bit each.
pub type BarrierSet = u16;

/// The way that warps take through a function: its barriers, and what decides who comes
/// to them.
pub struct Course<'c, 'm, 'a> {
    function: &'c FunctionContext<'m, 'a>,
    flow: &'c Flow<'m, 'a>,
    /// The barriers, and what the guards before them are computed from, in the order of the
    /// text.
    steps: Vec<InstructionId>,
    /// The phis among that, by block.
    phis: HashMap<BlockId, Vec<ValueId>>,
    /// The values among that, by their place among those of a warp.
    slots: HashMap<ValueId, u32>,
    /// How each block goes on.
    next: Vec<Next>,
    /// The barriers of each block; all of them where that is not known.
    barriers: Vec<BarrierSet>,
}

/// Where control goes behind a block.
#[derive(Clone, Copy, Debug)]
enum Next {
    /// To another. Where several ways lead there, no barrier is on any.
    To(BlockId),
    /// The guard of the last instruction decides; `None` is the end.
    Guarded {
        taken: Option<BlockId>,
        passed: Option<BlockId>,
    },
    End,
    /// The kernel fails there, or the way is not known.
    Unknown,
}

/// Blocks are looked at so often, for each of them.
const VISITS_OF_EACH: usize = 16;

/// Each warp has a place for so many values.
const VALUES: usize = 8_000;

/// No device has more barriers in a block.
const BARRIERS: i64 = 16;

/// Whether it is a barrier of the block, or of some of its threads.
pub fn is_barrier(mnemonic: &Mnemonic<'_>) -> bool {
    let has = |word| mnemonic.modifiers.has(word);
    matches!(mnemonic.opcode, Opcode::Bar | Opcode::Barrier)
        && !has(Modifier::Warp)
        && !has(Modifier::Cluster)
}

/// Where a barrier says how many threads it waits for, the place of that operand.
pub fn count_of(instruction: &Instruction, mnemonic: &Mnemonic<'_>) -> Option<usize> {
    // A reduction has its result first and a predicate last.
    let (place, all) = if mnemonic.modifiers.has(Modifier::Red) {
        (2, 4)
    } else {
        (1, 2)
    };
    let start = instruction.operands.start as usize;
    (instruction.operands.len >= all).then_some(start + place)
}

impl<'c, 'm, 'a> Course<'c, 'm, 'a> {
    /// `None` for a function whose graph takes too many steps.
    pub fn new(function: &'c FunctionContext<'m, 'a>, flow: &'c Flow<'m, 'a>) -> Option<Self> {
        let graph = &flow.graph;
        let mut course = Course {
            function,
            flow,
            steps: Vec::new(),
            phis: HashMap::new(),
            slots: HashMap::new(),
            next: vec![Next::Unknown; graph.blocks.len()],
            barriers: vec![0; graph.blocks.len()],
        };
        let mut needed = Vec::new();
        for (id, step, instruction) in function.steps() {
            let barriers = course.barriers_of(step, instruction);
            let block = graph.block_of(id);
            if barriers != 0 && graph.is_reached(block) {
                course.barriers[block.index()] |= barriers;
                course.steps.push(id);
                needed.extend(flow.values.reads(&flow.instructions, step).map(|(_, v)| v));
            }
        }
        let meets = graph.post_dominators();
        let mut visited = vec![0; graph.blocks.len()];
        let mut budget = graph.blocks.len() * VISITS_OF_EACH + 1000;
        for (epoch, block) in (1..).zip(&graph.order) {
            let meets = meets[block.index()];
            let quiet = graph.successors(*block).count() > 1
                && course.is_quiet(*block, meets, epoch, &mut visited, &mut budget);
            let next = if quiet {
                meets.map_or(Next::End, Next::To)
            } else {
                course.next(*block)
            };
            course.next[block.index()] = next;
            if let (Next::Guarded { .. }, Some(last)) = (next, course.last(*block)) {
                needed.extend(flow.values.guard(&flow.instructions, last));
            }
        }
        course.add(needed)?;
        course.steps.sort_unstable();
        course.steps.dedup();
        Some(course)
    }

    fn last(&self, block: BlockId) -> Option<&'c Step> {
        let last = self.flow.graph.blocks[block.index()].steps().next_back()?;
        self.flow.instructions.steps.get(last.index())
    }

    /// The barriers that an instruction is one of, or may come to.
    fn barriers_of(&self, step: &Step, instruction: &Instruction) -> BarrierSet {
        let mnemonic = self.function.mnemonic(instruction);
        if instruction.opcode == Opcode::Call {
            if step.terminator == Terminator::Trap {
                return 0;
            }
            let name = callee(self.function.operands(instruction));
            let may = |name| self.function.context.may_execute(name, is_barrier);
            return if name.is_none_or(may) {
                BarrierSet::MAX
            } else {
                0
            };
        }
        if !is_barrier(mnemonic) {
            return 0;
        }
        let place = usize::from(mnemonic.modifiers.has(Modifier::Red));
        let linear = self
            .function
            .linear(instruction.operands.start as usize + place);
        match linear.and_then(|linear| linear.as_number()) {
            Some(number) if (0..BARRIERS).contains(&number) => 1 << number,
            _ => BarrierSet::MAX,
        }
    }

    /// Whether no way from a block to where they all meet has a barrier.
    fn is_quiet(
        &self,
        from: BlockId,
        meets: Option<BlockId>,
        epoch: u32,
        visited: &mut [u32],
        budget: &mut usize,
    ) -> bool {
        let mut open: Vec<_> = self.flow.graph.successors(from).collect();
        while let Some(block) = open.pop() {
            if Some(block) == meets || visited[block.index()] == epoch {
                continue;
            }
            let Some(left) = budget.checked_sub(1) else {
                return false;
            };
            *budget = left;
            visited[block.index()] = epoch;
            // Back at the block itself, what stands in it is executed again.
            if self.barriers[block.index()] != 0 {
                return false;
            }
            open.extend(self.flow.graph.successors(block));
        }
        true
    }

    fn next(&self, block: BlockId) -> Next {
        let graph = &self.flow.graph;
        let falls = Some(BlockId(block.0 + 1)).filter(|to| to.index() < graph.blocks.len());
        let Some(step) = self.last(block) else {
            return falls.map_or(Next::End, Next::To);
        };
        let other = || graph.successors(block).find(|to| Some(*to) != falls);
        match (step.terminator, step.guarded) {
            (Terminator::FallThrough, _) => falls.map_or(Next::End, Next::To),
            (Terminator::Jump, false) => match graph.successors(block).next() {
                Some(to) => Next::To(to),
                None => Next::Unknown,
            },
            (Terminator::Jump, true) => Next::Guarded {
                // Both ways may lead to one block.
                taken: other().or(falls),
                passed: falls,
            },
            (Terminator::Return, false) => Next::End,
            (Terminator::Return, true) => Next::Guarded {
                taken: None,
                passed: falls,
            },
            (Terminator::Trap, true) => falls.map_or(Next::End, Next::To),
            (Terminator::Trap, false) | (Terminator::IndirectJump, _) => Next::Unknown,
        }
    }

    /// Adds values, and what they are computed from; `None` if that is too much.
    fn add(&mut self, mut open: Vec<ValueId>) -> Option<()> {
        let (flow, function) = (self.flow, self.function);
        while let Some(value) = open.pop() {
            let next = self.slots.len() as u32;
            let Some(definition) = flow.values.definition(value) else {
                continue;
            };
            if *self.slots.entry(value).or_insert(next) != next {
                continue;
            }
            if self.slots.len() > VALUES {
                return None;
            }
            match definition {
                Definition::Start => {}
                Definition::Phi(block) => {
                    self.phis.entry(block).or_default().push(value);
                    open.extend(flow.values.phi_operands(&flow.graph, value));
                }
                Definition::Written(id) => {
                    let step = &flow.instructions.steps[id.index()];
                    let Some(instruction) = flow.instructions.get(id) else {
                        continue;
                    };
                    let shuffles = instruction.opcode == Opcode::Shfl;
                    let pure = function.effect(step).pure && instruction.opcode != Opcode::Ld;
                    if pure || shuffles {
                        self.steps.push(id);
                        open.extend(flow.values.reads(&flow.instructions, step).map(|(_, v)| v));
                        open.extend(flow.values.prior(value));
                    }
                }
            }
        }
        Some(())
    }

    fn of_block(&self, block: BlockId) -> &[InstructionId] {
        let block = self.flow.graph.blocks[block.index()];
        let from = self.steps.partition_point(|id| id.0 < block.start);
        let to = self.steps.partition_point(|id| id.0 < block.end);
        &self.steps[from..to]
    }
}

/// A barrier that a warp comes to.
#[derive(Clone, Copy, Debug)]
pub struct Comes {
    /// The instruction.
    pub at: InstructionId,
    /// Which barrier.
    pub barrier: u8,
    /// How many threads it is for; `None` for all of the block.
    pub count: Option<u32>,
    /// The warp goes on: `bar.arrive`.
    pub goes_on: bool,
}

/// What a warp does next that others take notice of.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    /// It comes to a barrier.
    Comes(Comes),
    /// It ends.
    Ends,
    /// Where it goes is not known.
    Unknown,
}

/// A warp on its way.
#[derive(Debug)]
pub struct Warp {
    number: u32,
    shape: Shape,
    values: Vec<Option<Sum>>,
    block: BlockId,
    /// Where in the list of its block's steps.
    place: usize,
}

impl Warp {
    /// A warp of a block at the start of a function.
    pub fn new(course: &Course<'_, '_, '_>, number: u32, shape: Shape) -> Warp {
        Warp {
            number,
            shape,
            values: vec![None; course.slots.len()],
            block: BlockId::ENTRY,
            place: 0,
        }
    }

    /// The barriers that it may still come to.
    pub fn ahead(&self, course: &Course<'_, '_, '_>) -> BarrierSet {
        let graph = &course.flow.graph;
        let mut visited = vec![false; graph.blocks.len()];
        let mut open = vec![self.block];
        let mut all = 0;
        while let Some(block) = open.pop() {
            if !std::mem::replace(&mut visited[block.index()], true) {
                all |= course.barriers[block.index()];
                open.extend(graph.successors(block));
            }
        }
        all
    }

    /// Goes on to the next event, within a budget of steps.
    pub fn advance(&mut self, course: &Course<'_, '_, '_>, budget: &mut usize) -> Event {
        loop {
            let steps = course.of_block(self.block);
            while let Some(id) = steps.get(self.place) {
                self.place += 1;
                let Some(left) = budget.checked_sub(1) else {
                    return Event::Unknown;
                };
                *budget = left;
                if let Some(event) = self.step(course, *id) {
                    return event;
                }
            }
            let Some(left) = budget.checked_sub(1) else {
                return Event::Unknown;
            };
            *budget = left;
            let next = match course.next[self.block.index()] {
                Next::To(to) => Some(to),
                Next::Guarded { taken, passed } => match self.guard(course, self.block) {
                    Some(true) => taken,
                    Some(false) => passed,
                    None => return Event::Unknown,
                },
                Next::End => None,
                Next::Unknown => return Event::Unknown,
            };
            let Some(next) = next else {
                return Event::Ends;
            };
            self.enter(course, next);
        }
    }

    /// Whether the guard of the last instruction of a block lets it be executed, if all
    /// lanes agree.
    fn guard(&self, course: &Course<'_, '_, '_>, block: BlockId) -> Option<bool> {
        let step = course.last(block)?;
        let guard = course.flow.values.guard(&course.flow.instructions, step)?;
        let truth = self.value(course, guard)?.as_number()?;
        Some((truth != 0) != step.negated)
    }

    fn enter(&mut self, course: &Course<'_, '_, '_>, next: BlockId) {
        if let Some(phis) = course.phis.get(&next) {
            let flow = course.flow;
            let direct = flow
                .graph
                .predecessors(next)
                .position(|from| from == self.block);
            // Several ways lead to where a branch with no barrier behind it meets.
            let direct = direct.filter(|_| {
                flow.graph.successors(self.block).count() == 1
                    || matches!(course.next[self.block.index()], Next::Guarded { .. })
            });
            let found: Vec<_> = phis
                .iter()
                .map(|phi| {
                    let parts = flow.values.phi_operands(&flow.graph, *phi);
                    let one = match direct {
                        Some(place) => parts.get(place),
                        None => parts
                            .first()
                            .filter(|first| parts.iter().all(|p| p == *first)),
                    };
                    one.and_then(|part| self.value(course, *part)).cloned()
                })
                .collect();
            for (phi, sum) in phis.iter().zip(found) {
                self.set(course, *phi, sum);
            }
        }
        self.block = next;
        self.place = 0;
    }

    fn value(&self, course: &Course<'_, '_, '_>, value: ValueId) -> Option<&Sum> {
        let slot = course.slots.get(&value)?;
        self.values.get(*slot as usize)?.as_ref()
    }

    fn set(&mut self, course: &Course<'_, '_, '_>, value: ValueId, sum: Option<Sum>) {
        if let Some(slot) = course.slots.get(&value) {
            self.values[*slot as usize] = sum;
        }
    }

    fn step(&mut self, course: &Course<'_, '_, '_>, id: InstructionId) -> Option<Event> {
        let (function, flow) = (course.function, course.flow);
        let step = &flow.instructions.steps[id.index()];
        let instruction = flow.instructions.get(id)?;
        let mnemonic = function.mnemonic(instruction);
        let guard = match flow.values.guard(&flow.instructions, step) {
            Some(guard) => match self.value(course, guard) {
                Some(truth) if truth.is_exact() => {
                    let negated = step.negated;
                    Some(truth.lanes.map(|truth| i64::from((truth != 0) != negated)))
                }
                _ => None,
            },
            None => Some(Lanes::Same(1)),
        };
        if is_barrier(mnemonic) || instruction.opcode == Opcode::Call {
            return match guard.and_then(|guard| guard.same()) {
                Some(0) => None,
                Some(_) => Some(self.comes(course, id, instruction, mnemonic)),
                None => Some(Event::Unknown),
            };
        }
        let mut writes = flow.values.writes(&flow.instructions, step);
        let (Some((_, written)), None) = (writes.next(), writes.next()) else {
            return None;
        };
        let new = self.result(course, instruction, mnemonic);
        let whole = matches!(
            function.operands(instruction).first(),
            Some(Operand::Name(_))
        );
        let sum = match guard {
            _ if !whole || step.partial && !step.guarded => None,
            Some(Lanes::Same(0)) => self.prior(course, written),
            Some(Lanes::Same(_)) => new,
            Some(guard) => choose(&guard, new, self.prior(course, written)),
            None => None,
        };
        self.set(course, written, sum);
        None
    }

    fn prior(&self, course: &Course<'_, '_, '_>, written: ValueId) -> Option<Sum> {
        let prior = course.flow.values.prior(written)?;
        self.value(course, prior).cloned()
    }

    fn comes(
        &self,
        course: &Course<'_, '_, '_>,
        at: InstructionId,
        instruction: &Instruction,
        mnemonic: &Mnemonic<'_>,
    ) -> Event {
        let has = |word| mnemonic.modifiers.has(word);
        let number = |index: usize| self.operand(course, index)?.as_number();
        let first = instruction.operands.start as usize;
        let barrier = number(first + usize::from(has(Modifier::Red)));
        let barrier = barrier.filter(|barrier| (0..BARRIERS).contains(barrier));
        let count = match count_of(instruction, mnemonic) {
            None => Some(None),
            Some(place) => number(place)
                .and_then(|count| u32::try_from(count).ok())
                .filter(|count| *count > 0 && count.is_multiple_of(WARP))
                .map(Some),
        };
        match (barrier, count) {
            (Some(barrier), Some(count)) if is_barrier(mnemonic) => Event::Comes(Comes {
                at,
                barrier: barrier as u8,
                count,
                goes_on: has(Modifier::Arrive),
            }),
            _ => Event::Unknown,
        }
    }

    /// The result of an instruction whose guard holds.
    fn result(
        &self,
        course: &Course<'_, '_, '_>,
        instruction: &Instruction,
        mnemonic: &Mnemonic<'_>,
    ) -> Option<Sum> {
        let first = instruction.operands.start as usize;
        let operand = |number: usize| self.operand(course, first + number);
        match mnemonic.opcode {
            Opcode::Selp => {
                let truth = operand(3).filter(Sum::is_exact)?;
                choose(&truth.lanes, operand(1), operand(2))
            }
            Opcode::Shfl => {
                let own = operand(1).filter(Sum::is_exact)?;
                if own.is_uniform() {
                    return Some(own);
                }
                // One lane tells all others.
                let lane = operand(2)?.as_number()?;
                let all = operand(3)?.as_number()? == i64::from(WARP - 1);
                let told = mnemonic.modifiers.has(Modifier::Idx) && all;
                let lane = usize::try_from(lane).ok().filter(|_| told)?;
                (lane < WARP as usize).then(|| Sum::number(own.lanes.at(lane)))
            }
            _ => {
                let operands = &course.flow.instructions.body.operands;
                let mut index = |index| self.operand(course, index);
                Sum::of(instruction, mnemonic, operands, &mut index).filter(Sum::is_exact)
            }
        }
    }

    fn operand(&self, course: &Course<'_, '_, '_>, index: usize) -> Option<Sum> {
        let instructions = &course.flow.instructions;
        match instructions.body.operands.get(index)? {
            Operand::Integer(integer) => Some(Sum::number(integer.value as i64)),
            Operand::Special(register, _) => self.special(*register),
            Operand::Name(_) => match instructions.reference(index) {
                Reference::Register(_) => {
                    let value = course.flow.values.of_operand(index);
                    self.value(course, value).cloned()
                }
                _ => None,
            },
            _ => None,
        }
    }

    fn special(&self, register: SpecialRegister) -> Option<Sum> {
        use SpecialRegister as S;
        let lanes = |each: &dyn Fn(u32) -> u32| {
            let each = (0..WARP).map(|lane| i64::from(each(lane)));
            Some(Sum::exact(Lanes::each(each)))
        };
        let tid = |axis| lanes(&|lane| self.shape.coordinate(self.number * WARP + lane, axis));
        let side = |axis: usize| Some(Sum::number(i64::from(self.shape.0[axis])));
        match register {
            S::TidX => tid(0),
            S::TidY => tid(1),
            S::TidZ => tid(2),
            S::NtidX => side(0),
            S::NtidY => side(1),
            S::NtidZ => side(2),
            S::Laneid => lanes(&|lane| lane),
            _ => None,
        }
    }
}

/// For each lane one of two numbers.
fn choose(lanes: &Lanes, yes: Option<Sum>, no: Option<Sum>) -> Option<Sum> {
    match lanes.same() {
        Some(0) => no,
        Some(_) => yes,
        None => {
            let (yes, no) = (yes.filter(Sum::is_exact)?, no.filter(Sum::is_exact)?);
            let chosen = lanes.choose(&yes.lanes, &no.lanes, WARP as usize);
            Some(Sum::exact(chosen))
        }
    }
}
