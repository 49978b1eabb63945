//! Measures how far results of functions are from the exact ones, on a GPU or on the CPU device.
//! `docs/accuracy.md` has what it found; `scripts/accuracy` runs it and writes that page.

mod doubles;
mod exact;
mod functions;
mod inputs;
mod measure;
mod row;
mod source;

use std::error::Error;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Parser;
use ptxkit::driver::{Context, Module, Selection, Stream, select};
use serde::{Deserialize, Serialize};

use measure::{Bench, Measured};
use row::Row;

/// Measures the accuracy of PTX instructions, and of the functions of CUDA's library.
#[derive(Parser)]
struct Args {
    /// Print the CUDA source of the library's functions, and end
    #[arg(long)]
    source: bool,
    /// The PTX that nvcc made of that source; without it only instructions are measured
    #[arg(long)]
    library: Option<PathBuf>,
    /// Stop after this time. Each function gets an equal part of what is left
    #[arg(long, default_value_t = 1e9)]
    seconds: f64,
    /// How many of the 256 parts of all inputs of one `f32`; each part is spread over all of them
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=256))]
    parts: u32,
    /// How many million random inputs, where not all are tried
    #[arg(long, default_value_t = 100)]
    millions: u64,
    /// Only functions whose name contains this
    #[arg(long, default_value = "")]
    only: String,
    /// The file of the results. What it has already is not measured again
    #[arg(long, short, default_value = "accuracy.json")]
    output: PathBuf,
}

/// What the file holds.
#[derive(Default, Serialize, Deserialize)]
struct Results {
    device: String,
    functions: Vec<Measured>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let args = Args::parse();
    let rows = functions::rows();
    if args.source {
        print!("{}", source::cuda(&rows));
        return Ok(());
    }
    let start = Instant::now();
    let selection: Selection = std::env::var("PTXKIT_DEVICE")
        .unwrap_or("auto".into())
        .parse()?;
    let device = select(selection)?.device;
    let context = Context::primary(&device)?;
    let stream = Stream::new(&context)?;
    let instructions = Module::load(&context, source::ptx(&rows).as_bytes())?;
    let library = match &args.library {
        Some(file) => Some(Module::load(&context, &std::fs::read(file)?)?),
        None => None,
    };
    let mut results: Results = match std::fs::read(&args.output) {
        Ok(text) => serde_json::from_slice(&text)?,
        Err(_) => Results::default(),
    };
    results.device = device.name()?;
    let mut bench = Bench::new(&context, &stream)?;
    let is_wanted = |row: &&Row| {
        row.name.contains(&args.only)
            && (library.is_some() || !row.is_library())
            && !results
                .functions
                .iter()
                .any(|done| done.name == row.title())
    };
    let wanted: Vec<&Row> = rows.iter().filter(is_wanted).collect();
    for (done, row) in wanted.iter().enumerate() {
        let left = args.seconds - start.elapsed().as_secs_f64();
        if left <= 0.0 {
            eprintln!("{} functions are left", wanted.len() - done);
            break;
        }
        let module = if row.is_library() {
            library.as_ref()
        } else {
            None
        };
        let kernel = module.unwrap_or(&instructions).kernel(&row.symbol())?;
        let share = Duration::from_secs_f64(left / (wanted.len() - done) as f64);
        let measured = bench.measure(row, &kernel, args.parts, args.millions, share)?;
        println!("{measured}");
        results.functions.push(measured);
        // In the order of the table, and without what it no longer has.
        let place = |of: &Measured| rows.iter().position(|row| row.title() == of.name);
        results.functions.retain(|of| place(of).is_some());
        results.functions.sort_by_key(place);
        // After each, so that an interrupted run goes on where it stopped.
        std::fs::write(&args.output, serde_json::to_string_pretty(&results)?)?;
    }
    Ok(())
}
