//! A kernel that can only trap.

use crate::flow::Terminator;
use crate::{Check, Code, Findings, FunctionContext, Rule};
use ptx::ast::FunctionKind;
use ptx::isa::Effect;

pub static RULE: Rule = Rule {
    code: Code::new('W', 207),
    name: "always-traps",
    summary: "Every way through the kernel ends in `trap`, and none does anything before.",
    why: "Each launch ends with `CUDA_ERROR_LAUNCH_FAILED`, whatever the arguments. A compiler \
          leaves this of a kernel whose behaviour the language does not define: one that writes \
          `__constant__` memory or through a null pointer, or runs into \
          `__builtin_unreachable`.\n\n\
          A `trap` in inline assembly is meant, and is no finding; nor is one behind a store or a \
          call, which may say why. (PTX ISA, \"Miscellaneous Instructions: trap\".)",
    instead: "Look in the source for what the compiler has found to be undefined. A kernel that \
              is not made for a target is better left out of it.",
    bad: "\
.const .align 4 .b8 table[16];
.entry k(.param .u64 src)
{
	trap;
}
",
    good: "\
.global .align 4 .b8 table[16];
.entry k(.param .u64 src)
{
	.reg .b32 a;
	.reg .b64 from;
	ld.param.u64 from, [src];
	cvta.to.global.u64 from, from;
	ld.global.b32 a, [from];
	st.global.b32 [table], a;
	ret;
}
",
    default: true,
    check: Check::Function(check),
};

fn check(function: &FunctionContext<'_, '_>, findings: &mut Findings) {
    let traps = |effect: &crate::flow::Effect| effect.terminator == Terminator::Trap;
    if function.function.kind != FunctionKind::Entry || !function.has_effect(traps) {
        return;
    }
    let Some(flow) = function.flow() else {
        return;
    };
    let mut trap = None;
    for block in &flow.graph.order {
        let block = &flow.graph.blocks[block.index()];
        if block.falls_off {
            return;
        }
        for id in block.steps() {
            let step = &flow.instructions.steps[id.index()];
            let effect = function.effect(step);
            match effect.terminator {
                Terminator::Trap if step.guarded => return,
                Terminator::Trap => trap = trap.or(flow.instructions.get(id)),
                Terminator::Return => return,
                Terminator::Jump | Terminator::IndirectJump => {}
                Terminator::FallThrough => {
                    if !matches!(effect.meaning.effect, Effect::Pure | Effect::Load) {
                        return;
                    }
                }
            }
        }
    }
    let Some(trap) = trap.filter(|trap| !function.is_inline_assembly(trap)) else {
        return;
    };
    findings
        .add(
            trap.opcode_span,
            "every launch of this kernel ends here, whatever its arguments",
        )
        .help("the compiler has found the kernel undefined: does it write `__constant__` memory?");
}
