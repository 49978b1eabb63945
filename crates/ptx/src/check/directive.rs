//! Directives in functions, and pragmas: checks the names that they use.

use std::collections::HashSet;

use super::function::Checker;
use super::symbols::Symbol;
use super::{head, variable};
use crate::ast::{FunctionKind, Location, Name, Place, Prototype, Targets};
use crate::diagnostic::{Code, Diagnostic, Report};
use crate::features::PRAGMAS;

/// Checks the strings of a `.pragma`. ptxas ignores unknown words.
pub fn pragma(strings: &[Name<'_>], in_body: bool, source: &str, report: &mut Report) {
    for string in strings {
        let mut words = string.text.split_whitespace();
        let of_functions = |word: &&str| PRAGMAS.iter().any(|(name, _)| name == word);
        let Some(word) = words.next().filter(of_functions) else {
            continue;
        };
        let message = if !in_body {
            format!("`{word}` is only allowed inside a function")
        } else if word == "frequency" && words.next().is_none_or(|n| n.parse::<u64>().is_err()) {
            "`frequency` takes a number".to_owned()
        } else {
            continue;
        };
        report.add(Diagnostic::new(
            Code::UnknownDirective,
            string.span(source),
            message,
        ));
    }
}

/// The locations of earlier `.loc` directives of a function.
#[derive(Debug, Default)]
pub struct Places {
    known: HashSet<(u32, u32, u32)>,
    /// Not yet in `known`: many functions have no inlined code.
    new: Vec<(u32, u32, u32)>,
}

impl Places {
    fn add(&mut self, place: Place) {
        self.new.push((place.file, place.line, place.column));
    }

    fn has(&mut self, place: Place) -> bool {
        self.known.extend(self.new.drain(..));
        self.known.contains(&(place.file, place.line, place.column))
    }
}

/// Checks that `inlined_at` names the place of an earlier `.loc`.
pub fn location(location: &Location<'_>, places: &mut Places, report: &mut Report) {
    if let Some(inlined) = &location.inlined
        && !places.has(inlined.at)
    {
        report.add(Diagnostic::new(
            Code::Undeclared,
            location.span,
            "no earlier `.loc` has the location of `inlined_at`",
        ));
    }
    places.add(location.place);
}

/// Checks that `.branchtargets` are labels and `.calltargets` functions.
pub fn targets<'a>(checker: &mut Checker<'_, '_, 'a>, targets: &Targets<'a>) {
    for target in &targets.targets {
        if !checker.declared(*target) {
            continue;
        }
        let (fits, expected) = match checker.symbol(target.text) {
            Some(Symbol::Function(_)) => (targets.calls, "label"),
            Some(Symbol::Label | Symbol::Targets(_) | Symbol::Prototype(_)) => {
                (!targets.calls, "function")
            }
            _ => (false, if targets.calls { "function" } else { "label" }),
        };
        if !fits {
            checker.report.add(Diagnostic::new(
                Code::OperandKind,
                target.span(checker.context.source),
                format!("`{}` is not a {expected}", target.text),
            ));
        }
    }
}

pub fn prototype(checker: &mut Checker<'_, '_, '_>, prototype: &Prototype<'_>) {
    let context = checker.context;
    let report = &mut *checker.report;
    for variable in prototype.returns.iter().chain(&prototype.params) {
        variable::check(
            variable,
            variable::DeclarationPlace::Prototype,
            context,
            report,
        );
    }
    variable::several_results(&prototype.returns, report);
    let kind = FunctionKind::Func;
    head::directives(&prototype.directives, kind, context, report);
    let noreturn = prototype.directives.iter().find(|d| d.name == "noreturn");
    if let (Some(noreturn), false) = (noreturn, prototype.returns.is_empty()) {
        report.add(Diagnostic::new(
            Code::UnknownDirective,
            noreturn.span,
            "a function with results returns",
        ));
    }
}
