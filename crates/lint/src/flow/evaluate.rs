//! The values of a kernel, thread by thread, in a block of a given shape and in
//! given turns of its loops.
//!
//! `%tid` and `%ntid` are numbers then; parameters, `%ctaid` and what is loaded from
//! one address are unknown and the same for all threads of the block. What a thread
//! loads from an address of its own is not followed.

use super::HashMap;
use super::context::{Flow, FunctionContext};
use super::graph::BlockId;
use super::instructions::{InstructionId, Step};
use super::lanes::{Lanes, Shape, Sum, SymbolId, Symbols, WARP};
use super::values::{Definition, ValueId};
use analysis::control_flow::{LoopId, Loops};
use ptx::ast::{AddressBase, FloatValue, Instruction, List, Mnemonic, Operand, Space};
use ptx::names::{Modifier, Opcode, SpecialRegister};
use ptx::resolution::{Reference, VariableId};

/// The turn of each loop around a place, outermost first, from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Turns(u64);

impl Turns {
    /// How many loops are told apart, one in another.
    pub const DEPTH: usize = 8;

    /// The turn of the loop at this depth, from 1.
    pub fn get(self, depth: usize) -> u64 {
        self.0 >> (8 * (depth - 1)) & 0xFF
    }

    /// With another turn of the loop at this depth.
    pub fn with(self, depth: usize, turn: u64) -> Turns {
        let shift = 8 * (depth - 1);
        Turns(self.0 & !(0xFF << shift) | (turn & 0xFF) << shift)
    }

    /// Those of the outermost `depth` loops.
    pub fn outer(self, depth: usize) -> Turns {
        if depth < Turns::DEPTH {
            Turns(self.0 & ((1 << (8 * depth)) - 1))
        } else {
            self
        }
    }
}

/// A place in the loop nest, in a turn of each loop around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// The innermost loop.
    pub within: Option<LoopId>,
    /// The turns of it and of those around it.
    pub turns: Turns,
}

/// A quantity that the threads of a block share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Symbol {
    /// `%ctaid.x` …
    Special(SpecialRegister),
    /// The address of a variable.
    Address(VariableId),
    /// The value of a parameter at this offset.
    Parameter(VariableId, i64),
    /// Another value, in these turns.
    Value(ValueId, Turns),
}

/// What is known of a value.
#[derive(Clone, Debug, PartialEq)]
pub enum Known {
    /// A sum.
    Sum(Sum),
    /// Threads have made it of their numbers: it is another in each.
    Varies,
    /// Threads have made it of data of their own, which may be the same by chance.
    Data,
    /// Nothing.
    Unknown,
}

impl Known {
    /// The sum, if it is one.
    pub fn sum(self) -> Option<Sum> {
        match self {
            Known::Sum(sum) => Some(sum),
            Known::Varies | Known::Data | Known::Unknown => None,
        }
    }
}

impl From<Option<Sum>> for Known {
    fn from(sum: Option<Sum>) -> Known {
        sum.map_or(Known::Unknown, Known::Sum)
    }
}

/// A chain of more instructions is not followed.
const DEPTH: u32 = 64;

/// Evaluates the values of a kernel for a shape of its block.
pub struct Evaluator<'c, 'm, 'a> {
    pub(super) function: &'c FunctionContext<'m, 'a>,
    pub(super) flow: &'c Flow<'m, 'a>,
    pub(super) loops: &'c Loops,
    /// The shape of the block.
    pub shape: Shape,
    /// Where in `known` stands what is known of values in the first turn of all loops, and in
    /// other turns.
    first: Vec<u32>,
    others: HashMap<(ValueId, Turns), u32>,
    known: Vec<Known>,
    symbols: Vec<Symbol>,
    numbers: HashMap<Symbol, SymbolId>,
    specials: HashMap<SpecialRegister, Sum>,
    depth: u32,
    /// How many numbers of threads may still be worked out.
    pub budget: u64,
}

impl<'c, 'm, 'a> Evaluator<'c, 'm, 'a> {
    /// For a function, its loops and a shape, within a budget.
    pub fn new(
        function: &'c FunctionContext<'m, 'a>,
        flow: &'c Flow<'m, 'a>,
        loops: &'c Loops,
        shape: Shape,
        budget: u64,
    ) -> Self {
        Evaluator {
            function,
            flow,
            loops,
            shape,
            first: vec![u32::MAX; flow.values.definitions.len()],
            others: HashMap::default(),
            known: Vec::new(),
            symbols: Vec::new(),
            numbers: HashMap::default(),
            specials: HashMap::default(),
            depth: 0,
            budget,
        }
    }

    /// Takes so many times the threads of the block from the budget.
    pub fn spend(&mut self, times: u64) -> bool {
        let cost = times * u64::from(self.shape.threads());
        let left = self.budget.checked_sub(cost);
        self.budget = left.unwrap_or(0);
        left.is_some()
    }

    /// What a symbol stands for.
    pub fn symbol(&self, id: SymbolId) -> Symbol {
        self.symbols[id.0 as usize]
    }

    /// What is unknown of a sum in the block that has this number in `register`, and what the
    /// number adds; `None` if blocks may differ in it otherwise.
    pub(super) fn in_block(
        &self,
        symbols: &Symbols,
        register: SpecialRegister,
        number: i64,
    ) -> Option<(Symbols, i64)> {
        let differs = |id: SymbolId| matches!(self.symbol(id), Symbol::Value(..));
        if symbols.all().iter().any(|(id, _)| differs(*id)) {
            return None;
        }
        match self.numbers.get(&Symbol::Special(register)) {
            Some(id) => {
                let (rest, factor) = symbols.without(*id);
                Some((rest, factor.checked_mul(number)?))
            }
            None => Some((*symbols, 0)),
        }
    }

    /// The two that an unknown value is the least or the greatest of.
    pub(super) fn extreme(&mut self, id: SymbolId) -> Option<(Opcode, [Sum; 2])> {
        let Symbol::Value(value, turns) = self.symbol(id) else {
            return None;
        };
        let Some(Definition::Written(id)) = self.flow.values.definition(value) else {
            return None;
        };
        let instruction = self.flow.instructions.get(id)?;
        if !matches!(instruction.opcode, Opcode::Min | Opcode::Max) {
            return None;
        }
        let place = self.place(self.flow.graph.block_of(id), turns);
        let first = instruction.operands.start as usize;
        let parts = [
            self.operand(first + 1, place).sum()?,
            self.operand(first + 2, place).sum()?,
        ];
        Some((instruction.opcode, parts))
    }

    pub(super) fn unknown(&mut self, symbol: Symbol) -> Known {
        let next = SymbolId(self.symbols.len() as u32);
        let id = *self.numbers.entry(symbol).or_insert(next);
        if id == next {
            self.symbols.push(symbol);
        }
        Known::Sum(Sum::symbol(id))
    }

    /// The place of an instruction of a block, if these are the turns of the loops
    /// around.
    pub fn place(&self, block: BlockId, turns: Turns) -> Place {
        Place {
            within: self.loops.innermost(block),
            turns,
        }
    }

    /// What is known of a value where it is read.
    pub fn value(&mut self, value: ValueId, at: Place) -> Known {
        let flow = self.flow;
        let home = match flow.values.definition(value) {
            Some(Definition::Written(id)) => flow.graph.block_of(id),
            Some(Definition::Phi(block)) => block,
            Some(Definition::Start) | None => return Known::Unknown,
        };
        // Behind a loop, its last turn counts, which is not known.
        let within = self.loops.innermost(home);
        let mut around = self.loops.around(at.within).map(Some).chain([None]);
        if !around.any(|outer| outer == within) {
            return Known::Unknown;
        }
        let depth = within.map_or(0, |id| self.loops.get(id).depth);
        let place = Place {
            within,
            turns: at.turns.outer(depth),
        };
        let is_first = place.turns == Turns::default();
        let known = if is_first {
            Some(&self.first[value.index()])
        } else {
            self.others.get(&(value, place.turns))
        };
        if let Some(known) = known.and_then(|at| self.known.get(*at as usize)) {
            return known.clone();
        }
        if depth > Turns::DEPTH || self.depth >= DEPTH || !self.spend(1) {
            return Known::Unknown;
        }
        self.depth += 1;
        let known = match flow.values.definition(value) {
            Some(Definition::Written(id)) => self.written(id, value, place),
            _ => self.phi(value, home, place),
        };
        self.depth -= 1;
        let next = self.known.len() as u32;
        self.known.push(known.clone());
        if is_first {
            self.first[value.index()] = next;
        } else {
            self.others.insert((value, place.turns), next);
        }
        known
    }

    /// What is known of an operand, by its index in the pool.
    pub fn operand(&mut self, index: usize, at: Place) -> Known {
        let instructions = &self.flow.instructions;
        let mut named = |offset: i64| {
            let base = match instructions.reference(index) {
                Reference::Register(_) => {
                    let value = self.flow.values.of_operand(index);
                    self.value(value, at)
                }
                Reference::Variable(id) => self.unknown(Symbol::Address(id)),
                _ => Known::Unknown,
            };
            match base {
                Known::Sum(sum) if offset != 0 => sum.plus(&Sum::number(offset)).into(),
                known => known,
            }
        };
        match instructions.body.operands.get(index) {
            Some(Operand::Integer(integer)) => Known::Sum(Sum::number(integer.value as i64)),
            Some(Operand::Float(float)) => Known::Sum(Sum::number(match float.value {
                FloatValue::F32(bits) => i64::from(bits),
                FloatValue::F64(bits) => bits as i64,
            })),
            Some(Operand::Special(register, _)) => self.special(*register),
            Some(Operand::Name(_)) => named(0),
            Some(Operand::Offset { offset, .. }) => named(*offset),
            Some(Operand::Address {
                base: AddressBase::Name(_),
                offset,
                ..
            }) => named(*offset),
            Some(Operand::Address {
                base: AddressBase::Immediate(_),
                offset,
                ..
            }) => Known::Sum(Sum::number(*offset)),
            _ => Known::Unknown,
        }
    }

    fn special(&mut self, register: SpecialRegister) -> Known {
        if let Some(sum) = self.specials.get(&register) {
            return Known::Sum(sum.clone());
        }
        let (shape, threads) = (self.shape, self.shape.threads());
        let coordinates =
            |axis: usize| Sum::exact(Lanes::each(shape.coordinates(axis).map(i64::from)));
        let side = |axis: usize| Sum::number(i64::from(shape.0[axis]));
        let sum = match register {
            SpecialRegister::TidX => coordinates(0),
            SpecialRegister::TidY => coordinates(1),
            SpecialRegister::TidZ => coordinates(2),
            SpecialRegister::NtidX => side(0),
            SpecialRegister::NtidY => side(1),
            SpecialRegister::NtidZ => side(2),
            SpecialRegister::Laneid => of_lanes(threads, |lane| lane),
            SpecialRegister::LanemaskEq => of_lanes(threads, |lane| 1 << lane),
            SpecialRegister::LanemaskLt => of_lanes(threads, |lane| (1 << lane) - 1),
            SpecialRegister::LanemaskLe => of_lanes(threads, |lane| (2 << lane) - 1),
            SpecialRegister::LanemaskGt => of_lanes(threads, |lane| -(2 << lane)),
            SpecialRegister::LanemaskGe => of_lanes(threads, |lane| -(1 << lane)),
            SpecialRegister::CtaidX
            | SpecialRegister::CtaidY
            | SpecialRegister::CtaidZ
            | SpecialRegister::NctaidX
            | SpecialRegister::NctaidY
            | SpecialRegister::NctaidZ => return self.unknown(Symbol::Special(register)),
            _ => return Known::Unknown,
        };
        self.specials.insert(register, sum.clone());
        Known::Sum(sum)
    }

    fn written(&mut self, id: InstructionId, value: ValueId, place: Place) -> Known {
        let flow = self.flow;
        let step = &flow.instructions.steps[id.index()];
        let Some(instruction) = flow.instructions.get(id) else {
            return Known::Unknown;
        };
        if !step.partial {
            return self.result(step, instruction, value, place);
        }
        let (Some(prior), Some(guard)) = (
            flow.values.prior(value),
            flow.values.guard(&flow.instructions, step),
        ) else {
            return Known::Unknown;
        };
        let predicate = self.value(guard, place);
        let new = self.result(step, instruction, value, place);
        let old = self.value(prior, place);
        self.select(&predicate, step.negated, new, old, value, place)
    }

    /// The result of an instruction whose guard holds.
    fn result(
        &mut self,
        step: &Step,
        instruction: &Instruction,
        value: ValueId,
        place: Place,
    ) -> Known {
        let mnemonic = self.function.mnemonic(instruction);
        let one = self.flow.instructions.writes(step).len() == 1;
        if one && let Some(sum) = self.arithmetic(instruction, mnemonic, place) {
            return Known::Sum(sum);
        }
        let has = |word| mnemonic.modifiers.has(word);
        match mnemonic.opcode {
            Opcode::Ld | Opcode::Ldu => return self.load(instruction, mnemonic, value, place),
            Opcode::Selp if one => {
                let first = instruction.operands.start as usize;
                let (yes, no) = (
                    self.operand(first + 1, place),
                    self.operand(first + 2, place),
                );
                let predicate = self.operand(first + 3, place);
                return self.select(&predicate, false, yes, no, value, place);
            }
            // What a warp makes of its own data is another for each warp.
            Opcode::Shfl | Opcode::Redux if has(Modifier::Sync) => {
                let data = self.operand(instruction.operands.start as usize + 1, place);
                return match data {
                    Known::Varies | Known::Data => Known::Data,
                    _ => Known::Unknown,
                };
            }
            _ if !self.function.effect(step).pure => return Known::Unknown,
            _ => {}
        }
        let mut all = Known::Sum(Sum::number(0));
        for index in inputs(instruction, self.function.effect(step).writes) {
            match self.operand(index, place) {
                Known::Sum(sum) if sum.is_uniform() => {}
                Known::Unknown => return Known::Unknown,
                Known::Data => all = Known::Data,
                // A function of different numbers is taken to be different.
                _ if all != Known::Data => all = Known::Varies,
                _ => {}
            }
        }
        match all {
            Known::Sum(_) => self.unknown(Symbol::Value(value, place.turns)),
            varies => varies,
        }
    }

    fn load(
        &mut self,
        instruction: &Instruction,
        mnemonic: &Mnemonic<'_>,
        value: ValueId,
        place: Place,
    ) -> Known {
        let has = |word| mnemonic.modifiers.has(word);
        let ordered = [
            Modifier::Volatile,
            Modifier::Relaxed,
            Modifier::Acquire,
            Modifier::Mmio,
            Modifier::Local,
        ];
        if ordered.into_iter().any(has) {
            return Known::Unknown;
        }
        let index = instruction.operands.start as usize + 1;
        let address = match self.operand(index, place) {
            Known::Sum(sum) => sum,
            Known::Varies | Known::Data => return Known::Data,
            Known::Unknown => return Known::Unknown,
        };
        if !address.is_uniform() {
            return Known::Data;
        }
        let instructions = &self.flow.instructions;
        let variable =
            address
                .symbols
                .all()
                .iter()
                .find_map(|(id, _)| match self.symbols[id.0 as usize] {
                    Symbol::Address(variable) => Some(variable),
                    _ => None,
                });
        if let Some(id) = variable {
            let space = instructions.variable(id).space;
            // Each thread has its own behind the same address.
            if space == Space::Local {
                return Known::Unknown;
            }
            if space == Space::Param {
                return match (instructions.is_parameter(id), address.lanes.same()) {
                    (true, Some(offset)) if address.symbols.all().len() == 1 => {
                        self.unknown(Symbol::Parameter(id, offset))
                    }
                    _ => Known::Unknown,
                };
            }
        }
        self.unknown(Symbol::Value(value, place.turns))
    }
}

/// A number of each lane, as a register of 32 bits holds it.
fn of_lanes(threads: u32, of: impl Fn(i64) -> i64) -> Sum {
    let each = (0..threads).map(|thread| of(i64::from(thread % WARP)));
    Sum::exact(Lanes::each(each).signed(32))
}

/// The indices of the operands that an instruction reads.
fn inputs(instruction: &Instruction, written: u8) -> impl Iterator<Item = usize> + use<> {
    let List { start, len } = instruction.operands;
    (start + u32::from(written)..start + len).map(|index| index as usize)
}
