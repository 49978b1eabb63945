//! The same instructions with the same inputs on a GPU and on the CPU device.

use std::fmt::Write;
use std::num::NonZero;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use ptxkit::cpu::Vectorization;
use ptxkit::driver::{Device, Driver};

use crate::approximate::{APPROXIMATIONS, Bound, agree};
use crate::inputs::inputs;
use crate::kernels::{Destination, Kernels};
use crate::{atomic, bits, bodies, compare, convert, float, half, integer, video};

/// Inputs a body.
const INPUTS: usize = 1024;
/// Kernels a module: few, so that one that a device refuses costs little.
const KERNELS: usize = 64;

/// The bodies of the rows that compute the same for any input, and all others.
fn exact() -> Vec<String> {
    let mut all: Vec<String> = [
        integer::ARITHMETIC,
        integer::DIVISION,
        integer::CARRIES,
        bits::BITS,
        compare::COMPARISONS,
        compare::PROPERTIES,
        float::SINGLE,
        float::DOUBLE,
        half::HALF,
        convert::CONVERSIONS,
        atomic::ATOMICS,
        video::VIDEO,
    ]
    .concat()
    .iter()
    .map(|row| row.0)
    .filter(|body| !body.contains(".approx") && !body.contains(".full"))
    .map(str::to_owned)
    .collect();
    all.extend(bodies::exact());
    all.sort_unstable();
    all.dedup();
    all
}

/// What the bits of a result are, where NaNs may differ in theirs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Bits,
    F16,
    Bf16,
    F32,
    F64,
    F16x2,
    Bf16x2,
}

impl Format {
    /// The format of a body's result: the first type that the instruction names.
    fn of(body: &str) -> Format {
        let destination = Destination::of(body);
        match destination {
            Destination::F32 => return Format::F32,
            Destination::F64 => return Format::F64,
            Destination::B16 | Destination::B32 => {}
            Destination::B64 | Destination::Predicate => return Format::Bits,
        }
        let register = if destination == Destination::B16 {
            "%hd"
        } else {
            "%rd"
        };
        let opcode = body
            .split(';')
            .filter(|statement| statement.contains(register))
            .find_map(|statement| statement.split_whitespace().next())
            .unwrap_or_default();
        let is_type = |word: &&str| {
            word.len() > 1
                && word
                    .trim_start_matches(['b', 'f', 's', 'u', 'e', 'm', 't', 'x'])
                    .starts_with(|c: char| c.is_ascii_digit())
        };
        match opcode.split('.').skip(1).find(is_type) {
            Some("f16") => Format::F16,
            Some("bf16") => Format::Bf16,
            Some("tf32") => Format::F32,
            Some("f16x2") => Format::F16x2,
            Some("bf16x2") => Format::Bf16x2,
            _ => Format::Bits,
        }
    }

    /// The value, if the result is one number, and the distance to its neighbour.
    fn value(self, bits: u64) -> Option<(f64, f64)> {
        let (value, fraction_bits, least) = match self {
            Format::F32 => (f64::from(f32::from_bits(bits as u32)), 23, -126),
            Format::F64 => (f64::from_bits(bits), 52, -1022),
            Format::Bf16 => (f64::from(f32::from_bits((bits as u32) << 16)), 7, -126),
            Format::F16 => (half_value(bits as u16), 10, -14),
            Format::Bits | Format::F16x2 | Format::Bf16x2 => return None,
        };
        let exponent = match value {
            0.0 => least,
            _ => (value.abs().log2().floor() as i32).max(least),
        };
        Some((value, 2.0_f64.powi(exponent - fraction_bits)))
    }

    fn is_nan(self, bits: u64) -> bool {
        self.value(bits).is_some_and(|(value, _)| value.is_nan())
    }

    /// Whether results are the same but for the bits of NaNs.
    fn same(self, a: u64, b: u64) -> bool {
        let each = match self {
            Format::F16x2 => Format::F16,
            Format::Bf16x2 => Format::Bf16,
            _ => return a == b || self.is_nan(a) && self.is_nan(b),
        };
        [0, 16].into_iter().all(|shift| {
            let (a, b) = (a >> shift & 0xFFFF, b >> shift & 0xFFFF);
            each.same(a, b)
        })
    }
}

fn half_value(bits: u16) -> f64 {
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f64::from(bits & 0x3FF));
    let size = match (exponent, bits & 0x3FF) {
        (0, _) => fraction * 2.0_f64.powi(-24),
        (31, 0) => f64::INFINITY,
        (31, _) => f64::NAN,
        _ => (fraction + 1024.0) * 2.0_f64.powi(exponent - 25),
    };
    if bits >> 15 == 1 { -size } else { size }
}

/// The inputs of an approximation as numbers.
fn operands(body: &str, format: Format, input: &[u64; 4]) -> (f64, f64) {
    let number = |bits| match Destination::of(body) {
        Destination::B16 => Format::value(format, bits & 0xFFFF),
        _ => Format::value(format, bits),
    };
    let value = |bits| number(bits).map_or(0.0, |(value, _)| value);
    (value(input[0]), value(input[1]))
}

/// One line a body on which the devices differ, and the first inputs.
fn difference(body: &str, cpu: &Kernels, gpu: &Kernels, number: usize) -> Option<String> {
    let bound = APPROXIMATIONS
        .iter()
        .find(|(approximation, _)| *approximation == body)
        .map(|(_, bound)| bound);
    let format = Format::of(body);
    let inputs = inputs(body, INPUTS);
    let (cpu, gpu) = match (cpu.run(number, &inputs), gpu.run(number, &inputs)) {
        (Ok(cpu), Ok(gpu)) => (cpu, gpu),
        (Err(error), Ok(_)) => return Some(format!("{body}\n    CPU only: {error}")),
        (Ok(_), Err(error)) => return Some(format!("{body}\n    GPU only: {error}")),
        (Err(cpu), Err(gpu)) => {
            return Some(format!("{body}\n    CPU: {cpu}\n    GPU: {gpu}"));
        }
    };
    let wrong: Vec<usize> = (0..INPUTS)
        .filter(|&at| {
            if format.same(cpu[at], gpu[at]) {
                return false;
            }
            let (x, y) = operands(body, format, &inputs[at]);
            let bound = bound.map_or(Bound::Exact, |bound| bound(x, y));
            match (format.value(cpu[at]), format.value(gpu[at])) {
                (Some((a, last_a)), Some((b, last_b))) => !agree(a, b, bound, last_a.max(last_b)),
                _ => true,
            }
        })
        .collect();
    if wrong.is_empty() {
        return None;
    }
    let mut text = format!("{body}  {} of {INPUTS} differ", wrong.len());
    for &at in wrong.iter().take(3) {
        let (input, cpu, gpu) = (&inputs[at], cpu[at], gpu[at]);
        write!(text, "\n    {input:X?}  CPU {cpu:#X}  GPU {gpu:#X}").expect("a string");
    }
    Some(text)
}

fn cpu() -> Device {
    let driver = Driver::cpu().expect("the CPU device is built in");
    driver.device(0).expect("it has a device")
}

fn all() -> Vec<String> {
    let approximations = APPROXIMATIONS.iter().map(|row| row.0.to_owned());
    exact().into_iter().chain(approximations).collect()
}

/// What `differ` finds in any of the bodies; every core takes a share.
fn differences(bodies: &[String], differ: impl Fn(&[&str]) -> Vec<String> + Sync) -> Vec<String> {
    let chunks: Vec<&[String]> = bodies.chunks(KERNELS).collect();
    let next = AtomicUsize::new(0);
    let found = Mutex::new(Vec::new());
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    std::thread::scope(|threads| {
        for _ in 0..cores.min(chunks.len()) {
            threads.spawn(|| {
                while let Some(chunk) = chunks.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let bodies: Vec<&str> = chunk.iter().map(String::as_str).collect();
                    let differences = differ(&bodies);
                    found
                        .lock()
                        .expect("no test thread panics")
                        .extend(differences);
                }
            });
        }
    });
    let mut found = found.into_inner().expect("no test thread panics");
    found.sort_unstable();
    found
}

/// Compares what a GPU and the CPU device give. Without a GPU it compares nothing.
#[test]
fn both_devices_agree() {
    let gpu = match Driver::nvidia().and_then(|driver| driver.device(0)) {
        Ok(gpu) => gpu,
        Err(error) => {
            eprintln!("not compared: no GPU ({error})");
            return;
        }
    };
    let (cpu, all) = (cpu(), all());
    let found = differences(&all, |bodies| {
        let on_gpu = Kernels::load(&gpu, bodies, Vectorization::Always);
        let on_cpu = Kernels::load(&cpu, bodies, Vectorization::Never);
        (0..bodies.len())
            .filter_map(|number| difference(bodies[number], &on_cpu, &on_gpu, number))
            .collect()
    });
    assert!(
        found.is_empty(),
        "{} of {} bodies differ\n{}",
        found.len(),
        all.len(),
        found.join("\n")
    );
}

/// Threads that run together in vectors compute what each computes alone.
#[test]
fn lanes_agree_with_threads_alone() {
    // Compiling is slow in debug builds.
    let step = if cfg!(debug_assertions) { 4 } else { 1 };
    let some: Vec<String> = all().into_iter().step_by(step).collect();
    let cpu = cpu();
    let found = differences(&some, |bodies| {
        let alone = Kernels::load(&cpu, bodies, Vectorization::Never);
        let together = Kernels::load(&cpu, bodies, Vectorization::Always);
        let difference = |(number, &body): (usize, &&str)| {
            let inputs = inputs(body, 128);
            match (alone.run(number, &inputs), together.run(number, &inputs)) {
                (Ok(alone), Ok(together)) => {
                    let at = (0..alone.len()).find(|&at| alone[at] != together[at])?;
                    let (input, alone, together) = (inputs[at], alone[at], together[at]);
                    Some(format!(
                        "{body} {input:X?}\n  alone {alone:#X}, together {together:#X}"
                    ))
                }
                (Err(error), _) | (_, Err(error)) => Some(format!("{body}\n  {error}")),
            }
        };
        bodies.iter().enumerate().filter_map(difference).collect()
    });
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// A comparison that finds nothing would be of no use.
#[test]
fn differences_are_found() {
    let load = |bodies: &[&str]| Kernels::load(&cpu(), bodies, Vectorization::Never);
    let (add, max, approximate) = (
        "add.rn.f32 %fd, %f0, %f1;",
        "max.f16x2 %rd, %r0, %r1;",
        "ex2.approx.f32 %fd, %f0;",
    );
    let right = load(&[add, max, approximate]);
    let wrong = load(&[
        "add.rz.f32 %fd, %f0, %f1;",
        "max.NaN.f16x2 %rd, %r0, %r1;",
        "ex2.approx.f32 %fd, %f0; add.f32 %fd, %fd, 0f35800000;",
    ]);
    for (number, body) in [add, max, approximate].into_iter().enumerate() {
        assert_eq!(difference(body, &right, &right, number), None);
        let text = difference(body, &right, &wrong, number).expect(body);
        assert!(text.starts_with(body), "{text}");
        assert!(text.lines().count() <= 4, "{text}");
    }
}

#[test]
fn values_are_read_as_their_formats() {
    assert_eq!(
        Format::F16.value(0x3C01),
        Some((1.0 + 1.0 / 1024.0, 1.0 / 1024.0))
    );
    assert_eq!(Format::Bf16.value(0xC040), Some((-3.0, 2.0_f64.powi(-6))));
    assert_eq!(
        Format::F32.value(1),
        Some((2.0_f64.powi(-149), 2.0_f64.powi(-149)))
    );
    assert!(Format::F16x2.same(0x7E01_3C00, 0xFFFF_3C00));
    assert!(!Format::F16x2.same(0x7E01_3C00, 0x7E01_3C01));
    for (body, format) in [
        ("cvt.rn.satfinite.bf16.f32 %hd, %f0;", Format::Bf16),
        ("cvt.rn.f16x2.e4m3x2 %rd, %h0;", Format::F16x2),
        ("cvt.rna.tf32.f32 %rd, %f0;", Format::F32),
        ("set.lt.u16.f16 %hd, %h0, %h1;", Format::Bits),
        ("prmt.b32.f4e %rd, %r0, %r1, %r2;", Format::Bits),
    ] {
        assert_eq!(Format::of(body), format, "{body}");
    }
}
