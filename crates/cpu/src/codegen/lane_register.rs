//! Registers of a lane group in a loop over its lanes.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{
    InstBuilder, MemFlagsData, StackSlotData, StackSlotKind, Value, types,
};

use super::emitter::{Emitter, type_of};
use super::lane_set::vector_type;
use crate::program::{Reg, RegClass, Uniformity};

/// Of the values of lanes on the stack.
const FLAGS: MemFlagsData = MemFlagsData::trusted();

/// A register of which a loop over lanes takes one lane after the other.
pub(super) struct LaneRegister {
    pub reg: Reg,
    class: RegClass,
    pub is_written: bool,
    /// The value of the first lane, if the others follow from it, and the address of the lanes'
    /// values otherwise.
    start: Value,
    uniformity: Uniformity,
}

impl LaneRegister {
    /// Stores the lanes on the stack, before the loop. `number` selects the stack slot. Without
    /// `is_read`, the current value is not used: using it would keep it alive in an enclosing loop.
    pub fn new(
        e: &mut Emitter<'_, '_>,
        number: usize,
        reg: Reg,
        (is_read, is_written): (bool, bool),
    ) -> LaneRegister {
        let of_lanes = LaneRegister::stored(e, number, reg, (is_read, is_written));
        if of_lanes.uniformity == Uniformity::Divergent && is_read {
            for n in 0..e.locations[reg.index()].variables.len() {
                let variable = e.locations[reg.index()].variables[n];
                let value = e.b.use_var(variable);
                e.b.ins().store(FLAGS, value, of_lanes.start, 16 * n as i32);
            }
        }
        of_lanes
    }

    /// The same for a register whose lanes are on the stack already.
    pub fn stored(
        e: &mut Emitter<'_, '_>,
        number: usize,
        reg: Reg,
        (is_read, is_written): (bool, bool),
    ) -> LaneRegister {
        let class = e.program.registers[reg.index()];
        let uniformity = e.locations[reg.index()].uniformity;
        let start = match uniformity {
            Uniformity::Divergent => {
                while e.lane_slots.len() <= number {
                    let data = StackSlotData::new(StackSlotKind::ExplicitSlot, 8 * e.width, 4);
                    e.lane_slots.push(e.b.create_sized_stack_slot(data));
                }
                let slot = e.lane_slots[number];
                e.b.ins().stack_addr(types::I64, slot, 0)
            }
            _ if !is_read => e.zero(type_of(class)),
            _ => e.register(reg),
        };
        LaneRegister {
            reg,
            class,
            is_written,
            start,
            uniformity,
        }
    }

    fn place(&self, e: &mut Emitter<'_, '_>, lane: Value) -> Value {
        let size = vector_type(self.class).lane_type().bytes();
        let shift = e.scalar_int(types::I32, size.trailing_zeros().into());
        let distance = e.b.ins().ishl(lane, shift);
        e.b.ins().iadd(self.start, distance)
    }

    /// The value of a lane.
    pub fn read(&self, e: &mut Emitter<'_, '_>, lane: Value) -> Value {
        match self.uniformity {
            Uniformity::Uniform => self.start,
            Uniformity::Affine(stride) => {
                let distance = e.b.ins().imul_imm_s(lane, stride);
                let distance = e.coerce(distance, type_of(self.class));
                e.b.ins().iadd(self.start, distance)
            }
            Uniformity::Divergent => {
                let at = self.place(e, lane);
                let ty = vector_type(self.class).lane_type();
                let value = e.b.ins().load(ty, FLAGS, at, 0);
                match self.class {
                    RegClass::Pred => e.icmp_imm(IntCC::NotEqual, value, 0),
                    RegClass::I16 => e.b.ins().ireduce(types::I16, value),
                    _ => value,
                }
            }
        }
    }

    /// Writes the value of a lane.
    pub fn write(&self, e: &mut Emitter<'_, '_>, lane: Value, value: Value) {
        if self.uniformity != Uniformity::Divergent {
            return;
        }
        let value = match self.class {
            RegClass::Pred => {
                let wide = e.b.ins().uextend(types::I32, value);
                e.b.ins().ineg(wide)
            }
            RegClass::I16 => e.b.ins().uextend(types::I32, value),
            _ => value,
        };
        let at = self.place(e, lane);
        e.b.ins().store(FLAGS, value, at, 0);
    }

    /// After the loop.
    pub fn reload(&self, e: &mut Emitter<'_, '_>) {
        if self.uniformity != Uniformity::Divergent {
            return;
        }
        for n in 0..e.locations[self.reg.index()].variables.len() {
            let ty = vector_type(self.class);
            let value = e.b.ins().load(ty, FLAGS, self.start, 16 * n as i32);
            let variable = e.locations[self.reg.index()].variables[n];
            e.b.def_var(variable, value);
        }
    }
}
