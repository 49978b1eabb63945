//! `ptxkit trace`: what a thread of a kernel executes, which lines all of its threads do, or what
//! the checks of the CPU device find.
//!
//! For the first two the PTX is rewritten so that it records, and launched as `ptxkit run` launches
//! it. So they work on any device, and nothing is asked of the device's compiler.

mod check;
mod show;

use std::path::{Path, PathBuf};

use super::instrument::coverage;
use super::instrument::load::{self, Loaded};
use super::instrument::thread::{self, LineRange, ThreadIndex};
use super::run::{self, LaunchArgs, Request};
use check::CheckArgs;
use input::ShowName as _;
use ptxkit::ptx;
use show::Coverage;
use terminal::failure::{Failure, MISMATCHES, VERIFIED};
use terminal::output::{Escaped, eprint, json_line, print};

pub const AFTER_HELP: &str = "\
A fault of the kernel ends the trace at the instruction that caused it, on the CPU device.

Exit status: 0 done, 1 --race, --memcheck or --initcheck found something, 2 the kernel could not \
be run, or failed.";

/// The arguments of `ptxkit trace`.
#[derive(Debug, clap::Args)]
pub struct TraceArgs {
    #[command(flatten)]
    launch: LaunchArgs,
    /// The thread to follow, by its index in its block
    #[arg(long, value_name = "X[,Y,Z]", value_parser = index, default_value = "0")]
    thread: [u32; 3],
    /// The block of that thread
    #[arg(long, value_name = "X[,Y,Z]", value_parser = index, default_value = "0")]
    thread_block: [u32; 3],
    /// Only these lines of the file, as 12 or 12-30; may be repeated
    #[arg(long, value_name = "LINES", value_parser = LineRange::parse)]
    lines: Vec<LineRange>,
    /// Only instructions that read or write this register; may be repeated
    #[arg(long, value_name = "NAME")]
    register: Vec<String>,
    /// Stop recording after so many instructions
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), default_value = "10000")]
    limit: u64,
    /// Count how often each line is executed and by how many threads, instead
    #[arg(long, conflicts_with_all = ["thread", "thread_block", "lines", "register", "limit"])]
    coverage: bool,
    #[command(flatten)]
    checks: CheckArgs,
    /// The format; the default follows from the name of --output
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// The file to write, instead of standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    Text,
    Json,
    /// A page with the annotated PTX (--coverage)
    Html,
    /// The tracefile of lcov (--coverage)
    Lcov,
}

/// One to three numbers from 0.
fn index(text: &str) -> Result<[u32; 3], String> {
    let wrong = || "one to three numbers are expected, as 16 or 16,3,0".to_owned();
    let mut found = [0; 3];
    for (axis, word) in text.split(',').enumerate() {
        *found.get_mut(axis).ok_or_else(wrong)? = word.trim().parse().map_err(|_| wrong())?;
    }
    Ok(found)
}

/// Runs the kernel and prints what it executed, or what was found; returns the exit status.
///
/// # Errors
/// The file is no PTX or has errors, there is no such thread, or the kernel cannot be run.
pub fn run(args: &TraceArgs) -> Result<u8, Failure> {
    let format = format(args)?;
    let mut request = Request::read(&args.launch)?;
    // Repeated launches would count twice what one does.
    request.sample.launches = 1;
    if args.checks.any() {
        return checked(&request, args, format);
    }
    record(&request, args, format).map(|()| VERIFIED)
}

fn checked(request: &Request, args: &TraceArgs, format: Format) -> Result<u8, Failure> {
    let source = load::text_of(request)?;
    let checked = check::check(request, &source, args.checks, args.launch.device)?;
    let text = match format {
        Format::Json => checked.json(),
        _ => checked.text(),
    };
    write(args.output.as_deref(), &text)?;
    Ok(if checked.has_findings() {
        MISMATCHES
    } else {
        VERIFIED
    })
}

fn record(request: &Request, args: &TraceArgs, format: Format) -> Result<(), Failure> {
    let name = request.name();
    let source = load::text_of(request)?;
    let source = &*source;
    let reading = ptx::read(source);
    let narrow = || load::narrow(&name);
    if args.coverage {
        let instrumented = coverage::instrument(&reading.module, source).ok_or_else(narrow)?;
        let found = cover(request, args, source, &instrumented)?;
        let text = match format {
            Format::Text => found.text(),
            Format::Json => json_line(&found.functions),
            Format::Html => found.html(),
            Format::Lcov => found.lcov(),
        };
        return write(args.output.as_deref(), &text);
    }
    let thread = ThreadIndex {
        block: args.thread_block,
        thread: args.thread,
    };
    let sample = &request.sample;
    for (what, index, extent) in [
        ("--thread-block", thread.block, sample.grid),
        ("--thread", thread.thread, sample.block),
    ] {
        if (0..3).any(|axis| index[axis] >= extent[axis]) {
            return Err(
                Failure::new(format!("{what} {} is outside of the launch", joined(index))).help(
                    format!(
                        "the grid has {} blocks of {} threads",
                        joined(sample.grid),
                        joined(sample.block)
                    ),
                ),
            );
        }
    }
    let instrumented = thread::instrument(&reading.module, source, thread, &args.lines);
    let instrumented = instrumented.ok_or_else(narrow)?;
    if instrumented.is_empty() && !args.lines.is_empty() {
        return Err(Failure::new("none of these lines has an instruction")
            .help("--lines takes lines of the PTX file, as 12 or 12-30"));
    }
    for register in &args.register {
        if !instrumented.has_register(register) {
            return Err(Failure::new(format!(
                "no instruction to be shown has a register `{register}`"
            ))
            .help("write it as the PTX does, as %r1; 64 bits are the most that is shown"));
        }
    }
    let loaded = Loaded::new(
        &name,
        &sample.kernel,
        &instrumented.text,
        args.launch.device,
    )?;
    let traced = instrumented.follow(&loaded, sample, args.limit)?;
    let mut steps = instrumented.steps(&traced.words, traced.error.is_some());
    let limit = usize::try_from(args.limit).unwrap_or(usize::MAX);
    let more = steps.len() > limit;
    steps.truncate(limit);
    let steps = steps.iter().filter(|step| step.concerns(&args.register));
    let text = match format {
        Format::Json => {
            let steps: Vec<_> = steps.map(thread::Step::json).collect();
            json_line(&steps)
        }
        _ => {
            let place = format!(
                "{name}, {}: block ({}), thread ({})",
                sample.kernel,
                joined(thread.block),
                joined(thread.thread)
            );
            let mut text = format!("{}\n", Escaped::new(&place));
            for step in steps {
                text += &Escaped::new(step.text()).to_string();
                text.push('\n');
            }
            text
        }
    };
    write(args.output.as_deref(), &text)?;
    if more {
        eprint("note: the trace ends here, --limit N sets how long it gets\n");
    }
    match traced.error {
        Some(error) => Err(run::fault(&sample.kernel, &error, loaded.kind)),
        None => Ok(()),
    }
}

fn joined([x, y, z]: [u32; 3]) -> String {
    format!("{x},{y},{z}")
}

fn write(output: Option<&Path>, text: &str) -> Result<(), Failure> {
    match output {
        None => print(text),
        Some(path) => std::fs::write(path, text)
            .map_err(|error| Failure::new(format!("{}: {error}", path.shown())))?,
    }
    Ok(())
}

fn format(args: &TraceArgs) -> Result<Format, Failure> {
    let extension = args.output.as_deref().and_then(Path::extension);
    let extension = extension.map(|extension| extension.to_string_lossy().to_ascii_lowercase());
    let format = match (args.format, extension.as_deref()) {
        (Some(format), _) => format,
        (None, None | Some("txt")) => Format::Text,
        (None, Some("json")) => Format::Json,
        (None, Some("html")) => Format::Html,
        (None, Some("lcov" | "info")) => Format::Lcov,
        (None, Some(other)) => {
            return Err(Failure::new(format!("no format is named .{other}"))
                .help("name it .txt, .json, .html or .lcov, or give --format"));
        }
    };
    if !args.coverage && matches!(format, Format::Html | Format::Lcov) {
        return Err(Failure::new("what is traced or found is text or JSON")
            .help("--coverage writes pages, and tracefiles of lcov"));
    }
    Ok(format)
}

fn cover<'s>(
    request: &Request,
    args: &TraceArgs,
    source: &'s str,
    instrumented: &coverage::Instrumented,
) -> Result<Coverage<'s>, Failure> {
    let sample = &request.sample;
    let mut coverage = Coverage {
        file: request.name(),
        source,
        kernel: sample.kernel.clone(),
        grid: sample.grid,
        block: sample.block,
        functions: Vec::new(),
    };
    let name = request.name();
    let loaded = Loaded::new(
        &name,
        &sample.kernel,
        &instrumented.text,
        args.launch.device,
    )?;
    let (counters, masks) = instrumented.run(&loaded, sample)?;
    coverage.functions = instrumented.counts(&counters, &masks, coverage.block_threads());
    Ok(coverage)
}
