//! What the steps of a load log, on standard error.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

/// Starts logging: warnings; with `-v` one line for each step of a load, with `-vv` also its keys,
/// paths, sizes and times, with `-vvv` everything. `RUST_LOG` overrides these levels.
pub fn start(verbose: u8) {
    let level = match verbose {
        0 => "warn",
        1 => "ptxkit=info",
        2 => "ptxkit=debug",
        _ => "ptxkit=trace",
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level));
    // A second start in the same process has no effect.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .without_time()
        .try_init();
}
