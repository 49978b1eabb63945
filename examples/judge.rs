//! Judges PTX files as ptxas would: reads and checks each, and prints what is
//! wrong, one finding a line.
//!
//! ```text
//! cargo run --no-default-features --example judge -- [--codegen] kernel.ptx
//! ```
//!
//! With `--codegen` first, what is found only when code is made is found too.

use std::process::ExitCode;

use ptxkit::ptx::{self, CheckOptions, Level, diagnostic::LineIndex};

fn main() -> ExitCode {
    let mut clean = true;
    let mut options = CheckOptions::default();
    let mut paths = std::env::args_os().skip(1).peekable();
    if paths.next_if(|first| first == "--codegen").is_some() {
        options.level = Level::Codegen;
    }
    if paths.peek().is_none() {
        eprintln!("give one or more PTX files");
        return ExitCode::from(2);
    }
    for path in paths {
        let shown = path.display();
        let source = match std::fs::read_to_string(&path) {
            Ok(source) => source,
            Err(error) => {
                eprintln!("{shown}: {error}");
                return ExitCode::from(2);
            }
        };
        let reading = ptx::read(&source);
        let mut found = reading.diagnostics;
        found.extend(ptx::check_with(&reading.module, &source, &options));
        found.sort_by_key(|diagnostic| diagnostic.span.start);
        let lines = LineIndex::new(&source);
        for diagnostic in &found {
            let place = lines.locate(diagnostic.span.start);
            println!(
                "{shown}:{place}: {} {}",
                diagnostic.code, diagnostic.message
            );
        }
        clean &= found.is_empty();
    }
    ExitCode::from(u8::from(!clean))
}
