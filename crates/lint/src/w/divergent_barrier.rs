//! `bar.sync` where not all threads of the block come by.

use std::collections::HashSet;

use super::parted::{self, because, has_collective};
use crate::flow::callee;
use crate::flow::{Effect, FirstPass, Parting, ThreadSet, Variance};
use crate::{Check, Code, Findings, Flow, FunctionContext, Rule};
use ptx::ast::Instruction;
use ptx::isa::Convergence;
use ptx::names::Opcode;

pub static RULE: Rule = Rule {
    code: Code::new('W', 301),
    name: "divergent-barrier",
    summary: "A barrier of the block stands behind a branch that some of its threads take and \
              others do not.",
    why: "`bar.sync` waits until all threads of the block have come, unless it says how many do. \
          Those that took another way never come: the block hangs, or goes on without them and \
          reads shared memory that nobody has written yet. `bar` and `.aligned` want besides that \
          all threads of a warp execute it together.\n\n\
          A finding is proven: there are threads of one block that the branch surely sends the \
          other way, whatever the data, and they meet no such barrier there. What depends on data \
          is not reported, and `i < n` is `barrier-under-bound`. Threads that have ended are not \
          waited for: `early-exit-before-barrier` is the rule for those. The size of the block is \
          that of `.reqntid` or `.maxntid`; without them, the largest is taken, and the finding \
          names the size from which on it holds. (PTX ISA, \"bar, barrier\"; affine divergence: \
          Sampaio and others, \"Divergence Analysis\", TOPLAS 2013.)",
    instead: "Move the barrier out of the branch, and guard the work alone. Where only some warps \
              meet, say how many threads: `bar.sync 1, 64`.",
    bad: "\
.entry k(.param .u64 .ptr .global .align 4 out)
{
	.reg .pred p;
	.reg .b32 t, a;
	.reg .b64 to;
	.shared .align 4 .b32 first;
	ld.param.u64 to, [out];
	mov.u32 t, %tid.x;
	setp.ne.u32 p, t, 0;
	@p bra REST;
	st.shared.b32 [first], 7;
	bar.sync 0;
REST:
	ld.shared.b32 a, [first];
	mad.wide.u32 to, t, 4, to;
	st.global.b32 [to], a;
	ret;
}
",
    good: "\
.entry k(.param .u64 .ptr .global .align 4 out)
{
	.reg .pred p;
	.reg .b32 t, a;
	.reg .b64 to;
	.shared .align 4 .b32 first;
	ld.param.u64 to, [out];
	mov.u32 t, %tid.x;
	setp.ne.u32 p, t, 0;
	@p bra REST;
	st.shared.b32 [first], 7;
REST:
	bar.sync 0;
	ld.shared.b32 a, [first];
	mad.wide.u32 to, t, 4, to;
	st.global.b32 [to], a;
	ret;
}
",
    default: true,
    check: Check::Function(check),
};

/// Whether threads of the block wait there, or the cluster does.
pub(super) fn is_barrier(effect: &Effect) -> bool {
    match effect.meaning.convergence {
        Convergence::Block => !effect.meaning.arrives,
        Convergence::Cluster => true,
        Convergence::Alone | Convergence::Active | Convergence::Mask | Convergence::Warp => false,
    }
}

/// A barrier that waits for every thread of the block.
pub(super) fn waits_for_all(instruction: &Instruction, effect: &Effect) -> bool {
    // With a result, the predicate that it combines is an operand, too.
    let count = if effect.writes > 0 { 4 } else { 2 };
    is_barrier(effect) && instruction.operands.len < count
}

/// The number of the barrier, if it is one; that of a cluster has none.
fn number(function: &FunctionContext<'_, '_>, instruction: &Instruction) -> Option<i64> {
    let effect = function.effect_of(instruction)?;
    let place = u32::from(effect.writes);
    if effect.meaning.convergence == Convergence::Cluster || place >= instruction.operands.len {
        return None;
    }
    let place = (instruction.operands.start + place) as usize;
    function.linear(place)?.as_number()
}

fn check(function: &FunctionContext<'_, '_>, findings: &mut Findings) {
    if !has_collective(function, is_barrier) {
        return;
    }
    let (Some(flow), Some(pass)) = (function.flow(), function.first_pass()) else {
        return;
    };
    for (parting, barriers) in apart(function, flow, pass, false) {
        if let Some(instruction) = barriers.first() {
            let more = parted::others(barriers.len() - 1);
            let because = because(function, flow, parting.branch, &parting.threads);
            let message =
                format!("not all threads of the block come to this barrier{more}: {because}");
            report(function, instruction, message, findings);
        }
    }
    for (id, instruction) in function.instructions_with(|_, effect| is_barrier(effect)) {
        if flow.instructions.steps[id.index()].guarded
            && let Some([own, others]) = pass.parted(flow, id, Variance::Block)
            && misses(function, instruction, &own, &others, Variance::Block).contains(&true)
        {
            let because = because(function, flow, id, &[own, others]);
            let message = format!("not all threads of the block execute this barrier: {because}");
            report(function, instruction, message, findings);
        }
    }
}

/// The barriers of each branch that some threads come to and others do not: where the
/// branch surely parts them, or with `bound`, where a bound decides.
pub(super) fn apart<'p, 'm>(
    function: &FunctionContext<'m, '_>,
    flow: &Flow<'m, '_>,
    pass: &'p FirstPass,
    bound: bool,
) -> Vec<(&'p Parting, Vec<&'m Instruction>)> {
    let mut told = HashSet::new();
    let mut found = Vec::new();
    let partings = pass.partings.iter();
    for parting in partings.filter(|parting| parting.bound.is_some() == bound) {
        let [own, others] = parting.threads;
        // A barrier that only counts some threads may well be one of whole warps.
        let whole_warps = parting.bound == Some(Variance::Warp);
        let there = parting.others.iter();
        let there = there.filter_map(|id| flow.instructions.get(*id));
        let there: Vec<_> = there.filter(|other| waits(function, other)).collect();
        let mut apart = Vec::new();
        for id in parting.own.iter().copied() {
            let Some(instruction) = flow.instructions.get(id) else {
                continue;
            };
            let Some(arrival) = pass.arrival(flow.graph.block_of(id)) else {
                continue;
            };
            let own = arrival.threads.and(own);
            let [block, warp] = misses(function, instruction, &own, &others, parting.together);
            let warp = warp && !whole_warps;
            let met = || {
                there
                    .iter()
                    .any(|other| pairs(function, instruction, other))
            };
            // Threads of one warp that come to barriers at two places are apart even so.
            if (block || warp) && (parting.meets && !met() || warp && met()) && told.insert(id) {
                apart.push(instruction);
            }
        }
        // Both sides of a branch are one finding.
        let same = |(known, _): &&mut (&Parting, Vec<_>)| known.branch == parting.branch;
        match found.last_mut().filter(same) {
            _ if apart.is_empty() => {}
            Some((_, known)) => {
                known.append(&mut apart);
                known.sort_by_key(|barrier| barrier.span.start);
            }
            None => found.push((parting, apart)),
        }
    }
    found
}

/// Whether threads that come to one barrier and to `other` may meet: the number is the
/// same, or not known.
fn pairs(function: &FunctionContext<'_, '_>, barrier: &Instruction, other: &Instruction) -> bool {
    let number = |instruction| number(function, instruction);
    other.opcode == Opcode::Call
        || match (number(barrier), number(other)) {
            (Some(own), Some(other)) => own == other,
            _ => true,
        }
}

/// Whether a barrier that some threads come to wants others that do not come: all of the
/// block, or those of their warps.
fn misses(
    function: &FunctionContext<'_, '_>,
    instruction: &Instruction,
    own: &ThreadSet,
    others: &ThreadSet,
    together: Variance,
) -> [bool; 2] {
    let effect = function.effect_of(instruction);
    let Some(effect) = effect.filter(|effect| is_barrier(effect) && !own.is_empty()) else {
        return [false; 2];
    };
    let block = together == Variance::Block && waits_for_all(instruction, effect);
    let warp = together < Variance::Thread && effect.meaning.aligned;
    [
        block && !others.is_empty(),
        warp && own.shares_warp(others, u32::MAX),
    ]
}

/// Whether an instruction is a barrier, or a call of what may have one.
fn waits(function: &FunctionContext<'_, '_>, instruction: &Instruction) -> bool {
    if instruction.opcode == Opcode::Call {
        let callee = callee(function.operands(instruction));
        return callee.is_none_or(|name| function.context.may_have(name, is_barrier));
    }
    function.effect_of(instruction).is_some_and(is_barrier)
}

fn report(
    function: &FunctionContext<'_, '_>,
    instruction: &Instruction,
    message: String,
    findings: &mut Findings,
) {
    let effect = function.effect_of(instruction);
    let help = if effect.is_some_and(|effect| waits_for_all(instruction, effect)) {
        "move the barrier to where every thread comes, or give it the number of threads that do"
    } else {
        "all threads of a warp have to execute it together"
    };
    findings.add(instruction.opcode_span, message).help(help);
}
