//! `ptxcheck report`: one page for a browser, with the PTX, its findings, and what the analyses
//! say of each kernel.
//!
//! The page holds its data once, as JSON; its script makes of it what is on the screen. It needs
//! nothing else: no network, no other file.

mod findings;
mod functions;
mod page;
mod registers;
mod text;

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use super::args::{CheckArgs, FILES, REST, target, version};
use super::config::Configs;
use super::inputs::{self, Input};
use super::parallel::parallel;
use super::progress::Progress;
use super::selection::Lists;
use super::statistics::Counts;
use super::verdict::Verdict;
use input::ShowName as _;
use lint::Code;
use ptx::ast::Version;
use ptx::isa::target::Target;
use terminal::failure::Failure;
use terminal::output::{eprint, print};

/// The arguments of `ptxcheck report`.
#[derive(Debug, clap::Args)]
pub struct ReportArgs {
    /// PTX files, fatbins, programs and libraries with PTX in them, or folders of
    /// these; `-` is standard input. The default is the current folder
    paths: Vec<PathBuf>,
    /// The file to write; `-` is standard output
    #[arg(long, short, value_name = "FILE", default_value = "report.html")]
    output: PathBuf,
    /// Check for this `.target` instead of that of the files
    #[arg(long, value_name = "TARGET", value_parser = target)]
    target: Option<Target>,
    /// Check for this `.version`, such as 8.0, instead of that of the files
    #[arg(long, value_name = "VERSION", value_parser = version)]
    ptx_version: Option<Version>,
    /// Also report what fails when each file is compiled as a whole program
    #[arg(long)]
    codegen: bool,
    /// The file name for standard input
    #[arg(long, value_name = "NAME", default_value = "<stdin>")]
    stdin_filename: PathBuf,
    /// Use this ptxcheck.toml. The default is the nearest one above each file, up to the
    /// top of the git repository
    #[arg(long, value_name = "FILE", conflicts_with = "isolated")]
    config: Option<PathBuf>,
    /// Ignore all ptxcheck.toml files
    #[arg(long)]
    isolated: bool,
    #[command(flatten)]
    lists: Lists,
    /// Skip files in folders that match this pattern: `vendor/**`
    #[arg(long, value_name = "GLOB", help_heading = FILES)]
    exclude: Vec<String>,
    /// Skip such files even where they are named
    #[arg(long, help_heading = FILES)]
    force_exclude: bool,
    /// Exit with 1 only if there are more warnings than this
    #[arg(long, value_name = "N", help_heading = REST)]
    max_warnings: Option<usize>,
    /// Show at most this number of errors and of findings of each rule for a module, and
    /// count the others; 0 shows all. The default is 20000
    #[arg(long, value_name = "N", help_heading = REST)]
    max_findings: Option<usize>,
    /// Exit with 0 even if there are findings
    #[arg(long, short = 'e', help_heading = REST)]
    exit_zero: bool,
    /// Do not say what was written
    #[arg(long, short, help_heading = REST)]
    quiet: bool,
    /// The number of threads; the default is the number of cores
    #[arg(long, short, value_name = "N", help_heading = REST)]
    jobs: Option<NonZeroUsize>,
}

impl ReportArgs {
    /// The same options of a check.
    fn of_check(&self) -> CheckArgs {
        CheckArgs {
            paths: self.paths.clone(),
            target: self.target,
            ptx_version: self.ptx_version,
            codegen: self.codegen,
            stdin_filename: self.stdin_filename.clone(),
            config: self.config.clone(),
            isolated: self.isolated,
            lists: self.lists.clone(),
            exclude: self.exclude.clone(),
            force_exclude: self.force_exclude,
            max_warnings: self.max_warnings,
            max_findings: self.max_findings,
            ..CheckArgs::default()
        }
    }
}

/// What a page says of one file.
#[derive(Default)]
struct Outcome {
    /// The data of each text, as JSON.
    texts: Vec<String>,
    counts: Counts,
    /// The codes of the findings.
    codes: BTreeSet<Code>,
    failures: Vec<Failure>,
}

/// Writes the page; returns the exit status.
///
/// # Errors
/// The options or a `ptxcheck.toml` are wrong, or the page cannot be written.
pub fn run(args: &ReportArgs) -> Result<u8, Failure> {
    let check = args.of_check();
    let mut configs = Configs::new(&check)?;
    let (files, mut failures) =
        inputs::collect(check.paths(), &check.stdin_filename, &mut configs)?;
    let progress = Progress::new(files.len(), !args.quiet);
    let outcomes = parallel(args.jobs, &files, |input| {
        let outcome = look(input);
        progress.one_more();
        outcome
    })?;
    progress.end();
    let (mut verdict, mut counts) = (Verdict::default(), Counts::default());
    let (mut texts, mut codes) = (Vec::new(), BTreeSet::new());
    for (input, outcome) in files.iter().zip(outcomes) {
        verdict.add(&input.settings, &outcome.counts);
        counts.merge(outcome.counts);
        texts.extend(outcome.texts);
        codes.extend(outcome.codes);
        failures.extend(outcome.failures);
    }
    if !files.is_empty() && texts.is_empty() && failures.is_empty() {
        failures.push(inputs::nowhere_ptx());
    }
    failures.iter().for_each(Failure::print);
    verdict.failed = !failures.is_empty();
    if verdict.failed && texts.is_empty() {
        // A page of an earlier run stays as it is.
        return Ok(verdict.status(false));
    }
    let title = match files.as_slice() {
        [one] => one.place.name(),
        many => format!("{} files", many.len()),
    };
    let page = page::write(&title, &texts, &codes, &failures);
    if args.output.as_os_str() == "-" {
        print(&page)
    } else {
        std::fs::write(&args.output, page).map_err(|error| {
            Failure::new(format!("{}: {error}", args.output.shown()))
                .help("--output names the page to write")
        })?;
        if !args.quiet {
            let found = counts.sum(0, &check);
            let found = match found.trim() {
                "" => "no findings",
                found => found,
            };
            eprint(&format!("{}: {found}\n", args.output.shown()));
        }
    }
    Ok(verdict.status(verdict.is_bad() && !args.exit_zero))
}

fn look(input: &Input) -> Outcome {
    let mut outcome = Outcome::default();
    let looked = inputs::each_text(input, |text| match text {
        Ok(text) => {
            let (data, found) = text::data(&text, input);
            outcome.texts.push(data);
            outcome.counts.add(&found, input.settings.unsafe_fixes);
            let codes = found.findings.iter().map(|finding| finding.code);
            outcome.codes.extend(codes);
        }
        Err(failure) => outcome.failures.push(failure),
    });
    outcome.failures.extend(looked.err());
    outcome
}
