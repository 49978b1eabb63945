//! Unroll and jam: lane groups run a counted loop together.
//!
//! The loop over groups is unrolled, and the copies of the counted loop inside are phase into one.
//! Whether the groups agree on how often it runs, and on the addresses that they share, is known
//! when they resume: they compare what they have saved. Where they don't, and where an access may
//! be out of bounds, each runs by itself.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{BlockArg, InstBuilder, Value, types};

use super::arrival;
use super::counted_loop::CountedLoop;
use super::emitter::{EmitResult, Emitter};
use super::lane_group;
use super::lane_set::LaneSet;
use super::other_group::{Other, each_group};
use super::phase::{GROUPS, Phase};
use super::resume::{ResumePlan, ResumePoint};
use super::slot_address::Slots;
use super::slots::{self, reload, save, saved_alike};
use super::steps::{broadcasts_last, emit_step};
use super::unroll::{Pointer, by_twos, in_bounds, is_inside, last_iteration, pointers};
use super::wide::WideLoop;
use super::wide_call;
use crate::abi::{SLOT_BYTES, WARP_SIZE};
use crate::program::{BlockId, LoweringError, Reg, Step, Uniformity};

/// Has the current group and the next ones resume at a point together, if there are enough of them
/// up to thread `last`. The current block is then that in which the group resumes by itself.
pub(super) fn emit(
    e: &mut Emitter<'_, '_>,
    plan: &ResumePlan,
    (point, phase, from): (&ResumePoint, &Phase<'_>, u32),
    last: Value,
    errors: &mut Vec<LoweringError>,
) -> EmitResult<()> {
    if phase.counted.is_none() {
        return together(e, plan, (point, phase, from), (GROUPS, None), last, errors);
    }
    let wide = wide_call::find(e, plan, phase);
    for (groups, wide) in &wide {
        let how = (*groups, Some(wide));
        together(e, plan, (point, phase, from), how, last, errors)?;
    }
    match wide.is_empty() && phase.fits_vectors && !shares_a_load(e, phase) {
        true => together(e, plan, (point, phase, from), (2, None), last, errors),
        false => Ok(()),
    }
}

/// Whether the loop loads from an address that the groups share into a register of which each has its
/// own: another step writes that, too. The groups then have no address for the load.
fn shares_a_load(e: &Emitter<'_, '_>, phase: &Phase<'_>) -> bool {
    let accesses = phase.counted.iter().flat_map(|counted| &counted.accesses);
    let mut common = accesses.filter(|access| !phase.own.contains(access.access.base));
    common.any(|access| {
        let mut is_own = false;
        for step in phase.live_steps(e.program) {
            if let Step::Instruction(i) = step
                && i.args.start == access.access.operands
            {
                let note = &mut |reg| is_own |= phase.own.contains(reg);
                e.program.effects(i, &mut |_| {}, note);
            }
        }
        is_own
    })
}

/// The same for so many groups, by a function if there is one.
fn together(
    e: &mut Emitter<'_, '_>,
    plan: &ResumePlan,
    (point, phase, from): (&ResumePoint, &Phase<'_>, u32),
    (groups, wide): (u32, Option<&WideLoop>),
    last: Value,
    errors: &mut Vec<LoweringError>,
) -> EmitResult<()> {
    let [alone, all, starts] = [(); 3].map(|()| e.b.create_block());
    let first = e.thread_index();
    let mut good = are_left(e, first, groups, last);
    // The state of one group is noted then, that of the last.
    if let Some(same) = arrival::is_common(e, phase.state) {
        good = e.b.ins().band(good, same);
    }
    // From the first of a warp on, the slots of all are at constant distances from one address.
    if e.width < WARP_SIZE {
        let lane = e.scalar_int(types::I32, u64::from(WARP_SIZE - 1));
        let lane = e.b.ins().band(first, lane);
        let starts_warp = e.icmp_imm(IntCC::Equal, lane, 0);
        good = e.b.ins().band(good, starts_warp);
    }
    let slots = slots::of_warp(e, plan, first);
    let address = e.b.append_block_param(all, types::I64);
    let slots = [BlockArg::Value(slots)];
    e.b.ins().brif(good, all, &slots, alone, &[]);

    e.b.switch_to_block(all);
    let first = e.thread_index();
    let slots = Slots::from(address);
    let mut all_slots = vec![slots];
    let mut others = Vec::new();
    for number in 1..groups {
        let distance = number * e.width;
        let index = e.add_offset(first, distance.into());
        let mut other = Other::new(e, phase);
        e.b.def_var(other.index, index);
        let slots = slots.behind(plan.slot_count, distance);
        all_slots.push(slots);
        other.slots = Some(slots);
        others.push(other);
    }
    e.group_slots = Some(slots);
    let mut good = saved_alike(e, plan, &phase.common, &all_slots);
    // The function reads what it writes where it is saved. What the phase only passes on stays there.
    let in_slots = wide.map_or(&[][..], |wide| &wide.written);
    let is_needed = |reg: &Reg| match in_slots.contains(reg) {
        true => phase.reads_before(e.program, *reg),
        false => phase.reads(e.program, *reg),
    };
    let reloaded = point.reload.iter().copied().filter(is_needed);
    let (own, common): (Vec<Reg>, Vec<Reg>) = reloaded.partition(|reg| phase.own.contains(*reg));
    reload(e, plan, &common);
    if phase.counted.is_some() {
        each_group(e, &mut others, |e| reload(e, plan, &own));
    }
    for block in &phase.before {
        let block_steps = e.program.blocks[block.index()].steps.iter();
        // Without a loop, the groups follow one another.
        let now = |step: &&Step| phase.counted.is_some() || !phase.is_own(e.program, step);
        let block_steps: Vec<&Step> = block_steps.filter(now).collect();
        steps(e, &mut others, phase, &block_steps, errors);
        for condition in phase.conditions.iter().filter(|c| c.block == *block) {
            let holds = e.guard_value(condition.guard);
            good = e.b.ins().band(good, holds);
        }
    }

    e.lane_set = LaneSet::Scalar;
    e.splats.clear();
    let mut number = None;
    if let Some(counted) = phase.counted {
        let iterations = last_iteration(e, &counted.count)?;
        number = Some(iterations.number);
        if let Some(counts) = iterations.is_counted {
            good = e.b.ins().band(good, counts);
        }
        for access in &counted.accesses {
            let inside = is_inside(e, access, iterations.number);
            good = e.b.ins().band(good, inside);
            if phase.own.contains(access.access.base) {
                for other in &mut others {
                    let inside = other.swapped(e, |e| is_inside(e, access, iterations.number));
                    good = e.b.ins().band(good, inside);
                }
            }
        }
    }
    let apart = e.b.create_block();
    e.b.set_cold_block(apart);
    e.b.ins().brif(good, starts, &[], apart, &[]);
    e.enter(apart);
    lane_group::require_packed(e, plan);
    e.b.ins().jump(alone, &[]);

    e.enter(starts);
    match (phase.counted, number, wide) {
        (Some(_), Some(last), Some(wide)) => {
            wide_call::emit(e, plan, (point, phase), wide, &mut others, last);
            let read = in_slots.iter().copied();
            let read = read.filter(|reg| phase.reads_after(e.program, plan, *reg));
            let read: Vec<Reg> = read.collect();
            each_group(e, &mut others, |e| reload(e, plan, &read));
        }
        (Some(counted), Some(last), None) => jam(e, phase, counted, &mut others, last, errors),
        _ => {}
    }
    let reloaded: &[Reg] = match phase.counted {
        Some(_) => &[],
        None => &own,
    };
    let slots = (reloaded, in_slots);
    finish(e, plan, (point, phase), &mut others, slots, errors);
    e.group_slots = None;
    if !plan.resumes_with_tid
        && let Some(arrived) = arrival::is_noted(e, phase.state)
    {
        // Here the next groups would come, too.
        let next = e.thread_index();
        let next = e.add_offset(next, e.width.into());
        let left = are_left(e, next, groups, last);
        let again = e.b.ins().band(arrived, left);
        let [repeats, ends] = [(); 2].map(|()| e.b.create_block());
        e.b.ins().brif(again, repeats, &[], ends, &[]);
        e.enter(repeats);
        e.b.def_var(e.thread.index, next);
        let warps = groups * e.width / WARP_SIZE;
        let slots = e.add_offset(address, (warps * plan.slot_count * SLOT_BYTES).into());
        e.b.ins().jump(all, &[BlockArg::Value(slots)]);
        e.enter(ends);
    }
    arrival::arrive(e, phase.state, Some(from));
    e.b.switch_to_block(alone);
    Ok(())
}

/// Whether there are so many groups from one on, up to thread `last`.
fn are_left(e: &mut Emitter<'_, '_>, first: Value, groups: u32, last: Value) -> Value {
    let behind = e.add_offset(first, i64::from(groups * e.width));
    e.icmp(IntCC::UnsignedLessThanOrEqual, behind, last)
}

/// Emits the loop itself, up to the iteration with the number `last`.
fn jam(
    e: &mut Emitter<'_, '_>,
    phase: &Phase<'_>,
    counted: &CountedLoop,
    others: &mut [Other],
    last: Value,
    errors: &mut Vec<LoweringError>,
) {
    let done = e.b.create_block();
    let accesses = || counted.accesses.iter();
    let own = || accesses().filter(|access| phase.own.contains(access.access.base));
    let ours = pointers(e, accesses());
    let mut all = ours.clone();
    let mut theirs: Vec<Vec<Pointer>> = Vec::new();
    for other in &mut *others {
        let pointers = other.swapped(e, |e| pointers(e, own()));
        all.extend(&pointers);
        theirs.push(pointers);
    }
    let live = phase.live_steps(e.program);
    by_twos(e, last, &all, done, |e| {
        if e.iteration == 0 {
            interleave(e, others, phase);
            e.in_bounds.clear();
            in_bounds(e, accesses(), &ours);
            for (other, theirs) in others.iter_mut().zip(&theirs) {
                other.in_bounds.clear();
                other.swapped(e, |e| in_bounds(e, own(), theirs));
            }
        }
        steps(e, others, phase, &live, errors);
    });
    e.in_bounds.clear();
    for other in &mut *others {
        other.in_bounds.clear();
    }
    e.b.switch_to_block(done);
    interleave(e, others, phase);
}

/// Emits what the groups do behind the loop, or in all of a phase without one, one after the other.
/// Some registers are reloaded for that, and some have in their slots what they have.
fn finish(
    e: &mut Emitter<'_, '_>,
    plan: &ResumePlan,
    (point, phase): (&ResumePoint, &Phase<'_>),
    others: &mut [Other],
    (reloaded, in_slots): (&[Reg], &[Reg]),
    errors: &mut Vec<LoweringError>,
) {
    let program = e.program;
    let dirty = plan.resume_points[phase.state as usize - 1].dirty.iter();
    let is_saved = |reg: &Reg| match in_slots.contains(reg) {
        true => !phase.writes_after(program, *reg),
        false => point.reload.contains(reg) && !phase.writes(program, *reg),
    };
    let dirty: Vec<Reg> = dirty.copied().filter(|reg| !is_saved(reg)).collect();
    let mut is_first = true;
    let before: &[BlockId] = match phase.counted {
        Some(_) => &[],
        None => &phase.before,
    };
    let blocks = before.iter().map(|block| (block, false));
    let blocks = blocks.chain(phase.after.iter().map(|block| (block, true)));
    each_group(e, others, |e| {
        reload(e, plan, reloaded);
        for (block, has_common) in blocks.clone() {
            let steps = program.blocks[block.index()].steps.iter();
            let is_common = is_first && has_common;
            for step in steps.filter(|step| is_common || phase.is_own(program, step)) {
                emit_step(e, step, errors);
            }
            e.lane_set = LaneSet::Scalar;
            e.set_guard(None);
            save(e, plan, &plan.saved[block.index()]);
        }
        save(e, plan, &dirty);
        is_first = false;
    });
    // The rest is as if the last group had run alone.
    if let Some(last) = others.last() {
        let last = e.b.use_var(last.index);
        e.b.def_var(e.thread.index, last);
    }
    if plan.resumes_with_tid {
        for _ in &*others {
            e.advance_tid(plan.tid);
        }
    }
}

/// Asks for what the groups have at the start of a block, vector by vector. In that order Cranelift
/// computes what the blocks before leave there, and a vector that both load need not be kept.
fn interleave(e: &mut Emitter<'_, '_>, others: &[Other], phase: &Phase<'_>) {
    for index in 0..e.locations.len() {
        let ours = &e.locations[index];
        if !phase.own.contains(Reg(index as u32)) || ours.uniformity != Uniformity::Divergent {
            continue;
        }
        for n in 0..ours.variables.len() {
            e.b.use_var(e.locations[index].variables[n]);
            for other in others {
                e.b.use_var(other.locations[index].variables[n]);
            }
        }
    }
}

/// Emits steps for all groups: once where their result is the same.
fn steps(
    e: &mut Emitter<'_, '_>,
    others: &mut [Other],
    phase: &Phase<'_>,
    steps: &[&Step],
    errors: &mut Vec<LoweringError>,
) {
    let program = e.program;
    let mut steps = steps.to_vec();
    broadcasts_last(e, &mut steps);
    let is_own = |step: &Step| phase.is_own(program, step);
    for together in steps.chunk_by(|a, b| is_own(a) == is_own(b)) {
        for step in together {
            emit_step(e, step, errors);
        }
        if !together.iter().any(|step| is_own(step)) {
            continue;
        }
        for other in &mut *others {
            other.swapped(e, |e| {
                for step in together {
                    emit_step(e, step, errors);
                }
            });
        }
    }
    e.lane_set = LaneSet::Scalar;
    e.set_guard(None);
}
