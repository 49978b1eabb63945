//! `ptxcheck`: checks and lints PTX files.

use std::process::ExitCode;

use ptxcheck::command_line::Cli;

fn main() -> ExitCode {
    match Cli::of_process().run() {
        Ok(status) => ExitCode::from(status),
        Err(failure) => failure.report(),
    }
}
