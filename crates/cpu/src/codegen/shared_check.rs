//! Checks of accesses to shared memory, before they are made.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value, types};

use super::checked_address::InBounds;
use super::emitter::Emitter;
use super::lane_group;
use super::lane_set::LaneSet;
use super::resume::ResumePlan;
use crate::abi::offset;
use crate::program::{Arg, Base, BlockId, Storage};

/// Emits the checks of a block, whose accesses are in bounds then.
pub(super) fn emit(e: &mut Emitter<'_, '_>, plan: &ResumePlan, block: BlockId) {
    let checks = plan.together.blocks.get(block.index());
    let Some(state) = plan.divergence_state(block) else {
        return;
    };
    e.lane_set = LaneSet::Scalar;
    let mut good: Option<Value> = None;
    for check in checks.into_iter().flatten() {
        let base = e.register(check.base);
        let base = e.coerce(base, types::I64);
        let lowest = e.add_offset(base, check.lowest);
        let bytes = e.scalar_int(types::I64, (check.end - check.lowest).cast_unsigned());
        let inside = is_in_shared(e, lowest, bytes, check.align);
        good = Some(good.map_or(inside, |good| e.b.ins().band(good, inside)));
        let shared = e.context_word(offset::SHARED);
        let address = e.b.ins().iadd(shared, base);
        let accesses = check.accesses.iter();
        e.in_bounds
            .extend(accesses.map(|&(operands, distance)| InBounds {
                operands,
                address,
                distance,
                step: 0,
                is_unwritten: false,
            }));
    }
    if let Some(good) = good {
        lane_group::resume_scalar_unless(e, plan, good, state);
    }
    e.iteration = 0;
}

/// Whether so many bytes from an address on, which must be aligned, are in shared memory.
pub(super) fn is_in_shared(
    e: &mut Emitter<'_, '_>,
    lowest: Value,
    bytes: Value,
    align: u32,
) -> Value {
    // The number of places where they may start, in units of the alignment.
    let shift = e.scalar_int(types::I32, align.trailing_zeros().into());
    let named = |arg: &Arg| match arg {
        Arg::Symbol(storage, _) | Arg::Address(Base::Storage(storage), _) => {
            *storage == Storage::DynamicShared
        }
        _ => false,
    };
    // Constants are folded. What is behind the static part is out of bounds, in most cases.
    let size = match e.program.shared_bytes > 0 && !e.program.args.iter().any(named) {
        true => e.scalar_int(types::I64, e.program.shared_bytes.into()),
        false => e.context_word(offset::SHARED_SIZE),
    };
    let starts = e.b.ins().isub(size, bytes);
    let starts = e.b.ins().sshr(starts, shift);
    let starts = e.add_offset(starts, 1);
    let zero = e.scalar_int(types::I64, 0);
    let starts = e.b.ins().smax(starts, zero);
    let number = e.b.ins().rotr(lowest, shift);
    e.icmp(IntCC::UnsignedLessThan, number, starts)
}
