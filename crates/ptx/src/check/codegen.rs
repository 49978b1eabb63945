//! Errors that ptxas reports only when it generates code for a whole program: too
//! much memory, undefined functions.
//!
//! The limits are the same for every target that ptxas 13.5 supports,
//! sm_75 to sm_121.

use std::collections::HashSet;

use crate::ast::{
    Body, DirectiveKind, Function, Initializer, Item, Linkage, Module, Name, Operand, Space,
    Statement, Variable,
};
use crate::diagnostic::{Code, Diagnostic, Report};
use crate::names::Opcode;
use crate::signature::{after, static_shared};

/// The limit for the `.shared` variables with a size that one kernel can reach, in bytes.
/// Dynamic shared memory is not counted.
const SHARED_BYTES: u64 = 48 << 10;

/// The limit for the `.const` variables of a module, in bytes.
const CONST_BYTES: u64 = 64 << 10;

/// The system calls; every other `.extern` function must be defined.
pub const SYSTEM: &[&str] = &[
    "vprintf",
    "malloc",
    "free",
    "__assertfail",
    "__profile",
    "__cuda_syscall_malloc",
    "__cuda_syscall_free",
    "__cuda_syscall_cp_async_bulk",
    "cnpGetParameterBuffer",
];

/// Checks a module as a whole program.
pub fn check<'a>(module: &Module<'a>, source: &'a str, report: &mut Report) {
    if let Some((32, span)) = module.address_size {
        report.add(
            Diagnostic::new(
                Code::Limit,
                span,
                "ptxas no longer supports 32-bit addresses",
            )
            .help("write `.address_size 64`, and pass pointers as `.u64`"),
        );
    }
    constants(module, source, report);
    for (kernel, bytes) in static_shared(module) {
        if bytes > SHARED_BYTES {
            let message = format!(
                "`{}` uses {bytes} bytes of shared memory, the limit is {SHARED_BYTES}",
                kernel.name.text
            );
            report.add(
                Diagnostic::new(Code::TooMuchMemory, kernel.name.span(source), message)
                    .help("use dynamic shared memory: declare `.extern .shared x[]`, and set its size at the launch"),
            );
        }
    }
    unresolved(module, source, report);
}

/// Reports the first `.const` variable that exceeds the limit. They are laid out one
/// after the other.
fn constants<'a>(module: &Module<'a>, source: &'a str, report: &mut Report) {
    let mut end = 0;
    for variable in variables(module).filter(|variable| variable.space == Space::Const) {
        let before = end;
        end = after(end, variable);
        if before <= CONST_BYTES && end > CONST_BYTES {
            let message = format!("the `.const` variables exceed the limit of {CONST_BYTES} bytes");
            report.add(
                Diagnostic::new(Code::TooMuchMemory, variable.name.span(source), message)
                    .help("move large tables to `.global` memory"),
            );
        }
    }
}

/// The variables of a module and of its functions, in the order of the text.
fn variables<'m, 'a>(module: &'m Module<'a>) -> impl Iterator<Item = &'m Variable<'a>> {
    module.items.iter().flat_map(|item| {
        let (own, body) = match item {
            Item::Variable(variable) => (Some(variable), None),
            Item::Function(function) => (None, function.body.as_ref()),
            Item::Directive(_) => (None, None),
        };
        let statements = body.map_or(&[][..], |body| &body.statements);
        let inner = statements.iter().filter_map(|statement| match statement {
            Statement::Variable(variable) => Some(variable.as_ref()),
            _ => None,
        });
        own.into_iter().chain(inner)
    })
}

/// Reports functions that are declared or called, but have no body in the module.
fn unresolved<'a>(module: &Module<'a>, source: &'a str, report: &mut Report) {
    let mut defined: HashSet<&str> = SYSTEM.iter().copied().collect();
    for item in &module.items {
        match item {
            Item::Function(function) if function.body.is_some() => {
                defined.insert(function.name.text);
            }
            Item::Directive(directive) => {
                if let DirectiveKind::Alias { name, .. } = &directive.kind {
                    defined.insert(name.text);
                }
            }
            _ => {}
        }
    }
    let mut external = HashSet::new();
    for item in &module.items {
        let Item::Function(Function { name, linkage, .. }) = item else {
            continue;
        };
        if *linkage == Linkage::Extern {
            external.insert(name.text);
        } else if defined.insert(name.text) {
            report.add(undefined(*name, source));
        }
    }
    // System calls can be called, but have no address.
    let mut missing = |name: Name<'a>, address: bool| {
        if external.contains(name.text) && (defined.insert(name.text) || address) {
            report.add(undefined(name, source));
        }
    };
    for item in &module.items {
        match item {
            Item::Function(Function {
                body: Some(body), ..
            }) => called(body, &mut missing),
            Item::Variable(Variable {
                init: Some(init), ..
            }) => addresses(init, &mut missing),
            _ => {}
        }
    }
}

fn undefined(name: Name<'_>, source: &str) -> Diagnostic {
    let message = format!("`{}` has no body in this module", name.text);
    Diagnostic::new(Code::Unresolved, name.span(source), message)
        .help("define it here, or link the module with one that does")
}

/// The functions that a body calls by name, and those whose address it takes.
fn called<'a>(body: &Body<'a>, found: &mut impl FnMut(Name<'a>, bool)) {
    for statement in &body.statements {
        let Statement::Instruction(instruction) = statement else {
            continue;
        };
        if !matches!(instruction.opcode, Opcode::Call | Opcode::Mov) {
            continue;
        }
        for operand in body.list(instruction.operands) {
            if let Operand::Name(name) = operand {
                found(*name, instruction.opcode == Opcode::Mov);
            }
        }
    }
}

fn addresses<'a>(init: &Initializer<'a>, found: &mut impl FnMut(Name<'a>, bool)) {
    match init {
        Initializer::Address { name, .. } => found(*name, true),
        // The parser bounds the nesting of lists.
        Initializer::List(list) => list.iter().for_each(|value| addresses(value, found)),
        _ => {}
    }
}
