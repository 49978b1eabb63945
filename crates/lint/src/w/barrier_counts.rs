//! Two numbers of threads for one barrier.

use super::stuck_barrier::in_block;
use crate::flow::MistakeKind;
use crate::{Check, Code, Findings, FunctionContext, Rule};

pub static RULE: Rule = Rule {
    code: Code::new('W', 309),
    name: "barrier-counts-differ",
    summary: "Two warps come to one barrier and say different numbers of threads.",
    why: "All threads that come to a barrier before it opens have to say the same number. \
          Otherwise it opens too early or never.\n\n\
          The warps of a block are followed as `stuck-barrier` does it, with the same limits. \
          (PTX ISA, \"Parallel Synchronization and Communication Instructions: bar\".)",
    instead: "Let both say how many threads come, or give them barriers of their own.",
    bad: "\
.entry k() .reqntid 128
{
	.reg .pred p;
	.reg .b32 t;
	mov.u32 t, %tid.x;
	setp.lt.u32 p, t, 32;
	@p bra FIRST;
	bar.arrive 1, 128;
	ret;
FIRST:
	bar.sync 1, 96;
	ret;
}
",
    good: "\
.entry k() .reqntid 128
{
	.reg .pred p;
	.reg .b32 t;
	mov.u32 t, %tid.x;
	setp.lt.u32 p, t, 32;
	@p bra FIRST;
	bar.arrive 1, 128;
	ret;
FIRST:
	bar.sync 1, 128;
	ret;
}
",
    default: true,
    check: Check::Function(check),
};

fn check(function: &FunctionContext<'_, '_>, findings: &mut Findings) {
    for mistake in function.barrier_mistakes() {
        let MistakeKind::Counts { counts, other } = mistake.kind else {
            continue;
        };
        let Some(flow) = function.flow() else {
            return;
        };
        let (Some(instruction), Some(other)) = (
            flow.instructions.get(mistake.at),
            flow.instructions.get(other),
        ) else {
            continue;
        };
        let line = function.line(other.span);
        findings
            .add(
                instruction.opcode_span,
                format!(
                    "{}barrier {} is for {} threads here, and for {} in line {line}, where other \
                     warps come to it",
                    in_block(mistake),
                    mistake.barrier,
                    counts[0],
                    counts[1],
                ),
            )
            .help("let both say the same number of threads");
    }
}
