//! Operands (PTX ISA, "Instruction Operands").
//!
//! Operands are most of a text, so these parsers do not use nom combinators. They advance their
//! input in place and push operands to a pool.

use nom::Err;

use super::expression::{Constant, constant, integer, starts_constant};
use super::input::{Parsed, SyntaxError, Tokens, join, name, text};
use crate::ast::{AddressBase, Guard, Integer, List, Name, Operand, Selector, Span};
use crate::diagnostic::Code;
use crate::names::SpecialRegister;
use crate::token::TokenKind;

/// The maximum nesting of braces and brackets. PTX needs no more than an address with vectors of
/// coordinates.
const MAX_DEPTH: u32 = 8;

/// The maximum number of operands of an instruction or vector. ptxas 13.5 overflows its stack
/// at about this number.
const MAX_OPERANDS: usize = 4989;

pub type Outcome<T> = Result<T, Err<SyntaxError>>;

/// The operands of a function during parsing.
#[derive(Debug, Default)]
pub struct Pool<'a> {
    /// Finished lists, each contiguous.
    pub operands: Vec<Operand<'a>>,
    /// Unfinished lists. Reused to avoid allocation.
    pub(super) open: Vec<Operand<'a>>,
}

impl<'a> Pool<'a> {
    /// Moves the operands since `mark` to the finished ones.
    fn close(&mut self, mark: usize) -> List {
        let start = self.operands.len() as u32;
        self.operands.extend_from_slice(&self.open[mark..]);
        self.open.truncate(mark);
        List {
            start,
            len: self.operands.len() as u32 - start,
        }
    }

    /// Stores a guard where [`Body::guard`](crate::ast::Body::guard) finds it: after the operands,
    /// which are the last finished list.
    #[inline]
    pub fn guard(&mut self, guard: Guard<'a>, operands: List) -> List {
        let len = operands.len;
        let start = self.operands.len() as u32 - len;
        let Guard { predicate, negated } = guard;
        self.operands.push(if negated {
            Operand::Not(predicate)
        } else {
            Operand::Name(predicate)
        });
        List { start, len }
    }

    /// The operands of an instruction, up to its semicolon.
    pub fn operands(&mut self, rest: &mut Tokens<'_, 'a>, call: bool) -> Outcome<List> {
        self.open.clear();
        if matches!(
            rest.peek().kind,
            TokenKind::Semicolon | TokenKind::BraceClose | TokenKind::End
        ) {
            return Ok(List::default());
        }
        self.separated(rest, call, MAX_DEPTH)
    }

    /// Operands between commas.
    fn separated(&mut self, rest: &mut Tokens<'_, 'a>, call: bool, depth: u32) -> Outcome<List> {
        let mark = self.open.len();
        loop {
            self.operand(rest, call, depth)?;
            if !rest.at(TokenKind::Comma) {
                return Ok(self.close(mark));
            }
            if self.open.len() - mark > MAX_OPERANDS {
                return SyntaxError::stop(rest.peek().span, Code::Limit, "too many operands");
            }
            rest.advance();
        }
    }

    /// Parses one operand, or operands joined by `|`, into `open`.
    fn operand(&mut self, rest: &mut Tokens<'_, 'a>, call: bool, depth: u32) -> Outcome<()> {
        let start = rest.peek().span.start;
        let mark = self.open.len();
        self.single(rest, call, depth)?;
        if rest.at(TokenKind::Or) {
            rest.advance();
            self.single(rest, false, depth)?;
            let pair = Operand::Pair(self.close(mark), rest.span_from(start));
            self.open.push(pair);
        }
        Ok(())
    }

    fn single(&mut self, rest: &mut Tokens<'_, 'a>, call: bool, depth: u32) -> Outcome<()> {
        let next = rest.peek();
        let operand = match next.kind {
            TokenKind::Identifier => return self.named(rest),
            TokenKind::BracketOpen => return self.bracketed(rest, depth),
            TokenKind::BraceOpen => {
                let depth = deeper(next.span, depth)?;
                rest.advance();
                let list = self.separated(rest, false, depth)?;
                close(rest, TokenKind::BraceClose, "`,` or `}`")?;
                Operand::Vector(list, rest.span_from(next.span.start))
            }
            TokenKind::ParenOpen if call => self.arguments(rest, depth)?,
            TokenKind::Not if rest.skip().at(TokenKind::Identifier) => {
                Operand::Not(step(rest, name(rest.skip()))?)
            }
            TokenKind::Minus if rest.skip().at(TokenKind::Identifier) => negated(rest)?,
            kind if starts_constant(kind) => match step(rest, constant(*rest))? {
                Constant::Integer(integer) => Operand::Integer(integer),
                Constant::Float(float) => Operand::Float(float),
            },
            _ => return step(rest, SyntaxError::expected(*rest, "an operand")),
        };
        self.open.push(operand);
        Ok(())
    }

    /// An operand that begins with a name.
    fn named(&mut self, rest: &mut Tokens<'_, 'a>) -> Outcome<()> {
        let span = rest.peek().span;
        let name = Name {
            text: rest.word_text(),
        };
        if name.text == "WARP_SZ" {
            let integer = step(rest, integer(*rest))?;
            self.open.push(Operand::Integer(integer));
            return Ok(());
        }
        rest.advance();
        let operand = match rest.peek().kind {
            TokenKind::Word => dotted(rest, name, false)?,
            TokenKind::Plus => {
                let offset = step(rest, offset(*rest))?;
                Operand::Offset { name, offset }
            }
            TokenKind::BracketOpen => self.element(rest, name)?,
            _ => name_operand(name, span),
        };
        self.open.push(operand);
        Ok(())
    }

    /// `name[4]`, `name[%r1+1]`: `rest` is at the bracket.
    fn element(&mut self, rest: &mut Tokens<'_, 'a>, array: Name<'a>) -> Outcome<Operand<'a>> {
        let start = array.span(rest.source).start;
        rest.advance();
        let index = if rest.at(TokenKind::Identifier) && rest.word_text() != "WARP_SZ" {
            let name = step(rest, name(*rest))?;
            match step(rest, offset(*rest))? {
                0 => Operand::Name(name),
                offset => Operand::Offset { name, offset },
            }
        } else {
            Operand::Integer(step(rest, integer(*rest))?)
        };
        close(rest, TokenKind::BracketClose, "`]`")?;
        let mark = self.open.len();
        self.open.extend([Operand::Name(array), index]);
        let element = Operand::Element(self.close(mark), rest.span_from(start));
        // `.unified` has no effect on a named array.
        if rest.at_word("unified") {
            rest.advance();
        }
        Ok(element)
    }

    fn arguments(&mut self, rest: &mut Tokens<'_, 'a>, depth: u32) -> Outcome<Operand<'a>> {
        let open = rest.peek().span;
        let depth = deeper(open, depth)?;
        rest.advance();
        let list = match rest.peek().kind {
            TokenKind::ParenClose => List::default(),
            _ => self.separated(rest, false, depth)?,
        };
        close(rest, TokenKind::ParenClose, "`,` or `)`")?;
        Ok(Operand::Arguments(list, rest.span_from(open.start)))
    }

    /// `[name+4]`, `[16]`, `[texture, {x, y}]`
    fn bracketed(&mut self, rest: &mut Tokens<'_, 'a>, depth: u32) -> Outcome<()> {
        let open = rest.peek().span;
        let depth = deeper(open, depth)?;
        rest.advance();
        let mark = self.open.len();
        self.single(rest, false, depth)?;
        let address = match self.open.last() {
            _ if rest.at(TokenKind::Comma) => None,
            Some(Operand::Name(name)) => Some((AddressBase::Name(*name), 0)),
            Some(Operand::Special(_, span)) => {
                let text = text(rest.source, *span);
                // Components such as `%tid.x` are not addresses.
                (!text.contains('.')).then_some((AddressBase::Name(Name { text }), 0))
            }
            Some(Operand::Offset { name, offset }) => Some((AddressBase::Name(*name), *offset)),
            Some(Operand::Integer(Integer { value, span, .. })) => {
                Some((AddressBase::Immediate(*span), *value as i64))
            }
            _ => None,
        };
        while rest.at(TokenKind::Comma) {
            rest.advance();
            self.operand(rest, false, depth)?;
        }
        close(rest, TokenKind::BracketClose, "`]`")?;
        let span = rest.span_from(open.start);
        let unified = rest.at_word("unified");
        if unified {
            rest.advance();
        }
        let operand = match address {
            Some((base, offset)) => {
                self.open.truncate(mark);
                Operand::Address {
                    base,
                    offset,
                    unified,
                }
            }
            None => Operand::Indexed(self.close(mark), span),
        };
        self.open.push(operand);
        Ok(())
    }
}

/// Advances `rest` past the parsed text.
pub fn step<'t, 'a, O>(rest: &mut Tokens<'t, 'a>, parsed: Parsed<'t, 'a, O>) -> Outcome<O> {
    let (after, value) = parsed?;
    *rest = after;
    Ok(value)
}

/// Parses the closing token of a list.
fn close(rest: &mut Tokens<'_, '_>, kind: TokenKind, what: &'static str) -> Outcome<()> {
    if rest.at(kind) {
        rest.advance();
        return Ok(());
    }
    step(rest, SyntaxError::expected(*rest, what))
}

fn deeper(open: Span, depth: u32) -> Outcome<u32> {
    depth.checked_sub(1).ok_or(Err::Failure(SyntaxError::new(
        open,
        Code::Limit,
        "these operands are nested too deeply",
    )))
}

/// A single name: `_`, a special register or a declared name.
pub(super) fn name_operand(name: Name<'_>, span: Span) -> Operand<'_> {
    if name.text == "_" {
        return Operand::Sink(span);
    }
    match special(name.text) {
        Some(register) => Operand::Special(register, span),
        None => Operand::Name(name),
    }
}

/// Registers are the most frequent operands, and nearly all have names like `%r1`, `%rd1`,
/// `%f1` or `%p1`. Two bytes distinguish these from special registers.
fn special(text: &str) -> Option<SpecialRegister> {
    match text.as_bytes() {
        [b'%', b'r', b'e', ..] => SpecialRegister::from_text(text),
        [b'%', b'r' | b'f' | b'h', ..] | [b'%', b'p', b'0'..=b'9', ..] => None,
        [b'%', ..] => SpecialRegister::from_text(text),
        _ => None,
    }
}

/// `%tid.x`, `%v.y`, `%r.b0`: `rest` is at the word.
fn dotted<'a>(rest: &mut Tokens<'_, 'a>, name: Name<'a>, negated: bool) -> Outcome<Operand<'a>> {
    let (word, part) = (rest.peek().span, rest.word_text());
    let span = join(name.span(rest.source), word);
    let register = if span.end - span.start == (name.text.len() + 1 + part.len()) as u32 {
        SpecialRegister::from_text(text(rest.source, span))
    } else {
        // There is white space before the dot.
        SpecialRegister::from_text(&format!("{}.{part}", name.text))
    };
    rest.advance();
    if let Some(register) = register {
        if negated {
            let message = "a special register cannot be negated";
            return SyntaxError::stop(span, Code::OperandKind, message);
        }
        return Ok(Operand::Special(register, span));
    }
    let component = match part {
        "x" | "r" => Some(0),
        "y" | "g" => Some(1),
        "z" | "b" => Some(2),
        "w" | "a" => Some(3),
        _ => None,
    };
    if let Some(component) = component {
        return Ok(Operand::Component { name, component });
    }
    match Selector::from_text(part) {
        Some(selector) => Ok(Operand::Select {
            name,
            negated,
            selector,
        }),
        None => SyntaxError::stop(
            word,
            Code::OperandKind,
            "unknown component or selector of a register",
        ),
    }
}

/// `-%r`, `-%r.b0`
fn negated<'a>(rest: &mut Tokens<'_, 'a>) -> Outcome<Operand<'a>> {
    let start = *rest;
    let name = step(rest, name(start.skip()))?;
    if name.text == "WARP_SZ" {
        return Ok(Operand::Integer(step(rest, integer(start))?));
    }
    if rest.at(TokenKind::Word) {
        return dotted(rest, name, true);
    }
    Ok(Operand::Negated(name))
}

/// `+4`, `+-4`, or nothing, which is 0.
pub fn offset<'t, 'a>(input: Tokens<'t, 'a>) -> Parsed<'t, 'a, i64> {
    if !input.at(TokenKind::Plus) {
        return Ok((input, 0));
    }
    // The offset of `name+4-8` is everything after the first sign.
    let (rest, offset) = integer(input.skip())?;
    Ok((rest, offset.value as i64))
}

impl Operand<'_> {
    /// The span of an operand; if it has a name, that of the name.
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
