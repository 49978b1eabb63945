//! A store to what other threads change by an atomic, or with a lock held.

use crate::flow::memory::{AccessKind, MemoryAccess};
use crate::flow::{Executors, Linear, Scope, is_of_block, waits_besides, word_of_grid};
use crate::{Check, Code, Findings, Flow, FunctionContext, Rule};
use ptx::ast::{FunctionKind, Space};
use ptx::names::{Modifier, Opcode};

pub static RULE: Rule = Rule {
    code: Code::new('W', 315),
    name: "unlocked-store",
    summary: "A thread stores to a word that another changes by an atomic, or accesses with a \
              lock held.",
    why: "An atomic is one step to other atomics alone, and a lock keeps out those who take it. \
          A store beside them comes at any time: it is overwritten, or it overwrites what the \
          others have done. A `.volatile` store and an atomic are no data race by the letter of \
          the model; which of them comes last is chance all the same.\n\n\
          The word lies at a variable or a parameter and a constant. The threads that store and \
          those that do the other are told apart by comparisons of `%tid` or `%ctaid` with \
          constants, and the store comes before the lock is taken, after it is given back, or \
          without it. Nothing is said where a barrier, or another word that threads wait for, may \
          order the two; nor where the one is read to decide of the other. (PTX ISA, \"Memory \
          Consistency Model\"; Savage and others, \"Eraser: A Dynamic Data Race Detector for \
          Multithreaded Programs\", 1997.)",
    instead: "Use an atomic for every change of the word, or take the lock.",
    bad: "\
.entry k(.param .u64 count)
{
	.reg .pred p;
	.reg .b32 block;
	.reg .b64 at;
	ld.param.u64 at, [count];
	cvta.to.global.u64 at, at;
	mov.u32 block, %ctaid.x;
	setp.eq.s32 p, block, 0;
	@p bra FIRST;
	red.global.add.u32 [at], 1;
	ret;
FIRST:
	st.global.u32 [at], 0;
	ret;
}
",
    good: "\
.entry k(.param .u64 count)
{
	.reg .pred p;
	.reg .b32 block;
	.reg .b64 at;
	ld.param.u64 at, [count];
	cvta.to.global.u64 at, at;
	mov.u32 block, %ctaid.x;
	setp.eq.s32 p, block, 0;
	@p bra FIRST;
	red.global.add.u32 [at], 1;
	ret;
FIRST:
	red.global.add.u32 [at], 2;
	ret;
}
",
    default: true,
    check: Check::Function(check),
};

/// With more accesses to words of the grid, a kernel is not looked at.
const ACCESSES: usize = 64;

fn check(function: &FunctionContext<'_, '_>, findings: &mut Findings) {
    let has = |wanted: &[Opcode]| {
        function.has_mnemonic(|mnemonic| {
            wanted.contains(&mnemonic.opcode)
                && matches!(
                    crate::flow::memory::space(&mnemonic.modifiers),
                    None | Some(Space::Global)
                )
        })
    };
    if function.function.kind != FunctionKind::Entry
        || !has(&[Opcode::Atom, Opcode::Red])
        || !has(&[Opcode::St])
    {
        return;
    }
    if let Some(flow) = function.flow() {
        look(function, flow, findings);
    }
}

fn look(function: &FunctionContext<'_, '_>, flow: &Flow<'_, '_>, findings: &mut Findings) {
    let sections = function.critical_sections();
    let words: Vec<(&MemoryAccess<'_>, Linear)> = function
        .accesses()
        .iter()
        .filter_map(|of| Some((of, word_of_grid(function, of)?)))
        .collect();
    let stores = || {
        words
            .iter()
            .filter(|(of, _)| of.access.kind == AccessKind::Store)
    };
    if words.len() > ACCESSES || stores().next().is_none() {
        return;
    }
    // What else may order the two?
    let waits = waits_besides(function, |id| {
        let Some(instruction) = flow.instructions.get(id) else {
            return false;
        };
        let step = &flow.instructions.steps[id.index()];
        let mut written = flow.values.writes(&flow.instructions, step);
        let unread = written.all(|(_, value)| flow.values.read_count(value) == 0);
        let of_lock = sections
            .iter()
            .any(|section| section.take == id || section.releases.contains(&id));
        let relaxed = function
            .mnemonic(instruction)
            .modifiers
            .first_of(&[Modifier::Acquire, Modifier::Release, Modifier::AcqRel])
            .is_none();
        let fence = Scope::of_fence(function.mnemonic(instruction)).is_some();
        of_lock
            || fence && !sections.is_empty()
            || unread && relaxed && matches!(instruction.opcode, Opcode::Atom | Opcode::Red)
    });
    if waits {
        return;
    }
    let locked = |of: &MemoryAccess<'_>| {
        let mut sections = sections.iter();
        sections.find(|section| section.held.binary_search(&of.id).is_ok())
    };
    let of_lock = |address: &Linear| sections.iter().any(|section| section.lock == *address);
    for (store, address) in stores() {
        let Some(who) = Executors::of(function, store.id) else {
            continue;
        };
        if who.others || of_lock(address) || locked(store).is_some() {
            continue;
        }
        let other = words.iter().find_map(|(of, known)| {
            let section = locked(of);
            let changes = of.access.kind == AccessKind::Atomic || section.is_some();
            if known != address || !changes {
                return None;
            }
            let others = Executors::of(function, of.id).filter(|others| !others.others)?;
            let way = who.parted(&others)?;
            // What threads of a block do is told by the race itself, if it is one.
            let weak = !function
                .mnemonic(store.instruction)
                .modifiers
                .has(Modifier::Volatile);
            let told = weak && section.is_none() && !is_of_block(way);
            (!told).then_some((of, section, way))
        });
        let Some((of, section, way)) = other else {
            continue;
        };
        let whose = if is_of_block(way) {
            "another block"
        } else {
            "another thread"
        };
        let line = function.line(of.instruction.span);
        let message = match section.and_then(|section| flow.instructions.get(section.take)) {
            Some(take) => format!(
                "{whose} accesses this word in line {line} with the lock held that line {} takes, \
                 and this store comes without the lock",
                function.line(take.span)
            ),
            None => format!(
                "{whose} changes this word by the atomic in line {line}, and nothing orders this \
                 store with that"
            ),
        };
        findings
            .add(store.instruction.opcode_span, message)
            .help("use an atomic, or take the lock");
    }
}
