//! Renames registers, labels and the other names of a function.

use super::protocol::{Position, Range, RenameParams, TextEdit, WorkspaceEdit};
use super::references::{Declared, Symbol};
use super::tree::{Refusal, Tree};
use ptx::ast::{Function, Name, Span};
use ptx::names::SpecialRegister;
use ptx::{read, references};

/// The place of the name that would be renamed.
pub fn prepare(tree: &Tree<'_>, position: Position) -> Result<Option<Range>, Refusal> {
    let offset = tree.text.offset(position);
    let Some(symbol) = Symbol::at(tree, offset) else {
        return Ok(None);
    };
    renamed(&symbol)?;
    let span = symbol.reference.name.span(tree.source);
    Ok(Some(tree.text.range(span)))
}

/// The edits that give the name at a position another text.
pub fn rename(tree: &Tree<'_>, params: &RenameParams) -> Result<WorkspaceEdit, Refusal> {
    let offset = tree.text.offset(params.position);
    let Some(symbol) = Symbol::at(tree, offset) else {
        return Err(Refusal("there is no name here".to_owned()));
    };
    let function = renamed(&symbol)?;
    let new = params.new_name.trim();
    if !is_name(new) {
        return Err(Refusal(format!(
            "`{new}` is no name of PTX: a letter, or one of `_ $ %` with more behind it; then \
             letters, digits, `_` and `$`"
        )));
    }
    if SpecialRegister::from_text(new).is_some() || new == "WARP_SZ" {
        return Err(Refusal(format!("`{new}` has a meaning of its own in PTX")));
    }
    let mentions = symbol.mentions(tree);
    if changes_meaning(tree.source, function, &mentions, new) {
        return Err(Refusal(format!(
            "`{new}` is declared here already: names would change their meaning"
        )));
    }
    let edits = mentions.iter().map(|name| TextEdit {
        range: tree.text.range(name.span(tree.source)),
        new_text: new.to_owned(),
    });
    Ok(tree.edit(edits.collect()))
}

/// The function that the name is renamed in, or why it is not.
fn renamed<'t>(symbol: &Symbol<'t>) -> Result<&'t Function<'t>, Refusal> {
    let name = symbol.reference.name.text;
    if let Some(range) = symbol.range() {
        return Err(Refusal(format!(
            "`{name}` is declared by `{}<{}>` together with others: declare a register of its \
             own to give it a name",
            range.name.text,
            range.count.unwrap_or(0)
        )));
    }
    match (symbol.function, symbol.declared) {
        (Some(function), _) => Ok(function),
        (None, Declared::Function(_)) => Err(Refusal(format!(
            "`{name}` is known outside of this file: whoever launches or calls it uses the name"
        ))),
        (None, _) => Err(Refusal(format!(
            "`{name}` belongs to the module: other modules and the host may use the name"
        ))),
    }
}

fn is_name(text: &str) -> bool {
    let continues = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$';
    match text.as_bytes() {
        [first, rest @ ..] if rest.iter().all(|byte| continues(*byte)) => match first {
            b'_' | b'$' | b'%' => !rest.is_empty(),
            first => first.is_ascii_alphabetic(),
        },
        _ => false,
    }
}

/// Whether some name of the function stands for something else under the new text.
fn changes_meaning(
    source: &str,
    function: &Function<'_>,
    mentions: &[Name<'_>],
    new: &str,
) -> bool {
    // In the order of the text, each name with its declaration.
    let own = |source: &str, function: Span| -> Vec<(u32, u32)> {
        let module = read(source).module;
        let found = references(&module, function);
        let places = found.iter().map(|reference| {
            let place = |name: Name<'_>| name.span(source).start;
            (place(reference.name), place(reference.declaration))
        });
        places.collect()
    };
    let Span { start, end } = function.span;
    let mut text = String::with_capacity(source.len());
    let mut copied = 0;
    // Of each place the bytes that it moves by, with those of the mentions before it.
    let mut moves: Vec<(u32, i64)> = Vec::new();
    let mut moved = 0;
    for name in mentions {
        let span = name.span(source);
        text += &source[copied..span.start as usize];
        text += new;
        copied = span.end as usize;
        moved += new.len() as i64 - name.text.len() as i64;
        moves.push((span.end, moved));
    }
    text += &source[copied..];
    let at = |place: u32| {
        let before = moves.partition_point(|(end, _)| *end <= place);
        let by = before.checked_sub(1).map_or(0, |last| moves[last].1);
        (i64::from(place) + by) as u32
    };
    let before = own(source, function.span).into_iter();
    let before: Vec<(u32, u32)> = before
        .map(|(name, declaration)| (at(name), at(declaration)))
        .collect();
    let after = Span {
        start: at(start),
        end: at(end),
    };
    before != own(&text, after)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for name in ["a", "%p", "_1", "$x$", "a$1", "LOOP_2"] {
            assert!(is_name(name), "{name}");
        }
        for text in ["", "%", "_", "1a", "a b", "a.b", "é", "a%"] {
            assert!(!is_name(text), "{text}");
        }
    }
}
