//! The command line of `ptxkit`.

use super::argument::ARG_HELP;
use super::cache::{self, CacheCommand};
use super::run::{self, RunArgs};
use super::{assemble, choose, devices, extract, fmt, inspect, isa, trace};
use terminal::failure::{Failure, VERIFIED};
use terminal::output::{Format, all_said};

#[derive(Debug, clap::Parser)]
#[command(
    name = "ptxkit",
    version,
    about = "PTX on any machine: read, compiled, cached, launched and checked",
    after_help = "Exit status: 0 done, 2 it could not be done, and a message says why. What 1 means, the help \
        of a command says."
)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
    /// Traces on standard error; twice for all of them
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    verbose: u8,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Run a kernel and check what it gives
    #[command(after_help = after_help())]
    Run(RunArgs),
    /// Print PTX in its canonical form
    #[command(
        after_help = "Exit status: 0 done, 1 a file is not in canonical form (--check, --diff), 2 a file could not \
            be read or has syntax errors."
    )]
    Fmt(fmt::FmtArgs),
    /// Show the forms of an instruction: modifiers, operands, and since when there is each
    Isa(isa::IsaArgs),
    /// Compile PTX to a cubin, through the compute cache
    Assemble(assemble::AssembleArgs),
    /// List the images in a file: PTX, cubins, fatbins, and programs and archives that hold them
    Inspect(inspect::InspectArgs),
    /// Say which image of a file a device takes, and why not the others
    #[command(
        after_help = "Exit status: 0 something can be loaded of every fatbin, 1 not of every one, 2 the file could not be read."
    )]
    Explain(choose::ExplainArgs),
    /// Write the images in a file to files of their own
    #[command(
        after_help = "Exit status: 0 done, 1 an image could not be unpacked, 2 the file could not be read."
    )]
    Extract(extract::ExtractArgs),
    /// List what kernels can run on here
    Devices {
        #[arg(long, value_enum, default_value_t)]
        format: Format,
    },
    /// Look at the compute cache, keep it, fill it or ship it
    #[command(after_help = cache::AFTER_HELP)]
    Cache {
        #[command(subcommand)]
        command: CacheCommand,
        #[arg(long, value_enum, default_value_t, global = true)]
        format: Format,
    },
}

fn after_help() -> String {
    format!(
        "Arguments (--arg), in the order of the kernel's parameters:\n{ARG_HELP}\n\n\
         Exit status: 0 the results are as expected, 1 they are not, 2 it could not be run."
    )
}

impl Cli {
    /// Does what was asked; gives the exit status.
    pub fn run(&self) -> Result<u8, Failure> {
        trace::start(self.verbose);
        let status = match &self.command {
            Command::Run(args) => run::run(args),
            Command::Fmt(args) => fmt::run(args),
            Command::Isa(args) => isa::run(args).map(|()| VERIFIED),
            Command::Assemble(args) => assemble::run(args).map(|()| VERIFIED),
            Command::Inspect(args) => inspect::run(args).map(|()| VERIFIED),
            Command::Explain(args) => choose::run(args),
            Command::Extract(args) => extract::run(args),
            Command::Devices { format } => devices::list(*format).map(|()| VERIFIED),
            Command::Cache { command, format } => cache::run(command, *format),
        }?;
        all_said()?;
        Ok(status)
    }
}
