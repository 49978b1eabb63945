//! The options of a check.

use std::path::PathBuf;
use std::sync::LazyLock;

use super::format::Format;
use super::selection::Lists;
use ptx::ast::Version;
use ptx::isa::target::{NotATarget, Target};

pub const FILES: &str = "File selection";
pub const REST: &str = "Miscellaneous";

/// The options of a check.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct CheckArgs {
    /// PTX files, fatbins, programs and libraries with PTX in them, or folders of
    /// these; `-` is standard input. The default is the current folder
    pub paths: Vec<PathBuf>,
    /// Apply the safe fixes, and report the remaining findings
    #[arg(long)]
    pub fix: bool,
    /// Print what --fix would change as a diff, and change nothing
    #[arg(long)]
    pub diff: bool,
    /// Apply, with --fix or --diff, also the fixes that may change what the code does
    #[arg(long)]
    pub unsafe_fixes: bool,
    /// Add a comment to each line with findings that suppresses them; errors stay
    #[arg(long, conflicts_with_all = ["fix", "diff", "watch"])]
    pub add_suppressions: bool,
    /// Check again whenever a file changes, until Ctrl-C
    #[arg(long, conflicts_with_all = ["fix", "diff", "statistics"])]
    pub watch: bool,
    /// The output format
    #[arg(
        long,
        visible_alias = "format",
        value_name = "FORMAT",
        value_enum,
        default_value_t
    )]
    pub output_format: Format,
    /// Print the number of findings of each code instead of the findings
    #[arg(long)]
    pub statistics: bool,
    /// Check for this `.target` instead of that of the files
    #[arg(long, value_name = "TARGET", value_parser = target)]
    pub target: Option<Target>,
    /// Check for this `.version`, such as 8.0, instead of that of the files
    #[arg(long, value_name = "VERSION", value_parser = version)]
    pub ptx_version: Option<Version>,
    /// Also report what fails when each file is compiled as a whole program: undefined
    /// functions, too much shared memory
    #[arg(long)]
    pub codegen: bool,
    /// The file name for standard input
    #[arg(long, value_name = "NAME", default_value = "<stdin>")]
    pub stdin_filename: PathBuf,
    /// Use this ptxcheck.toml. The default is the nearest one above each file, up to the
    /// top of the git repository
    #[arg(long, value_name = "FILE", conflicts_with = "isolated")]
    pub config: Option<PathBuf>,
    /// Ignore all ptxcheck.toml files
    #[arg(long)]
    pub isolated: bool,
    /// Print the files that would be checked, and check none
    #[arg(long)]
    pub show_files: bool,
    /// Print the settings of the first file as a ptxcheck.toml, and check none
    #[arg(long, conflicts_with = "show_files")]
    pub show_settings: bool,
    #[command(flatten)]
    pub lists: Lists,
    /// Skip files in folders that match this pattern: `vendor/**`
    #[arg(long, value_name = "GLOB", help_heading = FILES)]
    pub exclude: Vec<String>,
    /// Skip such files even where they are named, as pre-commit names them
    #[arg(long, help_heading = FILES)]
    pub force_exclude: bool,
    /// Exit with 1 only if there are more warnings than this
    #[arg(long, value_name = "N", help_heading = REST)]
    pub max_warnings: Option<usize>,
    /// Show at most this number of errors and of findings of each rule for a module, and
    /// count the others; 0 shows all. The default is 20000
    #[arg(long, value_name = "N", help_heading = REST)]
    pub max_findings: Option<usize>,
    /// Exit with 0 even if there are findings
    #[arg(long, short = 'e', help_heading = REST)]
    pub exit_zero: bool,
    /// Print the findings, and nothing else
    #[arg(long, short, help_heading = REST)]
    pub quiet: bool,
    /// The number of threads; the default is the number of cores
    #[arg(long, short, value_name = "N", help_heading = REST)]
    pub jobs: Option<std::num::NonZeroUsize>,
    /// When to use colour; NO_COLOR is honoured
    #[arg(long, value_enum, default_value_t, help_heading = REST)]
    pub color: Color,
}

impl CheckArgs {
    /// What to check; the current folder if nothing is named.
    pub fn paths(&self) -> &[PathBuf] {
        static HERE: LazyLock<[PathBuf; 1]> = LazyLock::new(|| [PathBuf::from(".")]);
        match self.paths.as_slice() {
            [] => &*HERE,
            paths => paths,
        }
    }
}

/// When to use colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Color {
    /// If standard output is a terminal that supports it
    #[default]
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

impl Color {
    /// Whether standard output is coloured.
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

/// A version such as `8.0` that exists.
pub fn version(text: &str) -> Result<Version, String> {
    text.parse()
        .ok()
        .filter(|version| ptx::version::versions().any(|known| known == *version))
        .ok_or_else(|| {
            let newest = ptx::version::versions().last().unwrap_or_default();
            format!("no such version of PTX; there are 1.0 to {newest}, with gaps")
        })
}
