//! Runs a kernel in a child process.
//!
//! A kernel prints to the standard output of its process, and a failed assertion makes the CUDA
//! context unusable. So if the output is verified, a child process runs the kernel: the same program
//! with the same arguments, and an environment variable with a folder for the outcome.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use input::ShowName as _;
use serde::{Deserialize, Serialize};

use super::report::RunReport;
use super::run::Finished;
use super::sample::Outcome;
use terminal::failure::{FAILED, Failure};

/// The results of the child, except the contents of memory.
#[derive(Serialize, Deserialize)]
struct ChildResult {
    report: RunReport,
    why: String,
    error_code: Option<String>,
    error: Option<String>,
    /// The lengths of the parts of [`MEMORY`]: arguments, then module variables.
    args: Vec<usize>,
    globals: Vec<usize>,
}

const RESULT: &str = "outcome.json";
/// The file with the contents of arguments and module variables, concatenated.
const MEMORY: &str = "memory";

/// The variable that marks a child process, with the folder.
const FOLDER: &str = "PTXKIT_OUTCOME_FOLDER";

/// In the child: the folder for the outcome.
pub fn folder() -> Option<PathBuf> {
    std::env::var_os(FOLDER).map(PathBuf::from)
}

/// In the child: writes the outcome to `folder`.
pub fn hand_over(folder: &Path, finished: &Finished) -> Result<(), Failure> {
    let outcome = &finished.outcome;
    let lengths = |pieces: &[Vec<u8>]| pieces.iter().map(Vec::len).collect();
    let facts = ChildResult {
        report: finished.report.clone(),
        why: finished.why.clone(),
        error_code: outcome.error.clone(),
        error: finished.error.as_ref().map(Failure::to_string),
        args: lengths(&outcome.args),
        globals: lengths(&outcome.globals),
    };
    let memory = [outcome.args.concat(), outcome.globals.concat()].concat();
    let facts = serde_json::to_vec(&facts).map_err(Failure::new)?;
    std::fs::write(folder.join(MEMORY), memory)
        .and_then(|()| std::fs::write(folder.join(RESULT), facts))
        .map_err(|error| Failure::new(format!("{}: {error}", folder.shown())))
}

/// In the parent: runs this program again, and reads its outcome and output.
pub fn execute() -> Result<Finished, Failure> {
    let cannot = |error: std::io::Error| {
        Failure::new(format!("cannot start a process for the run: {error}"))
    };
    let folder = tempfile::tempdir().map_err(cannot)?;
    let output = Command::new(std::env::current_exe().map_err(cannot)?)
        .args(std::env::args_os().skip(1))
        .env(FOLDER, folder.path())
        .stdin(Stdio::null())
        .output()
        .map_err(cannot)?;
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.code() != Some(0) {
        return Err(match output.status.code() {
            // It has printed the same message as this process would.
            Some(code) if code == i32::from(FAILED) && !stderr.is_empty() => {
                Failure::preformatted(stderr)
            }
            // Its earlier output does not explain the crash.
            _ => Failure::preformatted(format!(
                "{stderr}error: the process of the run ended with {}",
                output.status
            )),
        });
    }
    let facts = std::fs::read(folder.path().join(RESULT)).map_err(cannot)?;
    let facts: ChildResult = serde_json::from_slice(&facts).map_err(Failure::new)?;
    let memory = std::fs::read(folder.path().join(MEMORY)).map_err(cannot)?;
    let mut memory = memory.as_slice();
    let mut pieces = |lengths: &[usize]| -> Vec<Vec<u8>> {
        let piece = |&length: &usize| {
            let (piece, rest) = memory.split_at_checked(length).unwrap_or((memory, &[]));
            memory = rest;
            piece.to_vec()
        };
        lengths.iter().map(piece).collect()
    };
    Ok(Finished {
        outcome: Outcome {
            args: pieces(&facts.args),
            globals: pieces(&facts.globals),
            error: facts.error_code,
            stdout,
            stderr,
        },
        report: facts.report,
        why: facts.why,
        error: facts.error.map(Failure::preformatted),
    })
}
