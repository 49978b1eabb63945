//! `ptxkit bench`: how long a kernel takes, and how near that is to what the device can do.

mod measure;
mod peak;
mod roofline;
mod work;

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use input::ShowName as _;
use serde_json::json;

use super::errors::of_driver;
use super::instrument::coverage;
use super::instrument::load::{self, Loaded};
use super::progress::Progress;
use super::run::{self, LaunchArgs, Request};
use super::sample::ArgKind;
use measure::{Spread, Timed};
use peak::Peaks;
use ptxkit::ptx;
use roofline::{Point, Roofs};
use terminal::failure::Failure;
use terminal::output::{Escaped, Format, Lines, json_line, print};
use work::Work;

pub const AFTER_HELP: &str = "\
Buffers are filled once: a kernel that changes what it reads gets its own results.

Exit status: 0 done, 2 the kernel could not be run.";

/// The arguments of `ptxkit bench`.
#[derive(Debug, clap::Args)]
pub struct BenchArgs {
    #[command(flatten)]
    launch: LaunchArgs,
    /// Another version of the PTX, or another sample (NAME.toml); samples of the two take turns
    #[arg(long, value_name = "FILE")]
    against: Option<PathBuf>,
    /// How many samples are taken
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(5..), default_value = "30")]
    samples: u32,
    /// Take no more samples after so many seconds
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..), default_value = "10")]
    seconds: u32,
    /// Bytes that a launch moves; the default is the size of its buffers
    #[arg(long, value_name = "BYTES", value_parser = super::quantity::size)]
    bytes: Option<u64>,
    /// Floating-point operations of a launch; the default is counted
    #[arg(long, value_name = "N")]
    operations: Option<u64>,
    /// The most GFLOP/s of the device, for the roofline; the default is calculated for GPUs
    #[arg(long, value_name = "GFLOPS")]
    peak: Option<f64>,
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// Write the roofline to this file, as SVG
    #[arg(long, value_name = "FILE")]
    roofline: Option<PathBuf>,
}

/// One version of the kernel.
struct Version {
    label: String,
    loaded: Loaded,
    /// Of its buffers.
    bytes: u64,
    work: Work,
}

/// Times the kernel and prints the report.
///
/// # Errors
/// The file is no PTX or has errors, or the kernel cannot be run.
pub fn run(args: &BenchArgs) -> Result<(), Failure> {
    // Opened before anything is measured: a path that cannot be written is known at once.
    let picture = args.roofline.as_deref().map(Picture::create).transpose()?;
    let mut requests = vec![Request::read(&args.launch)?];
    if let Some(other) = &args.against {
        requests.push(against(&args.launch, other)?);
    }
    let mut versions = Vec::with_capacity(2);
    for request in &mut requests {
        request.sample.launches = 1;
        versions.push(version(request, args)?);
    }
    let mut timed: Vec<Timed<'_>> = versions
        .iter()
        .zip(&requests)
        .map(|(version, request)| Timed::new(&version.loaded, &request.sample))
        .collect::<Result<_, _>>()?;
    let mut progress = Progress::new("timing");
    let limit = Duration::from_secs(args.seconds.into());
    let count = u64::from(args.samples);
    measure::measure(&mut timed, args.samples as usize, limit, |done| {
        progress.show(done as u64, count, &requests[0].sample.kernel);
    })?;
    drop(progress);
    let context = versions[0].loaded.context();
    let copy = measure::bandwidth(context).map_err(|error| of_driver(&error))?;
    let peaks = peak::of(context.device()).map_err(|error| of_driver(&error))?;
    let results: Vec<Measured<'_>> = versions
        .iter()
        .zip(&timed)
        .map(|(version, timed)| Measured {
            label: &version.label,
            kernel: version.loaded.kernel().name(),
            bytes: args.bytes.unwrap_or(version.bytes),
            work: version.work,
            operations: args.operations.unwrap_or(version.work.operations()),
            launches: timed.launches,
            samples: timed.samples.len(),
            seconds: Spread::of(timed.samples.iter().copied()),
        })
        .collect();
    let ratio = match &timed[..] {
        [one, other] => {
            let pairs = one.samples.iter().zip(&other.samples);
            Some(Spread::of(pairs.map(|(one, other)| one / other)))
        }
        _ => None,
    };
    let report = Report {
        device: &versions[0].loaded.device,
        copy,
        peaks,
        results,
        ratio,
    };
    match args.format {
        Format::Text => print(&report.text()),
        Format::Json => print(&report.json()),
    }
    let Some(picture) = picture else {
        return Ok(());
    };
    let points = report.points();
    if points.is_empty() {
        return Err(
            Failure::new("a roofline needs floating-point operations and bytes")
                .help("the kernel has none: give them with --operations and --bytes"),
        );
    }
    let most = || peaks?.of_most(&report.results[0].work);
    let given = args.peak.map(|peak| ("given", peak * 1e9));
    let roofs = Roofs {
        copy,
        bandwidth: peaks.and_then(|peaks| peaks.bytes_per_second),
        operations: given.or_else(most),
    };
    picture.write(&roofline::document(report.device, &points, &roofs))
}

/// The file of the roofline.
struct Picture<'a> {
    path: &'a Path,
    file: File,
}

impl<'a> Picture<'a> {
    fn create(path: &'a Path) -> Result<Picture<'a>, Failure> {
        // What it holds stays until there is a picture.
        let mut options = File::options();
        let opened = options.write(true).create(true).truncate(false).open(path);
        let file = opened.map_err(|error| of_path(path, &error))?;
        Ok(Picture { path, file })
    }

    fn write(mut self, text: &str) -> Result<(), Failure> {
        self.file
            .set_len(0)
            .and_then(|()| self.file.write_all(text.as_bytes()))
            .map_err(|error| of_path(self.path, &error))
    }
}

fn of_path(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(format!("{}: {error}", path.shown()))
}

/// The same launch of another version of the PTX, or the launch of another sample.
fn against(launch: &LaunchArgs, other: &Path) -> Result<Request, Failure> {
    if run::is_sample(other) {
        return Request::of_sample(other);
    }
    let mut request = Request::read(launch)?;
    request.bytes = input::read(other).map_err(|error| of_path(other, &error))?;
    request.sample.ptx = other.to_owned();
    Ok(request)
}

/// Loads a version, and counts what a launch of it does.
fn version(request: &Request, args: &BenchArgs) -> Result<Version, Failure> {
    let (name, sample) = (request.name(), &request.sample);
    let text = load::text_of(request)?;
    let reading = ptx::read(&text);
    let instrumented = coverage::instrument(&reading.module, &text);
    let instrumented = instrumented.ok_or_else(|| load::narrow(&name))?;
    let device = args.launch.device;
    let counting = Loaded::new(&name, &sample.kernel, &instrumented.text, device)?;
    let (counters, _) = instrumented.run(&counting, sample)?;
    let buffers = sample.args.iter().map(|arg| match &arg.kind {
        ArgKind::Buffer(buffer) => buffer.initial.len() as u64,
        _ => 0,
    });
    Ok(Version {
        bytes: buffers.sum(),
        work: Work::of(instrumented.executions(&counters)),
        loaded: Loaded::new(&name, &sample.kernel, &text, device)?,
        label: name,
    })
}

/// The times of a version.
struct Measured<'r> {
    label: &'r str,
    kernel: &'r str,
    /// That a launch moves.
    bytes: u64,
    work: Work,
    operations: u64,
    launches: u32,
    samples: usize,
    /// Of a launch.
    seconds: Spread,
}

impl Measured<'_> {
    fn rate(&self, count: u64) -> f64 {
        count as f64 / self.seconds.median
    }
}

struct Report<'r> {
    device: &'r str,
    /// Bytes a second of a copy.
    copy: f64,
    peaks: Option<Peaks>,
    results: Vec<Measured<'r>>,
    /// The times of the first version over those of the other.
    ratio: Option<Spread>,
}

impl Report<'_> {
    fn points(&self) -> Vec<Point> {
        let measured = self.results.iter().filter(|one| one.operations > 0);
        let measured = measured.filter(|one| one.bytes > 0);
        measured
            .map(|one| Point {
                label: one.label.to_owned(),
                intensity: one.operations as f64 / one.bytes as f64,
                rate: one.rate(one.operations),
            })
            .collect()
    }

    fn text(&self) -> String {
        let mut lines = Lines::default();
        let mut kernels: Vec<&str> = self.results.iter().map(|one| one.kernel).collect();
        kernels.dedup();
        lines.add(
            "kernel",
            format!("{} on {}", kernels.join(" and "), self.device),
        );
        for one in &self.results {
            if self.ratio.is_some() {
                lines.add("version", one.label);
            }
            let [low, high] = one.seconds.quartiles;
            lines.add(
                "time",
                format!(
                    "{}, half of the samples from {} to {}, the best {}",
                    time(one.seconds.median),
                    time(low),
                    time(high),
                    time(one.seconds.least)
                ),
            );
            lines.add(
                "samples",
                match one.launches {
                    1 => format!("{} of one launch", one.samples),
                    launches => format!("{} of {launches} launches", one.samples),
                },
            );
            let rate = one.rate(one.bytes);
            lines.add(
                "buffers",
                format!(
                    "{}: {:.2} GB/s if each byte is moved once, {:.0} % of a copy ({:.2} GB/s)",
                    size(one.bytes),
                    rate / 1e9,
                    100.0 * rate / self.copy,
                    self.copy / 1e9
                ),
            );
            lines.add(
                "threads",
                format!(
                    "load {} and store {} in global memory",
                    size(one.work.loaded),
                    size(one.work.stored)
                ),
            );
            let kinds = [
                ("f16", one.work.f16),
                ("f32", one.work.f32),
                ("f64", one.work.f64),
                ("matrix", one.work.matrix),
            ];
            let kinds = kinds.iter().filter(|(_, count)| *count > 0);
            let kinds: Vec<String> = kinds
                .map(|(kind, count)| format!("{count} {kind}"))
                .collect();
            let rate = one.rate(one.operations);
            let most = self.peaks.and_then(|peaks| peaks.of_most(&one.work));
            let part = most.map(|(kind, peak)| {
                format!(", {:.1} % of the peak of {kind}", 100.0 * rate / peak)
            });
            let rate = format!("{:.2} GFLOP/s{}", rate / 1e9, part.unwrap_or_default());
            lines.add(
                "flop",
                match (kinds.is_empty(), one.operations) {
                    (_, 0) => "none".to_owned(),
                    (true, count) => format!("{count}: {rate}"),
                    (false, _) => format!("{}: {rate}", kinds.join(", ")),
                },
            );
        }
        if let Some(peaks) = &self.peaks {
            lines.add("peaks", words(peaks));
        }
        if let (Some(ratio), [one, other]) = (&self.ratio, &self.results[..]) {
            let [low, high] = ratio.quartiles;
            lines.add(
                "ratio",
                format!(
                    "{:.3} ({} over {}), half of the pairs from {low:.3} to {high:.3}",
                    ratio.median, one.label, other.label
                ),
            );
        }
        lines.0
    }

    fn json(&self) -> String {
        let versions: Vec<_> = self
            .results
            .iter()
            .map(|one| {
                json!({
                    "ptx": Escaped::new(one.label).to_string(),
                    "kernel": one.kernel,
                    "buffer_bytes": one.bytes,
                    "seconds": one.seconds,
                    "samples": one.samples,
                    "launches": one.launches,
                    "work": one.work,
                    "operations": one.operations,
                })
            })
            .collect();
        json_line(&json!({
            "device": self.device,
            "copy_bytes_per_second": self.copy,
            "peaks": self.peaks,
            "versions": versions,
            "ratio": self.ratio,
        }))
    }
}

/// `3352.3 GB/s; 66.9 TFLOP/s f32, 33.5 TFLOP/s f64`
fn words(peaks: &Peaks) -> String {
    let bandwidth = peaks.bytes_per_second;
    let bandwidth = bandwidth.map(|bytes| format!("{:.1} GB/s", bytes / 1e9));
    let kinds = [
        ("f16", peaks.flops.f16),
        ("f32", peaks.flops.f32),
        ("f64", peaks.flops.f64),
        ("matrix", peaks.flops.matrix),
    ];
    let flops = kinds.into_iter().filter_map(|(kind, peak)| {
        let peak = peak? / 1e12;
        Some(format!("{peak:.1} TFLOP/s {kind}"))
    });
    let all: Vec<String> = bandwidth.into_iter().chain(flops).collect();
    if all.is_empty() {
        "not known".to_owned()
    } else {
        all.join(", ")
    }
}

fn time(seconds: f64) -> String {
    match seconds {
        _ if seconds < 1e-3 => format!("{:.2} us", seconds * 1e6),
        _ if seconds < 1.0 => format!("{:.3} ms", seconds * 1e3),
        _ => format!("{seconds:.3} s"),
    }
}

fn size(bytes: u64) -> String {
    match bytes {
        0..10_000 => format!("{bytes} bytes"),
        10_000..10_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        10_000_000..10_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    }
}
