//! `bar.sync 0;` twice

use crate::{Check, Code, Edit, Findings, FunctionContext, Rule};
use ptx::ast::{Instruction, Operand};
use ptx::names::{Modifier, Opcode};

pub static RULE: Rule = Rule {
    code: Code::new('P', 304),
    name: "repeated-barrier",
    summary: "A barrier directly after the same barrier, without memory accesses in between.",
    why: "All threads have just synchronized. The second barrier orders nothing more, but waits \
          for the last warp again. ptxas keeps both.",
    instead: "Remove the second barrier.",
    bad: "\
.entry k(.param .u64 out)
{
	.shared .align 4 .b8 tile[4096];
	.reg .b32 i, a, q;
	.reg .b64 p;
	ld.param.u64 p, [out];
	cvta.to.global.u64 p, p;
	mov.u32 i, %tid.x;
	mov.u32 q, tile;
	mad.lo.u32 q, i, 4, q;
	st.shared.u32 [q], i;
	bar.sync 0;
	bar.sync 0;
	ld.shared.u32 a, [tile+4];
	st.global.u32 [p], a;
	ret;
}
",
    good: "\
.entry k(.param .u64 out)
{
	.shared .align 4 .b8 tile[4096];
	.reg .b32 i, a, q;
	.reg .b64 p;
	ld.param.u64 p, [out];
	cvta.to.global.u64 p, p;
	mov.u32 i, %tid.x;
	mov.u32 q, tile;
	mad.lo.u32 q, i, 4, q;
	st.shared.u32 [q], i;
	bar.sync 0;
	ld.shared.u32 a, [tile+4];
	st.global.u32 [p], a;
	ret;
}
",
    default: false,
    check: Check::Function(check),
};

fn check(function: &FunctionContext<'_, '_>, findings: &mut Findings) {
    let barriers = [Opcode::Bar, Opcode::Barrier];
    let mut mnemonics = function.mnemonics.iter();
    if !mnemonics.any(|mnemonic| barriers.contains(&mnemonic.opcode)) {
        return;
    }
    let Some(flow) = function.flow() else {
        return;
    };
    for block in &flow.graph.order {
        let mut last: Option<&Instruction> = None;
        for id in flow.graph.blocks[block.index()].steps() {
            let step = &flow.instructions.steps[id.index()];
            let Some(instruction) = flow.instructions.get(id) else {
                continue;
            };
            let modifiers = &function.mnemonic(instruction).modifiers;
            let meets = barriers.contains(&instruction.opcode)
                && modifiers.has(Modifier::Sync)
                && !modifiers.has(Modifier::Red)
                && !step.guarded;
            if !meets {
                // A barrier also orders loads.
                let harmless = function.effect(step).pure && instruction.opcode != Opcode::Ld;
                if !harmless {
                    last = None;
                }
                continue;
            }
            let same = last.filter(|last| {
                last.mnemonic == instruction.mnemonic
                    && same_operands(function.operands(last), function.operands(instruction))
            });
            if let Some(first) = same {
                findings
                    .add(
                        instruction.opcode_span,
                        format!(
                            "redundant barrier: there is no memory access between it and the one of line {}",
                            function.line(first.opcode_span),
                        ),
                    )
                    .help("remove it")
                    .fix([Edit {
                        span: instruction.span,
                        replacement: String::new(),
                    }]);
            } else {
                last = Some(instruction);
            }
        }
    }
}

/// Only constant barrier numbers: a register may have changed.
fn same_operands(a: &[Operand<'_>], b: &[Operand<'_>]) -> bool {
    let number = |operand: &Operand<'_>| match operand {
        Operand::Integer(integer) => Some(integer.value),
        _ => None,
    };
    a.len() == b.len()
        && a.iter()
            .zip(b)
            .all(|(a, b)| number(a).is_some() && number(a) == number(b))
}
