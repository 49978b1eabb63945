//! `ptxkit-ptxas-cache`: NVIDIA's ptxas behind the compute cache.

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = std::env::args_os().skip(1).collect();
    ExitCode::from(ptxkit_cli::ptxas_cache::run(arguments))
}
