//! Liveness analysis. A suspended thread saves the registers that are live.

use super::ir::{BlockId, Program, Reg, Terminator};

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

    pub fn iter(&self) -> impl Iterator<Item = Reg> + '_ {
        self.0.iter().enumerate().flat_map(|(i, &word)| {
            let mut word = word;
            std::iter::from_fn(move || {
                if word == 0 {
                    return None;
                }
                let bit = word.trailing_zeros();
                word &= word - 1;
                Some(Reg(i as u32 * 64 + bit))
            })
        })
    }

    /// Adds all of `other`.
    pub fn add(&mut self, other: &RegisterSet) {
        for (a, b) in self.0.iter_mut().zip(&other.0) {
            *a |= b;
        }
    }
}

pub(crate) struct Liveness {
    live_in: Vec<RegisterSet>,
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
        let mut used = Vec::with_capacity(program.blocks.len());
        let mut defined = Vec::with_capacity(program.blocks.len());
        for (number, block) in program.blocks.iter().enumerate() {
            let mut block_uses = RegisterSet::new(registers);
            let mut block_defs = RegisterSet::new(registers);
            for step in &block.steps {
                // An instruction reads its operands before it writes its results.
                let mut results = Vec::new();
                program.step_effects(
                    step,
                    &mut |reg| {
                        if !block_defs.contains(reg) {
                            block_uses.insert(reg);
                        }
                    },
                    &mut |reg| results.push(reg),
                );
                results.into_iter().for_each(|reg| block_defs.insert(reg));
            }
            let mut use_at_end = |reg: Reg| {
                if !block_defs.contains(reg) {
                    block_uses.insert(reg);
                }
            };
            match &block.terminator {
                Terminator::Branch { predicate, .. } => use_at_end(predicate.reg),
                Terminator::Table { index, .. } => program.registers_of(*index, &mut use_at_end),
                Terminator::Fault {
                    address: Some(reg), ..
                } => use_at_end(*reg),
                Terminator::Sync { instruction, .. } => {
                    let mut results = Vec::new();
                    match stored(BlockId(number as u32)) {
                        Some(stored) => {
                            program.requested(instruction, &mut use_at_end);
                            stored.iter().copied().for_each(&mut use_at_end);
                        }
                        None => program.effects(instruction, &mut use_at_end, &mut |_| {}),
                    }
                    program.effects(instruction, &mut |_| {}, &mut |reg| results.push(reg));
                    results.into_iter().for_each(|reg| block_defs.insert(reg));
                }
                _ => {}
            }
            used.push(block_uses);
            defined.push(block_defs);
        }

        let mut live_in = used;
        let mut changed = true;
        while changed {
            changed = false;
            for i in (0..program.blocks.len()).rev() {
                if stored(BlockId(i as u32)).is_some() {
                    continue;
                }
                let mut live = RegisterSet::new(registers);
                for to in program.blocks[i].terminator.successors() {
                    live.add(&live_in[to.index()]);
                }
                for (word, (live, defined)) in live_in[i]
                    .0
                    .iter_mut()
                    .zip(live.0.iter().zip(&defined[i].0))
                {
                    let new = *word | (live & !defined);
                    changed |= new != *word;
                    *word = new;
                }
            }
        }
        Liveness { live_in }
    }

    /// The registers that are live at the start of a block.
    pub fn live_in(&self, block: BlockId) -> &RegisterSet {
        &self.live_in[block.index()]
    }
}
