//! Which branches part a lane group for a few instructions alone.

use crate::program::{
    Arg, BlockId, Instruction, Liveness, Program, Reg, Step, Terminator, Uniformity, UniformityInfo,
};
use analysis::control_flow::Graph;
use ptx::isa::Effect;
use ptx::names::Opcode as O;

/// The most blocks, steps and accesses of an arm.
const MAX_BLOCKS: usize = 4;
const MAX_STEPS: usize = 24;
const MAX_ACCESSES: usize = 4;
/// The most accesses of a kernel, of which each is a loop over lanes.
const MAX_ACCESSES_OF_KERNEL: usize = 64;

/// A branch whose arms are executed for some lanes each.
pub(super) struct MaskedBranch {
    /// Where the arms meet again.
    pub join: BlockId,
    /// The registers that keep their values in lanes that do not execute an arm, in their order.
    pub kept: Vec<Reg>,
    /// The kept registers that an arm writes, so that a vector of one has old and new values.
    pub merged: Vec<Reg>,
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
    let mut kept = liveness.live_in(join).to_vec();
    for arm in &arms {
        kept.extend_from_slice(liveness.live_in(arm[0]));
    }
    kept.sort_unstable();
    kept.dedup();
    let is_kept = |reg: Reg| kept.binary_search(&reg).is_ok();
    let (mut accesses, mut merged) = (0, Vec::new());
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
            if is_kept(reg) {
                keeps = true;
                merged.push(reg);
            }
            // Its lanes would have values that are no longer shared.
            possible &= !is_kept(reg) || uniformity.of(reg) == Uniformity::Divergent;
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
    let masked = MaskedBranch { join, kept, merged };
    fits.then_some((masked, accesses))
}

/// The blocks that follow one another from `start` on, which nothing else reaches, and the block
/// after them.
pub(super) fn arm(
    program: &Program<'_>,
    graph: &Graph,
    start: BlockId,
) -> Option<(Vec<BlockId>, BlockId)> {
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

pub(super) fn is_access(program: &Program<'_>, i: &Instruction) -> bool {
    matches!(i.opcode, O::Ld | O::Ldu | O::St | O::Atom | O::Red) && !is_move(program, i)
}
