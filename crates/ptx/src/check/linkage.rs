//! Checks the declarations of each name of a module against one another (PTX ISA,
//! "Linking Directives").

use std::collections::HashSet;

use super::call::alignment;
use crate::ast::{Function, FunctionKind, Linkage, Name, Span, Variable};
use crate::diagnostic::{Code, Diagnostic, Report};
use crate::name_map::{NameMap, Seed};

/// The declaration of a name.
#[derive(Clone, Copy, Debug)]
enum Declaration<'m, 'a> {
    Variable(&'m Variable<'a>),
    Function(&'m Function<'a>),
}

/// The names declared so far in a module.
#[derive(Debug, Default)]
pub struct Declarations<'m, 'a> {
    known: NameMap<'a, Declaration<'m, 'a>>,
    aliases: HashSet<&'a str, Seed>,
}

impl<'m, 'a> Declarations<'m, 'a> {
    pub fn variable(&mut self, variable: &'m Variable<'a>, source: &str, report: &mut Report) {
        let name = variable.name;
        let wrong = match self.known.get(name.text) {
            None => None,
            Some(Declaration::Function(_)) => Some("is already declared as a function"),
            Some(Declaration::Variable(before)) => match (before.linkage, variable.linkage) {
                (Linkage::Extern, Linkage::None) => {
                    Some("is `.extern`, so its definition must be `.visible` or `.weak`")
                }
                (Linkage::Extern, _) | (_, Linkage::Extern) if same_shape(before, variable) => None,
                (Linkage::Extern, _) | (_, Linkage::Extern) => {
                    Some("is already declared with another type")
                }
                _ => Some("is already declared"),
            },
        };
        match wrong {
            Some(wrong) => duplicate(name, wrong, source, report),
            None => {
                // The definition of a variable replaces its `.extern` declaration.
                let keep =
                    variable.linkage == Linkage::Extern && self.known.contains_key(name.text);
                if !keep {
                    self.known
                        .insert(name.text, Declaration::Variable(variable));
                }
            }
        }
    }

    pub fn function(&mut self, function: &'m Function<'a>, report: &mut Report) {
        let name = function.name;
        // The end of the head, which may have several lines.
        let end = match &function.body {
            Some(body) => body.span.start,
            None => function.span.end.saturating_sub(1),
        };
        let mut wrong = |span, wrong: &str| {
            let message = format!("`{}` {wrong}", name.text);
            report.add(Diagnostic::new(Code::Duplicate, span, message));
        };
        if let Some(body) = &function.body
            && function.linkage == Linkage::Extern
        {
            let end = body.span.end;
            let brace = Span {
                start: end.saturating_sub(1),
                end,
            };
            wrong(brace, "is `.extern`, but has a body");
        }
        let conflict = match self.known.get(name.text) {
            None => None,
            Some(Declaration::Variable(_)) => Some("is already declared as a variable"),
            Some(Declaration::Function(before)) => conflict(before, function),
        };
        if let Some(conflict) = conflict {
            let end = Span {
                start: end,
                end: end + 1,
            };
            wrong(end, conflict);
        }
        self.known
            .insert(name.text, Declaration::Function(function));
    }

    /// `.alias alias, function;`
    pub fn alias(&mut self, alias: Name<'a>, name: Name<'a>, source: &str, report: &mut Report) {
        let (Some(new), Some(old)) = (
            self.aliasable(alias, source, report),
            self.aliasable(name, source, report),
        ) else {
            return;
        };
        let wrong = if new.body.is_some() {
            "has a body, so it cannot be an alias"
        } else if matches!(old.linkage, Linkage::Extern | Linkage::Weak) {
            "cannot be an alias of a function that other modules may define"
        } else if !self.aliases.insert(alias.text) {
            "is already an alias"
        } else if signature_difference(new, old).is_some() {
            "has other parameters than the aliased function"
        } else if noreturn(new) != noreturn(old) {
            "and its alias must both be `.noreturn`, or neither"
        } else {
            return;
        };
        duplicate(alias, wrong, source, report);
    }

    /// The function of this name, if it can have or be an alias.
    fn aliasable(
        &self,
        name: Name<'a>,
        source: &str,
        report: &mut Report,
    ) -> Option<&'m Function<'a>> {
        let (code, wrong) = match self.known.get(name.text) {
            Some(Declaration::Function(function)) if function.kind == FunctionKind::Func => {
                return Some(function);
            }
            Some(Declaration::Function(_)) => (
                Code::OperandKind,
                "is a kernel: kernels cannot have aliases",
            ),
            Some(Declaration::Variable(_)) => (Code::OperandKind, "is a variable, not a function"),
            None => (Code::Undeclared, "is not declared"),
        };
        let message = format!("`{}` {wrong}", name.text);
        report.add(Diagnostic::new(code, name.span(source), message));
        None
    }
}

fn duplicate(name: Name<'_>, wrong: &str, source: &str, report: &mut Report) {
    report.add(Diagnostic::new(
        Code::Duplicate,
        name.span(source),
        format!("`{}` {wrong}", name.text),
    ));
}

/// Whether the dimensions match. An omitted first dimension matches any.
fn same_shape(a: &Variable<'_>, b: &Variable<'_>) -> bool {
    let dims = match (a.dims.split_first(), b.dims.split_first()) {
        (None, None) => true,
        (Some((a, inner_a)), Some((b, inner_b))) => {
            inner_a == inner_b && (a == b || a.is_none() || b.is_none())
        }
        _ => false,
    };
    dims && a.ty == b.ty && a.vector == b.vector
}

/// Why a declaration of a function conflicts with an earlier one.
fn conflict(before: &Function<'_>, now: &Function<'_>) -> Option<&'static str> {
    if before.kind != now.kind {
        return Some("is declared both as a kernel and as a function");
    }
    if before.body.is_some() {
        return Some("is declared after its body");
    }
    let linkage = match (before.linkage, now.linkage) {
        (Linkage::Extern, Linkage::Extern) if now.body.is_some() => false,
        (Linkage::Visible | Linkage::Weak, Linkage::None) => true,
        (before, now) => before == now,
    };
    if !linkage {
        return Some("is already declared with another linkage");
    }
    if noreturn(before) != noreturn(now) {
        return Some("must be `.noreturn` in both declarations, or in neither");
    }
    signature_difference(before, now)
}

fn noreturn(function: &Function<'_>) -> bool {
    function.directives.iter().any(|d| d.name == "noreturn")
}

/// The difference between the parameters and results of two functions.
fn signature_difference(a: &Function<'_>, b: &Function<'_>) -> Option<&'static str> {
    if a.params.len() != b.params.len() || a.returns.len() != b.returns.len() {
        return Some("is already declared with another number of parameters");
    }
    let params = a.params.iter().zip(&b.params);
    for (a, b) in params.chain(a.returns.iter().zip(&b.returns)) {
        if a.space != b.space {
            return Some("is already declared with another state space of a parameter");
        }
        if a.ty != b.ty || a.vector != b.vector || a.dims != b.dims {
            return Some("is already declared with another type of a parameter");
        }
        if alignment(a) != alignment(b) {
            return Some("is already declared with another alignment of a parameter");
        }
    }
    None
}
