//! What several values come to: the phi of a loop by its turn, and what meets behind a
//! branch by the side that each thread takes.

use super::evaluate::{Evaluator, Known, Place, Symbol};
use super::graph::BlockId;
use super::lanes::Sum;
use super::values::ValueId;
use ptx::names::Opcode;

/// A branch with two ways.
#[derive(Clone, Copy, Debug)]
pub(super) struct Branch {
    pub predicate: ValueId,
    /// It is taken where the predicate does not hold.
    pub negated: bool,
    pub taken: BlockId,
    pub passed: BlockId,
}

impl Evaluator<'_, '_, '_> {
    pub(super) fn phi(&mut self, value: ValueId, block: BlockId, place: Place) -> Known {
        let (flow, loops) = (self.flow, self.loops);
        let parts = flow.values.phi_operands(&flow.graph, value);
        let before: Vec<(BlockId, ValueId)> = flow
            .graph
            .predecessors(block)
            .zip(parts.iter().copied())
            .collect();
        let Some(head) = loops.headed_by(block) else {
            return self.met(value, block, &before, place);
        };
        let depth = loops.get(head).depth;
        let latches = &loops.get(head).latches;
        match place.turns.get(depth) {
            0 => {
                let outer = Place {
                    within: loops.get(head).parent,
                    turns: place.turns.outer(depth - 1),
                };
                let entries = before.iter().filter(|(from, _)| !latches.contains(from));
                self.agreed(entries.map(|(_, part)| *part), outer)
            }
            turn => {
                let last = Place {
                    turns: place.turns.with(depth, turn - 1),
                    ..place
                };
                let rounds = before.iter().filter(|(from, _)| latches.contains(from));
                self.agreed(rounds.map(|(_, part)| *part), last)
            }
        }
    }

    /// The value that all of these have.
    fn agreed(&mut self, values: impl Iterator<Item = ValueId>, at: Place) -> Known {
        let mut agreed: Option<Known> = None;
        for value in values {
            let known = self.value(value, at);
            match &agreed {
                None => agreed = Some(known),
                Some(Known::Sum(sum)) if known == Known::Sum(sum.clone()) => {}
                Some(_) => return Known::Unknown,
            }
        }
        agreed.unwrap_or(Known::Unknown)
    }

    /// A phi behind a branch: each thread has the value of the side that it took.
    fn met(
        &mut self,
        value: ValueId,
        block: BlockId,
        before: &[(BlockId, ValueId)],
        place: Place,
    ) -> Known {
        let graph = &self.flow.graph;
        let fork = graph.dominator(block);
        let Some(branch) = self.branch(fork) else {
            return self.agreed(before.iter().map(|(_, part)| *part), place);
        };
        let on = |side: BlockId, from: BlockId| {
            if from == fork {
                side == block
            } else {
                side != block
                    && graph.dominates(side, from)
                    && graph.predecessors(side).count() == 1
            }
        };
        let [mut taken, mut passed] = [Vec::new(), Vec::new()];
        for (from, part) in before {
            match (on(branch.taken, *from), on(branch.passed, *from)) {
                (true, false) => taken.push(*part),
                (false, true) => passed.push(*part),
                _ => return self.agreed(before.iter().map(|(_, part)| *part), place),
            }
        }
        let at = self.place(fork, place.turns);
        let predicate = self.value(branch.predicate, at);
        let taken = self.agreed(taken.into_iter(), place);
        let passed = self.agreed(passed.into_iter(), place);
        self.select(&predicate, branch.negated, taken, passed, value, place)
    }

    /// `yes` in the threads where the predicate holds, or does not if `negated`.
    pub(super) fn select(
        &mut self,
        predicate: &Known,
        negated: bool,
        yes: Known,
        no: Known,
        value: ValueId,
        place: Place,
    ) -> Known {
        let (yes, no) = if negated { (no, yes) } else { (yes, no) };
        let choice = match predicate {
            Known::Sum(sum) if sum.is_exact() => &sum.lanes,
            _ if yes == no && matches!(yes, Known::Sum(_)) => return yes,
            Known::Sum(sum) if sum.is_uniform() => {
                let uniform = |known: &Known| matches!(known, Known::Sum(sum) if sum.is_uniform());
                return if uniform(&yes) && uniform(&no) {
                    self.unknown(Symbol::Value(value, place.turns))
                } else {
                    Known::Unknown
                };
            }
            _ => return Known::Unknown,
        };
        match (choice.same(), yes, no) {
            (Some(0), _, no) => no,
            (Some(_), yes, _) => yes,
            (None, Known::Sum(yes), Known::Sum(no)) if yes.symbols == no.symbols => {
                if yes.lanes == no.lanes {
                    return Known::Sum(yes);
                }
                let threads = self.shape.threads() as usize;
                Known::Sum(Sum {
                    symbols: yes.symbols,
                    lanes: choice.choose(&yes.lanes, &no.lanes, threads),
                })
            }
            (None, Known::Data, _) | (None, _, Known::Data) => Known::Data,
            (None, Known::Varies, _) | (None, _, Known::Varies) => Known::Varies,
            _ => Known::Unknown,
        }
    }

    /// The branch that a block ends with, if it has two ways.
    pub(super) fn branch(&self, block: BlockId) -> Option<Branch> {
        let flow = self.flow;
        let id = flow.graph.blocks[block.index()].steps().next_back()?;
        let step = &flow.instructions.steps[id.index()];
        if !step.guarded || flow.instructions.get(id)?.opcode != Opcode::Bra {
            return None;
        }
        let passed = BlockId(block.0 + 1);
        let mut others = flow.graph.successors(block).filter(|to| *to != passed);
        Some(Branch {
            predicate: flow.values.guard(&flow.instructions, step)?,
            negated: step.negated,
            taken: others.next()?,
            passed,
        })
    }
}
