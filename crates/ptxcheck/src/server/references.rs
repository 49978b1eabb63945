//! Where a name is declared, and where else it stands.

use super::protocol::{DocumentHighlight, Location, Position, ReferenceParams};
use super::tree::Tree;
use ptx::Reference;
use ptx::ast::{Body, Function, Item, Name, Span, Statement, Variable};

/// A name with what it stands for.
#[derive(Clone, Copy)]
pub struct Symbol<'t> {
    pub reference: Reference<'t>,
    pub declared: Declared<'t>,
    /// The function whose own it is; `None` for a name of the module.
    pub function: Option<&'t Function<'t>>,
}

/// What a name stands for.
#[derive(Clone, Copy)]
pub enum Declared<'t> {
    Variable(&'t Variable<'t>),
    Function(&'t Function<'t>),
    Label,
    /// `.branchtargets`, `.calltargets` or `.callprototype`.
    Table(Span),
}

impl<'t> Symbol<'t> {
    /// The symbol of the name at a byte, or right before it.
    pub fn at(tree: &Tree<'t>, offset: u32) -> Option<Symbol<'t>> {
        let place = Span {
            start: offset,
            end: offset,
        };
        let found = ptx::references(tree.module, place);
        let reference = found.into_iter().find(|reference| {
            let span = reference.name.span(tree.source);
            (span.start..=span.end).contains(&offset)
        })?;
        let declaration = reference.declaration;
        let own = |function: &&Function<'_>| !is(function.name, declaration);
        let start = declaration.span(tree.source).start;
        let function = tree.function(start).filter(own);
        Some(Symbol {
            reference,
            declared: Declared::find(tree, function, declaration)?,
            function,
        })
    }

    /// The range that declares it and others: `%r<9>`.
    pub fn range(&self) -> Option<&'t Variable<'t>> {
        match self.declared {
            Declared::Variable(variable) if variable.count.is_some() => Some(variable),
            _ => None,
        }
    }

    /// Every place where it stands, the declaration too, in the order of the text. Of one
    /// register of a range, only those of this register; of its declaration, those of all.
    pub fn mentions(&self, tree: &Tree<'t>) -> Vec<Name<'t>> {
        let within = match self.function {
            Some(function) => function.span,
            None => Span {
                start: 0,
                end: u32::MAX,
            },
        };
        let found = ptx::references(tree.module, within);
        let found = found.into_iter().filter(|other| {
            let declaration = self.reference.declaration;
            match self.function {
                Some(_) => is(other.declaration, declaration) && self.is_same_register(other),
                // A function may be declared several times.
                None => other.declaration.text == declaration.text && is_of_module(tree, *other),
            }
        });
        let mut names: Vec<Name<'_>> = found.map(|reference| reference.name).collect();
        names.sort_by_key(|name| name.span(tree.source).start);
        names
    }

    fn is_same_register(&self, other: &Reference<'_>) -> bool {
        match (number(&self.reference), number(other)) {
            (Some(own), Some(other)) => own == other,
            _ => true,
        }
    }
}

/// The 5 of `%r5`, a register of `%r<9>`.
fn number<'a>(reference: &Reference<'a>) -> Option<&'a str> {
    let digits = reference
        .name
        .text
        .strip_prefix(reference.declaration.text)?;
    let number = digits.trim_start_matches('0');
    (!digits.is_empty()).then_some(number)
}

fn is_of_module(tree: &Tree<'_>, reference: Reference<'_>) -> bool {
    let start = reference.declaration.span(tree.source).start;
    tree.function(start)
        .is_none_or(|function| is(function.name, reference.declaration))
}

/// Whether two names are one in the text.
fn is(one: Name<'_>, other: Name<'_>) -> bool {
    std::ptr::eq(one.text, other.text)
}

impl<'t> Declared<'t> {
    fn find(
        tree: &Tree<'t>,
        function: Option<&'t Function<'t>>,
        name: Name<'t>,
    ) -> Option<Declared<'t>> {
        let Some(function) = function else {
            return tree.module.items.iter().find_map(|item| match item {
                Item::Variable(variable) if is(variable.name, name) => {
                    Some(Declared::Variable(variable))
                }
                Item::Function(function) if is(function.name, name) => {
                    Some(Declared::Function(function))
                }
                _ => None,
            });
        };
        let mut parameters = function.returns.iter().chain(&function.params);
        if let Some(parameter) = parameters.find(|variable| is(variable.name, name)) {
            return Some(Declared::Variable(parameter));
        }
        let statements = function
            .body
            .iter()
            .flat_map(|body: &Body<'_>| &body.statements);
        statements
            .into_iter()
            .find_map(|statement| match statement {
                Statement::Variable(variable) if is(variable.name, name) => {
                    Some(Declared::Variable(variable))
                }
                Statement::Label(label) if is(*label, name) => Some(Declared::Label),
                Statement::Targets(targets) if is(targets.name, name) => {
                    Some(Declared::Table(targets.span))
                }
                Statement::Prototype(prototype) if is(prototype.name, name) => {
                    Some(Declared::Table(prototype.span))
                }
                _ => None,
            })
    }
}

fn location(tree: &Tree<'_>, name: Name<'_>) -> Location {
    Location {
        uri: tree.document.uri.clone(),
        range: tree.text.range(name.span(tree.source)),
    }
}

fn symbol<'t>(tree: &Tree<'t>, position: Position) -> Option<Symbol<'t>> {
    Symbol::at(tree, tree.text.offset(position))
}

/// Where the name at a position is declared; of a function, where it is defined.
pub fn definition(tree: &Tree<'_>, position: Position) -> Option<Location> {
    let symbol = symbol(tree, position)?;
    let mut name = symbol.reference.declaration;
    if let Declared::Function(declared) = symbol.declared {
        let defined = tree.module.items.iter().find_map(|item| match item {
            Item::Function(function)
                if function.name.text == declared.name.text && function.body.is_some() =>
            {
                Some(function.name)
            }
            _ => None,
        });
        name = defined.unwrap_or(name);
    }
    Some(location(tree, name))
}

/// Every place where the name at a position stands.
pub fn list(tree: &Tree<'_>, params: &ReferenceParams) -> Option<Vec<Location>> {
    let symbol = symbol(tree, params.position)?;
    let declaration = symbol.reference.declaration;
    let wanted = |name: &Name<'_>| params.context.include_declaration || !is(*name, declaration);
    let names = symbol.mentions(tree).into_iter().filter(wanted);
    Some(names.map(|name| location(tree, name)).collect())
}

/// The same as [`list`], for the text at hand.
pub fn highlight(tree: &Tree<'_>, position: Position) -> Option<Vec<DocumentHighlight>> {
    let symbol = symbol(tree, position)?;
    let names = symbol.mentions(tree).into_iter();
    let highlights = names.map(|name| DocumentHighlight {
        range: tree.text.range(name.span(tree.source)),
    });
    Some(highlights.collect())
}
