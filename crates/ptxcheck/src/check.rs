//! Checks files and prints their findings.

use super::args::CheckArgs;
use super::config::Configs;
use super::fix::{self, Fixed};
use super::format::{Findings, Format};
use super::inputs::{self, Input, Text};
use super::parallel::parallel;
use super::progress::Progress;
use super::statistics::Counts;
use super::verdict::Verdict;
use super::{linter, shown, suppression};
use lint::Fix;
use ptx::diagnostic::LineIndex;
use terminal::diff;
use terminal::failure::Failure;
use terminal::output::{eprint, print};

/// The number of files that are checked before their findings are printed.
const BATCH: usize = 64;

/// Checks what the options name; returns the exit status: 0 no findings, 1 findings, 2 a file
/// cannot be read.
///
/// # Errors
/// The options or a `ptxcheck.toml` are wrong.
pub fn run(args: &CheckArgs) -> Result<u8, Failure> {
    let mut configs = Configs::new(args)?;
    let (inputs, failures) = inputs::collect(args.paths(), &args.stdin_filename, &mut configs)?;
    if args.show_files || args.show_settings {
        return Ok(shown::run(args, &inputs, &failures));
    }
    report(args, &inputs, &failures)
}

/// Has the allocator keep what is freed, of which the next function takes as much again. That of
/// glibc otherwise returns it to the system after each function, and has all of it mapped and
/// cleared anew; its threshold rises with the largest block that was freed.
fn keep_freed_memory() {
    const LARGEST: usize = 16 << 20;
    drop(std::hint::black_box(Vec::<u8>::with_capacity(LARGEST)));
}

/// Prints the findings of each file; returns the exit status.
fn report(args: &CheckArgs, inputs: &[Input], failures: &[Failure]) -> Result<u8, Failure> {
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
        let between = if self.args.diff {
            ""
        } else {
            self.args.output_format.between()
        };
        for written in outcome.written.iter().filter(|written| !written.is_empty()) {
            let before = if self.begun { between } else { "" };
            let text = format!("{before}{written}");
            if self.fixes_standard_input() {
                progress.aside(|| eprint(&text))
            } else {
                progress.aside(|| print(&text))
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
