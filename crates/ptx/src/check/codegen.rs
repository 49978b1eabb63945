//! Errors that ptxas reports only when it generates code for a whole program: too
//! much memory, undefined functions.
//!
//! The limits are the same for every target that ptxas 13.5 supports,
//! sm_75 to sm_121.

use std::collections::{HashMap, HashSet};

use crate::ast::{
    AddressBase, Body, DirectiveKind, Function, Initializer, Item, Linkage, Module, Name, Operand,
    Space, Statement, Variable,
};
use crate::diagnostic::{Code, Diagnostic, Report};
use crate::names::{Modifier, Opcode};
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
    unresolved_variables(module, source, report);
    for item in &module.items {
        match item {
            Item::Directive(directive) => {
                if let DirectiveKind::Pragma(strings) = &directive.kind {
                    pragmas(strings, source, report);
                }
            }
            Item::Function(Function {
                body: Some(body), ..
            }) => {
                results_of_calls(body, source, report);
                narrow_conversions(module, body, report);
            }
            _ => {}
        }
    }
}

/// Reports the words that ptxas does not take outside of functions.
fn pragmas(strings: &[Name<'_>], source: &str, report: &mut Report) {
    let known =
        |string: &&Name<'_>| string.text == "nounroll" || string.text.starts_with("abi_param_reg");
    for string in strings.iter().filter(|string| !known(string)) {
        let message = format!("ptxas knows no pragma `{}` of a module", string.text);
        report.add(
            Diagnostic::new(Code::UnknownDirective, string.span(source), message)
                .help("move it into a function, where ptxas ignores unknown pragmas"),
        );
    }
}

/// Reports `.extern` variables without a size that nothing defines. ptxas takes others for
/// definitions.
fn unresolved_variables(module: &Module<'_>, source: &str, report: &mut Report) {
    let outer = || {
        module.items.iter().filter_map(|item| match item {
            Item::Variable(variable) => Some(variable),
            _ => None,
        })
    };
    let is_extern = |variable: &Variable<'_>| variable.linkage == Linkage::Extern;
    for variable in outer().filter(|variable| is_extern(variable)) {
        let unsized_array = variable.dims.contains(&None);
        let name = variable.name;
        let defines = |other: &Variable<'_>| !is_extern(other) && other.name.text == name.text;
        if variable.space != Space::Shared && unsized_array && !outer().any(defines) {
            let message = format!("`{}` has no definition in this module", name.text);
            report.add(
                Diagnostic::new(Code::Unresolved, name.span(source), message)
                    .help("define it here, or link the module with one that does"),
            );
        }
    }
}

/// Reports loads of the parameter of a call that no earlier call returns.
fn results_of_calls(body: &Body<'_>, source: &str, report: &mut Report) {
    // Of each parameter that the body has declared, whether a call has returned it.
    let mut returned: HashMap<&str, bool> = HashMap::new();
    for statement in &body.statements {
        let instruction = match statement {
            Statement::Variable(variable) if variable.space == Space::Param => {
                returned.insert(variable.name.text, false);
                continue;
            }
            Statement::Instruction(instruction) => instruction,
            _ => continue,
        };
        match (instruction.opcode, body.list(instruction.operands)) {
            (Opcode::Call, [Operand::Arguments(results, _), _, ..]) => {
                for result in body.list(*results) {
                    if let Operand::Name(name) = result
                        && let Some(returned) = returned.get_mut(name.text)
                    {
                        *returned = true;
                    }
                }
            }
            (
                Opcode::Ld,
                [
                    ..,
                    Operand::Address {
                        base: AddressBase::Name(name),
                        ..
                    },
                ],
            ) if returned.get(name.text) == Some(&false) => {
                let message = format!("no call before this returns `{}`", name.text);
                report.add(Diagnostic::new(
                    Code::StateSpace,
                    name.span(source),
                    message,
                ));
            }
            _ => {}
        }
    }
}

/// Reports `cvta` of 32 bits.
fn narrow_conversions(module: &Module<'_>, body: &Body<'_>, report: &mut Report) {
    if !matches!(module.address_size, Some((64, _))) {
        return;
    }
    for statement in &body.statements {
        let Statement::Instruction(instruction) = statement else {
            continue;
        };
        if instruction.opcode == Opcode::Cvta
            && module.mnemonic(instruction).modifiers.has(Modifier::U32)
        {
            let message = "ptxas compiles only 64-bit generic addresses";
            report.add(
                Diagnostic::new(Code::OperandType, instruction.span, message)
                    .help("use `cvta` of `.u64`"),
            );
        }
    }
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
