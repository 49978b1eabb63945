//! Launches timed by events of the device.

use std::time::{Duration, Instant};

use crate::errors::of_driver;
use crate::instrument::load::Loaded;
use crate::launch::Passed;
use crate::sample::Sample;
use ptxkit::driver::{Context, DeviceBuffer, Error, Event, Stream, copy_async};
use terminal::failure::Failure;

/// A sample takes at least this long, many times what the clock of events can tell.
const SAMPLE: f64 = 2e-3;
/// Devices raise their clocks, and the CPU device compiles hot kernels, in this time.
const WARM_UP: Duration = Duration::from_millis(300);
/// The fewest samples, however long they take.
const MIN_SAMPLES: usize = 5;
/// Bytes of the copy that tells the bandwidth. Caches hold less.
const COPY: usize = 256 << 20;

/// A kernel with its arguments, ready to be timed.
pub struct Timed<'l> {
    loaded: &'l Loaded,
    passed: Passed,
    clock: Clock,
    /// Launches of a sample.
    pub launches: u32,
    /// Seconds of a launch, one for each sample.
    pub samples: Vec<f64>,
}

/// A stream with two events.
struct Clock {
    stream: Stream,
    start: Event,
    end: Event,
}

impl Clock {
    fn new(context: &Context) -> Result<Clock, Error> {
        Ok(Clock {
            stream: Stream::new(context)?,
            start: Event::new(context)?,
            end: Event::new(context)?,
        })
    }

    /// The seconds that `work` takes on the device.
    fn time(&self, work: impl FnOnce(&Stream) -> Result<(), Error>) -> Result<f64, Error> {
        self.start.record(&self.stream)?;
        work(&self.stream)?;
        self.end.record(&self.stream)?;
        self.stream.synchronize()?;
        Ok(f64::from(self.end.elapsed_ms_since(&self.start)?) / 1e3)
    }
}

impl<'l> Timed<'l> {
    /// Passes the arguments, warms up, and finds how many launches a sample has.
    pub fn new(loaded: &'l Loaded, sample: &Sample) -> Result<Timed<'l>, Failure> {
        let mut timed = Timed {
            loaded,
            passed: loaded.pass(sample)?,
            clock: Clock::new(loaded.context()).map_err(|error| of_driver(&error))?,
            launches: 1,
            samples: Vec::new(),
        };
        let started = Instant::now();
        loop {
            let took = timed.sample()? * f64::from(timed.launches);
            let is_long = took >= SAMPLE || timed.launches >= 1 << 16;
            if is_long && started.elapsed() >= WARM_UP {
                break;
            }
            if !is_long {
                timed.launches *= 2;
            }
        }
        Ok(timed)
    }

    /// The seconds of a launch, as the mean of one sample.
    fn sample(&self) -> Result<f64, Failure> {
        let kernel = self.loaded.kernel();
        let seconds = self.clock.time(|stream| {
            for _ in 0..self.launches {
                self.passed.launch(kernel, stream)?;
            }
            Ok(())
        });
        match seconds {
            Ok(seconds) => Ok(seconds / f64::from(self.launches)),
            Err(error) => Err(crate::run::fault(kernel.name(), &error, self.loaded.kind)),
        }
    }
}

/// Takes samples of all in turn, so that what slows the machine down slows all of them.
pub fn measure(
    timed: &mut [Timed<'_>],
    samples: usize,
    limit: Duration,
    mut progress: impl FnMut(usize),
) -> Result<(), Failure> {
    let started = Instant::now();
    for number in 0..samples {
        if number >= MIN_SAMPLES && started.elapsed() > limit {
            break;
        }
        progress(number);
        for one in &mut *timed {
            let seconds = one.sample()?;
            one.samples.push(seconds);
        }
    }
    Ok(())
}

/// Bytes a second of a copy within the memory of the device, each byte read and written.
pub fn bandwidth(context: &Context) -> Result<f64, Error> {
    let (free, _) = context.memory_info()?;
    let bytes = COPY.min(free / 8).max(1);
    let from = DeviceBuffer::<u8>::zeroed(context, bytes)?;
    let mut to = DeviceBuffer::<u8>::zeroed(context, bytes)?;
    let clock = Clock::new(context)?;
    let mut best = f64::INFINITY;
    for _ in 0..5 {
        best = best.min(clock.time(|stream| copy_async(&mut to, &from, stream))?);
    }
    Ok(2.0 * bytes as f64 / best)
}

/// The spread of some numbers.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub struct Spread {
    pub median: f64,
    /// The lower and the upper quartile.
    pub quartiles: [f64; 2],
    pub least: f64,
}

impl Spread {
    /// Of at least one number.
    pub fn of(numbers: impl Iterator<Item = f64>) -> Spread {
        let mut sorted: Vec<f64> = numbers.collect();
        sorted.sort_by(f64::total_cmp);
        let at = |part: f64| {
            let place = part * sorted.len().saturating_sub(1) as f64;
            let (low, high) = (place.floor() as usize, place.ceil() as usize);
            let (low, high) = (sorted.get(low), sorted.get(high));
            let (low, high) = (low.copied().unwrap_or(0.0), high.copied().unwrap_or(0.0));
            low + (high - low) * place.fract()
        };
        Spread {
            median: at(0.5),
            quartiles: [at(0.25), at(0.75)],
            least: at(0.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_has_quartiles() {
        let spread = Spread::of([4.0, 1.0, 2.0, 3.0, 10.0].into_iter());
        assert_eq!((spread.least, spread.median), (1.0, 3.0));
        assert_eq!(spread.quartiles, [2.0, 4.0]);
        assert_eq!(Spread::of([7.0, 8.0].into_iter()).median, 7.5);
    }
}
