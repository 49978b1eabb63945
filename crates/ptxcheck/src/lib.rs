//! `ptxcheck`: checks and lints PTX files.

#![forbid(unsafe_code)]

pub mod args;
mod cfg;
mod config;
mod demangle;
mod drawing;
mod explain;
mod fix;
mod floors;
mod format;
mod inputs;
mod linter;
mod origin;
mod progress;
mod report;
mod resources;
mod rules;
mod selection;
mod server;
mod shown;
mod statistics;
mod suppression;
mod verdict;
mod watch;

use std::num::NonZeroUsize;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use args::CheckArgs;
use config::Configs;
use fix::Fixed;
use format::{Findings, Format};
use inputs::{Input, Place, Text};
use lint::Fix;
use progress::Progress;
use ptx::diagnostic::{LineIndex, Report, nearest};
use ptx::{CheckOptions, Diagnostics, check_into, read_into};
use statistics::Counts;
use terminal::diff;
use terminal::failure::{Failure, listing};
use terminal::output::{eprint, print};
use verdict::Verdict;

/// The number of files that are checked before their findings are printed.
const BATCH: usize = 64;

/// Does what the options say; returns the exit status: 0 no findings, 1 findings, 2 a file cannot
/// be read.
///
/// # Errors
/// The options or a `ptxcheck.toml` are wrong.
pub fn run(args: &CheckArgs) -> Result<u8, Failure> {
    match args.watch {
        true => watch::run(args),
        false => once(args),
    }
}

fn once(args: &CheckArgs) -> Result<u8, Failure> {
    let mut configs = Configs::new(args)?;
    let (inputs, failures) = inputs::collect(args.paths(), &args.stdin_filename, &mut configs)?;
    if args.show_files || args.show_settings {
        return Ok(shown::run(args, &inputs, &failures));
    }
    check(args, &inputs, &failures)
}

/// Has the allocator keep what is freed, of which the next function takes as much again. That of
/// glibc otherwise returns it to the system after each function, and has all of it mapped and
/// cleared anew; its threshold rises with the largest block that was freed.
fn keep_freed_memory() {
    const LARGEST: usize = 16 << 20;
    drop(std::hint::black_box(Vec::<u8>::with_capacity(LARGEST)));
}

/// Prints the findings of each file; returns the exit status.
fn check(args: &CheckArgs, inputs: &[Input], failures: &[Failure]) -> Result<u8, Failure> {
    keep_freed_memory();
    let colour = args.color.wanted();
    let mut output = Output::new(args);
    let progress = Progress::new(inputs.len(), !args.quiet);
    for failure in failures {
        output.failed(failure, &progress);
    }
    for batch in inputs.chunks(BATCH) {
        let look = |input: &Input| {
            let outcome = look(input, args, colour);
            progress.one_more();
            outcome
        };
        let outcomes = parallel(args.jobs, batch, look)?;
        for (input, outcome) in batch.iter().zip(outcomes) {
            output.add(input, outcome, &progress);
        }
    }
    if !inputs.is_empty() && output.texts == 0 && !output.verdict.failed {
        output.failed(&inputs::nowhere_ptx(), &progress);
    }
    progress.end();
    Ok(output.end())
}

/// The outcome of each input, by so many threads; the default is the number of cores.
fn parallel<T: Default + Send + Sync>(
    threads: Option<NonZeroUsize>,
    inputs: &[Input],
    look: impl Fn(&Input) -> T + Sync,
) -> Result<Vec<T>, Failure> {
    // The system has to be asked how many cores there are.
    let cores = || std::thread::available_parallelism().ok();
    let threads = match inputs.len() {
        0 | 1 => 1,
        count => threads
            .or_else(cores)
            .map_or(1, NonZeroUsize::get)
            .min(count),
    };
    // Starting threads takes longer than checking one file.
    if threads <= 1 {
        return Ok(inputs.iter().map(look).collect());
    }
    let outcomes: Vec<_> = inputs.iter().map(|_| OnceLock::new()).collect();
    let next = AtomicUsize::new(0);
    let work = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let (Some(input), Some(outcome)) = (inputs.get(index), outcomes.get(index)) else {
                return;
            };
            outcome.get_or_init(|| look(input));
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            std::thread::Builder::new().spawn_scoped(scope, work)?;
        }
        Ok(())
    })
    .map_err(|error: std::io::Error| Failure::new(error).help("give fewer threads with --jobs"))?;
    let outcomes = outcomes.into_iter().map(OnceLock::into_inner);
    Ok(outcomes.map(Option::unwrap_or_default).collect())
}

/// The result of checking a file.
#[derive(Default)]
struct Outcome {
    /// The output for each text.
    written: Vec<String>,
    counts: Counts,
    /// The number of fixes that were made, or would be.
    fixes: usize,
    /// The number of findings that comments were added for.
    suppressed: usize,
    failures: Vec<Failure>,
    texts: usize,
}

fn look(input: &Input, args: &CheckArgs, colour: bool) -> Outcome {
    let mut outcome = Outcome::default();
    let looked = inputs::each_text(input, |text| match text {
        Ok(text) => {
            outcome.texts += 1;
            check_text(text, input, args, colour, &mut outcome);
        }
        Err(failure) => outcome.failures.push(failure),
    });
    outcome.failures.extend(looked.err());
    outcome
}

fn check_text(
    text: Text<'_>,
    input: &Input,
    args: &CheckArgs,
    colour: bool,
    outcome: &mut Outcome,
) {
    let path = input.place.path();
    let path_name = input.place.name();
    let lint = |source: &str| linter::lint(source, path, &input.settings);
    let mut found = lint(&text.source);
    let mut source = text.source;
    if args.add_suppressions && text.whole {
        let (commented, suppressed) = suppression::add(&source, &found.findings);
        match fix::write_back(&input.place, &source, &commented) {
            Ok(()) => outcome.suppressed += suppressed,
            Err(failure) => outcome.failures.push(failure),
        }
        found = lint(&commented);
        source = commented.into();
    }
    let unsafe_fixes = input.settings.unsafe_fixes;
    if (args.fix || args.diff) && text.whole {
        let Fixed {
            text: fixed,
            remaining,
            fixes,
        } = fix::apply_fixes(&source, found, unsafe_fixes, lint);
        if args.diff {
            outcome.fixes += fixes;
            outcome
                .written
                .push(diff::unified(&source, &fixed, &text.name, colour));
            return;
        }
        match fix::write_back(&input.place, &source, &fixed) {
            Ok(()) => outcome.fixes += fixes,
            Err(failure) => outcome.failures.push(failure),
        }
        (source, found) = (fixed.into(), remaining);
    }
    if !text.whole {
        // A part of a binary cannot be changed.
        let findings = found.findings.iter_mut();
        findings.for_each(|finding| finding.fix = None);
    }
    outcome.counts.add(&found, unsafe_fixes);
    for finding in &mut found.findings {
        let offered = |fix: &Fix| fix.safe || unsafe_fixes;
        finding.fix = finding.fix.take().filter(offered);
    }
    if !found.findings.is_empty() && !args.statistics {
        let lines = LineIndex::new(&source);
        let findings = Findings {
            file: path_name.as_str(),
            name: &text.name,
            lines: &lines,
            found: &found.findings,
            origins: &found.origins,
        };
        outcome
            .written
            .push(args.output_format.write(findings, colour));
    }
}

/// Prints the results and sums them up.
struct Output<'o> {
    args: &'o CheckArgs,
    /// Whether something was printed, so that the next output needs a separator.
    begun: bool,
    counts: Counts,
    fixes: usize,
    suppressed: usize,
    /// The number of texts that were checked.
    texts: usize,
    verdict: Verdict,
}

impl<'o> Output<'o> {
    fn new(args: &'o CheckArgs) -> Output<'o> {
        let output = Output {
            args,
            begun: false,
            counts: Counts::default(),
            fixes: 0,
            suppressed: 0,
            texts: 0,
            verdict: Verdict::default(),
        };
        if output.lists() {
            print(&args.output_format.head());
        }
        output
    }

    /// Whether findings are printed one by one.
    fn lists(&self) -> bool {
        !self.args.statistics && !self.args.diff && !self.fixes_standard_input()
    }

    /// Then the fixed text goes to standard output, and the findings to standard error.
    fn fixes_standard_input(&self) -> bool {
        let rewrites = self.args.fix || self.args.add_suppressions;
        rewrites && self.args.paths.iter().any(|path| path.as_os_str() == "-")
    }

    fn add(&mut self, input: &Input, outcome: Outcome, progress: &Progress) {
        let between = match self.args.diff {
            true => "",
            false => self.args.output_format.between(),
        };
        for written in outcome.written.iter().filter(|written| !written.is_empty()) {
            let before = if self.begun { between } else { "" };
            let text = format!("{before}{written}");
            match self.fixes_standard_input() {
                true => progress.aside(|| eprint(&text)),
                false => progress.aside(|| print(&text)),
            }
            self.begun = true;
        }
        for failure in &outcome.failures {
            self.failed(failure, progress);
        }
        self.verdict.add(&input.settings, &outcome.counts);
        self.counts.merge(outcome.counts);
        self.fixes += outcome.fixes;
        self.suppressed += outcome.suppressed;
        self.texts += outcome.texts;
    }

    fn failed(&mut self, failure: &Failure, progress: &Progress) {
        progress.aside(|| failure.print());
        self.verdict.failed = true;
    }

    /// Prints the end of the output; returns the exit status.
    fn end(self) -> u8 {
        let Output {
            args,
            counts,
            fixes,
            suppressed,
            ..
        } = &self;
        if self.lists() {
            print(&args.output_format.tail());
        } else if args.statistics {
            print(&counts.table(args.output_format));
        }
        if !args.quiet {
            if args.output_format == Format::Full
                && !args.statistics
                && !self.fixes_standard_input()
            {
                eprint(&counts.sum(*fixes, args));
            }
            if !args.statistics && !args.diff {
                eprint(&counts.note());
            }
            match suppressed {
                0 => {}
                1 => eprint("1 finding is suppressed by a new comment\n"),
                _ => eprint(&format!(
                    "{suppressed} findings are suppressed by new comments\n"
                )),
            }
        }
        let bad = self.verdict.is_bad() || (args.diff && *fixes > 0);
        self.verdict.status(bad && !args.exit_zero)
    }
}

/// The PTX texts in the one file of a subcommand; `None` where a text has errors, which are then
/// on standard error: `floors`, `resources` and `cfg` end with [`MISMATCHES`].
///
/// # Errors
/// It cannot be read, or holds no PTX.
fn texts_without_errors(path: &std::path::Path) -> Result<Option<Vec<Text<'static>>>, Failure> {
    let texts = texts_of(path)?;
    let mut sound = true;
    for Text { name, source, .. } in &texts {
        let mut report = Report::default();
        let module = read_into(source, &mut report);
        check_into(&module, source, &CheckOptions::default(), &mut report);
        let omitted: usize = report.omitted().map(|(_, count)| count).sum();
        let errors = report.into_vec();
        if errors.is_empty() {
            continue;
        }
        sound = false;
        eprint(&format!("{}\n", Diagnostics::new(source, name, errors)));
        if omitted > 0 {
            eprint(&format!("and {omitted} more\n"));
        }
    }
    Ok(sound.then_some(texts))
}

fn texts_of(path: &std::path::Path) -> Result<Vec<Text<'static>>, Failure> {
    let args = CheckArgs {
        isolated: true,
        ..CheckArgs::default()
    };
    let settings = Configs::new(&args)?.of_folder(path)?;
    let place = Place::new(path, std::path::Path::new("<stdin>"));
    let input = Input {
        place,
        found: false,
        settings,
    };
    let (mut texts, mut damaged) = (Vec::new(), None);
    inputs::each_text(&input, |text| match text {
        Ok(Text {
            name,
            source,
            whole,
        }) => texts.push(Text {
            name,
            source: source.into_owned().into(),
            whole,
        }),
        Err(failure) => {
            damaged.get_or_insert(failure);
        }
    })?;
    match damaged {
        Some(failure) if texts.is_empty() => Err(failure),
        _ => Ok(texts),
    }
}

/// The error for a kernel that a file does not have.
fn no_kernel(name: &str, all: &[String], file: &std::path::Path) -> Failure {
    let failure = Failure::new(format!("{} has no kernel `{name}`", file.display()));
    match nearest(name, all.iter().map(String::as_str)) {
        Some(near) => failure.help(format!("did you mean `{near}`?")),
        None if all.is_empty() => failure.help("it has no kernels"),
        None => failure.help(format!(
            "it has {}",
            listing(all.iter().map(String::as_str))
        )),
    }
}
