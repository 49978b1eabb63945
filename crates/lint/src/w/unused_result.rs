//! A result that nothing reads.

use std::cell::OnceCell;
use std::collections::HashSet;

use crate::{Check, Code, Findings, FunctionContext, Rule};
use ptx::ast::Statement;
use ptx::names::Opcode;

pub static RULE: Rule = Rule {
    code: Code::new('W', 102),
    name: "unused-result",
    summary: "What an instruction writes to its register is overwritten or forgotten before \
              anything reads it.",
    why: "The instruction has no other effect, so it does nothing. Often another register was \
          meant: the value that was computed goes nowhere, and what is used instead is old.\n\n\
          Results in registers of a range, `%r<100>`, that are mentioned nowhere else are no \
          finding: compilers number registers so, and leave such results behind.",
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

/// The registers that are declared one by one.
fn declared<'a>(function: &FunctionContext<'_, 'a>) -> HashSet<&'a str> {
    let statements = function.body.statements.iter();
    let names = statements.filter_map(|statement| match statement {
        Statement::Variable(variable) if variable.count.is_none() => Some(variable.name.text),
        _ => None,
    });
    names.collect()
}

fn check(function: &FunctionContext<'_, '_>, findings: &mut Findings) {
    let Some(flow) = function.flow() else {
        return;
    };
    let named = OnceCell::new();
    let mut written = vec![0_u8; flow.instructions.registers as usize];
    for (_, step, _) in function.steps() {
        for slot in flow.instructions.writes(step) {
            let count = &mut written[slot.register.0 as usize];
            *count = count.saturating_add(1);
        }
    }
    for (id, step, instruction) in function.steps() {
        let reached = flow.graph.is_reached(flow.graph.block_of(id));
        if !reached || !function.effect(step).pure {
            continue;
        }
        let mut writes = flow.values.writes(&flow.instructions, step).peekable();
        let Some((slot, _)) = writes.peek().copied() else {
            continue;
        };
        if writes.any(|(_, value)| flow.values.read_count(value) > 0) {
            continue;
        }
        // Compilers leave results that nobody wants, each in a register of its own
        // out of a range of them, `%r<100>`; a person writes the same register
        // again, or one that has a name.
        let alone = written[slot.register.0 as usize] < 2;
        let idle = matches!(instruction.opcode, Opcode::Mov | Opcode::Ld);
        let Some(operand) = function.body.operands.get(slot.operand as usize) else {
            continue;
        };
        let span = function.operand_span(instruction, operand);
        let name = function
            .context
            .source
            .get(span.start as usize..span.end as usize)
            .unwrap_or("the register");
        if alone && (idle || !named.get_or_init(|| declared(function)).contains(name)) {
            continue;
        }
        findings
            .add(span, format!("nothing reads what this writes to `{name}`"))
            .help("leave the instruction out, or read the register that it writes");
    }
}
