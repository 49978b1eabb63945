//! Text → tokens (PTX ISA, "Lexical Elements").
//!
//! A token is a kind and a span. The parser lexes on demand; no list of tokens is stored.

use std::cell::{Cell, RefCell};

use super::ast::Span;
use super::bytes::{through_alphanumeric, word_at};
use super::diagnostic::{Code, Diagnostic, Report};

/// The kind of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// `add`, `%r1`, `$L__BB0_1`, `_`
    Identifier,
    /// `.global`, `.L2::cache_hint`, `.4b`: a dot and the word after it.
    Word,
    Integer,
    /// `1.5`, `.5`, `1e5`; also the `8.5` of `.version`.
    Float,
    /// `0f3F800000`, `0d3FF0000000000000`
    FloatBits,
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

/// Lexical errors. Each is reported once, however often its text is lexed.
#[derive(Debug, Default)]
pub struct LexicalErrors {
    /// The start of the last error; the text is lexed from start to end.
    last: Cell<Option<u32>>,
    report: RefCell<Report>,
}

impl LexicalErrors {
    fn add(&self, diagnostic: Diagnostic) {
        let start = diagnostic.span.start;
        if self.last.get().is_none_or(|last| last < start) {
            self.last.set(Some(start));
            self.report.borrow_mut().add(diagnostic);
        }
    }

    pub fn into_report(self) -> Report {
        self.report.into_inner()
    }
}

/// The span of a token in one register. A [`Span`] in memory is written in two parts and
/// read as one, which defeats store forwarding: too slow for every token.
#[derive(Clone, Copy, Debug)]
pub struct PackedSpan(u64);

impl PackedSpan {
    fn new(start: usize, end: usize) -> PackedSpan {
        PackedSpan((start as u64) << 32 | end as u64)
    }

    #[inline]
    pub fn start(self) -> u32 {
        (self.0 >> 32) as u32
    }

    #[inline]
    pub fn end(self) -> u32 {
        self.0 as u32
    }
}

/// The first token at or after the byte `at`; at the end of the text, an empty token of kind
/// [`TokenKind::End`]. Lexical errors before it are added to `errors`.
///
/// `source` must be shorter than 4 GiB, as [`Span`] has 32-bit offsets; the caller checks
/// that.
#[inline]
pub fn token_at(source: &str, at: u32, errors: &LexicalErrors) -> (TokenKind, PackedSpan) {
    let bytes = source.as_bytes();
    let mut start = at as usize;
    loop {
        start = skip_class(bytes, start, SPACE);
        let Some(&first) = bytes.get(start) else {
            return (TokenKind::End, PackedSpan::new(bytes.len(), bytes.len()));
        };
        // Nine of ten tokens are names, words and commas.
        let (kind, end) = match CLASS[first as usize] & (LETTER | PERCENT | DOT | COMMA) {
            LETTER => (TokenKind::Identifier, skip_identifier(bytes, start + 1)),
            COMMA => (TokenKind::Comma, start + 1),
            PERCENT if continues(bytes, start + 1) => (
                TokenKind::Identifier,
                skip_class(bytes, start + 2, IDENTIFIER),
            ),
            DOT if continues(bytes, start + 1) => word(bytes, start),
            _ if first == b';' => (TokenKind::Semicolon, start + 1),
            _ => match (Lexer {
                bytes,
                start,
                errors,
            })
            .rare(first)
            {
                Ok(found) => found,
                Err(skipped) => {
                    start = skipped;
                    continue;
                }
            },
        };
        return (kind, PackedSpan::new(start, end));
    }
}

fn span(start: usize, end: usize) -> Span {
    Span {
        start: start as u32,
        end: end as u32,
    }
}

/// Whether a byte can be inside an identifier.
pub(crate) const fn continues_identifier(byte: u8) -> bool {
    CLASS[byte as usize] & IDENTIFIER != 0
}

/// The end of the modifiers of an opcode, which ends at `start`.
///
/// Only adjacent words count. White space between them is legal but rare.
pub fn mnemonic_end(source: &str, start: u32) -> u32 {
    let bytes = source.as_bytes();
    let mut at = start as usize;
    while byte_at(bytes, at) == b'.' && continues(bytes, at + 1) {
        at = word(bytes, at).1;
    }
    at as u32
}

const IDENTIFIER: u8 = 1;
const SPACE: u8 = 2;
const DIGIT: u8 = 4;
const HEX: u8 = 8;
/// Starts an identifier.
const LETTER: u8 = 16;
const PERCENT: u8 = 32;
const DOT: u8 = 64;
const COMMA: u8 = 128;

/// The classes of each byte.
const CLASS: [u8; 256] = {
    let mut class = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let b = byte as u8;
        if b.is_ascii_alphanumeric() || b == b'_' || b == b'$' {
            class[byte] |= IDENTIFIER;
            if !b.is_ascii_digit() && b != b'$' {
                class[byte] |= LETTER;
            }
        }
        // To ptxas a vertical tab is not white space, but the end-of-file byte of DOS is.
        if matches!(b, b' ' | b'\t' | b'\n' | b'\r' | 12 | 26) {
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
    class[b'%' as usize] |= PERCENT;
    class[b'.' as usize] |= DOT;
    class[b',' as usize] |= COMMA;
    class
};

/// The byte at `at`, or 0 past the end. A NUL is not part of any token either, so the two
/// need not be distinguished.
fn byte_at(bytes: &[u8], at: usize) -> u8 {
    bytes.get(at).copied().unwrap_or(0)
}

fn continues(bytes: &[u8], at: usize) -> bool {
    continues_identifier(byte_at(bytes, at))
}

/// The first byte at or after `at` that is not in this class.
fn skip_class(bytes: &[u8], mut at: usize, class: u8) -> usize {
    while CLASS[byte_at(bytes, at) as usize] & class != 0 {
        at += 1;
    }
    at
}

/// The same for [`IDENTIFIER`]. What C++ mangles is hundreds of bytes long.
fn skip_identifier(bytes: &[u8], mut at: usize) -> usize {
    while let Some(word) = word_at(bytes, at) {
        let length = through_alphanumeric(word);
        at += length;
        if length < 8 {
            if !continues(bytes, at) {
                return at;
            }
            at += 1;
        }
    }
    skip_class(bytes, at, IDENTIFIER)
}

/// `.global`, `.L2::cache_hint`; `.5` is a number.
fn word(bytes: &[u8], start: usize) -> (TokenKind, usize) {
    let mut end = skip_class(bytes, start + 1, IDENTIFIER);
    if byte_at(bytes, start + 1).is_ascii_digit()
        && let (TokenKind::Float, end) = number(bytes, start)
    {
        return (TokenKind::Float, end);
    }
    if byte_at(bytes, end) == b'[' {
        return (
            TokenKind::Word,
            end + bank_length(&bytes[start..end], &bytes[end..]),
        );
    }
    while byte_at(bytes, end) == b':'
        && byte_at(bytes, end + 1) == b':'
        && continues(bytes, end + 2)
    {
        end = skip_class(bytes, end + 2, IDENTIFIER);
        // `.sp::2:4`
        if byte_at(bytes, end) == b':' && byte_at(bytes, end + 1).is_ascii_digit() {
            end = skip_class(bytes, end + 1, IDENTIFIER);
        }
    }
    (TokenKind::Word, end)
}

/// The length of the bank after `.const`: `[2]` in `.const[2]`, a number of one or two digits
/// in brackets.
#[cold]
fn bank_length(word: &[u8], behind: &[u8]) -> usize {
    match behind {
        _ if word != b".const" => 0,
        [_, b'0'..=b'9', b']', ..] => 3,
        [_, b'1'..=b'9', b'0'..=b'9', b']', ..] => 4,
        _ => 0,
    }
}

/// The 2 of `const[2]`, a word without its dot.
pub fn bank(word: &str) -> Option<u8> {
    let number = word.strip_prefix("const[")?.strip_suffix(']')?;
    match *number.as_bytes() {
        [ones @ b'0'..=b'9'] => Some(ones - b'0'),
        [tens @ b'1'..=b'9', ones @ b'0'..=b'9'] => Some(10 * (tens - b'0') + ones - b'0'),
        _ => None,
    }
}

/// The number at `start`, and its end. It is a word if the bytes after the dot are more than a
/// number.
fn number(bytes: &[u8], start: usize) -> (TokenKind, usize) {
    let digits = |at| skip_class(bytes, at, DIGIT);
    let mut kind = TokenKind::Integer;
    let mut end = digits(start);
    if byte_at(bytes, end) == b'.' {
        kind = TokenKind::Float;
        end = digits(end + 1);
    }
    if matches!(byte_at(bytes, end), b'e' | b'E') {
        let sign = usize::from(matches!(byte_at(bytes, end + 1), b'+' | b'-'));
        if byte_at(bytes, end + 1 + sign).is_ascii_digit() {
            kind = TokenKind::Float;
            end = digits(end + 1 + sign);
        }
    }
    if byte_at(bytes, start) == b'.' && continues(bytes, end) {
        kind = TokenKind::Word;
    }
    (kind, end)
}

/// DEL, the replacement for a byte that is not valid UTF-8; see
/// [`text_of`](super::text_of). ptxas rejects it too.
pub const NO_UTF8: u8 = 0x7f;

fn is_foreign(byte: &u8) -> bool {
    !byte.is_ascii() || *byte == NO_UTF8
}

/// In UTF-8.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// The lexer of the less frequent tokens.
struct Lexer<'s> {
    bytes: &'s [u8],
    start: usize,
    errors: &'s LexicalErrors,
}

impl Lexer<'_> {
    fn peek(&self, ahead: usize) -> u8 {
        byte_at(self.bytes, self.start + ahead)
    }

    /// The token and its end; the error is the offset to continue at, if there is no token.
    fn rare(&self, first: u8) -> Result<(TokenKind, usize), usize> {
        use TokenKind::*;
        let (kind, length) = match first {
            b'0'..=b'9' => return Ok(self.number()),
            // `$` alone is not a name.
            b'$' if continues(self.bytes, self.start + 1) => {
                let end = skip_class(self.bytes, self.start + 1, IDENTIFIER);
                return Ok((Identifier, end));
            }
            b'"' => return self.text(),
            b'/' if self.peek(1) == b'/' => return Err(self.line_end(self.start)),
            b'/' if self.peek(1) == b'*' => return Err(self.comment()),
            b'#' => return Err(self.line_marker()),
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
            _ => return Err(self.stray(first)),
        };
        Ok((kind, self.start + length))
    }

    fn line_end(&self, from: usize) -> usize {
        let rest = self.bytes.get(from..).unwrap_or(&[]);
        let line = rest.iter().position(|b| *b == b'\n');
        line.map_or(self.bytes.len(), |length| from + length)
    }

    fn comment(&self) -> usize {
        let start = self.start;
        let body = &self.bytes[start + 2..];
        match body.windows(2).position(|pair| pair == b"*/") {
            Some(length) => start + 2 + length + 2,
            None => {
                self.error(
                    Code::Unterminated,
                    start + 2,
                    "unterminated comment",
                    "close it with `*/`",
                );
                self.bytes.len()
            }
        }
    }

    /// `# 7 "file.cu"` or `#line 7 "file.cu"`, from a preprocessor. ptxas accepts it anywhere.
    fn line_marker(&self) -> usize {
        let blank = |mut at| {
            while matches!(byte_at(self.bytes, at), b' ' | b'\t') {
                at += 1;
            }
            at
        };
        let mut number = blank(self.start + 1);
        if self.bytes[number..].starts_with(b"line") {
            number = blank(number + 4);
        }
        let end = skip_class(self.bytes, number, DIGIT);
        if end == number || byte_at(self.bytes, blank(end)) != b'"' {
            return self.stray(b'#');
        }
        let line = self.line_end(end);
        if let Some(at) = self.bytes[end..line].iter().position(is_foreign) {
            self.character(end + at, "a line marker in PTX must be ASCII");
        }
        line
    }

    /// A string has no escapes and may span several lines. An unterminated string only skips one
    /// line.
    fn text(&self) -> Result<(TokenKind, usize), usize> {
        let inside = self.start + 1;
        let length = self.bytes[inside..].iter().position(|b| *b == b'"');
        let Some(length) = length else {
            let end = self.line_end(inside);
            self.error(
                Code::Unterminated,
                end,
                "unterminated string",
                "close it with `\"`",
            );
            return Ok((TokenKind::Text, end));
        };
        let text = &self.bytes[inside..inside + length];
        let wrong = |b: &u8| is_foreign(b) || *b == 0;
        if let Some(at) = text.iter().position(wrong) {
            self.character(inside + at, "a string in PTX must be ASCII");
        }
        Ok((TokenKind::Text, inside + length + 1))
    }

    fn number(&self) -> (TokenKind, usize) {
        let (bytes, start) = (self.bytes, self.start);
        let hex = skip_class(bytes, start + 2, HEX);
        let (mut kind, mut end, mut well_formed) = match (self.peek(0), self.peek(1)) {
            (b'0', b'x' | b'X') => (TokenKind::Integer, hex, hex > start + 2),
            (b'0', b'f' | b'F') => (TokenKind::FloatBits, hex, hex == start + 10),
            (b'0', b'd' | b'D') => (TokenKind::FloatBits, hex, hex == start + 18),
            (b'0', b'b' | b'B') => {
                let mut end = start + 2;
                while matches!(byte_at(bytes, end), b'0' | b'1') {
                    end += 1;
                }
                (TokenKind::Integer, end, end > start + 2)
            }
            _ => {
                let (kind, end) = number(bytes, start);
                (kind, end, true)
            }
        };
        if kind == TokenKind::Integer && byte_at(bytes, end) == b'U' {
            end += 1;
        }
        if kind == TokenKind::Word {
            kind = TokenKind::Float;
        }
        if continues(bytes, end) {
            well_formed = false;
            end = skip_class(bytes, end, IDENTIFIER);
        }
        if !well_formed {
            self.error(
                Code::Number,
                end,
                "invalid number",
                "write integers as 10, 0x1F, 017, 0b101, with U if unsigned; \
                 floats 1.5, 0f3F800000 (8 digits), 0d3FF0000000000000 (16 digits)",
            );
        }
        (kind, end)
    }

    /// A run of bytes that start no token, reported once.
    fn stray(&self, first: u8) -> usize {
        // Some editors write it at the start of every file.
        if self.start == 0 && self.bytes.starts_with(BYTE_ORDER_MARK) {
            let end = BYTE_ORDER_MARK.len();
            let message = "PTX does not allow a byte order mark";
            let help = "save the file as UTF-8 without one";
            self.error(Code::Character, end, message, help);
            return end;
        }
        let run = self.bytes[self.start..].iter();
        let length = run.take_while(|b| !b.is_ascii() || **b == first).count();
        let message = match first {
            0 => "PTX does not allow NUL bytes inside the text".to_owned(),
            b if b.is_ascii_graphic() => format!("unexpected character `{}`", b as char),
            b if b.is_ascii() && b != NO_UTF8 => {
                format!("unexpected byte 0x{b:02x}")
            }
            _ => "PTX must be ASCII outside comments".to_owned(),
        };
        let end = self.start + length.max(1);
        self.errors.add(Diagnostic::new(
            Code::Character,
            span(self.start, end),
            message,
        ));
        end
    }

    /// Reports the character that begins at a byte.
    fn character(&self, at: usize, message: &str) {
        let rest = self.bytes.iter().skip(at + 1);
        let length = 1 + rest.take_while(|b| **b & 0xc0 == 0x80).count();
        self.errors.add(Diagnostic::new(
            Code::Character,
            span(at, at + length),
            message,
        ));
    }

    fn error(&self, code: Code, end: usize, message: &str, help: &str) {
        let place = span(self.start, end);
        self.errors
            .add(Diagnostic::new(code, place, message).help(help));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(source: &str) -> (Vec<TokenKind>, Vec<Code>) {
        let errors = LexicalErrors::default();
        let mut kinds = Vec::new();
        let mut at = 0;
        loop {
            let (kind, place) = token_at(source, at, &errors);
            if kind == TokenKind::End {
                break;
            }
            kinds.push(kind);
            at = place.end();
        }
        let codes = errors
            .into_report()
            .into_vec()
            .iter()
            .map(|d| d.code)
            .collect();
        (kinds, codes)
    }

    fn kinds(source: &str) -> Vec<TokenKind> {
        let (kinds, codes) = tokens(source);
        assert_eq!(codes, [], "{source}");
        kinds
    }

    #[test]
    fn words_include_double_colons() {
        use TokenKind::*;
        assert_eq!(
            kinds("ld.global.L2::cache_hint a:b"),
            [Identifier, Word, Word, Identifier, Colon, Identifier]
        );
        assert_eq!(mnemonic_end("ld.global.L2::64B .x", 2), 17);
        assert_eq!(mnemonic_end("ret;", 3), 3);
    }

    #[test]
    fn words_include_banks() {
        use TokenKind::*;
        assert_eq!(kinds(".const[2].b32 .const[10]"), [Word, Word, Word]);
        for other in [".global[2]", ".const [2]", ".const[02]", ".const[100]"] {
            assert_eq!(kinds(other).len(), 4, "{other}");
        }
        assert_eq!((bank("const[10]"), bank("const")), (Some(10), None));
        for no_bank in ["const[02]", "const[+2]", "const[]", "const[100]"] {
            assert_eq!(bank(no_bank), None, "{no_bank}");
        }
    }

    /// Expectations recorded from ptxas.
    #[test]
    fn numbers_end_where_ptxas_ends_them() {
        use TokenKind::*;
        assert_eq!(kinds(".align 4 .b8"), [Word, Integer, Word]);
        assert_eq!(
            kinds(".2d .4b .5 .5e3 1. 1.e5"),
            [Word, Word, Float, Float, Float, Float]
        );
        assert_eq!(
            kinds("8.5 1e5 0f3F800000 0x1fU 017"),
            [Float, Float, FloatBits, Integer, Integer]
        );
        assert_eq!(
            kinds("5%3 %r3 5% 3"),
            [Integer, Identifier, Identifier, Integer, Percent, Integer]
        );
        for wrong in [
            "4.b8",
            "0fFF",
            "0f3F8000000",
            "0x",
            "0b2",
            "1u",
            "1UL",
            "12ab",
            "1.5f",
        ] {
            assert_eq!(tokens(wrong).1, [Code::Number], "{wrong}");
        }
    }

    #[test]
    fn stray_bytes_are_reported_once_a_run() {
        assert_eq!(tokens("\u{feff}é").1, [Code::Character; 2]);
        let (kinds, codes) = tokens("a \0\0\0 b öä c \x0b \\ $ $L");
        assert_eq!((kinds.len(), codes), (4, vec![Code::Character; 5]));
    }

    #[test]
    fn comments_strings_and_line_markers() {
        use TokenKind::*;
        assert_eq!(
            kinds("a/* /* é */b// é\nc # 7 \"x.cu\" 2\n d"),
            [Identifier; 4]
        );
        assert_eq!(kinds("\"a\nb\\\" x"), [Text, Identifier]);
        assert_eq!(tokens("\"é\""), (vec![Text], vec![Code::Character]));
        assert_eq!(tokens("\"a\nb").1, [Code::Unterminated]);
        assert_eq!(tokens("a /* b").1, [Code::Unterminated]);
        assert_eq!(tokens("#pragma"), (vec![Identifier], vec![Code::Character]));
    }
}
