//! The report of a program that ran with `ptxkit exec`: loads, compilations, copies, launches, and refused calls.
//!
//! | variable | contents of the file |
//! |---|---|
//! | [`VARIABLE`] | a page if its name ends in `.html`, otherwise one [`Record`] of JSON per line |
//! | [`TRACE`] | a Chrome trace, which Perfetto opens: see [`trace`] |
//!
//! Many processes append to one file. A process appends a record of its news now and then, and when it exits; readers
//! add the records up.

#![forbid(unsafe_code)]

mod file;
mod page;
mod record;
mod remedy;
pub mod trace;

use std::path::PathBuf;

pub use record::{
    Compiles, Copies, Device, Event, EventKind, Failure, Finding, KernelFault, KernelSource, Kind,
    Lane, Launches, Load, Missing, Outcome, Process, Record, Shape,
};

/// The variable that names the file of the report.
pub const VARIABLE: &str = "PTXKIT_EXEC_REPORT";

/// The variable that names the file of the trace.
pub const TRACE: &str = "PTXKIT_EXEC_TRACE";

/// The variable that is 1 if reports have the arguments of programs, which may be passwords.
pub const ARGUMENTS: &str = "PTXKIT_EXEC_REPORT_ARGUMENTS";

/// The file that a variable names; `None` if it is empty or not set.
///
/// ```
/// assert_eq!(ptxkit_report::path("PTXKIT_NO_SUCH_VARIABLE"), None);
/// ```
pub fn path(variable: &str) -> Option<PathBuf> {
    let path: PathBuf = std::env::var_os(variable)?.into();
    // A program may change its folder.
    (!path.as_os_str().is_empty()).then(|| std::path::absolute(&path).unwrap_or(path))
}
