//! Races between blocks of a grid: a thread of one and a thread of the next access the same
//! bytes of global memory, and one of them writes. No barrier of the block orders them.

use super::context::FunctionContext;
use super::evaluate::{Evaluator, Known};
use super::grid_accesses::{meeting, near};
use super::instructions::InstructionId;
use super::intervals::{Order, Orders};
use super::lanes::{Lanes, Shape, Sum, Symbols};
use super::launch::Block;
use super::memory::AccessKind;
use super::races::{Instance, Search};
use ptx::ast::FunctionKind;
use ptx::names::SpecialRegister;

/// Two accesses that threads of two blocks make at any time.
#[derive(Clone, Copy, Debug)]
pub struct GridRace {
    /// A store or an atomic.
    pub write: InstructionId,
    /// The other access.
    pub access: InstructionId,
    /// The threads, each in its block.
    pub threads: (u32, u32),
    /// The numbers of the blocks.
    pub blocks: (i64, i64),
    /// Which way the blocks are counted.
    pub register: SpecialRegister,
}

/// So much is worked out for each instruction of a function, and for small ones.
const STEPS_FOR_EACH: u64 = 20;
const STEPS: u64 = 100_000;

/// Neither block is the first one, which may have work of its own.
const PAIRS: [(i64, i64); 2] = [(1, 2), (2, 1)];

/// At most one of each access.
pub(crate) fn grid_races(function: &FunctionContext<'_, '_>) -> Vec<GridRace> {
    search(function).unwrap_or_default()
}

fn search(function: &FunctionContext<'_, '_>) -> Option<Vec<GridRace>> {
    if function.function.kind != FunctionKind::Entry {
        return None;
    }
    let ways = [
        SpecialRegister::CtaidX,
        SpecialRegister::CtaidY,
        SpecialRegister::CtaidZ,
    ];
    // Who never asks for its block may be the only one.
    let mut asked = ways.into_iter();
    let register = asked.find(|way| function.names_special(|register| register == *way))?;
    let flow = function.flow()?;
    let accesses = meeting(function, flow)?;
    let loops = function.loops()?;
    let shapes = match Block::of(function) {
        Block::Known(shape) => vec![shape],
        // The small ones are soon done, and few kernels have a race there.
        Block::Line => [1, 32, 64, 128, 256].map(|x| Shape([x, 1, 1])).to_vec(),
        Block::Plane(most) => [[1, 1, 1], [8, 8, 1], [16, 16, 1], [32, 8, 1]]
            .map(Shape)
            .into_iter()
            .filter(|shape| shape.threads() <= most)
            .collect(),
    };
    let budget = flow.instructions.steps.len() as u64 * STEPS_FOR_EACH + STEPS;
    let mut all: Option<Vec<GridRace>> = None;
    for shape in shapes {
        let mut evaluator = Evaluator::new(function, flow, loops, shape, budget);
        let near = near(&accesses, &mut evaluator, register, &PAIRS);
        if near.is_empty() {
            return None;
        }
        let orders = Orders::of_function(function)?;
        // An atomic or a fence may be how blocks wait for each other.
        let mut ids = flow.instructions.ids();
        if ids.any(|id| orders.of(id) == Order::Other) {
            return None;
        }
        let mut found = races(Search::new(&orders, &near, evaluator), register);
        if let Some(all) = all {
            found.retain(|race| all.iter().any(|known| known.access == race.access));
        }
        if found.is_empty() {
            return None;
        }
        all = Some(found);
    }
    all
}

/// An access as a block makes it: what is unknown of its address besides, and the rest.
struct InBlock {
    symbols: Symbols,
    of: Instance,
}

fn races(mut search: Search<'_, '_, '_>, register: SpecialRegister) -> Vec<GridRace> {
    let mut instances = Vec::new();
    for of in search.accesses {
        instances.extend(search.first_instance(*of));
    }
    let mut found = Vec::new();
    for (one, other) in PAIRS {
        let in_block = |number: i64| -> Vec<InBlock> {
            let instances = instances.iter();
            let known = instances.filter_map(|(symbols, of)| {
                in_block(&search.evaluator, symbols, of, register, number)
            });
            known.collect()
        };
        let (writes, accesses) = (in_block(one), in_block(other));
        for access in &accesses {
            let known = |race: &GridRace| race.access == access.of.of.id;
            if found.iter().any(known) {
                continue;
            }
            let writes = writes.iter().filter(|write| write.of.of.writes());
            for write in writes.filter(|write| write.symbols == access.symbols) {
                let Some(threads) = meet(&mut search, (write, one), (access, other), register)
                else {
                    continue;
                };
                found.push(GridRace {
                    write: write.of.of.id,
                    access: access.of.of.id,
                    threads,
                    blocks: (one, other),
                    register,
                });
                break;
            }
        }
    }
    found
}

fn in_block(
    evaluator: &Evaluator<'_, '_, '_>,
    symbols: &Symbols,
    of: &Instance,
    register: SpecialRegister,
    number: i64,
) -> Option<InBlock> {
    let (symbols, shift) = evaluator.in_block(symbols, register, number)?;
    let mut of = of.clone();
    of.offset = of.offset.plus(&Lanes::Same(shift));
    of.range = (of.range.0 + shift, of.range.1 + shift);
    if let Known::Sum(value) = of.value() {
        let value: Known = evaluator
            .in_block(&value.symbols, register, number)
            .map(|(symbols, shift)| Sum {
                symbols,
                lanes: value.lanes.plus(&Lanes::Same(shift)),
            })
            .into();
        of.value = value.into();
    }
    Some(InBlock { symbols, of })
}

/// A thread of one block that writes what a thread of another accesses.
fn meet(
    search: &mut Search<'_, '_, '_>,
    (write, one): (&InBlock, i64),
    (access, other): (&InBlock, i64),
    register: SpecialRegister,
) -> Option<(u32, u32)> {
    let (write, access) = (&write.of, &access.of);
    let apart = write.range.1 <= access.range.0 || access.range.1 <= write.range.0;
    if apart || !search.evaluator.spend(2) {
        return None;
    }
    let is_store = access.of.access.kind == AccessKind::Store;
    if is_store && (*write.value() == Known::Unknown || *access.value() == Known::Unknown) {
        return None;
    }
    let threads = 0..search.evaluator.shape.threads() as usize;
    let mut writers: Vec<_> = threads
        .clone()
        .filter(|thread| write.conditions.admits(*thread))
        .map(|thread| (write.offset.at(thread), thread))
        .collect();
    writers.sort_unstable();
    let mut come = threads.filter(|thread| access.conditions.admits(*thread));
    let found = come.find_map(|thread| {
        let end = access.offset.at(thread) + access.of.access.bytes as i64;
        let behind = writers.partition_point(|(start, _)| *start < end);
        let (_, writer) = *writers.get(behind.checked_sub(1)?)?;
        let alike = write.offset.same().is_some();
        let meets = search.clashes(write, writer, access, thread, alike)
            && write.conditions.agree_across(
                (writer, one),
                &access.conditions,
                (thread, other),
                &search.evaluator,
                register,
            );
        meets.then_some((writer, thread))
    })?;
    let (writer, thread) = found;
    search
        .matters(write, writer, access, thread)
        .then_some((writer as u32, thread as u32))
}
