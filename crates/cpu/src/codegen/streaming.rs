//! Non-temporal stores, which go past the caches. They write whole lines, which need not be read first,
//! and nothing that is read again leaves the caches for them.
//!
//! They are not in order with other stores before a worker ends its part of a launch. So kernels have
//! none in which a thread tells another block what it has stored.

use crate::program::ByteOffset;
use std::collections::{HashMap, HashSet};

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, InstBuilder, Value, types};

use super::checked_address::CheckedAddress;
use super::emitter::Emitter;
use super::lane_set::{LaneSet, vectors};
use super::memory::{Space, space_of};
use super::{wide, wide_call};
use crate::abi::offset;
use crate::program::{
    Arg, Base, BlockId, Instruction, Program, Reg, RegisterSet, Step, Terminator,
};
use analysis::control_flow::{LoopId, Loops};
use ptx::isa::Effect;
use ptx::names::{Modifier as M, Opcode as O};

/// Bytes of a line, at which their addresses must start: a line that is written in parts takes longer
/// than in the caches.
pub(super) const LINE: u64 = 64;

/// The stores of a kernel that may go past the caches, by their operands, if it is known for each
/// register from which parameter its address comes. The kernel does not load from there: it would wait
/// for what it has just stored. Nor does it store to one place more than once.
pub(super) fn stores(program: &Program<'_>, pointers: &[Option<u32>]) -> HashSet<u32> {
    let mut found = HashSet::new();
    let Some(loops) = Loops::new(&program.graph()).filter(|_| is_possible(program)) else {
        return found;
    };
    let accesses = |effect: Effect| {
        let blocks = (0..).zip(&program.blocks);
        let steps = blocks.flat_map(|(at, block)| block.steps.iter().map(move |step| (at, step)));
        steps.filter_map(move |(at, step)| {
            let Step::Instruction(i) = step else {
                return None;
            };
            let place = program.list(i.args).iter().find_map(|arg| match *arg {
                Arg::Address(Base::Reg(base), offset) => Some((base, offset)),
                _ => None,
            });
            let is_generic = space_of(i) == Space::Generic && i.meaning.effect == effect;
            Some((BlockId(at), i, place?)).filter(|_| is_generic)
        })
    };
    let pointer = |base: Reg| pointers[base.index()];
    let loaded: HashSet<_> = accesses(Effect::Load)
        .map(|(.., (base, _))| pointer(base))
        .collect();
    let mut stored: HashMap<(Reg, ByteOffset), u32> = HashMap::new();
    for (.., place) in accesses(Effect::Store) {
        *stored.entry(place).or_default() += 1;
    }
    let mut written: HashMap<LoopId, RegisterSet> = HashMap::new();
    for (block, i, place) in accesses(Effect::Store) {
        let from = pointer(place.0);
        // What is loaded from an unknown place may be what was stored.
        let is_loaded = from.is_none() || loaded.contains(&from) || loaded.contains(&None);
        if is_loaded || stored.get(&place) != Some(&1) {
            continue;
        }
        let moves = |id: LoopId| {
            let written = written
                .entry(id)
                .or_insert_with(|| in_loop(program, &loops, id));
            written.contains(place.0)
        };
        if loops.innermost(block).is_none_or(moves) {
            found.insert(i.args.start);
        }
    }
    found
}

/// The registers that a loop writes.
fn in_loop(program: &Program<'_>, loops: &Loops, id: LoopId) -> RegisterSet {
    let mut written = RegisterSet::new(program.registers.len());
    let blocks = (0..).map(BlockId).zip(&program.blocks);
    for (_, block) in blocks.filter(|(at, _)| loops.contains(id, *at)) {
        for step in &block.steps {
            program.step_effects(step, &mut |_| {}, &mut |reg| written.insert(reg));
        }
    }
    written
}

/// Whether no thread of a kernel tells another block what it has stored.
fn is_possible(program: &Program<'_>) -> bool {
    program.blocks.iter().all(|block| {
        let joins = match &block.terminator {
            Terminator::Sync { instruction, .. } => stays_in_block(instruction),
            _ => true,
        };
        joins && block.steps.iter().all(is_unordered)
    })
}

fn is_unordered(step: &Step) -> bool {
    let orders = [M::Volatile, M::Relaxed, M::Acquire, M::Release, M::Mmio];
    match step {
        Step::Instruction(i) => {
            let effects = [Effect::Pure, Effect::Load, Effect::Store, Effect::Fetch];
            effects.contains(&i.meaning.effect) && i.modifiers.first_of(&orders).is_none()
        }
        Step::SystemCall { .. } => false,
    }
}

fn stays_in_block(i: &Instruction) -> bool {
    let is_known = matches!(i.opcode, O::Bar | O::Barrier | O::Shfl | O::Vote | O::Redux);
    is_known && !i.modifiers.has(M::Cluster)
}

/// Has a function store the lanes of a register side by side where they go past the caches, and goes on
/// at what is returned then. Continues where they do not; `None` if that is always so.
pub(super) fn emit(
    e: &mut Emitter<'_, '_>,
    i: &Instruction,
    (reg, at): (Reg, CheckedAddress),
) -> Option<Block> {
    let class = e.program.registers[reg.index()];
    let count = vectors(e.width, class).count() as u32;
    if !e.may_stream(i) || u64::from(16 * count) < LINE {
        return None;
    }
    let [cached, done] = [(); 2].map(|()| e.b.create_block());
    let to = e.add_offset(at.address, at.offset.into());
    require(e, [(i, to)], cached);
    let mut lanes = vectors(e.width, class);
    for first in (0..count).step_by(wide::MAX_STREAMED) {
        let mut arguments = vec![e.add_offset(to, i64::from(16 * first))];
        for lane in lanes.by_ref().take(wide::MAX_STREAMED) {
            e.lane_set = lane;
            arguments.push(e.register(reg));
        }
        e.lane_set = LaneSet::Scalar;
        let code = wide::stream_vectors(arguments.len() - 1);
        wide_call::call_preserving(e, code, &arguments);
    }
    e.splats.clear();
    e.b.ins().jump(done, &[]);
    e.enter(cached);
    Some(done)
}

/// Goes on where the grid and the allocations of these stores have more than the caches keep, and
/// their addresses are those of lines. Continues at `cached` otherwise.
pub(super) fn require<'i>(
    e: &mut Emitter<'_, '_>,
    stores: impl IntoIterator<Item = (&'i Instruction, Value)>,
    cached: Block,
) {
    let mut bits = e.scalar_int(types::I64, 0);
    let mut streams = None;
    let least = e.context_word(offset::STREAMED);
    for (i, address) in stores {
        bits = e.b.ins().bor(bits, address);
        let words = match e.program.list(i.args).first() {
            Some(&Arg::Address(Base::Reg(pointer), _)) => e.words_of(pointer),
            _ => None,
        };
        let large = match words {
            Some(words) => e.icmp(IntCC::UnsignedGreaterThanOrEqual, words, least),
            // It is not known to be.
            None => e.scalar_int(types::I8, 0),
        };
        streams = Some(match streams {
            Some(others) => e.b.ins().band(others, large),
            None => large,
        });
    }
    let mask = e.scalar_int(types::I64, LINE - 1);
    let misplaced = e.b.ins().band(bits, mask);
    let is_aligned = e.icmp_imm(IntCC::Equal, misplaced, 0);
    let streams = match streams {
        Some(large) => e.b.ins().band(is_aligned, large),
        None => e.scalar_int(types::I8, 0),
    };
    let ok = e.b.create_block();
    // What is spilled around the call is spilled there alone.
    e.b.set_cold_block(ok);
    e.b.ins().brif(streams, ok, &[], cached, &[]);
    e.enter(ok);
}
