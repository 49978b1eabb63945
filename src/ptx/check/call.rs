//! Calls against the functions that they call.

use super::function::Checker;
use super::symbols::Symbol;
use crate::ptx::ast::{Function, Instruction, List, Operand, Span};
use crate::ptx::diagnostic::{Code, Diagnostic};

/// The parts of `call (returns), target, (arguments), prototype`.
#[derive(Default)]
struct Parts {
    returns: u32,
    arguments: u32,
    arguments_span: Option<Span>,
}

pub fn check<'a>(checker: &mut Checker<'_, '_, 'a>, instruction: &Instruction<'a>) {
    let operands = checker.body.list(instruction.operands);
    let mut parts = Parts::default();
    let mut target = None;
    for operand in operands {
        match (operand, target) {
            (Operand::Arguments(List { len, .. }, _), None) => parts.returns = *len,
            (Operand::Arguments(List { len, .. }, span), Some(_)) => {
                parts.arguments = *len;
                parts.arguments_span = Some(*span);
            }
            (Operand::Name(name), None) => target = Some(*name),
            _ => {}
        }
    }
    let Some(target) = target else {
        checker.report.add(Diagnostic::new(
            Code::Call,
            instruction.span,
            "this call names no function",
        ));
        return;
    };
    let Some(Symbol::Function(function)) = checker.symbol(target.text) else {
        return;
    };
    let source = checker.context.source;
    let mut wrong = |span, what: &str, wanted: usize, given: u32| {
        checker.report.add(
            Diagnostic::new(
                Code::Call,
                span,
                format!("`{}` {what} {wanted}, {given} given", target.text),
            )
            .help(declaration(function)),
        );
    };
    let target_span = target.span(source);
    let span = parts.arguments_span.unwrap_or(target_span);
    if !is_variadic(function) && parts.arguments as usize != function.params.len() {
        wrong(
            span,
            "has parameters:",
            function.params.len(),
            parts.arguments,
        );
    }
    if parts.returns as usize != function.returns.len() {
        wrong(
            target_span,
            "has results:",
            function.returns.len(),
            parts.returns,
        );
    }
}

/// `.param .b8 rest[]` at the end takes any number of arguments.
fn is_variadic(function: &Function<'_>) -> bool {
    function
        .params
        .last()
        .is_some_and(|last| last.dims.first() == Some(&None))
}

fn declaration(function: &Function<'_>) -> String {
    let list = |params: &[crate::ptx::ast::Variable<'_>]| {
        let types: Vec<_> = params.iter().map(|p| format!(".{}", p.ty.text())).collect();
        types.join(", ")
    };
    format!(
        "it is declared ({}) {} ({})",
        list(&function.returns),
        function.name.text,
        list(&function.params)
    )
}
