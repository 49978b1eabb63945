//! The lines that messages name.

use crate::module::OriginalLines;

/// Lines of a module's PTX, or of the text from which that was cut.
#[derive(Clone, Copy, Default)]
pub(super) struct Lines<'a>(pub(super) Option<&'a OriginalLines>);

impl Lines<'_> {
    /// The line that messages name. One that was added to the module keeps its number.
    pub(super) fn original(self, line: u32) -> u32 {
        self.0.and_then(|lines| lines(line)).unwrap_or(line)
    }
}
