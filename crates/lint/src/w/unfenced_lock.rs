//! A lock that is taken or given back without a fence.

use crate::flow::Scope;
use crate::{Check, Code, Findings, FunctionContext, Rule};
use ptx::names::SpecialRegister;

pub static RULE: Rule = Rule {
    code: Code::new('W', 313),
    name: "unfenced-lock",
    summary: "A lock is taken or given back, and no fence orders what it protects.",
    why: "`atom` is `.relaxed` unless it says otherwise: it orders nothing but itself. Behind \
          `atom.cas` a thread may still read what was there before the last holder wrote, and \
          its own store may become visible after the lock is free, when the next holder has \
          read. `.volatile` does not change that.\n\n\
          A lock is a word in global memory that `atom.cas` or `atom.exch` changes from one \
          constant to another, a branch decides by the result, and a store or `atom.exch` behind \
          it sets back. What it protects is what is stored with the lock held, at an address \
          that does not depend on the thread. A barrier or a call counts as a fence, as do \
          `.acquire` and `.release`. Nothing is said of kernels that name neither `%tid` nor \
          `%ctaid`: one warp may be all there is. (PTX ISA, \"Memory Consistency Model: Release \
          and Acquire Patterns\"; Alglave and others, \"GPU Concurrency: Weak Behaviours and \
          Programming Assumptions\", ASPLOS 2015.)",
    instead: "Put `fence.acq_rel.gpu` behind the loop that takes the lock and before what gives \
              it back, or use `atom.acquire.gpu.cas` and `st.release.gpu`.",
    bad: "\
.global .b32 lock;
.entry k(.param .u64 sum)
{
	.reg .pred p;
	.reg .b32 t, old;
	.reg .b64 at;
	ld.param.u64 at, [sum];
	cvta.to.global.u64 at, at;
	mov.u32 t, %tid.x;
	setp.ne.s32 p, t, 0;
	@p ret;
TAKE:
	atom.global.cas.b32 old, [lock], 0, 1;
	setp.ne.s32 p, old, 0;
	@p bra TAKE;
	fence.acq_rel.gpu;
	ld.global.b32 t, [at];
	add.s32 t, t, 1;
	st.global.b32 [at], t;
	atom.global.exch.b32 old, [lock], 0;
	ret;
}
",
    good: "\
.global .b32 lock;
.entry k(.param .u64 sum)
{
	.reg .pred p;
	.reg .b32 t, old;
	.reg .b64 at;
	ld.param.u64 at, [sum];
	cvta.to.global.u64 at, at;
	mov.u32 t, %tid.x;
	setp.ne.s32 p, t, 0;
	@p ret;
TAKE:
	atom.global.cas.b32 old, [lock], 0, 1;
	setp.ne.s32 p, old, 0;
	@p bra TAKE;
	fence.acq_rel.gpu;
	ld.global.b32 t, [at];
	add.s32 t, t, 1;
	st.global.b32 [at], t;
	fence.acq_rel.gpu;
	atom.global.exch.b32 old, [lock], 0;
	ret;
}
",
    default: true,
    check: Check::Function(check),
};

fn check(function: &FunctionContext<'_, '_>, findings: &mut Findings) {
    let sections = function.critical_sections();
    let many = |register| {
        matches!(
            register,
            SpecialRegister::TidX
                | SpecialRegister::TidY
                | SpecialRegister::TidZ
                | SpecialRegister::CtaidX
                | SpecialRegister::CtaidY
                | SpecialRegister::CtaidZ
        )
    };
    if sections.is_empty() || !function.names_special(many) {
        return;
    }
    let Some(flow) = function.flow() else {
        return;
    };
    for section in sections {
        let Some(take) = flow.instructions.get(section.take) else {
            continue;
        };
        let taken = function.line(take.span);
        if !section.acquires
            && let Some((access, None)) = section.early(function, Scope::Block)
            && let Some(instruction) = flow.instructions.get(access)
        {
            findings
                .add(
                    instruction.opcode_span,
                    format!(
                        "the lock taken in line {taken} protects this access, and no fence orders \
                         it behind that"
                    ),
                )
                .help("put `fence.acq_rel.gpu` behind the loop that takes the lock");
        }
        if let Some((store, release, None)) = section.late(function, Scope::Block)
            && let (Some(store), Some(release)) =
                (flow.instructions.get(store), flow.instructions.get(release))
        {
            let line = function.line(store.span);
            findings
                .add(
                    release.opcode_span,
                    format!(
                        "this gives back the lock taken in line {taken}, and no fence orders the \
                         store of line {line} before it"
                    ),
                )
                .help("put `fence.acq_rel.gpu` before it");
        }
    }
}
