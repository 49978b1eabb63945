//! Runs a kernel over inputs, and compares.

use std::fmt;
use std::thread;
use std::time::{Duration, Instant};

use ptxkit::driver::{self, Context, DeviceBuffer, Kernel, LaunchConfig, PinnedBuffer, Stream};
use serde::{Deserialize, Serialize};

use crate::inputs::Random;
use crate::row::{Error, Reference, Row};
use crate::source;

/// Inputs of a launch that makes them: a part of 256 of all `f32`.
const PART: usize = 1 << 24;
/// Inputs of a launch that reads them.
const BATCH: usize = 1 << 22;
const BLOCK: u32 = 256;

/// What was found for a row.
#[derive(Serialize, Deserialize)]
pub struct Measured {
    pub name: String,
    pub library: bool,
    pub double: bool,
    pub inputs: usize,
    /// `ulp`, `beyond`, `absolute` or `relative`.
    pub error: String,
    /// In ULP, or the exponent of 2.
    pub bound: Option<f64>,
    pub tested: u64,
    /// Whether these are all inputs that there are.
    pub all: bool,
    /// The largest error, in the unit of `error`.
    pub worst: f64,
    /// How many results are not the exact one, rounded to nearest.
    pub differ: u64,
    /// How many are NaN where the exact one is not, or the other way round.
    pub wrong_nan: u64,
    /// The bits of the inputs with the largest error, then those of the result and of the exact one.
    pub at: Vec<String>,
    pub nan_at: Vec<String>,
    pub seconds: f64,
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let worst = match self.error.as_str() {
            "absolute" | "relative" => format!("2^{:.2} {}", self.worst.log2(), self.error),
            _ => format!("{} {}", self.worst, self.error),
        };
        write!(
            f,
            "{:<28} {worst:<18} of {:?}  {} tested, {} not nearest, {} NaN, {:.1} s, at {:?} {:?}",
            self.name,
            self.bound,
            self.tested,
            self.differ,
            self.wrong_nan,
            self.seconds,
            self.at,
            self.nan_at
        )
    }
}

/// A type of inputs and results.
trait Real: driver::Pod + Copy + Send + Sync + Default {
    /// The least normal number.
    const LEAST: f64;
    fn random(random: &mut Random) -> Self;
    fn bits(self) -> u64;
    fn value(self) -> f64;
    /// Whole numbers in the order of the values, one for each; both zeros are 0.
    fn place(self) -> i128;
    fn exact(reference: Reference, inputs: [Self; 3]) -> Exact<Self>;
}

/// The exact result: rounded to the type, or as an `f64`.
enum Exact<T> {
    Rounded(T),
    Wide(f64),
}

impl Real for f32 {
    const LEAST: f64 = f32::MIN_POSITIVE as f64;
    fn random(random: &mut Random) -> f32 {
        random.f32()
    }
    fn bits(self) -> u64 {
        self.to_bits().into()
    }
    fn value(self) -> f64 {
        self.into()
    }
    fn place(self) -> i128 {
        let magnitude = i128::from(self.to_bits() & 0x7fff_ffff);
        if self.is_sign_negative() {
            -magnitude
        } else {
            magnitude
        }
    }
    fn exact(reference: Reference, [a, b, c]: [f32; 3]) -> Exact<f32> {
        match reference {
            Reference::F1(f) => Exact::Rounded(f(a)),
            Reference::F2(f) => Exact::Rounded(f(a, b)),
            Reference::F3(f) => Exact::Rounded(f(a, b, c)),
            Reference::Wide(f) => Exact::Wide(f(a.into())),
            _ => unreachable!("the row is of `f64`"),
        }
    }
}

impl Real for f64 {
    const LEAST: f64 = f64::MIN_POSITIVE;
    fn random(random: &mut Random) -> f64 {
        random.f64()
    }
    fn bits(self) -> u64 {
        self.to_bits()
    }
    fn value(self) -> f64 {
        self
    }
    fn place(self) -> i128 {
        let magnitude = i128::from(self.to_bits() & (u64::MAX >> 1));
        if self.is_sign_negative() {
            -magnitude
        } else {
            magnitude
        }
    }
    fn exact(reference: Reference, [a, b, c]: [f64; 3]) -> Exact<f64> {
        Exact::Rounded(match reference {
            Reference::D1(f) => f(a),
            Reference::D2(f) => f(a, b),
            Reference::D3(f) => f(a, b, c),
            _ => unreachable!("the row is of `f32`"),
        })
    }
}

/// What was found so far.
#[derive(Default)]
struct Found {
    tested: u64,
    worst: f64,
    differ: u64,
    wrong_nan: u64,
    at: Vec<String>,
    nan_at: Vec<String>,
}

impl Found {
    fn compare<T: Real>(&mut self, row: &Row, inputs: [T; 3], result: T) {
        if !(row.domain)(inputs[0].value(), inputs[1].value()) {
            return;
        }
        self.tested += 1;
        let exact = T::exact(row.reference, inputs);
        let (value, places) = match exact {
            Exact::Rounded(exact) => (exact.value(), (exact.place() - result.place()).abs() as f64),
            Exact::Wide(exact) => (exact, 0.0),
        };
        let found = result.value();
        if value.is_nan() && found.is_nan() || value == found {
            return;
        }
        self.differ += u64::from(matches!(row.error, Error::Ulp | Error::UlpBeyond(_)));
        let described = || {
            let inputs = inputs[..row.reference.inputs()]
                .iter()
                .map(|input| format!("{:x}", input.bits()));
            inputs
                .chain([format!("{:x}", result.bits()), format!("{value:e}")])
                .collect()
        };
        let is_absent = |x: f64| match row.error {
            Error::Ulp | Error::UlpBeyond(_) => x.is_nan(),
            Error::Absolute | Error::Relative => !x.is_finite(),
        };
        if is_absent(value) || is_absent(found) {
            if self.wrong_nan == 0 {
                self.nan_at = described();
            }
            self.wrong_nan += 1;
            return;
        }
        let error = match row.error {
            Error::Ulp => places,
            Error::UlpBeyond(allowed) => (places - allowed(inputs[0].value()).floor()).max(0.0),
            Error::Absolute => (found - value).abs(),
            // Of what is not even a normal number, the last place is all that can be asked.
            Error::Relative => (found - value).abs() / value.abs().max(T::LEAST),
        };
        if error > self.worst {
            self.worst = error;
            self.at = described();
        }
    }

    fn add(&mut self, other: Found) {
        self.tested += other.tested;
        self.differ += other.differ;
        if self.wrong_nan == 0 {
            self.nan_at = other.nan_at;
        }
        self.wrong_nan += other.wrong_nan;
        if other.worst > self.worst {
            (self.worst, self.at) = (other.worst, other.at);
        }
    }
}

/// Memory of launches that read their inputs.
struct Arrays<T: driver::Pod> {
    inputs: [Vec<T>; 3],
    on_device: [DeviceBuffer<T>; 3],
    out: DeviceBuffer<T>,
    results: PinnedBuffer<T>,
}

impl<T: Real> Arrays<T> {
    fn new(context: &Context) -> Result<Arrays<T>, driver::Error> {
        let zeroed = || DeviceBuffer::zeroed(context, BATCH);
        Ok(Arrays {
            inputs: [(); 3].map(|()| vec![T::default(); BATCH]),
            on_device: [zeroed()?, zeroed()?, zeroed()?],
            out: zeroed()?,
            results: PinnedBuffer::zeroed(context, BATCH)?,
        })
    }
}

pub struct Bench<'a> {
    stream: &'a Stream,
    out: DeviceBuffer<f32>,
    results: PinnedBuffer<f32>,
    floats: Arrays<f32>,
    doubles: Arrays<f64>,
}

impl<'a> Bench<'a> {
    pub fn new(context: &Context, stream: &'a Stream) -> Result<Bench<'a>, driver::Error> {
        Ok(Bench {
            stream,
            out: DeviceBuffer::zeroed(context, PART)?,
            results: PinnedBuffer::zeroed(context, PART)?,
            floats: Arrays::new(context)?,
            doubles: Arrays::new(context)?,
        })
    }

    /// Measures one row, for as long as `share`, or until `parts` or `millions` are tried.
    pub fn measure(
        &mut self,
        row: &Row,
        kernel: &Kernel,
        parts: u32,
        millions: u64,
        share: Duration,
    ) -> Result<Measured, driver::Error> {
        let start = Instant::now();
        let mut found = Found::default();
        let mut done = 0;
        let makes_inputs = source::makes_inputs(row);
        if makes_inputs {
            while done < parts && (done == 0 || start.elapsed() < share) {
                // Far parts first, so that those which are tried are spread evenly.
                self.part(
                    row,
                    kernel,
                    u32::from((done as u8).reverse_bits()),
                    &mut found,
                )?;
                done += 1;
            }
        } else {
            let batches = (millions * 1_000_000).div_ceil(BATCH as u64) as u32;
            while done < batches && (done == 0 || start.elapsed() < share) {
                if row.reference.is_double() {
                    batch(
                        &mut self.doubles,
                        self.stream,
                        row,
                        kernel,
                        done,
                        &mut found,
                    )?;
                } else {
                    batch(&mut self.floats, self.stream, row, kernel, done, &mut found)?;
                }
                done += 1;
            }
        }
        let error = match row.error {
            Error::Ulp => "ulp",
            Error::UlpBeyond(_) => "beyond",
            Error::Absolute => "absolute",
            Error::Relative => "relative",
        };
        Ok(Measured {
            name: row.title(),
            library: row.is_library(),
            double: row.reference.is_double(),
            inputs: row.reference.inputs(),
            error: error.to_owned(),
            bound: row.bound,
            tested: found.tested,
            all: makes_inputs && done == 256,
            worst: found.worst,
            differ: found.differ,
            wrong_nan: found.wrong_nan,
            at: found.at,
            nan_at: found.nan_at,
            seconds: start.elapsed().as_secs_f64(),
        })
    }

    fn part(
        &mut self,
        row: &Row,
        kernel: &Kernel,
        part: u32,
        found: &mut Found,
    ) -> Result<(), driver::Error> {
        let config = LaunchConfig::for_elements(PART as u32, BLOCK);
        // SAFETY: the kernel writes one result for each of PART threads.
        unsafe { kernel.launch(config, self.stream, (&mut self.out, part)) }?;
        self.out.read_async(&mut self.results, self.stream)?;
        self.stream.synchronize()?;
        let results = self.results.as_slice()?;
        let input = |i: usize| [f32::from_bits(((i as u32) << 8) + part), 0.0, 0.0];
        found.add(compared(row, &results, input));
        Ok(())
    }
}

fn batch<T: Real>(
    arrays: &mut Arrays<T>,
    stream: &Stream,
    row: &Row,
    kernel: &Kernel,
    number: u32,
    found: &mut Found,
) -> Result<(), driver::Error> {
    let used = row.reference.inputs();
    let chunk = BATCH.div_ceil(cores());
    thread::scope(|scope| {
        for (which, inputs) in arrays.inputs[..used].iter_mut().enumerate() {
            for (at, inputs) in inputs.chunks_mut(chunk).enumerate() {
                let seed = [number as u64, which as u64, at as u64];
                let mut random = Random::new(seed.iter().fold(1, |seed, x| seed << 20 ^ x));
                scope.spawn(move || inputs.fill_with(|| T::random(&mut random)));
            }
        }
    });
    for (inputs, on_device) in arrays.inputs[..used].iter().zip(&mut arrays.on_device) {
        on_device.write(inputs)?;
    }
    let config = LaunchConfig::for_elements(BATCH as u32, BLOCK);
    let [a, b, c] = &arrays.on_device;
    // SAFETY: the kernel reads one value of each array for each of BATCH threads, and writes one.
    unsafe { kernel.launch(config, stream, (&mut arrays.out, a, b, c)) }?;
    arrays.out.read_async(&mut arrays.results, stream)?;
    stream.synchronize()?;
    let [a, b, c] = &arrays.inputs;
    found.add(compared(row, &arrays.results.as_slice()?, |i| {
        [a[i], b[i], c[i]]
    }));
    Ok(())
}

/// Compares on all cores.
fn compared<T: Real>(row: &Row, results: &[T], input: impl Fn(usize) -> [T; 3] + Sync) -> Found {
    let chunk = results.len().div_ceil(cores());
    let compare = |(at, results): (usize, &[T])| {
        let mut found = Found::default();
        for (i, result) in results.iter().enumerate() {
            found.compare(row, input(at * chunk + i), *result);
        }
        found
    };
    let compare = &compare;
    let mut found = Found::default();
    thread::scope(|scope| {
        let chunks = results.chunks(chunk).enumerate();
        let parts: Vec<_> = chunks
            .map(|part| scope.spawn(move || compare(part)))
            .collect();
        for part in parts {
            found.add(part.join().expect("a comparison does not panic"));
        }
    });
    found
}

fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}
