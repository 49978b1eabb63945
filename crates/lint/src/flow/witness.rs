//! Witness paths: paths that control surely takes and on which a register is uninitialized.

use std::cell::OnceCell;

use super::context::Flow;
use super::graph::{BlockId, Graph};
use super::instructions::{InstructionId, Instructions};
use super::uninitialized::{Uninitialized, UninitializedValues, condition_of, copied, edge, plain};
use super::values::{Definition, ValueId, Values};
use ptx::ast::Operand;

/// The paths of a function that bypass the writes of its registers.
///
/// A path is a witness if a single branch bypasses the writes. Several branches may
/// be correlated in a way that the text does not show: the same condition tested
/// twice, a loop of at least one iteration.
pub(crate) struct WitnessPaths<'f, 'm, 'a> {
    flow: &'f Flow<'m, 'a>,
    uninitialized: &'f UninitializedValues,
    /// The immediate post-dominator of each block, where somebody has asked.
    after: OnceCell<Vec<Option<BlockId>>>,
}

impl<'f, 'm, 'a> WitnessPaths<'f, 'm, 'a> {
    pub(crate) fn new(flow: &'f Flow<'m, 'a>, uninitialized: &'f UninitializedValues) -> Self {
        WitnessPaths {
            flow,
            uninitialized,
            after: OnceCell::new(),
        }
    }

    /// Whether there is a witness path on which the value is uninitialized where this
    /// instruction reads it.
    pub(crate) fn exist(&self, value: ValueId, reader: InstructionId) -> bool {
        self.lead_to(value, &mut Vec::new()) && self.reach(value, reader)
    }

    /// Whether control always comes to this instruction from where the value is made.
    pub(crate) fn reach(&self, value: ValueId, reader: InstructionId) -> bool {
        let home = self.flow.graph.block_of(reader);
        self.home(value).is_none_or(|made| self.come(made, home))
    }

    /// The block that defines a value; `None` for the value at the entry.
    fn home(&self, value: ValueId) -> Option<BlockId> {
        match self.flow.values.definition(value) {
            Some(Definition::Written(id)) => Some(self.flow.graph.block_of(id)),
            Some(Definition::Phi(block)) => Some(block),
            _ => None,
        }
    }

    /// Whether control always reaches `to` from `from`. A branch between the two may be
    /// correlated: the same condition may decide whether the register was written.
    fn come(&self, from: BlockId, to: BlockId) -> bool {
        if from == to {
            return true;
        }
        let after = self.after.get_or_init(|| self.flow.graph.post_dominators());
        let mut at = Some(from);
        // Bounds the time.
        for _ in 0..64 {
            if at == Some(to) {
                return true;
            }
            at = at.and_then(|at| after[at.index()]);
        }
        first_turn_comes(&self.flow.graph, from, to)
    }

    /// Whether a single branch leaves the value uninitialized.
    fn lead_to(&self, value: ValueId, visited: &mut Vec<ValueId>) -> bool {
        let Flow {
            instructions,
            graph,
            values,
        } = self.flow;
        // Bounds the time.
        if visited.len() > 16 || visited.contains(&value) {
            return false;
        }
        visited.push(value);
        match values.definition(value) {
            Some(Definition::Start) => true,
            Some(Definition::Written(id)) => {
                let Some(before) = copied(instructions, values, id).or(values.prior(value)) else {
                    return false;
                };
                let earlier = match values.definition(before) {
                    Some(Definition::Written(earlier)) => Some(earlier),
                    _ => None,
                };
                // A branch before a copy may depend on whether there is something to copy.
                let copies = graph.block_of(id);
                !earlier.is_some_and(|earlier| are_related(instructions, values, id, earlier))
                    && self.home(before).is_none_or(|made| self.come(made, copies))
                    && self.lead_to(before, visited)
            }
            Some(Definition::Phi(block)) => {
                let above = graph.dominator(block);
                let parts = values.phi_operands(graph, value);
                let ways = graph.predecessors(block).zip(parts);
                // A value from the back edge was uninitialized before the loop too.
                let (back, mut entries): (Vec<_>, Vec<_>) =
                    ways.partition(|(from, _)| graph.dominates(block, *from));
                entries.retain(|(_, part)| self.uninitialized.of(**part) != Uninitialized::Never);
                !entries.is_empty()
                    && entries.into_iter().all(|(from, part)| {
                        leads_straight(graph, above, from)
                            && !is_known(instructions, graph, values, above, from, block)
                            && (self.uninitialized.of(*part) == Uninitialized::Always
                                || !back.is_empty()
                                    && self.home(*part).is_none_or(|made| self.come(made, above))
                                    && self.lead_to(*part, visited))
                    })
            }
            None => false,
        }
    }
}

/// Whether the first iteration of a loop reaches `home`, if there is one: each
/// branch on the path from `head` leads there or leaves the loop for good.
fn first_turn_comes(graph: &Graph, head: BlockId, home: BlockId) -> bool {
    let mut before = graph.predecessors(head);
    if !before.any(|from| graph.dominates(head, from)) {
        return false;
    }
    let mut at = home;
    // Bounds the time.
    for _ in 0..16 {
        if at == head {
            return home != head;
        }
        at = graph.dominator(at);
        let mut others = graph.successors(at);
        if others.any(|to| !graph.dominates(to, home) && graph.leads_to(to, head)) {
            return false;
        }
    }
    false
}

/// Whether the guards of two instructions compare the same values, so that they may
/// be correlated.
fn are_related(
    instructions: &Instructions<'_, '_>,
    values: &Values,
    a: InstructionId,
    b: InstructionId,
) -> bool {
    let compared = |id: InstructionId| {
        let step = &instructions.steps[id.index()];
        let (guard, _) = plain(
            instructions,
            values,
            values.guard(instructions, step)?,
            false,
        );
        let Some(Definition::Written(made)) = values.definition(guard) else {
            return None;
        };
        let read = values.reads(instructions, &instructions.steps[made.index()]);
        let read: Vec<ValueId> = read.map(|(_, value)| value).collect();
        let operands = instructions.body.list(instructions.get(made)?.operands);
        let number = operands.iter().find_map(|operand| match operand {
            Operand::Integer(integer) => Some(integer.value),
            _ => None,
        });
        Some((read, number))
    };
    compared(a).is_some_and(|a| compared(b) == Some(a))
}

/// Whether there is no branch between the end of `above` and the end of `from`.
fn leads_straight(graph: &Graph, above: BlockId, from: BlockId) -> bool {
    let mut at = from;
    for _ in 0..64 {
        if at == above {
            return true;
        }
        let mut before = graph.predecessors(at);
        at = match (before.next(), before.next()) {
            (Some(one), None) if graph.successors(at).count() == 1 => one,
            _ => return false,
        };
    }
    false
}

/// Whether control cannot go from `above` through `from` to `to`: an earlier branch
/// on the same predicate excludes it, or the predicate is a constant.
fn is_known(
    instructions: &Instructions<'_, '_>,
    graph: &Graph,
    values: &Values,
    above: BlockId,
    from: BlockId,
    to: BlockId,
) -> bool {
    let mut next = (from, to);
    while next.0 != above {
        match graph.predecessors(next.0).next() {
            Some(before) => next = (before, next.0),
            None => return true,
        }
    }
    let Some((predicate, is)) = edge(instructions, graph, values, above, next.1) else {
        return false;
    };
    if let Some(Definition::Written(id)) = values.definition(predicate)
        && let Some(instruction) = instructions.get(id)
        && let [Operand::Name(_), Operand::Integer(constant)] =
            instructions.body.list(instruction.operands)
    {
        return (constant.value != 0) != is;
    }
    let mut at = above;
    for _ in 0..64 {
        if condition_of(instructions, graph, values, at) == Some((predicate, !is)) {
            return true;
        }
        if at == BlockId::ENTRY {
            break;
        }
        at = graph.dominator(at);
    }
    false
}
