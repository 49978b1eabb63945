//! What `.version` and `.target` the document needs, beside those that it says.

use super::protocol::{InlayHint, InlayHintKind, InlayHintParams};
use super::tree::Tree;
use ptx::ast::Span;
use ptx::diagnostic::Diagnostic;
use ptx::version::needed;

/// In a larger text they take longer than anyone waits for.
const MAX_BYTES: usize = 4 << 20;

pub fn hints(tree: &Tree<'_>, params: &InlayHintParams) -> Option<Vec<InlayHint>> {
    let (_, version) = tree.module.version?;
    let target = tree.module.target.last()?.span(tree.source);
    let shown = tree.text.span(params.range);
    let visible = |span: &Span| shown.start <= span.end && span.end <= shown.end;
    if ![version, target].iter().any(visible) || tree.source.len() > MAX_BYTES {
        return Some(Vec::new());
    }
    let floors = tree.floors.get_or_init(|| needed(tree.module, tree.source));
    let floors = floors.as_ref()?;
    let (said, _) = tree.module.version?;
    let mut hints = Vec::new();
    if floors.version != said {
        let why = floors.version_forced_by.as_ref();
        hints.push(hint(tree, version, floors.version.to_string(), why));
    }
    let words = &tree.module.target;
    if words
        .iter()
        .all(|word| word.text != floors.target.to_string())
    {
        let why = floors.target_forced_by.as_ref();
        hints.push(hint(tree, target, floors.target.to_string(), why));
    }
    Some(hints)
}

fn hint(tree: &Tree<'_>, span: Span, needs: String, why: Option<&Diagnostic>) -> InlayHint {
    let tooltip = why.map(|why| {
        let line = tree.text.position(why.span.start).line + 1;
        format!("line {line}: {}", why.message)
    });
    InlayHint {
        position: tree.text.position(span.end),
        label: format!("needs {needs}"),
        kind: InlayHintKind::TYPE,
        tooltip,
        padding_left: true,
    }
}
