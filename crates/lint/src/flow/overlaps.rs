//! Parts of memory that threads write, and that reach into the part of the next thread.

use super::accesses::SharedAccess;
use super::affine::{Linear, Term};
use super::context::{Flow, FunctionContext};
use super::evaluate::{Evaluator, Known};
use super::graph::BlockId;
use super::instructions::InstructionId;
use super::intervals::{Order, Orders};
use super::lanes::WARP;
use super::launch::Block;
use super::memory::AccessKind;
use super::races::{Instance, Search};
use ptx::ast::FunctionKind;
use ptx::names::SpecialRegister;

/// Two stores with which a thread and the next write the same bytes.
#[derive(Clone, Copy, Debug)]
pub struct Overlap {
    /// A store of the thread.
    pub store: InstructionId,
    /// A store of the next one.
    pub next: InstructionId,
    /// The thread.
    pub thread: u32,
    /// From the first byte that a thread writes to behind its last.
    pub bytes: u64,
    /// From the part of a thread to that of the next.
    pub apart: u64,
}

/// The steps that the search may take.
const STEPS: u64 = 100_000;

/// At most one of each base address in a basic block.
pub fn overlaps(function: &FunctionContext<'_, '_>) -> Vec<Overlap> {
    search(function).unwrap_or_default()
}

/// Stores that stand in one basic block, each with its distance from the first.
struct Part {
    stores: Vec<(i64, SharedAccess)>,
    of: Linear,
    block: BlockId,
}

impl Part {
    fn stride(&self) -> i64 {
        self.of.coefficient(Term::Special(SpecialRegister::TidX))
    }

    /// From the first byte to behind the last.
    fn bytes(&self) -> i64 {
        let first = self.stores.iter().map(|(at, _)| *at).min();
        let last = self
            .stores
            .iter()
            .map(|(at, of)| at + of.access.bytes as i64);
        last.max().unwrap_or(0) - first.unwrap_or(0)
    }

    /// Two different stores that meet, one of a thread and one of the next.
    fn meeting(&self) -> Option<(SharedAccess, SharedAccess)> {
        let meets = |(at, of): &(i64, SharedAccess), (next_at, next): &(i64, SharedAccess)| {
            let next_at = next_at + self.stride();
            of.id != next.id
                && *at < next_at + next.access.bytes as i64
                && next_at < at + of.access.bytes as i64
        };
        self.stores.iter().find_map(|one| {
            let next = self.stores.iter().find(|next| meets(one, next))?;
            Some((one.1, next.1))
        })
    }
}

fn search(function: &FunctionContext<'_, '_>) -> Option<Vec<Overlap>> {
    if function.function.kind != FunctionKind::Entry {
        return None;
    }
    let flow = function.flow()?;
    let meeting: Vec<_> = parts(function, flow)
        .into_iter()
        .filter(|part| part.bytes() > part.stride().abs())
        .filter_map(|part| Some((part.meeting()?, part)))
        .collect();
    if meeting.is_empty() {
        return None;
    }
    let (loops, orders) = (function.loops()?, Orders::of_function(function)?);
    let shape = Block::of(function).usual();
    let mut found = Vec::new();
    for ((store, next), part) in meeting {
        let mut steps = flow.graph.blocks[part.block.index()].steps();
        if steps.any(|id| orders.of(id) != Order::None) {
            continue;
        }
        let evaluator = Evaluator::new(function, flow, loops, shape, STEPS);
        let accesses = [store, next];
        let mut search = Search::new(&orders, &accesses, evaluator);
        let (Some((symbols, one)), Some((others, other))) =
            (search.first_instance(store), search.first_instance(next))
        else {
            continue;
        };
        if symbols != others {
            continue;
        }
        let threads = shape.0[0].min(WARP) as usize;
        let thread = (1..threads).find(|next| meet(&search, (&one, next - 1), (&other, *next)));
        found.extend(thread.map(|next_thread| Overlap {
            store: store.id,
            next: next.id,
            thread: next_thread as u32 - 1,
            bytes: part.bytes() as u64,
            apart: part.stride().unsigned_abs(),
        }));
    }
    Some(found)
}

/// The stores of each basic block whose addresses differ by a constant, and move with `%tid.x`.
fn parts(function: &FunctionContext<'_, '_>, flow: &Flow<'_, '_>) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    // Those of one block stand together.
    let mut here = 0;
    for of in function.global_accesses() {
        if of.access.kind != AccessKind::Store || of.strong || of.guard.is_some() {
            continue;
        }
        let Some(mut linear) = function.linear(of.access.address) else {
            continue;
        };
        if linear.coefficient(Term::Special(SpecialRegister::TidX)) == 0 {
            continue;
        }
        let at = std::mem::take(&mut linear.constant);
        let block = flow.graph.block_of(of.id);
        if parts.last().is_some_and(|part| part.block != block) {
            here = parts.len();
        }
        match parts[here..].iter_mut().find(|part| part.of == linear) {
            Some(part) => part.stores.push((at, *of)),
            None => parts.push(Part {
                stores: vec![(at, *of)],
                of: linear,
                block,
            }),
        }
    }
    parts
}

/// Whether both threads come there, to the same bytes, and may leave different values.
fn meet(
    search: &Search<'_, '_, '_>,
    (one, thread): (&Instance, usize),
    (other, next): (&Instance, usize),
) -> bool {
    let apart = one.offset.at(thread) - other.offset.at(next);
    let same = match (one.value(), other.value()) {
        (Known::Sum(a), Known::Sum(b)) => {
            a.symbols == b.symbols && a.lanes.at(thread) == b.lanes.at(next)
        }
        _ => false,
    };
    apart < other.of.access.bytes as i64
        && -apart < one.of.access.bytes as i64
        && !same
        && one.conditions.admits(thread)
        && other.conditions.admits(next)
        && one
            .conditions
            .agree(thread, &other.conditions, next, &search.evaluator)
}
