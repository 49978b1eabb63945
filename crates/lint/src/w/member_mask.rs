//! `shfl.sync` with a member mask in which a lane that executes it is not.

use crate::flow::{MaskMistakeKind, mask_mistakes};
use crate::{Check, Code, Findings, FunctionContext, Rule};

pub static RULE: Rule = Rule {
    code: Code::new('W', 311),
    name: "wrong-member-mask",
    summary: "A lane executes an operation of the warp and is not in its member mask, or lanes \
              that wait for each other give different masks.",
    why: "`shfl.sync`, `vote.sync`, `match.sync`, `redux.sync`, `elect.sync` and `bar.warp.sync` \
          wait for the lanes of their mask. A lane that is not in the mask that it gives must not \
          execute the operation, and all lanes of the mask have to give the same one: otherwise \
          the behaviour is undefined.\n\n\
          Masks are worked out for each thread from constants, `%laneid`, `%lanemask_…` and \
          `%tid`, in the first turn of the loops around; a finding names a thread that comes to \
          the operation together with its warp. The block is that of `.reqntid` or `.maxntid`, \
          or the largest: the finding then says how many threads it needs, and a mask of the first \
          lanes is taken to be that of a block with no others. The result of a \
          ballot is reported as a mask where all lanes that voted execute the operation. Nothing \
          is said of masks that depend on data, of `activemask`, whose lanes are those that \
          happen to come together, nor behind branches on data. Lanes that are missing are those \
          of `W0302`. (PTX ISA, \"shfl.sync\", \"vote.sync\", \"bar.warp.sync\".)",
    instead: "Name the lanes that execute it: `0xffffffff` where the whole warp does, or branch \
              on the predicate before, so that those that voted against do not come.",
    bad: "\
.entry k(.param .u64 dst) .reqntid 128
{
	.reg .b32 t, a;
	.reg .b64 out;
	ld.param.u64 out, [dst];
	cvta.to.global.u64 out, out;
	mov.u32 t, %tid.x;
	mad.wide.u32 out, t, 4, out;
	shfl.sync.bfly.b32 a, t, 1, 31, 0xffff;
	st.global.b32 [out], a;
	ret;
}
",
    good: "\
.entry k(.param .u64 dst) .reqntid 128
{
	.reg .b32 t, a;
	.reg .b64 out;
	ld.param.u64 out, [dst];
	cvta.to.global.u64 out, out;
	mov.u32 t, %tid.x;
	mad.wide.u32 out, t, 4, out;
	shfl.sync.bfly.b32 a, t, 1, 31, 0xffffffff;
	st.global.b32 [out], a;
	ret;
}
",
    default: true,
    check: Check::Function(check),
};

fn check(function: &FunctionContext<'_, '_>, findings: &mut Findings) {
    for mistake in mask_mistakes(function) {
        let Some(flow) = function.flow() else {
            return;
        };
        let Some(instruction) = flow.instructions.get(mistake.at) else {
            continue;
        };
        let name = &function.mnemonic(instruction).text;
        let required = function
            .first_pass()
            .is_some_and(|pass| pass.block.required);
        let large = |thread: u32| {
            if required {
                String::new()
            } else {
                format!(", in a block of more than {thread} threads")
            }
        };
        let (message, help) = match mistake.kind {
            MaskMistakeKind::LeftOut { thread, mask } => (
                format!(
                    "thread {thread} executes `{name}` and is not in its mask {mask:#x}{}",
                    large(thread)
                ),
                "let the mask name all lanes that execute it",
            ),
            MaskMistakeKind::Different {
                threads: [a, b],
                masks: [of_a, of_b],
            } => (
                format!(
                    "thread {a} waits here for thread {b} with the mask {of_a:#x}, and thread {b} \
                     gives {of_b:#x}{}",
                    large(a.max(b))
                ),
                "let all lanes of a mask give the same one",
            ),
            MaskMistakeKind::Ballot(ballot) => {
                let ballot = flow.instructions.get(ballot);
                let line = ballot.map_or(0, |ballot| function.line(ballot.span));
                (
                    format!(
                        "lanes of which the predicate of the ballot in line {line} does not hold \
                         execute `{name}` too, and are not in its mask"
                    ),
                    "branch on the predicate before, or give the mask that the ballot was given",
                )
            }
        };
        findings.add(instruction.opcode_span, message).help(help);
    }
}
