//! Under which conditions a thread comes to a place, and whether two threads can
//! come to theirs together.

use std::cell::OnceCell;

use super::arithmetic::Relation;
use super::context::FunctionContext;
use super::evaluate::{Evaluator, Known, Place, Symbol, Turns};
use super::instructions::InstructionId;
use super::intervals::Orders;
use super::lanes::{Lanes, Shape, Sum, SymbolId, Symbols, WARP};
use super::threads::ThreadSet;
use super::values::{Definition, ValueId};
use analysis::control_flow::BlockId;
use ptx::names::{Modifier, Opcode, SpecialRegister};

/// What has to hold of a thread.
#[derive(Clone, Debug, Default)]
pub struct Conditions {
    /// Numbers that are 0 for the threads that do not come, or for those that do: all may
    /// come if empty.
    masks: Vec<(Lanes, bool)>,
    /// What has to hold of unknown quantities besides.
    tests: Vec<(Sum, Relation)>,
    /// The threads that may come, where somebody has asked.
    admitted: OnceCell<Vec<u32>>,
}

/// A predicate made of more than so many is not taken apart.
const DEPTH: u32 = 16;

/// So many conditions are kept in mind.
const LIMIT: usize = 48;

impl Conditions {
    /// Whether it may hold of a thread.
    pub fn admits(&self, thread: usize) -> bool {
        let mut masks = self.masks.iter();
        masks.all(|(mask, holds)| (mask.at(thread) != 0) == *holds)
    }

    /// The threads that it may hold of, a bit for each in the word of its warp.
    pub fn admitted(&self, threads: usize) -> &[u32] {
        self.admitted.get_or_init(|| {
            let all = (0..threads).step_by(WARP as usize).map(|first| {
                let count = (threads - first).min(WARP as usize) as u32;
                u32::MAX >> (WARP - count)
            });
            let mut words: Vec<u32> = all.collect();
            for (mask, holds) in &self.masks {
                let mut admitted = words.iter_mut();
                mask.each_word(threads, |word| {
                    if let Some(admitted) = admitted.next() {
                        *admitted &= if *holds { word } else { !word };
                    }
                });
            }
            words
        })
    }

    /// Whether threads are told apart by their numbers.
    pub fn is_of_threads(&self) -> bool {
        !self.masks.is_empty()
    }

    /// Those under which a thread comes to an instruction, in the first turn of the loops
    /// around it, as far as branches say; `None` where data of each thread decides.
    pub fn of(
        orders: &Orders<'_, '_, '_>,
        evaluator: &mut Evaluator<'_, '_, '_>,
        id: InstructionId,
    ) -> Option<Conditions> {
        let flow = evaluator.flow;
        let block = flow.graph.block_of(id);
        let mut conditions = Conditions::default();
        for fact in orders.facts_above(block, BlockId::ENTRY)? {
            let place = evaluator.place(fact.block, Turns::default());
            conditions.assume(evaluator, fact.predicate, fact.holds, place)?;
        }
        let step = &flow.instructions.steps[id.index()];
        if let Some(guard) = flow.values.guard(&flow.instructions, step) {
            let place = evaluator.place(block, Turns::default());
            conditions.assume(evaluator, guard, !step.negated, place)?;
        }
        Some(conditions)
    }

    /// Adds that a predicate holds, or does not; `None` where that depends on data of
    /// each thread.
    pub fn assume(
        &mut self,
        evaluator: &mut Evaluator<'_, '_, '_>,
        predicate: ValueId,
        holds: bool,
        at: Place,
    ) -> Option<()> {
        self.take(evaluator, predicate, holds, at, 0)
    }

    fn take(
        &mut self,
        evaluator: &mut Evaluator<'_, '_, '_>,
        predicate: ValueId,
        holds: bool,
        at: Place,
        depth: u32,
    ) -> Option<()> {
        if depth > DEPTH || self.masks.len() + self.tests.len() > LIMIT {
            return None;
        }
        let known = evaluator.value(predicate, at);
        if let Known::Sum(sum) = &known
            && sum.is_exact()
        {
            if !sum.lanes.all(|truth| (truth != 0) == holds) {
                self.masks.push((sum.lanes.clone(), holds));
                self.admitted = OnceCell::new();
            }
            return Some(());
        }
        let flow = evaluator.flow;
        if let Some(Definition::Written(id)) = flow.values.definition(predicate)
            && let Some(instruction) = flow.instructions.get(id)
            && !flow.instructions.steps[id.index()].partial
        {
            let mnemonic = evaluator.function.mnemonic(instruction);
            let at = evaluator.place(flow.graph.block_of(id), at.turns);
            let first = instruction.operands.start as usize;
            let of_predicates = mnemonic.modifiers.has(Modifier::Pred);
            match mnemonic.opcode {
                Opcode::Not if of_predicates => {
                    let inner = flow.values.of_operand(first + 1);
                    return self.take(evaluator, inner, !holds, at, depth + 1);
                }
                // Both hold, or neither does.
                Opcode::And | Opcode::Or
                    if of_predicates && (mnemonic.opcode == Opcode::And) == holds =>
                {
                    for number in 1..3 {
                        let inner = flow.values.of_operand(first + number);
                        self.take(evaluator, inner, holds, at, depth + 1)?;
                    }
                    return Some(());
                }
                Opcode::Setp if instruction.operands.len == 3 => {
                    let ty = mnemonic.modifiers.types().last();
                    if ty.is_some_and(super::effect::is_integer)
                        && let Some(relation) = Relation::of(mnemonic)
                        && let Some(a) = evaluator.operand(first + 1, at).sum()
                        && let Some(b) = evaluator.operand(first + 2, at).sum()
                        && let Some(apart) = a.minus(&b)
                    {
                        // How many threads come is not known, unless it is the bound of
                        // the grid, which most blocks lie within.
                        let of_grid = apart
                            .symbols
                            .all()
                            .iter()
                            .any(|(id, _)| matches!(evaluator.symbol(*id), Symbol::Special(_)));
                        if !apart.is_uniform() && !of_grid {
                            return None;
                        }
                        let relation = if holds { relation } else { relation.negated() };
                        self.test(evaluator, apart, relation, depth);
                        return Some(());
                    }
                }
                _ => {}
            }
        }
        match known {
            Known::Sum(sum) if sum.is_uniform() => {
                let relation = if holds {
                    Relation::Different
                } else {
                    Relation::Equal
                };
                self.tests.push((sum, relation));
                Some(())
            }
            _ => None,
        }
    }

    /// Adds that a sum has a relation to 0. What is above the least of two is above
    /// both, and what is below the greatest.
    fn test(
        &mut self,
        evaluator: &mut Evaluator<'_, '_, '_>,
        sum: Sum,
        relation: Relation,
        depth: u32,
    ) {
        let above = matches!(relation, Relation::Above | Relation::AtLeast);
        let below = matches!(relation, Relation::Below | Relation::AtMost);
        if (above || below) && depth < DEPTH && self.tests.len() < LIMIT {
            for (id, times) in sum.symbols.all() {
                let Some((opcode, parts)) = evaluator.extreme(*id) else {
                    continue;
                };
                let least = opcode == Opcode::Min;
                if least != ((*times > 0) == above) {
                    continue;
                }
                let rest = Sum::symbol(*id)
                    .times(*times)
                    .and_then(|part| sum.minus(&part));
                let Some(rest) = rest else {
                    continue;
                };
                for part in parts {
                    if let Some(sum) = part.times(*times).and_then(|part| rest.plus(&part)) {
                        self.test(evaluator, sum, relation, depth + 1);
                    }
                }
                return;
            }
        }
        self.tests.push((sum, relation));
    }

    /// Whether one thread can meet these conditions while another meets those, for
    /// some values of what is unknown.
    pub fn agree(
        &self,
        thread: usize,
        others: &Conditions,
        other: usize,
        evaluator: &Evaluator<'_, '_, '_>,
    ) -> bool {
        let own = self.tests.iter().map(|test| (test, thread));
        let all = own.chain(others.tests.iter().map(|test| (test, other)));
        let all = all.map(|((sum, relation), thread)| {
            let number = sum.lanes.at(thread);
            (sum.symbols, number, *relation)
        });
        can_hold(all, evaluator)
    }

    /// The same of threads of two blocks, with the number of each; `false` where a quantity
    /// may differ between blocks in another way.
    pub fn agree_across(
        &self,
        (thread, block): (usize, i64),
        others: &Conditions,
        (other, its_block): (usize, i64),
        evaluator: &Evaluator<'_, '_, '_>,
        register: SpecialRegister,
    ) -> bool {
        let own = self.tests.iter().map(|test| (test, thread, block));
        let all = own.chain(others.tests.iter().map(|test| (test, other, its_block)));
        let all: Option<Vec<_>> = all
            .map(|((sum, relation), thread, block)| {
                let (symbols, shift) = evaluator.in_block(&sum.symbols, register, block)?;
                Some((symbols, sum.lanes.at(thread).checked_add(shift)?, *relation))
            })
            .collect();
        all.is_some_and(|all| can_hold(all.into_iter(), evaluator))
    }
}

/// Whether sums can have these relations to 0 together, for some values of what is unknown.
fn can_hold(
    tests: impl Iterator<Item = (Symbols, i64, Relation)>,
    evaluator: &Evaluator<'_, '_, '_>,
) -> bool {
    let mut ranges: Vec<(Symbols, Range)> = Vec::new();
    for (symbols, number, relation) in tests {
        let Some((symbols, factor)) = primitive(&symbols) else {
            if !relation.holds(number) {
                return false;
            }
            continue;
        };
        let place = match ranges.iter().position(|(known, _)| *known == symbols) {
            Some(place) => place,
            None => {
                let least = least(&symbols, evaluator);
                let range = Range {
                    least,
                    ..Range::ALL
                };
                ranges.push((symbols, range));
                ranges.len() - 1
            }
        };
        ranges[place].1.narrow(factor, number, relation);
    }
    ranges.iter().all(|(_, range)| !range.is_empty())
}

/// So much is worked out for each instruction of a function, and for small ones.
const STEPS_FOR_EACH: u64 = 20;
const STEPS: u64 = 100_000;

/// The threads of the largest block that may come to an instruction, in the first turn of the
/// loops around it; `None` where data of each thread decides.
pub(crate) fn coming(function: &FunctionContext<'_, '_>, id: InstructionId) -> Option<ThreadSet> {
    let (flow, loops, pass) = (function.flow()?, function.loops()?, function.first_pass()?);
    let orders = Orders::of_function(function)?;
    let shape = Shape(pass.block.size);
    let budget = flow.instructions.steps.len() as u64 * STEPS_FOR_EACH + STEPS;
    let mut evaluator = Evaluator::new(function, flow, loops, shape, budget);
    let conditions = Conditions::of(&orders, &mut evaluator, id)?;
    let mut threads = 0..;
    let [come, _] = ThreadSet::split(&pass.block, |_| {
        threads
            .next()
            .is_some_and(|thread| conditions.admits(thread))
    });
    Some(come)
}

/// The same divided by what all factors have in common, the first factor positive.
fn primitive(symbols: &Symbols) -> Option<(Symbols, i64)> {
    let (_, first) = symbols.all().first()?;
    let mut common = 0_i64;
    for (_, times) in symbols.all() {
        let (mut a, mut b) = (common, *times);
        while b != 0 {
            (a, b) = (b, a.checked_rem(b)?);
        }
        common = a.checked_abs()?;
    }
    let factor = if *first < 0 { -common } else { common };
    Some((symbols.divided(factor)?, factor))
}

/// Numbers of blocks are not negative.
fn least(symbols: &Symbols, evaluator: &Evaluator<'_, '_, '_>) -> i64 {
    let counts = |id: SymbolId| matches!(evaluator.symbol(id), Symbol::Special(_));
    let all = symbols.all();
    if all.iter().all(|(id, times)| *times > 0 && counts(*id)) {
        0
    } else {
        i64::MIN
    }
}

/// The values that an unknown quantity can have.
#[derive(Clone, Debug)]
struct Range {
    least: i64,
    most: i64,
    /// Not these.
    without: Vec<i64>,
    /// Nothing meets a condition.
    never: bool,
}

impl Range {
    const ALL: Range = Range {
        least: i64::MIN,
        most: i64::MAX,
        without: Vec::new(),
        never: false,
    };

    /// Leaves those of which `factor * value + number` has the relation to 0.
    fn narrow(&mut self, factor: i64, number: i64, relation: Relation) {
        // With a negative factor, the other way round.
        let (number, relation) = if factor < 0 {
            (
                number.wrapping_neg(),
                match relation {
                    Relation::Below => Relation::Above,
                    Relation::AtMost => Relation::AtLeast,
                    Relation::Above => Relation::Below,
                    Relation::AtLeast => Relation::AtMost,
                    same => same,
                },
            )
        } else {
            (number, relation)
        };
        let factor = factor.wrapping_abs();
        // `factor * value` against this.
        let limit = number.wrapping_neg();
        let below = limit.div_euclid(factor);
        let whole = limit.rem_euclid(factor) == 0;
        match relation {
            Relation::Equal if whole => {
                self.least = self.least.max(below);
                self.most = self.most.min(below);
            }
            Relation::Equal => self.never = true,
            Relation::Different if whole => self.without.push(below),
            Relation::Different => {}
            Relation::Below => self.most = self.most.min(below.saturating_sub(i64::from(whole))),
            Relation::AtMost => self.most = self.most.min(below),
            Relation::Above => self.least = self.least.max(below.saturating_add(1)),
            Relation::AtLeast => {
                self.least = self.least.max(below.saturating_add(i64::from(!whole)))
            }
        }
    }

    fn is_empty(&self) -> bool {
        if self.never || self.least > self.most {
            return true;
        }
        let count = self.most.checked_sub(self.least);
        let few = count.is_some_and(|count| count < self.without.len() as i64);
        few && (self.least..=self.most).all(|value| self.without.contains(&value))
    }
}
