//! Tokens as nom's input, and the parsers of single tokens.

use nom::error::{ErrorKind, ParseError};
use nom::{Err, IResult, Input, Needed};

use crate::ptx::ast::{Name, Span};
use crate::ptx::diagnostic::{Code, Diagnostic};
use crate::ptx::token::{Token, TokenKind};

/// What is left to read.
#[derive(Clone, Copy, Debug)]
pub struct Tokens<'t, 'a> {
    pub source: &'a str,
    tokens: &'t [Token],
}

pub type Parsed<'t, 'a, O> = IResult<Tokens<'t, 'a>, O, Problem>;

/// Why a parser stopped, before the text around it is looked at.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Problem {
    /// The token that did not fit.
    pub span: Span,
    pub kind: ProblemKind,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ProblemKind {
    /// What would have fitted.
    Expected(&'static str),
    Other(Code, &'static str),
}

impl Problem {
    /// An error that lets other alternatives be tried.
    pub fn expected<'t, 'a, O>(input: Tokens<'t, 'a>, what: &'static str) -> Parsed<'t, 'a, O> {
        Err(Err::Error(Problem {
            span: input.peek().span,
            kind: ProblemKind::Expected(what),
        }))
    }

    pub fn new(span: Span, code: Code, message: &'static str) -> Problem {
        Problem {
            span,
            kind: ProblemKind::Other(code, message),
        }
    }

    /// An error that no other alternative mends.
    pub fn fatal<'t, 'a, O>(span: Span, code: Code, message: &'static str) -> Parsed<'t, 'a, O> {
        Err(Err::Failure(Problem::new(span, code, message)))
    }

    pub fn diagnostic(self, source: &str) -> Diagnostic {
        match self.kind {
            ProblemKind::Other(code, message) => Diagnostic::new(code, self.span, message),
            ProblemKind::Expected(what) => {
                let found = match text(source, self.span) {
                    "" => "the end of the text".to_owned(),
                    found if found.len() > 40 => "this".to_owned(),
                    found => format!("`{found}`"),
                };
                Diagnostic::new(
                    Code::Syntax,
                    self.span,
                    format!("expected {what}, found {found}"),
                )
            }
        }
    }
}

impl<'t, 'a> ParseError<Tokens<'t, 'a>> for Problem {
    fn from_error_kind(input: Tokens<'t, 'a>, _: ErrorKind) -> Self {
        Problem {
            span: input.peek().span,
            kind: ProblemKind::Expected("something else"),
        }
    }

    fn append(_: Tokens<'t, 'a>, _: ErrorKind, other: Self) -> Self {
        other
    }

    /// Of two alternatives the one that got further knows better.
    fn or(self, other: Self) -> Self {
        if other.span.start >= self.span.start {
            other
        } else {
            self
        }
    }
}

/// The text of a span; empty if the span is none of this source.
pub fn text(source: &str, span: Span) -> &str {
    source
        .get(span.start as usize..span.end as usize)
        .unwrap_or("")
}

/// From the start of one span to the end of another.
pub fn join(first: Span, last: Span) -> Span {
    Span {
        start: first.start,
        end: last.end.max(first.end),
    }
}

impl<'t, 'a> Tokens<'t, 'a> {
    pub fn new(source: &'a str, tokens: &'t [Token]) -> Self {
        Tokens { source, tokens }
    }

    /// The next token; past the last one, [`TokenKind::End`] at the end of the text.
    #[inline]
    pub fn peek(&self) -> Token {
        self.peek_at(0)
    }

    #[inline]
    pub fn peek_at(&self, ahead: usize) -> Token {
        match self.tokens.get(ahead) {
            Some(token) => *token,
            None => Token {
                kind: TokenKind::End,
                span: Span {
                    start: self.source.len() as u32,
                    end: self.source.len() as u32,
                },
            },
        }
    }

    #[inline]
    pub fn at(&self, kind: TokenKind) -> bool {
        self.peek().kind == kind
    }

    /// Whether the next token is this word, given without its dot.
    pub fn at_word(&self, word: &str) -> bool {
        self.at(TokenKind::Word) && self.word_text() == word
    }

    /// What the next token says, a [`TokenKind::Word`] without its dot.
    #[inline]
    pub fn word_text(&self) -> &'a str {
        let token = self.peek();
        let dot = u32::from(token.kind == TokenKind::Word);
        text(
            self.source,
            Span {
                start: token.span.start + dot,
                end: token.span.end,
            },
        )
    }

    /// Without the next token.
    #[inline]
    pub fn skip(self) -> Self {
        Tokens {
            tokens: self.tokens.get(1..).unwrap_or(&[]),
            ..self
        }
    }

    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// From the start of `self` to the last token before `rest`.
    pub fn span_to(&self, rest: Tokens<'t, 'a>) -> Span {
        let first = self.peek().span;
        match (self.len() - rest.len()).checked_sub(1) {
            Some(last) => join(first, self.peek_at(last).span),
            None => Span {
                start: first.start,
                end: first.start,
            },
        }
    }
}

impl<'t, 'a> Input for Tokens<'t, 'a> {
    type Item = Token;
    type Iter = std::iter::Copied<std::slice::Iter<'t, Token>>;
    type IterIndices = std::iter::Enumerate<Self::Iter>;

    fn input_len(&self) -> usize {
        self.tokens.len()
    }

    fn take(&self, count: usize) -> Self {
        Tokens {
            tokens: &self.tokens[..count],
            ..*self
        }
    }

    fn take_from(&self, count: usize) -> Self {
        Tokens {
            tokens: &self.tokens[count..],
            ..*self
        }
    }

    fn take_split(&self, count: usize) -> (Self, Self) {
        (self.take_from(count), self.take(count))
    }

    fn position<P: Fn(Token) -> bool>(&self, predicate: P) -> Option<usize> {
        self.iter_elements().position(predicate)
    }

    fn iter_elements(&self) -> Self::Iter {
        self.tokens.iter().copied()
    }

    fn iter_indices(&self) -> Self::IterIndices {
        self.iter_elements().enumerate()
    }

    fn slice_index(&self, count: usize) -> Result<usize, Needed> {
        match count.checked_sub(self.tokens.len()) {
            None | Some(0) => Ok(count),
            Some(missing) => Err(Needed::new(missing)),
        }
    }
}

/// How messages call a token.
const fn describe(kind: TokenKind) -> &'static str {
    match kind {
        TokenKind::Identifier => "a name",
        TokenKind::Integer => "a number",
        TokenKind::Text => "a string",
        TokenKind::Comma => "`,`",
        TokenKind::Semicolon => "`;`",
        TokenKind::Colon => "`:`",
        TokenKind::ParenOpen => "`(`",
        TokenKind::ParenClose => "`)`",
        TokenKind::BraceOpen => "`{`",
        TokenKind::BraceClose => "`}`",
        TokenKind::BracketOpen => "`[`",
        TokenKind::BracketClose => "`]`",
        TokenKind::Greater => "`>`",
        _ => "something else",
    }
}

/// A token of this kind.
pub fn token<'t, 'a>(kind: TokenKind) -> impl Fn(Tokens<'t, 'a>) -> Parsed<'t, 'a, Token> + Copy {
    move |input| {
        let next = input.peek();
        if next.kind == kind {
            Ok((input.skip(), next))
        } else {
            Problem::expected(input, describe(kind))
        }
    }
}

/// A name, `_` included.
pub fn name<'t, 'a>(input: Tokens<'t, 'a>) -> Parsed<'t, 'a, Name<'a>> {
    let next = input.peek();
    if next.kind != TokenKind::Identifier {
        return Problem::expected(input, "a name");
    }
    let name = Name {
        text: text(input.source, next.span),
    };
    Ok((input.skip(), name))
}

/// This name and no other.
pub fn keyword<'t, 'a>(
    word: &'static str,
) -> impl Fn(Tokens<'t, 'a>) -> Parsed<'t, 'a, Token> + Copy {
    move |input| {
        if input.at(TokenKind::Identifier) && input.word_text() == word {
            Ok((input.skip(), input.peek()))
        } else {
            Problem::expected(input, word)
        }
    }
}
