//! What both programs print, and how.

use std::io::Write;

use serde::Serialize;

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

/// Writes to standard output. Whoever reads it may have had enough: that is
/// no error, and no reason to panic as `print!` does.
pub fn say(text: &str) {
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
}

/// Names in one column, values in the next.
#[derive(Default)]
pub struct Lines(pub String);

impl Lines {
    pub fn add(&mut self, name: &str, value: impl AsRef<str>) {
        let line = format!("{name:<9}{}", value.as_ref());
        self.0.push_str(line.trim_end());
        self.0.push('\n');
    }
}
