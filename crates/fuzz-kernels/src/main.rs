//! `fuzz-kernels`: see `--help`.

use std::collections::BTreeMap;
use std::fs;
use std::io::{IsTerminal, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::{Parser, ValueEnum};
use ptxkit_fuzz_kernels::generate::{Options, generate};
use ptxkit_fuzz_kernels::job::{Job, Outcome};
use ptxkit_fuzz_kernels::kernel::{Kernel, TOTALS_BYTES};
use ptxkit_fuzz_kernels::memory::{TOTALS_BYTE, input};
use ptxkit_fuzz_kernels::mode::Mode;
use ptxkit_fuzz_kernels::reduce::reduce;
use ptxkit_fuzz_kernels::runner::{
    Runner, describe, is_finding, is_nvidia_miscompilation, signature,
};
use ptxkit_fuzz_kernels::{child, print};

/// Prints a line. The campaign goes on where the output is closed.
macro_rules! say {
    ($($argument:tt)*) => {{
        let _ = writeln!(std::io::stdout(), $($argument)*);
    }};
}

/// Run random kernels in every mode, and compare the results bit by bit.
///
/// A kernel whose modes differ, or that fails in one of them, is reduced and written to --out.
/// Exit status: 0 if there is none, 1 if there is one, 2 if the program cannot run.
#[derive(Parser)]
#[command(name = "fuzz-kernels", version)]
struct Arguments {
    /// The seeds to run
    #[arg(long, value_name = "A..B", value_parser = seeds, conflicts_with_all = ["count", "from"])]
    seeds: Option<(u64, u64)>,
    /// The number of seeds
    #[arg(long, value_name = "N", default_value_t = 200)]
    count: u64,
    /// The first seed
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    from: u64,
    /// The modes to compare [default: those of the device, and reference]
    #[arg(long = "mode", value_name = "MODE", value_delimiter = ',')]
    modes: Vec<Mode>,
    /// The device
    #[arg(long, value_enum, default_value_t = DeviceKind::Cpu)]
    device: DeviceKind,
    /// Write the results of the first mode to a file, one seed a line
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Compare with the results of such a file too
    #[arg(long, value_name = "FILE")]
    compare: Option<PathBuf>,
    /// The folder for reduced kernels
    #[arg(long, value_name = "DIR", default_value = "fuzz-kernels-findings")]
    out: PathBuf,
    /// Kernels that run at a time [default: the number of cores]
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// Keep the bits of NaN results, which may differ between modes and devices
    #[arg(long)]
    nan_bits: bool,
    /// Do not reduce kernels
    #[arg(long)]
    no_reduce: bool,
    /// Print the PTX of the first seed, and end
    #[arg(long)]
    print: bool,
    #[arg(long, hide = true)]
    child: Option<Mode>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum DeviceKind {
    Cpu,
    Nvidia,
}

fn seeds(text: &str) -> Result<(u64, u64), String> {
    let wrong = || "expected two numbers, as in 100..200".to_owned();
    let (from, to) = text.split_once("..").ok_or_else(wrong)?;
    let (from, to) = (from.parse(), to.parse());
    match (from, to) {
        (Ok(from), Ok(to)) if from < to => Ok((from, to)),
        _ => Err(wrong()),
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Some(mode) = arguments.child {
        child::serve(mode);
        return ExitCode::SUCCESS;
    }
    match run(&arguments) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::from(1),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

/// The results of seeds on another machine.
type Recorded = BTreeMap<u64, Outcome>;

fn read_recorded(path: &Path) -> std::io::Result<Recorded> {
    let text = fs::read_to_string(path)?;
    let line = |line: &str| {
        let (seed, outcome) = line.split_once(' ')?;
        Some((seed.parse().ok()?, Outcome::parse(outcome)))
    };
    Ok(text.lines().filter_map(line).collect())
}

/// The command line with the progress of its workers.
struct Campaign<'a> {
    arguments: &'a Arguments,
    options: Options,
    modes: Vec<Mode>,
    next: AtomicU64,
    /// Kernels that NVIDIA's compiler miscompiles with optimization only.
    miscompiled: Mutex<Vec<u64>>,
    range: (u64, u64),
    recorded: Recorded,
    results: Mutex<Recorded>,
    findings: Mutex<Vec<u64>>,
    /// The time and the seed of the slowest kernels, the slowest first.
    slowest: Mutex<Vec<(Duration, u64)>>,
}

fn run(arguments: &Arguments) -> std::io::Result<usize> {
    let range = arguments
        .seeds
        .unwrap_or((arguments.from, arguments.from + arguments.count));
    let options = Options {
        nan_bits: arguments.nan_bits,
    };
    if arguments.print {
        print!("{}", generate(range.0, options).ptx());
        return Ok(0);
    }
    let modes = match (arguments.modes.is_empty(), arguments.device) {
        (false, _) => arguments.modes.clone(),
        (true, DeviceKind::Nvidia) => vec![
            Mode::Nvidia,
            Mode::NvidiaUnoptimized,
            Mode::Scalar,
            Mode::Reference,
        ],
        (true, DeviceKind::Cpu) => Mode::ALL
            .into_iter()
            .filter(|mode| !mode.is_nvidia())
            .collect(),
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let campaign = Campaign {
        arguments,
        options,
        modes,
        next: AtomicU64::new(range.0),
        miscompiled: Mutex::default(),
        range,
        recorded: match &arguments.compare {
            Some(path) => read_recorded(path)?,
            None => Recorded::new(),
        },
        results: Mutex::default(),
        findings: Mutex::default(),
        slowest: Mutex::default(),
    };
    let workers = arguments.jobs.unwrap_or(cores);
    std::thread::scope(|scope| {
        for _ in 0..workers.max(1) {
            scope.spawn(|| campaign.work());
        }
    });
    let results = lock(&campaign.results);
    if let Some(path) = &arguments.record {
        let lines: Vec<String> = results
            .iter()
            .map(|(seed, outcome)| format!("{seed} {outcome}\n"))
            .collect();
        fs::write(path, lines.concat())?;
    }
    let found = lock(&campaign.findings);
    let mut found = found.clone();
    found.sort_unstable();
    clear();
    say!(
        "{} kernels, {} with a difference",
        results.len(),
        found.len()
    );
    if !found.is_empty() {
        say!("seeds {}", listed(&found));
    }
    let mut miscompiled = lock(&campaign.miscompiled).clone();
    if !miscompiled.is_empty() {
        miscompiled.sort_unstable();
        say!(
            "{} miscompiled by NVIDIA's optimizer: seeds {}",
            miscompiled.len(),
            listed(&miscompiled)
        );
    }
    let slowest: Vec<String> = lock(&campaign.slowest)
        .iter()
        .map(|(time, seed)| format!("{seed} ({:.1} s)", time.as_secs_f64()))
        .collect();
    say!("slowest seeds: {}", slowest.join(", "));
    Ok(found.len())
}

fn listed(seeds: &[u64]) -> String {
    let seeds: Vec<String> = seeds.iter().map(u64::to_string).collect();
    seeds.join(" ")
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Clears the line of the progress.
fn clear() {
    if std::io::stderr().is_terminal() {
        eprint!("\r\x1b[K");
    }
}

impl Campaign<'_> {
    fn work(&self) {
        let mut runner = Runner::new(&self.modes);
        loop {
            let seed = self.next.fetch_add(1, Ordering::Relaxed);
            if seed >= self.range.1 {
                return;
            }
            let kernel = generate(seed, self.options);
            let start = Instant::now();
            let outcomes = runner.run(&kernel);
            self.record_time(start.elapsed(), seed);
            let Some((_, first)) = outcomes.first() else {
                return;
            };
            let recorded = self.recorded.get(&seed);
            let differs = recorded.is_some_and(|recorded| recorded != first);
            if is_nvidia_miscompilation(&outcomes) && !differs {
                lock(&self.miscompiled).push(seed);
            } else if is_finding(&outcomes) || differs {
                let mut text = describe(&outcomes);
                if let Some(recorded) = recorded.filter(|_| differs) {
                    text += &format!("; recorded: {recorded}");
                }
                clear();
                say!("seed {seed}: {text}");
                lock(&self.findings).push(seed);
                if let Err(error) = self.report(&mut runner, &kernel, &text) {
                    eprintln!("error: {}: {error}", self.arguments.out.display());
                }
            }
            let mut results = lock(&self.results);
            results.insert(seed, first.clone());
            if std::io::stderr().is_terminal() {
                let (done, all) = (results.len(), self.range.1 - self.range.0);
                eprint!(
                    "\r{done} of {all} kernels, {} with a difference\x1b[K",
                    lock(&self.findings).len()
                );
                let _ = std::io::stderr().flush();
            }
        }
    }

    fn record_time(&self, time: Duration, seed: u64) {
        let mut slowest = lock(&self.slowest);
        slowest.push((time, seed));
        slowest.sort_unstable_by(|a, b| b.cmp(a));
        slowest.truncate(8);
    }

    /// Reduces a kernel whose modes differ, and writes it.
    fn report(&self, runner: &mut Runner, kernel: &Kernel, text: &str) -> std::io::Result<()> {
        let out = &self.arguments.out;
        fs::create_dir_all(out)?;
        let outcomes = runner.run(kernel);
        // A difference from a recorded result alone is not reduced: the other machine is not here.
        let reduced = if is_finding(&outcomes) && !self.arguments.no_reduce {
            let wanted = signature(&outcomes);
            reduce(kernel, |smaller| signature(&runner.run(smaller)) == wanted)
        } else {
            kernel.clone()
        };
        let now = describe(&runner.run(&reduced));
        let path = out.join(format!("{}.ptx", kernel.seed));
        fs::write(out.join("input.bin"), input())?;
        fs::write(&path, document(&reduced, text, &now, self.arguments.device))?;
        clear();
        say!(
            "  reduced to {} lines: {}",
            reduced.ptx().lines().count(),
            path.display()
        );
        Ok(())
    }
}

/// The PTX below a comment that says how to reproduce the difference.
fn document(kernel: &Kernel, found: &str, now: &str, device: DeviceKind) -> String {
    let Job {
        ptx,
        grid,
        block: [x, y],
        parameters,
    } = Job::new(kernel);
    let parameters: Vec<String> = parameters
        .iter()
        .map(|value| format!("--arg u32:{value}"))
        .collect();
    let parameters = parameters.join(" ");
    let words = TOTALS_BYTES / 4;
    let total = u32::from_le_bytes([TOTALS_BYTE; 4]);
    let output = kernel.output_bytes() / 4;
    let (seed, name) = (kernel.seed, print::NAME);
    let launch = format!("{seed}.ptx --kernel {name} --grid {grid} --block {x},{y}");
    let command = match device {
        DeviceKind::Cpu => format!(
            "// for lanes in hot never always; do\n\
             //   PTXKIT_CPU_LANES=$lanes ptxkit run {launch} --device cpu \\\n\
             //     --arg in:u32:@input.bin --arg out:u32:{output}=zeros@$lanes.bin \\\n\
             //     --arg out:u32:{words}={total}@$lanes-totals.bin {parameters}\n\
             // done; cmp never.bin always.bin\n"
        ),
        DeviceKind::Nvidia => format!(
            "// ptxkit diff --bisect {launch} --device nvidia \\\n\
             //   --arg in:u32:@input.bin --arg buf:u32:{output}=zeros \\\n\
             //   --arg buf:u32:{words}={total} {parameters}\n"
        ),
    };
    format!("// Seed {seed} of fuzz-kernels: {found}\n// Reduced: {now}\n//\n{command}{ptx}")
}
