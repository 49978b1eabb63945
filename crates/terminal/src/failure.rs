//! What a program says when it cannot do what it was asked.

use std::fmt;
use std::process::ExitCode;

use crate::output::tell;
use ptx::Diagnostics;

/// The exit status where everything expected came.
pub const VERIFIED: u8 = 0;
/// The exit status where results differ from what is expected.
pub const MISMATCHES: u8 = 1;
/// The exit status where the program could not do its work.
pub const FAILED: u8 = 2;

/// One message for a person: what is wrong, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    message: String,
    help: Option<String>,
    /// The message has its heading already.
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

    /// Findings of the front end, drawn with the lines they are about.
    pub fn drawn(diagnostics: &Diagnostics) -> Failure {
        Failure {
            headed: true,
            ..Failure::new(diagnostics)
        }
    }

    /// What another process of this program said on its standard error.
    pub fn said(text: String) -> Failure {
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

    /// Prints it on standard error.
    pub fn tell(&self) {
        tell(&format!("{self}\n"));
    }

    /// The same, where the program ends with it.
    pub fn report(&self) -> ExitCode {
        self.tell();
        ExitCode::from(FAILED)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.headed {
            f.write_str("error: ")?;
        }
        f.write_str(&self.message)?;
        if let Some(help) = &self.help {
            write!(f, "\nhelp: {help}")?;
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
