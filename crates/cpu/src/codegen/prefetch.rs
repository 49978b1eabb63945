//! Software prefetching: what the next block loads, while this one runs.
//!
//! In a kernel with barriers, a block loads what it needs at its start, and then nothing for longer than
//! the processor looks ahead: at the start of the next block it would wait.

use std::collections::HashMap;

use cranelift_codegen::ir::{InstBuilder, types};

use super::checked_address::CheckedAddress;
use super::emitter::Emitter;
use super::memory::{Space, space_of};
use super::streaming::LINE;
use super::{wide, wide_call};
use crate::abi::offset;
use crate::program::{
    Arg, Base, BlockId, Distance, Instruction, Program, Step, Terminator, distances,
};
use analysis::control_flow::Loops;
use ptx::isa::Effect;
use ptx::names::{Modifier as M, Opcode as O};

/// The loads of a kernel with barriers that each block makes once, by their operands, and how far the
/// next block's are. Those of a loop follow one another, as the processor expects.
pub(super) fn loads(program: &Program<'_>) -> HashMap<u32, Distance> {
    let has_barrier = program.blocks.iter().any(|block| match &block.terminator {
        Terminator::Sync { instruction, .. } => {
            matches!(instruction.opcode, O::Bar | O::Barrier) && !instruction.modifiers.has(M::Warp)
        }
        _ => false,
    });
    let loops = has_barrier.then(|| Loops::new(&program.graph())).flatten();
    let Some(loops) = loops else {
        return HashMap::new();
    };
    let distances = distances(program);
    let blocks = (0..).map(BlockId).zip(&program.blocks);
    let steps = blocks
        .filter(|(at, _)| loops.innermost(*at).is_none())
        .flat_map(|(_, block)| &block.steps);
    let found = steps.filter_map(|step| {
        let Step::Instruction(i) = step else {
            return None;
        };
        let &[_, Arg::Address(Base::Reg(base), _)] = program.list(i.args) else {
            return None;
        };
        let is_load = i.meaning.effect == Effect::Load && space_of(i) == Space::Generic;
        let distance = distances[base.index()].filter(|_| is_load)?;
        (distance != Distance::default()).then_some((i.args.start, distance))
    });
    found.collect()
}

/// Has a function prefetch what the same group of the next block loads.
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
    wide_call::call_function(e, wide::prefetch(lines), &[ahead]);
}
