//! A run in a process of its own.
//!
//! What a kernel prints comes out on the process's standard output, mixed with
//! everything else there, and a failed assertion spoils the CUDA context for
//! good. So a run whose text is looked at is handed to a child: the same
//! program with the same arguments, and in the environment a folder for the
//! outcome.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};

use super::report::RunReport;
use super::run::Finished;
use super::sample::Outcome;
use terminal::failure::{FAILED, Failure};

/// What the child writes beside the memory's bytes.
#[derive(Serialize, Deserialize)]
struct HandOver {
    report: RunReport,
    why: String,
    error_code: Option<String>,
    error: Option<String>,
    /// Lengths of the pieces of [`MEMORY`]: arguments, then module variables.
    args: Vec<usize>,
    globals: Vec<usize>,
}

const FACTS: &str = "outcome.json";
/// What arguments and module variables hold, one after the other.
const MEMORY: &str = "memory";

/// The variable that tells a process that it is the child, and of what folder.
const FOLDER: &str = "PTXKIT_OUTCOME_FOLDER";

/// In the child: the folder for the outcome.
pub fn folder() -> Option<PathBuf> {
    std::env::var_os(FOLDER).map(PathBuf::from)
}

/// In the child: leaves the outcome in `folder`.
pub fn hand_over(folder: &Path, finished: &Finished) -> Result<(), Failure> {
    let outcome = &finished.outcome;
    let lengths = |pieces: &[Vec<u8>]| pieces.iter().map(Vec::len).collect();
    let facts = HandOver {
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
        .and_then(|()| std::fs::write(folder.join(FACTS), facts))
        .map_err(|error| Failure::new(format!("{}: {error}", folder.display())))
}

/// In the parent: runs this program again and takes what it left and printed.
pub fn execute() -> Result<Finished, Failure> {
    let cannot = |error: std::io::Error| {
        Failure::new(format!("the run cannot have a process of its own: {error}"))
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
            // It said what is wrong in the same words as this process would.
            Some(code) if code == i32::from(FAILED) && !stderr.is_empty() => {
                Failure::preformatted(stderr)
            }
            // What it said before it died is no reason.
            _ => Failure::preformatted(format!(
                "{stderr}error: the process of the run ended with {}",
                output.status
            )),
        });
    }
    let facts = std::fs::read(folder.path().join(FACTS)).map_err(cannot)?;
    let facts: HandOver = serde_json::from_slice(&facts).map_err(Failure::new)?;
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
