//! `ptxkit`: runs PTX kernels on any machine.

use std::process::ExitCode;

use clap::Parser;
use ptxkit_cli::command::Cli;
use ptxkit_cli::ptxas;

fn main() -> ExitCode {
    if let Some(arguments) = ptxas::arguments(std::env::args_os()) {
        return ExitCode::from(ptxas::run(arguments));
    }
    match Cli::parse().run() {
        Ok(status) => ExitCode::from(status),
        Err(failure) => failure.report(),
    }
}
