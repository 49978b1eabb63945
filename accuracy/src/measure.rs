//! Measures a row on all devices at once: what it is compared with is computed once.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use ptxkit::driver::{self, Kernel, Stream};
use serde::{Deserialize, Serialize};

use crate::bench::{Arrays, BATCH, Bench, PART};
use crate::compare::{Found, Real};
use crate::inputs::Random;
use crate::row::{Error, Row};
use crate::source;

/// What a thread takes at a time: some inputs cost much more than others.
const PIECE: usize = 1 << 16;

/// What was found for a row.
#[derive(Clone, Serialize, Deserialize)]
pub struct Measured {
    pub name: String,
    pub library: bool,
    pub double: bool,
    pub inputs: usize,
    /// `ulp`, `beyond`, `absolute` or `relative`.
    pub error: String,
    /// In ULP, or the exponent of 2.
    pub bound: Option<f64>,
    /// How many launches these are: parts of all inputs, or batches of random ones.
    #[serde(default)]
    pub launches: u32,
    /// Whether these are all inputs that there are.
    pub all: bool,
    #[serde(flatten)]
    pub found: Found,
    pub seconds: f64,
}

impl Measured {
    /// Nothing yet.
    pub fn new(row: &Row) -> Measured {
        let error = match row.error {
            Error::Ulp => "ulp",
            Error::UlpBeyond(_) => "beyond",
            Error::Absolute => "absolute",
            Error::Relative => "relative",
        };
        Measured {
            name: row.title(),
            library: row.is_library(),
            double: row.reference.is_double(),
            inputs: row.reference.inputs(),
            error: error.to_owned(),
            bound: row.bound,
            launches: 0,
            all: false,
            found: Found::default(),
            seconds: 0.0,
        }
    }
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = &self.found;
        let worst = match self.error.as_str() {
            "absolute" | "relative" => format!("2^{:.2} {}", found.worst.log2(), self.error),
            _ => format!("{} {}", found.worst, self.error),
        };
        write!(
            f,
            "{:<28} {worst:<18} of {:?}  {} tested, {} not nearest, {} NaN, {:.1} s, at {:?} {:?}, {:x}",
            self.name,
            self.bound,
            found.tested,
            found.differ,
            found.wrong_nan,
            self.seconds,
            found.at,
            found.nan_at,
            found.checksum
        )
    }
}

/// How far a row is to be measured.
#[derive(Clone, Copy)]
pub struct Limits {
    /// Parts of 256 of all inputs.
    pub parts: u32,
    pub millions: u64,
    pub end: Instant,
}

impl Limits {
    /// The launches for a row.
    pub fn launches(&self, row: &Row) -> u32 {
        match source::makes_inputs(row) {
            true => self.parts,
            false => (self.millions * 1_000_000).div_ceil(BATCH as u64) as u32,
        }
    }
}

/// A device, and what was measured on it.
pub struct Side<'a> {
    pub bench: &'a mut Bench,
    pub measured: &'a mut Measured,
}

/// Goes on with a row, where each device stopped, until the limits.
pub fn measure(row: &Row, sides: &mut [Side<'_>], limits: Limits) -> Result<(), driver::Error> {
    let start = Instant::now();
    let kernels = sides.iter().map(|side| side.bench.kernel(row));
    let kernels = kernels.collect::<Result<Vec<_>, _>>()?;
    let launches = sides.iter().map(|side| side.measured.launches);
    let first = launches.clone().min().unwrap_or(0);
    let before: Vec<u32> = launches.collect();
    let mut done = first;
    while done < limits.launches(row) && (done == first || Instant::now() < limits.end) {
        let mut active: Vec<(&mut Side<'_>, &Kernel)> = sides
            .iter_mut()
            .zip(&kernels)
            .filter(|(side, _)| side.measured.launches == done)
            .collect();
        let found = if source::makes_inputs(row) {
            // Far parts first, so that those which are tried are spread evenly.
            let part = u32::from((done as u8).reverse_bits());
            let input = |i: usize| [f32::from_bits(((i as u32) << 8) + part), 0.0, 0.0];
            let launch = |arrays: &mut Arrays<f32>, kernel: &Kernel, stream: &Stream| {
                arrays.part(kernel, part, stream)
            };
            launched(
                row,
                &mut active,
                |bench| &mut bench.floats,
                launch,
                PART,
                input,
            )?
        } else if row.reference.is_double() {
            batch(row, &mut active, |bench| &mut bench.doubles, done)?
        } else {
            batch(row, &mut active, |bench| &mut bench.floats, done)?
        };
        for ((side, _), found) in active.iter_mut().zip(found) {
            side.measured.found.add(found);
            side.measured.launches += 1;
        }
        done += 1;
    }
    for (side, before) in sides.iter_mut().zip(before) {
        side.measured.all = source::makes_inputs(row) && side.measured.launches == 256;
        if side.measured.launches > before {
            side.measured.seconds += start.elapsed().as_secs_f64();
        }
    }
    Ok(())
}

/// One launch with random inputs.
fn batch<T: Real>(
    row: &Row,
    active: &mut [(&mut Side<'_>, &Kernel)],
    arrays: fn(&mut Bench) -> &mut Arrays<T>,
    number: u32,
) -> Result<Vec<Found>, driver::Error> {
    let mut inputs = [(); 3].map(|()| vec![T::default(); BATCH]);
    let used = row.reference.inputs();
    for (which, inputs) in inputs[..used].iter_mut().enumerate() {
        let pieces = inputs.chunks_mut(PIECE).enumerate();
        thread::scope(|scope| {
            for (at, piece) in pieces {
                let seed = [number as u64, which as u64, at as u64];
                let mut random = Random::new(seed.iter().fold(1, |seed, x| seed << 20 ^ x));
                scope.spawn(move || piece.fill_with(|| T::random(&mut random)));
            }
        });
    }
    let [a, b, c] = &inputs;
    let launch = |arrays: &mut Arrays<T>, kernel: &Kernel, stream: &Stream| {
        arrays.batch(kernel, &inputs[..used], stream)
    };
    launched(row, active, arrays, launch, BATCH, |i| [a[i], b[i], c[i]])
}

/// Launches on all devices, and compares.
fn launched<T: Real>(
    row: &Row,
    active: &mut [(&mut Side<'_>, &Kernel)],
    arrays: fn(&mut Bench) -> &mut Arrays<T>,
    launch: impl Fn(&mut Arrays<T>, &Kernel, &Stream) -> Result<(), driver::Error>,
    count: usize,
    input: impl Fn(usize) -> [T; 3] + Sync,
) -> Result<Vec<Found>, driver::Error> {
    // All are queued before the first is waited for: a GPU works while the CPU device does.
    for (side, kernel) in &mut *active {
        let stream = side.bench.stream.clone();
        launch(arrays(side.bench), kernel, &stream)?;
    }
    for (side, _) in &*active {
        side.bench.stream.synchronize()?;
    }
    let results = active
        .iter_mut()
        .map(|(side, _)| arrays(side.bench).results.as_slice());
    let results = results.collect::<Result<Vec<_>, _>>()?;
    let results: Vec<&[T]> = results.iter().map(|results| &results[..count]).collect();
    Ok(compared(row, &results, input))
}

/// Compares on all cores: the results of each device.
fn compared<T: Real>(
    row: &Row,
    results: &[&[T]],
    input: impl Fn(usize) -> [T; 3] + Sync,
) -> Vec<Found> {
    let count = results
        .iter()
        .map(|results| results.len())
        .min()
        .unwrap_or(0);
    let next = AtomicUsize::new(0);
    let compare = || {
        let mut found = vec![Found::default(); results.len()];
        loop {
            let first = next.fetch_add(PIECE, Ordering::Relaxed);
            if first >= count {
                return found;
            }
            for i in first..count.min(first + PIECE) {
                let inputs = input(i);
                let values = || (inputs[0].value(), inputs[1].value());
                if row.domain.is_some_and(|domain| {
                    let (a, b) = values();
                    !domain(a, b)
                }) {
                    continue;
                }
                let exact = T::exact(row.reference, inputs);
                for (found, results) in found.iter_mut().zip(results) {
                    found.compare(row, inputs, exact, results[i]);
                }
            }
        }
    };
    let mut found = vec![Found::default(); results.len()];
    thread::scope(|scope| {
        let threads = thread::available_parallelism().map_or(1, usize::from);
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(compare)).collect();
        for thread in threads {
            let of_thread = thread.join().expect("a comparison does not panic");
            for (found, of_thread) in found.iter_mut().zip(of_thread) {
                found.add(of_thread);
            }
        }
    });
    found
}
