//! Live-range splitting: each live range of a register becomes a register.
//!
//! Hand-written PTX often reuses a register for unrelated values, such as a pointer
//! and an address computed from it. Once they are split, each has one shape
//! and one register class.

use crate::optimization::Optimization;
use crate::program::ir::liveness::Liveness;
use crate::program::ir::{
    Arg, ArgList, Base, BlockId, Instruction, Program, Reg, Step, Terminator,
};

/// Union-find over definitions: those that reach a common use are one live range.
struct LiveRanges {
    parents: Vec<u32>,
    /// The register that each definition writes.
    registers: Vec<Reg>,
}

impl LiveRanges {
    fn add(&mut self, reg: Reg) -> u32 {
        let value = self.parents.len() as u32;
        self.parents.push(value);
        self.registers.push(reg);
        value
    }

    fn root(&mut self, mut value: u32) -> u32 {
        while self.parents[value as usize] != value {
            let parent = self.parents[value as usize];
            self.parents[value as usize] = self.parents[parent as usize];
            value = parent;
        }
        value
    }

    fn join(&mut self, a: u32, b: u32) {
        let (a, b) = (self.root(a), self.root(b));
        self.parents[a.max(b) as usize] = a.min(b);
    }
}

pub(in crate::program) fn split(program: &mut Program<'_>) {
    if !Optimization::LiveRanges.is_on() {
        return;
    }
    let liveness = Liveness::new(program);
    let registers = program.registers.len();
    let operands = program.args.len();
    let mut live_ranges = LiveRanges {
        parents: Vec::with_capacity(operands),
        registers: Vec::with_capacity(operands),
    };
    // The live-in registers of each block, with a definition for each.
    let live_ins: Vec<Vec<(Reg, u32)>> = (0..program.blocks.len())
        .map(|i| {
            let live = liveness.live_in(BlockId(i as u32));
            live.iter()
                .map(|&reg| (reg, live_ranges.add(reg)))
                .collect()
        })
        .collect();

    // The definition that each argument refers to, rewritten at the end.
    let mut arguments: Vec<(u32, u32)> = Vec::with_capacity(operands);
    let mut current = vec![u32::MAX; registers];
    let mut blocks = std::mem::take(&mut program.blocks);
    // The same for guards, results of calls, and terminators (step `usize::MAX`),
    // which are not in the argument list: block, step and definition.
    let mut other_operands: Vec<(usize, usize, u32)> = Vec::new();
    for (number, block) in blocks.iter().enumerate() {
        for &(reg, value) in &live_ins[number] {
            current[reg.index()] = value;
        }
        let mut scan = BlockScan {
            program,
            live_ranges: &mut live_ranges,
            current: &mut current,
            arguments: &mut arguments,
        };
        for (at, step) in block.steps.iter().enumerate() {
            match step {
                Step::Instruction(i) => {
                    if let Some(guard) = i.guard {
                        let value = scan.value(guard.reg);
                        other_operands.push((number, at, value));
                    }
                    let split = u32::from(program.has_destination(i)).min(i.args.len);
                    let rest = ArgList {
                        start: i.args.start + split,
                        len: i.args.len - split,
                    };
                    scan.list(rest, OperandKind::Use);
                    let results = ArgList {
                        start: i.args.start,
                        len: split,
                    };
                    scan.list(results, OperandKind::of_results(i));
                }
                Step::SystemCall { args, result, .. } => {
                    scan.list(*args, OperandKind::Use);
                    if let Some(reg) = result {
                        // Lowering creates a new register for each result.
                        let value = scan.live_ranges.add(*reg);
                        scan.current[reg.index()] = value;
                        other_operands.push((number, at, value));
                    }
                }
            }
        }
        match &block.terminator {
            Terminator::Branch { predicate, .. } => {
                let value = scan.value(predicate.reg);
                other_operands.push((number, usize::MAX, value));
            }
            Terminator::Table {
                index: Arg::Reg(reg),
                ..
            }
            | Terminator::Fault {
                address: Some(reg), ..
            } => {
                let value = scan.value(*reg);
                other_operands.push((number, usize::MAX, value));
            }
            Terminator::Sync { instruction: i, .. } => {
                let split = u32::from(program.has_destination(i)).min(i.args.len);
                let rest = ArgList {
                    start: i.args.start + split,
                    len: i.args.len - split,
                };
                scan.list(rest, OperandKind::Use);
                let results = ArgList {
                    start: i.args.start,
                    len: split,
                };
                scan.list(results, OperandKind::of_results(i));
            }
            _ => {}
        }
        for next in block.terminator.successors() {
            for &(reg, value) in &live_ins[next.index()] {
                let here = scan.value(reg);
                scan.live_ranges.join(value, here);
            }
        }
    }

    // The first live range of a register keeps its number. No operand names the
    // condition code register, so it is never renamed.
    let mut first_range = vec![u32::MAX; registers];
    let mut names = vec![Reg(u32::MAX); live_ranges.parents.len()];
    for value in 0..live_ranges.parents.len() as u32 {
        let root = live_ranges.root(value);
        let reg = live_ranges.registers[value as usize];
        let first = &mut first_range[reg.index()];
        if *first == u32::MAX {
            *first = root;
        }
        if names[root as usize].0 == u32::MAX {
            names[root as usize] = if *first == root {
                reg
            } else {
                let class = program.registers[reg.index()];
                program.registers.push(class);
                Optimization::LiveRanges.count();
                Reg(program.registers.len() as u32 - 1)
            };
        }
    }
    let mut name = |value: u32| names[live_ranges.root(value) as usize];
    for (at, value) in arguments {
        let new = name(value);
        match &mut program.args[at as usize] {
            Arg::Reg(reg)
            | Arg::Not(reg)
            | Arg::Select { reg, .. }
            | Arg::Address(Base::Reg(reg), _) => {
                *reg = new;
            }
            _ => {}
        }
    }
    for (number, at, value) in other_operands {
        let new = name(value);
        match blocks[number].steps.get_mut(at) {
            Some(Step::Instruction(i)) => {
                if let Some(guard) = &mut i.guard {
                    guard.reg = new;
                }
            }
            Some(Step::SystemCall { result, .. }) => *result = Some(new),
            None => match &mut blocks[number].terminator {
                Terminator::Branch { predicate, .. } => predicate.reg = new,
                Terminator::Table { index, .. } => *index = Arg::Reg(new),
                Terminator::Fault { address, .. } => *address = Some(new),
                _ => {}
            },
        }
    }
    program.blocks = blocks;
}

#[derive(Clone, Copy, PartialEq)]
enum OperandKind {
    Use,
    Def,
    /// Defined if a guard is true, otherwise unchanged, or computed from what it was: the live
    /// range continues.
    Mod,
}

impl OperandKind {
    fn of_results(instruction: &Instruction) -> OperandKind {
        if instruction.keeps_destination() {
            OperandKind::Mod
        } else {
            OperandKind::Def
        }
    }
}

struct BlockScan<'w, 'p, 'a> {
    program: &'p Program<'a>,
    live_ranges: &'w mut LiveRanges,
    current: &'w mut [u32],
    arguments: &'w mut Vec<(u32, u32)>,
}

impl BlockScan<'_, '_, '_> {
    /// The definition of a register that reaches this point.
    fn value(&mut self, reg: Reg) -> u32 {
        let current = self.current[reg.index()];
        if current != u32::MAX {
            return current;
        }
        let value = self.live_ranges.add(reg);
        self.current[reg.index()] = value;
        value
    }

    fn list(&mut self, list: ArgList, kind: OperandKind) {
        for at in list.start..list.start + list.len {
            match self.program.args[at as usize] {
                Arg::List(inner) => self.list(inner, kind),
                Arg::Reg(reg)
                | Arg::Not(reg)
                | Arg::Select { reg, .. }
                | Arg::Address(Base::Reg(reg), _) => {
                    let value = match kind {
                        OperandKind::Use => self.value(reg),
                        OperandKind::Def => {
                            let value = self.live_ranges.add(reg);
                            self.current[reg.index()] = value;
                            value
                        }
                        OperandKind::Mod => {
                            let before = self.value(reg);
                            let value = self.live_ranges.add(reg);
                            self.live_ranges.join(before, value);
                            self.current[reg.index()] = value;
                            value
                        }
                    };
                    self.arguments.push((at, value));
                }
                _ => {}
            }
        }
    }
}
