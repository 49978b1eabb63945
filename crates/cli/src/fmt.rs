//! `ptxkit fmt`: PTX in its canonical form.

use std::path::{Path, PathBuf};

use input::ShowName as _;
use ptxkit::ptx::{self, Diagnostics};
use terminal::failure::{FAILED, Failure, MISMATCHES, VERIFIED};
use terminal::output::print;
use terminal::{diff, walk};

/// The arguments of `ptxkit fmt`.
#[derive(Debug, clap::Args)]
pub struct FmtArgs {
    /// PTX files, and folders with .ptx files; `-` is standard input
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// List the files that are not in canonical form, and change nothing
    #[arg(long, conflicts_with_all = ["write", "diff"])]
    check: bool,
    /// Print what --write would change as a diff, and change nothing
    #[arg(long, conflicts_with = "write")]
    diff: bool,
    /// Write the canonical form back to the files that differ from it
    #[arg(short, long)]
    write: bool,
}

/// Prints, checks or writes each file; returns the exit status.
///
/// A file that cannot be read or has syntax errors is reported and not changed.
pub fn run(args: &FmtArgs) -> Result<u8, Failure> {
    let mut status = VERIFIED;
    for path in &args.paths {
        for file in files(path) {
            let formatted = file.and_then(|file| format(args, &file));
            let of_file = formatted.unwrap_or_else(|failure| {
                failure.print();
                FAILED
            });
            status = status.max(of_file);
        }
    }
    Ok(status)
}

/// The files of a path of the command line.
fn files(path: &Path) -> Vec<Result<PathBuf, Failure>> {
    if is_standard_input(path) || !path.is_dir() {
        return vec![Ok(path.to_owned())];
    }
    let is_wanted = |file: &Result<PathBuf, Failure>| match file {
        Ok(file) => walk::is_ptx(file),
        Err(_) => true,
    };
    let files: Vec<_> = walk::files(path).filter(is_wanted).collect();
    if files.is_empty() {
        let message = format!("{}: no file in this folder is named .ptx", path.shown());
        return vec![Err(Failure::new(message))];
    }
    files
}

fn format(args: &FmtArgs, path: &Path) -> Result<u8, Failure> {
    let name = if is_standard_input(path) {
        "<stdin>".to_owned()
    } else {
        path.shown().to_string()
    };
    let source = text(path, &name)?;
    let canonical = ptx::printer::format(&source)
        .map_err(|found| Failure::rendered(&Diagnostics::new(&source, &name, found)))?;
    let differs = canonical != source;
    if args.check || args.diff {
        if args.diff {
            let colour = anstream::AutoStream::choice(&std::io::stdout());
            let colour = colour != anstream::ColorChoice::Never;
            print(&diff::unified(&source, &canonical, &name, colour));
        } else if differs {
            print(&format!("would reformat {name}\n"));
        }
        return Ok(if differs { MISMATCHES } else { VERIFIED });
    }
    if !args.write || is_standard_input(path) {
        print(&canonical);
    } else if differs {
        std::fs::write(path, canonical)
            .map_err(|error| Failure::new(format!("{name}: {error}")))?;
    }
    Ok(VERIFIED)
}

fn is_standard_input(path: &Path) -> bool {
    path.as_os_str() == "-"
}

fn text(path: &Path, name: &str) -> Result<String, Failure> {
    let failure = |error: std::io::Error| Failure::new(format!("{name}: {error}"));
    let bytes = if is_standard_input(path) {
        input::standard_input()
    } else {
        input::read(path)
    };
    let bytes = bytes.map_err(failure)?;
    String::from_utf8(bytes).map_err(|error| {
        let (at, bytes) = (error.utf8_error().valid_up_to(), error.as_bytes());
        let line = bytes.iter().take(at).filter(|b| **b == b'\n').count() + 1;
        let message = "is not UTF-8; PTX is ASCII outside comments";
        Failure::new(format!("{name}:{line}: a byte that {message}"))
    })
}
