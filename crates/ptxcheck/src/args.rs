//! What `ptxcheck` takes.

use std::path::PathBuf;

use super::format::Format;
use super::selection::Prefix;
use super::{cfg, explain, floors, resources, rules};
use ptx::ast::Version;
use ptx::isa::target::{NotATarget, Target};
use terminal::failure::Failure;
use terminal::output::all_said;

/// The command line of `ptxcheck`.
#[derive(Debug, clap::Parser)]
#[command(
    name = "ptxcheck",
    version,
    about = "Finds what is wrong with PTX, without a GPU or a toolkit",
    args_conflicts_with_subcommands = true,
    after_help = "Exit status: 0 nothing found, 1 findings, 2 it could not be run.\n\n\
        A comment keeps a finding away: `// ptxcheck: disable=W0103` behind a line, before a \
        line, before a kernel, or, before `.version`, from the whole file."
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Option<Command>,
    #[command(flatten)]
    pub check: CheckArgs,
}

#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Print what a code means, why it matters, and an example
    Explain(explain::ExplainArgs),
    /// List every code that there is
    Rules(rules::RulesArgs),
    /// Print the lowest .version and .target that a file needs, and what forces them
    #[command(after_help = STATUS)]
    Floors(floors::FloorsArgs),
    /// Write the control-flow graph of a kernel, as dot or SVG
    #[command(after_help = STATUS)]
    Cfg(cfg::CfgArgs),
    /// Print what each kernel takes: parameters, memory, registers, barriers, instructions
    #[command(after_help = STATUS)]
    Resources(resources::ResourcesArgs),
}

/// The exit status of the subcommands that read PTX.
const STATUS: &str = "Exit status: 0 done, 1 the PTX has errors, which are on standard error, 2 it \
     could not be read or has no such kernel.";

/// What a check takes.
#[derive(Debug, Default, clap::Args)]
pub struct CheckArgs {
    /// PTX files, fatbins, programs and libraries with PTX in them, folders of
    /// these; `-` is standard input. Without any, the current folder
    pub paths: Vec<PathBuf>,
    /// How findings are written
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// Look for these too: codes or what codes begin with, `P`, `W01`, or `all`
    #[arg(long, value_name = "CODES", value_delimiter = ',')]
    pub select: Vec<Prefix>,
    /// Look for these no more; of several choices the longest counts
    #[arg(long, value_name = "CODES", value_delimiter = ',')]
    pub ignore: Vec<Prefix>,
    /// Look for these, and take them for errors
    #[arg(long, value_name = "CODES", value_delimiter = ',')]
    pub deny: Vec<Prefix>,
    /// As if the files said this `.target`: would they load there?
    #[arg(long, value_name = "TARGET", value_parser = target)]
    pub target: Option<Target>,
    /// As if the files said this `.version`, 8.0
    #[arg(long, value_name = "VERSION", value_parser = version)]
    pub ptx_version: Option<Version>,
    /// Find also what is wrong only when code is made of each file alone: functions
    /// that nothing defines, too much shared memory
    #[arg(long)]
    pub codegen: bool,
    /// So many warnings are no reason for an exit status of 1
    #[arg(long, value_name = "N")]
    pub max_warnings: Option<usize>,
    /// List at most so many findings of one module, and count the others; 0 lists all.
    /// The default is 20000
    #[arg(long, value_name = "N")]
    pub max_findings: Option<usize>,
    /// Print how often each code was found instead of the findings
    #[arg(long)]
    pub statistics: bool,
    /// Mend what can be mended safely, and say what is left
    #[arg(long)]
    pub fix: bool,
    /// Print what --fix would change, and change nothing
    #[arg(long)]
    pub diff: bool,
    /// What standard input is called
    #[arg(long, value_name = "NAME", default_value = "<stdin>")]
    pub stdin_filename: PathBuf,
    /// Leave out files of folders that match this, `vendor/**`
    #[arg(long, value_name = "GLOB")]
    pub exclude: Vec<String>,
    /// Use this ptxcheck.toml, instead of the next one above each file, which is looked
    /// for up to the top of the git repository
    #[arg(long, value_name = "FILE", conflicts_with = "isolated")]
    pub config: Option<PathBuf>,
    /// Use no ptxcheck.toml
    #[arg(long)]
    pub isolated: bool,
    /// So many files at a time; as many as there are cores if not said
    #[arg(long, short, value_name = "N")]
    pub jobs: Option<std::num::NonZeroUsize>,
    /// When to use colour; NO_COLOR is honoured
    #[arg(long, value_enum, default_value_t)]
    pub color: Color,
}

/// When to use colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Color {
    /// On a terminal that has it
    #[default]
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

impl Color {
    /// Whether what goes to standard output is coloured.
    pub fn wanted(self) -> bool {
        match self {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => {
                anstream::AutoStream::choice(&std::io::stdout()) != anstream::ColorChoice::Never
            }
        }
    }
}

/// A target that the checker has the floors of.
pub fn target(text: &str) -> Result<Target, String> {
    let target: Target = text
        .parse()
        .map_err(|error: NotATarget| error.to_string())?;
    match target.since() {
        Some(_) => Ok(target),
        None => {
            let newest = Target::all().last().map(|target| target.to_string());
            Err(format!(
                "no toolkit knows this target; there are sm_10 to {}",
                newest.unwrap_or_default()
            ))
        }
    }
}

/// `8.0`
pub fn version(text: &str) -> Result<Version, String> {
    text.parse()
        .ok()
        .filter(|version| ptx::version::versions().any(|known| known == *version))
        .ok_or_else(|| {
            let newest = ptx::version::versions().last().unwrap_or_default();
            format!("no such version of PTX; there are 1.0 to {newest}, with gaps")
        })
}

impl Cli {
    /// Does what was asked; gives the exit status.
    pub fn run(&self) -> Result<u8, Failure> {
        let status = match &self.command {
            None => super::run(&self.check),
            Some(Command::Explain(args)) => explain::run(args),
            Some(Command::Rules(args)) => rules::run(args),
            Some(Command::Floors(args)) => floors::run(args),
            Some(Command::Cfg(args)) => cfg::run(args),
            Some(Command::Resources(args)) => resources::run(args),
        }?;
        all_said()?;
        Ok(status)
    }
}
