//! Errors of the programs, and their exit statuses.

use std::fmt;
use std::process::ExitCode;

use crate::output::{Escaped, eprint};
use ptx::Diagnostics;

/// The exit status of success.
pub const VERIFIED: u8 = 0;
/// The exit status of findings, or of results that differ from the expected ones.
pub const MISMATCHES: u8 = 1;
/// The exit status of a failure.
pub const FAILED: u8 = 2;

/// An error message: what is wrong, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    message: String,
    help: Option<String>,
    /// The message has its own `error: `.
    headed: bool,
}

impl Failure {
    pub fn new(message: impl fmt::Display) -> Failure {
        Failure {
            message: message.to_string(),
            help: None,
            headed: false,
        }
    }

    /// Diagnostics of the front end, rendered with their source lines.
    pub fn rendered(diagnostics: &Diagnostics) -> Failure {
        Failure {
            headed: true,
            ..Failure::new(diagnostics)
        }
    }

    /// A message that is already formatted, such as that of a child process.
    pub fn preformatted(text: String) -> Failure {
        Failure {
            message: text.trim_end().to_owned(),
            help: None,
            headed: true,
        }
    }

    #[must_use]
    pub fn help(mut self, help: impl fmt::Display) -> Failure {
        self.help = Some(help.to_string());
        self
    }

    /// The same failure, of this file.
    #[must_use]
    pub fn of(mut self, name: &str) -> Failure {
        self.message = format!("{name}: {}", self.message);
        self
    }

    /// Prints it to standard error.
    pub fn print(&self) {
        eprint(&format!("{self}\n"));
    }

    /// Prints it, and returns the exit status of a failure.
    pub fn report(&self) -> ExitCode {
        self.print();
        ExitCode::from(FAILED)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.headed {
            f.write_str("error: ")?;
        }
        write!(f, "{}", Escaped::lines(&self.message))?;
        if let Some(help) = &self.help {
            write!(f, "\nhelp: {}", Escaped::lines(help))?;
        }
        Ok(())
    }
}

/// `a`, `b` and `c`.
pub fn listing<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<String> = names.into_iter().map(|name| format!("`{name}`")).collect();
    match names.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
        None => String::new(),
    }
}
