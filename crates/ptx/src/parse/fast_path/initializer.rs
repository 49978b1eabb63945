//! Initializers of arrays that are lists of numbers: `{1, 2, 3}`. Tables of hundreds of
//! kilobytes have this form.

use super::text::Text;
use crate::ast::{Initializer, Operand};

/// Parses the list whose brace is at `start`; returns its end too.
pub fn number_list(source: &str, start: usize) -> Option<(usize, Vec<Initializer<'_>>)> {
    let mut text = Text { source, at: start };
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
