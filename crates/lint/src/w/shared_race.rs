//! Shared memory that one thread writes and another accesses without a barrier
//! between.

use crate::flow::{Blocks, Races, is_small_copy};
use crate::{Check, Code, Findings, FunctionContext, Rule};
use ptx::ast::Space;
use ptx::names::{Modifier, Opcode};

pub static RULE: Rule = Rule {
    code: Code::new('W', 303),
    name: "shared-race",
    summary: "A thread writes shared memory that a thread of another warp accesses, with no \
              barrier between.",
    why: "Threads of a block go on at their own pace. Without `bar.sync` between, the other \
          thread may come before or after, and another time the other way round. `shfl.sync` \
          and `bar.warp.sync` order the threads of a warp alone.\n\n\
          Each address and guard is worked out for every thread of a block, between one barrier \
          and the next, also round the loop that they stand in: a finding names two threads that \
          meet. The block has the shape that `.reqntid` or `.maxntid` says. Without them it has \
          as many threads as the shared variables have room for, and the finding says how many; \
          or else every size has the race, or every size of more than one warp, where the kernel \
          has a barrier. What `cp.async` copies is written by the thread that copies it.\n\n\
          It cannot see an address or a guard that depends on what a thread has loaded, nor what \
          a function does that is called. It says nothing of two threads of a warp, which older \
          code takes to go together; of a barrier that only some values of a parameter leave \
          out; where all threads write the same; and behind a fence, an `mbarrier` or a barrier \
          of some threads. PTX ISA, \"Memory Consistency Model\"; two threads that stand for all: \
          Betts and others, \"GPUVerify\" (OOPSLA 2012), and Cogumbreiro and others, \"Checking \
          Data-Race Freedom of GPU Kernels, Compositionally\" (CAV 2021).",
    instead: "Put a `bar.sync` between the two accesses; in a loop, also between the last access \
              of one turn and the first of the next.",
    bad: "\
.entry k(.param .u64 dst)
{
	.reg .b32 t, a, s;
	.reg .b64 out;
	.shared .align 4 .b8 tile[512];
	ld.param.u64 out, [dst];
	cvta.to.global.u64 out, out;
	mov.u32 t, %tid.x;
	shl.b32 a, t, 2;
	mov.u32 s, tile;
	add.u32 s, s, a;
	st.shared.b32 [s], t;
	ld.shared.b32 t, [s+4];
	st.global.b32 [out], t;
	ret;
}
",
    good: "\
.entry k(.param .u64 dst)
{
	.reg .b32 t, a, s;
	.reg .b64 out;
	.shared .align 4 .b8 tile[512];
	ld.param.u64 out, [dst];
	cvta.to.global.u64 out, out;
	mov.u32 t, %tid.x;
	shl.b32 a, t, 2;
	mov.u32 s, tile;
	add.u32 s, s, a;
	st.shared.b32 [s], t;
	bar.sync 0;
	ld.shared.b32 t, [s+4];
	st.global.b32 [out], t;
	ret;
}
",
    default: true,
    check: Check::Function(check),
};

fn check(function: &FunctionContext<'_, '_>, findings: &mut Findings) {
    let writes = function.has_mnemonic(|mnemonic| {
        let modifiers = &mnemonic.modifiers;
        let stores = mnemonic.opcode == Opcode::St
            && (modifiers.has(Modifier::Shared) || crate::flow::memory::space(modifiers).is_none());
        stores || is_small_copy(mnemonic)
    });
    if writes {
        let help = "put `bar.sync 0` between the two";
        report(
            function,
            &Races::of(function, Space::Shared),
            help,
            findings,
        );
    }
}

/// Tells of each race where its second access stands.
pub(super) fn report(
    function: &FunctionContext<'_, '_>,
    found: &Races,
    help: &str,
    findings: &mut Findings,
) {
    let Some(flow) = function.flow() else {
        return;
    };
    let block = match found.blocks {
        Blocks::Of(shape) => format!(", in a block of {shape}"),
        Blocks::OfWarps => ", in a block of more than one warp".to_owned(),
        Blocks::All => String::new(),
    };
    for race in &found.races {
        let (Some(first), Some(second)) = (
            flow.instructions.get(race.first),
            flow.instructions.get(race.second),
        ) else {
            continue;
        };
        let reads = |opcode: Opcode| matches!(opcode, Opcode::Ld | Opcode::Ldu);
        let (here, there) = match (reads(first.opcode), reads(second.opcode)) {
            (false, false) => ("writes here", "writes"),
            (false, true) => ("reads here", "writes"),
            (true, _) => ("overwrites here", "reads"),
        };
        let ((one, other), line) = (race.threads, function.line(first.span));
        findings
            .add(
                second.opcode_span,
                format!(
                    "thread {other} {here} what thread {one} {there} in line {line}, with no \
                     barrier between{block}"
                ),
            )
            .help(help);
    }
}
