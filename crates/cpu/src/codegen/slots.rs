//! The registers of suspended threads, in memory.

use cranelift_codegen::ir::{InstBuilder, MemFlagsData, Type, Value, types};

use super::emitter::{Emitter, FIXED, Lane, type_of};
use super::function::thread_offset;
use super::lanes;
use super::plan::{Plan, Stop};
use crate::block::offset;
use crate::program::{Class, Reg, Shape};

/// Bytes of a slot: as many for each thread, side by side.
fn slot_bytes(class: Class) -> u32 {
    if class.bytes() == 8 { 8 } else { 4 }
}

/// Finds slots one after the other with few instructions.
pub(super) struct SlotWalk {
    /// The threads' values of the slot that was found last begin here.
    row: Value,
    slot: u32,
    stride: Value,
    /// The (first) thread's place among values of 4 and of 8 bytes.
    places: [Value; 2],
}

impl SlotWalk {
    pub fn new(e: &mut Emitter<'_, '_>) -> SlotWalk {
        let context = e.fixed.context;
        let row = e.b.ins().load(types::I64, FIXED, context, offset::SLOTS);
        let stride =
            e.b.ins()
                .load(types::I64, FIXED, context, offset::SLOT_STRIDE);
        let places = [thread_offset(e, 4), thread_offset(e, 8)];
        SlotWalk {
            row,
            slot: 0,
            stride,
            places,
        }
    }

    /// The address of the (first) thread's value in a slot.
    pub fn find(&mut self, e: &mut Emitter<'_, '_>, slot: u32, bytes: u32) -> Value {
        let distance = i64::from(slot) - i64::from(self.slot);
        if distance != 0 {
            let step = match distance {
                1 => self.stride,
                _ => e.b.ins().imul_imm_s(self.stride, distance),
            };
            self.row = e.b.ins().iadd(self.row, step);
            self.slot = slot;
        }
        let place = self.places[usize::from(bytes == 8)];
        e.b.ins().iadd(self.row, place)
    }
}

/// Stores what the thread, or each of the group, keeps.
pub(super) fn save(e: &mut Emitter<'_, '_>, plan: &Plan, kept: &[Reg]) {
    let flags = MemFlagsData::trusted();
    if kept.is_empty() {
        return;
    }
    e.spreads.clear();
    let mut walk = SlotWalk::new(e);
    for &reg in kept {
        let Some(slot) = plan.slots[reg.index()] else {
            continue;
        };
        let class = e.program.registers[reg.index()];
        let at = walk.find(e, slot, slot_bytes(class));
        let held = slot_type(class);
        for (n, lane) in lanes::pieces(e.width, class).enumerate() {
            e.lane = lane;
            let mut value = e.register(reg);
            if class == Class::Pred && lane != Lane::Whole {
                let one = e.int(types::I32, 1);
                value = e.b.ins().band(value, one);
            }
            let value = e.reshape(value, held);
            e.b.ins().store(flags, value, at, 16 * n as i32);
        }
        e.lane = Lane::Whole;
    }
    e.spreads.clear();
}

fn slot_type(class: Class) -> Type {
    match class {
        Class::Pred | Class::I16 => types::I32,
        _ => type_of(class),
    }
}

pub(super) fn reload(e: &mut Emitter<'_, '_>, plan: &Plan, stop: &Stop) {
    let flags = MemFlagsData::trusted();
    if stop.needed.is_empty() {
        return;
    }
    let mut walk = SlotWalk::new(e);
    for &reg in &stop.needed {
        let Some(slot) = plan.slots[reg.index()] else {
            continue;
        };
        let class = e.program.registers[reg.index()];
        let at = walk.find(e, slot, slot_bytes(class));
        if e.homes[reg.index()].shape != Shape::Varying {
            let value = e.b.ins().load(slot_type(class), flags, at, 0);
            let value = e.reshape(value, type_of(class));
            let variable = e.homes[reg.index()].variables[0];
            e.b.def_var(variable, value);
            continue;
        }
        for n in 0..e.homes[reg.index()].variables.len() {
            let piece = lanes::piece_type(class);
            let mut value = e.b.ins().load(piece, flags, at, 16 * n as i32);
            if class == Class::Pred {
                // Ones and zeros become masks.
                value = e.b.ins().ineg(value);
            }
            let variable = e.homes[reg.index()].variables[n];
            e.b.def_var(variable, value);
        }
    }
}
