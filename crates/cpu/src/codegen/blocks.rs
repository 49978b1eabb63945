//! The blocks of a kernel: their steps and terminators.

use cranelift_codegen::ir::{Block, InstBuilder};

use super::emitter::{EmitResult, Emitter};
use super::interchange::JumpTargets;
use super::lane_set::{LaneSet, each_lane};
use super::resume::ResumePlan;
use super::slots::save;
use super::steps::{broadcasts_last, emit_steps};
use super::unroll;
use super::wrap_check;
use super::{arrival, group_loop, guarded_copy, lane_group, masked, shared_check, terminator};
use crate::abi::EXITED;
use crate::program::{BlockId, LoweringError, Step, Terminator, Uniformity};

/// Emits the blocks of the kernel as these. One that has nothing to emit is the latch of the loop over
/// threads.
pub(super) fn emit_blocks(
    e: &mut Emitter<'_, '_>,
    plan: &ResumePlan,
    blocks: &[Block],
    targets: &JumpTargets,
    errors: &mut Vec<LoweringError>,
) {
    let program = e.program;
    // Its number, and whether it is the head.
    let mut loop_at = vec![None; program.blocks.len()];
    if e.width > 1 {
        for (number, counted) in plan.together.loops.iter().enumerate() {
            for block in &counted.blocks {
                loop_at[block.index()] = Some((number, *block == counted.blocks[0]));
            }
        }
    }
    // Where the last branch to each block is emitted.
    let mut last_predecessor: Vec<Option<u32>> = vec![None; program.blocks.len()];
    for from in (0..program.blocks.len() as u32).map(BlockId) {
        let at = match loop_at[from.index()] {
            Some((number, _)) => plan.together.loops[number].blocks[0].0.max(from.0),
            None => from.0,
        };
        let mut note = |from: BlockId| {
            let join = match e.width {
                1 => None,
                _ => {
                    let masked = plan.masked[from.index()].as_ref();
                    let region = plan.regions.behind(from);
                    masked.map(|m| m.join).or(region.map(|r| r.join))
                }
            };
            let terminator = &program.blocks[from.index()].terminator;
            for to in terminator.successors().chain(join) {
                let last = &mut last_predecessor[to.index()];
                *last = (*last).max(Some(at));
            }
        };
        note(from);
        if e.width > 1
            && let Some(path) = &plan.guarded[from.index()]
        {
            // Its copy ends like its last block.
            path.end().into_iter().for_each(note);
        }
    }
    for (i, in_loop) in (0..).zip(loop_at) {
        let number = BlockId(i);
        let block = blocks[number.index()];
        if block == e.next_thread {
            // It only ends.
            continue;
        }
        if let Some((_, false)) = in_loop {
            // A part of what the head is.
            continue;
        }
        match last_predecessor[number.index()] {
            // Early, so that variables need no parameters of the block to be looked up.
            Some(last) if last >= i => e.b.switch_to_block(block),
            None if i > 0 => e.b.switch_to_block(block),
            _ if e.width > 1 && !plan.interchanged.is_empty() || !errors.is_empty() => {
                e.b.switch_to_block(block)
            }
            // The entry, which first code is in already.
            _ if e.b.current_block() == Some(block) => e.b.seal_block(block),
            _ => e.enter(block),
        }
        if e.b.is_unreachable() {
            // No lane takes the branch to it. Its registers would have values of their own.
            let fail = e.fail;
            e.b.ins().jump(fail, &[]);
            continue;
        }
        let emitted = match in_loop {
            Some((counted, _)) => {
                let counted = &plan.together.loops[counted];
                unroll::emit(e, plan, counted, targets.from(number), errors)
            }
            None => emit_block(e, plan, number, targets, errors),
        };
        if let Err(error) = emitted {
            errors.push(error);
            // The function is discarded, but the builder needs a terminator.
            let fail = e.fail;
            if !e.b.is_unreachable() {
                e.b.ins().jump(fail, &[]);
            }
        }
    }
}

/// Emits the steps and the terminator of a block.
fn emit_block(
    e: &mut Emitter<'_, '_>,
    plan: &ResumePlan,
    number: BlockId,
    targets: &JumpTargets,
    errors: &mut Vec<LoweringError>,
) -> EmitResult<()> {
    if e.width > 1 {
        match &plan.clamped[number.index()] {
            Some(load) if !e.is_sanitized => {
                wrap_check::emit(e, &plan.checks[number.index()], |e| {
                    let start = (number, targets.from(number));
                    errors.extend(masked::clamped_load(e, plan, load, start).err());
                });
            }
            _ => lane_group::check(e, plan, number, None),
        }
        shared_check::emit(e, plan, number);
    }
    let mut steps: Vec<&Step> = e.program.blocks[number.index()].steps.iter().collect();
    broadcasts_last(e, &mut steps);
    emit_steps(e, &steps, errors);
    e.in_bounds.clear();
    e.lane_set = LaneSet::Scalar;
    e.set_guard(None);
    save(e, plan, &plan.saved[number.index()]);
    if e.width > 1
        && let Some((end, rest)) = guarded_copy::emit(e, plan, number, errors)
    {
        terminate(e, plan, end, targets.from(end))?;
        e.enter(rest);
    }
    terminate(e, plan, number, targets.from(number))
}

fn terminate(
    e: &mut Emitter<'_, '_>,
    plan: &ResumePlan,
    block: BlockId,
    blocks: &[Block],
) -> EmitResult<()> {
    match &e.program.blocks[block.index()].terminator {
        Terminator::Branch {
            predicate,
            then,
            otherwise,
        } if e.locations[predicate.reg.index()].uniformity != Uniformity::Uniform => {
            let (yes, no) = if predicate.negated {
                (otherwise, then)
            } else {
                (then, otherwise)
            };
            masked::branch(e, plan, predicate.reg, (*yes, *no), (block, blocks))
        }
        Terminator::Exit => {
            if !plan.resume_points.is_empty() {
                let from = group_loop::state_at(e, block);
                arrival::arrive(e, EXITED, from);
            } else {
                let next = e.next_thread;
                e.b.ins().jump(next, &[]);
            }
            Ok(())
        }
        Terminator::Sync { instruction, next } => {
            let Some(at) = plan.sync_at[block.index()] else {
                return Err(LoweringError::unsupported(
                    instruction.span,
                    "unsupported sync point",
                ));
            };
            e.line = instruction.line;
            let point = &plan.resume_points[at as usize];
            if e.width > 1 && point.is_passed {
                e.warp_operation(instruction)?;
                e.b.ins().jump(blocks[next.index()], &[]);
                return Ok(());
            }
            for lane in each_lane(e.width) {
                e.lane_set = lane;
                e.store_request(instruction)?;
            }
            e.lane_set = LaneSet::Scalar;
            save(e, plan, &point.dirty);
            let from = group_loop::state_at(e, block);
            arrival::arrive(e, at + 1, from);
            Ok(())
        }
        _ => terminator::uniform(e, block, blocks),
    }
}
