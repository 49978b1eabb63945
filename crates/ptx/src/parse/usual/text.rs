//! Names, words and numbers, from the bytes.

use crate::ast::{Name, Span};
use crate::parse::bytes::{
    decimal, hexadecimal, through_alphanumeric, through_digits, through_line, word_at,
};
use crate::token::continues_identifier;

/// What is left of a text from `at` on. Where something is not as expected,
/// `at` may be anywhere in it.
pub struct Text<'a> {
    pub source: &'a str,
    pub at: usize,
}

/// Whether this byte is the first of a statement other than a directive, or
/// ends a block, and cannot go on with what stands before it.
pub fn begins_statement(first: u8) -> bool {
    first.is_ascii_alphabetic() || matches!(first, b'_' | b'@' | b'$' | b'{' | b'}')
}

impl<'a> Text<'a> {
    #[inline]
    pub fn byte(&self) -> Option<u8> {
        self.source.as_bytes().get(self.at).copied()
    }

    /// The next eight bytes.
    #[inline]
    fn eight(&self) -> Option<u64> {
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

    /// Past one byte: its span.
    pub fn advance(&mut self) -> Span {
        self.at += 1;
        self.span_from(self.at - 1)
    }

    /// To the first byte that is not white space, if there is one.
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

    /// The same, past comments that end with their line.
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

    /// Where the next token stands, and its first byte.
    pub fn next_token(&self) -> Option<(usize, u8)> {
        let mut ahead = Text { ..*self };
        let first = ahead.skip_to_token()?;
        let second = *self.source.as_bytes().get(ahead.at + 1)?;
        match first {
            // Alone these are not tokens, and what comes behind them is the next.
            b'.' | b'$' if !second.is_ascii_alphabetic() => None,
            _ => Some((ahead.at, first)),
        }
    }

    /// `.align`: a word without its dot, and past the blanks behind it.
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

    /// Past this word, which a blank has to end, and the blanks behind it.
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

    /// `%r1`, `%SP`; and whether it is called as most are, and so is none of
    /// the special ones.
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

    /// A name that is declared or referred to by a directive.
    pub fn plain_name(&mut self) -> Option<Name<'a>> {
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
        let first = self.byte()?;
        self.at += 1;
        let begins = match first {
            // `$` alone is not a name.
            b'$' => continues_identifier(self.byte()?),
            _ => first.is_ascii_alphabetic() || first == b'_',
        };
        if !begins {
            return None;
        }
        self.skip_identifier()
    }

    /// Past what may stand inside of an identifier.
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

    /// The name from `start` on, if nothing that follows makes it more than one.
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

    /// A decimal number of at most 18 digits. What follows it is seen to by the
    /// caller.
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
            if length > 18 {
                return None;
            }
            value = value * 10_u64.pow(last as u32) + decimal(word, last);
            self.at += last;
        }
        // A zero in front makes it octal.
        let octal = length > 1 && self.source.as_bytes().get(start) == Some(&b'0');
        (length > 0 && !octal).then_some(value)
    }

    /// `1,2, 3`, decimal numbers below 256. What follows them is seen to by the
    /// caller.
    #[inline]
    pub fn byte_values(&mut self) -> Option<()> {
        loop {
            let word = self.eight()?;
            let length = through_digits(word);
            let small = match length {
                1 => true,
                // A zero in front makes it octal.
                2 => word as u8 != b'0',
                // As text they are in the order of the numbers.
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
