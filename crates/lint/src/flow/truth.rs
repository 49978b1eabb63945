//! For which threads of a block a predicate holds, the first time that they come by.

use super::HashMap;
use super::context::{Flow, FunctionContext};
use super::dependences::Dependences;
use super::divergence::Variance;
use super::instructions::InstructionId;
use super::numbers::Numbers;
use super::threads::{Block, ThreadSet};
use super::values::{Definition, ValueId};
use analysis::dependence::{self, Dependence, Linear, Wrapping};
use ptx::ast::{Instruction, Modifiers, Operand};
use ptx::names::{Modifier, Opcode, Type};

/// For which threads a predicate may be true, and for which false.
#[derive(Clone, Copy, Debug)]
pub struct Truth {
    /// Those for which it may be true, and those for which it may be false.
    pub may: [ThreadSet; 2],
    /// The threads that are surely together where it is true, and where it is false,
    /// beyond what the sets say: of an opaque function of the thread, nothing is known.
    pub(super) hidden: [Variance; 2],
    /// The threads that surely share it, where it compares an index of threads with a
    /// bound that is no number: for some bound it parts those.
    pub(super) bound: Variance,
}

impl Truth {
    pub(super) fn not(self) -> Truth {
        let ([yes, no], [when, unless]) = (self.may, self.hidden);
        Truth {
            may: [no, yes],
            hidden: [unless, when],
            bound: self.bound,
        }
    }

    /// Of two conditions that both hold.
    fn and(&self, other: &Truth) -> Truth {
        Truth {
            may: [self.may[0].and(other.may[0]), self.may[1].or(other.may[1])],
            hidden: self.hidden(other),
            bound: self.bound.max(other.bound),
        }
    }

    fn or(&self, other: &Truth) -> Truth {
        self.not().and(&other.not()).not()
    }

    fn xor(&self, other: &Truth) -> Truth {
        let ([a, not_a], [b, not_b]) = (self.may, other.may);
        Truth {
            may: [a.and(not_b).or(not_a.and(b)), a.and(b).or(not_a.and(not_b))],
            hidden: self.hidden(other),
            bound: self.bound.max(other.bound),
        }
    }

    /// One or the other, by a condition that is not known.
    fn join(&self, other: &Truth) -> Truth {
        Truth {
            may: [self.may[0].or(other.may[0]), self.may[1].or(other.may[1])],
            hidden: self.hidden(other),
            bound: self.bound.max(other.bound),
        }
    }

    fn hidden(&self, other: &Truth) -> [Variance; 2] {
        [0, 1].map(|side| self.hidden[side].max(other.hidden[side]))
    }
}

/// The predicates of a function.
pub(super) struct Truths<'c, 'm, 'a> {
    pub(super) function: &'c FunctionContext<'m, 'a>,
    pub(super) flow: &'c Flow<'m, 'a>,
    pub(super) dependences: Dependences<'c, 'm, 'a>,
    pub(super) block: Block,
    pub(super) numbers: HashMap<ValueId, Option<Numbers>>,
    all: ThreadSet,
    /// Where in `found` each predicate stands, which is large.
    known: HashMap<ValueId, u32>,
    found: Vec<Truth>,
}

/// How deep the definition of a predicate is followed.
const DEPTH: usize = 16;

impl<'c, 'm, 'a> Truths<'c, 'm, 'a> {
    pub fn new(
        function: &'c FunctionContext<'m, 'a>,
        flow: &'c Flow<'m, 'a>,
        block: Block,
    ) -> Self {
        Truths {
            function,
            flow,
            dependences: Dependences::new(function, flow, block.shape()),
            block,
            numbers: HashMap::default(),
            all: ThreadSet::all(&block),
            known: HashMap::default(),
            found: Vec::new(),
        }
    }

    /// All threads of the block.
    pub fn all(&self) -> ThreadSet {
        self.all
    }

    /// Whether the condition is known for some threads, or a bound parts them.
    pub fn tells(&self, truth: &Truth) -> bool {
        truth.bound > Variance::Block || truth.may.iter().any(|may| *may != self.all)
    }

    /// The threads that surely share a value.
    pub fn variance(&mut self, value: ValueId) -> Variance {
        let sources = self.dependences.of(value).sources;
        self.dependences.variance(sources)
    }

    /// For which threads a predicate holds.
    pub fn of(&mut self, value: ValueId) -> Truth {
        self.at_depth(value, DEPTH)
    }

    fn at_depth(&mut self, value: ValueId, depth: usize) -> Truth {
        if let Some(known) = self.known.get(&value) {
            return self.found[*known as usize];
        }
        let found = match (self.flow.values.definition(value), depth.checked_sub(1)) {
            (Some(Definition::Written(id)), Some(depth)) => self.written(value, id, depth),
            (Some(Definition::Phi(_)), Some(depth)) => self.phi(value, depth),
            _ => None,
        };
        let found = found.unwrap_or_else(|| self.unknown(value));
        self.known.insert(value, self.found.len() as u32);
        self.found.push(found);
        found
    }

    /// A predicate of which no more is known than what it depends on.
    fn unknown(&mut self, value: ValueId) -> Truth {
        let hidden = self.variance(value);
        Truth {
            may: [self.all; 2],
            hidden: [hidden; 2],
            bound: Variance::Block,
        }
    }

    /// A condition that is the same for all threads.
    fn constant(&self, holds: bool) -> Truth {
        let truth = Truth {
            may: [self.all, ThreadSet::EMPTY],
            hidden: [Variance::Block; 2],
            bound: Variance::Block,
        };
        if holds { truth } else { truth.not() }
    }

    fn phi(&mut self, value: ValueId, depth: usize) -> Option<Truth> {
        let parts: Vec<ValueId> = self.dependences.first_parts(value).collect();
        let mut truths = parts.iter().map(|part| self.at_depth(*part, depth));
        let first = truths.next()?;
        let mut joined = truths.fold(first, |all, truth| all.join(&truth));
        // Which of them it is may be another for each thread.
        let hidden = self.variance(value);
        joined.hidden = joined.hidden.map(|known| known.max(hidden));
        Some(joined)
    }

    fn written(&mut self, value: ValueId, id: InstructionId, depth: usize) -> Option<Truth> {
        let flow = self.flow;
        let instruction = flow.instructions.get(id)?;
        let mut truth = self.computed(value, instruction, depth)?;
        if let Some(prior) = flow.values.prior(value) {
            let step = &flow.instructions.steps[id.index()];
            let guard = flow.values.guard(&flow.instructions, step)?;
            let guard = self.at_depth(guard, depth);
            let guard = if step.negated { guard.not() } else { guard };
            let kept = self.at_depth(prior, depth);
            // `guard ? truth : kept`
            truth = guard.and(&truth).or(&guard.not().and(&kept));
        }
        Some(truth)
    }

    fn computed(
        &mut self,
        value: ValueId,
        instruction: &Instruction,
        depth: usize,
    ) -> Option<Truth> {
        let modifiers = &self.function.mnemonic(instruction).modifiers;
        let of_predicates = modifiers.types().next() == Some(Type::Pred);
        match instruction.opcode {
            Opcode::Setp => self.compared(value, instruction, modifiers, depth),
            Opcode::Elect => {
                let [first, others] = ThreadSet::leaders(&self.block);
                Some(Truth {
                    may: [first, others],
                    hidden: [Variance::Block; 2],
                    bound: Variance::Block,
                })
            }
            Opcode::And if of_predicates => {
                let (a, b) = self.both(instruction, depth)?;
                Some(a.and(&b))
            }
            Opcode::Or if of_predicates => {
                let (a, b) = self.both(instruction, depth)?;
                Some(a.or(&b))
            }
            Opcode::Xor if of_predicates => {
                let (a, b) = self.both(instruction, depth)?;
                Some(a.xor(&b))
            }
            Opcode::Not if of_predicates => Some(self.operand(instruction, 1, depth)?.not()),
            Opcode::Mov if of_predicates => self.operand(instruction, 1, depth),
            _ => None,
        }
    }

    fn both(&mut self, instruction: &Instruction, depth: usize) -> Option<(Truth, Truth)> {
        let first = self.operand(instruction, 1, depth)?;
        Some((first, self.operand(instruction, 2, depth)?))
    }

    /// For which threads an operand holds.
    pub(super) fn operand(
        &mut self,
        instruction: &Instruction,
        number: u32,
        depth: usize,
    ) -> Option<Truth> {
        if number >= instruction.operands.len {
            return None;
        }
        let place = (instruction.operands.start + number) as usize;
        let value = self.flow.values.of_operand(place);
        match self.function.body.operands.get(place)? {
            Operand::Integer(integer) => Some(self.constant(integer.value & 1 != 0)),
            Operand::Name(_) => Some(self.at_depth(value, depth)),
            Operand::Not(_) => Some(self.at_depth(value, depth).not()),
            _ => None,
        }
    }

    /// `setp`, of which `p|q` are the comparison and its contrary.
    fn compared(
        &mut self,
        value: ValueId,
        instruction: &Instruction,
        modifiers: &Modifiers,
        depth: usize,
    ) -> Option<Truth> {
        let mut truth = self.comparison(instruction, modifiers, depth)?;
        let place = instruction.operands.start as usize;
        if let Operand::Pair(list, _) = self.function.body.operands.get(place)?
            && self.flow.values.of_operand(list.start as usize) != value
        {
            truth = truth.not();
        }
        let combines = [Modifier::And, Modifier::Or, Modifier::Xor];
        let Some(combines) = modifiers.first_of(&combines) else {
            return Some(truth);
        };
        let other = self.operand(instruction, 3, depth)?;
        Some(match combines {
            Modifier::And => truth.and(&other),
            Modifier::Or => truth.or(&other),
            _ => truth.xor(&other),
        })
    }

    fn comparison(
        &mut self,
        instruction: &Instruction,
        modifiers: &Modifiers,
        depth: usize,
    ) -> Option<Truth> {
        let order = Order::of(modifiers)?;
        let (a, b) = (
            self.dependences.operand(instruction, 1),
            self.dependences.operand(instruction, 2),
        );
        let decided = match (&a.linear, &b.linear) {
            (Some(a), Some(b)) => self.decided(a, b, &order),
            _ => self.counted(instruction, &order, depth),
        };
        if let Some(may) = decided {
            return Some(Truth {
                may,
                hidden: [Variance::Block; 2],
                bound: Variance::Block,
            });
        }
        let sources = a.sources | b.sources;
        let hidden = self.dependences.variance(sources);
        let linear = |side: &Dependence| side.linear.is_some();
        // Of `%tid.x < n` one side has all threads for some `n`; `%tid.x == n` has one
        // thread on its side at most.
        let open = match order.compares {
            _ if !linear(&a) || !linear(&b) => [false; 2],
            Compares::Equal => [false, true],
            Compares::Different => [true, false],
            _ => [true; 2],
        };
        let bound = match open {
            [true, true] => {
                let sources = dependence::compare(modifiers, &a, &b, 0, Wrapping::Ignored).sources;
                self.dependences.variance(sources)
            }
            _ => Variance::Block,
        };
        Some(Truth {
            may: [self.all; 2],
            hidden: open.map(|open| if open { Variance::Block } else { hidden }),
            bound,
        })
    }

    /// The threads for which a comparison of their numbers holds.
    fn counted(
        &mut self,
        instruction: &Instruction,
        order: &Order,
        depth: usize,
    ) -> Option<[ThreadSet; 2]> {
        let a = self.numbers(instruction, 1, depth)?;
        let b = self.numbers(instruction, 2, depth)?;
        let mut sides = a.iter().zip(b.iter());
        Some(ThreadSet::split(&self.block, |_| {
            let sides = sides.next();
            sides.is_some_and(|(a, b)| order.holds(order.wrapped(*a), order.wrapped(*b)))
        }))
    }

    /// The threads for which a comparison holds, if no unknown is in it.
    fn decided(&self, a: &Linear, b: &Linear, order: &Order) -> Option<[ThreadSet; 2]> {
        if a.base.symbol != b.base.symbol {
            return None;
        }
        let exact = a.base.symbol.is_none();
        let side = |side: i64| if exact { order.wrapped(side) } else { side };
        // Most are the same for all.
        if a.is_uniform() && b.is_uniform() {
            let holds = order.holds(side(a.base.offset), side(b.base.offset));
            return Some(self.constant(holds).may);
        }
        let (a, b) = (Table::new(a), Table::new(b));
        let holds = |thread| order.holds(side(a.at(thread)), side(b.at(thread)));
        Some(ThreadSet::split(&self.block, holds))
    }
}

/// A sum over the thread's index, with what its low and its high bits add.
struct Table<'l> {
    linear: &'l Linear,
    low: [i64; 32],
    high: [i64; 32],
}

impl Table<'_> {
    fn new(linear: &Linear) -> Table<'_> {
        let part = |x: u32| linear.at([x, 0, 0]);
        let mut table = Table {
            linear,
            low: [0; 32],
            high: [0; 32],
        };
        for at in 0..32 {
            table.low[at as usize] = part(at);
            table.high[at as usize] = part(at << 5).wrapping_sub(linear.base.offset);
        }
        table
    }

    fn at(&self, [x, y, z]: [u32; 3]) -> i64 {
        let row = self.low[x as usize % 32].wrapping_add(self.high[x as usize / 32 % 32]);
        let (high, deep) = (i64::from(self.linear.row), i64::from(self.linear.plane));
        row.wrapping_add(high * i64::from(y) + deep * i64::from(z))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Compares {
    Equal,
    Different,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// How integers are compared.
struct Order {
    compares: Compares,
    bits: u32,
    signed: bool,
}

impl Order {
    fn of(modifiers: &Modifiers) -> Option<Order> {
        let ty = modifiers.types().last()?;
        let words = modifiers.as_slice().iter();
        let (compares, unsigned) = words.copied().find_map(|word| {
            Some(match word {
                Modifier::Eq => (Compares::Equal, false),
                Modifier::Ne => (Compares::Different, false),
                Modifier::Lt => (Compares::Less, false),
                Modifier::Le => (Compares::LessOrEqual, false),
                Modifier::Gt => (Compares::Greater, false),
                Modifier::Ge => (Compares::GreaterOrEqual, false),
                Modifier::Lo => (Compares::Less, true),
                Modifier::Ls => (Compares::LessOrEqual, true),
                Modifier::Hi => (Compares::Greater, true),
                Modifier::Hs => (Compares::GreaterOrEqual, true),
                _ => return None,
            })
        })?;
        let signed = matches!(ty, Type::S16 | Type::S32 | Type::S64);
        let whole = super::effect::is_integer(ty);
        whole.then_some(Order {
            compares,
            bits: ty.bits(),
            signed: signed && !unsigned,
        })
    }

    /// What a register of the type has, as a number that is compared.
    fn wrapped(&self, value: i64) -> i64 {
        let unused = 64 - self.bits;
        match self.signed {
            true => value << unused >> unused,
            // All 64 bits keep their order with the first turned round.
            false if unused == 0 => value ^ i64::MIN,
            false => value & (u64::MAX >> unused) as i64,
        }
    }

    fn holds(&self, a: i64, b: i64) -> bool {
        match self.compares {
            Compares::Equal => a == b,
            Compares::Different => a != b,
            Compares::Less => a < b,
            Compares::LessOrEqual => a <= b,
            Compares::Greater => a > b,
            Compares::GreaterOrEqual => a >= b,
        }
    }
}
