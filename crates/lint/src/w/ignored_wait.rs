//! `mbarrier.try_wait` whose answer nobody reads.

use super::mbarriers::{MbarrierOperation, has_operation, operation};
use crate::{Check, Code, Findings, FunctionContext, Rule};
use ptx::ast::Mnemonic;

pub static RULE: Rule = Rule {
    code: Code::new('W', 405),
    name: "ignored-wait",
    summary: "`mbarrier.try_wait` or `test_wait` is asked, and nothing reads the answer.",
    why: "`test_wait` does not wait at all, and `try_wait` only for a time that the device \
          chooses. Either returns whether the phase is complete; while it is not, what the \
          mbarrier stands for has not happened.\n\n\
          A finding is certain: no instruction reads the predicate. Where one does, what it does \
          with it is not looked at. (PTX ISA, \"mbarrier.test_wait, mbarrier.try_wait\".)",
    instead: "Ask again in a loop until the answer is true.",
    bad: "\
.entry k()
{
	.reg .pred p;
	.shared .align 8 .b64 bar;
	mbarrier.init.shared.b64 [bar], 32;
	bar.sync 0;
	mbarrier.arrive.shared.b64 _, [bar];
	mbarrier.try_wait.parity.shared.b64 p, [bar], 0;
	ret;
}
",
    good: "\
.entry k()
{
	.reg .pred p;
	.shared .align 8 .b64 bar;
	mbarrier.init.shared.b64 [bar], 32;
	bar.sync 0;
	mbarrier.arrive.shared.b64 _, [bar];
AGAIN:
	mbarrier.try_wait.parity.shared.b64 p, [bar], 0;
	@!p bra AGAIN;
	ret;
}
",
    default: true,
    check: Check::Function(check),
};

fn check(function: &FunctionContext<'_, '_>, findings: &mut Findings) {
    if !has_operation(function, MbarrierOperation::Wait) {
        return;
    }
    let Some(flow) = function.flow() else {
        return;
    };
    let is_wait = |mnemonic: &Mnemonic<'_>| operation(mnemonic) == Some(MbarrierOperation::Wait);
    for (id, instruction) in function.instructions_with(|mnemonic, _| is_wait(mnemonic)) {
        let step = &flow.instructions.steps[id.index()];
        if !flow.graph.is_reached(flow.graph.block_of(id)) {
            continue;
        }
        let mut answers = flow.values.writes(&flow.instructions, step);
        if answers.all(|(_, value)| flow.values.read_count(value) == 0) {
            findings
                .add(
                    instruction.opcode_span,
                    "nothing reads whether the phase of the mbarrier is complete",
                )
                .help("ask again until it is: `@!p bra` back to this instruction");
        }
    }
}
