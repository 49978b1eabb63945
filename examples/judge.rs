//! Judges PTX files as ptxas would: reads and checks each, and prints what is
//! wrong, one finding a line.
//!
//! ```text
//! cargo run --no-default-features --example judge -- kernel.ptx
//! ```

use std::process::ExitCode;

use ptxkit::ptx::{self, diagnostic::LineIndex};

fn main() -> ExitCode {
    let mut clean = true;
    for path in std::env::args_os().skip(1) {
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
        found.extend(ptx::check(&reading.module, &source));
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
