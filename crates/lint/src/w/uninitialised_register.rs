//! A register that is read before it is written.

use std::cell::OnceCell;
use std::collections::HashSet;

use crate::flow::{
    Definition, RegisterOperand, Uninitialized, ValueId, WitnessPaths, copied, is_observable,
};
use crate::{Check, Code, Findings, Flow, FunctionContext, Rule};
use ptx::ast::Span;

pub static RULE: Rule = Rule {
    code: Code::new('W', 101),
    name: "uninitialised-register",
    summary: "A register is read on a way where nothing has been written to it.",
    why: "Registers hold nothing in particular at the start of a function. ptxas takes what is \
          left there, and may give two reads of the same register different values. The code \
          works until something near it changes.\n\n\
          The rule speaks where one decision leads past the write, and what is read reaches a \
          branch, an address, or memory that others read. Compilers also copy what they never \
          use, the padding of a structure or the items beyond the end of a tile: that is no \
          finding, nor is a register of a range, `%r<100>`, stored in a vector beside others that \
          are written. (PTX ISA, \"State Spaces: Register State Space\".)",
    instead: "Write the register on every way to the read, or read another one. Writes under a \
              guard count where the read has the same guard.",
    bad: "\
.entry k(.param .u64 dst, .param .u32 count)
{
	.reg .pred p;
	.reg .b32 a, n;
	.reg .b64 out;
	ld.param.u64 out, [dst];
	cvta.to.global.u64 out, out;
	ld.param.u32 n, [count];
	setp.eq.s32 p, n, 0;
	@p bra DONE;
	mov.b32 a, 1;
DONE:
	st.global.b32 [out], a;
	ret;
}
",
    good: "\
.entry k(.param .u64 dst, .param .u32 count)
{
	.reg .pred p;
	.reg .b32 a, n;
	.reg .b64 out;
	ld.param.u64 out, [dst];
	cvta.to.global.u64 out, out;
	ld.param.u32 n, [count];
	setp.eq.s32 p, n, 0;
	mov.b32 a, 0;
	@p bra DONE;
	mov.b32 a, 1;
DONE:
	st.global.b32 [out], a;
	ret;
}
",
    default: true,
    check: Check::Function(check),
};

/// The `mov` that made the value, if one did.
fn copy_of(flow: &Flow<'_, '_>, value: ValueId) -> Option<Span> {
    let Some(Definition::Written(id)) = flow.values.definition(value) else {
        return None;
    };
    copied(&flow.instructions, &flow.values, id)?;
    Some(flow.instructions.get(id)?.opcode_span)
}

fn check(function: &FunctionContext<'_, '_>, findings: &mut Findings) {
    let (Some(flow), Some(uninitialized)) = (function.flow(), function.uninitialized()) else {
        return;
    };
    if uninitialized.is_empty() {
        return;
    }
    // The first read of a register says it all.
    let mut visited = HashSet::new();
    // Of the registers that one way leaves unwritten, the first says it all.
    let mut joins = HashSet::new();
    let ways = OnceCell::new();
    for (id, step) in flow.instructions.ids().zip(&flow.instructions.steps) {
        for (slot, value) in flow.values.reads(&flow.instructions, step) {
            if uninitialized.of(value) == Uninitialized::Never
                || slot.operand == RegisterOperand::RETURNED
                || copied(&flow.instructions, &flow.values, id).is_some()
            {
                continue;
            }
            let when = uninitialized.at(&flow.instructions, &flow.graph, &flow.values, value, id);
            let always = when == Uninitialized::Always;
            let ways = || ways.get_or_init(|| WitnessPaths::new(flow, uninitialized));
            let reached = |observer| always || ways().reach(value, observer);
            if when == Uninitialized::Never
                || visited.contains(&slot.register)
                || !(always || ways().exist(value, id))
                || !is_observable(function, flow, value, id, reached)
            {
                continue;
            }
            let Some(instruction) = flow.instructions.get(id) else {
                continue;
            };
            visited.insert(slot.register);
            if let Some(Definition::Phi(block)) = flow.values.definition(value)
                && !joins.insert(block)
            {
                continue;
            }
            let (name, span) = match (slot.operand, function.body.guard(instruction)) {
                (RegisterOperand::GUARD, Some(guard)) => (
                    guard.predicate.text,
                    guard.predicate.span(function.context.source),
                ),
                _ => match function.body.operands.get(slot.operand as usize) {
                    Some(operand) => {
                        let span = function.operand_span(instruction, operand);
                        let text = function.context.source;
                        let text = text.get(span.start as usize..span.end as usize);
                        (text.unwrap_or("a register"), span)
                    }
                    None => continue,
                },
            };
            let message = match when {
                Uninitialized::Always => {
                    format!("nothing is written to `{name}` before this reads it")
                }
                _ => format!("there is a way here on which nothing is written to `{name}`"),
            };
            let finding = findings.add(span, message);
            match copy_of(flow, value) {
                Some(line) => finding.help(format!(
                    "`{name}` is a copy, made in line {}: write what it is a copy of",
                    function.line(line)
                )),
                None => finding.help(format!("write `{name}` on every way that leads here")),
            };
        }
    }
}
