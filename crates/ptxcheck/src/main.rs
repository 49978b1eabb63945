//! `ptxcheck`: checks and lints PTX files.

use std::process::ExitCode;

use clap::Parser;
use ptxcheck::args::Cli;

fn main() -> ExitCode {
    match Cli::parse().run() {
        Ok(status) => ExitCode::from(status),
        Err(failure) => failure.report(),
    }
}
