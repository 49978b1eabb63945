//! IEEE arithmetic in every rounding mode. The host's instructions round to the nearest; the
//! other modes use software floating point.

use super::exact::{self, Format, Number};
use super::rounding::Rounding;

/// A float type that is computed in software.
trait Float: Copy {
    const FORMAT: Format;
    fn to_number(self) -> Number;
    fn of(number: Number, rounding: Rounding) -> Self;
}

impl Float for f32 {
    const FORMAT: Format = Format::F32;
    fn to_number(self) -> Number {
        Number::from_bits(self.to_bits().into(), Self::FORMAT)
    }
    fn of(number: Number, rounding: Rounding) -> f32 {
        f32::from_bits(number.to_bits(Self::FORMAT, rounding) as u32)
    }
}

impl Float for f64 {
    const FORMAT: Format = Format::F64;
    fn to_number(self) -> Number {
        Number::from_bits(self.to_bits(), Self::FORMAT)
    }
    fn of(number: Number, rounding: Rounding) -> f64 {
        f64::from_bits(number.to_bits(Self::FORMAT, rounding))
    }
}

fn add<T: Float>(a: T, b: T, rounding: Rounding) -> T {
    T::of(exact::add(a.to_number(), b.to_number(), rounding), rounding)
}

fn mul<T: Float>(a: T, b: T, rounding: Rounding) -> T {
    T::of(exact::mul(a.to_number(), b.to_number()), rounding)
}

fn fma<T: Float>(a: T, b: T, c: T, rounding: Rounding) -> T {
    let product = exact::mul(a.to_number(), b.to_number());
    T::of(exact::add(product, c.to_number(), rounding), rounding)
}

fn div<T: Float>(a: T, b: T, rounding: Rounding) -> T {
    T::of(exact::div(a.to_number(), b.to_number()), rounding)
}

fn sqrt<T: Float>(a: T, rounding: Rounding) -> T {
    T::of(exact::sqrt(a.to_number()), rounding)
}

macro_rules! arithmetic {
    ($($float:ident: $add:ident $mul:ident $fma:ident $div:ident $sqrt:ident;)*) => {$(
        pub(crate) extern "C" fn $add(a: $float, b: $float, rounding: u32) -> $float {
            match Rounding::from_number(rounding) {
                Rounding::Nearest => a + b,
                rounding => add(a, b, rounding),
            }
        }

        pub(crate) extern "C" fn $mul(a: $float, b: $float, rounding: u32) -> $float {
            match Rounding::from_number(rounding) {
                Rounding::Nearest => a * b,
                rounding => mul(a, b, rounding),
            }
        }

        pub(crate) extern "C" fn $fma(a: $float, b: $float, c: $float, rounding: u32) -> $float {
            match Rounding::from_number(rounding) {
                Rounding::Nearest => a.mul_add(b, c),
                rounding => fma(a, b, c, rounding),
            }
        }

        pub(crate) extern "C" fn $div(a: $float, b: $float, rounding: u32) -> $float {
            match Rounding::from_number(rounding) {
                Rounding::Nearest => a / b,
                rounding => div(a, b, rounding),
            }
        }

        pub(crate) extern "C" fn $sqrt(a: $float, rounding: u32) -> $float {
            match Rounding::from_number(rounding) {
                Rounding::Nearest => a.sqrt(),
                rounding => sqrt(a, rounding),
            }
        }
    )*};
}

arithmetic! {
    f32: add_f32 mul_f32 fma_f32 div_f32 sqrt_f32;
    f64: add_f64 mul_f64 fma_f64 div_f64 sqrt_f64;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bits of all kinds: special values, and random ones of any exponent.
    fn samples(seed: u64, count: usize) -> Vec<u64> {
        let mut random = seed;
        let mut next = move || {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random
        };
        (0..count)
            .map(|i| match i % 4 {
                // Close exponents, so that sums cancel and products are exact.
                0 => (1023 + next() % 8) << 52 | next() >> 12 | (next() & 1) << 63,
                1 => (1023 + next() % 110) << 52 | (next() >> 12) & (u64::MAX << (next() % 50)),
                _ => next(),
            })
            .collect()
    }

    const SPECIAL: [f64; 14] = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
        f64::MAX,
        f64::MIN,
        f64::MIN_POSITIVE,
        5e-324,
        -5e-324,
        1.5,
        4503599627370497.5,
    ];

    fn doubles(seed: u64, count: usize) -> Vec<f64> {
        SPECIAL
            .into_iter()
            .chain(samples(seed, count).into_iter().map(f64::from_bits))
            .collect()
    }

    fn floats(seed: u64, count: usize) -> Vec<f32> {
        let special = [
            0.0,
            -0.0,
            f32::MAX,
            f32::MIN,
            f32::MIN_POSITIVE,
            1e-45,
            f32::INFINITY,
            f32::NAN,
        ];
        let close = samples(seed, count)
            .into_iter()
            .map(|bits| f64::from_bits(bits) as f32);
        let any = samples(seed + 1, count)
            .into_iter()
            .map(|bits| f32::from_bits(bits as u32));
        special.into_iter().chain(close).chain(any).collect()
    }

    fn same_f64(a: f64, b: f64) -> bool {
        a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan()
    }

    fn same_f32(a: f32, b: f32) -> bool {
        a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan()
    }

    /// The integer arithmetic, rounded to the nearest, against the host's.
    #[test]
    fn nearest_agrees_with_the_host() {
        let n = Rounding::Nearest;
        let c = doubles(7, 300);
        for (i, &a) in doubles(1, 300).iter().enumerate() {
            assert!(same_f64(sqrt(a, n), a.sqrt()), "sqrt {a:e}");
            for (j, &b) in doubles(2, 300).iter().enumerate() {
                assert!(same_f64(add(a, b, n), a + b), "{a:e} + {b:e}");
                assert!(same_f64(mul(a, b, n), a * b), "{a:e} * {b:e}");
                assert!(same_f64(div(a, b, n), a / b), "{a:e} / {b:e}");
                let c = c[(i * 31 + j) % c.len()];
                assert!(
                    same_f64(fma(a, b, c, n), a.mul_add(b, c)),
                    "{a:e} * {b:e} + {c:e}"
                );
                assert!(
                    same_f64(fma(a, b, -(a * b), n), a.mul_add(b, -(a * b))),
                    "error of {a:e} * {b:e}"
                );
            }
        }
        for &a in &floats(3, 150) {
            assert!(same_f32(sqrt(a, n), a.sqrt()), "sqrt {a:e}");
            for &b in &floats(5, 150) {
                assert!(same_f32(add(a, b, n), a + b), "{a:e} + {b:e}");
                assert!(same_f32(mul(a, b, n), a * b), "{a:e} * {b:e}");
                assert!(same_f32(div(a, b, n), a / b), "{a:e} / {b:e}");
                assert!(
                    same_f32(fma(a, b, 1.5, n), a.mul_add(b, 1.5)),
                    "{a:e} * {b:e} + 1.5"
                );
            }
        }
    }

    /// The processor's own directed rounding.
    #[cfg(target_arch = "x86_64")]
    mod host {
        use super::*;
        use std::arch::asm;

        fn control(rounding: Rounding) -> u32 {
            let bits = match rounding {
                Rounding::Down => 1,
                Rounding::Up => 2,
                Rounding::Zero => 3,
                _ => 0,
            };
            0x1f80 | bits << 13
        }

        macro_rules! operation {
            ($name:ident, $float:ident, $instruction:literal) => {
                fn $name(mut a: $float, b: $float, rounding: Rounding) -> $float {
                    let (mut old, new) = (0_u32, control(rounding));
                    // SAFETY: the control register is as before afterwards.
                    unsafe {
                        asm!(
                            "stmxcsr [{old}]",
                            "ldmxcsr [{new}]",
                            concat!($instruction, " {a}, {b}"),
                            "ldmxcsr [{old}]",
                            old = in(reg) &raw mut old,
                            new = in(reg) &raw const new,
                            a = inout(xmm_reg) a,
                            b = in(xmm_reg) b,
                        );
                    }
                    a
                }
            };
        }
        operation!(add_64, f64, "addsd");
        operation!(mul_64, f64, "mulsd");
        operation!(div_64, f64, "divsd");
        operation!(sqrt_64, f64, "sqrtsd");
        operation!(add_32, f32, "addss");
        operation!(mul_32, f32, "mulss");
        operation!(div_32, f32, "divss");
        operation!(sqrt_32, f32, "sqrtss");

        #[test]
        fn directions_agree_with_the_host() {
            for r in [Rounding::Zero, Rounding::Down, Rounding::Up] {
                for &a in &doubles(11, 200) {
                    assert!(same_f64(sqrt(a, r), sqrt_64(a, a, r)), "sqrt {a:e} {r:?}");
                    for &b in &doubles(12, 200) {
                        assert!(
                            same_f64(add(a, b, r), add_64(a, b, r)),
                            "{a:e} + {b:e} {r:?}"
                        );
                        assert!(
                            same_f64(mul(a, b, r), mul_64(a, b, r)),
                            "{a:e} * {b:e} {r:?}"
                        );
                        assert!(
                            same_f64(div(a, b, r), div_64(a, b, r)),
                            "{a:e} / {b:e} {r:?}"
                        );
                    }
                }
                for &a in &floats(13, 100) {
                    assert!(same_f32(sqrt(a, r), sqrt_32(a, a, r)), "sqrt {a:e} {r:?}");
                    for &b in &floats(15, 100) {
                        assert!(
                            same_f32(add(a, b, r), add_32(a, b, r)),
                            "{a:e} + {b:e} {r:?}"
                        );
                        assert!(
                            same_f32(mul(a, b, r), mul_32(a, b, r)),
                            "{a:e} * {b:e} {r:?}"
                        );
                        assert!(
                            same_f32(div(a, b, r), div_32(a, b, r)),
                            "{a:e} / {b:e} {r:?}"
                        );
                    }
                }
            }
        }
    }

    /// A directed fma is on its side of the nearest one, and adjacent to it unless
    /// that is exact.
    #[test]
    fn directed_fma_brackets_the_nearest() {
        let c = doubles(23, 200);
        for (i, &a) in doubles(21, 200).iter().enumerate() {
            for (j, &b) in doubles(22, 200).iter().enumerate() {
                let c = c[(i * 17 + j) % c.len()];
                let nearest = a.mul_add(b, c);
                let down = fma(a, b, c, Rounding::Down);
                let up = fma(a, b, c, Rounding::Up);
                if nearest.is_nan() {
                    assert!(down.is_nan() && up.is_nan());
                    continue;
                }
                assert!(down <= nearest && nearest <= up, "{a:e} * {b:e} + {c:e}");
                assert!(down == nearest || up == nearest);
                assert!(up == down || up == down.next_up(), "{down:e} {up:e}");
                let zero = fma(a, b, c, Rounding::Zero);
                assert_eq!(zero, if up <= 0.0 { up } else { down });
            }
        }
    }

    #[test]
    fn exact_zeros_have_the_sign_of_the_direction() {
        assert!(add(1.0_f64, -1.0, Rounding::Down).is_sign_negative());
        assert!(add(1.0_f64, -1.0, Rounding::Up).is_sign_positive());
        assert!(fma(2.0_f32, 3.0, -6.0, Rounding::Down).is_sign_negative());
    }
}
