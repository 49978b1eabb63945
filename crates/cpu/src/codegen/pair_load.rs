//! Loads of two halves by each lane: a lane loads one word, and vectors of words are taken apart.

use cranelift_codegen::ir::{InstBuilder, Value, types};

use super::emitter::{EmitResult, Emitter};
use super::lane_set::LaneSet;
use super::strided_load::is_plain;
use crate::program::{Arg, Instruction, RegClass};
use ptx::names::Type as P;

/// Emits a load whose lanes have been checked at once, if it is such a one.
pub(super) fn emit(e: &mut Emitter<'_, '_>, i: &Instruction) -> EmitResult<bool> {
    let &[Arg::List(list), _] = e.program.list(i.args) else {
        return Ok(false);
    };
    let &[low, high] = e.program.list(list) else {
        return Ok(false);
    };
    let is_half = |arg: Arg| match arg {
        Arg::Reg(reg) => e.program.registers[reg.index()] == RegClass::I16,
        arg => arg == Arg::Sink,
    };
    let is_pair = matches!(e.ty(i, 0)?, P::B16 | P::U16 | P::S16) && is_half(low) && is_half(high);
    if e.group_checked.is_none() || !is_pair || !is_plain(e, i) {
        return Ok(false);
    }
    e.line = i.line;
    e.set_guard(None);
    for n in 0..e.width / 4 {
        let mut words: Option<Value> = None;
        for lane in 0..4 {
            e.lane_set = LaneSet::Lane(4 * n + lane);
            let at = e.checked_address(i, 1, 4, false)?;
            let flags = at.load_flags();
            let word = e.b.ins().load(types::I32, flags, at.address, at.offset);
            words = Some(match words {
                None => e.b.ins().splat(types::I32X4, word),
                Some(words) => e.b.ins().insertlane(words, word, lane as u8),
            });
        }
        e.lane_set = LaneSet::Vector(n);
        e.splats.clear();
        let Some(words) = words else { break };
        let mask = e.int(types::I32, 0xFFFF);
        let shift = e.scalar_int(types::I32, 16);
        let halves = [e.b.ins().band(words, mask), e.b.ins().ushr(words, shift)];
        for (to, half) in [low, high].into_iter().zip(halves) {
            e.write(i, to, half)?;
        }
    }
    e.lane_set = LaneSet::Scalar;
    Ok(true)
}
