//! Operands (PTX ISA, "Instruction Operands").

use nom::combinator::cut;
use nom::{Err, Parser};

use super::expression::{at_float, float, integer};
use super::input::{Parsed, Problem, Tokens, join, name, text, token};
use crate::ptx::ast::{AddressBase, Integer, List, Name, Operand, Selector, Span};
use crate::ptx::diagnostic::Code;
use crate::ptx::names::SpecialRegister;
use crate::ptx::token::TokenKind;

/// Braces and brackets inside one another.
const MAX_DEPTH: u32 = 8;

/// Operands of one function as they are read.
#[derive(Debug, Default)]
pub struct Pool<'a> {
    /// Finished lists, each in one piece.
    pub operands: Vec<Operand<'a>>,
    /// Lists under way; kept for its memory.
    open: Vec<Operand<'a>>,
}

impl<'a> Pool<'a> {
    /// Moves what was read since `mark` to the finished operands.
    fn close(&mut self, mark: usize) -> List {
        let start = self.operands.len() as u32;
        self.operands.extend(self.open.drain(mark..));
        List {
            start,
            len: self.operands.len() as u32 - start,
        }
    }

    /// The operands of an instruction, up to its semicolon.
    pub fn operands<'t>(&mut self, input: Tokens<'t, 'a>, call: bool) -> Parsed<'t, 'a, List> {
        self.open.clear();
        if matches!(
            input.peek().kind,
            TokenKind::Semicolon | TokenKind::BraceClose | TokenKind::End
        ) {
            return Ok((input, List::default()));
        }
        self.separated(input, call, MAX_DEPTH)
    }

    /// Operands between commas.
    fn separated<'t>(
        &mut self,
        input: Tokens<'t, 'a>,
        call: bool,
        depth: u32,
    ) -> Parsed<'t, 'a, List> {
        let mark = self.open.len();
        let mut rest = input;
        loop {
            let (after, operand) = self.operand(rest, call, depth)?;
            self.open.push(operand);
            if !after.at(TokenKind::Comma) {
                return Ok((after, self.close(mark)));
            }
            rest = after.skip();
        }
    }

    /// One operand with what a `|` joins to it.
    fn operand<'t>(
        &mut self,
        input: Tokens<'t, 'a>,
        call: bool,
        depth: u32,
    ) -> Parsed<'t, 'a, Operand<'a>> {
        let (rest, first) = self.single(input, call, depth)?;
        if !rest.at(TokenKind::Or) {
            return Ok((rest, first));
        }
        let mark = self.open.len();
        let (rest, second) = self.single(rest.skip(), false, depth)?;
        self.open.extend([first, second]);
        Ok((rest, Operand::Pair(self.close(mark), input.span_to(rest))))
    }

    fn single<'t>(
        &mut self,
        input: Tokens<'t, 'a>,
        call: bool,
        depth: u32,
    ) -> Parsed<'t, 'a, Operand<'a>> {
        if at_float(input) {
            return float.map(Operand::Float).parse(input);
        }
        let next = input.peek_at(1).kind;
        match input.peek().kind {
            TokenKind::Identifier if next == TokenKind::BracketOpen => self.element(input),
            TokenKind::Identifier => named(input),
            TokenKind::Not if next == TokenKind::Identifier => {
                let (rest, name) = name(input.skip())?;
                Ok((rest, Operand::Not(name)))
            }
            TokenKind::Minus if next == TokenKind::Identifier => negated(input),
            TokenKind::BraceOpen => {
                let depth = deeper(input, depth)?;
                let (rest, list) = self.separated(input.skip(), false, depth)?;
                let (rest, _) = cut(token(TokenKind::BraceClose)).parse(rest)?;
                Ok((rest, Operand::Vector(list, input.span_to(rest))))
            }
            TokenKind::BracketOpen => self.bracketed(input, depth),
            TokenKind::ParenOpen if call => self.arguments(input, depth),
            _ => match integer(input) {
                Ok((rest, value)) => Ok((rest, Operand::Integer(value))),
                Err(Err::Error(_)) => Problem::expected(input, "an operand"),
                Err(failure) => Err(failure),
            },
        }
    }

    /// `name[4]`, `name[%r1+1]`
    fn element<'t>(&mut self, input: Tokens<'t, 'a>) -> Parsed<'t, 'a, Operand<'a>> {
        let (rest, array) = name(input)?;
        let (rest, index) = match rest.skip() {
            inside if inside.at(TokenKind::Identifier) => named(inside)?,
            inside => integer.map(Operand::Integer).parse(inside)?,
        };
        let (rest, _) = cut(token(TokenKind::BracketClose)).parse(rest)?;
        let mark = self.open.len();
        self.open.extend([Operand::Name(array), index]);
        let element = Operand::Element(self.close(mark), input.span_to(rest));
        // `.unified` says nothing of an array in this module.
        let rest = if rest.at_word("unified") {
            rest.skip()
        } else {
            rest
        };
        Ok((rest, element))
    }

    fn arguments<'t>(&mut self, input: Tokens<'t, 'a>, depth: u32) -> Parsed<'t, 'a, Operand<'a>> {
        let depth = deeper(input, depth)?;
        let inside = input.skip();
        let (rest, list) = if inside.at(TokenKind::ParenClose) {
            (inside, List::default())
        } else {
            self.separated(inside, false, depth)?
        };
        let (rest, _) = cut(token(TokenKind::ParenClose)).parse(rest)?;
        Ok((rest, Operand::Arguments(list, input.span_to(rest))))
    }

    /// `[name+4]`, `[16]`, `[texture, {x, y}]`
    fn bracketed<'t>(&mut self, input: Tokens<'t, 'a>, depth: u32) -> Parsed<'t, 'a, Operand<'a>> {
        let depth = deeper(input, depth)?;
        let (rest, list_or_one) = self.bracket_contents(input.skip(), depth)?;
        let (rest, _) = cut(token(TokenKind::BracketClose)).parse(rest)?;
        let span = input.span_to(rest);
        let unified = rest.at_word("unified");
        let rest = if unified { rest.skip() } else { rest };
        let operand = match list_or_one {
            Contents::Address(base, offset) => Operand::Address {
                base,
                offset,
                unified,
            },
            Contents::List(list) => Operand::Indexed(list, span),
        };
        Ok((rest, operand))
    }

    fn bracket_contents<'t>(
        &mut self,
        input: Tokens<'t, 'a>,
        depth: u32,
    ) -> Parsed<'t, 'a, Contents<'a>> {
        let (rest, first) = self.single(input, false, depth)?;
        if !rest.at(TokenKind::Comma) {
            let address = match first {
                Operand::Name(name) => Some(Contents::Address(AddressBase::Name(name), 0)),
                Operand::Offset { name, offset } => {
                    Some(Contents::Address(AddressBase::Name(name), offset))
                }
                Operand::Integer(Integer { value, span, .. }) => Some(Contents::Address(
                    AddressBase::Immediate(span),
                    value as i64,
                )),
                _ => None,
            };
            if let Some(address) = address {
                return Ok((rest, address));
            }
        }
        let mark = self.open.len();
        self.open.push(first);
        let mut rest = rest;
        while rest.at(TokenKind::Comma) {
            let (after, operand) = self.operand(rest.skip(), false, depth)?;
            self.open.push(operand);
            rest = after;
        }
        Ok((rest, Contents::List(self.close(mark))))
    }
}

/// What stands between brackets.
enum Contents<'a> {
    Address(AddressBase<'a>, i64),
    List(List),
}

fn deeper(input: Tokens<'_, '_>, depth: u32) -> Result<u32, Err<Problem>> {
    depth.checked_sub(1).ok_or(Err::Failure(Problem::new(
        input.peek().span,
        Code::Limit,
        "these operands are nested too deeply",
    )))
}

/// An operand that begins with a name.
fn named<'t, 'a>(input: Tokens<'t, 'a>) -> Parsed<'t, 'a, Operand<'a>> {
    let (rest, name) = name(input)?;
    if name.text == "WARP_SZ" {
        return integer.map(Operand::Integer).parse(input);
    }
    match rest.peek().kind {
        TokenKind::Word => dotted(rest, name, false),
        TokenKind::Plus | TokenKind::Minus => {
            let (rest, offset) = offset(rest)?;
            Ok((rest, Operand::Offset { name, offset }))
        }
        _ => Ok((rest, plain(name, input.peek().span))),
    }
}

/// A name alone: `_`, a special register or something declared.
fn plain(name: Name<'_>, span: Span) -> Operand<'_> {
    if name.text == "_" {
        return Operand::Sink(span);
    }
    match special(name.text) {
        Some(register) => Operand::Special(register, span),
        None => Operand::Name(name),
    }
}

/// Registers are the most frequent operands, and nearly all are called `%r1`,
/// `%rd1`, `%f1` or `%p1`: those are told from special registers by two bytes.
fn special(text: &str) -> Option<SpecialRegister> {
    match text.as_bytes() {
        [b'%', b'r', b'e', ..] => SpecialRegister::from_text(text),
        [b'%', b'r' | b'f' | b'h', ..] | [b'%', b'p', b'0'..=b'9', ..] => None,
        [b'%', ..] => SpecialRegister::from_text(text),
        _ => None,
    }
}

/// `%tid.x`, `%v.y`, `%r.b0`: `input` stands at the word.
fn dotted<'t, 'a>(
    input: Tokens<'t, 'a>,
    name: Name<'a>,
    negated: bool,
) -> Parsed<'t, 'a, Operand<'a>> {
    let word = input.peek();
    let rest = input.skip();
    let span = join(name.span(input.source), word.span);
    if let Some(register) = SpecialRegister::from_text(text(input.source, span)) {
        return Ok((rest, Operand::Special(register, span)));
    }
    let component = match input.word_text() {
        "x" | "r" => Some(0),
        "y" | "g" => Some(1),
        "z" | "b" => Some(2),
        "w" | "a" => Some(3),
        _ => None,
    };
    if let Some(component) = component {
        return Ok((rest, Operand::Component { name, component }));
    }
    let Some(selector) = Selector::from_text(input.word_text()) else {
        return Problem::fatal(
            word.span,
            Code::OperandKind,
            "no register has a part of this name",
        );
    };
    let operand = Operand::Select {
        name,
        negated,
        selector,
    };
    Ok((rest, operand))
}

/// `-%r`, `-%r.b0`
fn negated<'t, 'a>(input: Tokens<'t, 'a>) -> Parsed<'t, 'a, Operand<'a>> {
    let (rest, name) = name(input.skip())?;
    if name.text == "WARP_SZ" {
        return integer.map(Operand::Integer).parse(input);
    }
    if rest.at(TokenKind::Word) {
        return dotted(rest, name, true);
    }
    Ok((rest, Operand::Negated(name)))
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

impl Operand<'_> {
    /// The bytes of an operand; of one with a name, those of the name.
    pub fn span(&self, source: &str) -> Span {
        match *self {
            Operand::Name(name)
            | Operand::Component { name, .. }
            | Operand::Not(name)
            | Operand::Negated(name)
            | Operand::Select { name, .. }
            | Operand::Offset { name, .. }
            | Operand::Address {
                base: AddressBase::Name(name),
                ..
            } => name.span(source),
            Operand::Integer(integer) => integer.span,
            Operand::Float(float) => float.span,
            Operand::Special(_, span)
            | Operand::Address {
                base: AddressBase::Immediate(span),
                ..
            }
            | Operand::Element(_, span)
            | Operand::Vector(_, span)
            | Operand::Arguments(_, span)
            | Operand::Indexed(_, span)
            | Operand::Pair(_, span)
            | Operand::Sink(span) => span,
        }
    }
}
