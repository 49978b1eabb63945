//! Static single assignment: every write of a register defines a new value, and a
//! phi merges different values at the start of a block.

use super::STEPS_FOR_EACH;
use super::graph::{BasicBlock, BlockId, Graph};
use super::instructions::{InstructionId, Instructions, RegisterOperand, Step};
use super::mentions::{Mention, by_register};
use analysis::control_flow::Lists;
use ptx::resolution::Register;

/// An SSA value: what a register holds from one write to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ValueId(pub u32);

impl ValueId {
    /// No value: no register, or unreachable.
    pub const NONE: ValueId = ValueId(u32::MAX);

    /// Its index in [`Values::definitions`].
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The definition of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Definition {
    /// The register at the entry, before any write.
    Start,
    /// An instruction writes it.
    Written(InstructionId),
    /// A phi at the start of a block.
    Phi(BlockId),
}

/// The values of a function.
#[derive(Debug, Default)]
pub struct Values {
    /// The definition of each value.
    pub definitions: Vec<Definition>,
    /// The register that holds it.
    pub registers: Vec<Register>,
    /// What else is known of each.
    facts: Vec<Facts>,
    /// The operands of phis.
    parts: Vec<ValueId>,
    /// Indexed by register operand.
    slots: Vec<ValueId>,
    /// Indexed by the operand pool.
    operands: Vec<ValueId>,
}

/// What is known of a value.
#[derive(Clone, Copy, Debug)]
struct Facts {
    /// The old value of the register where the write is guarded or partial.
    prior: ValueId,
    /// Where the operands of a phi begin.
    first_part: u32,
    /// The number of its uses.
    reads: u32,
}

impl Facts {
    const NONE: Facts = Facts {
        prior: ValueId::NONE,
        first_part: u32::MAX,
        reads: 0,
    };
}

impl Values {
    /// `None` where it takes too many steps.
    pub(crate) fn new(instructions: &Instructions<'_, '_>, graph: &Graph) -> Option<Values> {
        let mut builder = Builder::new(instructions, graph);
        let others = builder.single();
        if !others.is_empty() {
            builder.several(&others)?;
        }
        Some(builder.finish())
    }

    /// The value of an operand: what it reads, or for a result what it writes.
    pub fn of_operand(&self, place: usize) -> ValueId {
        self.operands.get(place).copied().unwrap_or(ValueId::NONE)
    }

    /// The value of the guard.
    pub fn guard(&self, instructions: &Instructions<'_, '_>, step: &Step) -> Option<ValueId> {
        step.guarded
            .then(|| self.slots[instructions.places(step).0])
    }

    /// What an instruction reads, with the slot of each.
    pub fn reads<'s>(
        &'s self,
        instructions: &'s Instructions<'_, '_>,
        step: &Step,
    ) -> impl Iterator<Item = (RegisterOperand, ValueId)> + 's {
        let (first, written, _) = instructions.places(step);
        (first..written).map(|place| (instructions.slot(place), self.slots[place]))
    }

    /// What an instruction writes, with the slot of each.
    pub fn writes<'s>(
        &'s self,
        instructions: &'s Instructions<'_, '_>,
        step: &Step,
    ) -> impl Iterator<Item = (RegisterOperand, ValueId)> + 's {
        let (_, written, end) = instructions.places(step);
        (written..end).map(|place| (instructions.slot(place), self.slots[place]))
    }

    /// The definition of a value.
    pub fn definition(&self, value: ValueId) -> Option<Definition> {
        self.definitions.get(value.index()).copied()
    }

    /// The old value of the register, where the write of this one is guarded or partial.
    pub fn prior(&self, value: ValueId) -> Option<ValueId> {
        let prior = self.facts.get(value.index())?.prior;
        (prior != ValueId::NONE).then_some(prior)
    }

    /// The operands of a phi, by predecessor of its block.
    pub fn phi_operands(&self, graph: &Graph, value: ValueId) -> &[ValueId] {
        let Some(Definition::Phi(block)) = self.definition(value) else {
            return &[];
        };
        let first = self.facts[value.index()].first_part as usize;
        let parts = self
            .parts
            .get(first..first + graph.predecessors(block).count());
        parts.unwrap_or(&[])
    }

    /// Every phi with its block, in reverse post-order.
    pub(super) fn phis(&self, graph: &Graph) -> Vec<(BlockId, ValueId)> {
        let values = (0..).map(ValueId).zip(&self.definitions);
        let mut phis: Vec<_> = values
            .filter_map(|(value, definition)| match definition {
                Definition::Phi(block) => Some((*block, value)),
                _ => None,
            })
            .collect();
        phis.sort_by_key(|(block, _)| graph.place(*block));
        phis
    }

    /// The number of uses of a value, by phis too.
    pub fn read_count(&self, value: ValueId) -> u32 {
        self.facts.get(value.index()).map_or(0, |facts| facts.reads)
    }

    /// The values that nothing uses, and the instruction that writes each, in source order.
    pub fn unread(&self) -> impl Iterator<Item = (ValueId, InstructionId)> + '_ {
        let facts = (0..).map(ValueId).zip(&self.facts);
        let unread = facts.filter(|(_, facts)| facts.reads == 0);
        unread.filter_map(|(value, _)| match self.definition(value)? {
            Definition::Written(id) => Some((value, id)),
            Definition::Start | Definition::Phi(_) => None,
        })
    }

    fn add(&mut self, definition: Definition, register: Register) -> ValueId {
        self.definitions.push(definition);
        self.registers.push(register);
        self.facts.push(Facts::NONE);
        ValueId(self.definitions.len() as u32 - 1)
    }
}

/// The writes of a register.
#[derive(Clone, Copy)]
struct Written {
    /// What the last one in the text writes, its place among the register operands, and its
    /// block.
    value: ValueId,
    place: u32,
    home: BlockId,
    /// Whether its values have to be followed through the graph.
    several: bool,
}

impl Default for Written {
    fn default() -> Written {
        Written {
            value: ValueId::NONE,
            place: 0,
            home: BlockId::ENTRY,
            several: false,
        }
    }
}

struct Builder<'c, 'm, 'a> {
    instructions: &'c Instructions<'m, 'a>,
    graph: &'c Graph,
    values: Values,
    /// The writes of each register.
    written: Vec<Written>,
    /// The value before the first write.
    start: Vec<ValueId>,
}

impl<'c, 'm, 'a> Builder<'c, 'm, 'a> {
    fn new(instructions: &'c Instructions<'m, 'a>, graph: &'c Graph) -> Self {
        let registers = instructions.registers as usize;
        // Nearly one for each instruction, and some phis.
        let count = instructions.steps.len() + instructions.steps.len() / 8;
        Builder {
            instructions,
            graph,
            values: Values {
                slots: vec![ValueId::NONE; instructions.slot_count()],
                operands: vec![ValueId::NONE; instructions.body.operands.len()],
                definitions: Vec::with_capacity(count),
                registers: Vec::with_capacity(count),
                facts: Vec::with_capacity(count),
                ..Values::default()
            },
            written: vec![Written::default(); registers],
            start: vec![ValueId::NONE; registers],
        }
    }

    fn start(&mut self, register: Register) -> ValueId {
        let known = self.start[register.0 as usize];
        if known != ValueId::NONE {
            return known;
        }
        let new = self.values.add(Definition::Start, register);
        self.start[register.0 as usize] = new;
        new
    }

    /// Notes the value of a register operand that is read.
    #[inline]
    fn read(&mut self, place: usize, slot: RegisterOperand, value: ValueId) {
        self.values.slots[place] = value;
        if let Some(known) = self.values.operands.get_mut(slot.operand as usize) {
            *known = value;
        }
        if let Some(facts) = self.values.facts.get_mut(value.index()) {
            facts.reads += 1;
        }
    }

    /// The blocks that are reached, in the order of the text.
    fn reached(&self) -> impl Iterator<Item = (BlockId, BasicBlock)> + use<'c, 'm, 'a> {
        let graph = self.graph;
        let blocks = (0..).map(BlockId).zip(&graph.blocks);
        let reached = blocks.filter(|(block, _)| graph.is_reached(*block));
        reached.map(|(block, range)| (block, *range))
    }

    /// Registers with a single write that dominates all reads, which are nearly all; what names
    /// the others.
    fn single(&mut self) -> Vec<Mention> {
        let instructions = self.instructions;
        let (steps, slots) = (instructions.steps.as_slice(), instructions.slots());
        let reached = self.reached();
        // Plain borrows, which stay in registers.
        let Builder {
            values,
            written: known,
            ..
        } = self;
        let Values {
            definitions,
            registers,
            slots: of_slots,
            operands,
            ..
        } = values;
        for (home, block) in reached {
            for (id, step) in block
                .steps()
                .zip(steps.get(block.range()).unwrap_or_default())
            {
                let (_, written, end) = instructions.places(step);
                for place in written..end {
                    let slot = slots[place];
                    let value = ValueId(definitions.len() as u32);
                    definitions.push(Definition::Written(id));
                    registers.push(slot.register);
                    of_slots[place] = value;
                    if let Some(of_operand) = operands.get_mut(slot.operand as usize) {
                        *of_operand = value;
                    }
                    let of = &mut known[slot.register.0 as usize];
                    of.several |= step.partial || of.value != ValueId::NONE;
                    (of.value, of.place, of.home) = (value, place as u32, home);
                }
            }
        }
        let count = self.values.definitions.len();
        self.values.facts.resize(count, Facts::NONE);
        let mut others = Vec::with_capacity(slots.len() / 8);
        let mut unwritten = Vec::new();
        // Some of a register were taken for the only value before another was seen.
        let mut late = false;
        let graph = self.graph;
        let reached = self.reached();
        let Builder {
            values,
            written: known,
            ..
        } = self;
        let Values {
            definitions,
            slots: of_slots,
            operands,
            facts,
            ..
        } = values;
        let is_partial = |value: ValueId| match definitions.get(value.index()) {
            Some(Definition::Written(id)) => steps[id.index()].partial,
            _ => false,
        };
        for (block, range) in reached {
            let places = instructions.places_of(range.range());
            let slots = slots.get(places.clone()).unwrap_or_default();
            let of_slots = of_slots.get_mut(places.clone()).unwrap_or_default();
            for ((place, slot), of_slot) in places.zip(slots).zip(of_slots) {
                let of = &mut known[slot.register.0 as usize];
                // Values of reads are not known yet.
                let written = *of_slot != ValueId::NONE;
                if of.several {
                    others.push(Mention {
                        register: slot.register.0,
                        place,
                        block,
                        written,
                        partial: written && is_partial(*of_slot),
                    });
                    continue;
                }
                if written {
                    continue;
                }
                if of.value == ValueId::NONE {
                    unwritten.push(place);
                    continue;
                }
                // An instruction reads before it writes.
                let before = if of.home == block {
                    (of.place as usize) < place
                } else {
                    graph.dominates(of.home, block)
                };
                if !before {
                    of.several = true;
                    late = true;
                    continue;
                }
                *of_slot = of.value;
                if let Some(of_operand) = operands.get_mut(slot.operand as usize) {
                    *of_operand = of.value;
                }
                if let Some(facts) = facts.get_mut(of.value.index()) {
                    facts.reads += 1;
                }
            }
        }
        for place in unwritten {
            let slot = slots[place];
            let value = self.start(slot.register);
            self.read(place, slot, value);
        }
        if late { self.others() } else { others }
    }

    /// What names the registers of several values; reads that have a value of one have none
    /// then.
    fn others(&mut self) -> Vec<Mention> {
        let mut mentions = Vec::new();
        for (block, range) in self.reached() {
            for id in range.steps() {
                let step = &self.instructions.steps[id.index()];
                let (first, _, end) = self.instructions.places(step);
                for place in first..end {
                    let slot = self.instructions.slot(place);
                    if !self.written[slot.register.0 as usize].several {
                        continue;
                    }
                    let mention = Mention::new(step, slot, place, block);
                    let known = self.values.slots[place];
                    if !mention.written
                        && let Some(facts) = self.values.facts.get_mut(known.index())
                    {
                        facts.reads -= 1;
                    }
                    mentions.push(mention);
                }
            }
        }
        mentions
    }

    /// The others, a register at a time.
    fn several(&mut self, mentions: &[Mention]) -> Option<()> {
        let mentions = by_register(mentions, self.written.len());
        let blocks = self.graph.blocks.len();
        let budget = (self.instructions.steps.len() + blocks) * STEPS_FOR_EACH + 10_000;
        let mut walk = Walk {
            frontiers: self.graph.dominance_frontiers(budget)?,
            epoch: 0,
            blocks: vec![AtBlock::default(); blocks],
            budget,
            open: Vec::new(),
            todo: Vec::new(),
        };
        for of_register in mentions.chunk_by(|a, b| a.register == b.register) {
            self.register(of_register, &mut walk)?;
        }
        Some(())
    }

    fn register(&mut self, mentions: &[Mention], walk: &mut Walk) -> Option<()> {
        walk.epoch += 1;
        let epoch = walk.epoch;
        let mut todo = std::mem::take(&mut walk.todo);
        for mention in mentions.iter().filter(|mention| mention.written) {
            let block = mention.block;
            let at = &mut walk.blocks[block.index()];
            if at.out.0 != epoch {
                todo.push(block);
            }
            at.out = (epoch, self.values.slots[mention.place]);
        }
        while let Some(block) = todo.pop() {
            for join in walk.frontiers.get(block.0).iter().copied().map(BlockId) {
                walk.budget = walk.budget.checked_sub(1)?;
                let at = &mut walk.blocks[join.index()];
                if at.join != epoch {
                    at.join = epoch;
                    if at.out.0 != epoch {
                        todo.push(join);
                    }
                }
            }
        }
        walk.todo = todo;
        let register = Register(mentions[0].register);
        let mut here = None;
        for mention in mentions {
            let current = match here {
                Some((block, value)) if block == mention.block => Some(value),
                _ => None,
            };
            if !mention.written {
                let value = match current {
                    Some(value) => value,
                    None => self.value_into(register, mention.block, walk)?,
                };
                let slot = self.instructions.slot(mention.place);
                self.read(mention.place, slot, value);
                here = Some((mention.block, value));
                continue;
            }
            let value = self.values.slots[mention.place];
            if mention.partial {
                let before = match current {
                    Some(value) => value,
                    None => self.value_into(register, mention.block, walk)?,
                };
                self.values.facts[value.index()].prior = before;
            }
            here = Some((mention.block, value));
        }
        while let Some((value, block)) = walk.open.pop() {
            let first = self.values.parts.len();
            self.values.facts[value.index()].first_part = first as u32;
            let graph = self.graph;
            for before in graph.predecessors(block) {
                let part = self.value_out_of(register, before, walk)?;
                self.values.parts.push(part);
            }
        }
        Some(())
    }

    /// The value of the register at the start of a block.
    fn value_into(
        &mut self,
        register: Register,
        block: BlockId,
        walk: &mut Walk,
    ) -> Option<ValueId> {
        let (epoch, mut at) = (walk.epoch, block);
        let value = loop {
            walk.budget = walk.budget.checked_sub(1)?;
            let AtBlock { into, join, .. } = walk.blocks[at.index()];
            if into.0 == epoch {
                break into.1;
            }
            if join == epoch {
                let value = self.values.add(Definition::Phi(at), register);
                walk.open.push((value, at));
                break value;
            }
            if at == BlockId::ENTRY {
                break self.start(register);
            }
            let above = self.graph.dominator(at);
            if let (known, value) = walk.blocks[above.index()].out
                && known == epoch
            {
                break value;
            }
            at = above;
        };
        // All blocks on the way have it too.
        let mut back = block;
        loop {
            walk.blocks[back.index()].into = (epoch, value);
            if back == at {
                break;
            }
            back = self.graph.dominator(back);
        }
        Some(value)
    }

    /// Its value at the end of a block.
    fn value_out_of(
        &mut self,
        register: Register,
        block: BlockId,
        walk: &mut Walk,
    ) -> Option<ValueId> {
        match walk.blocks[block.index()].out {
            (known, value) if known == walk.epoch => Some(value),
            _ => self.value_into(register, block, walk),
        }
    }

    fn finish(self) -> Values {
        let mut values = self.values;
        // What phis and guarded writes take on counts, too.
        for part in &values.parts {
            if let Some(facts) = values.facts.get_mut(part.index()) {
                facts.reads += 1;
            }
        }
        for at in 0..values.facts.len() {
            let prior = values.facts[at].prior;
            if let Some(facts) = values.facts.get_mut(prior.index()) {
                facts.reads += 1;
            }
        }
        values
    }
}

/// The values of one register at a block; those of another epoch belong to another register.
#[derive(Clone, Copy)]
struct AtBlock {
    /// At its end.
    out: (u32, ValueId),
    /// At its start.
    into: (u32, ValueId),
    /// The epoch in which values meet here.
    join: u32,
}

impl Default for AtBlock {
    fn default() -> AtBlock {
        AtBlock {
            out: (0, ValueId::NONE),
            into: (0, ValueId::NONE),
            join: 0,
        }
    }
}

/// The values of one register after the other.
struct Walk {
    /// The dominance frontier of each block.
    frontiers: Lists,
    epoch: u32,
    blocks: Vec<AtBlock>,
    budget: usize,
    /// Phis whose operands are not known yet.
    open: Vec<(ValueId, BlockId)>,
    /// Blocks whose frontiers have not been gone through; empty between registers.
    todo: Vec<BlockId>,
}
