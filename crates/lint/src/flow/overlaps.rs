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
use super::spans::FAR;
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

/// The steps that the search may take for one base address.
const STEPS: u64 = 100_000;

/// So many base addresses of a basic block are told apart, and so many of a kernel looked at.
const BASES: usize = 16;
const MANY: usize = 64;

/// So many stores around a place are compared with one.
const NEAR: usize = 64;

/// The bytes of the largest store.
const LARGEST: i64 = 32;

/// At most one of each base address in a basic block.
pub fn overlaps(function: &FunctionContext<'_, '_>) -> Vec<Overlap> {
    search(function).unwrap_or_default()
}

/// Stores that stand in one basic block, each with its constant.
struct Part<'f> {
    stores: Vec<(i64, &'f SharedAccess)>,
    of: Linear,
    block: BlockId,
}

impl Part<'_> {
    fn stride(&self) -> i64 {
        self.of.coefficient(Term::Special(SpecialRegister::TidX))
    }

    /// From the first byte to behind the last.
    fn bytes(&self) -> i64 {
        let ends = self.stores.iter();
        let end = ends.map(|(at, of)| at + of.access.bytes as i64).max();
        let first = self.stores.iter().map(|(at, _)| *at).min();
        end.unwrap_or(0) - first.unwrap_or(0)
    }

    /// Two different stores that meet, one of a thread and one of the next.
    fn meeting(&mut self) -> Option<[SharedAccess; 2]> {
        if self.bytes() <= self.stride().abs() {
            return None;
        }
        self.stores.sort_unstable_by_key(|(at, of)| (*at, of.id));
        self.stores.iter().find_map(|(at, of)| {
            // Where the next thread's store has to stand for that.
            let (first, end) = (at - self.stride() - LARGEST, at - self.stride());
            let from = self.stores.partition_point(|(at, _)| *at <= first);
            let mut near = self.stores[from..].iter().take(NEAR);
            let next = near.find(|(next_at, next)| {
                of.id != next.id
                    && *next_at < end + of.access.bytes as i64
                    && end < next_at + next.access.bytes as i64
            });
            next.map(|(_, next)| [**of, **next])
        })
    }
}

fn search(function: &FunctionContext<'_, '_>) -> Option<Vec<Overlap>> {
    if function.function.kind != FunctionKind::Entry {
        return None;
    }
    let flow = function.flow()?;
    let mut meeting: Vec<_> = parts(function, flow)
        .into_iter()
        .filter_map(|mut part| Some((part.meeting()?, part)))
        .collect();
    meeting.truncate(MANY);
    if meeting.is_empty() {
        return None;
    }
    let (loops, orders) = (function.loops()?, Orders::of_function(function)?);
    let shape = Block::of(function).usual();
    let threads = shape.0[0].min(WARP) as usize;
    let evaluator = Evaluator::new(function, flow, loops, shape, STEPS);
    let mut search = Search::new(&orders, &[], evaluator);
    let mut found = Vec::new();
    for ([store, next], part) in meeting {
        let mut between = flow.graph.blocks[part.block.index()].steps();
        if between.any(|id| orders.of(id) != Order::None) {
            continue;
        }
        search.evaluator.budget = STEPS;
        let (Some((symbols, one)), Some((others, other))) =
            (search.first_instance(store), search.first_instance(next))
        else {
            continue;
        };
        let meet = |thread: &usize| meet(&search, (&one, thread - 1), (&other, *thread));
        let next_thread = (1..threads).find(meet).filter(|_| symbols == others);
        found.extend(next_thread.map(|next_thread| Overlap {
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
fn parts<'f>(function: &'f FunctionContext<'_, '_>, flow: &Flow<'_, '_>) -> Vec<Part<'f>> {
    let mut parts: Vec<Part<'_>> = Vec::new();
    // Those of one block stand together.
    let mut here = 0;
    for of in function.global_accesses() {
        if of.access.kind != AccessKind::Store || of.strong || of.guard.is_some() {
            continue;
        }
        let Some(mut linear) = function.linear(of.access.address) else {
            continue;
        };
        let stride = linear.coefficient(Term::Special(SpecialRegister::TidX));
        let at = std::mem::take(&mut linear.constant);
        if stride == 0
            || [stride, at]
                .iter()
                .any(|number| !(-FAR..=FAR).contains(number))
        {
            continue;
        }
        let block = flow.graph.block_of(of.id);
        if parts.last().is_some_and(|part| part.block != block) {
            here = parts.len();
        }
        let mut last = parts[here..].iter_mut().rev().take(BASES);
        match last.find(|part| part.of == linear) {
            Some(part) => part.stores.push((at, of)),
            None => parts.push(Part {
                stores: vec![(at, of)],
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
