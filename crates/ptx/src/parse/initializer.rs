//! Initializers of variables (PTX ISA, "Initializers").

use nom::Parser;
use nom::combinator::cut;
use nom::sequence::delimited;

use super::declaration::list;
use super::expression::{Constant, constant, integer, literal_number};
use super::fast_path::number_list;
use super::input::{Parsed, SyntaxError, Tokens, name, token};
use crate::ast::{Initializer, Integer};
use crate::diagnostic::Code;
use crate::token::TokenKind;

/// The maximum nesting of braces.
const MAX_DEPTH: u32 = 32;

/// The initializer after the `=` of a declaration.
pub fn initializer<'t, 'a>(input: Tokens<'t, 'a>) -> Parsed<'t, 'a, Initializer<'a>> {
    value(input, MAX_DEPTH)
}

fn value<'t, 'a>(input: Tokens<'t, 'a>, depth: u32) -> Parsed<'t, 'a, Initializer<'a>> {
    match input.peek().kind {
        TokenKind::BraceOpen => {
            let Some(depth) = depth.checked_sub(1) else {
                return SyntaxError::fatal(
                    input.peek().span,
                    Code::Limit,
                    "this initializer is nested too deeply",
                );
            };
            let brace = input.peek().span.start as usize;
            if let Some((end, numbers)) = number_list(input.source, brace) {
                return Ok((input.skip_to(end as u32), Initializer::List(numbers)));
            }
            list(
                TokenKind::BraceOpen,
                |input| element(input, depth),
                TokenKind::BraceClose,
            )
            .map(Initializer::List)
            .parse(input)
        }
        TokenKind::Identifier if input.word_text() != "WARP_SZ" => address(input),
        TokenKind::Integer if input.peek_at(1).kind == TokenKind::ParenOpen => masked(input),
        _ => match constant(input)? {
            (rest, Constant::Integer(integer)) => Ok((rest, Initializer::Integer(integer))),
            (rest, Constant::Float(float)) => Ok((rest, Initializer::Float(float))),
        },
    }
}

/// `0xFF00(name)`: one byte of an address, or of a number.
fn masked<'t, 'a>(input: Tokens<'t, 'a>) -> Parsed<'t, 'a, Initializer<'a>> {
    let (inside, mask) = literal_number::<u64>(input)?;
    let shift = mask.trailing_zeros() & !7;
    if mask.checked_shr(shift) != Some(0xFF) {
        return SyntaxError::fatal(
            input.peek().span,
            Code::Range,
            "a mask must select one byte of an address: 0xFF, 0xFF00, 0xFF0000 …",
        );
    }
    let number = |input| integer.map(Initializer::Integer).parse(input);
    let inner = |input: Tokens<'t, 'a>| match input.peek().kind {
        TokenKind::Identifier if input.word_text() != "WARP_SZ" => address(input),
        _ => number(input),
    };
    let (rest, inner) = delimited(
        token(TokenKind::ParenOpen),
        cut(inner),
        cut(token(TokenKind::ParenClose)),
    )
    .parse(inside)?;
    let byte = match inner {
        Initializer::Address {
            name,
            generic,
            offset,
            ..
        } => Initializer::Address {
            name,
            generic,
            offset,
            mask: Some(mask),
        },
        Initializer::Integer(Integer {
            value,
            unsigned,
            span,
        }) => Initializer::Integer(Integer {
            value: (value & mask) >> shift,
            unsigned,
            span,
        }),
        other => other,
    };
    Ok((rest, byte))
}

/// An element of a list, or a `name = value` of a texture reference.
fn element<'t, 'a>(input: Tokens<'t, 'a>, depth: u32) -> Parsed<'t, 'a, Initializer<'a>> {
    if input.at(TokenKind::Identifier) && input.peek_at(1).kind == TokenKind::Assign {
        let (rest, name) = name(input)?;
        let (rest, value) = value(rest.skip(), depth)?;
        let value = Box::new(value);
        return Ok((rest, Initializer::Property { name, value }));
    }
    value(input, depth)
}

/// `name`, `name+4`, `generic(name)+4`
fn address<'t, 'a>(input: Tokens<'t, 'a>) -> Parsed<'t, 'a, Initializer<'a>> {
    let called = input.peek_at(1).kind == TokenKind::ParenOpen;
    let generic = called && input.word_text() == "generic";
    let (rest, name) = if generic {
        delimited(
            token(TokenKind::ParenOpen),
            name,
            token(TokenKind::ParenClose),
        )
        .parse(input.skip())?
    } else {
        name(input)?
    };
    let (rest, offset) = if rest.at(TokenKind::Plus) {
        // The sign belongs to the expression: `name+4-8` is `name + (4-8)`.
        cut(integer)
            .map(|offset| offset.value as i64)
            .parse(rest.skip())?
    } else {
        (rest, 0)
    };
    let address = Initializer::Address {
        name,
        generic,
        offset,
        mask: None,
    };
    Ok((rest, address))
}
