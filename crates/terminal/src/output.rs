//! Output of both programs.

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

/// The first error of a write to standard output.
static STDOUT_ERROR: OnceLock<String> = OnceLock::new();

/// Prints to standard output. A closed pipe is no error, and no reason to panic as
/// `print!` does. [`check_stdout`] returns other errors.
pub fn print(text: &str) {
    print_bytes(text.as_bytes());
}

/// Writes bytes to standard output, as [`print`] does.
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
/// A write failed: the disk is full, or the like.
pub fn check_stdout() -> Result<(), Failure> {
    match STDOUT_ERROR.get() {
        None => Ok(()),
        Some(error) => Err(Failure::new(format!(
            "standard output cannot be written: {error}"
        ))),
    }
}

/// Prints to standard error, and ignores errors: there is nowhere to report them.
pub fn eprint(text: &str) {
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
