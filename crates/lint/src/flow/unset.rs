//! Values that may be what a register held before anything was written to it.

use super::code::{Code, InstructionId, Step};
use super::effect::Ends;
use super::graph::{BlockId, Graph};
use super::values::{Definition, ValueId, Values};
use ptx::ast::Operand;
use ptx::names::Opcode;

/// When a value is not set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unset {
    /// It is set on every way.
    #[default]
    Never,
    /// Only where predicates are this.
    When(Conditions),
    /// On some way.
    Sometimes,
    /// Nothing is ever written.
    Always,
}

impl Unset {
    /// On one of two ways.
    fn or(self, other: Unset) -> Unset {
        match (self, other) {
            (one, other) if one == other => one,
            (Unset::Never, when @ Unset::When(_)) | (when @ Unset::When(_), Unset::Never) => when,
            (Unset::When(one), Unset::When(other)) => {
                one.shared(other).map_or(Unset::Sometimes, Unset::When)
            }
            _ => Unset::Sometimes,
        }
    }
}

/// A predicate, and what it is.
type Condition = (ValueId, bool);

/// One or two predicates that all have to be this; of more, those are kept that
/// came first and last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conditions {
    first: Condition,
    last: Option<Condition>,
}

impl Conditions {
    fn one(first: Condition) -> Conditions {
        Conditions { first, last: None }
    }

    fn has(self, condition: Condition) -> bool {
        self.first == condition || self.last == Some(condition)
    }

    fn and(self, condition: Condition) -> Conditions {
        match self.has(condition) {
            true => self,
            false => Conditions {
                last: Some(condition),
                ..self
            },
        }
    }

    /// What both ask for.
    fn shared(self, other: Conditions) -> Option<Conditions> {
        let all = [Some(self.first), self.last].into_iter().flatten();
        all.filter(|condition| other.has(*condition))
            .map(Conditions::one)
            .reduce(|all, one| all.and(one.first))
    }

    /// Whether they cannot be where this holds.
    fn exclude(self, (predicate, is): Condition) -> bool {
        self.has((predicate, !is))
    }
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
        let Unset::When(conditions) = unset else {
            return unset;
        };
        let excludes = |known: Option<Condition>| known.is_some_and(|it| conditions.exclude(it));
        let step = &code.steps[reader.index()];
        let guard = values.guard(code, step);
        let guard = guard.map(|guard| plain(code, values, guard, !step.negated));
        let guarded = excludes(guard);
        let mut at = graph.block_of(reader);
        // As far up as a branch on the predicate may be.
        for _ in 0..64 {
            if guarded || excludes(condition_of(code, graph, values, at)) {
                return Unset::Never;
            }
            if at == BlockId::ENTRY {
                break;
            }
            at = graph.dominator(at);
        }
        unset
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
                    Unset::Always | Unset::Sometimes => {
                        Unset::When(Conditions::one((guard, negated)))
                    }
                    Unset::When(conditions) if conditions.exclude((guard, negated)) => Unset::Never,
                    Unset::When(conditions) => Unset::When(conditions.and((guard, negated))),
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
                                Some(condition) => Unset::When(Conditions::one(condition)),
                                None => known,
                            }
                        }
                        // Where it is not set, control does not come this way.
                        Unset::When(conditions)
                            if edge(code, graph, values, from, block)
                                .is_some_and(|known| conditions.exclude(known)) =>
                        {
                            Unset::Never
                        }
                        known => known,
                    };
                    sum = Some(sum.map_or(one, |sum| sum.or(one)));
                }
                sum.unwrap_or_default()
            }
            _ => self.of(value),
        }
    }
}

/// What holds wherever control is in a block: the predicate of the branch that
/// alone leads to it.
pub(super) fn condition_of(
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
pub(super) fn edge(
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
pub(super) fn plain(
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
