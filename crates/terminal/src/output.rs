//! What both programs print, and how.

use std::io::Write;
use std::sync::OnceLock;

use serde::Serialize;

use crate::failure::Failure;

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

/// What went wrong first at standard output.
static UNSAID: OnceLock<String> = OnceLock::new();

/// Writes to standard output. Whoever reads it may have had enough: that is
/// no error, and no reason to panic as `print!` does. What else goes wrong
/// [`all_said`] tells.
pub fn say(text: &str) {
    say_bytes(text.as_bytes());
}

/// The same for bytes that are no text.
pub fn say_bytes(bytes: &[u8]) {
    let mut out = std::io::stdout().lock();
    let written = out.write_all(bytes).and_then(|()| out.flush());
    if let Err(error) = written
        && error.kind() != std::io::ErrorKind::BrokenPipe
    {
        UNSAID.get_or_init(|| error.to_string());
    }
}

/// Whether all of it was written.
///
/// # Errors
/// The disk is full, or the like.
pub fn all_said() -> Result<(), Failure> {
    match UNSAID.get() {
        None => Ok(()),
        Some(error) => Err(Failure::new(format!(
            "standard output cannot be written: {error}"
        ))),
    }
}

/// Writes to standard error, where nothing can be told of what goes wrong.
pub fn tell(text: &str) {
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
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
