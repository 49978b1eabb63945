//! Variables and parameters (PTX ISA, "State Spaces, Types, and Variables").

use nom::Parser;
use nom::branch::alt;
use nom::combinator::{cut, peek};
use nom::multi::separated_list1;
use nom::sequence::delimited;

use super::expression::literal_number;
use super::fast_path::{self, MAX_REGISTERS, skip_integers};
use super::initializer::initializer;
use super::input::{Parsed, SyntaxError, Tokens, name, token};
use super::space::space;
use crate::ast::{Attributes, Initializer, Linkage, Name, PointerAttribute, Space, Span, Variable};
use crate::diagnostic::Code;
use crate::names::Type;
use crate::token::{TokenKind, bank};

pub fn linkage(word: &str) -> Option<Linkage> {
    Some(match word {
        "extern" => Linkage::Extern,
        "visible" => Linkage::Visible,
        "weak" => Linkage::Weak,
        "common" => Linkage::Common,
        _ => return None,
    })
}

/// Whether a declaration without its linkage begins with this word.
pub fn starts_declaration(word: &str) -> bool {
    space(word).is_some()
        || matches!(word, "align" | "attribute" | "v2" | "v4")
        || Type::from_text(word).is_some()
}

/// `(a, b)` with any delimiters; may be empty.
pub fn list<'t, 'a, O, P>(
    open: TokenKind,
    item: P,
    close: TokenKind,
) -> impl Parser<Tokens<'t, 'a>, Output = Vec<O>, Error = SyntaxError>
where
    P: Parser<Tokens<'t, 'a>, Output = O, Error = SyntaxError>,
{
    let none = peek(token(close)).map(|_| Vec::new());
    let some = separated_list1(token(TokenKind::Comma), cut(item));
    delimited(token(open), alt((none, some)), cut(token(close)))
}

/// The part of a declaration before its names.
#[derive(Clone)]
struct Head {
    /// Whether there is a state space.
    stored: bool,
    space: Space,
    bank: Option<u8>,
    align: Option<u32>,
    ty: Type,
    vector: u8,
    pointer: Option<PointerAttribute>,
    attributes: Attributes,
}

/// `.global .align 8 .v2 .f32`: the order of the words before the vector and the type is
/// free.
fn head<'t, 'a>(input: Tokens<'t, 'a>) -> Parsed<'t, 'a, Head> {
    let mut found: Option<Space> = None;
    let mut number = None;
    let mut align = None;
    let mut attributes = Attributes::default();
    let mut rest = input;
    loop {
        let word = rest.word_text();
        if !rest.at(TokenKind::Word) {
            break;
        } else if let Some(space) = space(word) {
            if found.replace(space).is_some() {
                return SyntaxError::fatal(
                    rest.peek().span,
                    Code::UnknownDirective,
                    "a variable has only one state space",
                );
            }
            number = bank(word);
            rest = rest.skip();
        } else if word == "align" {
            (rest, align) = cut(alignment).map(Some).parse(rest)?;
        } else if word == "attribute" {
            (rest, ()) = cut(|rest| self::attributes(rest, &mut attributes)).parse(rest.skip())?;
        } else {
            break;
        }
    }
    let vector = match rest.word_text() {
        "v2" if rest.at(TokenKind::Word) => 2,
        "v4" if rest.at(TokenKind::Word) => 4,
        _ => 1,
    };
    let typed = if vector > 1 { rest.skip() } else { rest };
    let Some(ty) = Type::from_text(typed.word_text()).filter(|_| typed.at(TokenKind::Word)) else {
        return SyntaxError::expected(typed, "a type such as `.b32`");
    };
    let head = Head {
        stored: found.is_some(),
        space: found.unwrap_or(Space::Reg),
        bank: number,
        align,
        ty,
        vector,
        pointer: None,
        attributes,
    };
    Ok((typed.skip(), head))
}

/// `.align 16`
fn alignment<'t, 'a>(input: Tokens<'t, 'a>) -> Parsed<'t, 'a, u32> {
    literal_number(input.skip())
}

/// `(.managed, .unified(1, 2))`
pub fn attributes<'t, 'a>(input: Tokens<'t, 'a>, found: &mut Attributes) -> Parsed<'t, 'a, ()> {
    let (mut rest, _) = token(TokenKind::ParenOpen)(input)?;
    loop {
        if rest.at_word("managed") {
            found.managed = true;
            rest = rest.skip();
        } else if rest.at_word("unified") {
            let (after, _) = token(TokenKind::ParenOpen)(rest.skip())?;
            let (after, high) = literal_number(after)?;
            let (after, _) = token(TokenKind::Comma)(after)?;
            let (after, low) = literal_number(after)?;
            (rest, _) = token(TokenKind::ParenClose)(after)?;
            found.unified = Some((high, low));
        } else {
            return SyntaxError::expected(rest, "`.managed` or `.unified`");
        }
        if rest.at(TokenKind::ParenClose) {
            return Ok((rest.skip(), ()));
        }
        (rest, _) = token(TokenKind::Comma)(rest)?;
    }
}

/// `.ptr .global .align 16` after the type of a kernel's parameter. Without
/// `.ptr`, the alignment is that of the parameter.
fn pointer<'t, 'a>(input: Tokens<'t, 'a>, head: &mut Head) -> Parsed<'t, 'a, ()> {
    if !input.at_word("ptr") {
        if !input.at_word("align") {
            return Ok((input, ()));
        }
        let (rest, align) = cut(alignment).parse(input)?;
        head.align = Some(align);
        return Ok((rest, ()));
    }
    let mut pointer = PointerAttribute {
        space: None,
        bank: None,
        align: None,
    };
    let mut rest = input.skip();
    if let Some(space @ (Space::Const | Space::Global | Space::Local | Space::Shared)) =
        space(rest.word_text())
    {
        pointer.space = Some(space);
        pointer.bank = bank(rest.word_text());
        rest = rest.skip();
    }
    if rest.at_word("align") {
        let (after, align) = cut(alignment).parse(rest)?;
        pointer.align = Some(align);
        rest = after;
    }
    head.pointer = Some(pointer);
    Ok((rest, ()))
}

/// A variable of this name, before the rest of the declarator is parsed.
fn variable<'a>(head: &Head, name: Name<'a>, span: Span) -> Variable<'a> {
    Variable {
        linkage: Linkage::None,
        space: head.space,
        bank: head.bank,
        align: head.align,
        ty: head.ty,
        vector: head.vector,
        name,
        count: None,
        dims: Vec::new(),
        init: None,
        pointer: head.pointer,
        attributes: head.attributes,
        span,
    }
}

/// One declarator: `%r<9>`, or `x[2][3] = …`.
fn declarator<'t, 'a>(
    input: Tokens<'t, 'a>,
    head: &Head,
    start: Tokens<'t, 'a>,
    outline: bool,
) -> Parsed<'t, 'a, Variable<'a>> {
    let (mut rest, name) = declared_name(input)?;
    let mut variable = variable(head, name, Span::default());
    if rest.at(TokenKind::Less) {
        let (after, registers) = cut(literal_number::<u32>).parse(rest.skip())?;
        let (after, _) = cut(token(TokenKind::Greater)).parse(after)?;
        if registers > MAX_REGISTERS {
            return SyntaxError::fatal(
                rest.span_to(after),
                Code::Limit,
                "the number of registers exceeds the limit of ptxas",
            );
        }
        rest = after;
        variable.count = Some(registers);
        variable.span = start.span_to(rest);
        return Ok((rest, variable));
    }
    while rest.at(TokenKind::BracketOpen) {
        // Only the outermost dimension may have no size.
        let (after, size) = dimension(rest, variable.dims.is_empty())?;
        variable.dims.push(size);
        rest = after;
    }
    if rest.at(TokenKind::Assign) {
        let passed = outline.then(|| pass_over_integers(rest.skip(), &variable));
        let (after, value) = match passed.flatten() {
            Some(after) => (after, Initializer::List(Vec::new())),
            None => cut(initializer).parse(rest.skip())?,
        };
        variable.init = Some(value);
        rest = after;
    }
    variable.span = start.span_to(rest);
    Ok((rest, variable))
}

/// Passes over a list of integers that fits the array.
fn pass_over_integers<'t, 'a>(
    list: Tokens<'t, 'a>,
    variable: &Variable<'_>,
) -> Option<Tokens<'t, 'a>> {
    let [Some(size)] = *variable.dims.as_slice() else {
        return None;
    };
    if !list.at(TokenKind::BraceOpen) || variable.vector > 1 || !variable.ty.holds_integers() {
        return None;
    }
    let (end, count) = skip_integers(list.source, list.peek().span.start as usize)?;
    (count <= size).then(|| list.skip_to(end as u32))
}

/// `[4]`, or `[]` if `allow_unsized`.
fn dimension<'t, 'a>(input: Tokens<'t, 'a>, allow_unsized: bool) -> Parsed<'t, 'a, Option<u64>> {
    let inside = input.skip();
    let (rest, size) = if allow_unsized && inside.at(TokenKind::BracketClose) {
        (inside, None)
    } else {
        cut(literal_number).map(Some).parse(inside)?
    };
    let (rest, _) = cut(token(TokenKind::BracketClose)).parse(rest)?;
    Ok((rest, size))
}

/// Rejects reserved words.
fn declared_name<'t, 'a>(input: Tokens<'t, 'a>) -> Parsed<'t, 'a, Name<'a>> {
    let (rest, name) = name(input)?;
    match name.text {
        "_" | "WARP_SZ" => SyntaxError::expected(input, "a name"),
        _ => Ok((rest, name)),
    }
}

/// `.reg .b32 a, b<4>` up to the semicolon: one variable for each name, possibly none. In an
/// outline, a list of integers that fits its array is passed over and stands empty.
pub fn variables<'t, 'a>(
    input: Tokens<'t, 'a>,
    linkage: Linkage,
    outline: bool,
) -> Parsed<'t, 'a, Vec<Variable<'a>>> {
    let (rest, head) = head(input)?;
    if rest.at(TokenKind::Semicolon) {
        return Ok((rest, Vec::new()));
    }
    let one = |rest| {
        let (rest, variable) = declarator(rest, &head, input, outline)?;
        stored(rest, &head)?;
        Ok((rest, variable))
    };
    let (rest, mut variables) = separated_list1(token(TokenKind::Comma), cut(one)).parse(rest)?;
    for variable in &mut variables {
        variable.linkage = linkage;
    }
    Ok((rest, variables))
}

/// A parameter of a function: one name, with at most one dimension.
fn parameter<'t, 'a>(input: Tokens<'t, 'a>) -> Parsed<'t, 'a, Variable<'a>> {
    let (rest, mut head) = head(input)?;
    let (rest, ()) = pointer(rest, &mut head)?;
    let (mut rest, name) = name(rest)?;
    let mut variable = variable(&head, name, Span::default());
    if rest.at(TokenKind::BracketOpen) {
        let (after, size) = dimension(rest, true)?;
        variable.dims.push(size);
        rest = after;
    }
    variable.span = input.span_to(rest);
    stored(rest, &head)?;
    Ok((rest, variable))
}

/// Checks that the declaration before `rest` has a state space.
fn stored(rest: Tokens<'_, '_>, head: &Head) -> Result<(), nom::Err<SyntaxError>> {
    if head.stored {
        return Ok(());
    }
    Err(nom::Err::Failure(SyntaxError::new(
        rest.peek().span,
        Code::UnknownDirective,
        "the preceding declaration has no state space, such as `.reg` or `.global`",
    )))
}

/// `(.param .b32 a, …)` of the function with this name, if it has one.
pub fn parameters<'t, 'a>(
    input: Tokens<'t, 'a>,
    function: &'a str,
) -> Parsed<'t, 'a, Vec<Variable<'a>>> {
    let start = input.peek().span.start as usize;
    if input.at(TokenKind::ParenOpen)
        && let Some((found, end)) = fast_path::parameters(input.source, start, function)
    {
        let mut rest = input;
        rest.advance_to(end as u32);
        return Ok((rest, found));
    }
    list(TokenKind::ParenOpen, parameter, TokenKind::ParenClose).parse(input)
}

/// Names separated by commas.
pub fn names<'t, 'a>(input: Tokens<'t, 'a>) -> Parsed<'t, 'a, Vec<Name<'a>>> {
    separated_list1(token(TokenKind::Comma), cut(name)).parse(input)
}
