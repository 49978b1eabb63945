//! Which threads of a block execute a basic block, by comparisons with the index of the thread.

use std::collections::HashMap;

use super::thread_sums::ThreadSums;
use crate::program::ir::{Arg, BlockId, Guard, Instruction, Program, Reg, Step, Terminator};
use analysis::dependence::{Sources, WARP};
use ptx::names::{Modifier as M, Opcode as O, Type};

/// The most threads of a block.
pub(in crate::program) const MAX_THREADS: usize = 1024;

/// How deep a predicate is a combination of others.
const MAX_DEPTH: usize = 8;

/// A set of threads, by their linear index in the block. In a block of unknown size the index is
/// `%tid.x`, and the set has the same threads of each row.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::program) struct Threads([u64; MAX_THREADS / 64]);

impl Threads {
    const ALL: Threads = Threads([u64::MAX; MAX_THREADS / 64]);

    fn those(holds: impl Fn(u32) -> bool) -> Threads {
        let mut threads = Threads([0; MAX_THREADS / 64]);
        for thread in (0..MAX_THREADS).filter(|thread| holds(*thread as u32)) {
            threads.0[thread / 64] |= 1 << (thread % 64);
        }
        threads
    }

    fn combine(self, other: Threads, of: impl Fn(u64, u64) -> u64) -> Threads {
        Threads(std::array::from_fn(|n| of(self.0[n], other.0[n])))
    }

    fn and(self, other: Threads) -> Threads {
        self.combine(other, |a, b| a & b)
    }

    fn not(self) -> Threads {
        Threads(self.0.map(|word| !word))
    }

    fn or(self, other: Threads) -> Threads {
        self.combine(other, |a, b| a | b)
    }

    pub fn has(self, thread: u32) -> bool {
        self.0[thread as usize / 64] >> (thread % 64) & 1 != 0
    }

    /// The lanes of warps at which one of them is.
    pub fn lanes(self) -> u32 {
        let words = self.0.iter();
        words.fold(0, |lanes, word| {
            lanes | *word as u32 | (word >> WARP) as u32
        })
    }
}

/// The threads of a basic block.
#[derive(Clone, Copy)]
pub(in crate::program) struct LaneSet {
    /// Those that may be there.
    pub threads: Threads,
    /// Where only one of a warp is there, which may be any of them: the block at which it is alone.
    pub alone: Option<BlockId>,
}

/// The index of a thread in a block of this size, or in one of unknown size.
pub(in crate::program) fn index(block: Option<[u32; 3]>, thread: u32) -> [u32; 3] {
    match block {
        Some([x, y, _]) if x > 0 && y > 0 => [thread % x, thread / x % y, thread / x / y],
        _ => [thread, 0, 0],
    }
}

/// By block.
pub(in crate::program) fn lane_sets<'p, 'a>(
    program: &'p Program<'a>,
    sums: &mut ThreadSums<'p, 'a>,
) -> Vec<LaneSet> {
    let all = LaneSet {
        threads: Threads::ALL,
        alone: None,
    };
    let mut sets = vec![all; program.blocks.len()];
    let mut search = Search {
        definitions: definitions(program),
        program,
        sums,
        compared: HashMap::new(),
    };
    let mut heads = Vec::new();
    for block in &program.blocks {
        heads.extend(search.branch(&block.terminator).into_iter().flatten());
    }
    heads.retain(|(_, set)| set.threads != Threads::ALL || set.alone.is_some());
    if heads.is_empty() {
        return sets;
    }
    let graph = program.graph();
    heads.retain(|(head, _)| graph.is_reached(*head) && graph.predecessors(*head).count() == 1);
    for &at in &graph.order {
        let above = heads.iter().filter(|(head, _)| graph.dominates(*head, at));
        for (_, set) in above {
            let here = &mut sets[at.index()];
            here.threads = here.threads.and(set.threads);
            here.alone = here.alone.or(set.alone);
        }
    }
    sets
}

/// By register: the instruction that writes it, if it is the only one.
fn definitions(program: &Program<'_>) -> Vec<Option<Instruction>> {
    let mut count = vec![0_u32; program.registers.len()];
    let mut found = vec![None; program.registers.len()];
    for block in &program.blocks {
        for step in &block.steps {
            program.step_effects(step, &mut |_| {}, &mut |reg| {
                count[reg.index()] += 1;
                found[reg.index()] = match step {
                    Step::Instruction(i) if i.guard.is_none() => Some(*i),
                    _ => None,
                };
            });
        }
        if let Terminator::Sync { instruction, .. } = &block.terminator {
            program.effects(instruction, &mut |_| {}, &mut |reg| {
                count[reg.index()] += 1;
            });
        }
    }
    let only = found.into_iter().zip(count);
    only.map(|(found, count)| found.filter(|_| count == 1))
        .collect()
}

struct Search<'s, 'p, 'a> {
    program: &'p Program<'a>,
    sums: &'s mut ThreadSums<'p, 'a>,
    definitions: Vec<Option<Instruction>>,
    /// By register: the threads in which a comparison holds, `None` if they are unknown.
    compared: HashMap<Reg, Option<Threads>>,
}

impl Search<'_, '_, '_> {
    /// Where a branch goes to, and which threads go there.
    fn branch(&mut self, terminator: &Terminator) -> Option<[(BlockId, LaneSet); 2]> {
        let &Terminator::Branch {
            predicate,
            then,
            otherwise,
        } = terminator
        else {
            return None;
        };
        let equal = self.equal(predicate);
        let mut way = |to: BlockId, value: bool| {
            let set = LaneSet {
                threads: self.may_be(predicate.reg, value != predicate.negated, MAX_DEPTH),
                alone: (equal == Some(value)).then_some(to),
            };
            (to, set)
        };
        Some([way(then, true), way(otherwise, false)])
    }

    /// The threads in which a predicate may have a value.
    fn may_be(&mut self, predicate: Reg, value: bool, depth: usize) -> Threads {
        let Some(i) = self.definitions[predicate.index()] else {
            return Threads::ALL;
        };
        if depth == 0 {
            return Threads::ALL;
        }
        match (i.opcode, self.program.list(i.args)) {
            (O::Setp, &[_, a, b]) => {
                let known = self.compared.get(&predicate).copied();
                let holds = known.unwrap_or_else(|| self.compare(&i, [a, b]));
                self.compared.insert(predicate, holds);
                match (holds, value) {
                    (None, _) => Threads::ALL,
                    (Some(holds), true) => holds,
                    (Some(holds), false) => holds.not(),
                }
            }
            (O::And | O::Or, &[_, a, b]) => {
                let [a, b] = [a, b].map(|arg| self.may_be_operand(arg, value, depth - 1));
                if (i.opcode == O::And) == value {
                    a.and(b)
                } else {
                    a.or(b)
                }
            }
            (O::Not, &[_, a]) => self.may_be_operand(a, !value, depth - 1),
            (O::Mov, &[_, a]) => self.may_be_operand(a, value, depth - 1),
            _ => Threads::ALL,
        }
    }

    fn may_be_operand(&mut self, arg: Arg, value: bool, depth: usize) -> Threads {
        match arg {
            Arg::Reg(reg) => self.may_be(reg, value, depth),
            Arg::Not(reg) => self.may_be(reg, !value, depth),
            _ => Threads::ALL,
        }
    }

    /// The threads in which a comparison holds, if they are known.
    fn compare(&mut self, i: &Instruction, operands: [Arg; 2]) -> Option<Threads> {
        let block = self.program.block;
        let mut linear = |arg: Arg| {
            let sum = self.sums.operand(arg)?;
            let is_number =
                sum.terms.is_empty() && sum.other == Sources::NONE && sum.root.is_none();
            let has_rows = (sum.thread.row, sum.thread.plane) != (0, 0);
            (is_number && (block.is_some() || !has_rows)).then_some(sum.thread)
        };
        let [Some(a), Some(b)] = operands.map(&mut linear) else {
            return None;
        };
        let compare = comparison(i)?;
        Some(Threads::those(|thread| {
            let index = index(block, thread);
            compare(a.at(index), b.at(index))
        }))
    }

    /// The result of a comparison that one lane of a warp has at most: that it is equal to an
    /// unknown, where the lanes have different values.
    fn equal(&mut self, predicate: Guard) -> Option<bool> {
        let i = self.definitions[predicate.reg.index()].filter(|i| i.opcode == O::Setp)?;
        let &[_, a, b] = self.program.list(i.args) else {
            return None;
        };
        let apart = self.sums.operand(a)?.plus(&self.sums.operand(b)?, -1);
        if apart.other != Sources::NONE {
            return None;
        }
        let block = self.program.block;
        let differ_in = |first: u32| {
            let threads = first..first + WARP;
            let values = threads.map(|thread| apart.thread.at(index(block, thread)));
            let mut values: Vec<i64> = values.collect();
            values.sort_unstable();
            values.dedup();
            values.len() == WARP as usize
        };
        let warps = match block {
            Some(_) => MAX_THREADS as u32 / WARP,
            None => 1,
        };
        let differ = (0..warps).all(|warp| differ_in(warp * WARP));
        let is_equal = match () {
            () if i.modifiers.has(M::Eq) => true,
            () if i.modifiers.has(M::Ne) => false,
            () => return None,
        };
        differ.then_some(is_equal != predicate.negated)
    }
}

/// What a comparison of integers computes.
fn comparison(i: &Instruction) -> Option<impl Fn(i64, i64) -> bool> {
    let ty = i.modifiers.types().next()?;
    let read: fn(i64) -> i128 = match ty {
        Type::U16 => |v| i128::from(v as u16),
        Type::S16 => |v| i128::from(v as i16),
        Type::U32 | Type::B32 => |v| i128::from(v as u32),
        Type::S32 => |v| i128::from(v as i32),
        Type::U64 | Type::B64 => |v| i128::from(v.cast_unsigned()),
        Type::S64 => i128::from,
        _ => return None,
    };
    let has = |words: &[M]| i.modifiers.first_of(words).is_some();
    let compare: fn(i128, i128) -> bool = match () {
        () if has(&[M::Eq]) => |a, b| a == b,
        () if has(&[M::Ne]) => |a, b| a != b,
        () if has(&[M::Lt, M::Lo]) => |a, b| a < b,
        () if has(&[M::Le, M::Ls]) => |a, b| a <= b,
        () if has(&[M::Gt, M::Hi]) => |a, b| a > b,
        () if has(&[M::Ge, M::Hs]) => |a, b| a >= b,
        () => return None,
    };
    Some(move |a, b| compare(read(a), read(b)))
}
