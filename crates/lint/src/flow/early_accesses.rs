//! Accesses to what a copy that was begun still reads or writes, before anything waits for
//! its group.

use std::collections::HashMap;
use std::rc::Rc;

use super::conditions::Conditions;
use super::context::callee;
use super::context::{Flow, FunctionContext};
use super::evaluate::Evaluator;
use super::graph::Graph;
use super::instructions::InstructionId;
use super::intervals::Orders;
use super::lanes::Sum;
use super::launch::Block;
use super::memory::{Access, AccessKind};
use analysis::control_flow::{BlockId, Loops};
use ptx::ast::{FunctionKind, Instruction, Mnemonic, Space};
use ptx::names::{Modifier, Opcode};

/// What has to wait for a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hazard {
    /// A read of the shared memory that a `cp.async` writes.
    Copied,
    /// A write to the shared memory that a bulk copy reads.
    BulkSource,
    /// A read of the global memory that a bulk copy writes.
    BulkDestination,
}

/// A copy, and an access that has to wait for it.
#[derive(Clone, Copy, Debug)]
pub struct EarlyAccess {
    /// The copy.
    pub copy: InstructionId,
    /// The access.
    pub access: InstructionId,
    /// The thread that copies, and the one that makes the access.
    pub threads: (u32, u32),
}

/// What an instruction is to the copies of a thread.
#[derive(Clone, Copy, Debug)]
enum Event {
    Copy(Range),
    Access(Range),
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

/// So many places of a function where copies begin are followed, and so many accesses behind
/// each.
const BEGINNINGS: usize = 64;
const ACCESSES: usize = 256;

/// The least that a row of a tensor has, and what a lane gives to `ldmatrix` and `stmatrix`.
const ROW: i64 = 16;

/// No more groups are told apart.
const GROUPS: u32 = 8;

/// So much is worked out for each instruction of a function, and for small ones.
const STEPS_FOR_EACH: u64 = 20;
const STEPS: u64 = 100_000;

impl Hazard {
    /// Whether an instruction begins a copy that this is a hazard of.
    fn is_copy(self, mnemonic: &Mnemonic<'_>) -> bool {
        match self {
            Hazard::Copied => is_small_copy(mnemonic),
            Hazard::BulkSource => is_bulk_copy(mnemonic),
            Hazard::BulkDestination => {
                is_bulk_copy(mnemonic) && !mnemonic.modifiers.has(Modifier::Tensor)
            }
        }
    }
}

/// Whether it is `cp.async` of a few bytes.
pub(crate) fn is_small_copy(mnemonic: &Mnemonic<'_>) -> bool {
    let has = |word| mnemonic.modifiers.has(word);
    mnemonic.opcode == Opcode::Cp
        && has(Modifier::Async)
        && (has(Modifier::Ca) || has(Modifier::Cg))
        && !has(Modifier::Bulk)
}

/// Whether it is a bulk copy or reduction out of shared memory, which groups wait for.
fn is_bulk_copy(mnemonic: &Mnemonic<'_>) -> bool {
    let has = |word| mnemonic.modifiers.has(word);
    mnemonic.opcode == Opcode::Cp && has(Modifier::Bulk) && has(Modifier::BulkGroup)
}

/// At most one for each copy of a kernel.
pub(crate) fn early_accesses(
    function: &FunctionContext<'_, '_>,
    hazard: Hazard,
) -> Vec<EarlyAccess> {
    search(function, hazard).unwrap_or_default()
}

fn search(function: &FunctionContext<'_, '_>, hazard: Hazard) -> Option<Vec<EarlyAccess>> {
    let kernel = function.function.kind == FunctionKind::Entry;
    if !kernel || !function.has_mnemonic(|mnemonic| hazard.is_copy(mnemonic)) {
        return None;
    }
    let flow = function.flow()?;
    let mut events = Vec::new();
    for (id, _, instruction) in function.steps() {
        if flow.graph.is_reached(flow.graph.block_of(id)) {
            events.extend(event(function, instruction, hazard).map(|event| (id, event)));
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
        let accesses = unwaited(flow, &events, last, &mut budget)?;
        if !accesses.is_empty() {
            early.push((copies, accesses));
        }
    }
    if early.is_empty() {
        return None;
    }
    let loops = function.loops()?;
    let mut overlap = Overlap::new(function, flow, loops);
    let mut found = Vec::new();
    for (copies, accesses) in early {
        for (copy, event) in copies {
            let Event::Copy(copied) = event else {
                continue;
            };
            let mut accesses = accesses.iter().take(ACCESSES);
            found.extend(accesses.find_map(|(access, range)| {
                let threads = overlap.threads((*copy, *copied), (*access, *range))?;
                Some(EarlyAccess {
                    copy: *copy,
                    access: *access,
                    threads,
                })
            }));
        }
    }
    Some(found)
}

type Numbered = (InstructionId, Event);

fn event(
    function: &FunctionContext<'_, '_>,
    instruction: &Instruction,
    hazard: Hazard,
) -> Option<Event> {
    let mnemonic = function.mnemonic(instruction);
    let has = |word| mnemonic.modifiers.has(word);
    let first = instruction.operands.start as usize;
    if instruction.opcode == Opcode::Call {
        let name = callee(function.operands(instruction));
        let waits = |m: &Mnemonic<'_>| m.opcode == Opcode::Cp;
        let may = name.is_none_or(|name| function.context.may_execute(name, waits));
        return may.then_some(Event::WaitForAll);
    }
    let of_bulk = hazard != Hazard::Copied;
    if mnemonic.opcode == Opcode::Cp && has(Modifier::Bulk) == of_bulk {
        if hazard.is_copy(mnemonic) {
            return Some(Event::Copy(copied(function, instruction, hazard)?));
        }
        if has(Modifier::WaitAll) || has(Modifier::Mbarrier) {
            return Some(Event::WaitForAll);
        }
        if has(Modifier::CommitGroup) {
            return Some(Event::Commit);
        }
        if has(Modifier::WaitGroup) {
            // `.read` waits for the sources alone.
            if has(Modifier::Read) && hazard == Hazard::BulkDestination {
                return None;
            }
            let pending = number(function, first).and_then(|n| u32::try_from(n).ok());
            let pending = pending.filter(|pending| *pending < GROUPS);
            return Some(pending.map_or(Event::WaitForAll, Event::Wait));
        }
    }
    let range = match hazard {
        Hazard::Copied => read(function, instruction, Space::Shared),
        Hazard::BulkDestination => read(function, instruction, Space::Global),
        Hazard::BulkSource => written(function, instruction),
    };
    range.map(Event::Access)
}

/// What a copy reads or writes, whichever others have to leave alone.
fn copied(
    function: &FunctionContext<'_, '_>,
    instruction: &Instruction,
    hazard: Hazard,
) -> Option<Range> {
    let first = instruction.operands.start as usize;
    let is_tensor = function
        .mnemonic(instruction)
        .modifiers
        .has(Modifier::Tensor);
    let address = match hazard {
        Hazard::Copied | Hazard::BulkDestination => first,
        // Behind the destination, which for a tensor is its map with coordinates.
        Hazard::BulkSource => first + 1,
    };
    let bytes = if is_tensor {
        Some(ROW)
    } else {
        number(function, first + 2)
    };
    let bytes = bytes.filter(|bytes| *bytes > 0)?;
    Some(Range { address, bytes })
}

/// The shared or global memory that an instruction reads.
fn read(
    function: &FunctionContext<'_, '_>,
    instruction: &Instruction,
    space: Space,
) -> Option<Range> {
    let has = |word| function.mnemonic(instruction).modifiers.has(word);
    match instruction.opcode {
        // The lanes give the addresses of rows.
        Opcode::Ldmatrix if has(Modifier::X4) && space == Space::Shared => Some(Range {
            address: instruction.operands.start as usize + 1,
            bytes: ROW,
        }),
        Opcode::Ld => of_access(function, instruction, space, AccessKind::Load),
        _ => None,
    }
}

/// The shared memory that an instruction writes, or begins to.
fn written(function: &FunctionContext<'_, '_>, instruction: &Instruction) -> Option<Range> {
    let mnemonic = function.mnemonic(instruction);
    let has = |word| mnemonic.modifiers.has(word);
    let address = instruction.operands.start as usize;
    match instruction.opcode {
        Opcode::Stmatrix if has(Modifier::X4) => Some(Range {
            address,
            bytes: ROW,
        }),
        Opcode::St => of_access(function, instruction, Space::Shared, AccessKind::Store),
        Opcode::Cp if is_small_copy(mnemonic) => copied(function, instruction, Hazard::Copied),
        // Into shared memory, for an mbarrier there.
        Opcode::Cp if has(Modifier::Bulk) && has(Modifier::MbarrierCompleteTxBytes) => {
            copied(function, instruction, Hazard::Copied)
        }
        _ => None,
    }
}

fn of_access(
    function: &FunctionContext<'_, '_>,
    instruction: &Instruction,
    space: Space,
    kind: AccessKind,
) -> Option<Range> {
    let access = Access::of(function, instruction)?;
    (access.space == Some(space) && access.kind == kind).then_some(Range {
        address: access.address,
        bytes: access.bytes as i64,
    })
}

/// The operand with this index in the pool, if it is a number.
fn number(function: &FunctionContext<'_, '_>, place: usize) -> Option<i64> {
    function.linear(place)?.as_number()
}

/// The accesses that a way leads to from a copy on which nothing waits for it, and no way on
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
                Event::Access(range) => early.push((*id, *range)),
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
        Conditions::of(self.orders.as_ref()?, &mut self.evaluator, id)
    }

    fn threads(
        &mut self,
        copy: (InstructionId, Range),
        access: (InstructionId, Range),
    ) -> Option<(u32, u32)> {
        let copied = self.addresses(copy.0, copy.1)?;
        let accessed = self.addresses(access.0, access.1)?;
        let apart = |before: &Addresses, bytes: i64, behind: &Addresses| {
            before.ends.1.saturating_add(bytes) <= behind.ends.0
        };
        if copied.sum.symbols != accessed.sum.symbols
            || apart(&copied, copy.1.bytes, &accessed)
            || apart(&accessed, access.1.bytes, &copied)
            || !self.evaluator.spend(1)
        {
            return None;
        }
        let all = 0..self.threads;
        let lanes = &copied.sum.lanes;
        let mut copying: Vec<_> = all
            .clone()
            .map(|thread| (lanes.at(thread), thread))
            .collect();
        copying.sort_unstable();
        let meet = |thread: usize, copying: &[(i64, usize)]| {
            let at = accessed.sum.lanes.at(thread);
            let end = at.saturating_add(access.1.bytes);
            // The last that begins before the end of what is accessed.
            let behind = copying.partition_point(|(start, _)| *start < end);
            let (start, by) = *copying.get(behind.checked_sub(1)?)?;
            (start.saturating_add(copy.1.bytes) > at).then_some(by)
        };
        all.clone()
            .find(|thread| meet(*thread, &copying).is_some())?;
        let of_copy = self.conditions(copy.0)?;
        let of_access = self.conditions(access.0)?;
        copying.retain(|(_, thread)| of_copy.admits(*thread));
        let mut others = all.filter(|thread| of_access.admits(*thread));
        others.find_map(|thread| {
            let by = meet(thread, &copying)?;
            let agree = of_copy.agree(by, &of_access, thread, &self.evaluator);
            agree.then_some((by as u32, thread as u32))
        })
    }
}
