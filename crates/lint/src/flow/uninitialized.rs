//! Uninitialized values: those that a register may hold before it is written.

use super::effect::Terminator;
use super::graph::{BlockId, Graph};
use super::instructions::{InstructionId, Instructions, Step};
use super::values::{Definition, ValueId, Values};
use ptx::ast::Operand;
use ptx::names::Opcode;

/// When a value is uninitialized.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Uninitialized {
    /// It is initialized on every path.
    #[default]
    Never,
    /// Only under these conditions.
    When(Conditions),
    /// On some path.
    Sometimes,
    /// On every path.
    Always,
}

impl Uninitialized {
    /// On one of two paths.
    fn or(self, other: Uninitialized) -> Uninitialized {
        match (self, other) {
            (one, other) if one == other => one,
            (Uninitialized::Never, when @ Uninitialized::When(_))
            | (when @ Uninitialized::When(_), Uninitialized::Never) => when,
            (Uninitialized::When(one), Uninitialized::When(other)) => one
                .shared(other)
                .map_or(Uninitialized::Sometimes, Uninitialized::When),
            _ => Uninitialized::Sometimes,
        }
    }
}

/// A predicate and its value.
type Condition = (ValueId, bool);

/// A conjunction of one or two conditions; of more, the first and the last are kept.
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
        if self.has(condition) {
            self
        } else {
            Conditions {
                last: Some(condition),
                ..self
            }
        }
    }

    /// The conditions that are in both.
    fn shared(self, other: Conditions) -> Option<Conditions> {
        let all = [Some(self.first), self.last].into_iter().flatten();
        all.filter(|condition| other.has(*condition))
            .map(Conditions::one)
            .reduce(|all, one| all.and(one.first))
    }

    /// Whether `condition` contradicts one of them.
    fn exclude(self, (predicate, is): Condition) -> bool {
        self.has((predicate, !is))
    }
}

/// For each value, when it is uninitialized.
#[derive(Debug)]
pub struct UninitializedValues {
    /// Empty where every register is written before it is read.
    of: Vec<Uninitialized>,
}

const ROUNDS: usize = 16;

impl UninitializedValues {
    pub(crate) fn new(
        instructions: &Instructions<'_, '_>,
        graph: &Graph,
        values: &Values,
    ) -> UninitializedValues {
        let is_lost = |(at, definition): (usize, &Definition)| {
            *definition == Definition::Start && !instructions.is_argument(values.registers[at])
        };
        if !values.definitions.iter().enumerate().any(is_lost) {
            return UninitializedValues { of: Vec::new() };
        }
        let mut uninitialized = UninitializedValues {
            of: vec![Uninitialized::Never; values.definitions.len()],
        };
        let mut open = Vec::new();
        for (at, definition) in values.definitions.iter().enumerate() {
            let value = ValueId(at as u32);
            match definition {
                Definition::Start => {
                    if !instructions.is_argument(values.registers[at]) {
                        uninitialized.of[at] = Uninitialized::Always;
                    }
                }
                Definition::Written(id)
                    if values.prior(value).is_none()
                        && copied(instructions, values, *id).is_none() => {}
                Definition::Written(_) | Definition::Phi(_) => open.push(value),
            }
        }
        for _ in 0..ROUNDS {
            let mut changed = false;
            for value in &open {
                let new = uninitialized.find(instructions, graph, values, *value);
                changed |= std::mem::replace(&mut uninitialized.of[value.index()], new) != new;
            }
            if !changed {
                return uninitialized;
            }
        }
        // A value that does not converge counts as initialized.
        uninitialized.of.fill(Uninitialized::Never);
        uninitialized
    }

    /// Whether every register is written before it is read.
    pub fn is_empty(&self) -> bool {
        self.of.is_empty()
    }

    /// When a value is uninitialized.
    pub fn of(&self, value: ValueId) -> Uninitialized {
        self.of.get(value.index()).copied().unwrap_or_default()
    }

    /// When a value is uninitialized where this instruction is executed.
    pub fn at(
        &self,
        instructions: &Instructions<'_, '_>,
        graph: &Graph,
        values: &Values,
        value: ValueId,
        reader: InstructionId,
    ) -> Uninitialized {
        let uninitialized = self.of(value);
        let Uninitialized::When(conditions) = uninitialized else {
            return uninitialized;
        };
        let excludes = |known: Option<Condition>| {
            known.is_some_and(|it| {
                implied(instructions, values, it)
                    .into_iter()
                    .any(|it| conditions.exclude(it))
            })
        };
        let step = &instructions.steps[reader.index()];
        let guard = values.guard(instructions, step);
        let guard = guard.map(|guard| plain(instructions, values, guard, !step.negated));
        let guarded = excludes(guard);
        let mut at = graph.block_of(reader);
        // The branch on the predicate may be any dominator.
        for _ in 0..64 {
            if guarded || excludes(condition_of(instructions, graph, values, at)) {
                return Uninitialized::Never;
            }
            if at == BlockId::ENTRY {
                break;
            }
            at = graph.dominator(at);
        }
        uninitialized
    }

    fn find(
        &self,
        instructions: &Instructions<'_, '_>,
        graph: &Graph,
        values: &Values,
        value: ValueId,
    ) -> Uninitialized {
        match values.definition(value) {
            Some(Definition::Written(id)) => {
                let step = &instructions.steps[id.index()];
                if let Some(source) = copied(instructions, values, id) {
                    return self.of(source);
                }
                let Some(guard) = values.guard(instructions, step) else {
                    return Uninitialized::Never;
                };
                let (guard, negated) = plain(instructions, values, guard, step.negated);
                let before = values
                    .prior(value)
                    .map_or(Uninitialized::Never, |prior| self.of(prior));
                // The write is skipped where the predicate equals `step.negated`.
                match before {
                    Uninitialized::Never => Uninitialized::Never,
                    Uninitialized::Always | Uninitialized::Sometimes => {
                        Uninitialized::When(Conditions::one((guard, negated)))
                    }
                    Uninitialized::When(conditions) if conditions.exclude((guard, negated)) => {
                        Uninitialized::Never
                    }
                    Uninitialized::When(conditions) => {
                        Uninitialized::When(conditions.and((guard, negated)))
                    }
                }
            }
            Some(Definition::Phi(block)) => {
                let parts = values.phi_operands(graph, value);
                let all = graph.predecessors(block).zip(parts);
                let mut sum: Option<Uninitialized> = None;
                for (from, part) in all {
                    // The value of a back edge adds nothing.
                    if *part == value {
                        continue;
                    }
                    let one = match self.of(*part) {
                        known @ (Uninitialized::Always | Uninitialized::Sometimes) => {
                            match edge(instructions, graph, values, from, block) {
                                Some(condition) => Uninitialized::When(Conditions::one(condition)),
                                None => known,
                            }
                        }
                        // Control does not take this edge where it is uninitialized.
                        Uninitialized::When(conditions)
                            if edge(instructions, graph, values, from, block)
                                .is_some_and(|known| conditions.exclude(known)) =>
                        {
                            Uninitialized::Never
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

/// The conditions that hold where this one does: neither side of `or.pred` is true where
/// that is false, both of `and.pred` are where that is true.
fn implied(
    instructions: &Instructions<'_, '_>,
    values: &Values,
    condition: Condition,
) -> Vec<Condition> {
    const MANY: usize = 16;
    let mut all = vec![condition];
    let mut next = 0;
    while let Some((predicate, is)) = all.get(next).copied() {
        next += 1;
        let Some(Definition::Written(id)) = values.definition(predicate) else {
            continue;
        };
        let step = &instructions.steps[id.index()];
        let splits = match instructions.get(id).map(|i| i.opcode) {
            Some(Opcode::Or) => !is,
            Some(Opcode::And) => is,
            _ => false,
        };
        if splits && !step.partial && all.len() < MANY {
            let sides = values.reads(instructions, step).map(|(_, side)| side);
            all.extend(sides.map(|side| plain(instructions, values, side, is)));
        }
    }
    all
}

/// The condition that holds in a block: that of the only branch to it.
pub(super) fn condition_of(
    instructions: &Instructions<'_, '_>,
    graph: &Graph,
    values: &Values,
    block: BlockId,
) -> Option<(ValueId, bool)> {
    let mut before = graph.predecessors(block);
    match (before.next(), before.next()) {
        (Some(from), None) => edge(instructions, graph, values, from, block),
        _ => None,
    }
}

/// The condition that holds on an edge.
pub(super) fn edge(
    instructions: &Instructions<'_, '_>,
    graph: &Graph,
    values: &Values,
    from: BlockId,
    to: BlockId,
) -> Option<(ValueId, bool)> {
    let last = graph.blocks[from.index()].steps().next_back()?;
    let step: &Step = &instructions.steps[last.index()];
    if step.terminator == Terminator::FallThrough {
        return None;
    }
    let guard = values.guard(instructions, step)?;
    let next = BlockId(from.0 + 1);
    let jumps = step.terminator == Terminator::Jump;
    if jumps && graph.successors(from).count() < 2 {
        return None;
    }
    // Control falls through where the guard does not hold.
    Some(plain(
        instructions,
        values,
        guard,
        (to == next) == step.negated,
    ))
}

/// The source of `mov a, b`: a copy of an uninitialized value is not yet a use.
/// Compilers write such copies of values that nothing reads in the end.
pub(crate) fn copied(
    instructions: &Instructions<'_, '_>,
    values: &Values,
    id: InstructionId,
) -> Option<ValueId> {
    let step = &instructions.steps[id.index()];
    let instruction = instructions.get(id)?;
    if instruction.opcode != Opcode::Mov || step.partial {
        return None;
    }
    let operands = instructions.body.list(instruction.operands);
    let [Operand::Name(_), Operand::Name(_)] = operands else {
        return None;
    };
    let source = values.of_operand(instruction.operands.start as usize + 1);
    (source != ValueId::NONE).then_some(source)
}

/// A condition, with `not.pred` folded into it.
pub(super) fn plain(
    instructions: &Instructions<'_, '_>,
    values: &Values,
    mut predicate: ValueId,
    mut is: bool,
) -> (ValueId, bool) {
    for _ in 0..8 {
        let Some(Definition::Written(id)) = values.definition(predicate) else {
            break;
        };
        let step = &instructions.steps[id.index()];
        let not = instructions.get(id).map(|i| i.opcode) == Some(Opcode::Not);
        let mut reads = values.reads(instructions, step);
        match (reads.next(), reads.next()) {
            (Some((_, source)), None) if not && !step.partial => {
                (predicate, is) = (source, !is);
            }
            _ => break,
        }
    }
    (predicate, is)
}
