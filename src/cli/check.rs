//! `ptxcheck`: what is wrong with PTX files, as far as the front end sees.

use std::path::PathBuf;

use super::failure::{FAILED, Failure, MISMATCHES, VERIFIED};
use super::report::say;
use crate::image::{self, Image};
use crate::ptx::diagnostic::Severity;
use crate::ptx::{self, CheckOptions, Diagnostics, Level};

/// What `ptxcheck` takes.
#[derive(Debug, clap::Parser)]
#[command(name = "ptxcheck", version, about = "Checks PTX files")]
pub struct CheckArgs {
    /// PTX files
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// Find also what is wrong only when code is made of each file alone: functions
    /// that nothing defines, too much shared memory
    #[arg(long)]
    pub codegen: bool,
}

/// Prints what is found in each file; gives the exit status: 0 nothing wrong,
/// 1 errors in the PTX, 2 a file that cannot be read.
pub fn run(args: &CheckArgs) -> u8 {
    let mut status = VERIFIED;
    let level = if args.codegen {
        Level::Codegen
    } else {
        Level::Language
    };
    for path in &args.files {
        let name = path.display().to_string();
        let found = std::fs::read(path)
            .map_err(|error| Failure::new(format!("{name}: {error}")))
            .and_then(|bytes| check(&name, &bytes, level));
        status = status.max(match found {
            Ok(true) => VERIFIED,
            Ok(false) => MISMATCHES,
            Err(failure) => {
                eprintln!("{failure}");
                FAILED
            }
        });
    }
    status
}

/// Whether the file has no errors.
fn check(name: &str, bytes: &[u8], level: Level) -> Result<bool, Failure> {
    let image = image::open(bytes).map_err(|error| Failure::new(format!("{name}: {error}")))?;
    let Image::Ptx(text) = image else {
        return Err(Failure::new(format!("{name} is a binary, not PTX"))
            .help("cuobjdump -xptx all takes the PTX out of a binary, if there is some"));
    };
    let reading = ptx::read(text.source);
    let mut found = reading.diagnostics;
    let options = CheckOptions {
        level,
        ..CheckOptions::default()
    };
    found.extend(ptx::check_with(&reading.module, text.source, &options));
    let good = found
        .iter()
        .all(|diagnostic| diagnostic.severity != Severity::Error);
    if !found.is_empty() {
        say(&format!("{}\n", Diagnostics::new(text.source, name, found)));
    }
    Ok(good)
}
