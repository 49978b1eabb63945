//! Counts how often each conditional branch of a kernel is taken, of PTX that a compiler made:
//! the module is read, counters are added at its branches, and the result is launched.
//!
//! `cargo run --features build --example count_branches [auto|nvidia|nvidia:N|cpu]`

use std::error::Error;

use ptxkit::build::edit::Edit;
use ptxkit::driver::{Context, Device, DeviceBuffer, LaunchConfig, Module, Stream, select};
use ptxkit::ptx::diagnostic::LineIndex;
use ptxkit::ptx::names::Opcode;

/// What nvcc makes, but for a lower `.version`, of
///
/// ```cuda
/// extern "C" __global__ void steps(const unsigned *from, unsigned *count, unsigned n) {
///     unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
///     if (i >= n) return;
///     unsigned x = from[i], steps = 0;
///     while (x > 1) { x = x & 1 ? 3 * x + 1 : x / 2; ++steps; }
///     count[i] = steps;
/// }
/// ```
const PTX: &str = include_str!("collatz.ptx");

const THREADS: u32 = 128;

/// A branch of the kernel: its text, its line, and how many threads reached and took it.
struct Branch {
    text: String,
    line: u32,
    reached: u64,
    taken: u64,
}

/// The module with two counters for each branch that has a guard, and those branches.
fn instrumented() -> Result<(String, Vec<Branch>), Box<dyn Error>> {
    let mut edit = Edit::new("collatz.ptx", PTX)?;
    let lines = LineIndex::new(PTX);
    let is_conditional = |site: &ptxkit::build::edit::Site<'_>| {
        site.opcode == Opcode::Bra && site.predicate.is_some()
    };
    let sites: Vec<_> = edit
        .instructions()
        .into_iter()
        .filter(is_conditional)
        .collect();
    let counts = edit
        .declarations()
        .global_zeroed::<u64>("branch_counts", 2 * sites.len());
    for (site, index) in sites.iter().zip(0..) {
        edit.before(site, |k| {
            let reached = k.variable(&counts).at(2 * index);
            reached.reduce_add(1);
            if let Some(taken) = site.guard(k) {
                k.if_(taken, || reached.at(1).reduce_add(1));
            }
        });
    }
    let branches = sites.iter().map(|site| Branch {
        text: site.text.replace('\t', ""),
        line: lines.locate(site.span.start).line,
        reached: 0,
        taken: 0,
    });
    Ok((edit.finish()?.ptx.text().to_owned(), branches.collect()))
}

/// The steps of each number, and the branches with their counts.
fn profile(device: &Device, from: &[u32]) -> Result<(Vec<u32>, Vec<Branch>), Box<dyn Error>> {
    let (text, mut branches) = instrumented()?;
    let context = Context::primary(device)?;
    let stream = Stream::new(&context)?;
    let module = Module::load(&context, text.as_bytes())?;
    let kernel = module.kernel("steps")?;
    // One more thread than there are numbers, at least.
    let n = from.len() as u32;
    let config = LaunchConfig::for_elements(n + 1, THREADS);
    let from = DeviceBuffer::from_slice(&context, from)?;
    let mut steps = DeviceBuffer::<u32>::zeroed(&context, from.len())?;
    // SAFETY: `steps(from, count, n)` accesses n numbers of each; what was added, its counters.
    unsafe { kernel.launch(config, &stream, (&from, &mut steps, n)) }?;
    stream.synchronize()?;
    let counts: Vec<u64> = module.global("branch_counts")?.read(2 * branches.len())?;
    for (branch, counts) in branches.iter_mut().zip(counts.chunks_exact(2)) {
        (branch.reached, branch.taken) = (counts[0], counts[1]);
    }
    Ok((steps.to_vec()?, branches))
}

/// What the host counts: the steps of each number, and how many threads reach and take the
/// branches for threads without a number, for numbers below 2, and back to the loop's start.
fn truth(from: &[u32]) -> (Vec<u32>, [(u64, u64); 3]) {
    let steps = from.iter().map(|&number| {
        let (mut x, mut steps) = (number, 0);
        while x > 1 {
            x = if x % 2 == 1 { 3 * x + 1 } else { x / 2 };
            steps += 1;
        }
        steps
    });
    let steps: Vec<u32> = steps.collect();
    let numbers = from.len() as u64;
    let threads = (numbers + 1).next_multiple_of(THREADS.into());
    let small = from.iter().filter(|number| **number < 2).count() as u64;
    let all: u64 = steps.iter().map(|steps| u64::from(*steps)).sum();
    let branches = [
        (threads, threads - numbers),
        (numbers, small),
        (all, all - (numbers - small)),
    ];
    (steps, branches)
}

pub fn run(device: Device) -> Result<(), Box<dyn Error>> {
    let from: Vec<u32> = (0..1000).collect();
    let (steps, branches) = profile(&device, &from)?;
    println!("{}:", device.name()?);
    println!("line  branch                   reached     taken");
    for Branch {
        text,
        line,
        reached,
        taken,
    } in &branches
    {
        println!("{line:>4}  {text:<20} {reached:>11} {taken:>9}");
    }
    let counts: Vec<_> = branches
        .iter()
        .map(|branch| (branch.reached, branch.taken))
        .collect();
    let (expected_steps, expected) = truth(&from);
    if steps != expected_steps || counts != expected {
        return Err(format!("the host counts {expected:?}").into());
    }
    println!("as the host counts");
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let word = std::env::args().nth(1).unwrap_or("auto".into());
    run(select(word.parse()?)?.device)
}
