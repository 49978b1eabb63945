//! Global memory that one thread writes and another accesses at the same time.

use super::shared_race::report;
use crate::flow::Races;
use crate::{Check, Code, Findings, FunctionContext, Rule};
use ptx::ast::Space;
use ptx::names::{Modifier, Opcode, SpecialRegister};

pub static RULE: Rule = Rule {
    code: Code::new('W', 307),
    name: "global-race",
    summary: "A thread writes global memory that another thread of its block accesses, with no \
              barrier between.",
    why: "All threads read the sum, each adds to what it has read, and whoever writes last wins: \
          the others' work is lost. The same holds where a thread reads what its neighbour \
          overwrites.\n\n\
          Addresses are worked out for each thread as in `W0303`, with the same limits: those \
          that a parameter, a variable or a pointer that lies in one, `%tid`, `%ctaid` and \
          constants make. It says nothing of threads in different blocks, which `W0312` does; of \
          `.volatile`, `.relaxed` and atomic accesses to each other; of loaded data that all \
          threads leave in one word, and of copies that overlap: what two threads leave at one \
          address they have loaded from different ones; of two accesses that a parameter puts \
          apart, or that a loop comes to only in the last of a number of turns that a parameter \
          says; of an index that an atomic returns; and of a kernel without a barrier that neither \
          asks for `%ntid` nor says how large its block is, which may be one warp. PTX ISA, \"Memory \
          Consistency Model\".",
    instead: "Use `red` or `atom` for what all threads add to. Where each thread has its own \
              part, put a `bar.sync` between the accesses, or write to other memory than is read.",
    bad: "\
.entry k(.param .u64 sum, .param .u64 data)
{
	.reg .b32 t, a, b;
	.reg .b64 to, from;
	ld.param.u64 to, [sum];
	ld.param.u64 from, [data];
	cvta.to.global.u64 to, to;
	cvta.to.global.u64 from, from;
	mov.u32 t, %tid.x;
	mad.wide.u32 from, t, 4, from;
	ld.global.b32 a, [from];
	ld.global.b32 b, [to];
	add.s32 b, b, a;
	st.global.b32 [to], b;
	ret;
}
",
    good: "\
.entry k(.param .u64 sum, .param .u64 data)
{
	.reg .b32 t, a;
	.reg .b64 to, from;
	ld.param.u64 to, [sum];
	ld.param.u64 from, [data];
	cvta.to.global.u64 to, to;
	cvta.to.global.u64 from, from;
	mov.u32 t, %tid.x;
	mad.wide.u32 from, t, 4, from;
	ld.global.b32 a, [from];
	red.global.add.s32 [to], a;
	ret;
}
",
    default: true,
    check: Check::Function(check),
};

fn check(function: &FunctionContext<'_, '_>, findings: &mut Findings) {
    let writes = function.has_mnemonic(|mnemonic| {
        let modifiers = &mnemonic.modifiers;
        mnemonic.opcode == Opcode::St
            && (modifiers.has(Modifier::Global) || crate::flow::memory::space(modifiers).is_none())
    });
    // Who never asks which thread it is may be the only one, where nothing says how many are.
    let mut directives = function.function.directives.iter();
    let many = directives.any(|directive| directive.name == "reqntid")
        || function.names_special(|register| {
            matches!(
                register,
                SpecialRegister::TidX | SpecialRegister::TidY | SpecialRegister::TidZ
            )
        });
    if writes && many {
        let help = "use an atomic, or put `bar.sync 0` between the two";
        report(
            function,
            &Races::of(function, Space::Global),
            help,
            findings,
        );
    }
}
