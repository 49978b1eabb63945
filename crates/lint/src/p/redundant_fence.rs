//! `membar.gl; membar.cta;`

use crate::flow::Scope;
use crate::{Check, Code, Edit, Findings, FunctionContext, Rule};
use ptx::ast::{Instruction, Mnemonic};
use ptx::names::{Modifier, Opcode};

pub static RULE: Rule = Rule {
    code: Code::new('P', 305),
    name: "redundant-fence",
    summary: "A fence next to a stronger or equal one.",
    why: "A fence waits until earlier writes are visible, which takes some hundred cycles for \
          global memory. The second of two adjacent fences orders nothing that the first does \
          not. Neither does a `fence` or `membar` of block scope before a barrier of all threads \
          of the block, which also orders memory.",
    instead: "Remove it.",
    bad: "\
.entry k(.param .u64 out)
{
	.reg .b32 i;
	.reg .b64 p;
	ld.param.u64 p, [out];
	cvta.to.global.u64 p, p;
	mov.u32 i, %ctaid.x;
	st.global.u32 [p], i;
	membar.gl;
	membar.gl;
	st.global.u32 [p+64], i;
	ret;
}
",
    good: "\
.entry k(.param .u64 out)
{
	.reg .b32 i;
	.reg .b64 p;
	ld.param.u64 p, [out];
	cvta.to.global.u64 p, p;
	mov.u32 i, %ctaid.x;
	st.global.u32 [p], i;
	membar.gl;
	st.global.u32 [p+64], i;
	ret;
}
",
    default: false,
    check: Check::Function(check),
};

/// The strength of a fence: sequential consistency, and scope.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Strength {
    sequential: bool,
    scope: Scope,
}

fn check(function: &FunctionContext<'_, '_>, findings: &mut Findings) {
    let fences = [Opcode::Fence, Opcode::Membar];
    let mut mnemonics = function.mnemonics.iter();
    if !mnemonics.any(|mnemonic| fences.contains(&mnemonic.opcode)) {
        return;
    }
    let Some(flow) = function.flow() else {
        return;
    };
    for block in &flow.graph.order {
        let mut last: Option<(&Instruction, Strength)> = None;
        for id in flow.graph.blocks[block.index()].steps() {
            let step = &flow.instructions.steps[id.index()];
            let Some(instruction) = flow.instructions.get(id) else {
                continue;
            };
            let mnemonic = function.mnemonic(instruction);
            let modifiers = &mnemonic.modifiers;
            if let Some(strength) = strength(mnemonic)
                && !step.guarded
            {
                let stronger =
                    |a: Strength, b: Strength| a.scope >= b.scope && a.sequential >= b.sequential;
                match last {
                    Some((first, known)) if stronger(known, strength) => {
                        let line = function.line(first.opcode_span);
                        let why =
                            format!("redundant fence: that of line {line} is at least as strong");
                        tell(instruction, &why, findings);
                    }
                    Some((first, known)) if stronger(strength, known) => {
                        let line = function.line(instruction.opcode_span);
                        let why =
                            format!("redundant fence: that of line {line} is at least as strong");
                        tell(first, &why, findings);
                        last = Some((instruction, strength));
                    }
                    _ => last = Some((instruction, strength)),
                }
                continue;
            }
            let whole = matches!(instruction.opcode, Opcode::Bar | Opcode::Barrier)
                && modifiers.has(Modifier::Sync)
                && !modifiers.has(Modifier::Warp)
                && instruction.operands.len == 1
                && !step.guarded;
            if let Some((first, known)) = last.filter(|_| whole)
                && known.scope == Scope::Block
            {
                let line = function.line(instruction.opcode_span);
                let why = format!("redundant fence: the barrier of line {line} orders memory too");
                tell(first, &why, findings);
            }
            let harmless = function.effect(step).pure && instruction.opcode != Opcode::Ld;
            if !harmless {
                last = None;
            }
        }
    }
}

fn tell(instruction: &Instruction, why: &str, findings: &mut Findings) {
    findings
        .add(instruction.opcode_span, why)
        .help("remove it")
        .fix([Edit {
            span: instruction.span,
            replacement: String::new(),
        }]);
}

/// The strength of a fence between threads; `None` for a fence between proxies.
fn strength(mnemonic: &Mnemonic<'_>) -> Option<Strength> {
    let relaxed = mnemonic.opcode == Opcode::Fence && mnemonic.modifiers.has(Modifier::AcqRel);
    Scope::of_fence(mnemonic).map(|scope| Strength {
        sequential: !relaxed,
        scope,
    })
}
