//! Accesses one after the other, each under a guard of its own, such as those to the elements of a
//! row up to its end: `if (i < n) a = row[i]; if (i + 1 < n) b = row[i + 1];`.
//!
//! In most lane groups all guards hold for all lanes. These run a copy of the blocks in a straight
//! line, without their branches; the others run the blocks themselves.

use cranelift_codegen::ir::{Block, InstBuilder, Value};

use super::emitter::Emitter;
use super::ends::hold_at_ends;
use super::lane_group;
use super::lane_set::{LaneSet, vectors};
use super::masked_branch::arm;
use super::resume::ResumePlan;
use super::shared_check;
use super::slots::save;
use super::straight_line::{StraightLine, has_effect};
use crate::program::{
    BlockId, Guard, LoweringError, Program, RegClass, Step, Terminator, Uniformity, UniformityInfo,
};
use analysis::control_flow::Graph;
use ptx::names::{Modifier as M, Opcode as O};

/// Fewer branches are not worth a copy.
const MIN_BRANCHES: usize = 2;
/// The most steps that are copied.
const MAX_STEPS: usize = 160;

/// The blocks behind a block that ends with a branch around an access.
pub(super) struct GuardedPath {
    /// All of them hold where the group runs the copy.
    pub guards: Vec<Guard>,
    /// In the order in which they run then.
    pub blocks: Vec<BlockId>,
}

impl GuardedPath {
    /// The last block.
    pub fn end(&self) -> Option<BlockId> {
        self.blocks.last().copied()
    }
}

/// By block: the path that starts at its end.
pub(super) fn find(program: &Program<'_>, uniformity: &UniformityInfo) -> Vec<Option<GuardedPath>> {
    let graph = program.graph();
    let mut covered = vec![false; program.blocks.len()];
    let blocks = 0..program.blocks.len() as u32;
    let paths = blocks.map(|block| {
        if covered[block as usize] {
            return None;
        }
        let found = path(program, uniformity, &graph, BlockId(block))?;
        for block in &found.blocks {
            covered[block.index()] = true;
        }
        Some(found)
    });
    paths.collect()
}

fn path(
    program: &Program<'_>,
    uniformity: &UniformityInfo,
    graph: &Graph,
    start: BlockId,
) -> Option<GuardedPath> {
    let steps = |block: &BlockId| &program.blocks[block.index()].steps;
    let mut path = GuardedPath {
        guards: Vec::new(),
        blocks: Vec::new(),
    };
    let (mut branches, mut count) = (0, 0);
    let mut written = Vec::new();
    let mut at = start;
    loop {
        let mut next = Vec::new();
        let mut guard = None;
        match program.blocks[at.index()].terminator {
            Terminator::Branch {
                predicate,
                then,
                otherwise,
            } if uniformity.may_diverge(program, at) => {
                let around = |from, to| arm(program, graph, from).filter(|(_, join)| *join == to);
                let (holds, (arm, join)) = match around(then, otherwise) {
                    Some(found) => (predicate, found),
                    None => {
                        let negated = !predicate.negated;
                        let Some(found) = around(otherwise, then) else {
                            break;
                        };
                        let reg = predicate.reg;
                        (Guard { reg, negated }, found)
                    }
                };
                let contradicts =
                    |known: &Guard| known.reg == holds.reg && known.negated != holds.negated;
                if written.contains(&holds.reg)
                    || path.guards.iter().any(contradicts)
                    || names_lanes(program, steps(&start), holds)
                {
                    break;
                }
                guard = Some(holds);
                next.extend(arm);
                next.push(join);
            }
            // A part of the block before it.
            Terminator::Jump(rest) if graph.predecessors(rest).nth(1).is_none() => next.push(rest),
            _ => break,
        }
        let all = next.iter().map(|block| steps(block).len()).sum::<usize>();
        let again = |block: &BlockId| *block == start || path.blocks.contains(block);
        if next.iter().any(again) || count + all > MAX_STEPS {
            break;
        }
        count += all;
        branches += usize::from(guard.is_some());
        path.guards
            .extend(guard.filter(|guard| !path.guards.contains(guard)));
        for step in next.iter().flat_map(steps) {
            program.step_effects(step, &mut |_| {}, &mut |reg| written.push(reg));
        }
        at = *next.last()?;
        path.blocks.extend(next);
    }
    (branches >= MIN_BRANCHES).then_some(path)
}

/// Whether a guard is known to hold for few lanes, such as `lane == 0`.
fn names_lanes(program: &Program<'_>, steps: &[Step], guard: Guard) -> bool {
    let defines = |step: &&Step| {
        let mut found = false;
        program.step_effects(step, &mut |_| {}, &mut |reg| found |= reg == guard.reg);
        found
    };
    match steps.iter().rev().find(defines) {
        Some(Step::Instruction(i)) => {
            let one = if guard.negated { M::Ne } else { M::Eq };
            i.opcode == O::Setp && i.modifiers.has(one)
        }
        _ => false,
    }
}

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
