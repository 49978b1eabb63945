//! Builds code in SSA form: variables that are assigned several times become values and block
//! parameters (Braun et al., "Simple and Efficient Construction of Static Single Assignment Form").

use std::collections::HashMap;

use regalloc2::{Operand, RegClass};
use smallvec::SmallVec;

use super::machine::{
    Block, Code, Condition, Constant, INT, Instruction, Label, MASK, Op, Value, ZMM,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Variable(u32);

pub(super) struct Builder {
    pub code: Code,
    current: Label,
    classes: Vec<RegClass>,
    /// By block: the values of variables at its end so far.
    defined: Vec<HashMap<Variable, Value>>,
    /// By block: whether all its predecessors are known.
    sealed: Vec<bool>,
    /// By block: the variables of its parameters.
    parameters: Vec<Vec<Variable>>,
    /// By value: whether a variable has it, or another place needs it.
    kept: Vec<bool>,
    /// The values that others are the same as.
    aliases: HashMap<Value, Value>,
    /// What is at the start of the entry: values of variables that nothing assigns.
    zeros: Vec<(Value, RegClass)>,
    /// The blocks behind all others.
    cold: Vec<Label>,
    is_done: bool,
}

impl Builder {
    pub fn new() -> Builder {
        let mut builder = Builder {
            code: Code::default(),
            current: Label(0),
            classes: Vec::new(),
            defined: Vec::new(),
            sealed: Vec::new(),
            parameters: Vec::new(),
            kept: Vec::new(),
            aliases: HashMap::new(),
            zeros: Vec::new(),
            cold: Vec::new(),
            is_done: false,
        };
        let entry = builder.block();
        builder.seal(entry);
        builder.enter(entry);
        builder
    }

    pub fn block(&mut self) -> Label {
        let label = Label(self.code.blocks.len() as u32);
        self.code.blocks.push(Block::default());
        self.defined.push(HashMap::new());
        self.sealed.push(false);
        self.parameters.push(Vec::new());
        label
    }

    /// Continues in a block, which comes next in the code, or is cold if its predecessors are.
    pub fn enter(&mut self, block: Label) {
        let blocks = &self.code.blocks;
        let before = &blocks[block.0 as usize].predecessors;
        if !before.is_empty() && before.iter().all(|at| blocks[at.0 as usize].is_cold) {
            return self.place_cold(block);
        }
        self.current = block;
        self.code.layout.push(block);
        self.is_done = false;
    }

    /// Continues in a block that has one predecessor or whose predecessors are all known.
    pub fn enter_sealed(&mut self, block: Label) {
        self.seal(block);
        self.enter(block);
    }

    /// Continues in a sealed block, which comes behind all others in the code.
    pub fn enter_cold(&mut self, block: Label) {
        self.seal(block);
        self.place_cold(block);
    }

    fn place_cold(&mut self, block: Label) {
        self.current = block;
        self.code.blocks[block.0 as usize].is_cold = true;
        self.cold.push(block);
        self.is_done = false;
    }

    pub fn current(&self) -> Label {
        self.current
    }

    pub fn value(&mut self, class: RegClass) -> Value {
        let value = Value::new(self.code.values as usize, class);
        self.code.values += 1;
        value
    }

    pub fn variable(&mut self, class: RegClass) -> Variable {
        self.classes.push(class);
        Variable(self.classes.len() as u32 - 1)
    }

    pub fn emit(&mut self, op: Op, operands: impl IntoIterator<Item = Operand>) {
        if self.is_done {
            return;
        }
        let successors: SmallVec<[Label; 2]> = match op {
            Op::Jump(to) => SmallVec::from_slice(&[to]),
            Op::Branch {
                then, otherwise, ..
            } => SmallVec::from_slice(&[then, otherwise]),
            _ => SmallVec::new(),
        };
        self.is_done = !successors.is_empty() || op == Op::Return;
        for to in successors {
            debug_assert!(!self.sealed[to.0 as usize], "a jump to a sealed block");
            self.code.blocks[to.0 as usize]
                .predecessors
                .push(self.current);
        }
        let instruction = Instruction {
            op,
            operands: operands.into_iter().collect(),
        };
        self.code.blocks[self.current.0 as usize]
            .instructions
            .push(instruction);
    }

    /// Goes to a block where a condition holds, and to another elsewhere.
    pub fn branch(&mut self, condition: Condition, then: Label, otherwise: Label) {
        let op = Op::Branch {
            condition,
            then,
            otherwise,
        };
        self.emit(op, []);
    }

    pub fn jump(&mut self, to: Label) {
        self.emit(Op::Jump(to), []);
    }

    pub fn set(&mut self, variable: Variable, value: Value) {
        self.keep(value);
        self.defined[self.current.0 as usize].insert(variable, value);
    }

    /// The value is needed, also where nothing uses it yet.
    pub fn keep(&mut self, value: Value) {
        if self.kept.len() <= value.vreg() {
            self.kept.resize(value.vreg() + 1, false);
        }
        self.kept[value.vreg()] = true;
    }

    /// Whether a variable has, or had, this value, or another place needs it.
    pub fn is_kept(&self, value: Value) -> bool {
        self.kept.get(value.vreg()).is_some_and(|&known| known)
    }

    pub fn get(&mut self, variable: Variable) -> Value {
        self.read(variable, self.current)
    }

    fn read(&mut self, variable: Variable, block: Label) -> Value {
        // The blocks from which the value is read, each the only predecessor of the one before.
        let mut chain = Vec::new();
        let mut at = block.0 as usize;
        let value = loop {
            if let Some(&value) = self.defined[at].get(&variable) {
                break value;
            }
            chain.push(at);
            let predecessors = &self.code.blocks[at].predecessors;
            let class = self.classes[variable.0 as usize];
            match (self.sealed[at], &predecessors[..]) {
                (true, &[before]) if chain.len() < self.code.blocks.len() => {
                    at = before.0 as usize;
                }
                // The entry, or a loop that nothing leads to.
                (true, [] | [_]) => {
                    let value = self.value(class);
                    self.zeros.push((value, class));
                    break value;
                }
                _ => {
                    let value = self.value(class);
                    self.code.blocks[at].params.push(value);
                    self.parameters[at].push(variable);
                    break value;
                }
            }
        };
        for at in chain {
            self.defined[at].insert(variable, value);
        }
        value
    }

    /// All predecessors of a block are known now.
    pub fn seal(&mut self, block: Label) {
        self.sealed[block.0 as usize] = true;
    }

    /// Completes the parameters of blocks, and splits critical edges.
    pub fn finish(mut self) -> Code {
        self.code.layout.append(&mut self.cold);
        let zeros = self.arguments();
        self.remove_redundant();
        // Behind the arguments, which are in registers of their own until then.
        let entry = &mut self.code.blocks[0].instructions;
        let mut start: Vec<Instruction> = entry.drain(..1.min(entry.len())).collect();
        for (value, class) in zeros {
            start.push(Instruction {
                op: zero(class),
                operands: SmallVec::from_slice(&[Operand::reg_def(value)]),
            });
        }
        start.append(entry);
        *entry = start;
        self.code.verified("lower");
        super::numbering::run(&mut self.code);
        self.code.verified("numbering");
        self.code.split_critical_edges();
        self.code
    }

    /// Finds the values of all parameters at all predecessors, which may add parameters. Returns what
    /// starts as zero.
    fn arguments(&mut self) -> Vec<(Value, RegClass)> {
        // By block and parameter: the values, by predecessor.
        let mut found: Vec<Vec<Vec<Value>>> = vec![Vec::new(); self.code.blocks.len()];
        loop {
            let mut changed = false;
            for (at, found) in found.iter_mut().enumerate() {
                while found.len() < self.parameters[at].len() {
                    let variable = self.parameters[at][found.len()];
                    let predecessors = self.code.blocks[at].predecessors.clone();
                    let values = predecessors.iter().map(|&from| self.read(variable, from));
                    let values = values.collect();
                    found.push(values);
                    changed = true;
                }
            }
            if !changed {
                break;
            }
        }
        for (at, found) in found.iter().enumerate() {
            let predecessors = self.code.blocks[at].predecessors.clone();
            let mut seen = HashMap::new();
            for (number, from) in predecessors.into_iter().enumerate() {
                let arguments = found.iter().map(|values| values[number]).collect();
                // A branch may lead to one block in both cases.
                let nth = seen.entry(from).or_insert(0);
                let successors = self.code.blocks[from.0 as usize].successors();
                let mut edges = (0..successors.len()).filter(|n| successors[*n].0 == at as u32);
                let edge = edges.nth(*nth).unwrap_or_default();
                *nth += 1;
                let all = &mut self.code.blocks[from.0 as usize].arguments;
                if all.len() <= edge {
                    all.resize(edge + 1, Vec::new());
                }
                all[edge] = arguments;
            }
        }
        for block in &mut self.code.blocks {
            let successors = block.successors().len();
            block.arguments.resize(successors, Vec::new());
        }
        std::mem::take(&mut self.zeros)
    }

    fn resolved(&self, value: Value) -> Value {
        let mut value = value;
        while let Some(&other) = self.aliases.get(&value) {
            value = other;
        }
        value
    }

    /// Removes the parameters that always have the same value.
    fn remove_redundant(&mut self) {
        // By block: the blocks before it and which of their successors it is.
        let mut edges: Vec<Vec<(usize, usize)>> = vec![Vec::new(); self.code.blocks.len()];
        for (from, block) in self.code.blocks.iter().enumerate() {
            for (edge, to) in block.successors().into_iter().enumerate() {
                edges[to.0 as usize].push((from, edge));
            }
        }
        let mut is_alias: Vec<Vec<bool>> = self
            .code
            .blocks
            .iter()
            .map(|block| vec![false; block.params.len()])
            .collect();
        loop {
            let mut changed = false;
            for (at, is_alias) in is_alias.iter_mut().enumerate() {
                for (n, is_alias) in is_alias.iter_mut().enumerate() {
                    if *is_alias {
                        continue;
                    }
                    let param = self.code.blocks[at].params[n];
                    let mut same = None;
                    let is_same = edges[at].iter().all(|&(from, edge)| {
                        let value = self.resolved(self.code.blocks[from].arguments[edge][n]);
                        if value == param {
                            return true;
                        }
                        *same.get_or_insert(value) == value
                    });
                    if let (true, Some(same)) = (is_same, same) {
                        self.aliases.insert(param, same);
                        *is_alias = true;
                        changed = true;
                    }
                }
            }
            if !changed {
                break;
            }
        }
        let keep = |values: &mut Vec<Value>, is_alias: &[bool]| {
            let mut n = 0;
            values.retain(|_| {
                n += 1;
                !is_alias[n - 1]
            });
        };
        let aliases = std::mem::take(&mut self.aliases);
        let resolved = |value: Value| {
            let mut value = value;
            while let Some(&other) = aliases.get(&value) {
                value = other;
            }
            value
        };
        for at in 0..self.code.blocks.len() {
            let successors = self.code.blocks[at].successors();
            let block = &mut self.code.blocks[at];
            for (arguments, to) in block.arguments.iter_mut().zip(successors) {
                keep(arguments, &is_alias[to.0 as usize]);
                for value in arguments {
                    *value = resolved(*value);
                }
            }
            keep(&mut block.params, &is_alias[at]);
            for instruction in &mut block.instructions {
                for operand in &mut instruction.operands {
                    let value = resolved(operand.vreg());
                    *operand =
                        Operand::new(value, operand.constraint(), operand.kind(), operand.pos());
                }
            }
        }
    }

    pub fn immediate(&mut self, number: u64) -> Value {
        let value = self.value(INT);
        self.emit(Op::Immediate(number), [Operand::reg_def(value)]);
        value
    }

    pub fn ones(&mut self) -> Value {
        let value = self.value(MASK);
        self.emit(Op::MaskConstant(true), [Operand::reg_def(value)]);
        value
    }

    /// A zero of the class of a variable.
    pub fn zero_of(&mut self, variable: Variable) -> Value {
        let class = self.classes[variable.0 as usize];
        let value = self.value(class);
        self.emit(zero(class), [Operand::reg_def(value)]);
        value
    }

    pub fn constant(&mut self, constant: Constant) -> Value {
        let value = self.value(ZMM);
        self.emit(Op::Constant(constant), [Operand::reg_def(value)]);
        value
    }
}

fn zero(class: RegClass) -> Op {
    match class {
        INT => Op::Immediate(0),
        ZMM => Op::ZeroVector,
        _ => Op::MaskConstant(false),
    }
}

impl Op {
    /// Whether it does nothing but compute its result.
    pub fn is_pure(&self) -> bool {
        !matches!(
            self,
            Op::Store { .. }
                | Op::Scatter { .. }
                | Op::ScatterArea { .. }
                | Op::StoreNarrow { .. }
                | Op::Gather { .. }
                | Op::MaskTest
                | Op::Test { .. }
                | Op::Alu {
                    op: super::machine::Alu::Cmp,
                    ..
                }
                | Op::AluImmediate {
                    op: super::machine::Alu::Cmp,
                    ..
                }
                | Op::StoreInt { .. }
                | Op::Fence
                | Op::Prefetch { .. }
                | Op::Check { .. }
                | Op::CallLanes { .. }
                | Op::StoreLanes { .. }
                | Op::StoreMaskLanes { .. }
                | Op::StoreMask { .. }
                | Op::StoreIntLanes { .. }
                | Op::Divide { .. }
                | Op::Jump(_)
                | Op::Branch { .. }
                | Op::Return
        )
    }
}

impl Code {
    /// Removes blocks that nothing reaches, and what computes values that nothing uses.
    pub fn remove_dead(&mut self) {
        let mut reached = vec![false; self.blocks.len()];
        let mut left = vec![Label(0)];
        while let Some(at) = left.pop() {
            if !std::mem::replace(&mut reached[at.0 as usize], true) {
                left.extend(self.blocks[at.0 as usize].successors());
            }
        }
        self.layout.retain(|block| reached[block.0 as usize]);
        // The instructions and parameters that are needed, from those with effects on.
        let mut used = vec![false; self.values as usize];
        // By value: the block and instruction, or parameter, that defines it.
        let mut definitions: Vec<Option<(u32, Result<u32, u32>)>> =
            vec![None; self.values as usize];
        let mut open = Vec::new();
        let mut edges: Vec<Vec<(u32, usize)>> = vec![Vec::new(); self.blocks.len()];
        for &label in &self.layout {
            let block = &self.blocks[label.0 as usize];
            for (edge, to) in block.successors().into_iter().enumerate() {
                edges[to.0 as usize].push((label.0, edge));
            }
            for (n, param) in block.params.iter().enumerate() {
                definitions[param.vreg()] = Some((label.0, Err(n as u32)));
            }
            for (n, instruction) in block.instructions.iter().enumerate() {
                for operand in &instruction.operands {
                    if operand.kind() == regalloc2::OperandKind::Def {
                        definitions[operand.vreg().vreg()] = Some((label.0, Ok(n as u32)));
                    }
                }
                if !instruction.op.is_pure() {
                    open.push((label.0, Ok(n as u32)));
                }
            }
        }
        let mut needed: Vec<Vec<bool>> = self
            .blocks
            .iter()
            .map(|block| vec![false; block.instructions.len()])
            .collect();
        while let Some((block, what)) = open.pop() {
            let mut uses: SmallVec<[Value; 6]> = SmallVec::new();
            match what {
                Ok(n) => {
                    if std::mem::replace(&mut needed[block as usize][n as usize], true) {
                        continue;
                    }
                    let operands = &self.blocks[block as usize].instructions[n as usize].operands;
                    uses.extend(operands.iter().map(|operand| operand.vreg()));
                }
                Err(n) => {
                    for &(from, edge) in &edges[block as usize] {
                        uses.push(self.blocks[from as usize].arguments[edge][n as usize]);
                    }
                }
            }
            for value in uses {
                if !std::mem::replace(&mut used[value.vreg()], true)
                    && let Some(definition) = definitions[value.vreg()]
                {
                    open.push(definition);
                }
            }
        }
        let params: Vec<Vec<bool>> = self
            .blocks
            .iter()
            .map(|block| {
                block
                    .params
                    .iter()
                    .map(|param| used[param.vreg()])
                    .collect()
            })
            .collect();
        for at in 0..self.blocks.len() {
            let successors = self.blocks[at].successors();
            let block = &mut self.blocks[at];
            for (arguments, to) in block.arguments.iter_mut().zip(successors) {
                let mut n = 0;
                arguments.retain(|_| {
                    n += 1;
                    params[to.0 as usize][n - 1]
                });
            }
            let mut n = 0;
            block.params.retain(|_| {
                n += 1;
                params[at][n - 1]
            });
            let mut n = 0;
            block.instructions.retain(|_| {
                n += 1;
                needed[at][n - 1] || !reached[at]
            });
        }
    }

    /// Gives each edge from a block with several successors to one with several predecessors a block
    /// of its own.
    fn split_critical_edges(&mut self) {
        for block in &mut self.blocks {
            block.predecessors.clear();
        }
        let mut counts = vec![0; self.blocks.len()];
        for &label in &self.layout {
            for to in self.blocks[label.0 as usize].successors() {
                counts[to.0 as usize] += 1;
            }
        }
        let mut layout = Vec::with_capacity(self.layout.len());
        let mut cold = Vec::new();
        for label in std::mem::take(&mut self.layout) {
            layout.push(label);
            let successors = self.blocks[label.0 as usize].successors();
            if successors.len() < 2 {
                continue;
            }
            for (edge, to) in successors.into_iter().enumerate() {
                if counts[to.0 as usize] < 2 {
                    continue;
                }
                let middle = Label(self.blocks.len() as u32);
                let arguments = std::mem::take(&mut self.blocks[label.0 as usize].arguments[edge]);
                self.blocks.push(Block {
                    instructions: vec![Instruction {
                        op: Op::Jump(to),
                        operands: SmallVec::new(),
                    }],
                    arguments: SmallVec::from_iter([arguments]),
                    is_cold: self.blocks[to.0 as usize].is_cold,
                    ..Block::default()
                });
                if self.blocks[to.0 as usize].is_cold {
                    cold.push(middle);
                } else {
                    layout.push(middle);
                }
                if let Some(Instruction {
                    op:
                        Op::Branch {
                            then, otherwise, ..
                        },
                    ..
                }) = self.blocks[label.0 as usize].instructions.last_mut()
                {
                    match edge {
                        0 => *then = middle,
                        _ => *otherwise = middle,
                    }
                }
            }
        }
        layout.append(&mut cold);
        self.layout = layout;
        for &label in &self.layout {
            for to in self.blocks[label.0 as usize].successors() {
                self.blocks[to.0 as usize].predecessors.push(label);
            }
        }
    }
}
