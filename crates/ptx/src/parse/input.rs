//! The token stream as input for nom, and parsers of single tokens.

use nom::error::{ErrorKind, ParseError};
use nom::{Err, IResult, Input, Needed};

use crate::ast::{Name, Span};
use crate::diagnostic::{Code, Diagnostic};
use crate::token::{LexicalErrors, PackedSpan, Token, TokenKind, token_at};

/// The remaining input: an offset with the next token.
///
/// TokenIter step lexes one token, so backtracking and looking past the next token should be
/// rare.
#[derive(Clone, Copy, Debug)]
pub struct Tokens<'t, 'a> {
    pub source: &'a str,
    errors: &'t LexicalErrors,
    kind: TokenKind,
    place: PackedSpan,
    /// The end of the previous token.
    before: u32,
}

pub type Parsed<'t, 'a, O> = IResult<Tokens<'t, 'a>, O, SyntaxError>;

/// The error of a parser, without context.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SyntaxError {
    /// The unexpected token.
    pub span: Span,
    pub kind: SyntaxErrorKind,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SyntaxErrorKind {
    /// The expected syntax.
    Expected(&'static str),
    Other(Code, &'static str),
}

impl SyntaxError {
    /// A recoverable error, so that nom tries other alternatives.
    pub fn expected<'t, 'a, O>(input: Tokens<'t, 'a>, what: &'static str) -> Parsed<'t, 'a, O> {
        Err(Err::Error(SyntaxError {
            span: input.peek().span,
            kind: SyntaxErrorKind::Expected(what),
        }))
    }

    pub fn new(span: Span, code: Code, message: &'static str) -> SyntaxError {
        SyntaxError {
            span,
            kind: SyntaxErrorKind::Other(code, message),
        }
    }

    /// A fatal error, for which nom tries no alternatives.
    pub fn fatal<'t, 'a, O>(span: Span, code: Code, message: &'static str) -> Parsed<'t, 'a, O> {
        Err(Err::Failure(SyntaxError::new(span, code, message)))
    }

    /// A fatal error of a parser that advances its input in place.
    pub fn stop<O>(span: Span, code: Code, message: &'static str) -> Result<O, Err<SyntaxError>> {
        Err(Err::Failure(SyntaxError::new(span, code, message)))
    }

    pub fn diagnostic(self, source: &str) -> Diagnostic {
        match self.kind {
            SyntaxErrorKind::Other(code, message) => Diagnostic::new(code, self.span, message),
            SyntaxErrorKind::Expected(what) => {
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

impl<'t, 'a> ParseError<Tokens<'t, 'a>> for SyntaxError {
    fn from_error_kind(input: Tokens<'t, 'a>, _: ErrorKind) -> Self {
        SyntaxError {
            span: input.peek().span,
            kind: SyntaxErrorKind::Expected("something else"),
        }
    }

    fn append(_: Tokens<'t, 'a>, _: ErrorKind, other: Self) -> Self {
        other
    }

    /// Keeps the error of the alternative that got further.
    fn or(self, other: Self) -> Self {
        if other.span.start >= self.span.start {
            other
        } else {
            self
        }
    }
}

/// The text of a span; empty if it is not a span of this source.
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
    pub fn new(source: &'a str, errors: &'t LexicalErrors) -> Self {
        Tokens::from(source, 0, errors)
    }

    /// From the byte `start`, where a token must begin.
    pub fn from(source: &'a str, start: u32, errors: &'t LexicalErrors) -> Self {
        let (kind, place) = token_at(source, start, errors);
        Tokens {
            source,
            errors,
            kind,
            place,
            before: start,
        }
    }

    /// The next token; past the last one, [`TokenKind::End`] at the end of the text.
    #[inline]
    pub fn peek(&self) -> Token {
        Token {
            kind: self.kind,
            span: Span {
                start: self.place.start(),
                end: self.place.end(),
            },
        }
    }

    pub fn peek_at(&self, ahead: usize) -> Token {
        (0..ahead).fold(*self, |rest, _| rest.skip()).peek()
    }

    #[inline]
    pub fn at(&self, kind: TokenKind) -> bool {
        self.kind == kind
    }

    /// Whether the next token is this word, given without its dot.
    pub fn at_word(&self, word: &str) -> bool {
        self.at(TokenKind::Word) && self.word_text() == word
    }

    /// The text of the next token, a [`TokenKind::Word`] without its dot.
    #[inline]
    pub fn word_text(&self) -> &'a str {
        let dot = u32::from(self.kind == TokenKind::Word);
        let (start, end) = (self.place.start() + dot, self.place.end());
        text(self.source, Span { start, end })
    }

    /// Skips the next token.
    #[inline]
    pub fn skip(self) -> Self {
        self.skip_to(self.place.end())
    }

    /// Advances past the next token.
    #[inline]
    pub fn advance(&mut self) {
        self.advance_to(self.place.end());
    }

    /// Advances to the first token after the byte `end`, which must be the end of a token.
    #[inline]
    pub fn advance_to(&mut self, end: u32) {
        (self.kind, self.place) = token_at(self.source, end, self.errors);
        self.before = end;
    }

    /// The end of the last consumed token.
    #[inline]
    pub fn passed(&self) -> u32 {
        self.before
    }

    /// From the byte `start` to the last consumed token.
    #[inline]
    pub fn span_from(&self, start: u32) -> Span {
        Span {
            start,
            end: self.before.max(start),
        }
    }

    /// Skips everything before the byte `end`, which must be the end of a token.
    #[inline]
    pub fn skip_to(mut self, end: u32) -> Self {
        self.advance_to(end);
        self
    }

    /// The number of bytes from the next token.
    pub fn len(&self) -> usize {
        self.source.len() - self.place.start() as usize
    }

    pub fn is_empty(&self) -> bool {
        self.kind == TokenKind::End
    }

    /// From the start of `self` to the last token before `rest`.
    #[inline]
    pub fn span_to(&self, rest: Tokens<'t, 'a>) -> Span {
        rest.span_from(self.place.start())
    }
}

/// Offsets are in bytes, as for nom's string inputs.
impl<'t, 'a> Input for Tokens<'t, 'a> {
    type Item = Token;
    type Iter = TokenIter<'t, 'a>;
    type IterIndices = TokenIndices<'t, 'a>;

    fn input_len(&self) -> usize {
        self.len()
    }

    fn take(&self, count: usize) -> Self {
        let end = self.place.start() as usize + count;
        Tokens {
            source: self.source.get(..end).unwrap_or(self.source),
            ..*self
        }
    }

    fn take_from(&self, count: usize) -> Self {
        self.skip_to(self.place.start() + count as u32)
    }

    fn take_split(&self, count: usize) -> (Self, Self) {
        (self.take_from(count), self.take(count))
    }

    fn position<P: Fn(Token) -> bool>(&self, predicate: P) -> Option<usize> {
        let mut places = self.iter_indices();
        places
            .find(|(_, token)| predicate(*token))
            .map(|(at, _)| at)
    }

    fn iter_elements(&self) -> Self::Iter {
        TokenIter(*self)
    }

    fn iter_indices(&self) -> Self::IterIndices {
        let start = self.place.start();
        TokenIndices(TokenIter(*self), start)
    }

    fn slice_index(&self, count: usize) -> Result<usize, Needed> {
        let mut places = self.iter_indices().map(|(at, _)| at);
        match places.nth(count) {
            Some(at) => Ok(at),
            None => Err(Needed::Unknown),
        }
    }
}

/// An iterator over the remaining tokens.
pub struct TokenIter<'t, 'a>(Tokens<'t, 'a>);

impl Iterator for TokenIter<'_, '_> {
    type Item = Token;

    fn next(&mut self) -> Option<Token> {
        let token = self.0.peek();
        self.0 = self.0.skip();
        (token.kind != TokenKind::End).then_some(token)
    }
}

/// An iterator over the remaining tokens with their offsets.
pub struct TokenIndices<'t, 'a>(TokenIter<'t, 'a>, u32);

impl Iterator for TokenIndices<'_, '_> {
    type Item = (usize, Token);

    fn next(&mut self) -> Option<(usize, Token)> {
        let token = self.0.next()?;
        Some(((token.span.start - self.1) as usize, token))
    }
}

/// The name of a token in messages.
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
            SyntaxError::expected(input, describe(kind))
        }
    }
}

/// A name, `_` included.
pub fn name<'t, 'a>(input: Tokens<'t, 'a>) -> Parsed<'t, 'a, Name<'a>> {
    let next = input.peek();
    if next.kind != TokenKind::Identifier {
        return SyntaxError::expected(input, "a name");
    }
    let name = Name {
        text: text(input.source, next.span),
    };
    if matches!(name.text, "function_name" | "inlined_at") {
        return SyntaxError::expected(input, "a name that is not a keyword");
    }
    Ok((input.skip(), name))
}

/// Exactly this name.
pub fn keyword<'t, 'a>(
    word: &'static str,
) -> impl Fn(Tokens<'t, 'a>) -> Parsed<'t, 'a, Token> + Copy {
    move |input| {
        if input.at(TokenKind::Identifier) && input.word_text() == word {
            Ok((input.skip(), input.peek()))
        } else {
            SyntaxError::expected(input, word)
        }
    }
}
