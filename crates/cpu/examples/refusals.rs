//! Counts the kernels that the CPU device takes, and why it refuses others:
//!
//! ```sh
//! cargo run --release -p ptxkit-cpu --example refusals -- FOLDER|FILE...
//! cargo run --release -p ptxkit-cpu --example refusals -- --code FOLDER|FILE...
//! cargo run --release -p ptxkit-cpu --example refusals -- --lanes FOLDER|FILE...
//! cargo run --release -p ptxkit-cpu --example refusals -- --optimizations EVERY FOLDER|FILE...
//! cargo run --release -p ptxkit-cpu --example refusals -- --longest COUNT FOLDER|FILE...
//! ```
//!
//! Prints a line for each argument and cause, `argument<TAB>kernels<TAB>cause`; the cause of
//! kernels that compile is `compiles`. A kernel with several causes counts for the first.
//! Kernels are checked in slices; `--code` also makes their machine code. `--lanes` makes it with
//! vectors and counts why a kernel is not compiled for AVX-512. `--optimizations` does the same for every EVERY-th slice and blocks of 256 threads, and prints
//! `argument<TAB>kernels<TAB>optimization<TAB>uses` for each optimization. `--longest` compiles so
//! many of the longest slices and prints, for each, `bytes<TAB>seconds<TAB>kernel`.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use ptx::slice::cut_always;
use ptxkit_cpu::{
    CompileError, CompileErrorKind, CompileOptions, Vectorization, check, compile, compile_hot,
};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

fn main() -> ExitCode {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let depth = match arguments.first().map(String::as_str) {
        Some("--code") => Depth::Code,
        Some("--lanes") => Depth::Lanes,
        Some("--optimizations") => Depth::Optimizations,
        _ => Depth::Check,
    };
    if depth != Depth::Check {
        arguments.remove(0);
    }
    let mut every = 1;
    if depth == Depth::Optimizations {
        let number = arguments.first().and_then(|word| word.parse().ok());
        every = match number {
            Some(number) if number > 0 => number,
            _ => {
                eprintln!("error: --optimizations takes a number from 1 and paths");
                return ExitCode::from(2);
            }
        };
        arguments.remove(0);
    }
    if matches!(depth, Depth::Lanes | Depth::Optimizations) {
        tracing::subscriber::set_global_default(Reasons).expect("no subscriber is set before");
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
                Ok(text) => count(&path, &text, (depth, every), &mut counts),
                Err(error) => {
                    eprintln!("error: {}: {error}", path.display());
                    return ExitCode::from(2);
                }
            }
        }
        for (cause, kernels) in counts {
            println!("{argument}\t{kernels}\t{cause}");
        }
        for (name, (kernels, uses)) in USED.take() {
            println!("{argument}\t{kernels}\t{name}\t{uses}");
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

/// What is done with each kernel.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Depth {
    Check,
    Code,
    Lanes,
    Optimizations,
}

/// The size of blocks that optimizations are counted for.
const BLOCK: [u32; 3] = [256, 1, 1];

thread_local! {
    /// Why the last kernel was not compiled for AVX-512.
    static REASON: RefCell<Option<String>> = const { RefCell::new(None) };
    /// How often the last kernel used each optimization.
    static USES: RefCell<BTreeMap<String, usize>> = const { RefCell::new(BTreeMap::new()) };
    /// By optimization: the number of kernels that use it, and of uses.
    static USED: RefCell<BTreeMap<String, (usize, usize)>> = const { RefCell::new(BTreeMap::new()) };
}

/// Keeps the `reason` of the compiler's events, and counts their `optimization`.
struct Reasons;

impl Subscriber for Reasons {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        struct Reason;
        impl Visit for Reason {
            fn record_str(&mut self, field: &Field, value: &str) {
                match field.name() {
                    "reason" => REASON.set(Some(value.to_owned())),
                    "optimization" => USES.with_borrow_mut(|uses| {
                        *uses.entry(value.to_owned()).or_default() += 1;
                    }),
                    _ => {}
                }
            }
            fn record_debug(&mut self, _: &Field, _: &dyn fmt::Debug) {}
        }
        event.record(&mut Reason);
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// The code of a kernel with vectors; the cause is that of `REASON`.
fn lanes(text: &str, depth: Depth) -> Result<String, CompileError> {
    REASON.set(None);
    if depth == Depth::Optimizations {
        compile_hot(text, BLOCK)?;
    } else {
        let mut options = CompileOptions::default();
        options.vectorization = Vectorization::Always;
        compile(text, &options)?;
    }
    Ok(REASON.take().unwrap_or_else(|| "lanes".to_owned()))
}

fn count(
    path: &Path,
    text: &str,
    (depth, every): (Depth, usize),
    counts: &mut BTreeMap<String, usize>,
) {
    let slices = cut_always(text, &ptx::read(text).module);
    for slice in slices.slices().iter().step_by(every) {
        let text = slice.text(text);
        let compiles = || "compiles".to_owned();
        let result = match depth {
            Depth::Code => compile(&text, &CompileOptions::default()).map(|_| compiles()),
            Depth::Check => check(&text).map(|()| compiles()),
            Depth::Lanes | Depth::Optimizations => lanes(&text, depth),
        };
        if depth == Depth::Optimizations {
            let is_compiled = matches!(result.as_deref(), Ok("lanes"));
            note_uses(is_compiled.then(|| slice.kernels().len()));
        }
        let cause = match result {
            Ok(cause) => cause,
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

/// Counts the optimizations of kernels that are compiled to vectors; forgets those of others.
fn note_uses(kernels: Option<usize>) {
    let uses = USES.take();
    let Some(kernels) = kernels else {
        return;
    };
    USED.with_borrow_mut(|used| {
        for (name, uses) in uses {
            let (all, sum) = used.entry(name).or_default();
            *all += kernels;
            *sum += uses;
        }
    });
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
