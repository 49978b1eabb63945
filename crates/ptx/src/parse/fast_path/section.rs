//! The data of debug sections, which is half of the text of a module with debug information.

use super::text::{Text, begins_statement};

/// Skips the data of a section that the fast path supports: `.b8 1,2` or `.b64 $L__tmp7`, one on each
/// line.
pub fn skip_data(source: &str, start: usize) -> usize {
    let mut text = Text::new(source, start);
    let mut end = start;
    while text.line_of_data().is_some() {
        end = text.at;
    }
    end
}

impl Text<'_> {
    /// `.b8 1,2,3`, which must end with its line. Advances to the first token of the next line.
    fn line_of_data(&mut self) -> Option<()> {
        self.skip_blanks()?;
        match self.word()? {
            "b8" => self.byte_values()?,
            // A number or an address.
            "b32" | "b64" => match self.byte()? {
                b'0'..=b'9' => {
                    self.unsigned()?;
                }
                _ => self.skip_name()?,
            },
            _ => return None,
        }
        if self.byte()? != b'\n' {
            return None;
        }
        let (at, first) = self.next_token()?;
        self.at = at;
        (first == b'.' || begins_statement(first)).then_some(())
    }
}
