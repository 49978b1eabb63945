//! Branches that part a lane group for a few instructions: `if (lane == 0) sums[warp] = sum;`.
//!
//! Where the threads of a group diverge at such a branch, the vector function executes the arms
//! one after the other, each for its lanes alone, and the group goes on as a whole. Elsewhere the
//! scalar function would run its threads from there to the end.

use cranelift_codegen::ir::{InstBuilder, Value};

use super::emitter::{EmitResult, Emitter};
use super::ends::at_ends;
use super::lane_group;
use super::lane_set::{LaneSet, lanes_per_vector, vectors};
use super::masked_branch::{MaskedBranch, is_access};
use super::resume::ResumePlan;
use super::slots::save;
use super::targets::Targets;
use super::vectorize::{Lowering, lowering};
use crate::program::{BlockId, Guard, Instruction, Reg, RegClass, Step, Terminator};

/// A branch on a divergent predicate.
pub(super) fn branch(
    e: &mut Emitter<'_, '_>,
    plan: &ResumePlan,
    predicate: Reg,
    (yes, no): (BlockId, BlockId),
    (block, targets): (BlockId, &Targets<'_>),
) -> EmitResult<()> {
    e.splats.clear();
    if let Some(ends) = at_ends(e, block, predicate) {
        let parts = e.b.create_block();
        e.b.set_cold_block(parts);
        if let Some(same) = ends.same {
            let together = e.b.create_block();
            e.b.ins().brif(same, together, &[], parts, &[]);
            e.enter(together);
        }
        e.b.ins()
            .brif(ends.first, targets.of(yes), &[], targets.of(no), &[]);
        e.enter(parts);
    }
    let (mut all, mut any): (Option<Value>, Option<Value>) = (None, None);
    for lane in vectors(e.width, RegClass::Pred) {
        e.lane_set = lane;
        let mask = e.register(predicate);
        all = Some(all.map_or(mask, |all| e.b.ins().band(all, mask)));
        any = Some(any.map_or(mask, |any| e.b.ins().bor(any, mask)));
    }
    e.lane_set = LaneSet::Scalar;
    let (Some(all), Some(any)) = (all, any) else {
        return Ok(());
    };
    let some = e.b.create_block();
    let diverged = e.b.create_block();
    e.b.set_cold_block(diverged);
    let all = e.b.ins().vall_true(all);
    e.b.ins().brif(all, targets.of(yes), &[], some, &[]);
    e.enter(some);
    let any = e.b.ins().vany_true(any);
    e.b.ins().brif(any, diverged, &[], targets.of(no), &[]);

    e.enter(diverged);
    if let Some(masked) = &plan.masked[block.index()] {
        return emit(e, plan, masked, (predicate, yes, no), targets);
    }
    lane_group::part(e, plan, predicate, (yes, no));
    Ok(())
}

/// Emits the arms of a branch for a group whose threads diverge at it.
fn emit(
    e: &mut Emitter<'_, '_>,
    plan: &ResumePlan,
    masked: &MaskedBranch,
    (predicate, yes, no): (Reg, BlockId, BlockId),
    targets: &Targets<'_>,
) -> EmitResult<()> {
    let mut masks = Vec::new();
    for lane in vectors(e.width, RegClass::Pred) {
        e.lane_set = lane;
        masks.push(e.register(predicate));
    }
    e.lane_set = LaneSet::Scalar;
    let bits = e.ballot(&masks);
    for (start, negated) in [(yes, false), (no, true)] {
        let bits = match negated {
            true => e.b.ins().bnot(bits),
            false => bits,
        };
        // Where the other lanes are meanwhile.
        let others = if negated { masked.join } else { no };
        let guard = Guard {
            reg: predicate,
            negated,
        };
        let mut at = start;
        while at != masked.join {
            let block = &e.program.blocks[at.index()];
            lane_group::check(e, plan, at, Some((guard, others)));
            for step in &block.steps {
                masked_step(e, step, guard, bits, &masked.kept)?;
            }
            save(e, plan, &plan.saved[at.index()]);
            let Terminator::Jump(next) = block.terminator else {
                break;
            };
            at = next;
        }
    }
    e.b.ins().jump(targets.of(masked.join), &[]);
    Ok(())
}

fn masked_step(
    e: &mut Emitter<'_, '_>,
    step: &Step,
    guard: Guard,
    bits: Value,
    kept: &[Reg],
) -> EmitResult<()> {
    let Step::Instruction(i) = step else {
        return lane_group::step(e, step);
    };
    if is_access(e.program, i) {
        let locations = &e.locations;
        let uniformity_of = |reg: Reg| locations[reg.index()].uniformity;
        let lowering = lowering(e.program, &uniformity_of, step, e.has_fma);
        if lowering != Lowering::Uniform {
            return masked_access(e, i, bits);
        }
    }
    let mut keeps = false;
    e.program.effects(i, &mut |_| {}, &mut |reg| {
        keeps |= kept.binary_search(&reg).is_ok();
    });
    let mut guarded = *i;
    if keeps {
        guarded.guard = Some(guard);
    }
    lane_group::step(e, &Step::Instruction(guarded))
}

/// An access of the lanes whose bit is set, one after the other.
fn masked_access(e: &mut Emitter<'_, '_>, i: &Instruction, bits: Value) -> EmitResult<()> {
    let skip_unless = |e: &mut Emitter<'_, '_>, lanes: u32| {
        let some = e.b.ins().band_imm_u(bits, i64::from(lanes));
        let (access, next) = (e.b.create_block(), e.b.create_block());
        e.b.set_cold_block(access);
        e.b.set_cold_block(next);
        e.b.ins().brif(some, access, &[], next, &[]);
        e.enter(access);
        next
    };
    for first in (0..e.width).step_by(4) {
        let next = skip_unless(e, 0xF << first);
        for lane in first..first + 4 {
            let after = skip_unless(e, 1 << lane);
            e.lane_set = LaneSet::Lane(lane);
            e.splats.clear();
            e.instruction(i)?;
            insert_lane_writes(e);
            e.b.ins().jump(after, &[]);
            e.enter(after);
        }
        e.b.ins().jump(next, &[]);
        e.enter(next);
    }
    e.lane_set = LaneSet::Scalar;
    Ok(())
}

/// Writes the results of one lane.
fn insert_lane_writes(e: &mut Emitter<'_, '_>) {
    for (reg, lane, value) in std::mem::take(&mut e.lane_writes) {
        let per_vector = lanes_per_vector(e.program.registers[reg.index()]);
        let variable = e.locations[reg.index()].variables[(lane / per_vector) as usize];
        let vector = e.b.use_var(variable);
        let vector =
            e.b.ins()
                .insertlane(vector, value, (lane % per_vector) as u8);
        e.b.def_var(variable, vector);
    }
}
