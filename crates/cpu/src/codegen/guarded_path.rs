//! Accesses one after the other, each under a guard of its own, such as those to the elements of a
//! row up to its end: `if (i < n) a = row[i]; if (i + 1 < n) b = row[i + 1];`.
//!
//! In most lane groups all guards hold for all lanes. These run a copy of the blocks in a straight
//! line, without their branches; the others run the blocks themselves.

use super::masked_branch::arm;
use crate::program::{BlockId, Guard, Program, Step, Terminator, UniformityInfo};
use analysis::control_flow::{Graph, Loops};
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
    let Some(loops) = Loops::new(&graph) else {
        return program.blocks.iter().map(|_| None).collect();
    };
    let heads: Vec<BlockId> = loops.ids().map(|id| loops.get(id).head).collect();
    let mut covered = vec![false; program.blocks.len()];
    let blocks = 0..program.blocks.len() as u32;
    let paths = blocks.map(|block| {
        if covered[block as usize] {
            return None;
        }
        let found = path(program, uniformity, (&graph, &heads), BlockId(block))?;
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
    (graph, heads): (&Graph, &[BlockId]),
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
        // A loop is entered where its code is.
        let ends = |block: &BlockId| {
            *block == start || heads.contains(block) || path.blocks.contains(block)
        };
        if next.iter().any(ends) || count + all > MAX_STEPS {
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
