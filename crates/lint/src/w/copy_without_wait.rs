//! `cp.async` that nothing waits for.

use crate::flow::callee;
use crate::flow::{AsyncEvent, InstructionId, is_waited_for};
use crate::{Check, Code, Findings, Flow, FunctionContext, Rule};
use ptx::ast::{FunctionKind, Mnemonic};
use ptx::isa::Effect;
use ptx::names::{Modifier, Opcode};

pub static RULE: Rule = Rule {
    code: Code::new('W', 401),
    name: "copy-without-wait",
    summary: "No way behind a `cp.async` waits for the copy.",
    why: "`cp.async` begins a copy and goes on. Until `cp.async.wait_all`, or `cp.async.wait_group` \
          behind a `cp.async.commit_group`, or an mbarrier that it was attached to, shared memory \
          may hold what it held before.",
    instead: "Commit the copies, wait for the group, and let the block meet at a barrier before \
              other threads read what was copied.",
    bad: "\
.entry k(.param .u64 src)
{
	.reg .b64 in;
	.shared .align 16 .b8 tile[16];
	ld.param.u64 in, [src];
	cvta.to.global.u64 in, in;
	cp.async.ca.shared.global [tile], [in], 16;
	bar.sync 0;
	ret;
}
",
    good: "\
.entry k(.param .u64 src)
{
	.reg .b64 in;
	.shared .align 16 .b8 tile[16];
	ld.param.u64 in, [src];
	cvta.to.global.u64 in, in;
	cp.async.ca.shared.global [tile], [in], 16;
	cp.async.wait_all;
	bar.sync 0;
	ret;
}
",
    default: true,
    check: Check::Function(check),
};

/// `cp.async` of a few bytes, not `cp.async.bulk`, and what it is for one.
fn event(mnemonic: &Mnemonic<'_>) -> AsyncEvent {
    let has = |word| mnemonic.modifiers.has(word);
    if mnemonic.opcode != Opcode::Cp || has(Modifier::Bulk) {
        return AsyncEvent::None;
    }
    if has(Modifier::WaitAll) || has(Modifier::Mbarrier) {
        AsyncEvent::WaitForAll
    } else if has(Modifier::WaitGroup) {
        AsyncEvent::WaitForGroups
    } else if has(Modifier::CommitGroup) {
        AsyncEvent::Commit
    } else {
        AsyncEvent::None
    }
}

fn begins(mnemonic: &Mnemonic<'_>) -> bool {
    let has = |word| mnemonic.modifiers.has(word);
    let copies = has(Modifier::Ca) || has(Modifier::Cg);
    mnemonic.opcode == Opcode::Cp && has(Modifier::Async) && copies && !has(Modifier::Bulk)
}

fn check(function: &FunctionContext<'_, '_>, findings: &mut Findings) {
    let help = "write `cp.async.commit_group` and `cp.async.wait_group 0` before what was copied \
                is read";
    unwaited(function, begins, event, |instruction| {
        let message = "nothing behind this waits for the copy";
        findings.add(instruction.opcode_span, message).help(help);
    });
}

/// So many beginnings of a function are looked at.
const MANY: usize = 256;

/// Calls `found` for each instruction that begins what nothing waits for.
pub(super) fn unwaited<'m, 'a>(
    function: &FunctionContext<'m, 'a>,
    begins: impl Fn(&Mnemonic<'a>) -> bool,
    event: impl Fn(&Mnemonic<'a>) -> AsyncEvent,
    mut found: impl FnMut(&'m ptx::ast::Instruction),
) {
    if !function.has_mnemonic(&begins) {
        return;
    }
    let Some(flow) = function.flow() else {
        return;
    };
    let mnemonics = function.mnemonics.iter();
    let events: Vec<AsyncEvent> = mnemonics.map(&event).collect();
    let of = |id| of_step(function, flow, id, &events, &event);
    let is_kernel = function.function.kind == FunctionKind::Entry;
    let begun = function.instructions_with(|mnemonic, _| begins(mnemonic));
    let begun = begun
        .into_iter()
        .filter(|(id, _)| flow.graph.is_reached(flow.graph.block_of(*id)));
    for (id, instruction) in begun.take(MANY) {
        // Who calls a function may wait for it.
        let elsewhere = || !is_kernel && events.iter().any(waits);
        if !is_waited_for(&flow.graph, id, of) && !elsewhere() {
            found(instruction);
        }
    }
}

fn waits(event: &AsyncEvent) -> bool {
    matches!(event, AsyncEvent::WaitForAll | AsyncEvent::WaitForGroups)
}

/// What an instruction does, where `events` are those of the mnemonics of the module.
fn of_step<'a>(
    function: &FunctionContext<'_, 'a>,
    flow: &Flow<'_, 'a>,
    id: InstructionId,
    events: &[AsyncEvent],
    event: impl Fn(&Mnemonic<'a>) -> AsyncEvent,
) -> AsyncEvent {
    let step = &flow.instructions.steps[id.index()];
    if function.effect(step).meaning.effect != Effect::Call {
        return events[step.mnemonic as usize];
    }
    let Some(instruction) = flow.instructions.get(id) else {
        return AsyncEvent::None;
    };
    let name = callee(function.operands(instruction));
    let waits = |mnemonic: &Mnemonic<'a>| waits(&event(mnemonic));
    match name.is_none_or(|name| function.context.may_execute(name, waits)) {
        true => AsyncEvent::WaitForAll,
        false => AsyncEvent::None,
    }
}
