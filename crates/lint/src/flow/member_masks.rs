//! Operations of a warp whose member mask is wrong: a lane executes one and is not in its
//! mask, or lanes that wait for each other give different masks.

use super::context::{Flow, FunctionContext};
use super::divergence::Variance;
use super::effect::Effect;
use super::evaluate::Evaluator;
use super::first_pass::FirstPass;
use super::instructions::{InstructionId, Step};
use super::lanes::{Lanes, Shape, WARP};
use super::threads::ThreadSet;
use super::values::Definition;
use analysis::control_flow::Loops;
use ptx::isa::Convergence;
use ptx::names::{Modifier, Opcode};

/// What is wrong with the mask of an operation.
#[derive(Clone, Copy, Debug)]
pub struct MaskMistake {
    /// The operation.
    pub at: InstructionId,
    /// What is wrong.
    pub kind: MaskMistakeKind,
}

/// The ways in which a mask is wrong.
#[derive(Clone, Copy, Debug)]
pub enum MaskMistakeKind {
    /// A thread executes the operation, and is not in the mask that it gives.
    LeftOut {
        /// The thread.
        thread: u32,
        /// Its mask.
        mask: u32,
    },
    /// Two threads of a warp give different masks, and that of the first names the second.
    Different {
        /// The threads.
        threads: [u32; 2],
        /// Their masks.
        masks: [u32; 2],
    },
    /// The mask is the result of this ballot, and lanes execute the operation of which the
    /// predicate does not hold.
    Ballot(InstructionId),
}

/// So many operations of a function are looked at.
const OPERATIONS: usize = 64;

/// So much is worked out for each instruction of a function, and for small ones.
const STEPS_FOR_EACH: u64 = 20;
const STEPS: u64 = 200_000;

/// At most one for each operation.
pub(crate) fn mask_mistakes(function: &FunctionContext<'_, '_>) -> Vec<MaskMistake> {
    search(function).unwrap_or_default()
}

fn search(function: &FunctionContext<'_, '_>) -> Option<Vec<MaskMistake>> {
    let is_masked = |effect: &Effect| effect.meaning.convergence == Convergence::Mask;
    if !function.has_effect(is_masked) {
        return None;
    }
    let flow = function.flow()?;
    let mut masked = Vec::new();
    for (id, instruction) in function.instructions_with(|_, effect| is_masked(effect)) {
        let step = &flow.instructions.steps[id.index()];
        if !flow.graph.is_reached(flow.graph.block_of(id)) {
            continue;
        }
        let list = instruction.operands;
        let mask = (list.start + list.len.checked_sub(1)?) as usize;
        let number = function.linear(mask).and_then(|mask| mask.as_number());
        // Nearly all name the whole warp.
        if number.is_none_or(|number| number as u32 != u32::MAX) {
            masked.push((id, step, mask));
        }
    }
    if masked.is_empty() {
        return None;
    }
    let pass = function.first_pass()?;
    let mut masks = Masks {
        function,
        flow,
        pass,
        evaluator: evaluator(function, flow, function.loops()?, pass),
    };
    let found = masked.into_iter().take(OPERATIONS);
    let found = found.filter_map(|(id, step, mask)| {
        let kind = masks.mistake(id, step, mask)?;
        Some(MaskMistake { at: id, kind })
    });
    Some(found.collect())
}

fn evaluator<'c, 'm, 'a>(
    function: &'c FunctionContext<'m, 'a>,
    flow: &'c Flow<'m, 'a>,
    loops: &'c Loops,
    pass: &FirstPass,
) -> Evaluator<'c, 'm, 'a> {
    let budget = flow.instructions.steps.len() as u64 * STEPS_FOR_EACH + STEPS;
    Evaluator::new(function, flow, loops, Shape(pass.block.size), budget)
}

struct Masks<'c, 'm, 'a> {
    function: &'c FunctionContext<'m, 'a>,
    flow: &'c Flow<'m, 'a>,
    pass: &'c FirstPass,
    evaluator: Evaluator<'c, 'm, 'a>,
}

impl Masks<'_, '_, '_> {
    fn mistake(&mut self, id: InstructionId, step: &Step, mask: usize) -> Option<MaskMistakeKind> {
        let block = self.flow.graph.block_of(id);
        let place = self.evaluator.place(block, Default::default());
        // Who comes takes longer to find out, and few masks may be wrong at all.
        match self.evaluator.operand(mask, place).sum() {
            Some(sum) if sum.is_exact() => {
                self.of_numbers(&ThreadSet::all(&self.pass.block), &sum.lanes)?;
                let threads = self.comes(id, step)?;
                self.of_numbers(&threads, &sum.lanes)
            }
            _ => {
                let found = self.of_ballot(id, step, mask)?;
                self.comes(id, step).map(|_| found)
            }
        }
    }

    /// The threads that execute an operation, if any of their warp do; `None` where that is
    /// not known.
    fn comes(&self, id: InstructionId, step: &Step) -> Option<ThreadSet> {
        let (flow, pass, divergence) = (self.flow, self.pass, self.function.divergence()?);
        let block = flow.graph.block_of(id);
        let (threads, together) = match pass.arrival(block) {
            Some(arrival) => (arrival.threads, arrival.together),
            None => (ThreadSet::all(&pass.block), divergence.control(block)),
        };
        if together > Variance::Warp {
            return None;
        }
        let guard = flow.values.guard(&flow.instructions, step);
        match guard.filter(|guard| divergence.of(*guard) > Variance::Warp) {
            None => Some(threads),
            Some(_) => {
                let truth = pass.guard(flow, id)?;
                (truth.hidden[0] <= Variance::Warp).then(|| threads.and(truth.may[0]))
            }
        }
    }

    fn of_numbers(&self, threads: &ThreadSet, masks: &Lanes) -> Option<MaskMistakeKind> {
        let count = self.pass.block.count();
        let mask = |thread: u32| masks.at(thread as usize) as u32;
        let comes = |thread: u32| threads.contains(thread as usize);
        let mut all = (0..count).filter(|thread| comes(*thread));
        let required = self.pass.block.required;
        let left_out = all.find(|thread| {
            let behind = mask(*thread).checked_shr(thread % WARP).unwrap_or(0);
            // A block may be as small as the first lanes that a mask names.
            behind & 1 == 0 && (required || behind != 0)
        });
        if let Some(thread) = left_out {
            return Some(MaskMistakeKind::LeftOut {
                thread,
                mask: mask(thread),
            });
        }
        // A warp has few masks where they are right.
        let mut pairs = (0..count).flat_map(|thread| {
            let warp = thread - thread % WARP;
            let other = warp + mask(thread).trailing_zeros();
            let last = warp + (WARP - 1 - mask(thread).leading_zeros().min(WARP - 1));
            [(thread, other), (thread, last)]
        });
        let (a, b) = pairs.find(|(thread, other)| {
            *other < count && comes(*thread) && comes(*other) && mask(*thread) != mask(*other)
        })?;
        Some(MaskMistakeKind::Different {
            threads: [a, b],
            masks: [mask(a), mask(b)],
        })
    }

    /// Where all lanes that ballot execute the operation too, those that voted against are
    /// not in the mask.
    fn of_ballot(&self, id: InstructionId, step: &Step, mask: usize) -> Option<MaskMistakeKind> {
        let flow = self.flow;
        let value = flow.values.of_operand(mask);
        let Some(Definition::Written(ballot)) = flow.values.definition(value) else {
            return None;
        };
        let vote = flow.instructions.get(ballot)?;
        let is_ballot = vote.opcode == Opcode::Vote
            && self.function.mnemonic(vote).modifiers.has(Modifier::Ballot);
        let together = flow.graph.block_of(ballot) == flow.graph.block_of(id);
        let guarded = step.guarded || flow.instructions.steps[ballot.index()].guarded;
        if !is_ballot || !together || guarded {
            return None;
        }
        let predicate = flow.values.of_operand(vote.operands.start as usize + 1);
        let differs = flow.values.definition(predicate).is_some()
            && self.function.divergence()?.of(predicate) == Variance::Thread;
        differs.then_some(MaskMistakeKind::Ballot(ballot))
    }
}
