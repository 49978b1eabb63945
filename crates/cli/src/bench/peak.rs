//! The most that a GPU can do, by what its driver tells and by its target.

use ptxkit::driver::{Device, DeviceAttribute, DriverKind, Error};
use ptxkit::occupancy::Throughput;

use super::work::Work;

/// Theoretical peaks a second.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Peaks {
    /// Of device memory; `None` where the driver does not tell the clock or the bus.
    pub bytes_per_second: Option<f64>,
    /// Operations, of which an fma has two.
    pub flops: Flops,
}

/// Operations a second; `None` where the throughput of the target is not published.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct Flops {
    pub f16: Option<f64>,
    pub f32: Option<f64>,
    pub f64: Option<f64>,
    /// Tensor cores, for dense matrices of f16.
    pub matrix: Option<f64>,
}

/// What the driver tells of a device.
#[derive(Clone, Copy, Debug)]
struct Clocks {
    multiprocessors: u32,
    hertz: u64,
    memory_hertz: u64,
    memory_bits: u32,
}

/// Of a device; `None` for the CPU device, whose clocks are none of the processor's.
pub fn of(device: &Device) -> Result<Option<Peaks>, Error> {
    if device.driver().kind() == DriverKind::Cpu {
        return Ok(None);
    }
    let (major, minor) = device.compute_capability()?;
    let clocks = Clocks {
        multiprocessors: device.attribute(DeviceAttribute::MULTIPROCESSOR_COUNT)?,
        hertz: device.attribute(DeviceAttribute::CLOCK_RATE)?.hertz(),
        memory_hertz: device
            .attribute(DeviceAttribute::MEMORY_CLOCK_RATE)?
            .hertz(),
        memory_bits: device.attribute(DeviceAttribute::GLOBAL_MEMORY_BUS_WIDTH)?,
    };
    let number = u16::try_from(10 * major + minor).unwrap_or(0);
    Ok(Some(Peaks::new(Throughput::of(number), clocks)))
}

impl Peaks {
    fn new(throughput: Option<&Throughput>, clocks: Clocks) -> Peaks {
        // Memory moves data at both edges of its clock.
        let bytes = 2.0 * clocks.memory_hertz as f64 * f64::from(clocks.memory_bits) / 8.0;
        let cycles = clocks.hertz as f64 * f64::from(clocks.multiprocessors);
        let operations = |results: u32| 2.0 * f64::from(results) * cycles;
        let flops = throughput.map(|row| Flops {
            f16: row.f16.map(operations),
            f32: Some(operations(row.f32)),
            f64: row.f64.map(operations),
            matrix: row.matrix.map(operations),
        });
        Peaks {
            bytes_per_second: (bytes > 0.0).then_some(bytes),
            flops: flops.filter(|_| cycles > 0.0).unwrap_or_default(),
        }
    }

    /// The peak of the kind of operation that most of the work is, with its name.
    pub fn of_most(&self, work: &Work) -> Option<(&'static str, f64)> {
        let kinds = [
            ("f16", work.f16, self.flops.f16),
            ("f32", work.f32, self.flops.f32),
            ("f64", work.f64, self.flops.f64),
            ("matrix", work.matrix, self.flops.matrix),
        ];
        let (name, count, peak) = kinds.into_iter().max_by_key(|(_, count, _)| *count)?;
        Some((name, peak.filter(|_| count > 0)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Target, multiprocessors, kHz of them and of memory, bits of the bus.
    fn peaks(target: u16, multiprocessors: u32, khz: [u64; 2], memory_bits: u32) -> Peaks {
        let [hertz, memory_hertz] = khz.map(|khz| 1000 * khz);
        let clocks = Clocks {
            multiprocessors,
            hertz,
            memory_hertz,
            memory_bits,
        };
        Peaks::new(Throughput::of(target), clocks)
    }

    #[track_caller]
    fn near(found: Option<f64>, published: f64) {
        let found = found.unwrap();
        assert!((found / published - 1.0).abs() < 0.02, "{found}");
    }

    #[test]
    fn published_figures_are_met() {
        // H100 SXM: 3.35 TB/s, 67 and 34 TFLOP/s.
        let h100 = peaks(90, 132, [1_980_000, 2_619_000], 5120);
        near(h100.bytes_per_second, 3.35e12);
        near(h100.flops.f32, 67e12);
        near(h100.flops.f64, 34e12);
        // A100 SXM of 80 GB: 2.039 TB/s, 19.5 and 9.7 TFLOP/s, 312 with tensor cores.
        let a100 = peaks(80, 108, [1_410_000, 1_593_000], 5120);
        near(a100.bytes_per_second, 2.039e12);
        near(a100.flops.f32, 19.5e12);
        near(a100.flops.f64, 9.7e12);
        near(a100.flops.matrix, 312e12);
        // T4: 320 GB/s, 8.1 TFLOP/s.
        let t4 = peaks(75, 40, [1_590_000, 5_001_000], 256);
        near(t4.bytes_per_second, 320e9);
        near(t4.flops.f32, 8.1e12);
    }

    #[test]
    fn what_is_not_told_is_not_made_up() {
        let unknown = peaks(88, 10, [1_000_000, 0], 256);
        assert_eq!(unknown.bytes_per_second, None);
        assert_eq!(unknown.flops, Flops::default());
        assert_eq!(peaks(90, 132, [0, 0], 0).flops, Flops::default());
    }

    #[test]
    fn the_roof_is_that_of_most_operations() {
        let h100 = peaks(90, 132, [1_980_000, 2_619_000], 5120);
        let mut work = Work::default();
        assert_eq!(h100.of_most(&work), None);
        (work.f32, work.f64) = (10, 20);
        assert_eq!(h100.of_most(&work).unwrap().0, "f64");
        work.matrix = 30;
        let (name, peak) = h100.of_most(&work).unwrap();
        assert_eq!((name, Some(peak)), ("matrix", h100.flops.matrix));
    }
}
