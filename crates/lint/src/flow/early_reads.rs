//! Reads of shared memory that a `cp.async` has begun to write, before anything waits for
//! the copy.

use std::collections::HashMap;
use std::rc::Rc;

use super::conditions::Conditions;
use super::evaluate::Evaluator;
use super::graph::{BlockId, Graph};
use super::instructions::InstructionId;
use super::intervals::Orders;
use super::lanes::Sum;
use super::launch::Block;
use crate::context::callee;
use crate::memory::{Access, AccessKind};
use crate::{Flow, FunctionContext};
use ptx::ast::{FunctionKind, Instruction, Mnemonic, Operand, Space};
use ptx::control_flow::Loops;
use ptx::names::{Modifier, Opcode};

/// A copy, and a read of what it writes.
#[derive(Clone, Copy, Debug)]
pub struct EarlyRead {
    /// The `cp.async`.
    pub copy: InstructionId,
    /// The read.
    pub read: InstructionId,
    /// The thread that copies, and the one that reads.
    pub threads: (u32, u32),
}

/// What an instruction is to the copies of a thread.
#[derive(Clone, Copy, Debug)]
enum Event {
    Copy(Range),
    Read(Range),
    Commit,
    /// Waits until at most so many groups are pending.
    Wait(u32),
    /// Waits for all, or may do so.
    WaitForAll,
}

/// What is accessed.
#[derive(Clone, Copy, Debug)]
struct Range {
    /// The address, in the operand pool.
    address: usize,
    bytes: i64,
}

/// So many places of a function where copies begin are followed, and so many reads behind each.
const BEGINNINGS: usize = 64;
const READS: usize = 256;

/// No more groups are told apart.
const GROUPS: u32 = 8;

/// So much is worked out for each instruction of a function, and for small ones.
const STEPS_FOR_EACH: u64 = 20;
const STEPS: u64 = 100_000;

/// Whether it is `cp.async` of a few bytes.
pub fn is_copy(mnemonic: &Mnemonic<'_>) -> bool {
    let has = |word| mnemonic.modifiers.has(word);
    mnemonic.opcode == Opcode::Cp
        && has(Modifier::Async)
        && (has(Modifier::Ca) || has(Modifier::Cg))
        && !has(Modifier::Bulk)
}

/// At most one for each copy of a kernel.
pub(crate) fn early_reads(function: &FunctionContext<'_, '_>) -> Vec<EarlyRead> {
    search(function).unwrap_or_default()
}

fn search(function: &FunctionContext<'_, '_>) -> Option<Vec<EarlyRead>> {
    let kernel = function.function.kind == FunctionKind::Entry;
    if !kernel || !function.context.has_mnemonic(is_copy) {
        return None;
    }
    let mut instructions = function.instructions();
    if !instructions.any(|instruction| is_copy(function.mnemonic(instruction))) {
        return None;
    }
    let flow = function.flow()?;
    let mut events = Vec::new();
    for (id, _, instruction) in function.steps() {
        if flow.graph.is_reached(flow.graph.block_of(id)) {
            events.extend(event(function, instruction).map(|event| (id, event)));
        }
    }
    let mut budget = flow.instructions.steps.len() * STEPS_FOR_EACH as usize + STEPS as usize;
    let mut early = Vec::new();
    let block = |id: InstructionId| flow.graph.block_of(id);
    let together = |a: &Numbered, b: &Numbered| {
        matches!((a.1, b.1), (Event::Copy(_), Event::Copy(_))) && block(a.0) == block(b.0)
    };
    let begun = events.chunk_by(together);
    let begun = begun.filter(|run| matches!(run[0].1, Event::Copy(_)));
    for copies in begun.take(BEGINNINGS) {
        let last = copies[copies.len() - 1].0;
        let reads = unwaited(flow, &events, last, &mut budget)?;
        if !reads.is_empty() {
            early.push((copies, reads));
        }
    }
    if early.is_empty() {
        return None;
    }
    let loops = function.loops()?;
    let mut overlap = Overlap::new(function, flow, loops);
    let mut found = Vec::new();
    for (copies, reads) in early {
        for (copy, event) in copies {
            let Event::Copy(written) = event else {
                continue;
            };
            let mut reads = reads.iter().take(READS);
            found.extend(reads.find_map(|(read, range)| {
                let threads = overlap.threads((*copy, *written), (*read, *range))?;
                Some(EarlyRead {
                    copy: *copy,
                    read: *read,
                    threads,
                })
            }));
        }
    }
    Some(found)
}

type Numbered = (InstructionId, Event);

fn event(function: &FunctionContext<'_, '_>, instruction: &Instruction) -> Option<Event> {
    let mnemonic = function.mnemonic(instruction);
    let has = |word| mnemonic.modifiers.has(word);
    let first = instruction.operands.start as usize;
    let number = |place: usize| match function.body.operands.get(first + place) {
        Some(Operand::Integer(integer)) => Some(integer.value),
        _ => None,
    };
    match mnemonic.opcode {
        Opcode::Cp if is_copy(mnemonic) => Some(Event::Copy(Range {
            address: first,
            bytes: i64::try_from(number(2)?).ok()?,
        })),
        Opcode::Cp if has(Modifier::Bulk) => None,
        Opcode::Cp if has(Modifier::WaitAll) || has(Modifier::Mbarrier) => Some(Event::WaitForAll),
        Opcode::Cp if has(Modifier::CommitGroup) => Some(Event::Commit),
        Opcode::Cp if has(Modifier::WaitGroup) => {
            let pending = number(0).and_then(|pending| u32::try_from(pending).ok());
            let pending = pending.filter(|pending| *pending < GROUPS);
            Some(pending.map_or(Event::WaitForAll, Event::Wait))
        }
        Opcode::Call => {
            let name = callee(function.operands(instruction));
            let waits = |m: &Mnemonic<'_>| m.opcode == Opcode::Cp;
            let may = name.is_none_or(|name| function.context.may_execute(name, waits));
            may.then_some(Event::WaitForAll)
        }
        // The lanes give the addresses of rows.
        Opcode::Ldmatrix if has(Modifier::X4) => Some(Event::Read(Range {
            address: first + 1,
            bytes: 16,
        })),
        Opcode::Ld => {
            let access = Access::of(function, instruction)?;
            let shared = access.space == Some(Space::Shared) && access.kind == AccessKind::Load;
            shared.then_some(Event::Read(Range {
                address: access.address,
                bytes: access.bytes as i64,
            }))
        }
        _ => None,
    }
}

/// The reads that a way leads to from a copy on which nothing waits for it, and no way on
/// which something does; loops are gone through once.
fn unwaited(
    flow: &Flow<'_, '_>,
    events: &[Numbered],
    copy: InstructionId,
    budget: &mut usize,
) -> Option<Vec<(InstructionId, Range)>> {
    let graph = &flow.graph;
    let mut early = Vec::new();
    let mut waits = Vec::new();
    // A bit for each number of groups that are committed, the copy's own the first of them.
    let mut visited = vec![0_u16; graph.blocks.len()];
    let mut open = vec![(graph.block_of(copy), copy.0 + 1, 0_u32)];
    'ways: while let Some((block, from, mut groups)) = open.pop() {
        let end = graph.blocks[block.index()].end;
        let start = events.partition_point(|(id, _)| id.0 < from);
        let stop = events.partition_point(|(id, _)| id.0 < end);
        *budget = budget.checked_sub(stop - start + 1)?;
        for (id, event) in &events[start..stop] {
            match event {
                Event::Read(range) => early.push((*id, *range)),
                Event::Commit => groups = (groups + 1).min(GROUPS),
                Event::Wait(pending) if groups <= *pending => {}
                Event::Wait(_) | Event::WaitForAll => {
                    waits.push((block, id.0));
                    continue 'ways;
                }
                Event::Copy(_) => {}
            }
        }
        for next in forward(graph, block) {
            let known = &mut visited[next.index()];
            if *known & 1 << groups == 0 {
                *known |= 1 << groups;
                open.push((next, graph.blocks[next.index()].start, groups));
            }
        }
    }
    if early.is_empty() {
        return Some(early);
    }
    // From where on each block lies behind a wait.
    let mut behind = vec![u32::MAX; graph.blocks.len()];
    while let Some((block, from)) = waits.pop() {
        let known = &mut behind[block.index()];
        if *known == u32::MAX {
            let next = forward(graph, block);
            waits.extend(next.map(|next| (next, graph.blocks[next.index()].start)));
        }
        *known = from.min(*known);
    }
    early.retain(|(id, _)| id.0 < behind[graph.block_of(*id).index()]);
    early.sort_by_key(|(id, _)| *id);
    early.dedup_by_key(|(id, _)| *id);
    Some(early)
}

/// The blocks that follow one, but for the heads of loops that end with it.
fn forward(graph: &Graph, block: BlockId) -> impl Iterator<Item = BlockId> + '_ {
    let next = graph.successors(block);
    next.filter(move |next| !graph.dominates(*next, block))
}

/// Which threads access the same bytes.
struct Overlap<'o, 'm, 'a> {
    function: &'o FunctionContext<'m, 'a>,
    flow: &'o Flow<'m, 'a>,
    orders: Option<Orders<'o, 'm, 'a>>,
    evaluator: Evaluator<'o, 'm, 'a>,
    threads: usize,
    addresses: HashMap<InstructionId, Option<Rc<Addresses>>>,
}

/// The address that an instruction has in each thread.
struct Addresses {
    sum: Sum,
    /// The least and the greatest.
    ends: (i64, i64),
}

impl<'o, 'm, 'a> Overlap<'o, 'm, 'a> {
    fn new(
        function: &'o FunctionContext<'m, 'a>,
        flow: &'o Flow<'m, 'a>,
        loops: &'o Loops,
    ) -> Self {
        let shape = Block::of(function).usual();
        let budget = flow.instructions.steps.len() as u64 * STEPS_FOR_EACH + STEPS;
        Overlap {
            function,
            flow,
            orders: None,
            evaluator: Evaluator::new(function, flow, loops, shape, budget),
            threads: shape.threads() as usize,
            addresses: HashMap::new(),
        }
    }

    fn addresses(&mut self, id: InstructionId, range: Range) -> Option<Rc<Addresses>> {
        if let Some(known) = self.addresses.get(&id) {
            return known.clone();
        }
        let block = self.flow.graph.block_of(id);
        let place = self.evaluator.place(block, Default::default());
        let sum = self.evaluator.operand(range.address, place).sum();
        let found = sum.map(|sum| {
            let ends = sum.lanes.range();
            Rc::new(Addresses { sum, ends })
        });
        self.addresses.insert(id, found.clone());
        found
    }

    /// Which threads come to an instruction.
    fn conditions(&mut self, id: InstructionId) -> Option<Conditions> {
        if self.orders.is_none() {
            self.orders = Orders::of_function(self.function);
        }
        let orders = self.orders.as_ref()?;
        let block = self.flow.graph.block_of(id);
        let evaluator = &mut self.evaluator;
        let mut conditions = Conditions::default();
        for fact in orders.facts_above(block, BlockId::ENTRY)? {
            let place = evaluator.place(fact.block, Default::default());
            conditions.assume(evaluator, fact.predicate, fact.holds, place)?;
        }
        let step = &self.flow.instructions.steps[id.index()];
        if let Some(guard) = self.flow.values.guard(&self.flow.instructions, step) {
            let place = evaluator.place(block, Default::default());
            conditions.assume(evaluator, guard, !step.negated, place)?;
        }
        Some(conditions)
    }

    fn threads(
        &mut self,
        copy: (InstructionId, Range),
        read: (InstructionId, Range),
    ) -> Option<(u32, u32)> {
        let to = self.addresses(copy.0, copy.1)?;
        let from = self.addresses(read.0, read.1)?;
        let apart = |before: &Addresses, bytes: i64, behind: &Addresses| {
            before.ends.1.saturating_add(bytes) <= behind.ends.0
        };
        if to.sum.symbols != from.sum.symbols
            || apart(&to, copy.1.bytes, &from)
            || apart(&from, read.1.bytes, &to)
            || !self.evaluator.spend(1)
        {
            return None;
        }
        let all = 0..self.threads;
        let lanes = &to.sum.lanes;
        let mut writers: Vec<_> = all
            .clone()
            .map(|thread| (lanes.at(thread), thread))
            .collect();
        writers.sort_unstable();
        let meet = |reader: usize, writers: &[(i64, usize)]| {
            let at = from.sum.lanes.at(reader);
            let end = at.saturating_add(read.1.bytes);
            // The last that begins before the end of what is read.
            let behind = writers.partition_point(|(start, _)| *start < end);
            let (start, writer) = *writers.get(behind.checked_sub(1)?)?;
            (start.saturating_add(copy.1.bytes) > at).then_some(writer)
        };
        all.clone()
            .find(|reader| meet(*reader, &writers).is_some())?;
        let (copying, reading) = (self.conditions(copy.0)?, self.conditions(read.0)?);
        writers.retain(|(_, thread)| copying.admits(*thread));
        let mut readers = all.filter(|thread| reading.admits(*thread));
        readers.find_map(|reader| {
            let writer = meet(reader, &writers)?;
            let agree = copying.agree(writer, &reading, reader, &self.evaluator);
            agree.then_some((writer as u32, reader as u32))
        })
    }
}
