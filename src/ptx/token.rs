//! Text → tokens (PTX ISA, "Lexical Elements").
//!
//! A token is a kind and two offsets: what it says is read from the source
//! when somebody asks, so that the whole text costs one allocation.

use super::ast::Span;
use super::diagnostic::{Code, Diagnostic, Report};

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// `add`, `%r1`, `$L__BB0_1`, `_`
    Identifier,
    /// `.global`, `.L2::cache_hint`, `.4b`: a dot and the word after it.
    Word,
    Integer,
    /// `1.5`, `0f3F800000`, `0d3FF0000000000000`; also the `8.5` of `.version`.
    Float,
    /// `"…"`
    Text,
    Comma,
    Semicolon,
    Colon,
    ParenOpen,
    ParenClose,
    BraceOpen,
    BraceClose,
    BracketOpen,
    BracketClose,
    At,
    Question,
    Assign,
    Plus,
    Minus,
    Star,
    Slash,
    Percent,
    Not,
    Tilde,
    Less,
    Greater,
    LessEqual,
    GreaterEqual,
    Equal,
    NotEqual,
    ShiftLeft,
    ShiftRight,
    And,
    AndAnd,
    Or,
    OrOr,
    Caret,
    /// The end of the text.
    End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    pub kind: TokenKind,
    pub span: Span,
}

/// Cuts `source` into tokens. What is no token is reported and left out.
///
/// `source` must be shorter than 4 GiB, as [`Span`] counts in 32 bits; the
/// caller has seen to that.
pub fn tokenize(source: &str, report: &mut Report) -> Vec<Token> {
    // Compiled PTX has a token every four to five bytes.
    let mut tokens = Vec::with_capacity(source.len() / 4 + 16);
    tokens.extend(Lexer::new(source, report));
    tokens
}

/// A byte that may stand inside an identifier.
pub(crate) const fn continues_identifier(byte: u8) -> bool {
    CLASS[byte as usize] & IDENTIFIER != 0
}

const IDENTIFIER: u8 = 1;
const SPACE: u8 = 2;
const DIGIT: u8 = 4;
const HEX: u8 = 8;

/// What each byte may be part of.
const CLASS: [u8; 256] = {
    let mut class = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let b = byte as u8;
        if b.is_ascii_alphanumeric() || b == b'_' || b == b'$' {
            class[byte] |= IDENTIFIER;
        }
        if b == b' ' || (b >= 9 && b <= 13) {
            class[byte] |= SPACE;
        }
        if b.is_ascii_digit() {
            class[byte] |= DIGIT;
        }
        if b.is_ascii_hexdigit() {
            class[byte] |= HEX;
        }
        byte += 1;
    }
    class
};

/// Cuts one token after the other, for who needs only the first few.
pub struct Lexer<'s, 'r> {
    bytes: &'s [u8],
    at: usize,
    report: &'r mut Report,
}

impl Iterator for Lexer<'_, '_> {
    type Item = Token;

    fn next(&mut self) -> Option<Token> {
        loop {
            self.skip_class(SPACE);
            let start = self.at;
            if start >= self.bytes.len() {
                return None;
            }
            if let Some(kind) = self.token() {
                return Some(Token {
                    kind,
                    span: self.span_from(start),
                });
            }
        }
    }
}

impl<'s, 'r> Lexer<'s, 'r> {
    pub fn new(source: &'s str, report: &'r mut Report) -> Self {
        Lexer {
            bytes: source.as_bytes(),
            at: 0,
            report,
        }
    }

    /// The byte `ahead` of the current one, 0 past the end. A real NUL is no
    /// part of any token either, so the two need no telling apart here.
    fn peek(&self, ahead: usize) -> u8 {
        self.bytes.get(self.at + ahead).copied().unwrap_or(0)
    }

    fn skip_class(&mut self, class: u8) {
        while CLASS[self.peek(0) as usize] & class != 0 {
            self.at += 1;
        }
    }

    fn span_from(&self, start: usize) -> Span {
        Span {
            start: start as u32,
            end: self.at as u32,
        }
    }

    /// Reads one token; `None` for a comment or what was reported as no token.
    fn token(&mut self) -> Option<TokenKind> {
        use TokenKind::*;
        let byte = self.peek(0);
        let (kind, length) = match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'_' | b'$' => {
                self.skip_class(IDENTIFIER);
                return Some(Identifier);
            }
            b'%' if continues_identifier(self.peek(1)) => {
                self.at += 1;
                self.skip_class(IDENTIFIER);
                return Some(Identifier);
            }
            b'.' if continues_identifier(self.peek(1)) => {
                self.at += 1;
                self.skip_class(IDENTIFIER);
                while self.peek(0) == b':'
                    && self.peek(1) == b':'
                    && continues_identifier(self.peek(2))
                {
                    self.at += 2;
                    self.skip_class(IDENTIFIER);
                }
                return Some(Word);
            }
            b'0'..=b'9' => return Some(self.number()),
            b'"' => return self.text(),
            b'/' if self.peek(1) == b'/' => {
                self.skip_line();
                return None;
            }
            b'/' if self.peek(1) == b'*' => {
                self.comment();
                return None;
            }
            // Line markers of a preprocessor, and `@@DWARF` of PTX ISA 1.x.
            b'#' => {
                self.skip_line();
                return None;
            }
            b'@' if self.peek(1) == b'@' => {
                self.skip_line();
                return None;
            }
            b',' => (Comma, 1),
            b';' => (Semicolon, 1),
            b':' => (Colon, 1),
            b'(' => (ParenOpen, 1),
            b')' => (ParenClose, 1),
            b'{' => (BraceOpen, 1),
            b'}' => (BraceClose, 1),
            b'[' => (BracketOpen, 1),
            b']' => (BracketClose, 1),
            b'@' => (At, 1),
            b'?' => (Question, 1),
            b'+' => (Plus, 1),
            b'-' => (Minus, 1),
            b'*' => (Star, 1),
            b'/' => (Slash, 1),
            b'%' => (Percent, 1),
            b'~' => (Tilde, 1),
            b'^' => (Caret, 1),
            b'=' if self.peek(1) == b'=' => (Equal, 2),
            b'=' => (Assign, 1),
            b'!' if self.peek(1) == b'=' => (NotEqual, 2),
            b'!' => (Not, 1),
            b'<' if self.peek(1) == b'<' => (ShiftLeft, 2),
            b'<' if self.peek(1) == b'=' => (LessEqual, 2),
            b'<' => (Less, 1),
            b'>' if self.peek(1) == b'>' => (ShiftRight, 2),
            b'>' if self.peek(1) == b'=' => (GreaterEqual, 2),
            b'>' => (Greater, 1),
            b'&' if self.peek(1) == b'&' => (AndAnd, 2),
            b'&' => (And, 1),
            b'|' if self.peek(1) == b'|' => (OrOr, 2),
            b'|' => (Or, 1),
            _ => {
                self.stray();
                return None;
            }
        };
        self.at += length;
        Some(kind)
    }

    fn skip_line(&mut self) {
        while self.at < self.bytes.len() && self.bytes[self.at] != b'\n' {
            self.at += 1;
        }
    }

    fn comment(&mut self) {
        let start = self.at;
        let body = &self.bytes[start + 2..];
        match body.windows(2).position(|pair| pair == b"*/") {
            Some(length) => self.at = start + 2 + length + 2,
            None => {
                self.at = self.bytes.len();
                let opening = Span {
                    start: start as u32,
                    end: start as u32 + 2,
                };
                self.report.add(
                    Diagnostic::new(Code::Unterminated, opening, "the comment does not end")
                        .help("close it with `*/`"),
                );
            }
        }
    }

    /// A string ends on its line, so that a lost quote costs one line only.
    fn text(&mut self) -> Option<TokenKind> {
        let start = self.at;
        self.at += 1;
        loop {
            match self.peek(0) {
                b'"' => {
                    self.at += 1;
                    return Some(TokenKind::Text);
                }
                b'\\' if self.at + 1 < self.bytes.len() => self.at += 2,
                b'\n' => break,
                _ if self.at >= self.bytes.len() => break,
                _ => self.at += 1,
            }
        }
        let span = self.span_from(start);
        self.report.add(
            Diagnostic::new(
                Code::Unterminated,
                span,
                "the string does not end on its line",
            )
            .help("close it with `\"`"),
        );
        Some(TokenKind::Text)
    }

    fn number(&mut self) -> TokenKind {
        let start = self.at;
        let second = self.peek(1);
        let mut kind = TokenKind::Integer;
        let mut well_formed = true;
        match (self.peek(0), second) {
            (b'0', b'x' | b'X') => {
                self.at += 2;
                self.skip_class(HEX);
                well_formed = self.at > start + 2;
            }
            (b'0', b'f' | b'F' | b'd' | b'D') => {
                kind = TokenKind::Float;
                let digits = if matches!(second, b'f' | b'F') { 8 } else { 16 };
                self.at += 2;
                self.skip_class(HEX);
                well_formed = self.at == start + 2 + digits;
            }
            (b'0', b'b' | b'B') => {
                self.at += 2;
                while matches!(self.peek(0), b'0' | b'1') {
                    self.at += 1;
                }
                well_formed = self.at > start + 2;
            }
            _ => {
                self.skip_class(DIGIT);
                // `4.b8` is an integer and a word, `4.5` and `4.` are numbers.
                if self.peek(0) == b'.'
                    && (self.peek(1).is_ascii_digit() || !continues_identifier(self.peek(1)))
                {
                    kind = TokenKind::Float;
                    self.at += 1;
                    self.skip_class(DIGIT);
                }
                if matches!(self.peek(0), b'e' | b'E') {
                    let sign = usize::from(matches!(self.peek(1), b'+' | b'-'));
                    if self.peek(1 + sign).is_ascii_digit() {
                        kind = TokenKind::Float;
                        self.at += 1 + sign;
                        self.skip_class(DIGIT);
                    }
                }
            }
        }
        if kind == TokenKind::Integer && matches!(self.peek(0), b'U' | b'u') {
            self.at += 1;
        }
        if continues_identifier(self.peek(0)) {
            well_formed = false;
            self.skip_class(IDENTIFIER);
        }
        if !well_formed {
            let span = self.span_from(start);
            self.report.add(
                Diagnostic::new(Code::Number, span, "this is not a number").help(
                    "integers are written 10, 0x1F, 017, 0b101, with U where unsigned; \
                     floats 1.5, 0f3F800000 (8 digits), 0d3FF0000000000000 (16 digits)",
                ),
            );
        }
        kind
    }

    /// A run of bytes that begin no token: one report for all of them.
    fn stray(&mut self) {
        let start = self.at;
        let first = self.bytes[start];
        while self.at < self.bytes.len()
            && (!self.bytes[self.at].is_ascii() || self.bytes[self.at] == first)
        {
            self.at += 1;
        }
        let message = match first {
            0 => "a NUL byte inside the text".to_owned(),
            b if b.is_ascii_graphic() => format!("`{}` has no meaning in PTX", b as char),
            b if b.is_ascii() => format!("the byte 0x{b:02x} has no meaning in PTX"),
            _ => "PTX is ASCII outside comments and strings".to_owned(),
        };
        let span = self.span_from(start);
        self.report
            .add(Diagnostic::new(Code::Character, span, message));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(source: &str) -> Vec<TokenKind> {
        let mut report = Report::default();
        let tokens = tokenize(source, &mut report);
        assert_eq!(report.into_vec(), [], "{source}");
        tokens.iter().map(|t| t.kind).collect()
    }

    #[test]
    fn words_take_their_double_colons() {
        use TokenKind::*;
        assert_eq!(
            kinds("ld.global.L2::cache_hint a:b"),
            [Identifier, Word, Word, Identifier, Colon, Identifier]
        );
    }

    #[test]
    fn numbers_end_where_a_word_begins() {
        use TokenKind::*;
        assert_eq!(kinds(".align 4.b8"), [Word, Integer, Word]);
        assert_eq!(
            kinds("8.5 1e5 0f3F800000 0x1fU 017"),
            [Float, Float, Float, Integer, Integer]
        );
        assert_eq!(kinds("5%3 %r3"), [Integer, Identifier, Identifier]);
    }

    #[test]
    fn stray_bytes_are_reported_once_a_run() {
        let mut report = Report::default();
        let tokens = tokenize("a \0\0\0 b öä c 0fFF", &mut report);
        assert_eq!(tokens.len(), 4);
        let codes: Vec<_> = report.into_vec().iter().map(|d| d.code).collect();
        assert_eq!(codes, [Code::Character, Code::Character, Code::Number]);
    }
}
