//! Shared memory that one thread writes and another accesses without a barrier
//! between.

use crate::flow::Races;
use crate::{Check, Code, Findings, FunctionContext, Rule};
use ptx::ast::Space;
use ptx::names::{Modifier, Opcode};

pub static RULE: Rule = Rule {
    code: Code::new('W', 303),
    name: "shared-race",
    summary: "A thread writes shared memory that another accesses, with no barrier between.",
    why: "Threads of a block go on at their own pace, those of a warp too. Without `bar.sync` \
          between, or `bar.warp.sync` in a warp, the other thread may come before or after.",
    instead: "Put a `bar.sync` between the two accesses.",
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
    let writes = function.instructions().any(|instruction| {
        let modifiers = &function.mnemonic(instruction).modifiers;
        instruction.opcode == Opcode::St
            && (modifiers.has(Modifier::Shared) || crate::memory::space(modifiers).is_none())
    });
    if writes {
        report(function, &Races::of(function, Space::Shared), findings);
    }
}

/// Tells of each race where its second access stands.
pub(super) fn report(
    function: &FunctionContext<'_, '_>,
    found: &Races,
    findings: &mut Findings,
) {
    let Some(flow) = function.flow() else {
        return;
    };
    let block = match found.shape {
        Some(shape) => format!(", in a block of {shape}"),
        None => String::new(),
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
            .help("put `bar.sync 0` between the two");
    }
}
