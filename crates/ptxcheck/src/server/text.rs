//! The text of an open document: edits, and places as the protocol counts them.

use super::protocol::{Position, Range, TextDocumentContentChangeEvent};
use ptx::ast::Span;

/// A text and where its lines begin.
///
/// A position of the protocol is a line, from 0, and a column in UTF-16 code units.
/// Lines end with `\n`, `\r\n` or `\r`.
#[derive(Clone, Debug)]
pub struct Text {
    source: String,
    /// The first byte of each line.
    starts: Vec<u32>,
}

impl Text {
    pub fn new(source: String) -> Text {
        let starts = (0..=source.len()).filter(|at| begins_line(source.as_bytes(), *at));
        let starts = starts.map(|at| at as u32).collect();
        Text { source, starts }
    }

    pub fn source(&self) -> &str {
        &self.source
    }

    /// Applies a change as the client sends it. Without a range it is the whole text.
    pub fn change(&mut self, change: TextDocumentContentChangeEvent) {
        match change.range {
            None => *self = Text::new(change.text),
            Some(range) => self.replace(self.span(range), &change.text),
        }
    }

    fn replace(&mut self, span: Span, with: &str) {
        let (start, end) = (span.start as usize, span.end as usize);
        self.source.replace_range(start..end, with);
        // Whether a byte begins a line is a matter of itself and the one before.
        let first = self.starts.partition_point(|at| *at < span.start);
        let last = self.starts.partition_point(|at| *at <= span.end);
        let new_end = start + with.len();
        for at in &mut self.starts[last..] {
            *at = *at - span.end + new_end as u32;
        }
        let bytes = self.source.as_bytes();
        let new = (start..=new_end).filter(|at| begins_line(bytes, *at));
        self.starts.splice(first..last, new.map(|at| at as u32));
    }

    /// The position of a byte; of one past the end, the end.
    pub fn position(&self, offset: u32) -> Position {
        let line = self.starts.partition_point(|start| *start <= offset) - 1;
        let start = self.starts[line] as usize;
        let end = (offset as usize).clamp(start, self.source.len());
        Position {
            line: line as u32,
            character: code_units(&self.source.as_bytes()[start..end]),
        }
    }

    pub fn range(&self, span: Span) -> Range {
        Range {
            start: self.position(span.start),
            end: self.position(span.end),
        }
    }

    /// The byte at a position. One behind the end of its line is the end of the line, and
    /// one behind the text its end.
    pub fn offset(&self, position: Position) -> u32 {
        let line = position.line as usize;
        let Some(start) = self.starts.get(line).map(|start| *start as usize) else {
            return self.source.len() as u32;
        };
        let end = self.starts.get(line + 1).map(|end| *end as usize);
        let line = &self.source[start..end.unwrap_or(self.source.len())];
        let line = line.trim_end_matches(['\n', '\r']);
        let column = position.character as usize;
        if line.is_ascii() {
            return (start + column.min(line.len())) as u32;
        }
        let mut left = column;
        for (at, character) in line.char_indices() {
            // The middle of a pair is no place to cut at.
            if left < character.len_utf16() {
                return (start + at) as u32;
            }
            left -= character.len_utf16();
        }
        (start + line.len()) as u32
    }

    /// The bytes between two positions, the later of which may come first.
    pub fn span(&self, range: Range) -> Span {
        let (start, end) = (self.offset(range.start), self.offset(range.end));
        Span {
            start: start.min(end),
            end: start.max(end),
        }
    }
}

/// Whether a line begins with this byte, or would if there were one.
fn begins_line(bytes: &[u8], at: usize) -> bool {
    match at.checked_sub(1).map(|before| bytes[before]) {
        None | Some(b'\n') => true,
        Some(b'\r') => bytes.get(at) != Some(&b'\n'),
        Some(_) => false,
    }
}

/// The length in UTF-16. Every byte of UTF-8 but those that continue a character begins
/// one unit, and the first of four a second one.
fn code_units(bytes: &[u8]) -> u32 {
    let units = |byte: &u8| u32::from(byte & 0xC0 != 0x80) + u32::from(*byte >= 0xF0);
    bytes.iter().map(units).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(line: u32, character: u32) -> Position {
        Position { line, character }
    }

    #[test]
    fn columns_are_utf_16() {
        let text = Text::new("a😀é\r\nb\rc\n".to_owned());
        let places = [
            (0, at(0, 0)),
            (1, at(0, 1)),
            (5, at(0, 3)),
            (7, at(0, 4)),
            (9, at(1, 0)),
            (11, at(2, 0)),
            (13, at(3, 0)),
        ];
        for (offset, position) in places {
            assert_eq!(text.position(offset), position, "{offset}");
            assert_eq!(text.offset(position), offset, "{position:?}");
        }
    }

    #[test]
    fn places_that_are_none_are_the_nearest() {
        let text = Text::new("a😀\nb".to_owned());
        assert_eq!(text.offset(at(0, 2)), 1, "within a pair");
        assert_eq!(text.offset(at(0, 99)), 5, "behind the line");
        assert_eq!(text.offset(at(9, 0)), 7, "behind the text");
        assert_eq!(text.position(99), at(1, 1));
        let backwards = Range {
            start: at(1, 0),
            end: at(0, 0),
        };
        assert_eq!(text.span(backwards), Span { start: 0, end: 6 });
        assert_eq!(Text::new(String::new()).offset(at(u32::MAX, u32::MAX)), 0);
    }

    /// Edits at random against the text read anew.
    #[test]
    fn edits_keep_the_lines() {
        const PIECES: [&str; 9] = ["", "a", "\n", "\r", "\r\n", "é", "😀", "ab\ncd", "\n\r"];
        let mut seed = 1_u64;
        let mut random = |below: usize| {
            seed = seed
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (seed >> 33) as usize % below
        };
        let mut text = Text::new(String::new());
        for round in 0..20_000 {
            let mut position = || at(random(8) as u32, random(8) as u32);
            let range = Range {
                start: position(),
                end: position(),
            };
            let with = PIECES[random(PIECES.len())];
            let span = text.span(range);
            let mut expected = text.source.clone();
            expected.replace_range(span.start as usize..span.end as usize, with);
            // Now and then it starts anew, so that it stays short.
            let range = (random(50) != 0).then_some(range);
            if range.is_none() {
                expected = with.to_owned();
            }
            text.change(TextDocumentContentChangeEvent {
                range,
                text: with.to_owned(),
            });
            let fresh = Text::new(expected);
            assert_eq!(text.source, fresh.source, "round {round}");
            assert_eq!(
                text.starts, fresh.starts,
                "round {round}: {:?}",
                text.source
            );
        }
    }
}
