//! Parses names, words and numbers from the bytes.

use crate::ast::{Name, Span};
use crate::bytes::{
    decimal, hexadecimal, through_alphanumeric, through_digits, through_line, word_at,
};
use crate::token::continues_identifier;

/// A cursor in a text. After a failure, `at` may be anywhere.
pub struct Text<'a> {
    pub source: &'a str,
    pub at: usize,
    /// The function around it, or nothing. Compilers begin the names of its parameters with its
    /// own, and those of C++ are long.
    pub function: &'a str,
}

/// Whether this byte starts a statement other than a directive or ends a block, and cannot continue
/// the preceding text.
pub fn begins_statement(first: u8) -> bool {
    first.is_ascii_alphabetic() || matches!(first, b'_' | b'@' | b'$' | b'{' | b'}')
}

impl<'a> Text<'a> {
    /// From this byte, in no function.
    pub fn new(source: &'a str, at: usize) -> Self {
        Text {
            source,
            at,
            function: "",
        }
    }

    #[inline]
    pub fn byte(&self) -> Option<u8> {
        self.source.as_bytes().get(self.at).copied()
    }

    /// The next eight bytes.
    #[inline]
    pub fn eight(&self) -> Option<u64> {
        word_at(self.source.as_bytes(), self.at)
    }

    #[inline(always)]
    pub fn since(&self, start: usize) -> Option<&'a str> {
        self.source.get(start..self.at)
    }

    #[inline]
    pub fn span_from(&self, start: usize) -> Span {
        Span {
            start: start as u32,
            end: self.at as u32,
        }
    }

    /// Skips one byte; returns its span.
    pub fn advance(&mut self) -> Span {
        self.at += 1;
        self.span_from(self.at - 1)
    }

    /// Skips white space; returns the next byte, if any.
    #[inline]
    pub fn skip_blanks(&mut self) -> Option<u8> {
        let bytes = self.source.as_bytes();
        loop {
            match *bytes.get(self.at)? {
                b' ' | b'\t' | b'\n' | b'\r' => self.at += 1,
                first => return Some(first),
            }
        }
    }

    /// Like [`skip_blanks`](Self::skip_blanks), but also skips line comments.
    #[inline]
    pub fn skip_to_token(&mut self) -> Option<u8> {
        loop {
            let first = self.skip_blanks()?;
            if first != b'/' || self.source.as_bytes().get(self.at + 1) != Some(&b'/') {
                return Some(first);
            }
            loop {
                let length = through_line(self.eight()?);
                self.at += length;
                if length < 8 {
                    break;
                }
            }
        }
    }

    /// The offset of the next token, and its first byte.
    pub fn next_token(&self) -> Option<(usize, u8)> {
        let mut ahead = Text { ..*self };
        let first = ahead.skip_to_token()?;
        let second = *self.source.as_bytes().get(ahead.at + 1)?;
        match first {
            // These are not tokens by themselves; the next one follows.
            b'.' | b'$' if !second.is_ascii_alphabetic() => None,
            _ => Some((ahead.at, first)),
        }
    }

    /// `.align`: parses a word, and skips the blanks after it; returns it without the dot.
    #[inline]
    pub fn word(&mut self) -> Option<&'a str> {
        if self.byte()? != b'.' {
            return None;
        }
        self.at += 1;
        let start = self.at;
        self.at += through_alphanumeric(self.eight()?);
        let word = self.since(start)?;
        if !matches!(self.byte()?, b' ' | b'\t') || word.as_bytes().first()?.is_ascii_digit() {
            return None;
        }
        self.skip_blanks()?;
        Some(word)
    }

    /// Skips this word, which must be followed by a blank, and the blanks after it.
    pub fn skip_keyword(&mut self, word: &[u8]) -> Option<()> {
        let end = self.at + word.len();
        if self.source.as_bytes().get(self.at..end)? != word {
            return None;
        }
        self.at = end;
        if !matches!(self.byte()?, b' ' | b'\t') {
            return None;
        }
        self.skip_blanks()?;
        Some(())
    }

    /// `%r1`, `%SP`; also returns whether the name has the common form, which excludes special
    /// registers.
    #[inline(always)]
    pub fn register(&mut self) -> Option<(Name<'a>, bool)> {
        let start = self.at;
        if self.byte()? != b'%' {
            return None;
        }
        self.at += 1;
        let word = self.eight()?;
        let length = through_alphanumeric(word);
        self.at += length;
        if length == 0 || length == 8 {
            return None;
        }
        let [first, second, ..] = word.to_le_bytes();
        let common = match first {
            b'r' => second != b'e',
            b'f' => true,
            b'p' => second.is_ascii_digit(),
            _ => false,
        };
        Some((self.ended(start)?, common))
    }

    /// The name of a variable or label.
    #[inline]
    pub fn name(&mut self) -> Option<Name<'a>> {
        let start = self.at;
        self.skip_name()?;
        match self.ended(start)? {
            Name { text: "WARP_SZ" } => None,
            name => Some(name),
        }
    }

    /// A name in a declaration or directive.
    pub fn declared_name(&mut self) -> Option<Name<'a>> {
        let start = self.at;
        if self.byte()? == b'%' {
            self.at += 1;
            self.skip_identifier()?;
        } else {
            self.skip_name()?;
        }
        match self.since(start)? {
            "_" | "%" | "WARP_SZ" | "function_name" | "inlined_at" => None,
            text => Some(Name { text }),
        }
    }

    #[inline]
    pub fn skip_name(&mut self) -> Option<()> {
        let rest = self.source.as_bytes().get(self.at..)?;
        let first = *rest.first()?;
        self.at += 1;
        let begins = match first {
            // `$` alone is not a name.
            b'$' => continues_identifier(self.byte()?),
            _ => first.is_ascii_alphabetic() || first == b'_',
        };
        if !begins {
            return None;
        }
        let function = self.function.as_bytes();
        if function.first() == Some(&first) && rest.starts_with(function) {
            self.at += function.len() - 1;
        }
        self.skip_identifier()
    }

    /// Skips the characters of an identifier.
    #[inline]
    pub fn skip_identifier(&mut self) -> Option<()> {
        loop {
            let length = through_alphanumeric(self.eight()?);
            self.at += length;
            if length == 8 {
                continue;
            }
            if !matches!(self.byte()?, b'_' | b'$') {
                return Some(());
            }
            self.at += 1;
        }
    }

    /// The name from `start`, if it ends here.
    #[inline(always)]
    pub fn ended(&self, start: usize) -> Option<Name<'a>> {
        if !matches!(
            self.byte()?,
            b',' | b';' | b']' | b'+' | b'}' | b' ' | b'\t' | b'\n' | b')' | b'|'
        ) {
            return None;
        }
        let text = self.since(start)?;
        Some(Name { text })
    }

    /// A decimal number below 2^63. The caller checks what follows.
    #[inline]
    pub fn unsigned(&mut self) -> Option<u64> {
        let start = self.at;
        let word = self.eight()?;
        let mut length = through_digits(word);
        let mut value = decimal(word, length);
        self.at += length;
        let mut last = length;
        while last == 8 {
            let word = self.eight()?;
            last = through_digits(word);
            length += last;
            if length > 19 {
                return None;
            }
            value = value * 10_u64.pow(last as u32) + decimal(word, last);
            self.at += last;
        }
        // A leading zero makes it octal.
        let octal = length > 1 && self.source.as_bytes().get(start) == Some(&b'0');
        let fits = value <= i64::MAX as u64;
        (length > 0 && !octal && fits).then_some(value)
    }

    /// `1,2, 3`, decimal numbers below 256. The caller checks what follows.
    #[inline]
    pub fn byte_values(&mut self) -> Option<()> {
        loop {
            let word = self.eight()?;
            let length = through_digits(word);
            let small = match length {
                1 => true,
                // A leading zero makes it octal.
                2 => word as u8 != b'0',
                // For the same length, the text order is the numeric order.
                3 => word as u8 != b'0' && word.swap_bytes() >> 40 <= 0x32_35_35,
                _ => false,
            };
            if !small {
                return None;
            }
            self.at += length;
            if (word >> (8 * length)) as u8 != b',' {
                return Some(());
            }
            self.comma()?;
        }
    }

    /// At most 15 hexadecimal digits.
    pub fn hexadecimal_digits(&mut self) -> Option<u64> {
        let start = self.at;
        let mut value = 0;
        while let Some(digit) = (self.byte()? as char).to_digit(16) {
            value = value << 4 | u64::from(digit);
            self.at += 1;
        }
        (1..16).contains(&(self.at - start)).then_some(value)
    }

    /// Eight hexadecimal digits.
    #[inline]
    pub fn hexadecimal(&mut self) -> Option<u32> {
        let value = hexadecimal(self.eight()?)?;
        self.at += 8;
        Some(value)
    }
}
