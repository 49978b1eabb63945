//! `.cta` where other blocks take part.

use crate::flow::memory::AccessKind;
use crate::flow::{
    CriticalSection, Executors, Scope, is_of_block, is_of_grid, published_behind, waits_besides,
    word_of_grid,
};
use crate::{Check, Code, Findings, Flow, FunctionContext, Rule};
use ptx::ast::{FunctionKind, Mnemonic};
use ptx::names::{Modifier, Opcode};

pub static RULE: Rule = Rule {
    code: Code::new('W', 314),
    name: "narrow-scope",
    summary: "An atomic or a fence has the scope of a block, where several blocks take part.",
    why: "`.cta` lets the hardware do with the copy of global memory that the multiprocessor has \
          in its own cache. Atomics of two blocks on one word are not atomic to each other then, \
          a lock is held by one thread of each block, and a fence orders nothing for others.\n\n\
          Looked at are words that are the same for all blocks: at a variable or a parameter \
          and a constant. A lock or an atomic of block scope has a finding where blocks execute \
          it that a comparison of `%ctaid` with a constant tells from those that access the word \
          elsewhere, or where no branch decides who comes, in a kernel that asks for `%ctaid`. A \
          fence has one in a critical section whose lock is so, and before an atomic that \
          another block waits for in a loop, to access behind it what was stored before the \
          fence. Nothing is said of atomics in a kernel with fences or barriers between its \
          blocks; and the kernel must be launched with more blocks than one. (PTX ISA, \"Memory \
          Consistency Model: Morally Strong Operations\"; Kamath and others, \"ScoRD: A Scoped \
          Race Detector for GPUs\", ISCA 2020.)",
    instead: "Use `.gpu`, or a word for each block.",
    bad: "\
.entry k(.param .u64 sum)
{
	.reg .b32 block;
	.reg .b64 at;
	ld.param.u64 at, [sum];
	cvta.to.global.u64 at, at;
	mov.u32 block, %ctaid.x;
	red.global.cta.add.u32 [at], block;
	ret;
}
",
    good: "\
.entry k(.param .u64 sum)
{
	.reg .b32 block;
	.reg .b64 at;
	ld.param.u64 at, [sum];
	cvta.to.global.u64 at, at;
	mov.u32 block, %ctaid.x;
	red.global.gpu.add.u32 [at], block;
	ret;
}
",
    default: true,
    check: Check::Function(check),
};

fn check(function: &FunctionContext<'_, '_>, findings: &mut Findings) {
    let narrow = function.has_mnemonic(|mnemonic| {
        is_narrow_atomic(mnemonic) || Scope::of_fence(mnemonic) == Some(Scope::Block)
    });
    if !narrow
        || function.function.kind != FunctionKind::Entry
        || !function.names_special(is_of_block)
    {
        return;
    }
    if let Some(flow) = function.flow() {
        atomics(function, flow, findings);
        fences_of_locks(function, flow, findings);
        fences_of_flags(function, flow, findings);
    }
}

fn is_narrow_atomic(mnemonic: &Mnemonic<'_>) -> bool {
    matches!(mnemonic.opcode, Opcode::Atom | Opcode::Red)
        && mnemonic.modifiers.has(Modifier::Global)
        && Scope::of_atomic(mnemonic) == Scope::Block
}

/// Atomics and locks.
fn atomics(function: &FunctionContext<'_, '_>, flow: &Flow<'_, '_>, findings: &mut Findings) {
    let sections = function.critical_sections();
    let of_locks = |id| {
        sections
            .iter()
            .any(|section| section.take == id || section.releases.contains(&id))
    };
    let waits = waits_besides(function, |id| {
        let result = flow.instructions.steps.get(id.index());
        let unread = result.is_some_and(|step| {
            let mut written = flow.values.writes(&flow.instructions, step);
            written.all(|(_, value)| flow.values.read_count(value) == 0)
        });
        let instruction = flow.instructions.get(id);
        unread && instruction.is_some_and(|i| matches!(i.opcode, Opcode::Atom | Opcode::Red))
    });
    for of in function.accesses() {
        if of.access.kind != AccessKind::Atomic
            || !is_narrow_atomic(function.mnemonic(of.instruction))
        {
            continue;
        }
        let is_lock = sections.iter().any(|section| section.take == of.id);
        if !is_lock && (waits || of_locks(of.id)) {
            continue;
        }
        let (Some(address), Some(who)) =
            (word_of_grid(function, of), Executors::of(function, of.id))
        else {
            continue;
        };
        let all = !who.others && !who.are_of_some_blocks();
        let other = function.accesses().iter().find(|other| {
            other.id != of.id
                && word_of_grid(function, other) == Some(address)
                && Executors::of(function, other.id)
                    .and_then(|others| who.parted(&others))
                    .is_some_and(is_of_block)
        });
        let what = if is_lock { "lock" } else { "word" };
        let message = match other {
            Some(other) => format!(
                "this atomic has the scope of a block, and another block accesses the {what} in \
                 line {}",
                function.line(other.instruction.span)
            ),
            None if all => format!(
                "this atomic has the scope of a block, and every block of a grid accesses the \
                 {what}"
            ),
            None => continue,
        };
        findings
            .add(of.instruction.opcode_span, message)
            .help("use `.gpu`, or a word for each block");
    }
}

/// Fences between a lock and what it protects.
fn fences_of_locks(
    function: &FunctionContext<'_, '_>,
    flow: &Flow<'_, '_>,
    findings: &mut Findings,
) {
    let sections = function.critical_sections();
    for section in sections
        .iter()
        .filter(|section| section.scope > Scope::Block)
    {
        let Some(line) = taken_by_others(function, flow, section, sections) else {
            continue;
        };
        let early = if section.acquires {
            None
        } else {
            section
                .early(function, Scope::Device)
                .and_then(|(_, fence)| fence)
        };
        let late = section
            .late(function, Scope::Device)
            .and_then(|(.., fence)| fence);
        for fence in early.into_iter().chain(late) {
            if let Some(fence) = flow.instructions.get(fence) {
                findings
                    .add_once(
                        fence.opcode_span,
                        format!(
                            "this fence has the scope of a block, and other blocks take the lock \
                             in line {line}"
                        ),
                    )
                    .help("use `fence.acq_rel.gpu`");
            }
        }
    }
}

/// The line in which other blocks take the lock of a section too.
fn taken_by_others(
    function: &FunctionContext<'_, '_>,
    flow: &Flow<'_, '_>,
    section: &CriticalSection,
    sections: &[CriticalSection],
) -> Option<u32> {
    let mut terms = section.lock.terms().iter();
    if !terms.all(|(term, _)| is_of_grid(function, term)) {
        return None;
    }
    let who = Executors::of(function, section.take)?;
    let all = !who.others && !who.are_of_some_blocks();
    let other = sections.iter().find(|other| {
        let by = Executors::of(function, other.take);
        let parted = by.and_then(|by| who.parted(&by)).is_some_and(is_of_block);
        other.lock == section.lock && (parted || all && other.take == section.take)
    })?;
    Some(function.line(flow.instructions.get(other.take)?.span))
}

/// Fences before a word that another block waits for.
fn fences_of_flags(
    function: &FunctionContext<'_, '_>,
    flow: &Flow<'_, '_>,
    findings: &mut Findings,
) {
    for found in published_behind(function, Scope::Block) {
        let (Some(fence), Some(wait), Some(access)) = (
            flow.instructions.get(found.fence),
            flow.instructions.get(found.wait),
            flow.instructions.get(found.access),
        ) else {
            continue;
        };
        let (wait, access) = (function.line(wait.span), function.line(access.span));
        findings
            .add_once(
                fence.opcode_span,
                format!(
                    "this fence has the scope of a block, and another block waits in line {wait} \
                     for what comes behind it, and accesses in line {access} what was stored before"
                ),
            )
            .help("use `fence.acq_rel.gpu`");
    }
}
