//! Values that may be what a register held before anything was written to it.

use super::code::{Code, InstructionId, Step};
use super::effect::Ends;
use super::graph::{BlockId, Graph};
use super::values::{Definition, ValueId, Values};
use crate::ptx::ast::Operand;
use crate::ptx::names::Opcode;

/// When a value is not set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unset {
    /// It is set on every way.
    #[default]
    Never,
    /// Only where this predicate is this.
    When(ValueId, bool),
    /// On some way.
    Sometimes,
    /// Nothing is ever written.
    Always,
}

/// For each value, when it is not set.
#[derive(Debug)]
pub struct UnsetValues {
    of: Vec<Unset>,
}

const ROUNDS: usize = 16;

impl UnsetValues {
    pub(crate) fn new(code: &Code<'_, '_>, graph: &Graph, values: &Values) -> UnsetValues {
        let mut unset = UnsetValues {
            of: vec![Unset::Never; values.definitions.len()],
        };
        let mut open = Vec::new();
        for (at, definition) in values.definitions.iter().enumerate() {
            let value = ValueId(at as u32);
            match definition {
                Definition::Start => {
                    if !code.arguments.contains(&values.registers[at]) {
                        unset.of[at] = Unset::Always;
                    }
                }
                Definition::Written(id)
                    if values.prior(value).is_none() && copied(code, values, *id).is_none() => {}
                Definition::Written(_) | Definition::Joined(_) => open.push(value),
            }
        }
        for _ in 0..ROUNDS {
            let mut changed = false;
            for value in &open {
                let new = unset.find(code, graph, values, *value);
                changed |= std::mem::replace(&mut unset.of[value.index()], new) != new;
            }
            if !changed {
                return unset;
            }
        }
        // What does not settle is not shown.
        unset.of.fill(Unset::Never);
        unset
    }

    /// When a value is not set.
    pub fn of(&self, value: ValueId) -> Unset {
        self.of.get(value.index()).copied().unwrap_or_default()
    }

    /// When a value is not set where this instruction is executed.
    pub fn at(
        &self,
        code: &Code<'_, '_>,
        graph: &Graph,
        values: &Values,
        value: ValueId,
        reader: InstructionId,
    ) -> Unset {
        let unset = self.of(value);
        let Unset::When(predicate, when) = unset else {
            return unset;
        };
        let step = &code.steps[reader.index()];
        let guard = values.guard(code, step);
        let guard = guard.map(|guard| plain(code, values, guard, !step.negated));
        let guarded = guard == Some((predicate, !when));
        let mut at = graph.block_of(reader);
        // As far up as a branch on the predicate may be.
        for _ in 0..64 {
            if guarded || condition_of(code, graph, values, at) == Some((predicate, !when)) {
                return Unset::Never;
            }
            if at == BlockId::ENTRY {
                break;
            }
            at = graph.dominator(at);
        }
        unset
    }

    /// Whether one decision leads past every write of the value.
    ///
    /// Where several do, they may hang together in a way that the text does
    /// not show: the same question asked twice, a loop of at least one turn.
    pub fn is_shown(
        &self,
        code: &Code<'_, '_>,
        graph: &Graph,
        values: &Values,
        value: ValueId,
    ) -> bool {
        let mut at = value;
        // As far as anyone would follow.
        for _ in 0..16 {
            match values.definition(at) {
                Some(Definition::Start) => return true,
                Some(Definition::Written(id)) => {
                    let before = copied(code, values, id).or(values.prior(at));
                    let Some(before) = before else {
                        return false;
                    };
                    if let Some(Definition::Written(earlier)) = values.definition(before)
                        && are_related(code, values, id, earlier)
                    {
                        return false;
                    }
                    at = before;
                }
                Some(Definition::Joined(block)) => {
                    return self.is_joined_by_one(code, graph, values, at, block);
                }
                None => return false,
            }
        }
        false
    }

    /// Whether a joined value is not set because of the branch above the join
    /// alone.
    fn is_joined_by_one(
        &self,
        code: &Code<'_, '_>,
        graph: &Graph,
        values: &Values,
        value: ValueId,
        block: BlockId,
    ) -> bool {
        let above = graph.dominator(block);
        let parts = values.parts(graph, value);
        let mut unset = graph
            .predecessors(block)
            .zip(parts)
            .filter(|(_, part)| **part != value && self.of(**part) != Unset::Never);
        unset.all(|(from, part)| {
            self.of(*part) == Unset::Always
                && leads_straight(graph, above, from)
                && !is_known(code, graph, values, above, from, block)
        })
    }

    fn find(&self, code: &Code<'_, '_>, graph: &Graph, values: &Values, value: ValueId) -> Unset {
        match values.definition(value) {
            Some(Definition::Written(id)) => {
                let step = &code.steps[id.index()];
                if let Some(source) = copied(code, values, id) {
                    return self.of(source);
                }
                let Some(guard) = values.guard(code, step) else {
                    return Unset::Never;
                };
                let (guard, negated) = plain(code, values, guard, step.negated);
                let before = values
                    .prior(value)
                    .map_or(Unset::Never, |prior| self.of(prior));
                // The guard does not hold where it is `step.negated`.
                match before {
                    Unset::Never => Unset::Never,
                    Unset::Always => Unset::When(guard, negated),
                    Unset::When(other, when) if other == guard => match when == negated {
                        true => before,
                        false => Unset::Never,
                    },
                    Unset::When(..) | Unset::Sometimes => before,
                }
            }
            Some(Definition::Joined(block)) => {
                let parts = values.parts(graph, value);
                let all = graph.predecessors(block).zip(parts);
                let mut sum: Option<Unset> = None;
                for (from, part) in all {
                    // A value that comes around a loop adds nothing.
                    if *part == value {
                        continue;
                    }
                    let one = match self.of(*part) {
                        known @ (Unset::Always | Unset::Sometimes) => {
                            match edge(code, graph, values, from, block) {
                                Some((predicate, when)) => Unset::When(predicate, when),
                                None => known,
                            }
                        }
                        // Where it is not set, control does not come this way.
                        Unset::When(predicate, when)
                            if edge(code, graph, values, from, block)
                                == Some((predicate, !when)) =>
                        {
                            Unset::Never
                        }
                        known => known,
                    };
                    sum = Some(match sum {
                        None => one,
                        Some(known) if known == one => known,
                        Some(Unset::Never) => match one {
                            Unset::When(..) => one,
                            _ => Unset::Sometimes,
                        },
                        Some(known @ Unset::When(..)) if one == Unset::Never => known,
                        Some(_) => Unset::Sometimes,
                    });
                }
                sum.unwrap_or_default()
            }
            _ => self.of(value),
        }
    }
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

/// What holds wherever control is in a block: the predicate of the branch that
/// alone leads to it.
fn condition_of(
    code: &Code<'_, '_>,
    graph: &Graph,
    values: &Values,
    block: BlockId,
) -> Option<(ValueId, bool)> {
    let mut before = graph.predecessors(block);
    match (before.next(), before.next()) {
        (Some(from), None) => edge(code, graph, values, from, block),
        _ => None,
    }
}

/// What holds on the way from one block to the next.
fn edge(
    code: &Code<'_, '_>,
    graph: &Graph,
    values: &Values,
    from: BlockId,
    to: BlockId,
) -> Option<(ValueId, bool)> {
    let last = graph.blocks[from.index()].steps().next_back()?;
    let step: &Step = &code.steps[last.index()];
    if step.ends == Ends::No {
        return None;
    }
    let guard = values.guard(code, step)?;
    let next = BlockId(from.0 + 1);
    let jumps = step.ends == Ends::Jump;
    if jumps && graph.successors(from).count() < 2 {
        return None;
    }
    // The next block is where the guard does not hold.
    Some(plain(code, values, guard, (to == next) == step.negated))
}

/// The source of `mov a, b`: a copy of what is not set is no use of it yet.
/// Compilers write such for values that nothing reads in the end.
pub(crate) fn copied(code: &Code<'_, '_>, values: &Values, id: InstructionId) -> Option<ValueId> {
    let step = &code.steps[id.index()];
    let instruction = code.instruction(id)?;
    if instruction.opcode != Opcode::Mov || step.partial {
        return None;
    }
    let operands = code.body.list(instruction.operands);
    let [Operand::Name(_), Operand::Name(_)] = operands else {
        return None;
    };
    let source = values.of_operand(instruction.operands.start as usize + 1);
    (source != ValueId::NONE).then_some(source)
}

/// A predicate and what it is, seen through `not.pred`.
fn plain(
    code: &Code<'_, '_>,
    values: &Values,
    mut predicate: ValueId,
    mut is: bool,
) -> (ValueId, bool) {
    for _ in 0..8 {
        let Some(Definition::Written(id)) = values.definition(predicate) else {
            break;
        };
        let step = &code.steps[id.index()];
        let not = code.instruction(id).map(|i| i.opcode) == Some(Opcode::Not);
        let mut reads = values.reads(code, step);
        match (reads.next(), reads.next()) {
            (Some((_, source)), None) if not && !step.partial => {
                (predicate, is) = (source, !is);
            }
            _ => break,
        }
    }
    (predicate, is)
}
