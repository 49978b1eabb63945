//! Which lanes of a warp execute a block, by comparisons with the index of the thread.

use super::ir::{Arg, BlockId, Program, Step, Terminator};
use super::thread_sums::ThreadSums;
use analysis::dependence::{BITS, Sources, WARP};
use ptx::names::{Modifier as M, Opcode as O};

/// The lanes of a block.
#[derive(Clone, Copy)]
pub(super) struct LaneSet {
    /// Those that may be there.
    pub lanes: u32,
    /// Where only one is there, which may be any of them: the block at which it is alone.
    pub alone: Option<BlockId>,
}

/// By block.
pub(super) fn lane_sets(program: &Program<'_>, sums: &mut ThreadSums<'_, '_>) -> Vec<LaneSet> {
    let all = LaneSet {
        lanes: u32::MAX,
        alone: None,
    };
    let mut sets = vec![all; program.blocks.len()];
    let mut heads = Vec::new();
    for block in &program.blocks {
        heads.extend(compared(program, block, sums).into_iter().flatten());
    }
    if heads.is_empty() {
        return sets;
    }
    let graph = program.graph();
    heads.retain(|(head, _)| graph.is_reached(*head) && graph.predecessors(*head).count() == 1);
    for &at in &graph.order {
        let above = heads.iter().filter(|(head, _)| graph.dominates(*head, at));
        for (_, set) in above {
            let here = &mut sets[at.index()];
            here.lanes &= set.lanes;
            here.alone = here.alone.or(set.alone);
        }
    }
    sets
}

/// Where the branch at the end of a block goes to, and which lanes go there.
fn compared(
    program: &Program<'_>,
    block: &super::BasicBlock,
    sums: &mut ThreadSums<'_, '_>,
) -> Option<[(BlockId, LaneSet); 2]> {
    let Terminator::Branch {
        predicate,
        then,
        otherwise,
    } = block.terminator
    else {
        return None;
    };
    let (i, a, b) = block.steps.iter().rev().find_map(|step| match step {
        Step::Instruction(i) if i.opcode == O::Setp => match *program.list(i.args) {
            [Arg::Reg(to), a, b] if to == predicate.reg => Some((i, a, b)),
            _ => None,
        },
        _ => None,
    })?;
    let is = |words: &[M]| i.modifiers.first_of(words).is_some();
    let apart = sums.operand(a)?.plus(&sums.operand(b)?, -1);
    if apart.other != Sources::NONE || i.guard.is_some() {
        return None;
    }
    let is_number = apart.terms.is_empty() && (apart.thread.row, apart.thread.plane) == (0, 0);
    let (mut holds, mut fails) = (0, 0);
    for thread in (0..1 << BITS).filter(|_| is_number) {
        let apart = apart.thread.at([thread, 0, 0]);
        let compares = match () {
            () if is(&[M::Eq]) => apart == 0,
            () if is(&[M::Ne]) => apart != 0,
            () if is(&[M::Lt, M::Lo]) => apart < 0,
            () if is(&[M::Le, M::Ls]) => apart <= 0,
            () if is(&[M::Gt, M::Hi]) => apart > 0,
            () if is(&[M::Ge, M::Hs]) => apart >= 0,
            () => return None,
        };
        let lane = 1 << (thread % WARP);
        match compares != predicate.negated {
            true => holds |= lane,
            false => fails |= lane,
        }
    }
    if !is_number {
        (holds, fails) = (u32::MAX, u32::MAX);
    }
    // An unknown is equal to what one lane has at most.
    let mut lanes: Vec<i64> = (0..WARP)
        .map(|lane| apart.thread.at([lane, 0, 0]))
        .collect();
    lanes.sort_unstable();
    lanes.dedup();
    let differ = lanes.len() == WARP as usize;
    let way = |to: BlockId, lanes: u32, equal: bool| {
        let alone = (differ && equal).then_some(to);
        (to, LaneSet { lanes, alone })
    };
    let [equal, differs] = [M::Eq, M::Ne].map(|word| is(&[word]));
    let (equal, differs) = match predicate.negated {
        true => (differs, equal),
        false => (equal, differs),
    };
    Some([way(then, holds, equal), way(otherwise, fails, differs)])
}
