//! The parts of a module that slices are made of.

use super::text::{Head, Piece};
use super::whole::Whole;
use crate::ast::{Directive, DirectiveKind, Item, Module, Span};
use crate::token::{LexicalErrors, TokenKind, token_at};

/// The pieces of each item, in the order of the items.
pub fn pieces(source: &str, module: &Module<'_>) -> Vec<Piece> {
    let mut pieces = Vec::with_capacity(module.items.len());
    // The words before the names of the last declaration, which may have several names.
    let mut words = Span::default();
    for item in &module.items {
        pieces.push(match item {
            Item::Function(function) => Piece::Item(function.span),
            Item::Directive(directive) => Piece::Item(directive.span),
            Item::Variable(variable) => {
                let Span { start, end } = variable.span;
                let name = variable.name.span(source).start.clamp(start, end);
                if words.start != start || words.end > name {
                    words = Span { start, end: name };
                }
                Piece::Variable {
                    linkage: variable.linkage,
                    words,
                    declarator: Span { start: name, end },
                }
            }
        });
    }
    pieces
}

/// What slices take from the module besides functions and variables.
pub fn head(source: &str, module: &Module<'_>) -> Result<Head, Whole> {
    let mut head = Head::default();
    if module.target.iter().any(|word| word.text == "debug") {
        return Err(Whole::Debug);
    }
    if let Some((version, span)) = module.version {
        head.lines.push((format!(".version {version}"), span.start));
    }
    if let Some(first) = module.target.first() {
        let words: Vec<&str> = module.target.iter().map(|word| word.text).collect();
        let start = first.span(source).start;
        head.lines
            .push((format!(".target {}", words.join(", ")), start));
    }
    if let Some((bits, span)) = module.address_size {
        head.lines
            .push((format!(".address_size {bits}"), span.start));
    }
    for item in &module.items {
        let Item::Directive(directive) = item else {
            continue;
        };
        match directive.kind {
            DirectiveKind::File { index, .. } => {
                head.files.insert(index, directive.span);
            }
            DirectiveKind::Section { .. } => {
                let strings = strings(source, directive).ok_or(Whole::Debug)?;
                head.strings.extend(strings);
            }
            DirectiveKind::Dwarf => return Err(Whole::Debug),
            _ => {}
        }
    }
    Ok(head)
}

/// The labels of `.section .debug_str` with their data; `None` for another section, or
/// for data without a label.
fn strings(source: &str, section: &Directive<'_>) -> Option<Vec<(String, Span)>> {
    let source = source.get(..section.span.end as usize)?;
    let errors = LexicalErrors::default();
    let mut at = section.span.start;
    let mut token = || {
        let (kind, span) = token_at(source, at, &errors);
        at = span.end();
        let text = source.get(span.start() as usize..span.end() as usize);
        (kind, text.unwrap_or_default(), span)
    };
    let begins = token().1 == ".section" && token().1 == ".debug_str" && token().1 == "{";
    if !begins {
        return None;
    }
    let mut found: Vec<(String, Span)> = Vec::new();
    let mut before = token();
    loop {
        let next = token();
        match before.0 {
            TokenKind::BraceClose => return Some(found),
            TokenKind::End => return None,
            TokenKind::Identifier if next.0 == TokenKind::Colon => {
                let end = next.2.end();
                let data = Span { start: end, end };
                found.push((before.1.to_owned(), data));
                before = token();
            }
            TokenKind::Identifier => return None,
            _ => {
                found.last_mut()?.1.end = before.2.end();
                before = next;
            }
        }
    }
}
