//! Counts the kernels that the CPU device takes, and why it refuses others:
//!
//! ```sh
//! cargo run --release -p ptxkit-cpu --example refusals -- FOLDER|FILE...
//! cargo run --release -p ptxkit-cpu --example refusals -- --code FOLDER|FILE...
//! cargo run --release -p ptxkit-cpu --example refusals -- --longest COUNT FOLDER|FILE...
//! ```
//!
//! Prints a line for each argument and cause, `argument<TAB>kernels<TAB>cause`; the cause of
//! kernels that compile is `compiles`. A kernel with several causes counts for the first.
//! Kernels are checked in slices; `--code` also makes their machine code. `--longest` compiles so
//! many of the longest slices and prints, for each, `bytes<TAB>seconds<TAB>kernel`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use ptx::slice::cut_always;
use ptxkit_cpu::{CompileError, CompileErrorKind, CompileOptions, check, compile};

fn main() -> ExitCode {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let code = arguments.first().is_some_and(|word| word == "--code");
    if code {
        arguments.remove(0);
    }
    let mut longest = None;
    if let [word, number, ..] = arguments.as_slice()
        && word == "--longest"
    {
        longest = number.parse().ok();
        if longest.is_none() {
            eprintln!("error: --longest takes a number, not {number}");
            return ExitCode::from(2);
        }
        arguments.drain(..2);
    }
    if arguments.is_empty() {
        eprintln!("error: name folders or files of PTX");
        return ExitCode::from(2);
    }
    if let Some(count) = longest {
        return match compile_longest(&arguments, count) {
            Ok(()) => ExitCode::SUCCESS,
            Err(message) => {
                eprintln!("error: {message}");
                ExitCode::from(2)
            }
        };
    }
    for argument in &arguments {
        let mut counts = BTreeMap::new();
        for path in files(Path::new(argument)) {
            match std::fs::read_to_string(&path) {
                Ok(text) => count(&path, &text, code, &mut counts),
                Err(error) => {
                    eprintln!("error: {}: {error}", path.display());
                    return ExitCode::from(2);
                }
            }
        }
        for (cause, kernels) in counts {
            println!("{argument}\t{kernels}\t{cause}");
        }
    }
    ExitCode::SUCCESS
}

/// Compiles the longest slices of all files.
fn compile_longest(arguments: &[String], count: usize) -> Result<(), String> {
    let mut slices: Vec<(String, String)> = Vec::new();
    for path in arguments.iter().flat_map(|folder| files(Path::new(folder))) {
        let text = std::fs::read_to_string(&path);
        let text = text.map_err(|error| format!("{}: {error}", path.display()))?;
        let cut = cut_always(&text, &ptx::read(&text).module);
        slices.extend(cut.slices().iter().map(|slice| {
            let kernel = slice.kernels().first().cloned().unwrap_or_default();
            (slice.text(&text).into_owned(), kernel)
        }));
        slices.sort_by_key(|(text, _)| std::cmp::Reverse(text.len()));
        slices.truncate(count);
    }
    for (text, kernel) in slices {
        let start = Instant::now();
        compile(&text, &CompileOptions::default()).map_err(|error| format!("{kernel}: {error}"))?;
        let seconds = start.elapsed().as_secs_f64();
        println!("{}\t{seconds:.3}\t{kernel}", text.len());
    }
    Ok(())
}

/// The PTX files of a folder and those below it, or the one file.
fn files(path: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(path) else {
        return vec![path.to_owned()];
    };
    let mut entries: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    entries.sort();
    let is_ptx = |path: &Path| path.extension().is_some_and(|extension| extension == "ptx");
    entries
        .into_iter()
        .flat_map(|path| match path.is_dir() {
            true => files(&path),
            false if is_ptx(&path) => vec![path],
            false => Vec::new(),
        })
        .collect()
}

fn count(path: &Path, text: &str, code: bool, counts: &mut BTreeMap<String, usize>) {
    let slices = cut_always(text, &ptx::read(text).module);
    for slice in slices.slices() {
        let text = slice.text(text);
        let result = match code {
            true => compile(&text, &CompileOptions::default()).map(|_| ()),
            false => check(&text),
        };
        let cause = match result {
            Ok(()) => "compiles".to_owned(),
            Err(error) => {
                let (cause, quoted) = cause(&error);
                if std::env::var_os("REFUSALS_VERBOSE").is_some() {
                    eprintln!("{}: {:?}: {quoted}", path.display(), slice.kernels());
                }
                cause
            }
        };
        *counts.entry(cause).or_default() += slice.kernels().len();
    }
}

/// Why a module is refused, without what is particular to it, and the first message.
fn cause(error: &CompileError) -> (String, &str) {
    let message = error
        .problems
        .first()
        .map_or("", |problem| &problem.message);
    if error.kind == CompileErrorKind::Invalid {
        return (format!("invalid: {message}"), message);
    }
    let Some((before, reason)) = message.rsplit_once("`: ") else {
        return (message.to_owned(), message);
    };
    let statement = before.split_once('`').map_or(before, |(_, text)| text);
    let mnemonic = statement
        .split_whitespace()
        .find(|word| !word.starts_with('@'))
        .unwrap_or_default();
    // The opcode and what it does; types and shapes follow.
    let words: Vec<&str> = mnemonic.trim_end_matches(';').split('.').take(3).collect();
    (format!("{}: {reason}", words.join(".")), message)
}
