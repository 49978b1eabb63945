//! Computes each value once: value numbering over the dominator tree, and code motion out of loops.
//!
//! What an instruction computes has a number, from its operation and the numbers of its operands. An
//! instruction whose number is known in a dominating block is replaced by that value. In a second step,
//! instructions whose operands are defined outside a loop move in front of it.

use std::collections::HashMap;

use analysis::control_flow::{BlockId, Graph, LoopId, Loops};
use regalloc2::{Operand, OperandKind};
use smallvec::SmallVec;

use super::known_bits::KnownBits;
use super::machine::{Alu, Block, Code, INT, Instruction, Label, MASK, Op, Value};
use super::opcodes as v;
use crate::abi::offset;
use crate::optimization::Optimization;

/// What an instruction computes: its operation and its operands by number, and those of the instruction
/// that sets the flags it reads.
#[derive(PartialEq, Eq, Hash)]
struct Key {
    op: Op,
    operands: SmallVec<[u32; 6]>,
    flags: Option<(Op, SmallVec<[u32; 6]>)>,
}

/// The rewritten values of a function.
struct Values {
    /// By value: the value that replaces it.
    replaced: Vec<Value>,
    /// By value: its number.
    number: Vec<u32>,
    /// By value: the block that defines it.
    block: Vec<u32>,
    /// By number: the constant, which is all ones for a mask of all lanes.
    constants: HashMap<u32, u64>,
    /// By value: whether it is the address of memory that nothing writes while the function runs.
    is_fixed: Vec<bool>,
    context: Option<Value>,
}

/// The control flow of a function.
pub(super) fn graph(code: &Code) -> Graph {
    let mut edges = Vec::new();
    for &label in &code.layout {
        for to in code.blocks[label.0 as usize].successors() {
            edges.push((label.0, to.0));
        }
    }
    edges.sort_unstable();
    edges.dedup();
    Graph::new(code.blocks.len(), &edges)
}

pub(super) fn run(code: &mut Code) {
    let graph = graph(code);
    let mut values = number(code, &graph);
    if let Some(loops) = Loops::new(&graph).filter(|_| Optimization::Hoisting.is_on()) {
        hoist(code, &graph, &loops, &mut values);
    }
    code.remove_dead();
    remove_unread_flags(code);
    code.remove_dead();
}

/// Replaces the values that are known already.
fn number(code: &mut Code, graph: &Graph) -> Values {
    let count = code.values as usize;
    let mut values = Values {
        replaced: Vec::with_capacity(count),
        number: (0..code.values).collect(),
        block: vec![0; count],
        constants: HashMap::new(),
        is_fixed: vec![false; count],
        context: None,
    };
    let mut classes = vec![INT; count];
    for (at, block) in code.blocks.iter().enumerate() {
        for param in &block.params {
            classes[param.vreg()] = param.class();
            values.block[param.vreg()] = at as u32;
        }
        for operand in block.instructions.iter().flat_map(|i| &i.operands) {
            classes[operand.vreg().vreg()] = operand.vreg().class();
        }
    }
    let all = classes.iter().enumerate();
    values.replaced = all.map(|(n, &class)| Value::new(n, class)).collect();
    let mut known: HashMap<Key, SmallVec<[(u32, Value); 2]>> = HashMap::new();
    let mut constants: HashMap<Op, u32> = HashMap::new();
    let mut bits = KnownBits::new(count);
    for &BlockId(at) in &graph.order {
        bits.enter(code, at);
        let mut flags = None;
        let mut instructions = std::mem::take(&mut code.blocks[at as usize].instructions);
        for instruction in &mut instructions {
            values.rewrite(instruction);
            for operand in defs(instruction) {
                values.block[operand.vreg().vreg()] = at;
            }
            bits.note(code, instruction);
            let operands: SmallVec<[u32; 6]> = uses(instruction)
                .map(|operand| values.number_of(operand.vreg()))
                .collect();
            let op = instruction.op.clone();
            if op.sets_flags() {
                flags = Some((op.clone(), operands.clone()));
            } else if !op.keeps_flags() {
                flags = None;
            }
            let Some(result) = values.result(instruction) else {
                continue;
            };
            if op.is_constant() {
                let number = *constants.entry(op.clone()).or_insert(result.vreg() as u32);
                values.number[result.vreg()] = number;
                match op {
                    Op::Immediate(bits) => values.constants.insert(number, bits),
                    Op::MaskConstant(true) => values.constants.insert(number, u64::MAX),
                    Op::MaskConstant(false) => values.constants.insert(number, 0),
                    _ => None,
                };
            } else {
                let same = values.simplified(instruction);
                if let Some(same) =
                    same.or_else(|| Optimization::KnownBits.at(bits.unmasked(instruction)))
                {
                    values.replace(result, same);
                    continue;
                }
            }
            let key = Key {
                flags: flags.clone().filter(|_| op.reads_flags()),
                op: op.clone(),
                operands,
            };
            if op.reads_flags() && key.flags.is_none() {
                continue;
            }
            let places = known.entry(key).or_default();
            // Constants are in registers for the instructions of one block.
            let is_usable = |from: u32| {
                if op.is_constant() {
                    from == at
                } else {
                    graph.dominates(BlockId(from), BlockId(at))
                }
            };
            let place = places.iter().find(|(from, _)| is_usable(*from));
            match Optimization::ValueNumbering.at(place) {
                Some(&(_, same)) => values.replace(result, same),
                None => places.push((at, result)),
            }
        }
        code.blocks[at as usize].instructions = instructions;
    }
    for block in &mut code.blocks {
        for value in block.arguments.iter_mut().flatten() {
            *value = values.replaced[value.vreg()];
        }
    }
    values
}

fn defs(instruction: &Instruction) -> impl Iterator<Item = &Operand> {
    let operands = instruction.operands.iter();
    operands.filter(|operand| operand.kind() == OperandKind::Def)
}

fn uses(instruction: &Instruction) -> impl Iterator<Item = &Operand> {
    let operands = instruction.operands.iter();
    operands.filter(|operand| operand.kind() == OperandKind::Use)
}

impl Values {
    fn number_of(&self, value: Value) -> u32 {
        self.number[value.vreg()]
    }

    fn rewrite(&self, instruction: &mut Instruction) {
        for operand in &mut instruction.operands {
            if operand.kind() == OperandKind::Use {
                let value = self.replaced[operand.vreg().vreg()];
                *operand = Operand::new(value, operand.constraint(), operand.kind(), operand.pos());
            }
        }
    }

    /// Adds a value that is the same as another, in a block.
    fn add(&mut self, value: Value, copy: Value, block: u32) {
        self.replaced.push(copy);
        self.number.push(self.number[value.vreg()]);
        self.is_fixed.push(self.is_fixed[value.vreg()]);
        self.block.push(block);
    }

    fn replace(&mut self, value: Value, same: Value) {
        self.replaced[value.vreg()] = same;
        self.number[value.vreg()] = self.number[same.vreg()];
        self.is_fixed[value.vreg()] = self.is_fixed[same.vreg()];
    }

    /// The result of an instruction that always computes the same from the same operands.
    fn result(&mut self, instruction: &Instruction) -> Option<Value> {
        let mut found = defs(instruction).map(|operand| operand.vreg());
        let (first, second) = (found.next()?, found.next());
        let base = uses(instruction).next().map(|operand| operand.vreg());
        let is_pure = match instruction.op {
            Op::Arguments => {
                // The first argument is the context.
                self.is_fixed[first.vreg()] = true;
                self.context = Some(first);
                false
            }
            Op::LoadInt { offset, .. } => {
                let base = base?;
                let is_fixed = self.is_fixed[base.vreg()];
                // The context has the addresses of parameters and of variables' addresses.
                let tables = [offset::PARAMS, offset::GLOBALS];
                self.is_fixed[first.vreg()] =
                    is_fixed && Some(base) == self.context && tables.contains(&offset);
                is_fixed
            }
            Op::Load { binary, .. } => {
                let base = uses(instruction).nth(usize::from(binary))?;
                self.is_fixed[base.vreg().vreg()]
            }
            Op::LoadLanes { .. } | Op::LoadMask { .. } => false,
            ref op => op.is_pure(),
        };
        (is_pure && second.is_none()).then_some(first)
    }

    /// The operand that a result is the same as: of a sum with 0, and of a mask with no or all lanes.
    fn simplified(&self, instruction: &Instruction) -> Option<Value> {
        let operands: SmallVec<[Value; 2]> = uses(instruction).map(|o| o.vreg()).collect();
        let &[a, b] = &operands[..] else {
            return None;
        };
        let known = |value: Value| self.constants.get(&self.number_of(value)).copied();
        let is = |value: Value, bits: u64| known(value) == Some(bits);
        // Whether the first operand, and the second, changes nothing.
        let (first, second) = match instruction.op {
            Op::Alu {
                op: Alu::Add,
                wide: true,
            }
            | Op::MaskBinary(v::MASK_OR) => (is(a, 0), is(b, 0)),
            Op::MaskBinary(v::MASK_AND) => (is(a, u64::MAX), is(b, u64::MAX)),
            // Of the second, what is not in the first.
            Op::MaskBinary(v::MASK_AND_NOT) => (is(a, 0), false),
            _ => return None,
        };
        match (first, second) {
            (true, _) => Some(b),
            (_, true) => Some(a),
            _ => None,
        }
    }
}

/// Moves instructions in front of the loops in which their operands do not change.
fn hoist(code: &mut Code, graph: &Graph, loops: &Loops, values: &mut Values) {
    // Inner loops come first.
    for id in loops.ids() {
        let head = loops.get(id).head;
        let before = graph.dominator(head);
        if loops.contains(id, before) {
            continue;
        }
        let place = end_of(&code.blocks[before.0 as usize]);
        let mut motion = Motion {
            loops,
            id,
            before: before.0,
            moved: Vec::new(),
            cheap: HashMap::new(),
            copies: HashMap::new(),
        };
        // Values that are defined behind the place are not in front of it.
        for instruction in &code.blocks[before.0 as usize].instructions[place..] {
            for operand in defs(instruction) {
                values.block[operand.vreg().vreg()] = head.0;
            }
        }
        for &at in &graph.order {
            if loops.contains(id, at) && !code.blocks[at.0 as usize].is_cold {
                motion.visit(code, at, values);
            }
        }
        let block = &mut code.blocks[before.0 as usize];
        block.instructions.splice(place..place, motion.moved);
        for operand in block.instructions.iter().flat_map(defs) {
            values.block[operand.vreg().vreg()] = before.0;
        }
    }
}

/// Code motion out of one loop.
struct Motion<'l> {
    loops: &'l Loops,
    id: LoopId,
    /// The block in front of the loop.
    before: u32,
    moved: Vec<Instruction>,
    /// What computes the cheap values of the loop.
    cheap: HashMap<Value, Instruction>,
    /// Their copies in front of the loop.
    copies: HashMap<Value, Value>,
}

impl Motion<'_> {
    fn visit(&mut self, code: &mut Code, at: BlockId, values: &mut Values) {
        let mut flags: Option<Instruction> = None;
        let instructions = std::mem::take(&mut code.blocks[at.0 as usize].instructions);
        let mut kept = Vec::with_capacity(instructions.len());
        for instruction in instructions {
            let op = &instruction.op;
            if op.sets_flags() {
                flags = Some(instruction.clone());
            } else if !op.keeps_flags() {
                flags = None;
            }
            let Some(result) = values.result(&instruction) else {
                kept.push(instruction);
                continue;
            };
            let setter = flags.as_ref().filter(|_| op.reads_flags());
            let setter = setter.filter(|setter| defs(setter).next().is_none());
            let is_moved = result.class() != MASK
                && !op.is_cheap()
                && self.is_before(&instruction, values)
                && match (op.reads_flags(), setter) {
                    (true, None) => false,
                    (_, setter) => setter.is_none_or(|setter| self.is_before(setter, values)),
                };
            if !is_moved {
                if op.is_cheap() && self.is_before(&instruction, values) {
                    self.cheap.insert(result, instruction.clone());
                }
                kept.push(instruction);
                continue;
            }
            if let Some(mut setter) = setter.cloned() {
                self.with_copies(&mut setter, code, values);
                self.moved.push(setter);
            }
            let mut instruction = instruction;
            self.with_copies(&mut instruction, code, values);
            values.block[result.vreg()] = self.before;
            self.moved.push(instruction);
            Optimization::Hoisting.count();
        }
        code.blocks[at.0 as usize].instructions = kept;
    }

    /// Whether the operands of an instruction are, or can be, computed in front of the loop.
    fn is_before(&self, instruction: &Instruction, values: &Values) -> bool {
        uses(instruction).all(|operand| {
            let value = operand.vreg();
            let block = BlockId(values.block[value.vreg()]);
            !self.loops.contains(self.id, block) || self.cheap.contains_key(&value)
        })
    }

    /// Replaces cheap operands by copies in front of the loop.
    fn with_copies(&mut self, instruction: &mut Instruction, code: &mut Code, values: &mut Values) {
        for n in 0..instruction.operands.len() {
            let operand = instruction.operands[n];
            let value = operand.vreg();
            if operand.kind() != OperandKind::Use {
                continue;
            }
            let Some(mut cheap) = self.cheap.get(&value).cloned() else {
                continue;
            };
            let copy = match self.copies.get(&value) {
                Some(&copy) => copy,
                None => {
                    self.with_copies(&mut cheap, code, values);
                    let copy = Value::new(code.values as usize, value.class());
                    code.values += 1;
                    values.add(value, copy, self.before);
                    cheap.operands[0] = Operand::reg_def(copy);
                    self.moved.push(cheap);
                    self.copies.insert(value, copy);
                    copy
                }
            };
            instruction.operands[n] =
                Operand::new(copy, operand.constraint(), operand.kind(), operand.pos());
        }
    }
}

/// The last place in a block where instructions that set the flags can be.
fn end_of(block: &Block) -> usize {
    let last = block.instructions.len().saturating_sub(1);
    match block.instructions.get(last).map(|i| &i.op) {
        Some(Op::Branch { .. }) => {
            let mut before = block.instructions[..last].iter();
            before.rposition(|i| i.op.sets_flags()).unwrap_or(last)
        }
        _ => last,
    }
}

/// Removes comparisons whose flags nothing reads.
fn remove_unread_flags(code: &mut Code) {
    for &Label(at) in &code.layout {
        let block = &mut code.blocks[at as usize];
        let mut is_read = false;
        let mut unread = Vec::new();
        for (n, instruction) in block.instructions.iter().enumerate().rev() {
            let op = &instruction.op;
            if op.sets_flags() {
                if !is_read && defs(instruction).next().is_none() {
                    unread.push(n);
                    continue;
                }
                is_read = false;
            }
            is_read |= op.reads_flags() || matches!(op, Op::Branch { .. });
        }
        for n in unread {
            block.instructions.remove(n);
        }
    }
}

impl Op {
    /// Whether it is rather repeated than kept in a register.
    fn is_constant(&self) -> bool {
        matches!(
            self,
            Op::Immediate(_) | Op::Constant(_) | Op::ZeroVector | Op::MaskConstant(_)
        )
    }

    /// Whether a register that holds its result costs more than to compute it again.
    fn is_cheap(&self) -> bool {
        self.is_constant() || matches!(self, Op::LoadInt { .. })
    }

    fn reads_flags(&self) -> bool {
        matches!(self, Op::Set(_) | Op::Select { .. })
    }

    /// Whether the flags after it depend on it alone.
    fn sets_flags(&self) -> bool {
        matches!(
            self,
            Op::Alu { .. } | Op::AluImmediate { .. } | Op::Test { .. } | Op::MaskTest
        )
    }

    /// Whether the flags are the same after it.
    fn keeps_flags(&self) -> bool {
        matches!(
            self,
            Op::Vector { .. }
                | Op::Load { .. }
                | Op::LoadInt { .. }
                | Op::Extend(_)
                | Op::Address { .. }
                | Op::Indexed { .. }
                | Op::Not { .. }
                | Op::Set(_)
                | Op::Select { .. }
                | Op::Prefetch { .. }
                | Op::MaskToInt
                | Op::IntToMask
                | Op::MaskBinary(_)
                | Op::MaskNot
                | Op::MaskShift { .. }
        ) || self.is_constant()
    }
}
