//! `shfl.sync` with a full mask where only some lanes come by.

use std::collections::HashSet;

use super::parted::{self, because, has_collective};
use crate::flow::{Effect, FirstPass, Variance};
use crate::{Check, Code, Findings, Flow, FunctionContext, Rule};
use ptx::ast::Instruction;
use ptx::isa::Convergence;
use ptx::names::Opcode;

pub static RULE: Rule = Rule {
    code: Code::new('W', 302),
    name: "divergent-warp-operation",
    summary: "An operation of the whole warp stands behind a branch that only some of its lanes \
              take.",
    why: "`shfl.sync`, `vote.sync`, `match.sync`, `redux.sync` and `bar.warp.sync` wait for the \
          lanes of their mask, and `.aligned` operations such as `mma` for the warp. A lane that \
          took another way does not come: the result is undefined, or the warp hangs. Lanes that \
          have ended are not waited for.\n\n\
          A finding is proven: there are threads of one warp that the branch surely sends the \
          other way, whatever the data. What depends on data, or on a parameter, is not reported; \
          nor is a mask that is not a number, as that of `activemask`. The size of the block is \
          that of `.reqntid` or `.maxntid`; without them, the largest is taken, of whole rows of \
          a warp. (PTX ISA, \"shfl.sync\", \"bar.warp.sync\"; Sampaio and others, \"Divergence \
          Analysis\", TOPLAS 2013.)",
    instead: "Execute the operation before the branch, or compute the mask of those that come \
              with `vote.sync.ballot` while all are together.",
    bad: "\
.entry k(.param .u64 dst)
{
	.reg .pred p;
	.reg .b32 t;
	.reg .b64 out;
	ld.param.u64 out, [dst];
	cvta.to.global.u64 out, out;
	mov.u32 t, %tid.x;
	mad.wide.u32 out, t, 4, out;
	setp.gt.u32 p, t, 15;
	@p bra REST;
	shfl.sync.bfly.b32 t, t, 1, 31, 0xffffffff;
REST:
	st.global.b32 [out], t;
	ret;
}
",
    good: "\
.entry k(.param .u64 dst)
{
	.reg .pred p;
	.reg .b32 t, a;
	.reg .b64 out;
	ld.param.u64 out, [dst];
	cvta.to.global.u64 out, out;
	mov.u32 t, %tid.x;
	mad.wide.u32 out, t, 4, out;
	setp.gt.u32 p, t, 15;
	shfl.sync.bfly.b32 a, t, 1, 31, 0xffffffff;
	@p bra REST;
	mov.b32 t, a;
REST:
	st.global.b32 [out], t;
	ret;
}
",
    default: true,
    check: Check::Function(check),
};

/// The lanes that have to execute it together, a bit each; `None` where it does not wait
/// for others, or for lanes that are not known.
fn lanes(
    function: &FunctionContext<'_, '_>,
    instruction: &Instruction,
    effect: &Effect,
) -> Option<u32> {
    match effect.meaning.convergence {
        Convergence::Mask => mask(function, instruction),
        Convergence::Warp => Some(u32::MAX),
        // Barriers of the block have a rule of their own.
        Convergence::Block | Convergence::Cluster => None,
        Convergence::Alone | Convergence::Active => None,
    }
}

/// The last operand, if it is a number.
fn mask(function: &FunctionContext<'_, '_>, instruction: &Instruction) -> Option<u32> {
    let last = instruction.operands.len.checked_sub(1)?;
    let place = (instruction.operands.start + last) as usize;
    Some(function.linear(place)?.as_number()? as u32)
}

fn wants_sync(effect: &Effect) -> bool {
    matches!(
        effect.meaning.convergence,
        Convergence::Mask | Convergence::Warp
    )
}

fn check(function: &FunctionContext<'_, '_>, findings: &mut Findings) {
    if !has_collective(function, wants_sync) {
        return;
    }
    let (Some(flow), Some(pass)) = (function.flow(), function.first_pass()) else {
        return;
    };
    let mut told = HashSet::new();
    let partings = pass.partings.iter();
    for parting in partings.filter(|parting| parting.meets && parting.bound.is_none()) {
        let mut apart = Vec::new();
        for id in parting.own.iter().copied() {
            let Some(instruction) = flow.instructions.get(id) else {
                continue;
            };
            let mnemonic = function.mnemonic(instruction);
            let step = &flow.instructions.steps[id.index()];
            if let Some(lanes) = lanes(function, instruction, function.effect(step))
                && let Some(arrival) = pass.arrival(flow.graph.block_of(id))
                && parting.together < Variance::Thread
                && let [own, others] = parting.threads
                && arrival.threads.and(own).shares_warp(&others, lanes)
                && !told.contains(&id)
            {
                apart.push((id, instruction, mnemonic));
            }
        }
        // The other side may have what it pairs with.
        let others = parting.others.iter();
        let others: Vec<_> = others.filter_map(|id| flow.instructions.get(*id)).collect();
        apart.retain(|(_, instruction, _)| {
            !others.iter().any(|other| {
                other.opcode == Opcode::Call
                    || other.opcode == instruction.opcode
                        && function.effect_of(other).is_some_and(wants_sync)
            })
        });
        told.extend(apart.iter().map(|(id, ..)| *id));
        if let Some((_, instruction, mnemonic)) = apart.first() {
            let more = parted::others(apart.len() - 1);
            let because = because(function, flow, parting.branch, &parting.threads);
            findings
                .add(
                    instruction.opcode_span,
                    format!("not all lanes come to `{}`{more}: {because}", mnemonic.text),
                )
                .help("move it before the branch, or give it the mask of the lanes that come");
        }
    }
    guarded(function, flow, pass, findings);
}

/// Operations that are guarded themselves.
fn guarded(
    function: &FunctionContext<'_, '_>,
    flow: &Flow<'_, '_>,
    pass: &FirstPass,
    findings: &mut Findings,
) {
    for (id, instruction) in function.instructions_with(|_, effect| wants_sync(effect)) {
        let step = &flow.instructions.steps[id.index()];
        let mnemonic = function.mnemonic(instruction);
        if step.guarded
            && let Some(lanes) = lanes(function, instruction, function.effect(step))
            && let Some([own, others]) = pass.parted(flow, id, Variance::Warp)
            && own.shares_warp(&others, lanes)
        {
            let because = because(function, flow, id, &[own, others]);
            findings
                .add(
                    instruction.opcode_span,
                    format!("not all lanes execute `{}`: {because}", mnemonic.text),
                )
                .help("let all lanes execute it, and guard what uses the result");
        }
    }
}
