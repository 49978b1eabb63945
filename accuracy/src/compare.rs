//! Compares results with the exact ones.

use ptxkit::driver;
use serde::{Deserialize, Serialize};

use crate::inputs::Random;
use crate::row::{Error, Reference, Row};

/// A type of inputs and results.
pub trait Real: driver::Pod + Copy + Send + Sync + Default {
    /// The least normal number.
    const LEAST: f64;
    fn random(random: &mut Random) -> Self;
    fn bits(self) -> u64;
    fn value(self) -> f64;
    /// Whole numbers in the order of the values, one for each; both zeros are 0.
    fn place(self) -> i64;
    fn exact(reference: Reference, inputs: [Self; 3]) -> Exact<Self>;
}

/// The exact result: rounded to the type, or as an `f64`.
#[derive(Clone, Copy)]
pub enum Exact<T> {
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
    fn place(self) -> i64 {
        let magnitude = i64::from(self.to_bits() & 0x7fff_ffff);
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
    fn place(self) -> i64 {
        let magnitude = (self.to_bits() & (u64::MAX >> 1)).cast_signed();
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
#[derive(Clone, Default, Serialize, Deserialize)]
pub struct Found {
    pub tested: u64,
    /// The largest error, in the unit of the row.
    pub worst: f64,
    /// How many results are not the exact one, rounded to nearest.
    pub differ: u64,
    /// How many are NaN where the exact one is not, or the other way round.
    pub wrong_nan: u64,
    /// The bits of the inputs with the largest error, then those of the result and of the exact one.
    pub at: Vec<String>,
    pub nan_at: Vec<String>,
    /// Of the results of this run: equal where all of them are.
    #[serde(skip)]
    pub checksum: u64,
}

impl Found {
    /// Counts one result; its inputs are within the row's domain.
    #[inline]
    pub fn compare<T: Real>(&mut self, row: &Row, inputs: [T; 3], exact: Exact<T>, result: T) {
        self.tested += 1;
        let weighted = result.bits().wrapping_mul(inputs[0].bits() | 1);
        self.checksum = self.checksum.wrapping_add(weighted);
        let is_same = match exact {
            Exact::Rounded(exact) => exact.bits() == result.bits(),
            Exact::Wide(exact) => exact == result.value(),
        };
        if !is_same {
            self.differing(row, inputs, exact, result);
        }
    }

    fn differing<T: Real>(&mut self, row: &Row, inputs: [T; 3], exact: Exact<T>, result: T) {
        let (value, places) = match exact {
            Exact::Rounded(exact) => (exact.value(), exact.place().abs_diff(result.place()) as f64),
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

    pub fn add(&mut self, other: Found) {
        self.tested += other.tested;
        self.differ += other.differ;
        self.checksum = self.checksum.wrapping_add(other.checksum);
        if self.wrong_nan == 0 {
            self.nan_at = other.nan_at;
        }
        self.wrong_nan += other.wrong_nan;
        if other.worst > self.worst {
            (self.worst, self.at) = (other.worst, other.at);
        }
    }
}
