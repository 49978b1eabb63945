//! A function that returns what nobody wrote.

use crate::flow::{BlockId, Reference, RegisterOperand, Uninitialized};
use crate::{Check, Code, Findings, Flow, FunctionContext, Rule};
use ptx::ast::{FunctionKind, List, Operand, Space, Variable};
use ptx::names::Opcode;

pub static RULE: Rule = Rule {
    code: Code::new('W', 204),
    name: "return-value-not-set",
    summary: "A function returns on a way where its return value has not been written.",
    why: "The caller reads whatever is in the register or stack slot of the result.\n\n\
          A result in memory counts as written wherever an instruction names it; a way that no \
          data takes is a way all the same. (PTX ISA, \"Function Declarations and Definitions\" \
          and \"Control Flow Instructions: ret\".)",
    instead: "Write the return value before every `ret`.",
    bad: "\
.global .b32 last;
.func (.param .b32 sum) add(.param .b32 x)
{
	.reg .b32 a;
	ld.param.b32 a, [x];
	st.global.b32 [last], a;
	ret;
}
",
    good: "\
.func (.param .b32 sum) add(.param .b32 x)
{
	.reg .b32 a;
	ld.param.b32 a, [x];
	st.param.b32 [sum], a;
	ret;
}
",
    default: true,
    check: Check::Function(check),
};

fn check(function: &FunctionContext<'_, '_>, findings: &mut Findings) {
    if function.function.kind == FunctionKind::Entry || function.function.returns.is_empty() {
        return;
    }
    let Some(flow) = function.flow() else {
        return;
    };
    for returned in &function.function.returns {
        if returned.space == Space::Param {
            in_memory(function, flow, returned, findings);
        }
    }
    let Some(uninitialized) = function.uninitialized() else {
        return;
    };
    for (id, step, instruction) in function.steps() {
        for (slot, value) in flow.values.reads(&flow.instructions, step) {
            if slot.operand != RegisterOperand::RETURNED {
                continue;
            }
            let place = flow
                .instructions
                .returned()
                .iter()
                .position(|r| *r == slot.register);
            let Some(variable) = place.and_then(|at| function.function.returns.get(at)) else {
                continue;
            };
            let when = uninitialized.at(&flow.instructions, &flow.graph, &flow.values, value, id);
            if when != Uninitialized::Never {
                report(variable, instruction.opcode_span, findings);
            }
        }
    }
}

/// A return value in `.param` space: is there a way to `ret` past every store?
fn in_memory(
    function: &FunctionContext<'_, '_>,
    flow: &Flow<'_, '_>,
    returned: &Variable<'_>,
    findings: &mut Findings,
) {
    let graph = &flow.graph;
    let mut visited = vec![false; graph.blocks.len()];
    let mut open = vec![BlockId::ENTRY];
    while let Some(at) = open.pop() {
        if std::mem::replace(&mut visited[at.index()], true) {
            continue;
        }
        let mut set = false;
        for id in graph.blocks[at.index()].steps() {
            let Some(instruction) = flow.instructions.get(id) else {
                continue;
            };
            // Whatever names it may write it: a store, or a call that is given it.
            set |= names(function, flow, returned, instruction.operands);
            if instruction.opcode == Opcode::Ret && !set {
                report(returned, instruction.opcode_span, findings);
            }
        }
        if !set {
            open.extend(graph.successors(at));
        }
    }
}

/// Whether one of the operands is it, or a list with it.
fn names(
    function: &FunctionContext<'_, '_>,
    flow: &Flow<'_, '_>,
    returned: &Variable<'_>,
    operands: List,
) -> bool {
    (operands.start..operands.start + operands.len).any(|place| {
        let place = place as usize;
        match (
            flow.instructions.reference(place),
            function.body.operands.get(place),
        ) {
            (Reference::Variable(id), _) => std::ptr::eq(flow.instructions.variable(id), returned),
            (_, Some(Operand::Arguments(list, _))) => names(function, flow, returned, *list),
            _ => false,
        }
    })
}

fn report(variable: &Variable<'_>, span: ptx::ast::Span, findings: &mut Findings) {
    let name = variable.name.text;
    findings
        .add(
            span,
            format!("there is a way here on which the return value `{name}` is not written"),
        )
        .help(format!("write `{name}` before it"));
}
