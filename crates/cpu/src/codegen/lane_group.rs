//! The vector function: it runs a lane group of consecutive threads at a time.
//!
//! Uniform and affine values are computed once. Divergent values are computed in SIMD
//! vectors where there is an instruction, otherwise lane by lane. The group takes
//! every branch as a whole: where its threads diverge and the arms are not short enough
//! to be masked, their registers are saved and the scalar function resumes them.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, MemFlagsData, Value, types};

use super::arrival::continue_scalar;
use super::checked_address::CheckedAddress;
use super::emitter::{EmitResult, Emitter, LITTLE_ENDIAN, READONLY, is_signed, native, type_of};
use super::group_check;
use super::group_checked::{Addresses, GroupChecked};
use super::lane_set::{LaneSet, each_lane, lanes_per_vector, vector_type, vectors};
use super::memory::Space;
use super::prefetch;
use super::resume::ResumePlan;
use super::slot_address::Slots;
use super::slots::save;
use super::streaming;
use super::strided_load;
use super::thread_state::{set_state, thread_offset};
use super::vectorize::{Lowering, lowering};
use super::wrap_check;
use crate::abi::{Access, offset};
use crate::program::{
    Arg, Base, BlockId, Guard, Instruction, Program, Reg, RegClass, Step, Storage,
};
use ptx::names::{Modifier as M, Opcode as O, Type};

/// Emits a step for the lane group.
pub(super) fn step(e: &mut Emitter<'_, '_>, step: &Step) -> EmitResult<()> {
    let locations = std::mem::take(&mut e.locations);
    let lowering = lowering(
        e.program,
        &|reg: Reg| locations[reg.index()].uniformity,
        step,
        e.has_fma,
    );
    e.locations = locations;
    e.splats.clear();
    match (lowering, step) {
        (Lowering::Contiguous, Step::Instruction(i)) => {
            e.line = i.line;
            e.lane_set = LaneSet::Scalar;
            e.set_guard(None);
            match i.opcode {
                O::Cp => e.copy_async_contiguous(i),
                _ => contiguous_access(e, i),
            }
        }
        (Lowering::Widened, Step::Instruction(i)) if i.opcode == O::Ex2 => {
            e.line = i.line;
            e.group_exponential(i)
        }
        (Lowering::Widened, Step::Instruction(i)) => {
            let class = vector_class(e.program, i);
            for lane in vectors(e.width, class) {
                e.lane_set = lane;
                e.instruction(i)?;
            }
            e.lane_set = LaneSet::Scalar;
            Ok(())
        }
        (Lowering::LastLane, Step::Instruction(i)) => last_store(e, i),
        (Lowering::Uniform, _) => {
            e.lane_set = LaneSet::Scalar;
            e.step(step)
        }
        (Lowering::FirstLane, _) => {
            e.lane_set = LaneSet::Lane(0);
            let emitted = e.step(step);
            e.lane_set = LaneSet::Scalar;
            emitted
        }
        _ => {
            if let Step::Instruction(i) = step {
                if e.copy_async_lanes(i)? {
                    return Ok(());
                }
                group_check::emit(e, i)?;
                if strided_load::emit(e, i)? {
                    e.group_checked = None;
                    return Ok(());
                }
            }
            for lane in each_lane(e.width) {
                e.lane_set = lane;
                e.step(step)?;
            }
            e.group_checked = None;
            e.pack_lane_writes();
            e.lane_set = LaneSet::Scalar;
            Ok(())
        }
    }
}

/// A register class of the width that the instruction works on.
fn vector_class(program: &Program<'_>, i: &Instruction) -> RegClass {
    let mut class = RegClass::I32;
    for &arg in program.list(i.args) {
        if let Arg::Reg(reg) = arg
            && program.registers[reg.index()].bytes() == 8
        {
            class = RegClass::I64;
        }
    }
    class
}

/// A load or store of consecutive addresses.
fn contiguous_access(e: &mut Emitter<'_, '_>, i: &Instruction) -> EmitResult<()> {
    let load = i.opcode != O::St;
    let reg = contiguous_register(e, i)?;
    let ty = e.ty(i, 0)?;
    let at = contiguous_address(e, i, e.width)?;
    e.splats.clear();
    if load {
        prefetch::emit(e, i, at, e.width * ty.bytes() as u32);
    }
    match ty.bytes() {
        1 | 2 if load => extended_load(e, i, (reg, ty), at),
        2 => narrow_store(e, reg, at),
        _ => {
            let done = match load {
                true => None,
                false => streaming::emit(e, i, (reg, at)),
            };
            for lane in vectors(e.width, e.program.registers[reg.index()]) {
                contiguous_vector(e, i, at, lane)?;
            }
            if let Some(done) = done {
                e.b.ins().jump(done, &[]);
                e.enter(done);
                e.splats.clear();
            }
        }
    }
    e.lane_set = LaneSet::Scalar;
    Ok(())
}

/// The register of such an access.
pub(super) fn contiguous_register(e: &mut Emitter<'_, '_>, i: &Instruction) -> EmitResult<Reg> {
    match e.arg(i, usize::from(i.opcode == O::St))? {
        Arg::Reg(reg) => Ok(reg),
        _ => e.unsupported(i, "unsupported operand"),
    }
}

/// Checks such an access of the first lanes, and returns the address of the first one.
pub(super) fn contiguous_address(
    e: &mut Emitter<'_, '_>,
    i: &Instruction,
    lanes: u32,
) -> EmitResult<CheckedAddress> {
    let load = i.opcode != O::St;
    let place = e.address(i, usize::from(load))?;
    let bytes = e.ty(i, 0)?.bytes() as u32;
    match e.in_bounds(i) {
        Some(at) => Ok(at),
        None => checked_range(e, i, place, (bytes, lanes)),
    }
}

/// One vector of such an access, whose values are as wide as the lanes.
pub(super) fn contiguous_vector(
    e: &mut Emitter<'_, '_>,
    i: &Instruction,
    at: CheckedAddress,
    lane: LaneSet,
) -> EmitResult<()> {
    let reg = contiguous_register(e, i)?;
    let class = e.program.registers[reg.index()];
    let LaneSet::Vector(number) = lane else {
        return Ok(());
    };
    // Aligned to a value, not to a vector of them.
    let flags = MemFlagsData::new().with_notrap();
    let flags = match at.is_unwritten {
        true => flags.with_readonly().with_can_move(),
        false => flags,
    };
    e.lane_set = lane;
    let offset = at.offset + 16 * number.cast_signed();
    if i.opcode == O::St {
        let ty = native(e.ty(i, 0)?).unwrap_or(type_of(class));
        let value = e.register(reg);
        let value = if ty.bits() == type_of(class).bits() {
            value
        } else {
            e.coerce(value, ty)
        };
        e.b.ins().store(flags, value, at.address, offset);
    } else {
        let value =
            e.b.ins()
                .load(vector_type(class), flags, at.address, offset);
        e.set_register(reg, value);
    }
    Ok(())
}

/// Loads consecutive values of 8 or 16 bits, and extends them to lanes of 32.
fn extended_load(
    e: &mut Emitter<'_, '_>,
    i: &Instruction,
    (reg, ty): (Reg, Type),
    at: CheckedAddress,
) {
    let flags = LITTLE_ENDIAN.with_notrap();
    let signed = is_signed(ty);
    let mut eight = None;
    for (n, lane) in vectors(e.width, RegClass::I32).enumerate() {
        e.lane_set = lane;
        let at_vector = at.offset + 4 * n as i32 * ty.bytes() as i32;
        let ins = e.b.ins();
        let value = match (ty.bytes(), eight.take(), signed) {
            (1, None, _) => {
                let value = match signed {
                    true => ins.sload8x8(flags, at.address, at_vector),
                    false => ins.uload8x8(flags, at.address, at_vector),
                };
                eight = Some(value);
                if i.modifiers.has(M::Global) {
                    e.global_bytes.insert(value);
                }
                match signed {
                    true => e.b.ins().swiden_low(value),
                    false => e.b.ins().uwiden_low(value),
                }
            }
            (1, Some(value), true) => ins.swiden_high(value),
            (1, Some(value), false) => ins.uwiden_high(value),
            (_, _, true) => ins.sload16x4(flags, at.address, at_vector),
            (_, _, false) => ins.uload16x4(flags, at.address, at_vector),
        };
        e.set_register(reg, value);
    }
    e.lane_set = LaneSet::Scalar;
}

/// A store to an address that all lanes share. Of one that is out of bounds the first thread is
/// reported.
fn last_store(e: &mut Emitter<'_, '_>, i: &Instruction) -> EmitResult<()> {
    e.line = i.line;
    e.lane_set = LaneSet::Scalar;
    e.set_guard(None);
    let bytes = e.ty(i, 0)?.bytes() as u32;
    let at = e.checked_address(i, 0, bytes, true)?;
    let address = e.add_offset(at.address, at.offset.into());
    e.group_checked = Some(GroupChecked {
        operands: i.args.start,
        addresses: Addresses::Strided(address, 0),
    });
    e.lane_set = LaneSet::Lane(e.width - 1);
    let stored = e.instruction(i);
    e.group_checked = None;
    e.lane_set = LaneSet::Scalar;
    stored
}

/// Stores the halves in lanes of 32 bits, eight at a time.
fn narrow_store(e: &mut Emitter<'_, '_>, reg: Reg, at: CheckedAddress) {
    let flags = LITTLE_ENDIAN.with_notrap();
    let mut four = None;
    for (n, lane) in vectors(e.width, RegClass::I32).enumerate() {
        e.lane_set = lane;
        let value = e.register(reg);
        let Some(first) = four.take() else {
            four = Some(value);
            continue;
        };
        // The upper bits are 0, so that nothing saturates.
        let eight = e.b.ins().unarrow(first, value);
        let offset = at.offset + 8 * (n as i32 - 1);
        e.b.ins().store(flags, eight, at.address, offset);
    }
    e.lane_set = LaneSet::Scalar;
}

/// Checks accesses of so many bytes by the first lanes, and returns the host address of the first.
fn checked_range(
    e: &mut Emitter<'_, '_>,
    i: &Instruction,
    (base, at): (Base, i64),
    (bytes, lanes): (u32, u32),
) -> EmitResult<CheckedAddress> {
    let store = i.opcode == O::St;
    let space = match i.modifiers.first_of(&[M::Shared, M::SharedCta]) {
        Some(_) => Space::Shared,
        None => Space::Generic,
    };
    let (address, pointer) = match base {
        Base::Reg(reg) => (e.address_in(space, base, at), reg),
        // These addresses are uniform.
        Base::Storage(Storage::CallParam(_)) | Base::Storage(_) | Base::Absolute => {
            return e.unsupported(i, "unsupported address");
        }
    };
    check_range(e, (address, Some(pointer)), space, (bytes, lanes), store);
    let address = match space {
        Space::Shared => {
            let shared = e.context_word(offset::SHARED);
            e.b.ins().iadd(shared, address)
        }
        _ => address,
    };
    Ok(CheckedAddress::new(address, 0))
}

/// How many places of shared memory, in units of `1 << shift` bytes, such accesses by the first lanes
/// may start at.
fn shared_starts(e: &mut Emitter<'_, '_>, shift: u32, lanes: u32) -> Value {
    let zero = e.int(types::I64, 0);
    let Some(size) = e.fixed.shared else {
        return zero;
    };
    match shift {
        2 | 3 if lanes == e.width => size.starts[(shift - 2) as usize],
        _ => {
            let starts = e.add_offset(size.units[shift as usize], 1 - i64::from(lanes));
            e.b.ins().smax(starts, zero)
        }
    }
}

impl Emitter<'_, '_> {
    /// Faults unless the whole group may access its consecutive values from `address`
    /// on. Like [`check`](Self::check), this is one comparison in the usual case.
    pub fn check_range(&mut self, address: Value, space: Space, bytes: u32, store: bool) {
        let lanes = self.width;
        check_range(self, (address, None), space, (bytes, lanes), store);
    }
}

fn check_range(
    e: &mut Emitter<'_, '_>,
    (address, pointer): (Value, Option<Reg>),
    space: Space,
    (bytes, lanes): (u32, u32),
    store: bool,
) {
    let shift = bytes.trailing_zeros();
    let amount = e.scalar_int(types::I32, shift.into());
    let ok = e.b.create_block();
    let cold = e.b.create_block();
    e.b.set_cold_block(cold);
    let access_space = match space {
        Space::Shared => {
            let number = e.b.ins().rotr(address, amount);
            let starts = shared_starts(e, shift, lanes);
            let good = e.icmp(IntCC::UnsignedLessThan, number, starts);
            e.b.ins().brif(good, ok, &[], cold, &[]);
            Access::SHARED
        }
        _ => {
            e.check_span((address, pointer), shift, lanes.into(), ok, cold);
            0
        }
    };
    e.enter(cold);
    let access = bytes | if store { Access::WRITE } else { 0 } | access_space;
    e.call_slow_path(address, lanes, access);
    let fail = e.fail;
    if space == Space::Generic {
        // The access may still be valid, in registered host memory.
        let context = e.fixed.context;
        let flags = MemFlagsData::trusted();
        let kind =
            e.b.ins()
                .load(types::I32, flags, context, offset::FAULT_KIND);
        let back = e.back_to(ok);
        e.b.ins().brif(kind, fail, &[], back, &[]);
    } else {
        e.b.ins().jump(fail, &[]);
    }
    e.enter(ok);
}

/// Has the scalar function continue at `yes` with the threads for which the predicate is true,
/// and at `no` with the others.
pub(super) fn part(
    e: &mut Emitter<'_, '_>,
    plan: &ResumePlan,
    predicate: Reg,
    (yes, no): (BlockId, BlockId),
) {
    let (Some(yes_state), Some(no_state)) = (plan.divergence_state(yes), plan.divergence_state(no))
    else {
        // The plan has a resume point for both targets of such a branch.
        let fail = e.fail;
        e.b.ins().jump(fail, &[]);
        return;
    };
    let mut saved: Vec<Reg> = plan.resume_points[yes_state as usize - 1].reload.clone();
    saved.extend(&plan.resume_points[no_state as usize - 1].reload);
    saved.sort_unstable();
    saved.dedup();
    save(e, plan, &saved);
    let context = e.fixed.context;
    let states =
        e.b.ins()
            .load(types::I64, READONLY, context, offset::STATES);
    let at = thread_offset(e, 4);
    let at = e.b.ins().iadd(states, at);
    e.splats.clear();
    e.lane_set = LaneSet::Vector(0);
    let yes = e.int(types::I32, yes_state.into());
    let no = e.int(types::I32, no_state.into());
    for (n, lane) in vectors(e.width, RegClass::Pred).enumerate() {
        e.lane_set = lane;
        let mask = e.register(predicate);
        let state = e.select(mask, yes, no);
        e.b.ins()
            .store(MemFlagsData::trusted(), state, at, 16 * n as i32);
    }
    e.lane_set = LaneSet::Scalar;
    continue_unpacked(e, plan);
}

/// Has the scalar function resume the group in this state, at the start of the current block,
/// where a condition is false.
pub(super) fn resume_scalar_unless(
    e: &mut Emitter<'_, '_>,
    plan: &ResumePlan,
    good: Value,
    state: u32,
) {
    let (ok, cold) = (e.b.create_block(), e.b.create_block());
    e.b.set_cold_block(cold);
    e.b.ins().brif(good, ok, &[], cold, &[]);
    e.enter(cold);
    resume_scalar(e, plan, state);
    e.enter(ok);
}

fn resume_scalar(e: &mut Emitter<'_, '_>, plan: &ResumePlan, state: u32) {
    save(e, plan, &plan.resume_points[state as usize - 1].reload);
    set_state(e, state);
    continue_unpacked(e, plan);
}

/// Has the scalar function continue with what the group has saved.
fn continue_unpacked(e: &mut Emitter<'_, '_>, plan: &ResumePlan) {
    let first = e.thread_index();
    store_packed_flag(e, plan, first, true);
    continue_scalar(e);
}

/// Emits the checks of a block: where a value wraps, the scalar function takes over. In the arm of
/// a masked branch, the lanes for which the guard is false are at another block.
pub(super) fn check(
    e: &mut Emitter<'_, '_>,
    plan: &ResumePlan,
    block: BlockId,
    parted: Option<(Guard, BlockId)>,
) {
    let Some(state) = plan.divergence_state(block) else {
        return;
    };
    wrap_check::emit(e, &plan.checks[block.index()], |e| match parted {
        None => resume_scalar(e, plan, state),
        Some((guard, others)) if guard.negated => part(e, plan, guard.reg, (others, block)),
        Some((guard, others)) => part(e, plan, guard.reg, (block, others)),
    });
}

/// Stores whether the slots of the group's other lanes follow from those of its first.
pub(super) fn store_packed_flag(
    e: &mut Emitter<'_, '_>,
    plan: &ResumePlan,
    first: Value,
    packed: bool,
) {
    let Some(slot) = plan.packed_slot else {
        return;
    };
    let (at, offset) = Slots::of(e, plan, first).at(slot, RegClass::I32);
    let packed = e.scalar_int(types::I32, packed.into());
    e.b.ins().store(MemFlagsData::trusted(), packed, at, offset);
}

/// The flag of [`store_packed_flag`].
pub(super) fn packed_flag(
    e: &mut Emitter<'_, '_>,
    plan: &ResumePlan,
    first: Value,
) -> Option<Value> {
    let (at, offset) = Slots::of(e, plan, first).at(plan.packed_slot?, RegClass::I32);
    let flags = MemFlagsData::trusted();
    Some(e.b.ins().load(types::I32, flags, at, offset))
}

/// The first thread of the group of the scalar function's thread.
pub(super) fn first_of_group(e: &mut Emitter<'_, '_>, plan: &ResumePlan) -> Value {
    let thread = e.thread_index();
    let mask = e.scalar_int(types::I32, u64::from(!(plan.group - 1)));
    e.b.ins().band(thread, mask)
}

/// Resumes the group as a whole only if the scalar function has resumed none of it. Otherwise
/// uniform values may differ, and the scalar function goes on.
pub(super) fn require_packed(e: &mut Emitter<'_, '_>, plan: &ResumePlan) {
    let first = e.thread_index();
    let Some(packed) = packed_flag(e, plan, first) else {
        return;
    };
    let ok = e.b.create_block();
    let diverged = e.b.create_block();
    e.b.set_cold_block(diverged);
    e.b.ins().brif(packed, ok, &[], diverged, &[]);
    e.enter(diverged);
    continue_scalar(e);
    e.enter(ok);
}

impl Emitter<'_, '_> {
    /// Puts the results of some lanes into vectors, whose other lanes stay.
    pub fn merge_lane_writes(&mut self) {
        for (reg, lane, value) in std::mem::take(&mut self.lane_writes) {
            let per_vector = lanes_per_vector(self.program.registers[reg.index()]);
            let variable = self.locations[reg.index()].variables[(lane / per_vector) as usize];
            let vector = self.b.use_var(variable);
            let lane = (lane % per_vector) as u8;
            let vector = self.b.ins().insertlane(vector, value, lane);
            self.b.def_var(variable, vector);
        }
    }

    /// Packs the results of a scalarized step into vectors.
    pub fn pack_lane_writes(&mut self) {
        let written = std::mem::take(&mut self.lane_writes);
        for &(reg, lane, first) in &written {
            let class = self.program.registers[reg.index()];
            let per_vector = lanes_per_vector(class);
            if lane % per_vector != 0 {
                continue;
            }
            let mut vector = self.b.ins().splat(vector_type(class), first);
            for &(other, at, value) in &written {
                if other == reg && at > lane && at < lane + per_vector {
                    vector = self.b.ins().insertlane(vector, value, (at - lane) as u8);
                }
            }
            let variable = self.locations[reg.index()].variables[(lane / per_vector) as usize];
            self.b.def_var(variable, vector);
        }
    }
}
