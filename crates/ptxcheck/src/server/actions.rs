//! Code actions: the fixes of findings, and comments that suppress them.

use super::checker::{self, Checked, diagnostic};
use super::format;
use super::protocol::{CodeAction, CodeActionContext, CodeActionParams, TextEdit};
use super::tree::Tree;
use crate::fix;
use crate::linter::{self, TextFindings};
use lint::{Edit, Finding, Rule};
use ptx::ast::Span;
use std::sync::Arc;

/// Fixes all that can be fixed safely; editors do it on save if they are told to.
pub const FIX_ALL: &str = "source.fixAll.ptxcheck";

/// Fixes one finding, or suppresses it.
pub const QUICK_FIX: &str = "quickfix";

pub fn actions(tree: &Tree<'_>, params: &CodeActionParams) -> Vec<CodeAction> {
    let known = tree.checker.checked(tree.document);
    let checked = known.unwrap_or_else(|| {
        Arc::new(Checked {
            version: tree.document.version,
            found: checker::found(tree.document).findings,
        })
    });
    let mut actions = Vec::new();
    if wants(&params.context, QUICK_FIX) {
        let span = tree.text.span(params.range);
        let meets =
            |finding: &&Finding| finding.span.start <= span.end && span.start <= finding.span.end;
        for finding in checked.found.iter().filter(meets) {
            actions.extend(fixed(tree, finding));
            actions.extend(suppressed(tree, finding));
        }
    }
    // It is found by checking the text again: only for who asks.
    let only = params.context.only.iter().flatten();
    if only.into_iter().any(|kind| covers(kind, FIX_ALL)) {
        actions.extend(all_fixed(tree, &checked));
    }
    actions
}

fn wants(context: &CodeActionContext, kind: &str) -> bool {
    let only = context.only.as_ref();
    only.is_none_or(|only| only.iter().any(|wanted| covers(wanted, kind)))
}

/// `source` covers `source.fixAll`, which covers `source.fixAll.ptxcheck`.
fn covers(wanted: &str, kind: &str) -> bool {
    let rest = kind.strip_prefix(wanted);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.') || wanted.is_empty())
}

fn action(tree: &Tree<'_>, title: String, kind: &'static str, edits: Vec<TextEdit>) -> CodeAction {
    CodeAction {
        title,
        kind,
        diagnostics: Vec::new(),
        edit: tree.edit(edits),
        is_preferred: false,
    }
}

fn fixed(tree: &Tree<'_>, finding: &Finding) -> Option<CodeAction> {
    let fix = finding.fix.as_ref()?;
    let edits = fix.edits.iter().map(|edit: &Edit| TextEdit {
        range: tree.text.range(edit.span),
        new_text: edit.replacement.clone(),
    });
    let name = Rule::find(&finding.code.to_string()).map_or("", |rule| rule.name);
    let unsafe_mark = if fix.safe { "" } else { " (unsafe)" };
    let title = format!("Fix {} {name}{unsafe_mark}", finding.code);
    let mut action = action(tree, title, QUICK_FIX, edits.collect());
    action.is_preferred = fix.safe;
    action.diagnostics = vec![diagnostic(tree.document, finding)];
    Some(action)
}

/// A comment at the end of the line. Errors are none of those that go away so.
fn suppressed(tree: &Tree<'_>, finding: &Finding) -> Option<CodeAction> {
    let start = finding.span.start as usize;
    if finding.code.letter() == 'E' {
        return None;
    }
    let line = tree.source.get(start..)?;
    let line = &line[..line.find(['\n', '\r']).unwrap_or(line.len())];
    // Behind a comment no other can begin.
    if line.contains("//") || line.contains("/*") {
        return None;
    }
    let end = (start + line.trim_end().len()) as u32;
    let edit = TextEdit {
        range: tree.text.range(Span { start: end, end }),
        new_text: format!("  // ptxcheck: disable={}", finding.code),
    };
    let title = format!("Suppress {} in this line", finding.code);
    let mut action = action(tree, title, QUICK_FIX, vec![edit]);
    action.diagnostics = vec![diagnostic(tree.document, finding)];
    Some(action)
}

fn all_fixed(tree: &Tree<'_>, checked: &Checked) -> Option<CodeAction> {
    let found = TextFindings {
        findings: checked.found.clone(),
        ..TextFindings::default()
    };
    let document = tree.document;
    let lint = |text: &str| linter::lint(text, &document.path, &document.settings);
    let unsafe_fixes = document.settings.unsafe_fixes;
    let fixed = fix::apply_fixes(tree.source, found, unsafe_fixes, lint);
    let edit = format::replace(tree, &fixed.text)?;
    let title = "Fix all that ptxcheck can fix".to_owned();
    Some(action(tree, title, FIX_ALL, vec![edit]))
}
