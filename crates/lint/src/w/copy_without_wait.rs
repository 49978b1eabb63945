//! `cp.async` that nothing waits for.

use crate::flow::callee;
use crate::flow::{AsyncEvent, is_waited_for};
use crate::{Check, Code, Findings, FunctionContext, Rule};
use ptx::ast::{FunctionKind, Instruction, Mnemonic};
use ptx::names::{Modifier, Opcode};

pub static RULE: Rule = Rule {
    code: Code::new('W', 401),
    name: "copy-without-wait",
    summary: "No way behind a `cp.async` waits for the copy.",
    why: "`cp.async` begins a copy and goes on. Until `cp.async.wait_all`, or \
          `cp.async.wait_group` behind a `cp.async.commit_group`, or an mbarrier that it was \
          attached to, shared memory may hold what it held before.\n\n\
          A wait on any way behind the copy is enough, also one in a function that is called; \
          whether it comes early enough is `W0409`. (PTX ISA, \"cp.async.wait_group, \
          cp.async.wait_all\".)",
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
    mut found: impl FnMut(&'m Instruction),
) {
    if !function.has_mnemonic(&begins) {
        return;
    }
    let Some(flow) = function.flow() else {
        return;
    };
    let events = function.instructions_with(|mnemonic, _| {
        mnemonic.opcode == Opcode::Call || event(mnemonic) != AsyncEvent::None
    });
    let events = events.into_iter();
    let events: Vec<_> = events
        .map(|(id, instruction)| (id, of_instruction(function, instruction, &event)))
        .collect();
    let is_kernel = function.function.kind == FunctionKind::Entry;
    let begun = function.instructions_with(|mnemonic, _| begins(mnemonic));
    let begun = begun
        .into_iter()
        .filter(|(id, _)| flow.graph.is_reached(flow.graph.block_of(*id)));
    for (id, instruction) in begun.take(MANY) {
        // Who calls a function may wait for it.
        let elsewhere = || !is_kernel && function.mnemonics.iter().map(&event).any(waits);
        if !is_waited_for(&flow.graph, id, &events) && !elsewhere() {
            found(instruction);
        }
    }
}

fn waits(event: AsyncEvent) -> bool {
    matches!(event, AsyncEvent::WaitForAll | AsyncEvent::WaitForGroups)
}

/// What an instruction does.
fn of_instruction<'a>(
    function: &FunctionContext<'_, 'a>,
    instruction: &Instruction,
    event: impl Fn(&Mnemonic<'a>) -> AsyncEvent,
) -> AsyncEvent {
    if instruction.opcode != Opcode::Call {
        return event(function.mnemonic(instruction));
    }
    let name = callee(function.operands(instruction));
    let waits = |mnemonic: &Mnemonic<'a>| waits(event(mnemonic));
    if name.is_none_or(|name| function.context.may_execute(name, waits)) {
        AsyncEvent::WaitForAll
    } else {
        AsyncEvent::None
    }
}
