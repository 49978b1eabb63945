//! The parser: tokens → syntax tree, with nom.
//!
//! Loops parse statements and items, and nom parsers their parts. On an error the loops report
//! it, skip to the end of the statement and continue, so that an error affects one statement.

mod declaration;
mod directive;
mod expression;
mod fast_path;
mod fast_statement;
mod initializer;
mod input;
mod instruction;
mod mnemonic;
mod module;
mod operand;
mod outline;
mod parts;
mod space;
mod statement;

use super::ast::{Module, Span};
use super::diagnostic::{Code, Diagnostic, Report};
use super::threads;
use super::token::{LexicalErrors, TokenKind, token_at};
pub(super) use mnemonic::BANKS;
use nom::Input;
pub(super) use outline::CheckBody;
pub use outline::{Bodies, read_outline};

/// The result of [`read`].
#[derive(Clone, Debug, PartialEq)]
pub struct Reading<'a> {
    /// The module, without what could not be parsed.
    pub module: Module<'a>,
    /// The syntax errors, in source order.
    pub diagnostics: Vec<Diagnostic>,
}

/// Parses a module. Any text gives a tree: errors are reported and omitted from it.
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

/// Like [`read`], on up to `threads` threads. A short text is read by the calling one, and so
/// is, once more, a text with errors: the result is that of `read`.
///
/// ```
/// use ptxkit_ptx::{read, read_parallel};
///
/// let kernels = (0..9000).map(|n| format!(".entry k{n}()\n{{\n\tbar.sync \t0;\n\tret;\n}}\n"));
/// let source = format!(".version 8.0\n.target sm_80\n{}", kernels.collect::<String>());
/// assert_eq!(read_parallel(&source, 4), read(&source));
/// ```
pub fn read_parallel(source: &str, threads: usize) -> Reading<'_> {
    let count = threads::parts(source.len(), threads);
    let whole = count > 1 && u32::try_from(source.len()).is_ok();
    match whole.then(|| parts::in_parts(source, count)).flatten() {
        Some(module) => Reading {
            module,
            diagnostics: Vec::new(),
        },
        None => read(source),
    }
}

/// Like [`read`], but adds the errors to a report.
pub fn read_into<'a>(source: &'a str, report: &mut Report) -> Module<'a> {
    if u32::try_from(source.len()).is_err() {
        let message = "the text exceeds 4 GiB";
        report.add(Diagnostic::new(Code::Limit, Span::default(), message));
        return Module::default();
    }
    let errors = LexicalErrors::default();
    let module = module::module(input::Tokens::new(source, &errors), report);
    report.append(errors.into_report());
    module
}

/// Parses only `.version` and `.target`, which are among the first tokens.
pub fn read_head<'a>(source: &'a str, report: &mut Report) -> Module<'a> {
    // The head ends after `.target` and its words.
    const TOKENS: usize = 64;
    if u32::try_from(source.len()).is_err() {
        return Module::default();
    }
    let errors = LexicalErrors::default();
    let words = input::Tokens::new(source, &errors)
        .iter_elements()
        .enumerate()
        .filter(|(index, token)| *index == TOKENS || token.kind == TokenKind::Word)
        .map(|(_, token)| token.span.start as usize)
        .nth(2);
    let head = words.and_then(|end| source.get(..end)).unwrap_or(source);
    module::module(input::Tokens::new(head, &errors), report)
}

/// The offset of the first token or lexical error after leading white space and comments; the
/// length of the text if there is none.
pub fn skip_comments(source: &str) -> usize {
    if u32::try_from(source.len()).is_err() {
        return 0;
    }
    let errors = LexicalErrors::default();
    let token = token_at(source, 0, &errors).1.start();
    let errors = errors.into_report().into_vec();
    errors.first().map_or(token, |error| error.span.start) as usize
}
