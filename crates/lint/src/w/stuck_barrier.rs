//! A barrier of some threads that never opens.

use super::parted::others;
use crate::flow::{BarrierMistake, MistakeKind};
use crate::{Check, Code, Findings, FunctionContext, Rule};

pub static RULE: Rule = Rule {
    code: Code::new('W', 308),
    name: "stuck-barrier",
    summary: "Warps wait for ever at a barrier that says how many threads it waits for.",
    why: "`bar.sync 1, 64` opens when 64 threads have come, by `bar.sync` or `bar.arrive`. Where \
          fewer do, or where those that should come wait at another barrier in their turn, the \
          kernel hangs.\n\n\
          The warps of a block are followed through the kernel, each as far as the branches \
          before its barriers depend on `%tid`, the size of the block and constants alone; \
          where they depend on a parameter or on data, a warp may come to any barrier ahead. \
          So a finding is no guess, but loops whose count is a parameter hide what is behind \
          their first turn. The size of the block is that of `.reqntid`, or the one that \
          `.maxntid` allows, which the finding then names; without them, the kernel has to hang \
          with every number of warps. (PTX ISA, \"Parallel Synchronization and Communication \
          Instructions: bar\"; Sharma, Bauer and Aiken, \"Verification of Producer-Consumer \
          Synchronization in GPU Programs\", PLDI 2015.)",
    instead: "Let as many threads come as the barrier says, and let warps that wait for each \
              other come to their barriers in one order.",
    bad: "\
.entry k() .reqntid 64
{
	.reg .pred p;
	.reg .b32 warp;
	mov.u32 warp, %tid.x;
	shr.u32 warp, warp, 5;
	setp.eq.u32 p, warp, 0;
	@p bra FIRST;
	bar.sync 2, 64;
	bar.arrive 1, 64;
	ret;
FIRST:
	bar.sync 1, 64;
	bar.arrive 2, 64;
	ret;
}
",
    good: "\
.entry k() .reqntid 64
{
	.reg .pred p;
	.reg .b32 warp;
	mov.u32 warp, %tid.x;
	shr.u32 warp, warp, 5;
	setp.eq.u32 p, warp, 0;
	@p bra FIRST;
	bar.arrive 1, 64;
	bar.sync 2, 64;
	ret;
FIRST:
	bar.sync 1, 64;
	bar.arrive 2, 64;
	ret;
}
",
    default: true,
    check: Check::Function(check),
};

fn check(function: &FunctionContext<'_, '_>, findings: &mut Findings) {
    for mistake in function.barrier_mistakes() {
        let MistakeKind::Stuck {
            count,
            came,
            others: elsewhere,
        } = &mistake.kind
        else {
            continue;
        };
        let Some(flow) = function.flow() else {
            return;
        };
        let Some(instruction) = flow.instructions.get(mistake.at) else {
            continue;
        };
        let wanted = match count {
            Some(count) => format!("{count}"),
            None => "all".to_owned(),
        };
        let elsewhere = elsewhere.split_first().map(|(first, rest)| {
            let line = flow.instructions.get(*first).map(|i| function.line(i.span));
            let line = line.unwrap_or_default();
            let more = match others(rest.len()) {
                more if more.is_empty() => more,
                _ => format!(" and at {} more", rest.len()),
            };
            format!(", and other warps wait at the barrier in line {line}{more}")
        });
        findings
            .add(
                instruction.opcode_span,
                format!(
                    "{}barrier {} never opens: it waits for {wanted} threads, and {came} come{}",
                    in_block(mistake),
                    mistake.barrier,
                    elsewhere.unwrap_or_default(),
                ),
            )
            .help("let as many threads come as it waits for, and in one order to each barrier");
    }
}

/// `in a block of 64 threads, `, where another number may be right.
pub(super) fn in_block(mistake: &BarrierMistake) -> String {
    match mistake.threads {
        Some(threads) => format!("in a block of {threads} threads, "),
        None => String::new(),
    }
}
