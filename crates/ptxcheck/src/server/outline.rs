//! The parts of a document: for outlines, and for folding.

use super::protocol::{DocumentSymbol, FoldingRange, SymbolKind};
use super::tree::Tree;
use ptx::ast::{
    DirectiveKind, Function, FunctionKind, Item, Name, Space, Span, Statement, Variable,
};
use ptx::printer::comments::comments;

/// An outline that is longer is of no use.
const MAX_PARTS: usize = 10_000;

/// Functions with their variables and labels, and the variables of the module.
pub fn symbols(tree: &Tree<'_>) -> Vec<DocumentSymbol> {
    let symbols = tree.module.items.iter().filter_map(|item| match item {
        Item::Variable(variable) => Some(variable_symbol(tree, variable)),
        Item::Function(function) => Some(function_symbol(tree, function)),
        Item::Directive(_) => None,
    });
    symbols.take(MAX_PARTS).collect()
}

fn symbol(
    tree: &Tree<'_>,
    (name, span): (Name<'_>, Span),
    kind: SymbolKind,
    detail: String,
    children: Vec<DocumentSymbol>,
) -> DocumentSymbol {
    let own = name.span(tree.source);
    // Clients refuse a symbol whose name lies outside of it.
    let span = Span {
        start: span.start.min(own.start),
        end: span.end.max(own.end),
    };
    DocumentSymbol {
        name: name.text.to_owned(),
        detail,
        kind,
        range: tree.text.range(span),
        selection_range: tree.text.range(own),
        children,
    }
}

fn variable_symbol(tree: &Tree<'_>, variable: &Variable<'_>) -> DocumentSymbol {
    let kind = match variable.space {
        Space::Const => SymbolKind::CONSTANT,
        _ => SymbolKind::VARIABLE,
    };
    let detail = format!(".{} .{}", variable.space.text(), variable.ty.text());
    symbol(
        tree,
        (variable.name, variable.span),
        kind,
        detail,
        Vec::new(),
    )
}

fn function_symbol(tree: &Tree<'_>, function: &Function<'_>) -> DocumentSymbol {
    let detail = match function.kind {
        FunctionKind::Entry => ".entry",
        FunctionKind::Func => ".func",
    };
    let statements = function.body.iter().flat_map(|body| &body.statements);
    let parts = statements.filter_map(|statement| match statement {
        Statement::Label(name) => {
            let place = (*name, name.span(tree.source));
            Some(symbol(
                tree,
                place,
                SymbolKind::KEY,
                String::new(),
                Vec::new(),
            ))
        }
        Statement::Variable(variable) if variable.space != Space::Reg => {
            Some(variable_symbol(tree, variable))
        }
        _ => None,
    });
    let parts = parts.take(MAX_PARTS).collect();
    let place = (function.name, function.span);
    symbol(tree, place, SymbolKind::FUNCTION, detail.to_owned(), parts)
}

/// Functions, the blocks in them, sections, and comments of several lines.
pub fn folds(tree: &Tree<'_>) -> Vec<FoldingRange> {
    let mut spans = Vec::new();
    for item in &tree.module.items {
        match item {
            Item::Variable(variable) => spans.push((variable.span, None)),
            Item::Function(function) => {
                spans.push((function.span, None));
                blocks(function, &mut spans);
            }
            Item::Directive(directive) => {
                if let DirectiveKind::Section { .. } = directive.kind {
                    spans.push((directive.span, None));
                }
            }
        }
    }
    let comments = comments(tree.source).into_iter();
    spans.extend(comments.map(|comment| (comment.span, Some("comment"))));
    let folds = spans.into_iter().filter_map(|(span, kind)| {
        let range = tree.text.range(span);
        (range.start.line < range.end.line).then_some(FoldingRange {
            start_line: range.start.line,
            end_line: range.end.line,
            kind,
        })
    });
    folds.take(MAX_PARTS).collect()
}

fn blocks(function: &Function<'_>, spans: &mut Vec<(Span, Option<&'static str>)>) {
    let mut open = Vec::new();
    for statement in function.body.iter().flat_map(|body| &body.statements) {
        match statement {
            Statement::Begin(span) => open.push(span.start),
            Statement::End(span) => {
                let block = open.pop().map(|start| Span { start, ..*span });
                spans.extend(block.map(|block| (block, None)));
            }
            _ => {}
        }
    }
}
