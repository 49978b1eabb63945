//! Global memory that a block writes and another accesses at the same time.

use crate::flow::{Races, grid_races};
use crate::{Check, Code, Findings, FunctionContext, Rule};
use ptx::ast::Space;
use ptx::names::Opcode;

pub static RULE: Rule = Rule {
    code: Code::new('W', 312),
    name: "grid-race",
    summary: "In a grid of several blocks, a block writes global memory that another accesses at \
              the same time.",
    why: "`bar.sync` orders the threads of a block alone. Blocks run in any order, or at once: \
          what lies behind the end of a block's part, the next block has written already, or has \
          not. The same holds of a place that all blocks read, change and write.\n\n\
          A kernel that asks for its block is taken to be launched with several. The addresses of \
          two neighbouring blocks are worked out for each thread, in the first turn of all loops; \
          without `.reqntid` or `.maxntid`, blocks of several sizes have to \
          have the race. Looked at are kernels that ask for `%ctaid` and have no fence, no \
          atomic whose result decides, and nothing else that may let blocks wait for each other; \
          of them, addresses that a parameter or a variable, `%tid`, `%ctaid` and constants \
          make. It says nothing of loaded data that blocks leave in one word, of the scopes of \
          atomics, and of a kernel that never asks for its block: it may be the only one. (PTX \
          ISA, \"Memory Consistency Model\".)",
    instead: "Write to other memory than is read, let another kernel do what comes after, or use \
              `red` or `atom` for what all blocks add to.",
    bad: "\
.entry k(.param .u64 data) .reqntid 128
{
	.reg .b32 t, block, a, b;
	.reg .b64 at;
	ld.param.u64 at, [data];
	cvta.to.global.u64 at, at;
	mov.u32 t, %tid.x;
	mov.u32 block, %ctaid.x;
	mad.lo.u32 t, block, 128, t;
	mad.wide.u32 at, t, 4, at;
	ld.global.b32 a, [at];
	ld.global.b32 b, [at+4];
	add.s32 a, a, b;
	bar.sync 0;
	st.global.b32 [at], a;
	ret;
}
",
    good: "\
.entry k(.param .u64 data, .param .u64 result) .reqntid 128
{
	.reg .b32 t, block, a, b;
	.reg .b64 at, to;
	ld.param.u64 at, [data];
	ld.param.u64 to, [result];
	cvta.to.global.u64 at, at;
	cvta.to.global.u64 to, to;
	mov.u32 t, %tid.x;
	mov.u32 block, %ctaid.x;
	mad.lo.u32 t, block, 128, t;
	mad.wide.u32 at, t, 4, at;
	mad.wide.u32 to, t, 4, to;
	ld.global.b32 a, [at];
	ld.global.b32 b, [at+4];
	add.s32 a, a, b;
	st.global.b32 [to], a;
	ret;
}
",
    default: true,
    check: Check::Function(check),
};

fn check(function: &FunctionContext<'_, '_>, findings: &mut Findings) {
    let found = grid_races(function);
    if found.is_empty() {
        return;
    }
    let Some(flow) = function.flow() else {
        return;
    };
    // What threads of one block do too is told as that.
    let within = Races::of(function, Space::Global).races;
    let told = |id| {
        within
            .iter()
            .any(|race| race.first == id || race.second == id)
    };
    for race in found {
        if told(race.write) || told(race.access) {
            continue;
        }
        let (Some(write), Some(access)) = (
            flow.instructions.get(race.write),
            flow.instructions.get(race.access),
        ) else {
            continue;
        };
        let does = match access.opcode {
            Opcode::Ld | Opcode::Ldu => "reads",
            _ => "writes",
        };
        let ((writer, thread), (one, other)) = (race.threads, race.blocks);
        let (line, way) = (function.line(write.span), race.register.text());
        findings
            .add(
                access.opcode_span,
                format!(
                    "thread {thread} of the block of which `{way}` is {other} {does} here what \
                     thread {writer} of block {one} writes in line {line}, and nothing orders \
                     blocks"
                ),
            )
            .help("write to other memory, or use an atomic for what all blocks add to");
    }
}
