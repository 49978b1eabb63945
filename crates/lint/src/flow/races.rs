//! Races: two threads of a block access the same bytes in one barrier interval, and
//! one of them writes.
//!
//! As in GPUVerify and Faial, two threads stand for all. Here they are numbers: for a
//! block of a given shape, each address is worked out for each thread.

use std::cell::OnceCell;
use std::rc::Rc;

use super::HashMap;
use super::accessed::AccessedIntervals;
use super::accesses::SharedAccess;
use super::conditions::Conditions;
use super::context::Flow;
use super::evaluate::{Evaluator, Known, Place, Symbol, Turns};
use super::instructions::InstructionId;
use super::intervals::{Interval, Node, Orders};
use super::lanes::{Lanes, Sum, Symbols, WARP};
use super::memory::AccessKind;
use super::spans::{FAR, Spans, Touches};
use analysis::control_flow::{LoopId, Loops};
use ptx::ast::Operand;
use ptx::signature::layout;

/// Two accesses that two threads make at any time, one before the other or after.
#[derive(Clone, Copy, Debug)]
pub struct Race {
    /// The one that comes first in the interval.
    pub first: InstructionId,
    /// The other, in the next turn of a loop perhaps.
    pub second: InstructionId,
    /// Threads that make the first and the second.
    pub threads: (u32, u32),
    /// All threads write different values to one address: those of a warp too.
    pub of_any_block: bool,
}

/// So many races of one kernel say enough.
const RACES: usize = 64;

/// These turns of a loop without a barrier are looked at: in the last, one thread comes
/// to what another warp has written.
const INNER_TURNS: [u64; 9] = [0, 1, 2, 3, 4, 5, 6, 7, 32];

/// So many turns of a loop with one.
const TURNS: u64 = 2;

/// More bytes of shared memory no block has.
const MEMORY: i64 = 1 << 18;

/// So many accesses of threads that meet a write of another warp are looked at.
const TRIED: usize = 64;

/// And of one access.
const TRIED_OF_ONE: usize = 8;

/// So many places that a warp lies in are looked at together.
const WIDE: usize = 256;

/// So few accesses in an interval are looked at in all of these turns.
const FEW: usize = 12;

/// With more accesses in an interval, only the first turns of loops are looked at.
const MANY: usize = 48;

/// An access in one turn of the loops around it.
#[derive(Clone)]
pub(super) struct Instance {
    pub(super) of: SharedAccess,
    node: usize,
    pub(super) layer: usize,
    pub(super) turns: Turns,
    pub(super) offset: Lanes,
    /// From the first byte of any thread to behind the last.
    pub(super) range: (i64, i64),
    pub(super) conditions: Rc<Conditions>,
    /// What a store writes, where somebody has asked.
    pub(super) value: OnceCell<Known>,
}

impl Instance {
    /// What a store writes, as far as [`Search::know`] has found it out.
    pub(super) fn value(&self) -> &Known {
        self.value.get().unwrap_or(&Known::Unknown)
    }
}

/// The search for races in a function, for one shape of its block.
pub struct Search<'c, 'm, 'a> {
    pub(super) flow: &'c Flow<'m, 'a>,
    loops: &'c Loops,
    orders: &'c Orders<'c, 'm, 'a>,
    pub(super) accesses: &'c [SharedAccess],
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
    pub fn races(&mut self, intervals: &AccessedIntervals<'_, '_, '_>) -> Vec<Race> {
        let mut races: Vec<Race> = Vec::new();
        for number in 0..intervals.count() {
            if races.len() >= RACES || !self.evaluator.spend(4) {
                break;
            }
            let Some(found) = intervals.get(number) else {
                continue;
            };
            let (interval, executed) = (&found.interval, &found.accesses);
            let turns = match self.loops.innermost(interval.home()) {
                Some(_) if executed.len() <= MANY => TURNS,
                _ => 1,
            };
            for turn in 0..turns {
                let groups = if self.may_meet(interval, executed, turn) {
                    self.instances(interval, executed, turn)
                } else {
                    Vec::new()
                };
                let mut found = false;
                for (_, instances) in &groups {
                    if let Some(race) = self.conflict(interval, instances) {
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

    /// Whether no access of a thread is known to lie outside of its variable. In a block
    /// of one dimension, what the first warp does says nothing of its length.
    pub fn is_plausible(&mut self, is_line: bool) -> bool {
        // In the first turn of the loops, and in the second of the innermost.
        (0..self.accesses.len()).all(|at| {
            let block = self.flow.graph.block_of(self.accesses[at].id);
            let within = self.loops.innermost(block);
            let depth = within.map_or(0, |id| self.loops.get(id).depth);
            let first = Turns::default();
            let second = (1..=Turns::DEPTH)
                .contains(&depth)
                .then(|| first.with(depth, 1));
            self.is_inside(at, first, is_line)
                && second.is_none_or(|second| self.is_inside(at, second, is_line))
        })
    }

    fn is_inside(&mut self, at: usize, turns: Turns, is_line: bool) -> bool {
        let of = self.accesses[at];
        let block = self.flow.graph.block_of(of.id);
        let place = self.evaluator.place(block, turns);
        let Some(address) = self.evaluator.operand(of.access.address, place).sum() else {
            return true;
        };
        let [(symbol, 1)] = *address.symbols.all() else {
            return true;
        };
        let Symbol::Address(variable) = self.evaluator.symbol(symbol) else {
            return true;
        };
        let variable = self.flow.instructions.variable(variable);
        let size = if variable.dims.contains(&None) {
            MEMORY as u64
        } else {
            layout(variable).0
        };
        let end = size as i64 - of.access.bytes as i64;
        let threads = 0..self.evaluator.shape.threads() as usize;
        let outside = |thread: &usize| !(0..=end).contains(&address.lanes.at(*thread));
        let outside: Vec<usize> = threads.filter(outside).collect();
        // What lies outside of it in the first warp does so in every block.

        if outside
            .first()
            .is_none_or(|first| is_line && *first < WARP as usize)
        {
            return true;
        }
        let Some(mut facts) = self.orders.facts_above(block, super::BlockId::ENTRY) else {
            return true;
        };
        facts.extend(of.guard);
        let mut conditions = Conditions::default();
        let known = facts.iter().all(|fact| {
            let place = self.evaluator.place(fact.block, turns);
            let evaluator = &mut self.evaluator;
            conditions
                .assume(evaluator, fact.predicate, fact.holds, place)
                .is_some()
        });
        let comes = |thread: &usize| {
            conditions.admits(*thread)
                && conditions.agree(*thread, &conditions, *thread, &self.evaluator)
        };
        !(known && outside.iter().any(comes))
    }

    /// Whether threads of two warps touch the same bytes, if all of them come to all of these
    /// accesses: mostly, none do.
    fn may_meet(
        &mut self,
        interval: &Interval,
        executed: &[(usize, SharedAccess)],
        turn: u64,
    ) -> bool {
        let mut groups: HashMap<Symbols, Touches> = HashMap::default();
        let threads = self.evaluator.shape.threads() as usize;
        for (at, of) in executed {
            let node = &interval.nodes[*at];
            let inner = self.inner(interval, node);
            for &inner_turn in turns_of(inner, executed) {
                let here = self.here(interval, node, turn, inner.map(|id| (id, inner_turn)));
                let address = self.evaluator.operand(of.access.address, here).sum();
                if let Some(Sum { symbols, lanes }) = address {
                    let group = groups.entry(symbols).or_default();
                    group.add(&lanes, threads, of.access.bytes, of.writes());
                }
            }
        }
        groups.into_values().any(Touches::meet)
    }

    /// The loop around a node, without the start of the interval and any barrier, which may be
    /// in any turn.
    fn inner(&self, interval: &Interval, node: &Node) -> Option<LoopId> {
        self.loops.innermost(node.block).filter(|id| {
            !self.loops.contains(*id, interval.home())
                && self.orders.leaves_alone(*id)
                && self.loops.get(*id).depth <= Turns::DEPTH
        })
    }

    fn here(
        &self,
        interval: &Interval,
        node: &Node,
        turn: u64,
        inner: Option<(LoopId, u64)>,
    ) -> Place {
        let turns = self
            .orders
            .turns(interval, node.block, node.layer, turn, inner);
        self.evaluator.place(node.block, turns)
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
        let mut places: HashMap<Symbols, usize> = HashMap::default();
        for of_node in executed.chunk_by(|a, b| a.0 == b.0) {
            let at = of_node[0].0;
            let node = &interval.nodes[at];
            let inner = self.inner(interval, node);
            for &inner_turn in turns_of(inner, executed) {
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
                    let Some((symbols, instance)) =
                        self.instance(*of, at, node.layer, here, &conditions)
                    else {
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
        for fact in self.orders.facts_above(home, super::BlockId::ENTRY)? {
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
        for (fact, layer) in self.orders.facts_of(interval, node)? {
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

    /// An access in the first turn of the loops around it, wherever barriers stand.
    pub(super) fn first_instance(&mut self, of: SharedAccess) -> Option<(Symbols, Instance)> {
        let block = self.flow.graph.block_of(of.id);
        let place = self.evaluator.place(block, Turns::default());
        let conditions = Conditions::of(self.orders, &mut self.evaluator, of.id)?;
        let found = self.instance(of, 0, 0, place, &Rc::new(conditions))?;
        self.know(&found.1);
        Some(found)
    }

    fn instance(
        &mut self,
        of: SharedAccess,
        at: usize,
        layer: usize,
        place: Place,
        conditions: &Rc<Conditions>,
    ) -> Option<(Symbols, Instance)> {
        let address = self.evaluator.operand(of.access.address, place).sum()?;
        let range = address.lanes.range();
        if range.0 < -FAR || range.1 > FAR {
            return None;
        }
        let mut conditions = Rc::clone(conditions);
        if let Some(guard) = of.guard {
            Rc::make_mut(&mut conditions).assume(
                &mut self.evaluator,
                guard.predicate,
                guard.holds,
                place,
            )?;
        }
        let instance = Instance {
            of,
            node: at,
            layer,
            turns: place.turns,
            range: (range.0, range.1 + of.access.bytes as i64),
            offset: address.lanes,
            conditions,
            value: OnceCell::new(),
        };
        Some((address.symbols, instance))
    }

    /// Finds out what a store writes.
    pub(super) fn know(&mut self, one: &Instance) {
        if one.value.get().is_some() || one.of.access.kind != AccessKind::Store {
            return;
        }
        let place = self
            .evaluator
            .place(self.flow.graph.block_of(one.of.id), one.turns);
        let operands = &self.flow.instructions.body.operands;
        let value = match operands.get(one.of.value) {
            Some(Operand::Vector(..)) | None => Known::Unknown,
            Some(_) => self.evaluator.operand(one.of.value, place),
        };
        // It was not known.
        let _ = one.value.set(value);
    }

    /// Two of these that meet, in two threads of different warps.
    fn conflict(&mut self, interval: &Interval, instances: &[Instance]) -> Option<Race> {
        let threads = self.evaluator.shape.threads() as usize;
        let writes = || instances.iter().filter(|one| one.of.writes());
        let (mut least, mut most) = (i64::MAX, i64::MIN);
        for write in writes() {
            least = least.min(write.range.0);
            most = most.max(write.range.1 - 1);
        }
        if most.checked_sub(least)? > MEMORY {
            return None;
        }
        // The places that an access of a thread touches.
        let grain = instances
            .iter()
            .map(|one| one.of.access.bytes)
            .min()?
            .clamp(1, 4)
            .ilog2();
        let (base, end) = (least >> grain, most >> grain);
        let touched = |first: i64, last: i64| {
            let from = (first >> grain).max(base) - base;
            let to = (last >> grain).min(end) - base;
            from as usize..(to + 1).max(from) as usize
        };
        // Most accesses lie where no other writes: none of their threads meets one.
        let span = |one: &Instance| (one.range.0 >> grain, (one.range.1 - 1) >> grain);
        let of_writes = Spans::new(writes().map(span));
        let of_looks = Spans::new(instances.iter().map(span));
        // Which warps write each place.
        let mut written = vec![0_u32; (end - base) as usize + 1];
        let of_warp = |warp: usize| warp * WARP as usize..threads.min((warp + 1) * WARP as usize);
        let comes = |word: u32, thread: usize| word >> (thread % WARP as usize) & 1 != 0;
        for write in writes().filter(|write| of_looks.meet(span(write))) {
            let more = write.of.access.bytes as i64 - 1;
            for (warp, word) in write.conditions.admitted(threads).iter().enumerate() {
                if *word == 0 {
                    continue;
                }
                write.offset.each_of(of_warp(warp), |thread, from| {
                    if comes(*word, thread) {
                        let by = written.get_mut(touched(from, from + more));
                        by.unwrap_or_default()
                            .iter_mut()
                            .for_each(|by| *by |= 1 << warp);
                    }
                });
            }
        }
        let mut tried = 0;
        // The threads of an access that meet a write of another warp, and who writes there.
        let mut candidates: Vec<(usize, u32)> = Vec::new();
        for second in instances {
            if !of_writes.meet(span(second)) {
                continue;
            }
            if !self.evaluator.spend(1) {
                return None;
            }
            let mut tried_here = 0;
            candidates.clear();
            let more = second.of.access.bytes as i64 - 1;
            let mut warps = second.conditions.admitted(threads).iter().enumerate();
            second.offset.each_warp(threads, |(least, most)| {
                let Some((warp, word)) = warps.next().filter(|(_, word)| **word != 0) else {
                    return;
                };
                let met = |places: std::ops::Range<usize>| {
                    let by: &[u32] = written.get(places).unwrap_or_default();
                    by.iter().fold(0, |met, by| met | by)
                };
                let others = !(1_u32 << warp);
                // Most warps lie together, where no other writes.
                let all = touched(least, most + more);
                if all.len() <= WIDE && met(all) & others == 0 {
                    return;
                }
                second.offset.each_of(of_warp(warp), |thread, from| {
                    if comes(*word, thread) {
                        let met = met(touched(from, from + more));
                        if met & others != 0 {
                            candidates.push((thread, met));
                        }
                    }
                });
            });
            if candidates.is_empty() {
                continue;
            }
            self.know(second);
            // Of a value that nothing is known of, no other store is different.
            if second.of.access.kind == AccessKind::Store && *second.value() == Known::Unknown {
                continue;
            }
            for &(thread, met) in &candidates {
                let own = 1_u32 << (thread / WARP as usize);
                tried += 1;
                tried_here += 1;
                if tried > TRIED {
                    return None;
                }
                if tried_here > TRIED_OF_ONE {
                    break;
                }
                let at = second.offset.at(thread);
                for first in writes() {
                    let (from, to) = first.range;
                    if at >= to || at + second.of.access.bytes as i64 <= from {
                        continue;
                    }
                    // On two sides of a branch that all threads take together, only one
                    // of them is executed.
                    let chosen = |one: &Instance| one.conditions.is_of_threads();
                    let both = chosen(first) && chosen(second);
                    if !both && !interval.in_sequence(first.node, second.node) {
                        continue;
                    }
                    if !self.evaluator.spend(1) {
                        return None;
                    }
                    self.know(first);
                    let others = (0..threads)
                        .filter(|other| (met & !own) >> (other / WARP as usize) & 1 != 0);
                    for other in others {
                        if self.meets(first, other, second, thread) {
                            let threads = (other as u32, thread as u32);
                            return Some(self.race(first, second, threads));
                        }
                    }
                }
            }
        }
        None
    }

    fn race(&self, write: &Instance, access: &Instance, threads: (u32, u32)) -> Race {
        let same = write.offset.same().is_some() && access.offset.same().is_some();
        let loses = match access.of.access.kind {
            AccessKind::Store => *write.value() != Known::Data && *access.value() != Known::Data,
            _ => self.is_made_of(&write.of, access.of.id),
        };
        let place = |one: &Instance| (one.node, one.of.id);
        let (first, second, threads) = if place(write) <= place(access) {
            (write, access, threads)
        } else {
            (access, write, (threads.1, threads.0))
        };
        Race {
            first: first.of.id,
            second: second.of.id,
            threads,
            of_any_block: same && loses,
        }
    }
}

/// The turns of a loop that are looked at.
fn turns_of(inner: Option<LoopId>, executed: &[(usize, SharedAccess)]) -> &'static [u64] {
    match inner {
        Some(_) if executed.len() <= FEW => &INNER_TURNS,
        Some(_) if executed.len() <= MANY => &INNER_TURNS[..8],
        Some(_) => &INNER_TURNS[..2],
        None => &[0],
    }
}
