//! Whether control surely comes a way on which a register is not set.

use super::code::{Code, InstructionId};
use super::graph::{BlockId, Graph};
use super::unset::{Unset, UnsetValues, condition_of, copied, edge, plain};
use super::values::{Definition, ValueId, Values};
use crate::Flow;
use ptx::ast::Operand;

/// The ways of a function past the writes of its registers.
///
/// A way is shown where one decision alone leads past the writes. Where several
/// do, they may hang together in a way that the text does not show: the same
/// question asked twice, a loop of at least one turn.
pub(crate) struct Ways<'f, 'm, 'a> {
    flow: &'f Flow<'m, 'a>,
    unset: &'f UnsetValues,
    /// For each block the next that every way to the end comes to.
    after: Option<Vec<Option<BlockId>>>,
}

impl<'f, 'm, 'a> Ways<'f, 'm, 'a> {
    pub(crate) fn new(flow: &'f Flow<'m, 'a>, unset: &'f UnsetValues) -> Self {
        Ways {
            flow,
            unset,
            after: flow.graph.post_dominators(),
        }
    }

    /// Whether a way is shown on which the value is not set where this
    /// instruction reads it.
    pub(crate) fn are_shown(&self, value: ValueId, reader: InstructionId) -> bool {
        let home = self.flow.graph.block_of(reader);
        self.home(value).is_none_or(|made| self.come(made, home))
            && self.lead_to(value, &mut Vec::new())
    }

    /// Where a value is made; not that of the start.
    fn home(&self, value: ValueId) -> Option<BlockId> {
        match self.flow.values.definition(value) {
            Some(Definition::Written(id)) => Some(self.flow.graph.block_of(id)),
            Some(Definition::Joined(block)) => Some(block),
            _ => None,
        }
    }

    /// Whether control always comes from one block to another. If a branch lies
    /// between, it may know better: the same condition may have decided whether
    /// the register was written.
    fn come(&self, from: BlockId, to: BlockId) -> bool {
        let Some(after) = &self.after else {
            return false;
        };
        let mut at = Some(from);
        // As far as anyone would look.
        for _ in 0..64 {
            if at == Some(to) {
                return true;
            }
            at = at.and_then(|at| after[at.index()]);
        }
        first_turn_comes(&self.flow.graph, from, to)
    }

    /// Whether one decision leads to the value's not being set.
    fn lead_to(&self, value: ValueId, seen: &mut Vec<ValueId>) -> bool {
        let Flow {
            code,
            graph,
            values,
        } = self.flow;
        // As far as anyone would follow.
        if seen.len() > 16 || seen.contains(&value) {
            return false;
        }
        seen.push(value);
        match values.definition(value) {
            Some(Definition::Start) => true,
            Some(Definition::Written(id)) => {
                let Some(before) = copied(code, values, id).or(values.prior(value)) else {
                    return false;
                };
                let earlier = match values.definition(before) {
                    Some(Definition::Written(earlier)) => Some(earlier),
                    _ => None,
                };
                !earlier.is_some_and(|earlier| are_related(code, values, id, earlier))
                    && self.lead_to(before, seen)
            }
            Some(Definition::Joined(block)) => {
                let above = graph.dominator(block);
                let parts = values.parts(graph, value);
                let ways = graph.predecessors(block).zip(parts);
                // What comes around a loop was not set before either.
                let (back, mut entries): (Vec<_>, Vec<_>) =
                    ways.partition(|(from, _)| graph.dominates(block, *from));
                entries.retain(|(_, part)| self.unset.of(**part) != Unset::Never);
                !entries.is_empty()
                    && entries.into_iter().all(|(from, part)| {
                        leads_straight(graph, above, from)
                            && !is_known(code, graph, values, above, from, block)
                            && (self.unset.of(*part) == Unset::Always
                                || !back.is_empty()
                                    && self.home(*part).is_none_or(|made| self.come(made, above))
                                    && self.lead_to(*part, seen))
                    })
            }
            None => false,
        }
    }
}

/// Whether the first turn of a loop comes to `home`, if there is one: each
/// branch on the way from `head` leads there or out of the loop for good.
fn first_turn_comes(graph: &Graph, head: BlockId, home: BlockId) -> bool {
    let mut before = graph.predecessors(head);
    if !before.any(|from| graph.dominates(head, from)) {
        return false;
    }
    let mut at = home;
    // As far as anyone would look.
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

/// Whether the guards of two instructions compare the same things, so that one
/// may hold where the other does not.
fn are_related(code: &Code<'_, '_>, values: &Values, a: InstructionId, b: InstructionId) -> bool {
    let compared = |id: InstructionId| {
        let step = &code.steps[id.index()];
        let (guard, _) = plain(code, values, values.guard(code, step)?, false);
        let Some(Definition::Written(made)) = values.definition(guard) else {
            return None;
        };
        let read = values.reads(code, &code.steps[made.index()]);
        let read: Vec<ValueId> = read.map(|(_, value)| value).collect();
        let operands = code.body.list(code.instruction(made)?.operands);
        let number = operands.iter().find_map(|operand| match operand {
            Operand::Integer(integer) => Some(integer.value),
            _ => None,
        });
        Some((read, number))
    };
    compared(a).is_some_and(|a| compared(b) == Some(a))
}

/// Whether no branch lies between the end of `above` and the end of `from`.
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

/// Whether it is decided before the branch that control does not go from
/// `above` through `from` to `to`: by an earlier branch on the same predicate,
/// or because that is a constant.
fn is_known(
    code: &Code<'_, '_>,
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
    let Some((predicate, is)) = edge(code, graph, values, above, next.1) else {
        return false;
    };
    if let Some(Definition::Written(id)) = values.definition(predicate)
        && let Some(instruction) = code.instruction(id)
        && let [Operand::Name(_), Operand::Integer(constant)] = code.body.list(instruction.operands)
    {
        return (constant.value != 0) != is;
    }
    let mut at = above;
    for _ in 0..64 {
        if condition_of(code, graph, values, at) == Some((predicate, !is)) {
            return true;
        }
        if at == BlockId::ENTRY {
            break;
        }
        at = graph.dominator(at);
    }
    false
}
