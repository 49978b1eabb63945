//! Slots: the saved registers of suspended threads.

use cranelift_codegen::ir::{InstBuilder, MemFlagsData, Type, Value, types};

use super::emitter::{Emitter, READONLY, type_of};
use super::lane_set::{LaneSet, vector_type, vectors};
use super::resume::{ResumePlan, ResumePoint};
use super::thread_state::thread_offset;
use crate::abi::offset;
use crate::program::{Reg, RegClass, Uniformity};

/// Bytes of a thread's value in a slot. The values of all threads are contiguous.
fn slot_bytes(class: RegClass) -> u32 {
    if class.bytes() == 8 { 8 } else { 4 }
}

/// Computes the addresses of slots, each from the previous one.
pub(super) struct SlotCursor {
    /// Address of the current slot.
    base: Value,
    slot: u32,
    stride: Value,
    /// Offset of the thread, or of the group's first thread, in a slot with values of 4
    /// and of 8 bytes.
    offsets: [Value; 2],
}

impl SlotCursor {
    pub fn new(e: &mut Emitter<'_, '_>) -> SlotCursor {
        let context = e.fixed.context;
        let base = e.b.ins().load(types::I64, READONLY, context, offset::SLOTS);
        let stride =
            e.b.ins()
                .load(types::I64, READONLY, context, offset::SLOT_STRIDE);
        let offsets = [thread_offset(e, 4), thread_offset(e, 8)];
        SlotCursor {
            base,
            slot: 0,
            stride,
            offsets,
        }
    }

    /// The address of the value of the thread, or of the group's first thread.
    pub fn seek(&mut self, e: &mut Emitter<'_, '_>, slot: u32, bytes: u32) -> Value {
        let distance = i64::from(slot) - i64::from(self.slot);
        if distance != 0 {
            let step = match distance {
                1 => self.stride,
                _ => e.b.ins().imul_imm_s(self.stride, distance),
            };
            self.base = e.b.ins().iadd(self.base, step);
            self.slot = slot;
        }
        let offset_in_slot = self.offsets[usize::from(bytes == 8)];
        e.b.ins().iadd(self.base, offset_in_slot)
    }
}

/// Saves registers of the thread, or of all threads of the lane group.
pub(super) fn save(e: &mut Emitter<'_, '_>, plan: &ResumePlan, registers: &[Reg]) {
    let flags = MemFlagsData::trusted();
    if registers.is_empty() {
        return;
    }
    e.splats.clear();
    let mut cursor = SlotCursor::new(e);
    for &reg in registers {
        let Some(slot) = plan.slots[reg.index()] else {
            continue;
        };
        let class = e.program.registers[reg.index()];
        let at = cursor.seek(e, slot, slot_bytes(class));
        let saved_type = slot_type(class);
        for (n, lane) in vectors(e.width, class).enumerate() {
            e.lane_set = lane;
            let mut value = e.register(reg);
            if class == RegClass::Pred && lane != LaneSet::Scalar {
                let one = e.int(types::I32, 1);
                value = e.b.ins().band(value, one);
            }
            let value = e.coerce(value, saved_type);
            e.b.ins().store(flags, value, at, 16 * n as i32);
        }
        e.lane_set = LaneSet::Scalar;
    }
    e.splats.clear();
}

fn slot_type(class: RegClass) -> Type {
    match class {
        RegClass::Pred | RegClass::I16 => types::I32,
        _ => type_of(class),
    }
}

/// Restores the registers that a resume point reloads.
pub(super) fn reload(e: &mut Emitter<'_, '_>, plan: &ResumePlan, point: &ResumePoint) {
    let flags = MemFlagsData::trusted();
    if point.reload.is_empty() {
        return;
    }
    let mut cursor = SlotCursor::new(e);
    for &reg in &point.reload {
        let Some(slot) = plan.slots[reg.index()] else {
            continue;
        };
        let class = e.program.registers[reg.index()];
        let at = cursor.seek(e, slot, slot_bytes(class));
        if e.locations[reg.index()].uniformity != Uniformity::Divergent {
            let value = e.b.ins().load(slot_type(class), flags, at, 0);
            let value = e.coerce(value, type_of(class));
            let variable = e.locations[reg.index()].variables[0];
            e.b.def_var(variable, value);
            continue;
        }
        for n in 0..e.locations[reg.index()].variables.len() {
            let piece = vector_type(class);
            let mut value = e.b.ins().load(piece, flags, at, 16 * n as i32);
            if class == RegClass::Pred {
                // 0 and 1 become masks.
                value = e.b.ins().ineg(value);
            }
            let variable = e.locations[reg.index()].variables[n];
            e.b.def_var(variable, value);
        }
    }
}
