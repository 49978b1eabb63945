//! Tokens → tree, with nom over tokens.
//!
//! Parsers of parts are nom's; statements and items are read by loops that
//! report a mistake, skip to the end of the statement and go on, so that one
//! mistake costs one statement.

mod declaration;
mod directive;
mod expression;
mod initializer;
mod input;
mod mnemonic;
mod module;
mod operand;
mod statement;

use super::ast::{Module, Span};
use super::diagnostic::{Code, Diagnostic, Report};
use super::token::{Lexer, TokenKind, tokenize};

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
/// let reading = ptxkit::ptx::read(".version 8.0\n.target sm_80\n.entry k() { rte; }");
/// assert_eq!(reading.module.items.len(), 1);
/// assert_eq!(reading.diagnostics[0].help.as_deref(), Some("did you mean `ret`?"));
/// ```
pub fn read(source: &str) -> Reading<'_> {
    let mut report = Report::default();
    if u32::try_from(source.len()).is_err() {
        let message = "the text is longer than 4 GiB";
        report.add(Diagnostic::new(Code::Limit, Span::default(), message));
        return Reading {
            module: Module::default(),
            diagnostics: report.into_vec(),
        };
    }
    let tokens = tokenize(source, &mut report);
    let module = module::module(input::Tokens::new(source, &tokens), &mut report);
    Reading {
        module,
        diagnostics: report.into_vec(),
    }
}

/// `.version` and `.target` alone, which stand in the first few tokens.
pub(crate) fn read_head<'a>(source: &'a str, report: &mut Report) -> Module<'a> {
    // What follows `.target` and its few words is no part of the head.
    const TOKENS: usize = 64;
    let mut words = 0;
    let tokens: Vec<_> = Lexer::new(source, report)
        .take(TOKENS)
        .take_while(|token| {
            words += u32::from(token.kind == TokenKind::Word);
            words <= 2
        })
        .collect();
    module::module(input::Tokens::new(source, &tokens), report)
}
