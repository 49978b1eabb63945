//! Tokens → tree, with nom over tokens.
//!
//! Parsers of parts are nom's; statements and items are read by loops that
//! report a mistake, skip to the end of the statement and go on, so that one
//! mistake costs one statement.

mod bytes;
mod declaration;
mod directive;
mod expression;
mod initializer;
mod input;
mod instruction;
mod mnemonic;
mod module;
mod operand;
mod statement;
mod usual;

use super::ast::{Module, Span};
use super::diagnostic::{Code, Diagnostic, Report};
use super::token::{Faults, TokenKind, token_at};
pub(super) use mnemonic::BANKS;
use nom::Input;

/// What [`read`] made of a text.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading<'a> {
    /// All that could be read.
    pub module: Module<'a>,
    /// What could not, in the order of the text; empty if all could.
    pub diagnostics: Vec<Diagnostic>,
}

/// Reads a module. Any text gives a tree: mistakes are reported and left out.
///
/// ```
/// let reading = ptxkit_ptx::read(".version 8.0\n.target sm_80\n.entry k() { rte; }");
/// assert_eq!(reading.module.items.len(), 1);
/// assert_eq!(reading.diagnostics[0].help.as_deref(), Some("did you mean `ret`?"));
/// ```
pub fn read(source: &str) -> Reading<'_> {
    let mut report = Report::default();
    let module = read_into(source, &mut report);
    Reading {
        module,
        diagnostics: report.into_vec(),
    }
}

/// Like [`read`], with the mistakes added to a report.
pub fn read_into<'a>(source: &'a str, report: &mut Report) -> Module<'a> {
    if u32::try_from(source.len()).is_err() {
        let message = "the text is longer than 4 GiB";
        report.add(Diagnostic::new(Code::Limit, Span::default(), message));
        return Module::default();
    }
    let faults = Faults::default();
    let module = module::module(input::Tokens::new(source, &faults), report);
    report.append(faults.into_report());
    module
}

/// `.version` and `.target` alone, which stand in the first few tokens.
pub fn read_head<'a>(source: &'a str, report: &mut Report) -> Module<'a> {
    // What follows `.target` and its few words is no part of the head.
    const TOKENS: usize = 64;
    if u32::try_from(source.len()).is_err() {
        return Module::default();
    }
    let faults = Faults::default();
    let words = input::Tokens::new(source, &faults)
        .iter_elements()
        .enumerate()
        .filter(|(index, token)| *index == TOKENS || token.kind == TokenKind::Word)
        .map(|(_, token)| token.span.start as usize)
        .nth(2);
    let head = words.and_then(|end| source.get(..end)).unwrap_or(source);
    module::module(input::Tokens::new(head, &faults), report)
}

/// Where the text begins behind white space and comments, be it with a token or with
/// what is none; its end, where there is nothing else.
pub fn behind_comments(source: &str) -> usize {
    if u32::try_from(source.len()).is_err() {
        return 0;
    }
    let faults = Faults::default();
    let token = token_at(source, 0, &faults).1.start();
    let faults = faults.into_report().into_vec();
    faults.first().map_or(token, |fault| fault.span.start) as usize
}
