//! What the analyses say of a register: where it is written, and what a value of it has
//! to do with the thread.

use std::collections::HashSet;

use super::references::{Declared, Symbol};
use super::tree::Tree;
use lint::flow::{RegisterOperand, ValueId, Variance};
use lint::{FunctionContext, ModuleContext};
use ptx::ast::{Instruction, Operand, Space};

/// More lines are counted.
const MAX_LINES: usize = 8;

/// `None` for what is no register of a function, or where the function has errors.
pub fn describe(tree: &Tree<'_>, symbol: &Symbol<'_>) -> Option<String> {
    let function = symbol.function?;
    match symbol.declared {
        Declared::Variable(variable) if variable.space == Space::Reg => {}
        _ => return None,
    }
    let check = &tree.document.settings.check;
    let module = ModuleContext::new(tree.module, tree.source, check.target, check.version);
    let context = module
        .functions()
        .find(|context| context.function.span == function.span)?;
    let start = |name: ptx::ast::Name<'_>| name.span(tree.source).start;
    let mentions: HashSet<u32> = symbol.mentions(tree).into_iter().map(start).collect();
    let here = start(symbol.reference.name);
    let (mut lines, mut value) = (Vec::new(), None);
    let flow = context.flow()?;
    for (_, step, instruction) in context.steps() {
        let place = |slot: RegisterOperand| place(&context, instruction, slot);
        for (slot, written) in flow.values.writes(&flow.instructions, step) {
            let Some(at) = place(slot).filter(|at| mentions.contains(at)) else {
                continue;
            };
            lines.push(tree.text.position(at).line + 1);
            value = value.or((at == here).then_some(written));
        }
        for (slot, read) in flow.values.reads(&flow.instructions, step) {
            value = value.or((place(slot) == Some(here)).then_some(read));
        }
    }
    lines.dedup();
    let mut text = match lines.as_slice() {
        [] => "written nowhere".to_owned(),
        [line] => format!("written in line {line}"),
        lines => {
            let shown: Vec<String> = lines.iter().take(MAX_LINES).map(u32::to_string).collect();
            let more = match lines.len().saturating_sub(MAX_LINES) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            format!("written in lines {}{more}", shown.join(", "))
        }
    };
    if let Some(dependence) = value.and_then(|value| dependence(&context, value)) {
        text += "; ";
        text += dependence;
    }
    Some(text + "\n")
}

/// Where a register operand stands.
fn place(
    context: &FunctionContext<'_, '_>,
    instruction: &Instruction,
    slot: RegisterOperand,
) -> Option<u32> {
    let name = match slot.operand {
        RegisterOperand::GUARD => context.body.guard(instruction)?.predicate,
        operand => context
            .body
            .operands
            .get(operand as usize)
            .and_then(Operand::name)?,
    };
    Some(name.span(context.context.source).start)
}

/// The threads that share a value, in words.
fn dependence(context: &FunctionContext<'_, '_>, value: ValueId) -> Option<&'static str> {
    Some(match context.divergence()?.of(value) {
        Variance::Block => "here it is not known to depend on the thread",
        Variance::Warp => "here it is the same in a warp, and differs between warps",
        Variance::Thread => "here it differs between threads",
    })
}
