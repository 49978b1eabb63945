//! The command line of `ptxcheck`.

use std::ffi::OsString;

use clap::{CommandFactory, Parser};

use super::args::CheckArgs;
use super::{cfg, check, explain, floors, report, resources, rules, server, watch};
use terminal::failure::{Failure, VERIFIED};
use terminal::output::check_stdout;
use terminal::shell::{CompletionsArgs, ManArgs};

/// The command line of `ptxcheck`.
#[derive(Debug, clap::Parser)]
#[command(
    name = "ptxcheck",
    version,
    about = "Checks and lints PTX, without a GPU or a toolkit",
    args_conflicts_with_subcommands = true,
    after_help = "Exit status: 0 no findings, 1 findings, 2 an error.\n\n\
        A comment suppresses findings: `// ptxcheck: disable=W0103` at the end of a line, before a \
        line, before a kernel, or, for the whole file, before `.version`."
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Option<Command>,
    #[command(flatten)]
    pub check: CheckArgs,
}

#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Explain a code: what it means, why it matters, an example
    #[command(alias = "explain")]
    Rule(explain::ExplainArgs),
    /// List all codes
    Rules(rules::RulesArgs),
    /// Print the lowest .version and .target that a file needs, and what forces them
    #[command(after_help = STATUS)]
    Floors(floors::FloorsArgs),
    /// Write the control-flow graph of a kernel, as dot or SVG
    #[command(after_help = STATUS)]
    Cfg(cfg::CfgArgs),
    /// Print the resources of each kernel: parameters, memory, registers, barriers, instructions
    #[command(after_help = STATUS)]
    Resources(resources::ResourcesArgs),
    /// Write a page for a browser: the PTX with its findings, and the control flow, registers and
    /// resources of each kernel
    #[command(after_help = CHECKED)]
    Report(Box<report::ReportArgs>),
    /// Serve an editor: the language server, over standard input and output
    Server(server::ServerArgs),
    /// Print what completes the command line in a shell
    Completions(CompletionsArgs),
    /// Print the manual page
    Man(ManArgs),
}

/// The exit status of the subcommands that read PTX.
const STATUS: &str = "Exit status: 0 done, 1 the PTX has errors, which are on standard error, 2 it \
     could not be read or has no such kernel.";

/// The exit status of the subcommands that report findings.
const CHECKED: &str = "Exit status: 0 no findings, 1 findings, 2 an error.";

/// A command line without a command.
#[derive(clap::Parser)]
struct CheckAlone {
    #[command(flatten)]
    check: CheckArgs,
}

impl Cli {
    /// The command line of this process. Ends the process where it is wrong or asks for help.
    pub fn of_process() -> Cli {
        // Describing all commands to clap takes as long as checking a small file.
        let is_command =
            |word: OsString| word.as_encoded_bytes().iter().all(u8::is_ascii_lowercase);
        if !std::env::args_os().skip(1).any(is_command)
            && let Ok(CheckAlone { check }) = CheckAlone::try_parse()
        {
            return Cli {
                command: None,
                check,
            };
        }
        Cli::parse()
    }

    /// Runs the command; returns the exit status.
    pub fn run(&self) -> Result<u8, Failure> {
        let status = match &self.command {
            None if self.check.watch => watch::run(&self.check),
            None => check::run(&self.check),
            Some(Command::Rule(args)) => explain::run(args),
            Some(Command::Rules(args)) => rules::run(args),
            Some(Command::Floors(args)) => floors::run(args),
            Some(Command::Cfg(args)) => cfg::run(args),
            Some(Command::Resources(args)) => resources::run(args),
            Some(Command::Report(args)) => report::run(args),
            Some(Command::Server(args)) => server::run(args),
            Some(Command::Completions(args)) => {
                args.print(Cli::command());
                Ok(VERIFIED)
            }
            Some(Command::Man(args)) => args.print(Cli::command()).map(|()| VERIFIED),
        }?;
        check_stdout()?;
        Ok(status)
    }
}
