//! Brings a document into the canonical form, as `ptxkit fmt` does.

use super::protocol::TextEdit;
use super::tree::Tree;
use ptx::ast::Span;
use ptx::printer;

/// The lines to replace; none where the text cannot be read: diagnostics say why.
pub fn format(tree: &Tree<'_>) -> Option<Vec<TextEdit>> {
    let formatted = printer::format(tree.source).ok()?;
    Some(replace(tree, &formatted).into_iter().collect())
}

/// The smallest run of lines that makes the text another one, so that cursors and marks
/// elsewhere stay.
pub fn replace(tree: &Tree<'_>, new: &str) -> Option<TextEdit> {
    if new == tree.source {
        return None;
    }
    let old = tree.source;
    let same = |(one, other): &(&str, &str)| one == other;
    let start: usize = old
        .split_inclusive('\n')
        .zip(new.split_inclusive('\n'))
        .take_while(same)
        .map(|(line, _)| line.len())
        .sum();
    let (old_rest, new_rest) = (&old[start..], &new[start..]);
    let end: usize = old_rest
        .split_inclusive('\n')
        .rev()
        .zip(new_rest.split_inclusive('\n').rev())
        .take_while(same)
        .map(|(line, _)| line.len())
        .sum();
    let span = Span {
        start: start as u32,
        end: (old.len() - end) as u32,
    };
    Some(TextEdit {
        range: tree.text.range(span),
        new_text: new_rest[..new_rest.len() - end].to_owned(),
    })
}
