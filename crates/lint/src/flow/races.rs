//! Races: two threads of a block access the same bytes in one barrier interval, and
//! one of them writes.
//!
//! As in GPUVerify and Faial, two threads stand for all. Here they are numbers: for a
//! block of a given shape, each address is worked out for each thread.

use std::collections::HashMap;
use std::rc::Rc;

use super::affine::Term;
use super::conditions::Conditions;
use super::evaluate::{Evaluator, Known, Place, Symbol};
use super::instructions::InstructionId;
use super::intervals::{Fact, Interval, Node, Orders};
use super::lanes::{Lanes, Symbols, WARP};
use super::loops::{LoopId, Loops};
use super::names::VariableId;
use super::origin::Origin;
use super::values::Definition;
use crate::memory::{Access, AccessKind};
use crate::{Flow, FunctionContext};
use ptx::ast::{Operand, Space};
use ptx::names::Modifier;
use ptx::signature::layout;

/// An access to memory that threads share.
#[derive(Clone, Copy, Debug)]
pub struct SharedAccess {
    /// The instruction.
    pub id: InstructionId,
    /// What it accesses.
    pub access: Access,
    /// The variable or parameter that the address is derived from, if that is known.
    base: Option<Term>,
    /// Where the value of a store stands in the operand pool.
    value: usize,
    /// `.volatile`, `.relaxed`: ordered with others of that kind.
    strong: bool,
    guard: Option<Fact>,
}

impl SharedAccess {
    fn writes(&self) -> bool {
        self.access.kind != AccessKind::Load
    }
}

/// The accesses of a function to shared or global memory, in the order of the text:
/// of global memory only those that may meet others.
pub fn accesses(
    function: &FunctionContext<'_, '_>,
    flow: &Flow<'_, '_>,
    space: Space,
) -> Vec<SharedAccess> {
    let mut found = Vec::new();
    for (id, step, instruction) in function.steps() {
        let Some(access) = Access::of(function, instruction) else {
            continue;
        };
        let block = flow.graph.block_of(id);
        let generic = access.space.is_none();
        if !(generic || access.space == Some(space)) || !flow.graph.is_reached(block) {
            continue;
        }
        let base = base(function, flow, &access, space);
        // Without a variable, a generic address may lie anywhere.
        if base.is_none() && (generic || space == Space::Global) {
            continue;
        }
        let modifiers = &function.mnemonic(instruction).modifiers;
        let strong = [
            Modifier::Volatile,
            Modifier::Relaxed,
            Modifier::Acquire,
            Modifier::Release,
        ];
        found.push(SharedAccess {
            id,
            access,
            base,
            value: access.address + 1,
            strong: strong.into_iter().any(|word| modifiers.has(word)),
            guard: flow.values.guard(&flow.instructions, step).map(|predicate| Fact {
                block,
                predicate,
                holds: !step.negated,
            }),
        });
    }
    if space == Space::Global {
        retain_meeting(function, &mut found);
    }
    found
}

/// What an address in the space is counted from.
fn base(
    function: &FunctionContext<'_, '_>,
    flow: &Flow<'_, '_>,
    access: &Access,
    space: Space,
) -> Option<Term> {
    let of_space = |id: &VariableId| flow.instructions.variable(*id).space == space;
    if space == Space::Shared {
        let origins = function.origins()?;
        let origin = origins.of_operand(&flow.instructions, &flow.values, access.address);
        return match origin {
            Origin::Variable(id) | Origin::Generic(_, Some(id)) => {
                Some(id).filter(of_space).map(Term::Address)
            }
            _ => None,
        };
    }
    let linear = function.linear(access.address)?;
    let mut bases = linear.terms().iter().filter(|(term, times)| {
        *times == 1
            && match term {
                Term::Parameter(..) => true,
                Term::Address(id) => of_space(id),
                _ => false,
            }
    });
    bases.next().map(|(term, _)| *term)
}

/// Leaves what is written and accessed elsewhere, or written by all threads at once.
fn retain_meeting(function: &FunctionContext<'_, '_>, found: &mut Vec<SharedAccess>) {
    let mut counts: HashMap<Term, (u32, u32)> = HashMap::new();
    for of in found.iter() {
        if let Some(base) = of.base {
            let count = counts.entry(base).or_default();
            count.0 += 1;
            count.1 += u32::from(of.access.kind == AccessKind::Store);
        }
    }
    let shared = |of: &SharedAccess| {
        let linear = function.linear(of.access.address);
        linear.is_some_and(|linear| {
            linear.terms().iter().all(|(term, _)| match term {
                Term::Special(register) => register.text().starts_with("%ctaid"),
                Term::Parameter(..) | Term::Address(_) => true,
                Term::Value(_) | Term::Product(_) => false,
            })
        })
    };
    found.retain(|of| match of.base.and_then(|base| counts.get(&base)) {
        Some((1, 1)) => shared(of),
        Some((_, stores)) => *stores > 0,
        None => false,
    });
}

/// Two accesses that two threads make at any time, one before the other or after.
#[derive(Clone, Copy, Debug)]
pub struct Race {
    /// The one that comes first in the interval.
    pub first: InstructionId,
    /// The other, in the next turn of a loop perhaps.
    pub second: InstructionId,
    /// Threads that make the first and the second.
    pub threads: (u32, u32),
}

/// So many turns of a loop without a barrier are looked at.
const INNER_TURNS: u64 = 8;

/// So many turns of a loop with one.
const TURNS: u64 = 4;

/// More bytes of shared memory no block has.
const MEMORY: i64 = 1 << 18;

/// So many writes to the same bytes are compared with each access.
const WRITERS: usize = 96;

/// An access in one turn of the loops around it.
struct Instance {
    of: SharedAccess,
    node: usize,
    layer: usize,
    offset: Lanes,
    conditions: Rc<Conditions>,
    value: Known,
}

/// The search for races in a function, for one shape of its block.
pub struct Search<'c, 'm, 'a> {
    flow: &'c Flow<'m, 'a>,
    loops: &'c Loops,
    orders: &'c Orders<'c, 'm, 'a>,
    accesses: &'c [SharedAccess],
    /// The values of the threads.
    pub evaluator: Evaluator<'c, 'm, 'a>,
}

impl<'c, 'm, 'a> Search<'c, 'm, 'a> {
    /// Over these accesses of a function.
    pub fn new(
        orders: &'c Orders<'c, 'm, 'a>,
        accesses: &'c [SharedAccess],
        evaluator: Evaluator<'c, 'm, 'a>,
    ) -> Self {
        Search {
            flow: evaluator.flow,
            loops: evaluator.loops,
            orders,
            accesses,
            evaluator,
        }
    }

    /// The races, at most one of each variable in an interval.
    pub fn races(&mut self) -> Vec<Race> {
        let mut races: Vec<Race> = Vec::new();
        for start in self.orders.starts() {
            let Some(interval) = self.orders.interval(start) else {
                continue;
            };
            let executed = self.executed(&interval);
            if executed.is_empty() {
                continue;
            }
            let turns = match self.loops.innermost(interval.home()) {
                None => 1,
                Some(_) => TURNS,
            };
            for turn in 0..turns {
                let groups = self.instances(&interval, &executed, turn);
                let mut found = false;
                for (_, instances) in &groups {
                    if let Some(race) = self.conflict(instances) {
                        found = true;
                        if races.iter().all(|known| known.second != race.second) {
                            races.push(race);
                        }
                    }
                }
                if found || self.evaluator.budget == 0 {
                    break;
                }
            }
        }
        races
    }

    /// Whether no access of a thread is known to lie outside of its variable.
    pub fn is_plausible(&mut self) -> bool {
        for at in 0..self.accesses.len() {
            let of = self.accesses[at];
            let block = self.flow.graph.block_of(of.id);
            let place = self.evaluator.place(block, Default::default());
            let Some(address) = self.evaluator.operand(of.access.address, place).sum() else {
                continue;
            };
            let [(symbol, 1)] = *address.symbols.all() else {
                continue;
            };
            let Symbol::Address(variable) = self.evaluator.symbol(symbol) else {
                continue;
            };
            let variable = self.flow.instructions.variable(variable);
            let size = match variable.dims.contains(&None) {
                true => MEMORY as u64,
                false => layout(variable).0,
            };
            let end = size as i64 - of.access.bytes as i64;
            let threads = 0..self.evaluator.shape.threads() as usize;
            let outside = |thread: &usize| !(0..=end).contains(&address.lanes.at(*thread));
            let outside: Vec<usize> = threads.filter(outside).collect();
            // What lies outside of it in the first warp does so in every block.
            if outside.first().is_none_or(|first| *first < WARP as usize) {
                continue;
            }
            let mut facts = self.orders.facts_above(block, super::BlockId::ENTRY);
            facts.extend(of.guard);
            let mut conditions = Conditions::default();
            let known = facts.iter().all(|fact| {
                let place = self.evaluator.place(fact.block, Default::default());
                let evaluator = &mut self.evaluator;
                conditions.assume(evaluator, fact.predicate, fact.holds, place).is_some()
            });
            let comes = |thread: &usize| {
                conditions.admits(*thread)
                    && conditions.agree(*thread, &conditions, *thread, &self.evaluator)
            };
            if known && outside.iter().any(comes) {
                return false;
            }
        }
        true
    }

    /// The accesses in an interval, by node; none if no two of them can meet.
    fn executed(&self, interval: &Interval) -> Vec<(usize, SharedAccess)> {
        let mut executed = Vec::new();
        for (at, node) in interval.nodes.iter().enumerate().filter(|(_, node)| node.proven) {
            let first = self.accesses.partition_point(|of| of.id.0 < node.start);
            let within = self.accesses[first..].iter().take_while(|of| of.id.0 < node.end);
            executed.extend(within.map(|of| (at, *of)));
        }
        // An access of an unknown base may meet any.
        if executed.iter().all(|(_, of)| of.base.is_some()) {
            let mut written: Vec<Option<Term>> = executed
                .iter()
                .filter(|(_, of)| of.writes())
                .map(|(_, of)| of.base)
                .collect();
            written.sort_unstable();
            written.dedup();
            executed.retain(|(_, of)| written.binary_search(&of.base).is_ok());
        }
        if executed.iter().any(|(_, of)| of.writes()) {
            executed
        } else {
            Vec::new()
        }
    }

    /// The accesses in the turns of the loops, by what is unknown of the address.
    fn instances(
        &mut self,
        interval: &Interval,
        executed: &[(usize, SharedAccess)],
        turn: u64,
    ) -> Vec<(Symbols, Vec<Instance>)> {
        let Some(start) = self.at_start(interval, turn) else {
            return Vec::new();
        };
        let mut groups: Vec<(Symbols, Vec<Instance>)> = Vec::new();
        let mut places: HashMap<Symbols, usize> = HashMap::new();
        for of_node in executed.chunk_by(|a, b| a.0 == b.0) {
            let at = of_node[0].0;
            let node = &interval.nodes[at];
            // A loop around it, without the start of the interval and any barrier, may
            // be in any turn.
            let inner = self.loops.innermost(node.block).filter(|id| {
                !self.loops.contains(*id, interval.home()) && self.orders.leaves_alone(*id)
            });
            let turns = if inner.is_some() { INNER_TURNS } else { 1 };
            for inner_turn in 0..turns {
                let inner = inner.map(|id| (id, inner_turn));
                let place = |block, layer| {
                    let turns = self.orders.turns(interval, block, layer, turn, inner);
                    Place {
                        within: self.loops.innermost(block),
                        turns,
                    }
                };
                let here = place(node.block, node.layer);
                let Some(conditions) = self.conditions(interval, node, &start, inner, place) else {
                    break;
                };
                let conditions = Rc::new(conditions);
                for (_, of) in of_node {
                    let Some((symbols, instance)) = self.instance(*of, at, node, here, &conditions) else {
                        continue;
                    };
                    let next = groups.len();
                    let group = *places.entry(symbols).or_insert(next);
                    if group == next {
                        groups.push((symbols, Vec::new()));
                    }
                    groups[group].1.push(instance);
                }
                if self.evaluator.budget == 0 {
                    return Vec::new();
                }
            }
        }
        groups
    }

    /// What holds of a thread that comes to the start of the interval in this turn.
    fn at_start(&mut self, interval: &Interval, turn: u64) -> Option<Conditions> {
        let home = interval.home();
        let mut conditions = Conditions::default();
        let within = self.loops.innermost(home);
        for fact in self.orders.facts_above(home, super::BlockId::ENTRY) {
            let turns = self.orders.turns(interval, fact.block, 0, turn, None);
            let place = self.evaluator.place(fact.block, turns);
            conditions.assume(&mut self.evaluator, fact.predicate, fact.holds, place)?;
        }
        if let Some(id) = within.filter(|_| turn > 0) {
            let facts = self.orders.facts_of_turn(id)?;
            for earlier in 0..turn {
                for fact in &facts {
                    let turns = self.orders.turns(interval, fact.block, 0, earlier, None);
                    let place = self.evaluator.place(fact.block, turns);
                    conditions.assume(&mut self.evaluator, fact.predicate, fact.holds, place)?;
                }
            }
        }
        Some(conditions)
    }

    /// What holds of a thread that comes to a node.
    fn conditions(
        &mut self,
        interval: &Interval,
        node: &Node,
        start: &Conditions,
        inner: Option<(LoopId, u64)>,
        place: impl Fn(super::BlockId, usize) -> Place,
    ) -> Option<Conditions> {
        let mut conditions = start.clone();
        for (fact, layer) in self.orders.facts_of(interval, node) {
            let at = place(fact.block, layer);
            conditions.assume(&mut self.evaluator, fact.predicate, fact.holds, at)?;
        }
        if let Some((id, turn @ 1..)) = inner {
            let facts = self.orders.facts_of_turn(id)?;
            let depth = self.loops.get(id).depth;
            for earlier in 0..turn {
                for fact in &facts {
                    let mut at = place(fact.block, node.layer);
                    at.turns = at.turns.with(depth, earlier);
                    conditions.assume(&mut self.evaluator, fact.predicate, fact.holds, at)?;
                }
            }
        }
        Some(conditions)
    }

    fn instance(
        &mut self,
        of: SharedAccess,
        at: usize,
        node: &Node,
        place: Place,
        conditions: &Rc<Conditions>,
    ) -> Option<(Symbols, Instance)> {
        let address = self.evaluator.operand(of.access.address, place).sum()?;
        let mut conditions = Rc::clone(conditions);
        if let Some(guard) = of.guard {
            Rc::make_mut(&mut conditions).assume(
                &mut self.evaluator,
                guard.predicate,
                guard.holds,
                place,
            )?;
        }
        let value = match of.access.kind {
            AccessKind::Store => {
                let operands = &self.flow.instructions.body.operands;
                match operands.get(of.value) {
                    Some(Operand::Vector(..)) | None => Known::Unknown,
                    Some(_) => self.evaluator.operand(of.value, place),
                }
            }
            _ => Known::Unknown,
        };
        let instance = Instance {
            of,
            node: at,
            layer: node.layer,
            offset: address.lanes,
            conditions,
            value,
        };
        Some((address.symbols, instance))
    }

    /// Two of these that meet, in two threads of different warps.
    fn conflict(&mut self, instances: &[Instance]) -> Option<Race> {
        let threads = self.evaluator.shape.threads() as usize;
        let grain = instances.iter().map(|one| one.of.access.bytes).min()?.clamp(1, 4) as i64;
        let mut writes: Vec<(i64, u32, u32)> = Vec::new();
        // What is no atomic comes first.
        let atomic = |one: &Instance| one.of.access.kind == AccessKind::Atomic;
        for last in [false, true] {
            for (at, one) in instances.iter().enumerate() {
                if !one.of.writes() || atomic(one) != last || !self.evaluator.spend(2) {
                    continue;
                }
                for thread in (0..threads).filter(|thread| one.conditions.admits(*thread)) {
                    let from = one.offset.at(thread);
                    let to = from + one.of.access.bytes as i64;
                    for place in from.div_euclid(grain)..=(to - 1).div_euclid(grain) {
                        writes.push((place, at as u32, thread as u32));
                    }
                }
            }
        }
        let (least, most) = (
            writes.iter().map(|write| write.0).min()?,
            writes.iter().map(|write| write.0).max()?,
        );
        if most.checked_sub(least)? > MEMORY {
            return None;
        }
        // The writes of each place, by counting.
        let mut starts = vec![0_u32; (most - least) as usize + 2];
        for (place, _, _) in &writes {
            starts[(place - least) as usize + 1] += 1;
        }
        for at in 1..starts.len() {
            starts[at] += starts[at - 1];
        }
        let mut next = starts.clone();
        let mut sorted = vec![(0_u32, 0_u32); writes.len()];
        for (place, at, thread) in writes {
            let slot = &mut next[(place - least) as usize];
            sorted[*slot as usize] = (at, thread);
            *slot += 1;
        }
        for second in instances {
            if !self.evaluator.spend(1) {
                return None;
            }
            for thread in (0..threads).filter(|thread| second.conditions.admits(*thread)) {
                let from = second.offset.at(thread);
                let to = from + second.of.access.bytes as i64;
                for place in from.div_euclid(grain)..=(to - 1).div_euclid(grain) {
                    if !(least..=most).contains(&place) {
                        continue;
                    }
                    let at = (place - least) as usize;
                    let met = &sorted[starts[at] as usize..starts[at + 1] as usize];
                    let other_warp =
                        |write: &&(u32, u32)| write.1 / WARP != thread as u32 / WARP;
                    for (at, other) in met.iter().filter(other_warp).take(WRITERS) {
                        let first = &instances[*at as usize];
                        if self.meets(first, *other as usize, second, thread) {
                            return Some(race(first, *other, second, thread as u32));
                        }
                    }
                }
            }
        }
        None
    }

    /// Whether what a store writes is made of what a load reads.
    fn is_made_of(&self, store: &SharedAccess, load: InstructionId) -> bool {
        let (instructions, values) = (&self.flow.instructions, &self.flow.values);
        let mut open = vec![(values.of_operand(store.value), 0)];
        while let Some((value, depth)) = open.pop() {
            let Some(Definition::Written(id)) = values.definition(value) else {
                continue;
            };
            if id == load {
                return true;
            }
            // A tree of few instructions, or none.
            if depth < 4 && open.len() < 16 {
                let reads = values.reads(instructions, &instructions.steps[id.index()]);
                open.extend(reads.map(|(_, value)| (value, depth + 1)));
            }
        }
        false
    }

    /// Whether the write of one thread and the access of another are a race.
    fn meets(&self, write: &Instance, writer: usize, access: &Instance, thread: usize) -> bool {
        let (a, b) = (&write.of, &access.of);
        if write.layer != 0 && access.layer != 0 || a.strong && b.strong {
            return false;
        }
        let atomic = |of: &SharedAccess| of.access.kind == AccessKind::Atomic;
        if atomic(a) && (atomic(b) || b.strong) || atomic(b) && a.strong {
            return false;
        }
        let between = write.offset.at(writer) - access.offset.at(thread);
        if between >= b.access.bytes as i64 || -between >= a.access.bytes as i64 {
            return false;
        }
        if b.access.kind == AccessKind::Store && a.access.kind == AccessKind::Store {
            if !differ(write, writer, access, thread) {
                return false;
            }
        } else if b.access.kind == AccessKind::Load {
            // Who has written the same itself reads that, unless it is made of what has
            // been read: all add to it.
            let own = write.conditions.admits(thread)
                && write.offset.at(thread) == write.offset.at(writer)
                && !differ(write, writer, write, thread);
            if own && !atomic(a) && !self.is_made_of(a, b.id) {
                return false;
            }
        }
        write.conditions.agree(writer, &access.conditions, thread, &self.evaluator)
    }
}

/// Whether two threads surely store different values.
fn differ(a: &Instance, thread: usize, b: &Instance, other: usize) -> bool {
    match (&a.value, &b.value) {
        (Known::Sum(left), Known::Sum(right)) => {
            left.symbols == right.symbols && left.lanes.at(thread) != right.lanes.at(other)
        }
        (Known::Varies, Known::Varies | Known::Sum(_)) | (Known::Sum(_), Known::Varies) => true,
        _ => false,
    }
}

fn race(write: &Instance, writer: u32, access: &Instance, thread: u32) -> Race {
    let place = |one: &Instance| (one.node, one.of.id);
    let ((first, of_first), (second, of_second)) = match place(write) <= place(access) {
        true => ((write, writer), (access, thread)),
        false => ((access, thread), (write, writer)),
    };
    Race {
        first: first.of.id,
        second: second.of.id,
        threads: (of_first, of_second),
    }
}
