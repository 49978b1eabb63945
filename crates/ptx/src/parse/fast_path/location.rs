//! `.loc` directives.

use super::text::{Text, begins_statement};
use crate::ast::{Inlined, Location, Place};

impl<'a> Text<'a> {
    /// `1 20 7`, and `, function_name $L__info, inlined_at 1 30 2` for inlined code: the text after
    /// `.loc`.
    pub fn location(&mut self, start: usize) -> Option<Location<'a>> {
        let place = self.place()?;
        let mut inlined = None;
        if self.byte()? == b',' {
            self.at += 1;
            self.skip_blanks()?;
            self.skip_keyword(b"function_name")?;
            let function = self.declared_name()?;
            let mut offset = 0;
            if self.byte()? == b'+' {
                self.at += 1;
                offset = self.unsigned()? as i64;
            }
            if self.byte()? != b',' {
                return None;
            }
            self.at += 1;
            self.skip_blanks()?;
            self.skip_keyword(b"inlined_at")?;
            let at = self.place()?;
            inlined = Some(Inlined {
                function,
                offset,
                at,
            });
        }
        let span = self.span_from(start);
        // The end of the number must be certain, and no clause may follow.
        if !matches!(self.byte()?, b' ' | b'\t' | b'\n') {
            return None;
        }
        match self.next_token()? {
            (_, b'.') => {}
            (_, first) if begins_statement(first) => {}
            _ => return None,
        }
        Some(Location {
            intermediate: false,
            place,
            inlined,
            span,
        })
    }

    fn place(&mut self) -> Option<Place> {
        let mut numbers = [0; 3];
        for number in &mut numbers {
            self.skip_blanks()?;
            *number = u32::try_from(self.unsigned()?).ok()?;
        }
        let [file, line, column] = numbers;
        Some(Place { file, line, column })
    }
}
