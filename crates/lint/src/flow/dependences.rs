//! How the values of a function depend on the thread, the first time that threads
//! come by: a phi of a loop has the value that it has at first.
//!
//! A value is worked out when somebody asks for it, with those that it is computed
//! from. Nothing depends on itself in the first pass.

use super::context::{Flow, FunctionContext};
use super::divergence::Variance;
use super::graph::BlockId;
use super::instructions::InstructionId;
use super::operands::Operands;
use super::values::{Definition, ValueId};
use analysis::dependence::{Dependence, Shape, Sources};
use ptx::ast::Instruction;

pub(super) struct Dependences<'c, 'm, 'a> {
    function: &'c FunctionContext<'m, 'a>,
    flow: &'c Flow<'m, 'a>,
    shape: Shape,
    /// For each value its index in `found`, from 1; 0 where nobody has asked.
    known: Vec<u32>,
    found: Vec<Dependence>,
    /// Values that are worked out, and operands that are read; empty in between.
    open: Vec<ValueId>,
    read: Vec<Dependence>,
}

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
            known: vec![0; flow.values.definitions.len()],
            found: Vec::new(),
            open: Vec::new(),
            read: Vec::new(),
        }
    }

    /// The threads of a block that surely share what depends on these.
    pub fn variance(&self, sources: Sources) -> Variance {
        Variance::of(sources, &self.shape)
    }

    /// How a value depends on the thread.
    pub fn of(&mut self, value: ValueId) -> Dependence {
        if value.index() >= self.known.len() {
            return UNKNOWN;
        }
        let mut open = std::mem::take(&mut self.open);
        open.push(value);
        while let Some(&top) = open.last() {
            if self.known[top.index()] == 0 {
                let before = open.len();
                self.needs(top, &mut open);
                if open.len() > before {
                    continue;
                }
                let result = self.result(top);
                self.found.push(result);
                self.known[top.index()] = self.found.len() as u32;
            }
            open.pop();
        }
        self.open = open;
        self.get(value)
    }

    /// How an operand does, by its number.
    pub fn operand(&mut self, instruction: &Instruction, number: u32) -> Dependence {
        if number >= instruction.operands.len {
            return UNKNOWN;
        }
        let place = (instruction.operands.start + number) as usize;
        self.of(self.flow.values.of_operand(place));
        let mut all = std::mem::take(&mut self.read);
        let get = |value| self.get(value);
        self.operands().read(place, 0, &get, &mut all);
        let one = match all.as_slice() {
            [one] => *one,
            _ => UNKNOWN,
        };
        all.clear();
        self.read = all;
        one
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
        let known = self.known.get(value.index()).copied().unwrap_or(0);
        match known.checked_sub(1) {
            Some(index) => self.found[index as usize],
            None => UNKNOWN,
        }
    }

    /// What has to be known before a value is.
    fn needs(&self, value: ValueId, open: &mut Vec<ValueId>) {
        let flow = self.flow;
        let mut need = |part: ValueId| {
            if self.known.get(part.index()) == Some(&0) {
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
        if joined == first || !decides.any(Sources::THREAD) {
            joined
        } else {
            Dependence::opaque(joined.sources | decides)
        }
    }

    fn written(&self, value: ValueId, id: InstructionId) -> Dependence {
        self.operands().result(value, id, |value| self.get(value))
    }

    fn operands(&self) -> Operands<'_, 'm, 'a> {
        Operands {
            function: self.function,
            flow: self.flow,
            shape: &self.shape,
        }
    }
}
