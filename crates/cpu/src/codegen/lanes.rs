//! Several neighbouring threads at once.
//!
//! What the threads of a group share is computed once, what differs in vectors
//! where there is an instruction for it, else thread by thread. They take every
//! branch together: where they disagree, each one's registers are saved and the
//! scalar function goes on with them.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{
    AbiParam, Block, InstBuilder, MemFlagsData, Signature, Type, Value, types,
};

use super::emitter::{Emitted, Emitter, FIXED, Lane, lanes_in_piece, native, type_of};
use super::function::{step_whole, thread_offset};
use super::memory::Space;
use super::plan::Plan;
use super::slots::{SlotWalk, save};
use super::ways::{Way, way};
use crate::block::{Access, GRANULE_SHIFT, offset};
use crate::program::{
    Arg, Base, Block as ProgramBlock, BlockId, Class, Instruction, NoWrap, Place, Program, Reg,
    Shapes, Step, Terminator,
};
use ptx::names::{Modifier as M, Opcode as O};

/// The vector that holds values of a class.
pub(super) fn piece_type(class: Class) -> Type {
    match class {
        Class::Pred | Class::I16 | Class::I32 => types::I32X4,
        Class::F32 => types::F32X4,
        Class::I64 => types::I64X2,
        Class::F64 => types::F64X2,
    }
}

/// Each thread of a group by itself; in the scalar function, the thread.
pub(super) fn singles(width: u32) -> impl Iterator<Item = Lane> {
    (0..width).map(move |lane| {
        if width == 1 {
            Lane::Whole
        } else {
            Lane::Single(lane)
        }
    })
}

/// The vectors that hold a register of a class.
pub(super) fn pieces(width: u32, class: Class) -> impl Iterator<Item = Lane> {
    let per_piece = lanes_in_piece(class);
    let count = if width == 1 { 1 } else { width / per_piece };
    (0..count).map(move |piece| {
        if width == 1 {
            Lane::Whole
        } else {
            Lane::Piece(piece)
        }
    })
}

/// Splits blocks where a value must not wrap, so that the check stands at the
/// start of a block, where the scalar function can go on.
pub(super) fn split_at_checks(program: &mut Program<'_>, shapes: &Shapes) -> Vec<Vec<NoWrap>> {
    let mut checks: Vec<Vec<NoWrap>> = vec![Vec::new(); program.blocks.len()];
    for number in 0..program.blocks.len() {
        let mut number = number;
        let mut known: Vec<NoWrap> = Vec::new();
        let mut at = 0;
        while at < program.blocks[number].steps.len() {
            let Step::Instruction(i) = program.blocks[number].steps[at] else {
                at += 1;
                continue;
            };
            if let Some(check) = shapes.no_wrap(program, &i)
                && !known.contains(&check)
            {
                if at > 0 {
                    let rest = program.blocks[number].steps.split_off(at);
                    let next = BlockId(program.blocks.len() as u32);
                    let terminator = std::mem::replace(
                        &mut program.blocks[number].terminator,
                        Terminator::Jump(next),
                    );
                    program.blocks.push(ProgramBlock {
                        steps: rest,
                        terminator,
                    });
                    checks.push(Vec::new());
                    number = next.index();
                    at = 0;
                }
                checks[number].push(check);
                known.push(check);
            }
            program.effects(&i, &mut |_| {}, &mut |reg| known.retain(|c| c.reg != reg));
            at += 1;
        }
    }
    checks
}

/// Writes a step for the group.
pub(super) fn step(e: &mut Emitter<'_, '_>, step: &Step) -> Emitted<()> {
    let homes = std::mem::take(&mut e.homes);
    let way = way(
        e.program,
        &|reg: Reg| homes[reg.index()].shape,
        step,
        e.has_fma,
    );
    e.homes = homes;
    e.spreads.clear();
    match (way, step) {
        (Way::Neighbours, Step::Instruction(i)) => {
            e.line = i.line;
            e.lane = Lane::Whole;
            e.set_guard(None);
            neighbours(e, i)
        }
        (Way::Vectors, Step::Instruction(i)) => {
            let class = piece_class(e.program, i);
            for lane in pieces(e.width, class) {
                e.lane = lane;
                e.instruction(i)?;
            }
            e.lane = Lane::Whole;
            Ok(())
        }
        (Way::Once, _) => {
            e.lane = Lane::Whole;
            step_whole(e, step)
        }
        _ => {
            for lane in singles(e.width) {
                e.lane = lane;
                step_whole(e, step)?;
            }
            e.gather();
            e.lane = Lane::Whole;
            Ok(())
        }
    }
}

/// A class as wide as what the instruction works on.
fn piece_class(program: &Program<'_>, i: &Instruction) -> Class {
    let mut class = Class::I32;
    for &arg in program.list(i.args) {
        if let Arg::Reg(reg) = arg
            && program.registers[reg.index()].bytes() == 8
        {
            class = Class::I64;
        }
    }
    class
}

/// Loads or stores values side by side.
fn neighbours(e: &mut Emitter<'_, '_>, i: &Instruction) -> Emitted<()> {
    let load = i.opcode != O::St;
    let (base, at) = e.address(i, usize::from(load))?;
    let Arg::Reg(reg) = e.arg(i, usize::from(!load))? else {
        return e.refuse(i, "this operand");
    };
    let class = e.program.registers[reg.index()];
    let bytes = class.bytes();
    let space = match i
        .modifiers
        .first_of(&[M::Shared, M::SharedCta, M::SharedCluster])
    {
        Some(_) => Space::Shared,
        None => Space::Generic,
    };
    let address = match base {
        Base::Reg(reg) => {
            let value = e.register(reg);
            let value = e.reshape(value, types::I64);
            e.add_offset(value, at)
        }
        // Only a register differs from thread to thread.
        Base::Place(Place::Area(_)) | Base::Place(_) | Base::Absolute => {
            return e.refuse(i, "this address");
        }
    };
    check_range(e, address, space, bytes, !load);
    let address = match space {
        Space::Shared => {
            let shared = e.word(offset::SHARED);
            e.b.ins().iadd(shared, address)
        }
        _ => address,
    };
    let flags = MemFlagsData::new().with_notrap();
    e.spreads.clear();
    for (n, lane) in pieces(e.width, class).enumerate() {
        e.lane = lane;
        let at = 16 * n as i32;
        if load {
            let ty = piece_type(class);
            let value = e.b.ins().load(ty, flags, address, at);
            e.set_register(reg, value);
        } else {
            let ty = i
                .modifiers
                .types()
                .next()
                .and_then(native)
                .unwrap_or(type_of(class));
            let value = e.register(reg);
            let value = if ty.bits() == type_of(class).bits() {
                value
            } else {
                e.reshape(value, ty)
            };
            e.b.ins().store(flags, value, address, at);
        }
    }
    e.lane = Lane::Whole;
    Ok(())
}

/// Faults unless the values of the whole group, side by side from `address` on,
/// may be accessed. As [`Emitter::check`], one comparison in the usual case.
fn check_range(e: &mut Emitter<'_, '_>, address: Value, space: Space, bytes: u32, store: bool) {
    let shift = bytes.trailing_zeros();
    let count = u64::from(e.width);
    let amount = e.amount(types::I32, shift.into());
    let on = e.b.create_block();
    let cold = e.b.create_block();
    e.b.set_cold_block(cold);
    let access_space = match space {
        Space::Shared => {
            let number = e.b.ins().rotr(address, amount);
            let starts = e.fixed.shared_starts[usize::from(shift == 3)];
            let good = e.icmp(IntCC::UnsignedLessThan, number, starts);
            e.b.ins().brif(good, on, &[], cold, &[]);
            Access::SHARED
        }
        _ => {
            let (valid, low) = granule(e, address, amount);
            let end = e.add_offset(low, count.cast_signed());
            let good = e.icmp(IntCC::UnsignedLessThanOrEqual, end, valid);
            e.b.ins().brif(good, on, &[], cold, &[]);
            0
        }
    };
    e.b.switch_to_block(cold);
    let access = bytes | if store { Access::WRITE } else { 0 } | access_space;
    e.look_closer(address, e.width, access);
    let fail = e.fail;
    if space == Space::Generic {
        // Good after all: from one granule into the next, or registered memory.
        let context = e.fixed.context;
        let flags = MemFlagsData::trusted();
        let kind =
            e.b.ins()
                .load(types::I32, flags, context, offset::FAULT_KIND);
        e.b.ins().brif(kind, fail, &[], on, &[]);
    } else {
        e.b.ins().jump(fail, &[]);
    }
    e.b.switch_to_block(on);
}

/// How many values of a granule are valid, and which one `address` is in it:
/// beyond them all if it is misaligned.
fn granule(e: &mut Emitter<'_, '_>, address: Value, shift: Value) -> (Value, Value) {
    let base = e.word(offset::ARENA_BASE);
    let inside = e.b.ins().isub(address, base);
    let granule_shift = e.amount(types::I32, GRANULE_SHIFT.into());
    let number = e.b.ins().ushr(inside, granule_shift);
    let last = e.word(offset::LAST_GRANULE);
    let number = e.b.ins().umin(number, last);
    let one = e.amount(types::I32, 1);
    let at = e.b.ins().ishl(number, one);
    let shadow = e.word(offset::SHADOW);
    let at = e.b.ins().iadd(shadow, at);
    let valid =
        e.b.ins()
            .uload16(types::I32, MemFlagsData::trusted(), at, 0);
    let valid = e.b.ins().ushr(valid, shift);
    let low = e.b.ins().ireduce(types::I8, address);
    let low = e.b.ins().rotr(low, shift);
    let low = e.b.ins().uextend(types::I32, low);
    (valid, low)
}

/// A branch on a predicate that threads may hold differently.
pub(super) fn branch(
    e: &mut Emitter<'_, '_>,
    plan: &Plan,
    predicate: Reg,
    (yes, no): (BlockId, BlockId),
    blocks: &[Block],
) -> Emitted<()> {
    e.spreads.clear();
    let (mut all, mut any): (Option<Value>, Option<Value>) = (None, None);
    for lane in pieces(e.width, Class::Pred) {
        e.lane = lane;
        let mask = e.register(predicate);
        all = Some(all.map_or(mask, |all| e.b.ins().band(all, mask)));
        any = Some(any.map_or(mask, |any| e.b.ins().bor(any, mask)));
    }
    e.lane = Lane::Whole;
    let (Some(all), Some(any)) = (all, any) else {
        return Ok(());
    };
    let some = e.b.create_block();
    let apart = e.b.create_block();
    e.b.set_cold_block(apart);
    let all = e.b.ins().vall_true(all);
    e.b.ins().brif(all, blocks[yes.index()], &[], some, &[]);
    e.b.switch_to_block(some);
    let any = e.b.ins().vany_true(any);
    e.b.ins().brif(any, apart, &[], blocks[no.index()], &[]);

    e.b.switch_to_block(apart);
    let (Some(yes_state), Some(no_state)) = (plan.state_of(yes), plan.state_of(no)) else {
        // The plan has a stop for each side of such a branch.
        let fail = e.fail;
        e.b.ins().jump(fail, &[]);
        return Ok(());
    };
    let mut kept: Vec<Reg> = plan.stops[yes_state as usize - 1].needed.clone();
    kept.extend(&plan.stops[no_state as usize - 1].needed);
    kept.sort_unstable();
    kept.dedup();
    save(e, plan, &kept);
    let context = e.fixed.context;
    let states = e.b.ins().load(types::I64, FIXED, context, offset::STATES);
    let at = thread_offset(e, 4);
    let at = e.b.ins().iadd(states, at);
    e.spreads.clear();
    e.lane = Lane::Piece(0);
    let yes = e.int(types::I32, yes_state.into());
    let no = e.int(types::I32, no_state.into());
    for (n, lane) in pieces(e.width, Class::Pred).enumerate() {
        e.lane = lane;
        let mask = e.register(predicate);
        let state = e.select(mask, yes, no);
        e.b.ins()
            .store(MemFlagsData::trusted(), state, at, 16 * n as i32);
    }
    e.lane = Lane::Whole;
    go_on_apart(e);
    Ok(())
}

/// Calls the scalar function for the group, then goes to the next one.
fn go_on_apart(e: &mut Emitter<'_, '_>) {
    let mut signature = Signature::new(e.convention);
    for ty in [types::I64, types::I32, types::I32] {
        signature.params.push(AbiParam::new(ty));
    }
    signature.returns.push(AbiParam::new(types::I32));
    let signature = e.b.import_signature(signature);
    let context = e.fixed.context;
    let scalar = e.b.ins().load(types::I64, FIXED, context, offset::SCALAR);
    let first = e.thread_index();
    let last = e.add_offset(first, e.width.into());
    let call =
        e.b.ins()
            .call_indirect(signature, scalar, &[context, first, last]);
    let failed = e.b.inst_results(call)[0];
    let (fail, next) = (e.fail, e.next_thread);
    e.b.ins().brif(failed, fail, &[], next, &[]);
}

/// What must hold for the group to run a block together.
pub(super) fn check(e: &mut Emitter<'_, '_>, plan: &Plan, block: BlockId) {
    let checks = &plan.checks[block.index()];
    let Some(state) = plan.state_of(block) else {
        return;
    };
    for check in checks {
        e.lane = Lane::Whole;
        let first = e.register(check.reg);
        let distance = check.stride.wrapping_mul(i64::from(e.width - 1));
        let last = e.add_offset(first, distance);
        let first = e.widen(first, types::I64, check.signed);
        let last = e.widen(last, types::I64, check.signed);
        let expected = e.add_offset(first, distance);
        let good = e.icmp(IntCC::Equal, last, expected);
        let on = e.b.create_block();
        let apart = e.b.create_block();
        e.b.set_cold_block(apart);
        e.b.ins().brif(good, on, &[], apart, &[]);
        e.b.switch_to_block(apart);
        save(e, plan, &plan.stops[state as usize - 1].needed);
        super::function::set_state(e, state);
        go_on_apart(e);
        e.b.switch_to_block(on);
    }
}

/// Says whether the thread was saved in step with its group.
pub(super) fn mark(e: &mut Emitter<'_, '_>, plan: &Plan) {
    let Some(slot) = plan.marker else { return };
    let at = SlotWalk::new(e).find(e, slot, 4);
    let together = u64::from(e.width > 1);
    e.spreads.clear();
    let mut value = None;
    for (n, lane) in pieces(e.width, Class::I32).enumerate() {
        e.lane = lane;
        let value = *value.get_or_insert_with(|| e.int(types::I32, together));
        e.b.ins()
            .store(MemFlagsData::trusted(), value, at, 16 * n as i32);
    }
    e.lane = Lane::Whole;
}

/// Goes on with the group only if all of it was saved in step: else what its
/// threads should share may differ, and the scalar function takes them.
pub(super) fn only_in_step(e: &mut Emitter<'_, '_>, plan: &Plan) {
    let Some(slot) = plan.marker else { return };
    let at = SlotWalk::new(e).find(e, slot, 4);
    let mut all: Option<Value> = None;
    for n in 0..e.width / 4 {
        let marks =
            e.b.ins()
                .load(types::I32X4, MemFlagsData::trusted(), at, 16 * n as i32);
        all = Some(all.map_or(marks, |all| e.b.ins().band(all, marks)));
    }
    let Some(all) = all else { return };
    let all = e.b.ins().vall_true(all);
    let on = e.b.create_block();
    let apart = e.b.create_block();
    e.b.set_cold_block(apart);
    e.b.ins().brif(all, on, &[], apart, &[]);
    e.b.switch_to_block(apart);
    go_on_apart(e);
    e.b.switch_to_block(on);
}

impl Emitter<'_, '_> {
    /// Makes vectors of what the threads of the group have written one by one.
    pub fn gather(&mut self) {
        let written = std::mem::take(&mut self.pending);
        for &(reg, lane, first) in &written {
            let class = self.program.registers[reg.index()];
            let per_piece = lanes_in_piece(class);
            if lane % per_piece != 0 {
                continue;
            }
            let mut vector = self.b.ins().splat(piece_type(class), first);
            for &(other, at, value) in &written {
                if other == reg && at > lane && at < lane + per_piece {
                    vector = self.b.ins().insertlane(vector, value, (at - lane) as u8);
                }
            }
            let variable = self.homes[reg.index()].variables[(lane / per_piece) as usize];
            self.b.def_var(variable, vector);
        }
    }
}
