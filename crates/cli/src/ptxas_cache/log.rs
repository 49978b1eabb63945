//! What the program did: `PTXKIT_REPORT=stderr`, or the name of a file to which lines are added.
//!
//! Without the variable nothing is printed: standard error has the text of the real ptxas and
//! nothing else, because programs read it.

use std::ffi::OsString;
use std::fmt::Display;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};

const VARIABLE: &str = "PTXKIT_REPORT";

/// Where lines go, if they are asked for.
fn target() -> Option<OsString> {
    std::env::var_os(VARIABLE).filter(|to| !to.is_empty())
}

fn open() -> Option<Box<dyn Write>> {
    let to = target()?;
    if to == "stderr" {
        return Some(Box::new(io::stderr()));
    }
    let file: File = OpenOptions::new().append(true).create(true).open(to).ok()?;
    Some(Box::new(file))
}

/// Sends the warnings of the cache to the same place.
pub fn start() {
    if target().is_none() {
        return;
    }
    // A second start in the same process has no effect.
    let _ = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::WARN)
        .with_writer(|| open().unwrap_or_else(|| Box::new(io::sink())))
        .with_ansi(false)
        .without_time()
        .try_init();
}

/// Adds a line. A report that cannot be written is no reason to fail.
pub fn line(text: impl Display) {
    if let Some(mut to) = open() {
        let _ = to.write_all(format!("ptxkit: {text}\n").as_bytes());
    }
}
