//! Variables, parameters and their initialisers (PTX ISA, "State Spaces,
//! Types, and Variables").

use nom::Parser;
use nom::branch::alt;
use nom::combinator::{cut, peek};
use nom::multi::separated_list1;
use nom::sequence::delimited;

use super::expression::{at_float, float, integer, literal_number, number};
use super::input::{Parsed, Problem, Tokens, name, text, token};
use crate::ptx::ast::{Initializer, Linkage, Name, PointerAttribute, Space, Variable};
use crate::ptx::diagnostic::Code;
use crate::ptx::names::Type;
use crate::ptx::token::TokenKind;

/// Braces inside one another in an initialiser.
const MAX_DEPTH: u32 = 32;

/// More registers than this from one `%r<N>` are a mistake or an attack.
const MAX_REGISTERS: u32 = 1 << 24;

pub fn linkage(word: &str) -> Option<Linkage> {
    Some(match word {
        "extern" => Linkage::Extern,
        "visible" => Linkage::Visible,
        "weak" => Linkage::Weak,
        "common" => Linkage::Common,
        _ => return None,
    })
}

pub fn space(word: &str) -> Option<Space> {
    Some(match word {
        "reg" => Space::Reg,
        "sreg" => Space::Sreg,
        "const" => Space::Const,
        "global" => Space::Global,
        "local" => Space::Local,
        "param" => Space::Param,
        "shared" => Space::Shared,
        "tex" => Space::Tex,
        _ => return None,
    })
}

/// `(a, b)` with any closing and opening; an empty list too.
pub fn list<'t, 'a, O, P>(
    open: TokenKind,
    item: P,
    close: TokenKind,
) -> impl Parser<Tokens<'t, 'a>, Output = Vec<O>, Error = Problem>
where
    P: Parser<Tokens<'t, 'a>, Output = O, Error = Problem>,
{
    let none = peek(token(close)).map(|_| Vec::new());
    let some = separated_list1(token(TokenKind::Comma), cut(item));
    delimited(token(open), alt((none, some)), cut(token(close)))
}

/// What stands before the names of a declaration.
#[derive(Clone)]
struct Head<'a> {
    space: Space,
    align: Option<u32>,
    ty: Option<Type>,
    vector: u8,
    pointer: Option<PointerAttribute>,
    attributes: Option<&'a str>,
}

/// `.global .align 8 .v2 .f32`: the words may come in any order after the first.
fn head<'t, 'a>(input: Tokens<'t, 'a>) -> Parsed<'t, 'a, Head<'a>> {
    let Some(space) = space(input.word_text()).filter(|_| input.at(TokenKind::Word)) else {
        return Problem::expected(input, "a state space such as `.reg` or `.global`");
    };
    let mut head = Head {
        space,
        align: None,
        ty: None,
        vector: 1,
        pointer: None,
        attributes: None,
    };
    let mut rest = input.skip();
    while rest.at(TokenKind::Word) {
        let word = rest.word_text();
        let after = rest.skip();
        rest = match word {
            "align" => {
                let (after, align) = cut(number).parse(after)?;
                match &mut head.pointer {
                    Some(pointer) => pointer.align = Some(align),
                    None => head.align = Some(align),
                }
                after
            }
            "v2" | "v4" | "v8" => {
                head.vector = word.as_bytes()[1] - b'0';
                after
            }
            "ptr" => {
                head.pointer = Some(PointerAttribute {
                    space: None,
                    align: None,
                });
                after
            }
            "attribute" => {
                let (after, attributes) = cut(attributes).parse(after)?;
                head.attributes = Some(attributes);
                after
            }
            _ => match (Type::from_text(word), &mut head.pointer) {
                (Some(ty), _) if head.ty.is_none() => {
                    head.ty = Some(ty);
                    after
                }
                (None, Some(pointer)) if self::space(word).is_some() => {
                    pointer.space = self::space(word);
                    after
                }
                _ => {
                    return Problem::fatal(
                        rest.peek().span,
                        Code::UnknownDirective,
                        "this word has no place in a declaration",
                    );
                }
            },
        };
    }
    Ok((rest, head))
}

/// `(.managed)`: the text between the parentheses.
pub fn attributes<'t, 'a>(input: Tokens<'t, 'a>) -> Parsed<'t, 'a, &'a str> {
    let (inside, _) = token(TokenKind::ParenOpen)(input)?;
    let mut rest = inside;
    let mut depth = 0_u32;
    loop {
        match rest.peek().kind {
            TokenKind::ParenOpen => depth += 1,
            TokenKind::ParenClose if depth == 0 => break,
            TokenKind::ParenClose => depth -= 1,
            TokenKind::Semicolon | TokenKind::End => return Problem::expected(rest, "`)`"),
            _ => {}
        }
        rest = rest.skip();
    }
    Ok((rest.skip(), text(input.source, inside.span_to(rest))))
}

/// One name of a declaration with what belongs to it alone.
fn declarator<'t, 'a>(
    input: Tokens<'t, 'a>,
    head: &Head<'a>,
    ty: Type,
    start: Tokens<'t, 'a>,
) -> Parsed<'t, 'a, Variable<'a>> {
    let (mut rest, name) = name(input)?;
    let mut count = None;
    if rest.at(TokenKind::Less) {
        let (after, registers) = cut(literal_number::<u32>).parse(rest.skip())?;
        let (after, _) = cut(token(TokenKind::Greater)).parse(after)?;
        if registers > MAX_REGISTERS {
            return Problem::fatal(
                rest.span_to(after),
                Code::Limit,
                "more than 16777216 registers of one name",
            );
        }
        count = Some(registers);
        rest = after;
    }
    let mut dims = Vec::new();
    while rest.at(TokenKind::BracketOpen) {
        let mut inside = rest.skip();
        let mut size = None;
        if !inside.at(TokenKind::BracketClose) {
            let (after, elements) = cut(number).parse(inside)?;
            size = Some(elements);
            inside = after;
        }
        (rest, _) = cut(token(TokenKind::BracketClose)).parse(inside)?;
        dims.push(size);
    }
    let mut init = None;
    if rest.at(TokenKind::Assign) {
        let (after, value) = cut(|input| initializer(input, MAX_DEPTH)).parse(rest.skip())?;
        init = Some(value);
        rest = after;
    }
    let variable = Variable {
        linkage: Linkage::None,
        space: head.space,
        align: head.align,
        ty,
        vector: head.vector,
        name,
        count,
        dims,
        init,
        pointer: head.pointer,
        attributes: head.attributes,
        span: start.span_to(rest),
    };
    Ok((rest, variable))
}

fn type_of<'t, 'a>(input: Tokens<'t, 'a>, head: &Head<'a>) -> Parsed<'t, 'a, Type> {
    match head.ty {
        Some(ty) => Ok((input, ty)),
        // `.tex` declares textures by any type; the other spaces need one.
        None => Problem::expected(input, "a type such as `.b32`"),
    }
}

/// `.reg .b32 a, b<4>` up to the semicolon: a variable for each name.
pub fn variables<'t, 'a>(
    input: Tokens<'t, 'a>,
    linkage: Linkage,
) -> Parsed<'t, 'a, Vec<Variable<'a>>> {
    let (rest, head) = head(input)?;
    let (rest, ty) = cut(|rest| type_of(rest, &head)).parse(rest)?;
    let one = |rest| declarator(rest, &head, ty, input);
    let (rest, mut variables) = separated_list1(token(TokenKind::Comma), cut(one)).parse(rest)?;
    for variable in &mut variables {
        variable.linkage = linkage;
    }
    Ok((rest, variables))
}

/// A parameter of a function: a declaration of one name.
pub fn parameter<'t, 'a>(input: Tokens<'t, 'a>) -> Parsed<'t, 'a, Variable<'a>> {
    let (rest, head) = head(input)?;
    let (rest, ty) = type_of(rest, &head)?;
    declarator(rest, &head, ty, input)
}

/// `(.param .b32 a, …)`
pub fn parameters<'t, 'a>(input: Tokens<'t, 'a>) -> Parsed<'t, 'a, Vec<Variable<'a>>> {
    list(TokenKind::ParenOpen, parameter, TokenKind::ParenClose).parse(input)
}

fn initializer<'t, 'a>(input: Tokens<'t, 'a>, depth: u32) -> Parsed<'t, 'a, Initializer<'a>> {
    if at_float(input) {
        return float.map(Initializer::Float).parse(input);
    }
    match input.peek().kind {
        TokenKind::BraceOpen => {
            let Some(depth) = depth.checked_sub(1) else {
                return Problem::fatal(
                    input.peek().span,
                    Code::Limit,
                    "this initialiser is nested too deeply",
                );
            };
            list(
                TokenKind::BraceOpen,
                |input| element(input, depth),
                TokenKind::BraceClose,
            )
            .map(Initializer::List)
            .parse(input)
        }
        TokenKind::Identifier if input.word_text() != "WARP_SZ" => address(input),
        // `0xFF00(name)`: bits of an address.
        TokenKind::Integer if input.peek_at(1).kind == TokenKind::ParenOpen => {
            let (rest, mask) = number(input)?;
            let (rest, inner) = delimited(
                token(TokenKind::ParenOpen),
                address,
                token(TokenKind::ParenClose),
            )
            .parse(rest)?;
            Ok((rest, masked(inner, mask)))
        }
        _ => integer.map(Initializer::Integer).parse(input),
    }
}

fn masked(address: Initializer<'_>, bits: u64) -> Initializer<'_> {
    match address {
        Initializer::Address {
            name,
            generic,
            offset,
            ..
        } => Initializer::Address {
            name,
            generic,
            offset,
            mask: Some(bits),
        },
        other => other,
    }
}

/// An element of a list, or a `name = value` of a texture reference.
fn element<'t, 'a>(input: Tokens<'t, 'a>, depth: u32) -> Parsed<'t, 'a, Initializer<'a>> {
    if input.peek_at(1).kind == TokenKind::Assign {
        let (rest, name) = name(input)?;
        let (rest, value) = initializer(rest.skip(), depth)?;
        let value = Box::new(value);
        return Ok((rest, Initializer::Property { name, value }));
    }
    initializer(input, depth)
}

/// `name`, `name+4`, `generic(name)+4`
fn address<'t, 'a>(input: Tokens<'t, 'a>) -> Parsed<'t, 'a, Initializer<'a>> {
    let called = input.peek_at(1).kind == TokenKind::ParenOpen;
    let generic = called && input.word_text() == "generic";
    let (rest, (name, inner)) = if generic {
        delimited(
            token(TokenKind::ParenOpen),
            (name, offset),
            token(TokenKind::ParenClose),
        )
        .parse(input.skip())?
    } else {
        (name, offset).parse(input)?
    };
    let (rest, outer) = if generic { offset(rest)? } else { (rest, 0) };
    let address = Initializer::Address {
        name,
        generic,
        offset: inner.wrapping_add(outer),
        mask: None,
    };
    Ok((rest, address))
}

/// `+4`, `-4`, or nothing, which is 0.
pub fn offset<'t, 'a>(input: Tokens<'t, 'a>) -> Parsed<'t, 'a, i64> {
    // The sign belongs to the expression: `name-4+8` is `name + (-4+8)`.
    match input.peek().kind {
        TokenKind::Plus | TokenKind::Minus => {
            cut(integer).map(|offset| offset.value as i64).parse(input)
        }
        _ => Ok((input, 0)),
    }
}

/// Names separated by commas.
pub fn names<'t, 'a>(input: Tokens<'t, 'a>) -> Parsed<'t, 'a, Vec<Name<'a>>> {
    separated_list1(token(TokenKind::Comma), cut(name)).parse(input)
}
