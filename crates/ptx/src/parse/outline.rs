//! A module whose bodies are read one after the other, each in the memory of the last.

use super::input::Tokens;
use super::module;
use super::statement::{BodyReader, Buffers};
use crate::ast::{Body, Function, Mnemonic, Module};
use crate::diagnostic::Report;
use crate::token::LexicalErrors;

/// The bodies of the functions of a text, which are read one after the other.
pub struct Bodies<'a> {
    source: &'a str,
    buffers: Buffers<'a>,
}

/// The items of a module, and the bodies of its functions; `None` where there are syntax errors
/// outside of those. Of each body, the module has the span alone.
///
/// For who looks at one function after the other, and needs no tree of them all: it takes less
/// time than [`read`](crate::read).
///
/// ```
/// use ptxkit_ptx::{CheckOptions, check_bodies, read_outline};
///
/// let source = ".version 8.0\n.target sm_80\n.address_size 64\n.entry k() { bar.sync 0; ret; }\n";
/// let (module, mut bodies) = read_outline(source).unwrap();
/// let mut counts = Vec::new();
/// let valid = check_bodies(
///     &module,
///     &mut bodies,
///     source,
///     &CheckOptions::default(),
///     &mut |function, body, _| counts.push((function.name.text, body.statements.len())),
/// );
/// assert!(valid);
/// assert_eq!(counts, [("k", 2)]);
/// ```
pub fn read_outline(source: &str) -> Option<(Module<'_>, Bodies<'_>)> {
    u32::try_from(source.len()).ok()?;
    let errors = LexicalErrors::default();
    let mut report = Report::with_limit(1);
    let module = module::outline(Tokens::new(source, &errors), &mut report);
    report.append(errors.into_report());
    let bodies = Bodies {
        source,
        buffers: Buffers::default(),
    };
    report.into_vec().is_empty().then_some((module, bodies))
}

impl<'a> Bodies<'a> {
    /// Calls back with the body of a function, and the mnemonics of all bodies so far; `false`
    /// where the body has syntax errors, or ends elsewhere than the outline has it.
    pub(crate) fn read(
        &mut self,
        function: &Function<'a>,
        found: &mut dyn FnMut(&Body<'a>, &[Mnemonic<'a>]),
    ) -> bool {
        let Some(passed) = &function.body else {
            return true;
        };
        let errors = LexicalErrors::default();
        let mut report = Report::with_limit(1);
        let open = Tokens::starting_at(self.source, passed.span.start, &errors);
        let mut reader = BodyReader::new(&mut report, &mut self.buffers);
        let rest = reader.statements(open.skip());
        let whole =
            !reader.broken && reader.declared.is_empty() && rest.passed() == passed.span.end;
        report.append(errors.into_report());
        if !whole || !report.into_vec().is_empty() {
            return false;
        }
        let buffers = &mut self.buffers;
        let mut body = Body {
            statements: std::mem::take(&mut buffers.statements),
            operands: std::mem::take(&mut buffers.pool.operands),
            ..*passed
        };
        found(&body, buffers.mnemonics.list());
        body.statements.clear();
        body.operands.clear();
        (buffers.statements, buffers.pool.operands) = (body.statements, body.operands);
        true
    }
}
