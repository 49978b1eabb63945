//! The command line of `ptxkit`.

use clap::CommandFactory;

use super::argument::ARG_HELP;
use super::cache::{self, CacheCommand};
use super::nvptxcompiler::{self, NvPtxCompilerCommand};
use super::run::{self, RunArgs};
use super::{
    assemble, bench, devices, diff, exec, explain, extract, fmt, inspect, isa, log, occupancy,
    pack, ptxas, top, trace,
};
use terminal::failure::{Failure, VERIFIED};
use terminal::output::{Format, check_stdout};
use terminal::shell::{CompletionsArgs, ManArgs};

#[derive(Debug, clap::Parser)]
#[command(
    name = "ptxkit",
    version,
    about = "Runs, compiles, caches and inspects PTX, with or without a GPU",
    after_help = "Exit status: 0 success, 2 an error. The help of a command explains 1."
)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
    /// Traces on standard error: the steps of a load, -vv with keys, paths and times, -vvv all
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    verbose: u8,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Run a kernel and check its results
    #[command(after_help = after_help())]
    Run(RunArgs),
    /// Time a kernel, alone or beside another version of it
    #[command(after_help = bench::AFTER_HELP)]
    Bench(bench::BenchArgs),
    /// Compare the results of a kernel on two devices, or of two versions of it
    #[command(after_help = diff::AFTER_HELP)]
    Diff(diff::DiffArgs),
    /// Show what a thread of a kernel executes, which lines all threads do, or mistakes such as races
    #[command(after_help = trace::AFTER_HELP)]
    Trace(trace::TraceArgs),
    /// Run a program with the CPU device in the place of NVIDIA's driver
    ///
    /// The program finds the CPU device under the name libcuda.so.1, by LD_LIBRARY_PATH, and by
    /// LD_PRELOAD those of its companions that are built. Nothing else is changed.
    #[command(
        after_help = "Exit status: that of the program; 2 the CPU device is not found, 126 the program cannot be run, \
            127 it is not found."
    )]
    Exec(exec::ExecArgs),
    /// Print PTX in its canonical form
    #[command(
        after_help = "Exit status: 0 done, 1 a file is not in canonical form (--check, --diff), 2 a file could not \
            be read or has syntax errors."
    )]
    Fmt(fmt::FmtArgs),
    /// Show the forms of an instruction: modifiers, operands, and first versions
    Isa(isa::IsaArgs),
    /// Compile PTX to cubins, through the compute cache, and check the resources of its kernels
    #[command(after_help = assemble::AFTER_HELP)]
    Assemble(assemble::AssembleArgs),
    /// Write PTX and cubins into one fatbin, or into source or an object with it
    #[command(after_help = pack::AFTER_HELP)]
    Pack(pack::PackArgs),
    /// Take the place of ptxas, and make binaries of the CPU device
    ///
    /// A program with the name `ptxas` or `ptxkit-ptxas`, such as a link to this one, does the
    /// same. The options are those of ptxas: `ptxkit ptxas --help` lists them.
    #[command(disable_help_flag = true)]
    Ptxas {
        /// What ptxas is called with
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// List the images in files: PTX, cubins, fatbins, and programs and archives with these
    #[command(
        after_help = "Exit status: 0 done, 1 an image is damaged or too large to unpack, 2 a file could not be read."
    )]
    Inspect(inspect::InspectArgs),
    /// Show which image of a file a device loads, and why not the others
    #[command(
        after_help = "Exit status: 0 every fatbin has an image that can be loaded, 1 not every one has, or the selected image is damaged, 2 the file could not be read."
    )]
    Explain(explain::ExplainArgs),
    /// Calculate how many blocks of a kernel a multiprocessor holds, and what limits them
    #[command(after_help = occupancy::AFTER_HELP)]
    Occupancy(occupancy::OccupancyArgs),
    /// Write the images in a file to files of their own
    #[command(
        after_help = "Exit status: 0 done, 1 an image could not be unpacked, 2 the file could not be read."
    )]
    Extract(extract::ExtractArgs),
    /// List the devices of this machine
    Devices(devices::DevicesArgs),
    /// List, maintain, fill or transfer the compute cache
    #[command(after_help = cache::AFTER_HELP)]
    Cache {
        #[command(subcommand)]
        command: CacheCommand,
        #[arg(long, value_enum, default_value_t, global = true)]
        format: Format,
    },
    /// Build the library with NVIDIA's PTX compiler, for PTX that is newer than the driver
    #[command(name = "nvptxcompiler", after_help = nvptxcompiler::AFTER_HELP)]
    NvPtxCompiler {
        #[command(subcommand)]
        command: NvPtxCompilerCommand,
    },
    /// Show what a compute cache does: hits, misses, compilations, its modules
    #[command(after_help = top::AFTER_HELP)]
    Top(top::TopArgs),
    /// Print what completes the command line in a shell
    Completions(CompletionsArgs),
    /// Print the manual page
    Man(ManArgs),
}

fn after_help() -> String {
    format!(
        "Arguments (--arg), in the order of the kernel's parameters:\n{ARG_HELP}\n\n\
         Exit status: 0 the results are as expected, 1 they are not, 2 it could not be run."
    )
}

impl Cli {
    /// Runs the command; returns the exit status.
    pub fn run(&self) -> Result<u8, Failure> {
        log::start(self.verbose);
        let status = match &self.command {
            Command::Run(args) => run::run(args),
            Command::Bench(args) => bench::run(args).map(|()| VERIFIED),
            Command::Diff(args) => diff::run(args),
            Command::Trace(args) => trace::run(args),
            Command::Exec(args) => exec::run(args),
            Command::Fmt(args) => fmt::run(args),
            Command::Isa(args) => isa::run(args).map(|()| VERIFIED),
            Command::Assemble(args) => assemble::run(args),
            Command::Pack(args) => pack::run(args),
            Command::Ptxas { arguments } => Ok(ptxas::run(arguments.iter().cloned())),
            Command::Inspect(args) => inspect::run(args),
            Command::Explain(args) => explain::run(args),
            Command::Occupancy(args) => occupancy::run(args),
            Command::Extract(args) => extract::run(args),
            Command::Devices(args) => devices::run(args, self.verbose > 0).map(|()| VERIFIED),
            Command::Cache { command, format } => cache::run(command, *format),
            Command::NvPtxCompiler { command } => nvptxcompiler::run(command),
            Command::Top(args) => top::run(args).map(|()| VERIFIED),
            Command::Completions(args) => {
                args.print(Cli::command());
                Ok(VERIFIED)
            }
            Command::Man(args) => args.print(Cli::command()).map(|()| VERIFIED),
        }?;
        check_stdout()?;
        Ok(status)
    }
}
