//! Initializers of arrays that are lists of numbers: `{1, 2, 3}`. Tables of hundreds of
//! kilobytes have this form.

use super::text::Text;
use crate::ast::{Initializer, Operand};
use crate::bytes::{DecimalList, decimal_length, word_at};

/// Parses the list whose brace is at `start`; returns its end too.
pub fn number_list(source: &str, start: usize) -> Option<(usize, Vec<Initializer<'_>>)> {
    let mut text = Text::new(source, start);
    let mut numbers = Vec::new();
    loop {
        // Past the brace, or a comma.
        text.at += 1;
        if !matches!(text.skip_blanks()?, b'0'..=b'9' | b'-') {
            return None;
        }
        numbers.push(match text.number()? {
            Operand::Integer(integer) => Initializer::Integer(integer),
            Operand::Float(float) => Initializer::Float(float),
            _ => return None,
        });
        match text.byte()? {
            b',' => {}
            b'}' => return Some((text.at + 1, numbers)),
            _ => return None,
        }
    }
}

/// Passes over a list of integers whose brace is at `start`; returns its end, and how many
/// they are.
pub fn skip_integers(source: &str, start: usize) -> Option<(usize, u64)> {
    let mut text = Text::new(source, start);
    let mut count = 0;
    loop {
        count += skip_decimals(&mut text);
        // Past the brace, or a comma.
        text.at += 1;
        let first = text.skip_blanks()?;
        let word = text.eight()?;
        match decimal_length(word) {
            Some(length) => text.at += length,
            None if matches!(first, b'0'..=b'9' | b'-') => match text.number()? {
                Operand::Integer(_) => {}
                _ => return None,
            },
            None => return None,
        }
        count += 1;
        match text.byte()? {
            b',' => {}
            b'}' => return Some((text.at + 1, count)),
            _ => return None,
        }
    }
}

/// From a brace or a comma to a later comma, past as many small numbers as stand in whole words of
/// eight bytes; returns how many they are.
fn skip_decimals(text: &mut Text<'_>) -> u64 {
    let bytes = text.source.as_bytes();
    let mut list = DecimalList::START;
    let (first, mut count) = (text.at + 1, 0);
    let mut at = first;
    while let Some(commas) = word_at(bytes, at).and_then(|word| list.commas_in(word)) {
        count += commas;
        at += 8;
    }
    let passed = bytes.get(first..at).unwrap_or_default();
    if let Some(last) = memchr::memrchr(b',', passed) {
        text.at = first + last;
    }
    count
}
