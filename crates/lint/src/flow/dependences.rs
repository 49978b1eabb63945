//! How the values of a function depend on the thread, the first time that threads
//! come by: a phi of a loop has the value that it has at first.
//!
//! A value is worked out when somebody asks for it, with those that it is computed
//! from. Nothing depends on itself in the first pass.

use super::divergence::Variance;
use super::graph::BlockId;
use super::instructions::InstructionId;
use super::names::Reference;
use super::values::{Definition, ValueId};
use crate::{Flow, FunctionContext};
use ptx::ast::{AddressBase, Instruction, Operand};
use ptx::dependence::{self, Dependence, Shape, Sources};
use ptx::names::Opcode;

pub(super) struct Dependences<'c, 'm, 'a> {
    function: &'c FunctionContext<'m, 'a>,
    flow: &'c Flow<'m, 'a>,
    shape: Shape,
    /// By value; `None` where nobody has asked.
    known: Vec<Option<Box<Dependence>>>,
}

/// Symbols of what is no value: variables and special registers.
const VARIABLES: u32 = 1 << 30;
const SPECIALS: u32 = 1 << 31;

const UNKNOWN: Dependence = Dependence::opaque(Sources::THREAD);

impl<'c, 'm, 'a> Dependences<'c, 'm, 'a> {
    pub fn new(
        function: &'c FunctionContext<'m, 'a>,
        flow: &'c Flow<'m, 'a>,
        shape: Shape,
    ) -> Self {
        Dependences {
            function,
            flow,
            shape,
            known: vec![None; flow.values.definitions.len()],
        }
    }

    /// The threads of a block that surely share what depends on these.
    pub fn variance(&self, sources: Sources) -> Variance {
        let rows = Sources::ROW | Sources::PLANE;
        let rows = sources.any(rows) && !self.shape.has_whole_rows();
        match (
            sources.any(Sources::LANES) || rows,
            sources.any(Sources::THREAD),
        ) {
            (true, _) => Variance::Thread,
            (false, true) => Variance::Warp,
            (false, false) => Variance::Block,
        }
    }

    /// How a value depends on the thread.
    pub fn of(&mut self, value: ValueId) -> Dependence {
        if value.index() >= self.known.len() {
            return UNKNOWN;
        }
        let mut open = vec![value];
        while let Some(&top) = open.last() {
            if self.known[top.index()].is_none() {
                let before = open.len();
                self.needs(top, &mut open);
                if open.len() > before {
                    continue;
                }
                self.known[top.index()] = Some(Box::new(self.result(top)));
            }
            open.pop();
        }
        self.get(value)
    }

    /// How an operand does, by its number.
    pub fn operand(&mut self, instruction: &Instruction, number: u32) -> Dependence {
        if number >= instruction.operands.len {
            return UNKNOWN;
        }
        let place = (instruction.operands.start + number) as usize;
        self.of(self.flow.values.of_operand(place));
        let mut all = Vec::new();
        self.read(place, 0, &mut all);
        match all.as_slice() {
            [one] => *one,
            _ => UNKNOWN,
        }
    }

    /// The operands of a phi that come there before a loop comes back.
    pub fn first_parts(&self, value: ValueId) -> impl Iterator<Item = ValueId> + use<'c, 'm, 'a> {
        let (graph, values) = (&self.flow.graph, &self.flow.values);
        let block = match values.definition(value) {
            Some(Definition::Phi(block)) => block,
            _ => BlockId::ENTRY,
        };
        let parts = values.phi_operands(graph, value).iter().copied();
        let ways = graph.predecessors(block).zip(parts);
        ways.filter(move |(before, _)| graph.place(*before) < graph.place(block))
            .map(|(_, part)| part)
    }

    fn get(&self, value: ValueId) -> Dependence {
        let known = self.known.get(value.index());
        known.and_then(Option::as_deref).copied().unwrap_or(UNKNOWN)
    }

    /// What has to be known before a value is.
    fn needs(&self, value: ValueId, open: &mut Vec<ValueId>) {
        let flow = self.flow;
        let mut need = |part: ValueId| {
            if self.known.get(part.index()).is_some_and(Option::is_none) {
                open.push(part);
            }
        };
        match flow.values.definition(value) {
            Some(Definition::Written(id)) => {
                let step = &flow.instructions.steps[id.index()];
                let reads = flow.values.reads(&flow.instructions, step);
                reads.for_each(|(_, part)| need(part));
                flow.values.prior(value).into_iter().for_each(need);
            }
            Some(Definition::Phi(block)) => {
                self.first_parts(value).for_each(&mut need);
                self.decides(block).into_iter().for_each(need);
            }
            _ => {}
        }
    }

    /// The predicate of the branch above a block.
    fn decides(&self, block: BlockId) -> Option<ValueId> {
        let flow = self.flow;
        let above = flow.graph.dominator(block);
        let last = flow.graph.blocks[above.index()].steps().next_back()?;
        let step = &flow.instructions.steps[last.index()];
        flow.values.guard(&flow.instructions, step)
    }

    fn result(&self, value: ValueId) -> Dependence {
        match self.flow.values.definition(value) {
            Some(Definition::Written(id)) => self.written(value, id),
            Some(Definition::Phi(block)) => self.phi(value, block),
            _ => UNKNOWN,
        }
    }

    fn phi(&self, value: ValueId, block: BlockId) -> Dependence {
        let mut parts = self.first_parts(value).map(|part| self.get(part));
        let Some(first) = parts.next() else {
            return UNKNOWN;
        };
        let joined = parts.fold(first, |all, part| all.join(&part, value.0));
        let decides = self.decides(block).map(|decides| self.get(decides).sources);
        let decides = decides.unwrap_or(Sources::NONE);
        match joined == first || !decides.any(Sources::THREAD) {
            true => joined,
            false => Dependence::opaque(joined.sources | decides),
        }
    }

    fn written(&self, value: ValueId, id: InstructionId) -> Dependence {
        let flow = self.flow;
        let step = &flow.instructions.steps[id.index()];
        let Some(instruction) = flow.instructions.get(id) else {
            return UNKNOWN;
        };
        let mnemonic = self.function.mnemonic(instruction);
        let first = instruction.operands.start;
        let mut operands = Vec::new();
        for number in u32::from(self.function.effect(step).writes)..instruction.operands.len {
            self.read((first + number) as usize, value.0, &mut operands);
        }
        let mut result =
            dependence::transfer(mnemonic.opcode, &mnemonic.modifiers, &operands, value.0);
        let is_part = match self.function.body.operands.get(first as usize) {
            Some(Operand::Vector(..)) => true,
            Some(Operand::Pair(list, _)) => {
                mnemonic.opcode == Opcode::Shfl
                    && flow.values.of_operand(list.start as usize) != value
            }
            _ => false,
        };
        if is_part {
            result = Dependence::function(result.sources, value.0);
        }
        if let Some(prior) = flow.values.prior(value) {
            let guard = flow.values.guard(&flow.instructions, step);
            let guard = guard.map_or(Sources::NONE, |guard| self.get(guard).sources);
            let sources = result.sources | self.get(prior).sources | guard;
            result = Dependence::function(sources, value.0);
        }
        result
    }

    /// The operand with this index in the pool, or each element of a list. `symbol`
    /// stands for what is only known to be the same for all threads.
    fn read(&self, place: usize, symbol: u32, all: &mut Vec<Dependence>) {
        let flow = self.flow;
        let named = || match flow.instructions.reference(place) {
            Reference::Register(_) => self.get(flow.values.of_operand(place)),
            Reference::Variable(id) => Dependence::uniform(Sources::NONE, VARIABLES | id.0),
            Reference::Nothing => Dependence::uniform(Sources::NONE, symbol),
        };
        let moved = |offset: i64| {
            let mut base = named();
            base.linear = base.linear.and_then(|linear| linear.moved(offset));
            base
        };
        all.push(match self.function.body.operands.get(place) {
            Some(Operand::Integer(integer)) => Dependence::number(integer.value as i64),
            Some(Operand::Special(register, _)) => {
                dependence::special(*register, &self.shape, SPECIALS | *register as u32)
            }
            Some(Operand::Name(_)) => named(),
            Some(
                Operand::Offset { offset, .. }
                | Operand::Address {
                    base: AddressBase::Name(_),
                    offset,
                    ..
                },
            ) => moved(*offset),
            Some(
                Operand::Component { .. }
                | Operand::Not(_)
                | Operand::Negated(_)
                | Operand::Select { .. },
            ) => Dependence::function(named().sources, symbol),
            Some(
                Operand::Vector(list, _)
                | Operand::Arguments(list, _)
                | Operand::Element(list, _)
                | Operand::Indexed(list, _)
                | Operand::Pair(list, _),
            ) => {
                for element in list.start..list.start + list.len {
                    self.read(element as usize, symbol, all);
                }
                return;
            }
            Some(Operand::Address { offset, .. }) => Dependence::number(*offset),
            Some(Operand::Float(_)) => Dependence::uniform(Sources::NONE, symbol),
            Some(Operand::Sink(_)) | None => return,
        });
    }
}
