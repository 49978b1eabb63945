//! A module whose bodies are read one after the other, each in the memory of the last.

use super::fast_path::Skimmer;
use super::input::Tokens;
use super::module;
use super::statement::{BodyReader, Buffers};
use crate::ast::{Body, Function, Mnemonic, Module};
use crate::diagnostic::Report;
use crate::token::LexicalErrors;

/// The bodies of the functions of a text.
pub struct Bodies<'a> {
    source: &'a str,
    buffers: Buffers<'a>,
    skimmer: Skimmer<'a>,
}

/// What has a body checked: with all mnemonics so far, of which it says whether the check of
/// their instructions depends on the kinds and types of the operands alone.
pub type CheckBody<'c, 'a> = dyn FnMut(&Body<'a>, &[Mnemonic<'a>], &mut Vec<bool>) + 'c;

/// The items of a module, and the bodies of its functions; `None` where there are syntax errors
/// outside of those.
pub fn read_outline(source: &str) -> Option<(Module<'_>, Bodies<'_>)> {
    u32::try_from(source.len()).ok()?;
    let errors = LexicalErrors::default();
    let mut report = Report::with_limit(1);
    let module = module::outline(Tokens::new(source, &errors), &mut report);
    report.append(errors.into_report());
    let bodies = Bodies {
        source,
        buffers: Buffers::default(),
        skimmer: Skimmer::default(),
    };
    report.into_vec().is_empty().then_some((module, bodies))
}

impl<'a> Bodies<'a> {
    /// Has the body of a function checked, without instructions like others before; `false`
    /// where the body has syntax errors, or ends elsewhere than the outline has it.
    pub fn read(&mut self, function: &Function<'a>, check: &mut CheckBody<'_, 'a>) -> bool {
        let Some(passed) = &function.body else {
            return true;
        };
        let errors = LexicalErrors::default();
        let mut report = Report::with_limit(1);
        let open = Tokens::starting_at(self.source, passed.span.start, &errors);
        self.skimmer.begin(function);
        let mut reader = BodyReader::new(&mut report, &mut self.buffers);
        reader.skimmer = Some(&mut self.skimmer);
        let rest = reader.statements(open.skip());
        let whole =
            !reader.broken && reader.declared.is_empty() && rest.passed() == passed.span.end;
        report.append(errors.into_report());
        let understood = self.skimmer.end(&self.buffers.statements);
        if !whole || !understood || !report.into_vec().is_empty() {
            return false;
        }
        let buffers = &mut self.buffers;
        let mut body = Body {
            statements: std::mem::take(&mut buffers.statements),
            operands: std::mem::take(&mut buffers.pool.operands),
            ..*passed
        };
        let memoizable = &mut self.skimmer.memoizable;
        check(&body, buffers.mnemonics.list(), memoizable);
        body.statements.clear();
        body.operands.clear();
        (buffers.statements, buffers.pool.operands) = (body.statements, body.operands);
        true
    }
}
