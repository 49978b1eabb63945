//! Emits the copy of a guarded path, which a lane group runs where all guards hold for all lanes.

use cranelift_codegen::ir::{Block, InstBuilder, Value};

use super::emitter::Emitter;
use super::ends::hold_at_ends;
use super::lane_group;
use super::lane_set::{LaneSet, vectors};
use super::resume::ResumePlan;
use super::shared_check;
use super::slots::save;
use super::straight_line::StraightLine;
use super::vectorize::has_effect;
use crate::program::{BlockId, Guard, LoweringError, RegClass, Terminator, Uniformity};

/// Emits the copy of the path behind a block, but for its terminator. Returns its last block, and
/// where the group goes on if a guard does not hold.
pub(super) fn emit(
    e: &mut Emitter<'_, '_>,
    plan: &ResumePlan,
    start: BlockId,
    errors: &mut Vec<LoweringError>,
) -> Option<(BlockId, Block)> {
    let path = plan.guarded[start.index()].as_ref()?;
    let end = path.end()?;
    e.lane_set = LaneSet::Scalar;
    e.splats.clear();
    let rest = e.b.create_block();
    for &guard in &path.guards {
        for holds in holds(e, start, guard) {
            let next = e.b.create_block();
            e.b.ins().brif(holds, next, &[], rest, &[]);
            e.enter(next);
        }
    }
    for guard in &path.guards {
        let bits = if guard.negated { 0 } else { u32::MAX };
        for lane in vectors(e.width, RegClass::Pred) {
            e.lane_set = lane;
            let all = e.vector_of([bits; 4]);
            e.set_register(guard.reg, all);
        }
    }
    e.lane_set = LaneSet::Scalar;

    // Lanes that part at its end write in arms of their own.
    let parts = match &e.program.blocks[end.index()].terminator {
        Terminator::Branch { predicate, .. } => {
            e.locations[predicate.reg.index()].uniformity != Uniformity::Uniform
        }
        _ => false,
    };
    let mut steps = path
        .blocks
        .iter()
        .flat_map(|block| &e.program.blocks[block.index()].steps);
    let mut line = StraightLine::new(rest, !parts && !steps.any(has_effect));
    for &block in &path.blocks {
        if !plan.checks[block.index()].is_empty() || !plan.together.blocks_of(block).is_empty() {
            line.flush(e, errors);
            lane_group::check(e, plan, block, None);
            shared_check::emit(e, plan, block);
        }
        for step in &e.program.blocks[block.index()].steps {
            line.push(step);
        }
        if !e.in_bounds.is_empty() || !plan.saved[block.index()].is_empty() {
            line.flush(e, errors);
            e.in_bounds.clear();
            save(e, plan, &plan.saved[block.index()]);
        }
    }
    line.flush(e, errors);
    Some((end, rest))
}

/// What is true where a guard holds for all lanes.
fn holds(e: &mut Emitter<'_, '_>, block: BlockId, guard: Guard) -> Vec<Value> {
    if let Some(holds) = hold_at_ends(e, block, guard) {
        return holds;
    }
    let mut all = None;
    for lane in vectors(e.width, RegClass::Pred) {
        e.lane_set = lane;
        let mask = e.guard_value(guard);
        all = Some(match all {
            Some(all) => e.b.ins().band(all, mask),
            None => mask,
        });
    }
    e.lane_set = LaneSet::Scalar;
    all.map(|all| e.b.ins().vall_true(all))
        .into_iter()
        .collect()
}
