//! What the library did: `PTXKIT_REPORT=stderr`, or the name of a file to which lines are added.

use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;
use std::sync::Once;
use std::time::Duration;

const VARIABLE: &str = "PTXKIT_REPORT";

fn line(text: impl Display) {
    let Some(to) = super::variable(VARIABLE) else {
        return;
    };
    let text = format!("ptxkit: {text}\n");
    // A report that cannot be written is no reason to fail.
    if to == "stderr" {
        let _ = std::io::stderr().write_all(text.as_bytes());
    } else if let Ok(mut file) = OpenOptions::new().append(true).create(true).open(to) {
        let _ = file.write_all(text.as_bytes());
    }
}

/// A file under the driver's name that does not open.
pub fn not_opened(file: &Path, error: &libloading::Error) {
    let cause = std::error::Error::source(error).map(ToString::to_string);
    let cause = cause.unwrap_or_else(|| error.to_string());
    line(format_args!("{} does not open: {cause}", file.display()));
}

/// Another copy of this library under the driver's name.
pub fn is_a_copy(file: &Path) {
    line(format_args!(
        "{} is another copy of the interposer",
        file.display()
    ));
}

/// A load whose PTX was compiled or found in the cache. `warns` if PTX should not be compiled.
pub fn served(entry: &str, reason: &str, (is_compiled, warns): (bool, bool), time: Duration) {
    let how = if is_compiled {
        "compiled"
    } else {
        "from the cache"
    };
    let text = format!(
        "{entry}: {reason}, {how} in {:.1} ms",
        time.as_secs_f64() * 1e3
    );
    if is_compiled && warns {
        always(&format!("{text} while the program runs"));
    } else {
        line(text);
    }
}

/// A load of a module or library that is cut.
pub fn cut(entry: &str, reason: &str, slices: usize, time: Duration) {
    line(format_args!(
        "{entry}: {reason}, {slices} slices to be compiled when they are used, {:.1} ms",
        time.as_secs_f64() * 1e3
    ));
}

/// A slice that was loaded because its kernel or variable is used.
pub fn slice(entry: &str, name: &str, how: (bool, bool), time: Duration) {
    served(entry, &format!("`{name}`"), how, time);
}

/// A slice that cannot be loaded.
pub fn failed(entry: &str, name: &str, why: &dyn Display) {
    line(format_args!("{entry}: `{name}`: {why}"));
}

/// The result of an addition to the list of what the program compiles. An error is printed once.
pub fn saved<T>(result: Option<std::io::Result<T>>) -> Option<T> {
    static ONCE: Once = Once::new();
    result?
        .inspect_err(|error| {
            ONCE.call_once(|| always(&format!("PTXKIT_SAVE_COMPILES cannot be written: {error}")));
        })
        .ok()
}

/// A load that the driver was given as it was.
pub fn forwarded(entry: &str, why: &str) {
    line(format_args!("{entry}: forwarded: {why}"));
}

/// A load that failed because PTX must not be compiled.
pub fn refused(entry: &str, why: &str) {
    always(&format!("{entry}: refused: {why}"));
}

/// A line that is printed without a report too.
pub fn always(text: &str) {
    if super::variable(VARIABLE).is_none_or(|to| to != "stderr") {
        let _ = writeln!(std::io::stderr(), "ptxkit: {text}");
    }
    line(text);
}
