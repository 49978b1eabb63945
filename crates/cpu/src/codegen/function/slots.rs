//! Slots: the saved registers of suspended threads.

use cranelift_codegen::ir::{InstBuilder, MemFlagsData, Type, Value, types};

use super::resume::ResumePlan;
use crate::abi::{SLOT_BYTES, WARP_SIZE, offset};
use crate::codegen::emitter::{Emitter, type_of};
use crate::program::{Reg, RegClass};

const TRUSTED: MemFlagsData = MemFlagsData::trusted();

/// The host addresses of the current thread's values in slot 0: with 4 and with 8 bytes. Those of other
/// slots are at constant distances.
struct Slots([Value; 2]);

impl Slots {
    fn new(e: &mut Emitter<'_, '_>, plan: &ResumePlan) -> Slots {
        let thread = e.thread_index();
        let slots = e.context_word(offset::SLOTS);
        let shift = e.int(types::I32, WARP_SIZE.trailing_zeros().into());
        let warp = e.b.ins().ushr(thread, shift);
        let warp = e.b.ins().uextend(types::I64, warp);
        let bytes = i64::from(plan.slot_count) * i64::from(SLOT_BYTES);
        let start = e.b.ins().imul_imm_s(warp, bytes);
        let start = e.b.ins().iadd(slots, start);
        let mask = e.int(types::I32, u64::from(WARP_SIZE - 1));
        let lane = e.b.ins().band(thread, mask);
        let lane = e.b.ins().uextend(types::I64, lane);
        Slots([2, 3].map(|shift| {
            let shift = e.int(types::I32, shift);
            let at = e.b.ins().ishl(lane, shift);
            e.b.ins().iadd(start, at)
        }))
    }

    /// Where a slot has a value of this class: an address and an offset.
    fn at(&self, slot: u32, class: RegClass) -> (Value, i32) {
        let size = usize::from(class.bytes() == 8);
        (self.0[size], (slot * SLOT_BYTES).cast_signed())
    }
}

/// Saves registers of the thread.
pub(in crate::codegen) fn save(e: &mut Emitter<'_, '_>, plan: &ResumePlan, registers: &[Reg]) {
    if registers.is_empty() {
        return;
    }
    let slots = Slots::new(e, plan);
    for &reg in registers {
        let Some(slot) = plan.slots[reg.index()] else {
            continue;
        };
        let class = e.program.registers[reg.index()];
        let (at, offset) = slots.at(slot, class);
        let value = e.register(reg);
        let value = e.coerce(value, slot_type(class));
        e.b.ins().store(TRUSTED, value, at, offset);
    }
}

fn slot_type(class: RegClass) -> Type {
    match class {
        RegClass::Pred | RegClass::I16 => types::I32,
        _ => type_of(class),
    }
}

/// Restores these registers.
pub(in crate::codegen) fn reload(e: &mut Emitter<'_, '_>, plan: &ResumePlan, registers: &[Reg]) {
    if registers.is_empty() {
        return;
    }
    let slots = Slots::new(e, plan);
    for &reg in registers {
        let Some(slot) = plan.slots[reg.index()] else {
            continue;
        };
        let class = e.program.registers[reg.index()];
        let (at, offset) = slots.at(slot, class);
        let value = e.b.ins().load(slot_type(class), TRUSTED, at, offset);
        e.set_register(reg, value);
    }
}
