//! A module whose bodies are read one after the other, each in the memory of the last.

use super::fast_path::Skimmer;
use super::input::Tokens;
use super::module;
use super::statement::{BodyReader, Buffers};
use crate::ast::{Body, Function, Item, Mnemonic, Module};
use crate::diagnostic::Report;
use crate::token::LexicalErrors;

/// The bodies of the functions of a text, which are read one after the other.
pub struct Bodies<'a> {
    source: &'a str,
    buffers: Buffers<'a>,
    /// Where the bodies need not be whole.
    skimmer: Option<Skimmer<'a>>,
    memoizable: Vec<bool>,
}

/// What has a body checked: with all mnemonics so far, of which it says whether the check of
/// their instructions depends on the kinds and types of the operands alone.
pub(crate) type CheckBody<'c, 'a> = dyn FnMut(&Body<'a>, &[Mnemonic<'a>], &mut Vec<bool>) + 'c;

/// The items of a module, and the bodies of its functions; `None` where there are syntax errors
/// outside of those. Of each body, the module has the span alone; initial values that are
/// integers stand empty.
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
///     &mut |function, body, _, _| counts.push((function.name.text, body.statements.len())),
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
    let bodies = module.items.iter().filter_map(|item| match item {
        Item::Function(function) => function.body.as_ref(),
        _ => None,
    });
    let largest = bodies.map(|body| body.span.end - body.span.start).max();
    let bodies = Bodies {
        source,
        buffers: Buffers::for_text(largest.unwrap_or(0) as usize),
        skimmer: None,
        memoizable: Vec::new(),
    };
    report.into_vec().is_empty().then_some((module, bodies))
}

impl<'a> Bodies<'a> {
    /// The same without instructions like others before.
    pub(crate) fn skimmed(mut self) -> Bodies<'a> {
        self.skimmer = Some(Skimmer::default());
        self
    }

    /// Has the body of a function checked; `false`
    /// where the body has syntax errors, or ends elsewhere than the outline has it.
    pub(crate) fn read(&mut self, function: &Function<'a>, check: &mut CheckBody<'_, 'a>) -> bool {
        let Some(passed) = &function.body else {
            return true;
        };
        let errors = LexicalErrors::default();
        let mut report = Report::with_limit(1);
        let open = Tokens::starting_at(self.source, passed.span.start, &errors);
        if let Some(skimmer) = &mut self.skimmer {
            skimmer.begin(function);
        }
        let mut reader = BodyReader::new(function.name, &mut report, &mut self.buffers);
        reader.skimmer = self.skimmer.as_mut();
        let rest = reader.statements(open.skip());
        let whole =
            !reader.broken && reader.declared.is_empty() && rest.passed() == passed.span.end;
        report.append(errors.into_report());
        let statements = &self.buffers.statements;
        let skimmer = self.skimmer.as_mut();
        let understood = skimmer.is_none_or(|skimmer| skimmer.end(statements));
        if !whole || !understood || !report.into_vec().is_empty() {
            return false;
        }
        let buffers = &mut self.buffers;
        let mut body = Body {
            statements: std::mem::take(&mut buffers.statements),
            operands: std::mem::take(&mut buffers.pool.operands),
            ..*passed
        };
        let memoizable = match &mut self.skimmer {
            Some(skimmer) => &mut skimmer.memoizable,
            None => &mut self.memoizable,
        };
        check(&body, buffers.mnemonics.list(), memoizable);
        body.statements.clear();
        body.operands.clear();
        (buffers.statements, buffers.pool.operands) = (body.statements, body.operands);
        true
    }
}
