//! Measures how far results of functions are from the exact ones, on a GPU and on the CPU device.
//! `docs/accuracy.md` has what it found; `scripts/accuracy` runs it and writes that page.

mod bench;
mod compare;
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

use clap::{Parser, ValueEnum};
use ptxkit::driver::Selection;
use serde::{Deserialize, Serialize};

use bench::Bench;
use measure::{Limits, Measured, Side, measure};
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
    /// What to measure: on both, the exact results are computed once
    #[arg(long, value_delimiter = ',', default_value = "cpu")]
    devices: Vec<On>,
    /// Stop after this time
    #[arg(long, default_value_t = 1e9)]
    seconds: f64,
    /// How many of the 256 parts of all inputs of one `f32`; each part is spread over all of them
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=256))]
    parts: u32,
    /// How many million random inputs, where not all are tried
    #[arg(long, default_value_t = 100)]
    millions: u64,
    /// Only this function, or those whose name contains this; several are measured in the order given
    #[arg(long)]
    only: Vec<String>,
    /// The folder of the results, gpu.json and cpu.json. What they have is not measured again
    #[arg(long, short, default_value = ".")]
    output: PathBuf,
}

#[derive(Clone, Copy, ValueEnum)]
enum On {
    Gpu,
    Cpu,
}

/// What a file holds.
#[derive(Default, Serialize, Deserialize)]
struct Results {
    device: String,
    functions: Vec<Measured>,
}

/// A device and its file.
struct Target {
    bench: Bench,
    file: PathBuf,
    results: Results,
}

impl Target {
    fn new(on: On, args: &Args, library: Option<&[u8]>) -> Result<Target, Box<dyn Error>> {
        let (selection, file) = match on {
            On::Gpu => (Selection::Nvidia(None), "gpu.json"),
            On::Cpu => (Selection::Cpu, "cpu.json"),
        };
        let (bench, file) = (Bench::new(selection, library)?, args.output.join(file));
        let mut results: Results = match std::fs::read(&file) {
            Ok(text) => serde_json::from_slice(&text)?,
            Err(_) => Results::default(),
        };
        results.device = bench.name.clone();
        Ok(Target {
            bench,
            file,
            results,
        })
    }

    /// What the file has of a row.
    fn measured(&self, row: &Row) -> Measured {
        let mut known = self.results.functions.iter();
        let known = known.find(|known| known.name == row.title() && known.launches > 0);
        known.cloned().unwrap_or_else(|| Measured::new(row))
    }

    /// Writes the file, in the order of the table and without what that no longer has: after each
    /// row, so that an interrupted run goes on where it stopped.
    fn save(&mut self, measured: Measured, rows: &[Row]) -> Result<(), Box<dyn Error>> {
        let functions = &mut self.results.functions;
        functions.retain(|known| known.name != measured.name);
        functions.push(measured);
        let place = |of: &Measured| rows.iter().position(|row| row.title() == of.name);
        functions.retain(|of| place(of).is_some());
        functions.sort_by_key(place);
        std::fs::write(&self.file, serde_json::to_string_pretty(&self.results)?)?;
        Ok(())
    }
}

/// The rows of these names, in their order: a whole title names one row, another name all rows that
/// contain it.
fn chosen<'a>(rows: &'a [Row], names: &[String]) -> Vec<&'a Row> {
    if names.is_empty() {
        return rows.iter().collect();
    }
    let mut chosen = Vec::new();
    for name in names {
        let before = chosen.len();
        chosen.extend(rows.iter().filter(|row| row.title() == *name));
        if chosen.len() == before {
            chosen.extend(rows.iter().filter(|row| row.title().contains(name)));
        }
    }
    chosen
}

fn main() -> Result<(), Box<dyn Error>> {
    let args = Args::parse();
    let rows = functions::rows();
    if args.source {
        print!("{}", source::cuda(&rows));
        return Ok(());
    }
    let limits = Limits {
        parts: args.parts,
        millions: args.millions,
        end: Instant::now() + Duration::from_secs_f64(args.seconds),
    };
    let library = args.library.as_ref().map(std::fs::read).transpose()?;
    let targets = args.devices.iter();
    let targets = targets.map(|on| Target::new(*on, &args, library.as_deref()));
    let mut targets = targets.collect::<Result<Vec<_>, _>>()?;
    let wanted = |row: &&Row| {
        (library.is_some() || !row.is_library())
            && targets
                .iter()
                .any(|target| target.measured(row).launches < limits.launches(row))
    };
    let chosen = chosen(&rows, &args.only);
    let wanted: Vec<&Row> = chosen.into_iter().filter(wanted).collect();
    for (done, row) in wanted.iter().enumerate() {
        if Instant::now() >= limits.end {
            eprintln!("{} functions are left", wanted.len() - done);
            break;
        }
        let known = targets.iter().map(|target| target.measured(row));
        let mut measured: Vec<Measured> = known.collect();
        let sides = targets.iter_mut().zip(&mut measured);
        let mut sides: Vec<Side<'_>> = sides
            .map(|(target, measured)| Side {
                bench: &mut target.bench,
                measured,
            })
            .collect();
        measure(row, &mut sides, limits)?;
        for (target, measured) in targets.iter_mut().zip(measured) {
            println!("{} {measured}", target.bench.name);
            target.save(measured, &rows)?;
        }
    }
    Ok(())
}
