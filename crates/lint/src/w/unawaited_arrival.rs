//! `bar.arrive` at a barrier that nobody waits at.

use super::stuck_barrier::in_block;
use crate::flow::MistakeKind;
use crate::{Check, Code, Findings, FunctionContext, Rule};

pub static RULE: Rule = Rule {
    code: Code::new('W', 310),
    name: "unawaited-arrival",
    summary: "Threads arrive at a barrier at which no thread of the block ever waits.",
    why: "`bar.arrive` tells those that wait by `bar.sync` or `bar.red` at the same barrier that \
          what comes before it is done. Where nobody waits, those that should wait go on too \
          early: they wait at another barrier, or not at all.\n\n\
          The warps of a block are followed as `stuck-barrier` does it, with the same limits: \
          arrivals that are left over where the block has waited at the barrier before are not \
          reported. (PTX ISA, \"Parallel Synchronization and Communication Instructions: \
          bar\".)",
    instead: "Let the threads that need the result wait at this barrier: `bar.sync` with the \
              same number of threads.",
    bad: "\
.entry k() .reqntid 64
{
	.reg .pred p;
	.reg .b32 t;
	mov.u32 t, %tid.x;
	setp.lt.u32 p, t, 32;
	@p bra FIRST;
	bar.arrive 1, 64;
	ret;
FIRST:
	bar.arrive 1, 64;
	ret;
}
",
    good: "\
.entry k() .reqntid 64
{
	.reg .pred p;
	.reg .b32 t;
	mov.u32 t, %tid.x;
	setp.lt.u32 p, t, 32;
	@p bra FIRST;
	bar.arrive 1, 64;
	ret;
FIRST:
	bar.sync 1, 64;
	ret;
}
",
    default: true,
    check: Check::Function(check),
};

fn check(function: &FunctionContext<'_, '_>, findings: &mut Findings) {
    for mistake in function.barrier_mistakes() {
        if mistake.kind != MistakeKind::Unawaited {
            continue;
        }
        let instruction = function
            .flow()
            .and_then(|flow| flow.instructions.get(mistake.at));
        if let Some(instruction) = instruction {
            findings
                .add(
                    instruction.opcode_span,
                    format!(
                        "{}no thread waits at barrier {}",
                        in_block(mistake),
                        mistake.barrier
                    ),
                )
                .help("wait at it with `bar.sync` where what comes before this is needed");
        }
    }
}
