//! Registers that are reused for unrelated values become registers of their own.
//!
//! Hand-written PTX calls a pointer and the address made from it by one name.
//! Apart, each has one meaning: one shape over the lanes, one class.

use super::{Arg, ArgList, Base, BlockId, Liveness, Program, Reg, Step, Terminator};

/// Values that reach a common use are one web.
struct Webs {
    parents: Vec<u32>,
    /// The register that each value was written to.
    registers: Vec<Reg>,
}

impl Webs {
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

pub(super) fn split(program: &mut Program<'_>) {
    let liveness = Liveness::new(program);
    let registers = program.registers.len();
    let mut webs = Webs {
        parents: Vec::new(),
        registers: Vec::new(),
    };
    // The value of each live register where each block begins.
    let entries: Vec<Vec<(Reg, u32)>> = (0..program.blocks.len())
        .map(|i| {
            let live = liveness.at(BlockId(i as u32));
            live.iter().map(|reg| (reg, webs.add(reg))).collect()
        })
        .collect();

    // Which argument names which value: rewritten once all webs are known.
    let mut arguments: Vec<(u32, u32)> = Vec::new();
    let mut current = vec![u32::MAX; registers];
    let mut blocks = std::mem::take(&mut program.blocks);
    let mut guards: Vec<(usize, usize, u32)> = Vec::new();
    for (number, block) in blocks.iter().enumerate() {
        for &(reg, value) in &entries[number] {
            current[reg.index()] = value;
        }
        let mut walk = Walk {
            program,
            webs: &mut webs,
            current: &mut current,
            arguments: &mut arguments,
        };
        for (at, step) in block.steps.iter().enumerate() {
            match step {
                Step::Instruction(i) => {
                    if let Some(guard) = i.guard {
                        let value = walk.value(guard.reg);
                        guards.push((number, at, value));
                    }
                    let split = u32::from(program.has_destination(i)).min(i.args.len);
                    let rest = ArgList {
                        start: i.args.start + split,
                        len: i.args.len - split,
                    };
                    walk.list(rest, Access::Use);
                    let access = if i.guard.is_some() {
                        Access::Change
                    } else {
                        Access::Define
                    };
                    walk.list(
                        ArgList {
                            start: i.args.start,
                            len: split,
                        },
                        access,
                    );
                }
                Step::SystemCall { args, result, .. } => {
                    walk.list(*args, Access::Use);
                    if let Some(reg) = result {
                        // Made for this call: already a register of its own.
                        let value = walk.webs.add(*reg);
                        walk.current[reg.index()] = value;
                        guards.push((number, at, value));
                    }
                }
            }
        }
        match &block.terminator {
            Terminator::Branch { predicate, .. } => {
                let value = walk.value(predicate.reg);
                guards.push((number, usize::MAX, value));
            }
            Terminator::Table {
                index: Arg::Reg(reg),
                ..
            } => {
                let value = walk.value(*reg);
                guards.push((number, usize::MAX, value));
            }
            Terminator::Sync { instruction: i, .. } => {
                let split = u32::from(program.has_destination(i)).min(i.args.len);
                let rest = ArgList {
                    start: i.args.start + split,
                    len: i.args.len - split,
                };
                walk.list(rest, Access::Use);
                walk.list(
                    ArgList {
                        start: i.args.start,
                        len: split,
                    },
                    Access::Define,
                );
            }
            _ => {}
        }
        for next in block.terminator.successors() {
            for &(reg, value) in &entries[next.index()] {
                let here = walk.value(reg);
                walk.webs.join(value, here);
            }
        }
    }

    // The condition code is one register: instructions name it by none.
    let mut first_web = vec![u32::MAX; registers];
    let mut names = vec![Reg(u32::MAX); webs.parents.len()];
    for value in 0..webs.parents.len() as u32 {
        let root = webs.root(value);
        let reg = webs.registers[value as usize];
        let first = &mut first_web[reg.index()];
        if *first == u32::MAX {
            *first = root;
        }
        if names[root as usize].0 == u32::MAX {
            names[root as usize] = if *first == root {
                reg
            } else {
                let class = program.registers[reg.index()];
                program.registers.push(class);
                Reg(program.registers.len() as u32 - 1)
            };
        }
    }
    let mut name = |value: u32| names[webs.root(value) as usize];
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
    for (number, at, value) in guards {
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
                _ => {}
            },
        }
    }
    program.blocks = blocks;
}

#[derive(Clone, Copy, PartialEq)]
enum Access {
    Use,
    Define,
    /// Defined where a guard holds, else kept: one web with the value before.
    Change,
}

struct Walk<'w, 'p, 'a> {
    program: &'p Program<'a>,
    webs: &'w mut Webs,
    current: &'w mut [u32],
    arguments: &'w mut Vec<(u32, u32)>,
}

impl Walk<'_, '_, '_> {
    /// The value that a register holds here.
    fn value(&mut self, reg: Reg) -> u32 {
        let current = self.current[reg.index()];
        if current != u32::MAX {
            return current;
        }
        let value = self.webs.add(reg);
        self.current[reg.index()] = value;
        value
    }

    fn list(&mut self, list: ArgList, access: Access) {
        for at in list.start..list.start + list.len {
            match self.program.args[at as usize] {
                Arg::List(inner) => self.list(inner, access),
                Arg::Reg(reg)
                | Arg::Not(reg)
                | Arg::Select { reg, .. }
                | Arg::Address(Base::Reg(reg), _) => {
                    let value = match access {
                        Access::Use => self.value(reg),
                        Access::Define => {
                            let value = self.webs.add(reg);
                            self.current[reg.index()] = value;
                            value
                        }
                        Access::Change => {
                            let before = self.value(reg);
                            let value = self.webs.add(reg);
                            self.webs.join(before, value);
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
