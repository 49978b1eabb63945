//! Output of both programs.

use std::fmt;
use std::io::Write;
use std::sync::OnceLock;

use serde::Serialize;

use crate::failure::Failure;
use input::controls_terminal;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    #[default]
    Text,
    Json,
}

/// One line of JSON.
pub fn json_line(value: &impl Serialize) -> String {
    // Strings, numbers and booleans: there is nothing that JSON cannot hold.
    serde_json::to_string(value).unwrap_or_default() + "\n"
}

/// The first error of a write to standard output.
static STDOUT_ERROR: OnceLock<String> = OnceLock::new();

/// Prints to standard output. Unlike `print!`, this does not panic on a closed pipe, which is not an
/// error. [`check_stdout`] returns other errors.
pub fn print(text: &str) {
    print_bytes(text.as_bytes());
}

/// Writes bytes to standard output, as [`print()`] does.
pub fn print_bytes(bytes: &[u8]) {
    let mut out = std::io::stdout().lock();
    let written = out.write_all(bytes).and_then(|()| out.flush());
    if let Err(error) = written
        && error.kind() != std::io::ErrorKind::BrokenPipe
    {
        STDOUT_ERROR.get_or_init(|| error.to_string());
    }
}

/// Checks that everything was written to standard output.
///
/// # Errors
/// A write failed, for example because the disk is full.
pub fn check_stdout() -> Result<(), Failure> {
    match STDOUT_ERROR.get() {
        None => Ok(()),
        Some(error) => Err(Failure::new(format!(
            "cannot write to standard output: {error}"
        ))),
    }
}

/// Prints to standard error. Errors cannot be reported, so they are ignored.
pub fn eprint(text: &str) {
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}

/// The maximum number of characters escaped of a line: a file may have lines of megabytes.
const LONGEST_LINE: usize = 4000;

/// Text from a file or the environment, escaped for a terminal.
///
/// Control characters and those that change the text direction are escaped as in Rust literals, so
/// that a name cannot control the terminal or look like another. Long lines are truncated.
pub struct Escaped<T> {
    text: T,
    lines: bool,
}

impl<T: fmt::Display> Escaped<T> {
    /// Single-line text: line breaks are escaped too.
    pub fn new(text: T) -> Escaped<T> {
        Escaped { text, lines: false }
    }

    /// Multi-line text, which may contain tabs.
    pub fn lines(text: T) -> Escaped<T> {
        Escaped { text, lines: true }
    }
}

impl<T: fmt::Display> fmt::Display for Escaped<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.text.to_string();
        let mut escaped = String::with_capacity(text.len());
        for (index, line) in text.split('\n').enumerate() {
            if index > 0 {
                escaped.push_str(if self.lines { "\n" } else { "\\n" });
            }
            for character in line.chars().take(LONGEST_LINE) {
                let plain = character == '\t' && self.lines;
                if controls_terminal(character) && !plain {
                    escaped.extend(character.escape_debug())
                } else {
                    escaped.push(character)
                }
            }
            let left = line.chars().skip(LONGEST_LINE).count();
            if left > 0 {
                escaped += &format!("… and {left} more characters");
            }
        }
        f.pad(&escaped)
    }
}

/// Lines with names in one column and values in the next.
#[derive(Default)]
pub struct Lines(pub String);

impl Lines {
    pub fn add(&mut self, name: &str, value: impl AsRef<str>) {
        let line = format!("{name:<9}{}", Escaped::new(value.as_ref()));
        self.0.push_str(line.trim_end());
        self.0.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        let escaped = |text| Escaped::new(text).to_string();
        assert_eq!(escaped("\x1b[2Ja\nb\u{9b}1m"), "\\u{1b}[2Ja\\nb\\u{9b}1m");
        assert_eq!(escaped("a\u{202e}b"), "a\\u{202e}b");
        assert_eq!(escaped("é∞ \"'\\"), "é∞ \"'\\");
        let lines = Escaped::lines("a\tb\r\nc\x07").to_string();
        assert_eq!(lines, "a\tb\\r\nc\\u{7}");
        assert_eq!(format!("{:<4}|", Escaped::new("a")), "a   |");
    }

    #[test]
    fn a_long_line_is_truncated() {
        let text = format!("{}\nshort", "x".repeat(1 << 20));
        let escaped = Escaped::lines(&text).to_string();
        assert!(escaped.len() < 5000, "{}", escaped.len());
        assert!(escaped.ends_with("… and 1044576 more characters\nshort"));
    }
}
