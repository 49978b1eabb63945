//! Directives without declarations: `.file`, `.section`, `.pragma`, `.alias`, and those
//! between the head of a function and its body.

use std::collections::HashSet;

use nom::Parser;
use nom::combinator::cut;
use nom::multi::separated_list1;

use super::declaration::{linkage, starts_declaration};
use super::expression::literal_number;
use super::fast_path::skip_data;
use super::input::{Parsed, SyntaxError, Tokens, name, text, token};
use crate::ast::{Directive, DirectiveKind, FunctionDirective, FunctionKind, Name};
use crate::diagnostic::Code;
use crate::features::{self, Arguments};
use crate::token::{Token, TokenKind};

/// Whether a word begins one of these directives.
pub fn is_directive(word: &str) -> bool {
    matches!(word, "file" | "section" | "pragma" | "alias")
}

/// A directive, up to the token after it.
pub fn directive<'t, 'a>(input: Tokens<'t, 'a>) -> Parsed<'t, 'a, Directive<'a>> {
    let after = input.skip();
    let (rest, kind) = match input.word_text() {
        "file" => file(after)?,
        "section" => section(after)?,
        "pragma" => pragma.map(DirectiveKind::Pragma).parse(after)?,
        "alias" => alias(after)?,
        _ => return SyntaxError::expected(input, "a directive"),
    };
    let span = input.span_to(rest);
    let directive = Directive {
        kind,
        text: text(input.source, span),
        span,
    };
    Ok((rest, directive))
}

/// `1 "name"`, `1 "name", 1700000000, 1234`
fn file<'t, 'a>(input: Tokens<'t, 'a>) -> Parsed<'t, 'a, DirectiveKind<'a>> {
    let (rest, index) = literal_number::<u32>(input)?;
    let (mut rest, name) = token(TokenKind::Text)(rest)?;
    let name = text(input.source, name.span).trim_matches('"');
    let stamped = rest.at(TokenKind::Comma);
    // The time of the last change, and the size.
    for _ in 0..2 {
        if rest.at(TokenKind::Comma) {
            (rest, _) = token(TokenKind::Integer)(rest.skip())?;
        }
    }
    let kind = DirectiveKind::File {
        index,
        name,
        stamped,
    };
    Ok((rest, kind))
}

/// `"nounroll", "…";`
fn pragma<'t, 'a>(input: Tokens<'t, 'a>) -> Parsed<'t, 'a, Vec<Name<'a>>> {
    let string = |input: Tokens<'t, 'a>| {
        let (rest, string) = token(TokenKind::Text)(input)?;
        let text = text(input.source, string.span).trim_matches('"');
        Ok((rest, Name { text }))
    };
    let (rest, strings) = separated_list1(token(TokenKind::Comma), cut(string)).parse(input)?;
    let (rest, _) = token(TokenKind::Semicolon)(rest)?;
    Ok((rest, strings))
}

/// `name, function;`
fn alias<'t, 'a>(input: Tokens<'t, 'a>) -> Parsed<'t, 'a, DirectiveKind<'a>> {
    let (rest, alias) = name(input)?;
    let (rest, _) = token(TokenKind::Comma)(rest)?;
    let (rest, function) = name(rest)?;
    let (rest, _) = token(TokenKind::Semicolon)(rest)?;
    let kind = DirectiveKind::Alias {
        name: alias,
        function,
    };
    Ok((rest, kind))
}

/// `.debug_info { label: .b8 1, 2 .b32 label+4 }`
fn section<'t, 'a>(input: Tokens<'t, 'a>) -> Parsed<'t, 'a, DirectiveKind<'a>> {
    let (rest, _) = section_name(input)?;
    let (mut rest, _) = token(TokenKind::BraceOpen)(rest)?;
    let mut labels = HashSet::new();
    loop {
        let start = rest.peek().span.start;
        let end = skip_data(rest.source, start as usize) as u32;
        if end > start {
            rest = rest.skip_to(end);
        }
        match rest.peek().kind {
            TokenKind::BraceClose => {
                let labels = !labels.is_empty();
                return Ok((rest.skip(), DirectiveKind::Section { labels }));
            }
            TokenKind::Identifier => {
                let (after, label) = name(rest)?;
                if !labels.insert(label.text) {
                    return SyntaxError::fatal(
                        label.span(input.source),
                        Code::Duplicate,
                        "duplicate label in this section",
                    );
                }
                (rest, _) = token(TokenKind::Colon)(after)?;
            }
            TokenKind::Word => {
                let bits = match rest.word_text() {
                    "b8" => 8,
                    "b16" => 16,
                    "b32" => 32,
                    "b64" => 64,
                    _ => {
                        return SyntaxError::fatal(
                            rest.peek().span,
                            Code::OperandType,
                            "the data of a section must be `.b8`, `.b16`, `.b32` or `.b64`",
                        );
                    }
                };
                (rest, ()) = section_data(rest.skip(), bits)?;
            }
            _ => return SyntaxError::expected(rest, "a label, data or `}`"),
        }
    }
}

/// `.debug_info`: any word except those of other directives.
fn section_name<'t, 'a>(input: Tokens<'t, 'a>) -> Parsed<'t, 'a, Token> {
    let word = input.word_text();
    if is_directive(word)
        || starts_declaration(word)
        || linkage(word).is_some()
        || matches!(
            word,
            "entry" | "func" | "loc" | "target" | "version" | "ptr"
        )
    {
        return SyntaxError::expected(input, "a section such as `.debug_info`");
    }
    token(TokenKind::Word)(input)
}

/// `1, -2`, or one address: `label`, `label+4`, `end-start`, `.debug_abbrev`.
fn section_data<'t, 'a>(input: Tokens<'t, 'a>, bits: u32) -> Parsed<'t, 'a, ()> {
    let first = input.peek();
    if matches!(first.kind, TokenKind::Identifier | TokenKind::Word) {
        let rest = match first.kind {
            TokenKind::Word => section_name(input)?.0,
            _ => input.skip(),
        };
        let rest = match (first.kind, rest.peek().kind) {
            (_, TokenKind::Plus) => token(TokenKind::Integer)(rest.skip())?.0,
            (TokenKind::Identifier, TokenKind::Minus) => name(rest.skip())?.0,
            _ => rest,
        };
        if bits < 32 {
            return SyntaxError::fatal(
                rest.peek().span,
                Code::OperandType,
                "the preceding address must be `.b32` or `.b64`",
            );
        }
        return Ok((rest, ()));
    }
    let mut rest = input;
    loop {
        let negative = rest.at(TokenKind::Minus);
        let number = if negative { rest.skip() } else { rest };
        let (after, ()) = if bits < 32 {
            let (after, value) = literal_number::<u64>(number)?;
            let most = 1 << (bits - u32::from(negative));
            if value > most || (value == most && !negative) {
                return SyntaxError::fatal(
                    rest.span_to(after),
                    Code::Range,
                    "this number does not fit its type",
                );
            }
            (after, ())
        } else {
            (token(TokenKind::Integer)(number)?.0, ())
        };
        if !after.at(TokenKind::Comma) {
            return Ok((after, ()));
        }
        rest = after.skip();
    }
}

/// `.maxntid 256, 1, 1 .minnctapersm 2`: the directives between the parameters of a function
/// and its body.
pub fn function_directives<'t, 'a>(
    input: Tokens<'t, 'a>,
    kind: FunctionKind,
) -> Parsed<'t, 'a, Vec<FunctionDirective<'a>>> {
    let mut directives = Vec::new();
    let mut rest = input;
    while rest.at(TokenKind::Word) {
        let Some(rule) = features::function_directive(rest.word_text(), kind) else {
            break;
        };
        // On device functions `.noreturn` comes first and
        // `.local_maxnreg` last.
        let last = directives
            .last()
            .map(|last: &FunctionDirective<'_>| last.name);
        if (rule.name == "noreturn" && last.is_some())
            || (kind == FunctionKind::Func && last == Some("local_maxnreg"))
        {
            break;
        }
        let start = rest;
        let mut values = Vec::new();
        let mut strings = Vec::new();
        rest = rest.skip();
        match rule.arguments {
            Arguments::Strings => (rest, strings) = cut(pragma).parse(rest)?,
            Arguments::Numbers(most) => {
                for index in 0..most {
                    let (after, value) = match index {
                        0 => cut(literal_number).parse(rest)?,
                        _ if !rest.at(TokenKind::Comma) => break,
                        _ => cut(literal_number).parse(rest.skip())?,
                    };
                    values.push(value);
                    rest = after;
                }
            }
        }
        let span = start.span_to(rest);
        directives.push(FunctionDirective {
            name: rule.name,
            values,
            strings,
            text: text(input.source, span),
            span,
        });
    }
    Ok((rest, directives))
}
