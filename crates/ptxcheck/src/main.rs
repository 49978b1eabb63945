//! `ptxcheck`: checks and lints PTX files.

use std::process::ExitCode;

use clap::Parser;
use mimalloc::MiMalloc;
use ptxcheck::args::Cli;

/// Keeps what is freed for the next function, and asks for large pages. With the allocator of
/// glibc, a kernel of 20 MB spends a third of its time on page faults.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    match Cli::parse().run() {
        Ok(status) => ExitCode::from(status),
        Err(failure) => failure.report(),
    }
}
