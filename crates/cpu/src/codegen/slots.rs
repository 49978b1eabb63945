//! Slots: the saved registers of suspended threads.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, MemFlagsData, Type, Value, types};

use super::emitter::{Emitter, READONLY, type_of};
use super::lane_set::{LaneSet, vector_type, vectors};
use super::resume::{ResumePlan, ResumePoint};
use super::slot_address::Slots;
use crate::abi::{SLOT_BYTES, WARP_SIZE, offset};
use crate::program::{Reg, RegClass, Uniformity};

impl Slots {
    /// The slots of the warp of a thread.
    pub fn of(e: &mut Emitter<'_, '_>, plan: &ResumePlan, thread: Value) -> Slots {
        let start = of_warp(e, plan, thread);
        let mask = e.scalar_int(types::I32, u64::from(WARP_SIZE - 1));
        let lane = e.b.ins().band(thread, mask);
        let lane = e.b.ins().uextend(types::I64, lane);
        let first = [2, 3].map(|shift| {
            let shift = e.scalar_int(types::I32, shift);
            let at = e.b.ins().ishl(lane, shift);
            e.b.ins().iadd(start, at)
        });
        let distance = [0; 2];
        Slots { first, distance }
    }

    /// Those of the current thread.
    pub fn new(e: &mut Emitter<'_, '_>, plan: &ResumePlan) -> Slots {
        if let Some(known) = e.group_slots {
            return known;
        }
        let thread = e.thread_index();
        Slots::of(e, plan, thread)
    }
}

/// The address of the slots of a thread's warp.
pub(super) fn of_warp(e: &mut Emitter<'_, '_>, plan: &ResumePlan, thread: Value) -> Value {
    let slots = e.context_word(offset::SLOTS);
    let shift = e.scalar_int(types::I32, WARP_SIZE.trailing_zeros().into());
    let warp = e.b.ins().ushr(thread, shift);
    let warp = e.b.ins().uextend(types::I64, warp);
    let bytes = i64::from(plan.slot_count) * i64::from(SLOT_BYTES);
    let start = e.b.ins().imul_imm_s(warp, bytes);
    e.b.ins().iadd(slots, start)
}

/// Saves registers of the thread, or of all threads of the lane group.
pub(super) fn save(e: &mut Emitter<'_, '_>, plan: &ResumePlan, registers: &[Reg]) {
    let flags = MemFlagsData::trusted();
    if registers.is_empty() {
        return;
    }
    e.splats.clear();
    let slots = Slots::new(e, plan);
    for &reg in registers {
        let Some(slot) = plan.slots[reg.index()] else {
            continue;
        };
        let class = e.program.registers[reg.index()];
        let (at, offset) = slots.at(slot, class);
        let saved_type = slot_type(class);
        if e.width > 1 && plan.strides[reg.index()].is_some() {
            // Its other lanes follow from the first.
            let value = e.register(reg);
            let value = e.coerce(value, saved_type);
            e.b.ins().store(flags, value, at, offset);
            continue;
        }
        for (n, lane) in vectors(e.width, class).enumerate() {
            e.lane_set = lane;
            let mut value = e.register(reg);
            if class == RegClass::Pred && lane != LaneSet::Scalar {
                let one = e.int(types::I32, 1);
                value = e.b.ins().band(value, one);
            }
            let value = e.coerce(value, saved_type);
            e.b.ins().store(flags, value, at, offset + 16 * n as i32);
        }
        e.lane_set = LaneSet::Scalar;
    }
    e.splats.clear();
}

/// Writes the slots of all lanes of a group that the vector function has suspended, where it
/// wrote those of the first lane alone. The scalar function then has what it needs to resume
/// any of them. `first` is the group's first thread.
pub(super) fn unpack(e: &mut Emitter<'_, '_>, plan: &ResumePlan, first: Value) {
    let flags = MemFlagsData::trusted();
    let slots = Slots::of(e, plan, first);
    let lane = e.b.declare_var(types::I64);
    let one = e.scalar_int(types::I64, 1);
    e.b.def_var(lane, one);
    let body = e.b.create_block();
    let done = e.b.create_block();
    e.b.ins().jump(body, &[]);
    e.b.switch_to_block(body);
    let number = e.b.use_var(lane);
    for (index, &stride) in plan.strides.iter().enumerate() {
        let (Some(stride), Some(slot)) = (stride, plan.slots[index]) else {
            continue;
        };
        let class = e.program.registers[index];
        let (at, offset) = slots.at(slot, class);
        let ty = slot_type(class);
        let mut value = e.b.ins().load(ty, flags, at, offset);
        if stride != 0 {
            let distance = e.b.ins().imul_imm_s(number, stride);
            let distance = e.coerce(distance, ty);
            value = e.b.ins().iadd(value, distance);
        }
        let shift = e.scalar_int(types::I32, if ty.bytes() == 8 { 3 } else { 2 });
        let distance = e.b.ins().ishl(number, shift);
        let at = e.b.ins().iadd(at, distance);
        e.b.ins().store(flags, value, at, offset);
    }
    let next = e.add_offset(number, 1);
    e.b.def_var(lane, next);
    let more = e.icmp_imm(IntCC::UnsignedLessThan, next, plan.group.into());
    e.b.ins().brif(more, body, &[], done, &[]);
    e.b.switch_to_block(done);
}

fn slot_type(class: RegClass) -> Type {
    match class {
        RegClass::Pred | RegClass::I16 => types::I32,
        _ => type_of(class),
    }
}

/// Whether threads, the first lanes of groups, have saved the same in these registers, and the slots
/// of the other lanes follow from theirs.
pub(super) fn saved_alike(
    e: &mut Emitter<'_, '_>,
    plan: &ResumePlan,
    registers: &[Reg],
    threads: &[Slots],
) -> Value {
    let mut differences = [types::I32, types::I64].map(|ty| e.scalar_int(ty, 0));
    let mut compare = |e: &mut Emitter<'_, '_>, ty: Type, one: Value, other: Value| {
        let difference = e.b.ins().bxor(one, other);
        let all = &mut differences[usize::from(ty == types::I64)];
        *all = e.b.ins().bor(*all, difference);
    };
    let load = |e: &mut Emitter<'_, '_>, ty: Type, (at, offset): (Value, i32)| {
        e.b.ins().load(ty, MemFlagsData::trusted(), at, offset)
    };
    if let Some(slot) = plan.packed_slot {
        let packed = e.scalar_int(types::I32, 1);
        for thread in threads {
            let flag = load(e, types::I32, thread.at(slot, RegClass::I32));
            compare(e, types::I32, flag, packed);
        }
    }
    for &reg in registers {
        let (Some(slot), Some((first, others))) = (plan.slots[reg.index()], threads.split_first())
        else {
            continue;
        };
        let class = e.program.registers[reg.index()];
        let ty = slot_type(class).as_int();
        let first = load(e, ty, first.at(slot, class));
        for other in others {
            let other = load(e, ty, other.at(slot, class));
            compare(e, ty, first, other);
        }
    }
    let [words, doubles] = differences.map(|all| e.icmp_imm(IntCC::Equal, all, 0));
    e.b.ins().band(words, doubles)
}

/// Restores these registers.
pub(super) fn reload(e: &mut Emitter<'_, '_>, plan: &ResumePlan, registers: &[Reg]) {
    reload_but(e, plan, registers, &[]);
}

/// Restores the registers that a thread has when it resumes.
pub(super) fn reload_at(e: &mut Emitter<'_, '_>, plan: &ResumePlan, point: &ResumePoint) {
    reload_but(e, plan, &point.reload, &point.steady);
}

/// Restores these registers, some of which are not saved again before all uses of their values.
fn reload_but(e: &mut Emitter<'_, '_>, plan: &ResumePlan, registers: &[Reg], steady: &[Reg]) {
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
        // The optimizer moves the load to where the value is used.
        let is_steady = plan.fixed[reg.index()] || steady.binary_search(&reg).is_ok();
        let flags = match e.width > 1 && is_steady {
            true => READONLY,
            false => MemFlagsData::trusted(),
        };
        if e.locations[reg.index()].uniformity != Uniformity::Divergent {
            let value = e.b.ins().load(slot_type(class), flags, at, offset);
            let value = e.coerce(value, type_of(class));
            let variable = e.locations[reg.index()].variables[0];
            e.b.def_var(variable, value);
            continue;
        }
        for n in 0..e.locations[reg.index()].variables.len() {
            let piece = vector_type(class);
            let mut value = e.b.ins().load(piece, flags, at, offset + 16 * n as i32);
            if class == RegClass::Pred {
                // 0 and 1 become masks.
                value = e.b.ins().ineg(value);
            }
            let variable = e.locations[reg.index()].variables[n];
            e.b.def_var(variable, value);
        }
    }
}
