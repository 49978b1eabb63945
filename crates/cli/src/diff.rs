//! `ptxkit diff`: the same launch twice, on two devices or of two versions of a kernel.

use std::collections::HashSet;
use std::path::PathBuf;

use input::ShowName as _;
use serde_json::{Value as Json, json};

use super::element::Element;
use super::expect::{Expected, Mismatch, Tolerance, Verdict};
use super::instrument::load::{self, Loaded};
use super::instrument::thread::{self, Float, Step, StepResult, ThreadIndex};
use super::instrument::writer::{self, Writer};
use super::launch::Placed;
use super::run::{self, LaunchArgs, Request};
use super::sample::{ArgKind, Outcome, Sample};
use ptxkit::driver::{DriverKind, Selection};
use ptxkit::ptx;
use terminal::failure::{Failure, MISMATCHES, VERIFIED};
use terminal::output::{Escaped, Format, json_line, print};

pub const AFTER_HELP: &str = "\
Without --against, the kernel runs on --device, which is a GPU then, and on the CPU device.

Exit status: 0 the results are equal, 1 they are not, 2 the kernel could not be run.";

/// The most steps of a thread that --bisect compares.
const MAX_STEPS: u64 = 1 << 20;

/// The arguments of `ptxkit diff`.
#[derive(Debug, clap::Args)]
pub struct DiffArgs {
    #[command(flatten)]
    launch: LaunchArgs,
    /// Another version of the PTX, which runs on the same device
    #[arg(long, value_name = "PTX")]
    against: Option<PathBuf>,
    /// Allow this difference; without a bound, a sample's own holds
    #[arg(long, value_name = "NUMBER")]
    absolute: Option<f64>,
    /// Allow this difference relative to the first result
    #[arg(long, value_name = "NUMBER")]
    relative: Option<f64>,
    /// Allow this difference in units in the last place
    #[arg(long, value_name = "NUMBER")]
    ulp: Option<f64>,
    /// Compare the bits of NaNs too; without it all NaNs are equal
    #[arg(long)]
    nan_bits: bool,
    /// Trace the thread that wrote the first difference, and find the first instruction whose
    /// results part
    #[arg(long)]
    bisect: bool,
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// One of the two launches.
struct Side {
    /// How it is called in messages.
    label: String,
    request: Request,
    device: Selection,
}

/// What is different in a buffer.
struct Difference {
    argument: usize,
    name: String,
    element: Element,
    count: u64,
    elements: usize,
    first: Vec<Differing>,
}

/// An element that differs, and both values as text.
struct Differing {
    index: usize,
    values: [String; 2],
}

/// Where the values of a thread part.
struct Parting {
    steps: [Json; 2],
    texts: [String; 2],
    /// The steps before it, which agree.
    equal: usize,
}

/// Runs both and prints what differs; returns the exit status.
///
/// # Errors
/// There is nothing to compare with, or one of both cannot be run.
pub fn run(args: &DiffArgs) -> Result<u8, Failure> {
    let sides = sides(args)?;
    let texts = [
        load::text_of(&sides[0].request)?,
        load::text_of(&sides[1].request)?,
    ];
    let mut outcomes = Vec::with_capacity(2);
    for (side, text) in sides.iter().zip(&texts) {
        let (name, sample) = (side.request.name(), &side.request.sample);
        let loaded = Loaded::new(&name, &sample.kernel, text, side.device)?;
        if args.against.is_none() && (loaded.kind == DriverKind::Cpu) != (side.label == CPU) {
            return Err(Failure::new("there is no GPU to compare with")
                .help("--against FILE compares two versions of the PTX on one device"));
        }
        let launched = loaded.launch(sample, |_| Ok(()))?;
        if let Some(error) = &launched.error {
            let failure = run::fault(&sample.kernel, error, loaded.kind);
            return Err(failure.help(format!("this is {}", side.label)));
        }
        outcomes.push(launched.outcome);
    }
    let differences = compare(&sides[0].request.sample, args, &outcomes[0], &outcomes[1]);
    let mut writers = [None, None];
    let mut parting = None;
    if let Some((argument, index, size)) = differences.iter().find_map(|one| {
        let first = one.first.first()?;
        Some((one.argument, first.index, one.element.size()))
    }) {
        for ((writer, side), text) in writers.iter_mut().zip(&sides).zip(&texts) {
            *writer = find_writer(side, text, argument, index * size)?;
        }
        if let (true, Some(writer)) = (args.bisect, writers[0].or(writers[1])) {
            parting = bisect(&sides, [&texts[0], &texts[1]], writer.index, args.nan_bits)?;
        }
    }
    match args.format {
        Format::Text => print(&text(&sides, args, &differences, writers, parting.as_ref())),
        Format::Json => print(&json_of(&sides, &differences, writers, parting.as_ref())),
    }
    Ok(if differences.iter().all(|one| one.count == 0) {
        VERIFIED
    } else {
        MISMATCHES
    })
}

const CPU: &str = "the CPU device";

fn sides(args: &DiffArgs) -> Result<[Side; 2], Failure> {
    let mut first = Request::read(&args.launch)?;
    let mut second = Request::read(&args.launch)?;
    for request in [&mut first, &mut second] {
        request.sample.launches = 1;
    }
    let side = |label: &str, request, device| Side {
        label: label.to_owned(),
        request,
        device,
    };
    let device = args.launch.device;
    Ok(match &args.against {
        None => [
            side("the GPU", first, device),
            side(CPU, second, Selection::Cpu),
        ],
        Some(other) => {
            first.bytes = input::read(other)
                .map_err(|error| Failure::new(format!("{}: {error}", other.shown())))?;
            first.sample.ptx.clone_from(other);
            let labels = [first.name(), second.name()];
            [
                side(&labels[0], first, device),
                side(&labels[1], second, device),
            ]
        }
    })
}

fn compare(sample: &Sample, args: &DiffArgs, a: &Outcome, b: &Outcome) -> Vec<Difference> {
    let given = args.absolute.or(args.relative).or(args.ulp).is_some();
    let mut found = Vec::new();
    for (argument, arg) in sample.args.iter().enumerate() {
        let ArgKind::Buffer(buffer) = &arg.kind else {
            continue;
        };
        let own = buffer.expected.as_ref().map(|expected| expected.tolerance);
        let tolerance = if given {
            Tolerance {
                absolute: args.absolute.unwrap_or(0.0),
                relative: args.relative.unwrap_or(0.0),
                ulp: args.ulp.unwrap_or(0.0),
                ..Tolerance::default()
            }
        } else {
            own.unwrap_or_default()
        };
        let tolerance = Tolerance {
            nan_bits: args.nan_bits,
            ..tolerance
        };
        let bytes = a.args[argument].clone();
        let size = buffer.element.size();
        let elements = bytes.len() / size;
        let mut verdict = Verdict::good();
        let expected = Expected { bytes, tolerance };
        verdict.compare(&arg.name, buffer.element, &expected, &b.args[argument]);
        found.push(Difference {
            argument,
            name: arg.name.clone(),
            element: buffer.element,
            count: verdict.mismatches,
            elements,
            first: verdict
                .first
                .iter()
                .map(|Mismatch { index, .. }| Differing {
                    index: *index,
                    values: [a, b].map(|side| {
                        let bytes = side.args[argument].get(index * size..).unwrap_or_default();
                        buffer.element.show_bits(bytes)
                    }),
                })
                .collect(),
        });
    }
    found
}

fn find_writer(
    side: &Side,
    text: &str,
    argument: usize,
    byte: usize,
) -> Result<Option<Writer>, Failure> {
    let name = side.request.name();
    let reading = ptx::read(text);
    let instrumented = writer::instrument(&reading.module, text);
    let instrumented = instrumented.ok_or_else(|| load::narrow(&name))?;
    let sample = &side.request.sample;
    let loaded = Loaded::new(&name, &sample.kernel, &instrumented.text, side.device)?;
    instrumented.find(&loaded, sample, argument, byte)
}

/// The first step of a thread whose results differ; `None` if there is none, or the two do not
/// execute instructions that can be compared.
fn bisect(
    sides: &[Side; 2],
    texts: [&str; 2],
    index: ThreadIndex,
    nan_bits: bool,
) -> Result<Option<Parting>, Failure> {
    let mut traced = Vec::with_capacity(2);
    for (side, text) in sides.iter().zip(texts) {
        let name = side.request.name();
        let reading = ptx::read(text);
        let instrumented = thread::instrument(&reading.module, text, index, &[]);
        let instrumented = instrumented.ok_or_else(|| load::narrow(&name))?;
        let sample = &side.request.sample;
        let loaded = Loaded::new(&name, &sample.kernel, &instrumented.text, side.device)?;
        let records = instrumented.follow(&loaded, sample, MAX_STEPS)?;
        traced.push((instrumented, records));
    }
    let [(one, a), (other, b)] = &traced[..] else {
        return Ok(None);
    };
    let steps = [one.steps(&a.words, false), other.steps(&b.words, false)];
    let mut equality = Equality::new(&a.placed, &b.placed, nan_bits);
    let pairs = steps[0].iter().zip(&steps[1]);
    for (equal, (a, b)) in pairs.enumerate() {
        if !equality.agree(a, b) {
            return Ok(Some(Parting {
                steps: [a.json(), b.json()],
                texts: [a.text(), b.text()],
                equal,
            }));
        }
    }
    Ok(None)
}

/// Which values of two launches mean the same although they differ.
struct Equality {
    /// How far the addresses of one launch are from those of the other.
    apart: HashSet<u64>,
    /// NaNs with different bits; `None` if these are compared. An instruction without a type of
    /// floats, such as `mov.b32`, copies them.
    nans: Option<HashSet<(u64, u64)>>,
}

impl Equality {
    fn new(a: &[Option<Placed>], b: &[Option<Placed>], nan_bits: bool) -> Equality {
        let pairs = a.iter().zip(b);
        let apart =
            pairs.filter_map(|(a, b)| Some(a.as_ref()?.address.wrapping_sub(b.as_ref()?.address)));
        Equality {
            apart: apart.collect(),
            nans: (!nan_bits).then(HashSet::new),
        }
    }

    /// Whether both steps have the same results.
    fn agree(&mut self, a: &Step<'_>, b: &Step<'_>) -> bool {
        if a.executed() != b.executed() || a.results().count() != b.results().count() {
            return false;
        }
        let mut results = a.results().zip(b.results());
        results.all(|(a, b)| {
            let apart = a.bits.wrapping_sub(b.bits);
            if a.is_address || b.is_address {
                self.apart.insert(apart);
            }
            a.bits == b.bits || (a.wide && self.apart.contains(&apart)) || self.are_nans(a, b)
        })
    }

    /// Whether both are NaNs, or copies of NaNs.
    fn are_nans(&mut self, a: StepResult, b: StepResult) -> bool {
        let Some(nans) = &mut self.nans else {
            return false;
        };
        let mut floats = a.floats().zip(b.floats()).peekable();
        let are_floats = floats.peek().is_some();
        let equal = |(a, b): (Float, Float)| a.bits == b.bits || (a.is_nan && b.is_nan);
        if are_floats && floats.all(equal) {
            nans.insert((a.bits, b.bits));
        }
        nans.contains(&(a.bits, b.bits))
    }
}

/// `block (0,0,0), thread (3,0,0)`
fn place(index: ThreadIndex) -> String {
    let show = |[x, y, z]: [u32; 3]| format!("({x},{y},{z})");
    format!("block {}, thread {}", show(index.block), show(index.thread))
}

fn text(
    sides: &[Side; 2],
    args: &DiffArgs,
    differences: &[Difference],
    writers: [Option<Writer>; 2],
    parting: Option<&Parting>,
) -> String {
    let [a, b] = sides
        .each_ref()
        .map(|side| Escaped::new(&*side.label).to_string());
    let mut lines = vec![format!("{a} and {b}")];
    for one in differences {
        let name = Escaped::new(&*one.name);
        lines.push(match one.count {
            0 => format!("{name}: {} elements agree", one.elements),
            count => format!("{name}: {count} of {} elements differ", one.elements),
        });
        for Differing { index, values } in &one.first {
            let [one, other] = values;
            lines.push(format!("  {name}[{index}]: {one} and {other}"));
        }
    }
    let mut all = differences.iter();
    if let Some((name, first)) = all.find_map(|one| Some((&*one.name, one.first.first()?))) {
        let by = writers
            .iter()
            .zip([&a, &b])
            .map(|(writer, label)| match writer {
                Some(writer) => format!("  {label}, line {}: {}", writer.line, place(writer.index)),
                None => format!("  {label}: no store that can be followed"),
            });
        lines.push(format!(
            "{}[{}] is written by",
            Escaped::new(name),
            first.index
        ));
        lines.extend(by);
    }
    match (parting, writers[0].or(writers[1])) {
        (Some(parting), Some(writer)) => {
            lines.push(format!(
                "{} agrees for {} instructions, then parts at",
                place(writer.index),
                parting.equal
            ));
            lines.extend(
                parting
                    .texts
                    .iter()
                    .map(|text| Escaped::new(text).to_string()),
            );
        }
        (None, Some(writer)) if args.bisect => lines.push(format!(
            "{} has equal results, or came to other instructions: what differs is read from others",
            place(writer.index)
        )),
        _ => {}
    }
    lines.join("\n") + "\n"
}

fn json_of(
    sides: &[Side; 2],
    differences: &[Difference],
    writers: [Option<Writer>; 2],
    parting: Option<&Parting>,
) -> String {
    let buffers: Vec<Json> = differences
        .iter()
        .map(|one| {
            let first: Vec<Json> = one
                .first
                .iter()
                .map(|m| {
                    json!({
                        "index": m.index,
                        "values": m.values,
                    })
                })
                .collect();
            json!({
                "name": one.name,
                "elements": one.elements,
                "differ": one.count,
                "first": first,
            })
        })
        .collect();
    let writers = writers.map(|writer| {
        writer.map(|writer| {
            json!({
                "line": writer.line,
                "block": writer.index.block,
                "thread": writer.index.thread,
            })
        })
    });
    json_line(&json!({
        "sides": sides.each_ref().map(|side| &side.label),
        "equal": differences.iter().all(|one| one.count == 0),
        "buffers": buffers,
        "writers": writers,
        "parting": parting.map(|parting| json!({
            "equal_steps": parting.equal,
            "steps": parting.steps,
        })),
    }))
}
