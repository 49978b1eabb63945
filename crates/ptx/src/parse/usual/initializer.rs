//! What arrays hold at first, in numbers alone: `{1, 2, 3}`. Tables of hundreds of
//! kilobytes are written so.

use super::text::Text;
use crate::ast::{Initializer, Operand};

/// The list whose brace stands at `start`, and where it ends.
pub fn usual_numbers(source: &str, start: usize) -> Option<(usize, Vec<Initializer<'_>>)> {
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
