//! `ptxkit fmt`: PTX in its canonical form.

use std::io::Read;
use std::path::{Path, PathBuf};

use ptxkit::ptx::{self, Diagnostics};
use terminal::failure::{Failure, MISMATCHES, VERIFIED};
use terminal::output::say;

/// What `ptxkit fmt` takes.
#[derive(Debug, clap::Args)]
pub struct FmtArgs {
    /// PTX files; `-` is standard input
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Change nothing: say which files are not in canonical form, and exit with 1 if there are any
    #[arg(long)]
    check: bool,
    /// Write the canonical form back to the files, where it differs
    #[arg(short, long, conflicts_with = "check")]
    write: bool,
}

/// Prints, checks or writes each file; gives the exit status.
///
/// A file with syntax errors stops it, before later files are looked at: what
/// cannot be read cannot be printed.
pub fn run(args: &FmtArgs) -> Result<u8, Failure> {
    let mut status = VERIFIED;
    for path in &args.files {
        let source = text(path)?;
        let canonical = ptx::printer::format(&source).map_err(|found| {
            Failure::drawn(&Diagnostics::new(
                &source,
                &path.display().to_string(),
                found,
            ))
        })?;
        if args.check {
            if canonical != source {
                say(&format!("would reformat {}\n", path.display()));
                status = MISMATCHES;
            }
        } else if !args.write || is_standard_input(path) {
            say(&canonical);
        } else if canonical != source {
            std::fs::write(path, canonical)
                .map_err(|error| Failure::new(format!("{}: {error}", path.display())))?;
        }
    }
    Ok(status)
}

fn is_standard_input(path: &Path) -> bool {
    path.as_os_str() == "-"
}

fn text(path: &Path) -> Result<String, Failure> {
    let failure = |error: std::io::Error| Failure::new(format!("{}: {error}", path.display()));
    let bytes = if is_standard_input(path) {
        let mut bytes = Vec::new();
        std::io::stdin().read_to_end(&mut bytes).map_err(failure)?;
        bytes
    } else {
        std::fs::read(path).map_err(failure)?
    };
    String::from_utf8(bytes).map_err(|error| {
        let (at, bytes) = (error.utf8_error().valid_up_to(), error.as_bytes());
        let line = bytes.iter().take(at).filter(|b| **b == b'\n').count() + 1;
        let message = "is not UTF-8; PTX is ASCII outside comments";
        Failure::new(format!("{}:{line}: a byte that {message}", path.display()))
    })
}
