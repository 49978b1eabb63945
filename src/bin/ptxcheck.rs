//! `ptxcheck`: what is wrong with PTX files.

use std::process::ExitCode;

use clap::Parser;
use ptxkit::cli::check::{self, CheckArgs};

fn main() -> ExitCode {
    ExitCode::from(check::run(&CheckArgs::parse()))
}
