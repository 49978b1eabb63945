//! `ptxcheck`: checks and lints PTX files.

use std::hint::black_box;
use std::process::ExitCode;

use clap::Parser;
use ptxcheck::args::Cli;

/// The largest size at which glibc's `free` raises its thresholds.
const LARGEST_THRESHOLD: usize = (32 << 20) - (64 << 10);

fn main() -> ExitCode {
    // Freeing a large block keeps glibc from giving the memory of each function back to the
    // system, which would hand it out again page by page.
    drop(black_box(Vec::<u8>::with_capacity(LARGEST_THRESHOLD)));
    match Cli::parse().run() {
        Ok(status) => ExitCode::from(status),
        Err(failure) => failure.report(),
    }
}
