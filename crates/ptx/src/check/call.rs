//! Checks calls against their callee: a function, or for an indirect call a
//! prototype, `.calltargets` or a table of functions.

use super::function::Checker;
use super::symbols::{Role, Symbol};
use crate::ast::{Function, Initializer, Instruction, Name, Operand, Space, Span, Variable};
use crate::diagnostic::{Code, Diagnostic};
use crate::names::Type;

/// The parts of `call (results), target, (arguments), prototype`.
struct Call<'o, 'a> {
    results: &'o [Operand<'a>],
    target: Name<'a>,
    arguments: &'o [Operand<'a>],
    prototype: Option<Name<'a>>,
}

/// The signature of a callee.
#[derive(Clone, Copy)]
struct Signature<'m, 'a> {
    returns: &'m [Variable<'a>],
    params: &'m [Variable<'a>],
}

impl<'m, 'a> From<&'m Function<'a>> for Signature<'m, 'a> {
    fn from(function: &'m Function<'a>) -> Self {
        Signature {
            returns: &function.returns,
            params: &function.params,
        }
    }
}

pub fn check<'a>(checker: &mut Checker<'_, '_, 'a>, instruction: &Instruction) {
    if let Err(mut wrong) = call(checker, instruction) {
        wrong.span = anchored(checker, instruction, wrong.span);
        checker.report.add(wrong);
    }
}

fn call<'a>(checker: &Checker<'_, '_, 'a>, instruction: &Instruction) -> Result<(), Diagnostic> {
    let call = parts(checker, instruction)?;
    let source = checker.context.source;
    let wrong = |name: Name<'a>, message: &str| {
        let message = format!("`{}` {message}", name.text);
        Err(Diagnostic::new(Code::Call, name.span(source), message))
    };
    let Some(target) = checker.symbol(call.target.text) else {
        // Undeclared names are already reported.
        return Ok(());
    };
    let Some(prototype) = call.prototype else {
        return match target {
            Symbol::Function(function) if callable(function) => {
                check_signature(checker, &call, function.into())
            }
            Symbol::Register { .. } => wrong(
                call.target,
                "is a register: the call needs a prototype or a table of functions",
            ),
            _ => wrong(call.target, "is not a function that can be called"),
        };
    };
    use Type::*;
    let address = matches!(
        target,
        Symbol::Register {
            ty: B32 | U32 | S32 | B64 | U64 | S64,
            vector: 1
        }
    );
    if !address {
        return wrong(
            call.target,
            "is not a register that holds the address of a function",
        );
    }
    match checker.symbol(prototype.text) {
        Some(Symbol::Prototype(prototype)) => {
            let signature = Signature {
                returns: &prototype.returns,
                params: &prototype.params,
            };
            check_signature(checker, &call, signature)
        }
        Some(Symbol::Targets(targets)) if targets.calls => {
            functions(checker, &call, targets.targets.iter().copied())
        }
        Some(Symbol::Variable(declared, _)) if !declared.dims.is_empty() => {
            let list = match &declared.init {
                Some(Initializer::List(list)) => list.as_slice(),
                _ => &[],
            };
            let mut names = list.iter().filter_map(|value| match value {
                Initializer::Address { name, .. } => Some(*name),
                _ => None,
            });
            let is_function =
                |name: &Name<'a>| matches!(checker.symbol(name.text), Some(Symbol::Function(_)));
            if names.clone().next().is_none() || !names.all(|name| is_function(&name)) {
                return wrong(prototype, "is not a table of functions");
            }
            let names = list.iter().filter_map(|value| match value {
                Initializer::Address { name, .. } => Some(*name),
                _ => None,
            });
            functions(checker, &call, names)
        }
        None => Ok(()),
        Some(_) => wrong(prototype, "is neither a prototype nor a table of functions"),
    }
}

/// The start of a call in ptxas's messages: its modifiers or operands.
pub fn operands_start<'a>(checker: &Checker<'_, '_, 'a>, instruction: &Instruction) -> Option<u32> {
    if !checker.modifiers(instruction).as_slice().is_empty() {
        return Some(instruction.opcode_span.start);
    }
    let operands = checker.body.list(instruction.operands);
    Some(operands.first()?.span(checker.context.source).start)
}

/// The span as ptxas reports it: compilers write a call on several lines, and an error
/// on a later line is reported at the start of the operands.
fn anchored<'a>(checker: &Checker<'_, '_, 'a>, instruction: &Instruction, span: Span) -> Span {
    let Some(start) = operands_start(checker, instruction) else {
        return span;
    };
    let before = checker
        .context
        .source
        .get(start as usize..span.start as usize);
    if before.is_some_and(|before| before.contains('\n')) {
        return Span { start, ..span };
    }
    span
}

/// Splits the operands of a call.
fn parts<'o, 'a>(
    checker: &Checker<'_, 'o, 'a>,
    instruction: &Instruction,
) -> Result<Call<'o, 'a>, Diagnostic> {
    let operands = checker.body.list(instruction.operands);
    let (results, rest) = match operands {
        [Operand::Arguments(list, _), rest @ ..] => (checker.body.list(*list), rest),
        rest => (&[][..], rest),
    };
    let none = || {
        Diagnostic::new(Code::Call, instruction.span, "this call has no function")
            .help("write `call (results), function, (arguments);`")
    };
    let Some((Operand::Name(target), rest)) = rest.split_first() else {
        return Err(none());
    };
    let (arguments, rest) = match rest {
        [Operand::Arguments(list, _), rest @ ..] => (checker.body.list(*list), rest),
        rest => (&[][..], rest),
    };
    let prototype = match rest {
        [] => None,
        [Operand::Name(prototype)] => Some(*prototype),
        [other, ..] => {
            let span = other.span(checker.context.source);
            let message = "unexpected operand after the arguments or the prototype of a call";
            return Err(Diagnostic::new(Code::Call, span, message));
        }
    };
    Ok(Call {
        results,
        target: *target,
        arguments,
        prototype,
    })
}

fn callable(function: &Function<'_>) -> bool {
    function.kind == crate::ast::FunctionKind::Func
}

/// Checks a call with several possible callees against each.
fn functions<'a>(
    checker: &Checker<'_, '_, 'a>,
    call: &Call<'_, 'a>,
    names: impl Iterator<Item = Name<'a>>,
) -> Result<(), Diagnostic> {
    for name in names {
        if let Some(Symbol::Function(function)) = checker.symbol(name.text) {
            check_signature(checker, call, function.into())?;
        }
    }
    Ok(())
}

/// Checks the results and arguments of a call against a signature.
fn check_signature<'a>(
    checker: &Checker<'_, '_, 'a>,
    call: &Call<'_, 'a>,
    signature: Signature<'_, 'a>,
) -> Result<(), Diagnostic> {
    let source = checker.context.source;
    let lists = [
        (call.arguments, signature.params, "parameters"),
        (call.results, signature.returns, "results"),
    ];
    for (operands, expected, what) in lists {
        // A trailing parameter without a size is optional.
        let min = match expected.split_last() {
            Some((last, others)) if unsized_array(last) => others.len(),
            _ => expected.len(),
        };
        if operands.len() < min || operands.len() > expected.len() {
            let span = match (operands.first(), operands.last()) {
                (Some(first), Some(last)) => Span {
                    start: first.span(source).start,
                    end: last.span(source).end,
                },
                _ => call.target.span(source),
            };
            let message = format!(
                "`{}` has {} {what}, found {}",
                call.target.text,
                expected.len(),
                operands.len()
            );
            return Err(Diagnostic::new(Code::Call, span, message).help(describe(signature)));
        }
    }
    for (operand, param) in call.arguments.iter().zip(signature.params) {
        passed(checker, operand, param, false).map_err(|wrong| wrong.help(describe(signature)))?;
    }
    for (operand, result) in call.results.iter().zip(signature.returns) {
        passed(checker, operand, result, true).map_err(|wrong| wrong.help(describe(signature)))?;
    }
    Ok(())
}

/// The class of a type in a call; types of the same class match.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    /// Untyped: `.b32`, vectors.
    Bits,
    Integer,
    Float,
    Predicate,
    /// `.f16x2`, which ptxas passes as any 32 bits.
    Packed,
}

fn class(ty: Type, vector: u8) -> Class {
    use Type::*;
    match ty {
        _ if vector > 1 => Class::Bits,
        Pred => Class::Predicate,
        U8 | U16 | U32 | U64 | S8 | S16 | S32 | S64 => Class::Integer,
        F16 | F32 | F64 => Class::Float,
        F16x2 => Class::Packed,
        _ => Class::Bits,
    }
}

/// What a call passes: its class, size and alignment. Arrays have no class.
#[derive(Clone, Copy)]
struct Passed {
    class: Option<Class>,
    /// `None` for an array without a size.
    bytes: Option<u64>,
    align: u64,
    space: Space,
}

impl Passed {
    fn of(variable: &Variable<'_>) -> Passed {
        let Variable { ty, vector, .. } = *variable;
        let element = ty.bytes() * u64::from(vector);
        let (class, bytes) = match variable.dims.first() {
            None => (Some(class(ty, vector)), Some(element)),
            Some(None | Some(0)) => (None, None),
            Some(Some(size)) => (None, Some(element.saturating_mul(*size))),
        };
        Passed {
            class,
            bytes,
            // Predicates have no size.
            align: alignment(variable).max(1),
            space: variable.space,
        }
    }

    fn register(ty: Type, vector: u8) -> Passed {
        let element = ty.bytes() * u64::from(vector);
        Passed {
            class: Some(class(ty, vector)),
            bytes: Some(element),
            align: element.max(1),
            space: Space::Reg,
        }
    }

    /// Why `argument` cannot be passed to a parameter of this kind.
    fn mismatch(self, argument: Passed) -> Option<&'static str> {
        let same_class = match (self.class, argument.class) {
            (None, None) => true,
            (Some(Class::Packed), Some(_)) | (Some(_), Some(Class::Packed)) => {
                let float = |class| class == Some(Class::Float);
                !(float(self.class) && float(argument.class)) || self.bytes == argument.bytes
            }
            (Some(Class::Predicate), Some(other)) => other == Class::Predicate,
            (Some(_), Some(Class::Predicate)) => false,
            (Some(Class::Bits), Some(_)) | (Some(_), Some(Class::Bits)) => true,
            (Some(one), Some(other)) => one == other,
            _ => false,
        };
        let same_size = self.bytes.is_none() || self.bytes == argument.bytes;
        if !same_class || !same_size {
            return Some("has another type than");
        }
        if self.align != argument.align {
            return Some("has another alignment than");
        }
        if self.class.is_none() && self.space != argument.space {
            return Some("is in another state space than");
        }
        None
    }
}

/// The alignment in bytes: that of `.align`, but at least the size of an element.
pub fn alignment(variable: &Variable<'_>) -> u64 {
    let element = variable.ty.bytes() * u64::from(variable.vector);
    element.max(variable.align.map_or(1, u64::from)).max(1)
}

fn unsized_array(variable: &Variable<'_>) -> bool {
    matches!(variable.dims.first(), Some(None | Some(0)))
}

/// Checks one argument or result against its parameter.
fn passed<'a>(
    checker: &Checker<'_, '_, 'a>,
    operand: &Operand<'a>,
    formal: &Variable<'a>,
    result: bool,
) -> Result<(), Diagnostic> {
    let source = checker.context.source;
    let wrong = |message: String| Err(Diagnostic::new(Code::Call, operand.span(source), message));
    let expected = Passed::of(formal);
    let constant = match operand {
        Operand::Integer(_) => !matches!(
            expected.class,
            None | Some(Class::Float | Class::Predicate | Class::Packed)
        ),
        Operand::Float(_) => matches!(expected.class, Some(Class::Float | Class::Bits)),
        Operand::Sink(_) => result,
        Operand::Name(name) => {
            let argument = match checker.symbol(name.text) {
                Some(Symbol::Register { ty, vector }) => Passed::register(ty, vector),
                Some(Symbol::Variable(declared, Role::Own)) if declared.space == Space::Param => {
                    Passed::of(declared)
                }
                Some(Symbol::Variable(declared, _)) if declared.space == Space::Param => {
                    return wrong(format!(
                        "`{}` is a parameter of this function: load it, and pass the loaded value",
                        name.text
                    ));
                }
                None => return Ok(()),
                Some(_) => {
                    return wrong(format!(
                        "`{}` is neither a register nor a `.param` variable",
                        name.text
                    ));
                }
            };
            return match expected.mismatch(argument) {
                None => Ok(()),
                Some(why) => wrong(format!(
                    "`{}` {why} the {} at this position",
                    name.text,
                    if result { "result" } else { "parameter" },
                )),
            };
        }
        _ => false,
    };
    if constant {
        return Ok(());
    }
    wrong("a call cannot pass this operand".to_owned())
}

fn describe(signature: Signature<'_, '_>) -> String {
    let list = |params: &[Variable<'_>]| {
        let types: Vec<_> = params.iter().map(|p| format!(".{}", p.ty.text())).collect();
        types.join(", ")
    };
    format!(
        "the callee takes ({}) and returns ({})",
        list(signature.params),
        list(signature.returns)
    )
}
