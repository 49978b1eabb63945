//! The names of files in messages.

use std::fmt::{self, Write as _};
use std::path::Path;

/// The name of a file as messages show it: what controls a terminal or the direction of text is
/// escaped as in Rust literals, so that a name has one line and cannot look like other output.
#[derive(Clone, Copy, Debug)]
pub struct Name<'p>(&'p Path);

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = String::new();
        for character in self.0.to_string_lossy().chars() {
            if controls_terminal(character) {
                write!(shown, "{}", character.escape_debug())?
            } else {
                shown.push(character)
            }
        }
        f.pad(&shown)
    }
}

/// Paths that messages show.
pub trait ShowName {
    /// The name for messages; [`Path::display`] leaves control characters as they are.
    fn shown(&self) -> Name<'_>;
}

impl ShowName for Path {
    fn shown(&self) -> Name<'_> {
        Name(self)
    }
}

/// Whether a character controls a terminal, or changes the direction of text.
pub fn controls_terminal(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_one_line() {
        let shown = |name: &str| Path::new(name).shown().to_string();
        assert_eq!(shown("a\nb\x1b[2J\t\u{202e}"), r"a\nb\u{1b}[2J\t\u{202e}");
        assert_eq!(shown("é/∞ \"'\\"), "é/∞ \"'\\");
        assert_eq!(format!("{:>4}", Path::new("a").shown()), "   a");
    }
}
