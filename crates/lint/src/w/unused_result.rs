//! A result that nothing reads.

use std::cell::OnceCell;

use crate::flow::Reference;
use crate::{Check, Code, Findings, Flow, FunctionContext, Rule};
use ptx::ast::{Instruction, Space};
use ptx::names::Opcode;

pub static RULE: Rule = Rule {
    code: Code::new('W', 102),
    name: "unused-result",
    summary: "What an instruction writes to its register is overwritten or forgotten before \
              anything reads it.",
    why: "The instruction has no other effect, so it does nothing. Often another register was \
          meant: the value that was computed goes nowhere, and what is used instead is old.\n\n\
          Results in registers of a range, `%r<100>`, are no finding where they are written \
          nowhere else, by `mov`, or by inline assembly: compilers number registers so, and leave \
          such results behind. Nor is what takes up the result of a call. (PTX ISA, \"Instruction \
          Operands: Destination Operands\".)",
    instead: "Use the result, or leave the instruction out.",
    bad: "\
.entry k(.param .u64 dst)
{
	.reg .b32 a;
	.reg .b64 out;
	ld.param.u64 out, [dst];
	cvta.to.global.u64 out, out;
	mov.u32 a, %ctaid.x;
	mov.u32 a, %nctaid.x;
	st.global.b32 [out], a;
	ret;
}
",
    good: "\
.entry k(.param .u64 dst)
{
	.reg .b32 a;
	.reg .b64 out;
	ld.param.u64 out, [dst];
	cvta.to.global.u64 out, out;
	mov.u32 a, %nctaid.x;
	st.global.b32 [out], a;
	ret;
}
",
    default: true,
    check: Check::Function(check),
};

/// How often each register is written, up to 255 times.
fn writes_of(flow: &Flow<'_, '_>) -> Vec<u8> {
    let mut written = vec![0_u8; flow.instructions.registers as usize];
    for step in &flow.instructions.steps {
        for slot in flow.instructions.writes(step) {
            let count = &mut written[slot.register.0 as usize];
            *count = count.saturating_add(1);
        }
    }
    written
}

/// Whether it takes up what a call returned: that nobody wants it is no mistake.
fn is_result_of_call(flow: &Flow<'_, '_>, instruction: &Instruction) -> bool {
    let address = instruction.operands.start as usize + 1;
    match flow.instructions.reference(address) {
        Reference::Variable(id) if instruction.opcode == Opcode::Ld => {
            flow.instructions.variable(id).space == Space::Param
                && !flow.instructions.is_parameter(id)
        }
        _ => false,
    }
}

fn check(function: &FunctionContext<'_, '_>, findings: &mut Findings) {
    let Some(flow) = function.flow() else {
        return;
    };
    let written = OnceCell::new();
    for (value, id) in flow.values.unread() {
        let step = &flow.instructions.steps[id.index()];
        let mut writes = flow.values.writes(&flow.instructions, step);
        // Of several results, the first stands for all.
        let Some((slot, _)) = writes.next().filter(|(_, first)| *first == value) else {
            continue;
        };
        if writes.any(|(_, value)| flow.values.read_count(value) > 0) || !function.effect(step).pure
        {
            continue;
        }
        let Some(instruction) = flow.instructions.get(id) else {
            continue;
        };
        let written = written.get_or_init(|| writes_of(flow));
        // Compilers leave results that nobody wants, each in a register of its own
        // out of a range of them, `%r<100>`; copies, which are what is left of phis;
        // and inline assembly writes to as many as it has results. A person writes the
        // same register again, or one that has a name.
        if flow.instructions.is_numbered(slot.register)
            && (written[slot.register.0 as usize] < 2
                || instruction.opcode == Opcode::Mov
                || function.is_inline_assembly(instruction))
        {
            continue;
        }
        let Some(operand) = function.body.operands.get(slot.operand as usize) else {
            continue;
        };
        let span = function.operand_span(instruction, operand);
        let name = function
            .context
            .source
            .get(span.start as usize..span.end as usize)
            .unwrap_or("the register");
        if is_result_of_call(flow, instruction) {
            continue;
        }
        findings
            .add(span, format!("nothing reads what this writes to `{name}`"))
            .help("leave the instruction out, or read the register that it writes");
    }
}
