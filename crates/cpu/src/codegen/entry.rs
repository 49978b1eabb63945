//! Where a thread starts the function, or resumes it.

use cranelift_codegen::ir::{Block, InstBuilder, Value};

use super::arrival::continue_scalar;
use super::emitter::{Emitter, type_of};
use super::group_loop;
use super::lane_group;
use super::lane_set::{LaneSet, each_lane};
use super::phase;
use super::resume::ResumePlan;
use super::slots::{reload_at, unpack};
use super::thread_state::{jump_to_state, thread_state};
use super::unroll_and_jam;
use crate::program::{LoweringError, Terminator, Uniformity};

/// Dispatches the thread to its resume point.
pub(super) fn resume_threads(
    e: &mut Emitter<'_, '_>,
    plan: &ResumePlan,
    (first_state, last): (Option<Value>, Value),
    blocks: &[Block],
    errors: &mut Vec<LoweringError>,
) {
    // After divergence only the scalar function resumes.
    let count = if e.width > 1 {
        plan.sync_points.len()
    } else {
        plan.resume_points.len()
    };
    let resume_points = &plan.resume_points[..count];
    if resume_points.is_empty() {
        start_thread(e, plan, blocks[0]);
        return;
    }
    let start = e.b.create_block();
    let mut targets = vec![start];
    targets.extend(resume_points.iter().map(|_| e.b.create_block()));
    let state = match first_state {
        Some(state) => state,
        None => thread_state(e),
    };
    if e.width == 1 && plan.packed_slot.is_some() {
        unpack_group(e, plan, state, start);
    }
    jump_to_state(e, state, &targets);
    e.b.switch_to_block(start);
    if plan.packed_slot.is_some() {
        let first = lane_group::first_of_group(e, plan);
        lane_group::store_packed_flag(e, plan, first, e.width > 1);
    }
    start_thread(e, plan, blocks[0]);
    // Otherwise each group has a state of its own.
    if first_state.is_some() && e.arrival.is_some_and(|arrival| arrival.together.is_some()) {
        e.group_loops = Some(group_loop::loops(e.program, plan, targets.clone()));
    }
    for (from, (point, &block)) in (1..).zip(resume_points.iter().zip(&targets[1..])) {
        e.b.switch_to_block(block);
        if e.width > 1 && point.is_passed {
            continue_scalar(e);
            continue;
        }
        if e.width > 1 {
            lane_group::require_packed(e, plan);
            if let Some(phase) = phase::find(e, plan, point)
                && let Err(error) =
                    unroll_and_jam::emit(e, plan, (point, &phase, from), last, errors)
            {
                errors.push(error);
            }
        }
        reload_at(e, plan, point);
        if let Some(block) = point.sync
            && let Terminator::Sync { instruction, .. } =
                &e.program.blocks[block.index()].terminator
        {
            for lane in each_lane(e.width) {
                e.lane_set = lane;
                if let Err(error) = e.load_results(instruction) {
                    errors.push(error);
                }
            }
            e.pack_lane_writes();
            e.lane_set = LaneSet::Scalar;
        }
        let next = blocks[point.next.index()];
        e.b.ins().jump(next, &[]);
    }
}

/// Unpacks the slots of the thread's group, if the vector function has suspended it.
fn unpack_group(e: &mut Emitter<'_, '_>, plan: &ResumePlan, state: Value, start: Block) {
    let resumes = e.b.create_block();
    e.b.ins().brif(state, resumes, &[], start, &[]);
    e.b.switch_to_block(resumes);
    let first = lane_group::first_of_group(e, plan);
    let Some(packed) = lane_group::packed_flag(e, plan, first) else {
        return;
    };
    let cold = e.b.create_block();
    e.b.set_cold_block(cold);
    let unpacked = e.b.create_block();
    e.b.ins().brif(packed, cold, &[], unpacked, &[]);
    e.b.switch_to_block(cold);
    unpack(e, plan, first);
    lane_group::store_packed_flag(e, plan, first, false);
    e.b.ins().jump(unpacked, &[]);
    e.b.switch_to_block(unpacked);
}

/// Jumps to the kernel's first block. Registers that may be read before they are
/// written are cleared: otherwise they would hold values of the previous thread.
fn start_thread(e: &mut Emitter<'_, '_>, plan: &ResumePlan, block: Block) {
    for &reg in &plan.entry_live_in {
        let class = e.program.registers[reg.index()];
        for n in 0..e.locations[reg.index()].variables.len() {
            if e.locations[reg.index()].uniformity == Uniformity::Divergent {
                e.lane_set = LaneSet::Vector(n as u32);
            }
            let zero = e.zero(type_of(class));
            let variable = e.locations[reg.index()].variables[n];
            e.b.def_var(variable, zero);
            e.lane_set = LaneSet::Scalar;
        }
    }
    e.b.ins().jump(block, &[]);
}
