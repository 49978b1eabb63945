//! What a section holds for a debugger: half of the text of a module that is
//! built for one.

use super::text::{Text, begins_statement};

/// Past the data of a section that is usual: `.b8 1,2` or `.b64 $L__tmp7`, a
/// line each.
pub fn usual_data(source: &str, start: usize) -> usize {
    let mut text = Text { source, at: start };
    let mut end = start;
    while text.line_of_data().is_some() {
        end = text.at;
    }
    end
}

impl Text<'_> {
    /// `.b8 1,2,3`, and no more of it in the next line, to whose first token it
    /// goes.
    fn line_of_data(&mut self) -> Option<()> {
        self.skip_blanks()?;
        match self.word()? {
            "b8" => self.byte_values()?,
            // A number, or a place.
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
