//! Software prefetching: what the next block loads, while this one runs, and narrow values in loops.
//!
//! In a kernel with barriers, a block loads what it needs at its start, and then nothing for longer than
//! the processor looks ahead: at the start of the next block it would wait.
//!
//! Groups that load values of 8 or 16 bits in a loop do much with each cache line, lane by lane, and
//! by as many instructions. Processors do not see that as one sequence.

use std::collections::HashMap;

use cranelift_codegen::ir::{InstBuilder, types};

use super::checked_address::CheckedAddress;
use super::emitter::Emitter;
use super::memory::{Space, space_of};
use super::streaming::LINE;
use super::{wide, wide_call};
use crate::abi::offset;
use crate::program::{
    Arg, Base, BlockId, Distance, Instruction, Program, Reg, Step, Terminator, distances,
};
use analysis::control_flow::Loops;
use ptx::isa::Effect;
use ptx::names::{Modifier as M, Opcode as O};

/// How far ahead of a narrow load in a loop is prefetched.
const AHEAD: Distance = Distance {
    fixed: 512,
    per_thread: 0,
};

/// The loads that prefetch, by their operands, and how far ahead.
pub(super) fn loads(program: &Program<'_>) -> HashMap<u32, Distance> {
    let Some(loops) = Loops::new(&program.graph()) else {
        return HashMap::new();
    };
    let mut found = of_next_block(program, &loops);
    found.extend(narrow(program, &loops).map(|i| (i.args.start, AHEAD)));
    found
}

/// The loads of a kernel with barriers that each block makes once, and how far the next block's are.
/// Those of a loop follow one another, as the processor expects.
fn of_next_block(program: &Program<'_>, loops: &Loops) -> HashMap<u32, Distance> {
    let has_barrier = program.blocks.iter().any(|block| match &block.terminator {
        Terminator::Sync { instruction, .. } => {
            matches!(instruction.opcode, O::Bar | O::Barrier) && !instruction.modifiers.has(M::Warp)
        }
        _ => false,
    });
    if !has_barrier {
        return HashMap::new();
    }
    let distances = distances(program);
    let found = global_loads(program, |at| loops.innermost(at).is_none());
    let found = found.filter_map(|(i, base)| {
        let distance = distances[base.index()]?;
        (distance != Distance::default()).then_some((i.args.start, distance))
    });
    found.collect()
}

/// The loads of 8 and 16 bits in loops.
fn narrow<'p>(program: &'p Program<'_>, loops: &'p Loops) -> impl Iterator<Item = &'p Instruction> {
    let found = global_loads(program, |at| loops.innermost(at).is_some());
    let is_narrow = |i: &Instruction| i.modifiers.types().next().is_some_and(|ty| ty.bits() <= 16);
    found.map(|(i, _)| i).filter(move |i| is_narrow(i))
}

/// The loads by generic addresses in some blocks, and the registers that these are computed from.
fn global_loads<'p>(
    program: &'p Program<'_>,
    is_wanted: impl Fn(BlockId) -> bool + 'p,
) -> impl Iterator<Item = (&'p Instruction, Reg)> {
    let blocks = (0..).map(BlockId).zip(&program.blocks);
    let steps = blocks
        .filter(move |(at, _)| is_wanted(*at))
        .flat_map(|(_, block)| &block.steps);
    steps.filter_map(|step| {
        let Step::Instruction(i) = step else {
            return None;
        };
        let &[_, Arg::Address(Base::Reg(base), _)] = program.list(i.args) else {
            return None;
        };
        let is_load = i.meaning.effect == Effect::Load && space_of(i) == Space::Generic;
        is_load.then_some((i, base))
    })
}

/// Has a function prefetch what a later group loads.
pub(super) fn emit(e: &mut Emitter<'_, '_>, i: &Instruction, at: CheckedAddress, bytes: u32) {
    let Some(&Distance { fixed, per_thread }) = e.prefetched.get(&i.args.start) else {
        return;
    };
    let mut ahead = e.add_offset(at.address, i64::from(at.offset).wrapping_add(fixed));
    if per_thread != 0 {
        let threads = e.field(types::I32, offset::BLOCK_DIM);
        let threads = e.b.ins().uextend(types::I64, threads);
        let by = e.b.ins().imul_imm_s(threads, per_thread);
        ahead = e.b.ins().iadd(ahead, by);
    }
    let lines = u64::from(bytes).div_ceil(LINE) as u32;
    wide_call::call_preserving(e, wide::prefetch(lines), &[ahead]);
}
