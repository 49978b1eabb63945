//! Traces on standard error.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

/// Warnings; with `-v` what was chosen, found and compiled, with `-vv` all.
/// `RUST_LOG` wins over both.
pub fn start(verbose: u8) {
    let level = match verbose {
        0 => "warn",
        1 => "ptxkit=debug",
        _ => "ptxkit=trace",
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level));
    // A second start in one process keeps the first: nothing is lost by that.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .without_time()
        .try_init();
}
