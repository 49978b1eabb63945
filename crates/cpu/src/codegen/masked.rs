//! Branches that part a lane group for a few instructions: `if (lane == 0) sums[warp] = sum;`.
//!
//! Where the threads of a group diverge at such a branch, the vector function executes the arms
//! one after the other, each for its lanes alone, and the group goes on as a whole. Elsewhere the
//! scalar function would run its threads from there to the end.

use cranelift_codegen::ir::{InstBuilder, Value};

use super::emitter::{EmitResult, Emitter};
use super::lane_group;
use super::lane_set::{LaneSet, lanes_per_vector, vectors};
use super::resume::ResumePlan;
use super::slots::save;
use super::targets::Targets;
use super::vectorize::{Lowering, lowering};
use crate::program::{
    Arg, BlockId, Guard, Instruction, Liveness, Program, Reg, RegClass, RegisterSet, Step,
    Terminator, Uniformity, UniformityInfo,
};
use analysis::control_flow::Graph;
use ptx::isa::Effect;
use ptx::names::Opcode as O;

/// The most blocks, steps and accesses of an arm.
const MAX_BLOCKS: usize = 4;
const MAX_STEPS: usize = 24;
const MAX_ACCESSES: usize = 4;
/// The most accesses of a kernel, of which each is emitted for every lane.
const MAX_ACCESSES_OF_KERNEL: usize = 16;

/// A branch whose arms are executed for some lanes each.
pub(super) struct MaskedBranch {
    /// Where the arms meet again.
    pub join: BlockId,
    /// The registers that keep their values in lanes that do not execute an arm.
    kept: RegisterSet,
}

/// By block: how its branch is masked, if it can be.
pub(super) fn find(
    program: &Program<'_>,
    uniformity: &UniformityInfo,
    liveness: &Liveness,
) -> Vec<Option<MaskedBranch>> {
    let graph = program.graph();
    let mut left = MAX_ACCESSES_OF_KERNEL;
    let blocks = 0..program.blocks.len() as u32;
    blocks
        .map(|block| {
            let (masked, accesses) = masked(program, uniformity, liveness, &graph, BlockId(block))?;
            left = left.checked_sub(accesses)?;
            Some(masked)
        })
        .collect()
}

fn masked(
    program: &Program<'_>,
    uniformity: &UniformityInfo,
    liveness: &Liveness,
    graph: &Graph,
    block: BlockId,
) -> Option<(MaskedBranch, usize)> {
    let Terminator::Branch {
        predicate,
        then,
        otherwise,
    } = program.blocks[block.index()].terminator
    else {
        return None;
    };
    if !uniformity.may_diverge(program, block) {
        return None;
    }
    let then_arm = arm(program, graph, then);
    let other_arm = arm(program, graph, otherwise);
    let (join, arms) = match (then_arm, other_arm) {
        (Some((first, join)), Some((second, end))) if join == end => (join, vec![first, second]),
        (Some((first, join)), _) if join == otherwise => (join, vec![first]),
        (_, Some((second, join))) if join == then => (join, vec![second]),
        _ => return None,
    };
    // Where threads end, parting costs little.
    let end = &program.blocks[join.index()];
    if end.steps.is_empty() && matches!(end.terminator, Terminator::Exit) {
        return None;
    }
    let mut kept = liveness.live_in(join).clone();
    for arm in &arms {
        kept.add(liveness.live_in(arm[0]));
    }
    let mut accesses = 0;
    for step in arms
        .iter()
        .flatten()
        .flat_map(|block| &program.blocks[block.index()].steps)
    {
        let Step::Instruction(i) = step else {
            return None;
        };
        let is_access = is_access(program, i);
        accesses += usize::from(is_access);
        let mut keeps = false;
        let mut possible = true;
        program.effects(i, &mut |_| {}, &mut |reg| {
            keeps |= kept.contains(reg);
            // Its lanes would have values that are no longer shared.
            possible &= !kept.contains(reg) || uniformity.of(reg) == Uniformity::Divergent;
            possible &= reg != predicate.reg;
        });
        let known = match i.meaning.effect {
            Effect::Pure => true,
            _ => is_access || is_move(program, i) || matches!(i.opcode, O::Membar | O::Fence),
        };
        let carries = i.meaning.carry_in || i.meaning.carry_out;
        if !possible || !known || carries || (keeps && i.guard.is_some()) {
            return None;
        }
    }
    let count = |arm: &Vec<BlockId>| -> usize {
        let steps = arm.iter().map(|block| &program.blocks[block.index()].steps);
        steps.map(Vec::len).sum()
    };
    let fits = accesses <= MAX_ACCESSES * arms.len() && arms.iter().map(count).max()? <= MAX_STEPS;
    fits.then_some((MaskedBranch { join, kept }, accesses))
}

/// The blocks that follow one another from `start` on, which nothing else reaches, and the block
/// after them.
fn arm(program: &Program<'_>, graph: &Graph, start: BlockId) -> Option<(Vec<BlockId>, BlockId)> {
    let (mut blocks, mut at) = (Vec::new(), start);
    while blocks.len() < MAX_BLOCKS && graph.predecessors(at).nth(1).is_none() {
        let Terminator::Jump(next) = program.blocks[at.index()].terminator else {
            break;
        };
        blocks.push(at);
        at = next;
    }
    (!blocks.is_empty()).then_some((blocks, at))
}

/// A load or store of a register that was a call parameter.
fn is_move(program: &Program<'_>, i: &Instruction) -> bool {
    matches!(i.opcode, O::Ld | O::St)
        && program
            .list(i.args)
            .iter()
            .all(|arg| !matches!(arg, Arg::Address(..) | Arg::Symbol(..)))
}

fn is_access(program: &Program<'_>, i: &Instruction) -> bool {
    matches!(i.opcode, O::Ld | O::Ldu | O::St | O::Atom | O::Red) && !is_move(program, i)
}

/// Emits the arms of a branch for a group whose threads diverge at it.
pub(super) fn emit(
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
    kept: &RegisterSet,
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
        keeps |= kept.contains(reg);
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
        e.b.switch_to_block(access);
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
            e.b.switch_to_block(after);
        }
        e.b.ins().jump(next, &[]);
        e.b.switch_to_block(next);
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
