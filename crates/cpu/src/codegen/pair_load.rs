//! Loads of two halves by each lane: a lane loads one word, and vectors of words are taken apart.
//! Loads from the same addresses take turns, so that a lane's address is used at once.

use cranelift_codegen::ir::{InstBuilder, Value, types};

use super::emitter::{EmitResult, Emitter};
use super::group_check;
use super::lane_set::LaneSet;
use super::strided_load::is_plain;
use super::vectorize::{Lowering, lowering};
use crate::program::{Arg, Base, Instruction, Reg, RegClass, Step};
use ptx::names::Type as P;

/// The loads of pairs at one register that these steps start with.
pub(super) fn find<'s>(e: &Emitter<'_, '_>, steps: &[&'s Step]) -> Vec<&'s Instruction> {
    let mut found: Vec<&Instruction> = Vec::new();
    let mut base = None;
    for step in steps {
        let Step::Instruction(i) = step else { break };
        match pair(e, i) {
            Some((reg, _)) if base.is_none_or(|base| base == reg) => {
                let uniformity_of = |reg: Reg| e.locations[reg.index()].uniformity;
                if lowering(e.program, &uniformity_of, step, e.has_fma) != Lowering::Scalarized {
                    break;
                }
                base = Some(reg);
                found.push(i);
            }
            _ => break,
        }
    }
    found
}

/// The register with the address of a load of a pair, and the registers that it writes.
fn pair(e: &Emitter<'_, '_>, i: &Instruction) -> Option<(Reg, [Arg; 2])> {
    let &[Arg::List(list), Arg::Address(Base::Reg(base), _)] = e.program.list(i.args) else {
        return None;
    };
    let &[low, high] = e.program.list(list) else {
        return None;
    };
    let is_half = |arg: Arg| match arg {
        Arg::Reg(reg) => e.program.registers[reg.index()] == RegClass::I16,
        arg => arg == Arg::Sink,
    };
    let ty = i.modifiers.types().next()?;
    let is_pair = matches!(ty, P::B16 | P::U16 | P::S16) && is_half(low) && is_half(high);
    (is_pair && is_plain(e, i)).then_some((base, [low, high]))
}

/// Emits such loads, if all lanes of each can be checked at once.
pub(super) fn emit(e: &mut Emitter<'_, '_>, loads: &[&Instruction]) -> EmitResult<bool> {
    let mut checked = Vec::with_capacity(loads.len());
    for i in loads {
        e.line = i.line;
        e.splats.clear();
        group_check::emit(e, i)?;
        checked.push(e.group_checked.take());
    }
    if loads.is_empty() || checked.iter().any(Option::is_none) {
        return Ok(false);
    }
    for n in 0..e.width / 4 {
        for (i, checked) in loads.iter().zip(&mut checked) {
            e.group_checked = checked.take();
            let emitted = words(e, i, n);
            *checked = e.group_checked.take();
            emitted?;
        }
    }
    e.lane_set = LaneSet::Scalar;
    Ok(true)
}

/// The vector with the number `n` of the results of a load.
fn words(e: &mut Emitter<'_, '_>, i: &Instruction, n: u32) -> EmitResult<()> {
    let Some((_, halves)) = pair(e, i) else {
        return Ok(());
    };
    e.set_guard(None);
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
    let Some(words) = words else { return Ok(()) };
    // Kept as a vector: the optimizer would keep the loaded words instead, and put them together
    // where each half is used.
    let slot = e.spilled(&[words]);
    let words = e.unspilled(types::I32X4, slot, 0);
    e.lane_set = LaneSet::Vector(n);
    e.splats.clear();
    let mask = e.int(types::I32, 0xFFFF);
    let shift = e.scalar_int(types::I32, 16);
    let parts = [e.b.ins().band(words, mask), e.b.ins().ushr(words, shift)];
    for (to, part) in halves.into_iter().zip(parts) {
        e.write(i, to, part)?;
    }
    Ok(())
}
