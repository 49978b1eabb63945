//! `ptxkit`: runs PTX kernels on any machine.

use std::process::ExitCode;

use clap::Parser;
use ptxkit_cli::command::Cli;

fn main() -> ExitCode {
    match Cli::parse().run() {
        Ok(status) => ExitCode::from(status),
        Err(failure) => failure.report(),
    }
}
