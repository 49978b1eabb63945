//! Liveness analysis. A suspended thread saves the registers that are live.

use super::{BlockId, Program, Reg, Terminator};
use analysis::control_flow::Lists;

/// A set of registers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RegisterSet(Vec<u64>);

impl RegisterSet {
    pub fn new(registers: usize) -> RegisterSet {
        RegisterSet(vec![0; registers.div_ceil(64)])
    }

    pub fn insert(&mut self, reg: Reg) {
        self.0[reg.index() / 64] |= 1 << (reg.0 % 64);
    }

    pub fn remove(&mut self, reg: Reg) {
        self.0[reg.index() / 64] &= !(1 << (reg.0 % 64));
    }

    pub fn contains(&self, reg: Reg) -> bool {
        self.0[reg.index() / 64] >> (reg.0 % 64) & 1 != 0
    }

    /// Adds all of `other`.
    pub fn add(&mut self, other: &RegisterSet) {
        for (a, b) in self.0.iter_mut().zip(&other.0) {
            *a |= b;
        }
    }
}

/// The registers that are live at the start of each block, in their order.
pub(crate) struct Liveness {
    live_in: Lists<Reg>,
}

impl Liveness {
    pub fn new(program: &Program<'_>) -> Liveness {
        Liveness::until_sync(program, |_| None)
    }

    /// Liveness that ends at sync points. `stored` returns the registers that the
    /// sync point at the end of a block stores: they count as uses there, and
    /// registers that are used only after it are not live before.
    pub fn until_sync<'s>(
        program: &Program<'_>,
        stored: impl Fn(BlockId) -> Option<&'s [Reg]>,
    ) -> Liveness {
        let registers = program.registers.len();
        // By register, the blocks that use what others have written to it, and those that write it.
        let operands = program.args.len();
        let (mut used, mut defined) = (Vec::with_capacity(operands), Vec::with_capacity(operands));
        // The last block that wrote the register, so far.
        let mut last = vec![u32::MAX; registers];
        let mut results = Vec::new();
        for (number, block) in (0..).zip(&program.blocks) {
            for step in &block.steps {
                // An instruction reads its operands before it writes its results.
                let mut use_here = |reg: Reg| {
                    if last[reg.index()] != number {
                        used.push((reg.0, number));
                    }
                };
                program.step_effects(step, &mut use_here, &mut |reg| results.push(reg));
                for reg in results.drain(..) {
                    if std::mem::replace(&mut last[reg.index()], number) != number {
                        defined.push((reg.0, number));
                    }
                }
            }
            let mut use_at_end = |reg: Reg| {
                if last[reg.index()] != number {
                    used.push((reg.0, number));
                }
            };
            match &block.terminator {
                Terminator::Branch { predicate, .. } => use_at_end(predicate.reg),
                Terminator::Table { index, .. } => program.registers_of(*index, &mut use_at_end),
                Terminator::Fault {
                    address: Some(reg), ..
                } => use_at_end(*reg),
                Terminator::Sync { instruction, .. } => {
                    match stored(BlockId(number)) {
                        Some(stored) => {
                            program.requested(instruction, &mut use_at_end);
                            stored.iter().copied().for_each(&mut use_at_end);
                        }
                        None => program.effects(instruction, &mut use_at_end, &mut |_| {}),
                    }
                    program.effects(instruction, &mut |_| {}, &mut |reg| {
                        if std::mem::replace(&mut last[reg.index()], number) != number {
                            defined.push((reg.0, number));
                        }
                    });
                }
                _ => {}
            }
        }
        let used = Lists::new(registers, &used);
        let defined = Lists::new(registers, &defined);
        let mut edges = Vec::with_capacity(program.blocks.len() * 2);
        for (from, block) in (0..).zip(&program.blocks) {
            let passes = stored(BlockId(from)).is_none();
            let next = block.terminator.successors().filter(|_| passes);
            edges.extend(next.map(|to| (to.0, from)));
        }
        let predecessors = Lists::new(program.blocks.len(), &edges);

        // From each use back to the definitions: the time is proportional to what is live.
        let mut live_in = Vec::with_capacity(registers);
        // By block, the last register that was found to be live at its start, and the last that it
        // was found to write.
        let mut lives = vec![u32::MAX; program.blocks.len()];
        let mut writes = vec![u32::MAX; program.blocks.len()];
        let mut open: Vec<u32> = Vec::new();
        for reg in 0..registers as u32 {
            let users = used.get(reg);
            if users.is_empty() {
                continue;
            }
            for &block in defined.get(reg) {
                writes[block as usize] = reg;
            }
            open.extend_from_slice(users);
            while let Some(block) = open.pop() {
                if std::mem::replace(&mut lives[block as usize], reg) == reg {
                    continue;
                }
                live_in.push((block, Reg(reg)));
                let before = predecessors.get(block).iter();
                open.extend(before.filter(|&&from| writes[from as usize] != reg));
            }
        }
        Liveness {
            live_in: Lists::new(program.blocks.len(), &live_in),
        }
    }

    /// The registers that are live at the start of a block, in their order.
    pub fn live_in(&self, block: BlockId) -> &[Reg] {
        self.live_in.get(block.0)
    }
}
