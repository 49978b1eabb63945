//! Arithmetic of f16 and bf16, each operation rounded once, to the nearest.

use super::approximate::{ex2, tanh};
use super::convert::{bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16, rounded_bf16, rounded_f16};
use super::rounding::Rounding;

const NEAREST: u32 = Rounding::Nearest as u32;

/// `a * b + c` with a last bit that says whether it is exact, so that rounding it
/// to less than 52 bits is rounding the exact value. The product of two halves
/// is exact in `f64`.
fn fma_to_odd(a: f32, b: f32, c: f32) -> f64 {
    let product = f64::from(a) * f64::from(b);
    let c = f64::from(c);
    let sum = product + c;
    // The exact rounding error of the sum (Knuth's two-sum).
    let back = sum - product;
    let lost = (product - (sum - back)) + (c - back);
    if lost == 0.0 || !sum.is_finite() || sum.to_bits() & 1 == 1 {
        return sum;
    }
    // Rounds to odd: of the two numbers around the exact value, the odd one.
    if (lost > 0.0) == (sum > 0.0) {
        f64::from_bits(sum.to_bits() + 1)
    } else {
        f64::from_bits(sum.to_bits() - 1)
    }
}

// f32 has more than twice the bits of either format plus two, so that rounding a
// sum or a product twice gives what rounding once would.

pub(crate) extern "C" fn add_f16(a: u32, b: u32) -> u32 {
    f32_to_f16(f16_to_f32(a) + f16_to_f32(b), NEAREST)
}

pub(crate) extern "C" fn mul_f16(a: u32, b: u32) -> u32 {
    f32_to_f16(f16_to_f32(a) * f16_to_f32(b), NEAREST)
}

pub(crate) extern "C" fn fma_f16(a: u32, b: u32, c: u32) -> u32 {
    rounded_f16(
        fma_to_odd(f16_to_f32(a), f16_to_f32(b), f16_to_f32(c)),
        NEAREST,
    )
}

pub(crate) extern "C" fn add_bf16(a: u32, b: u32) -> u32 {
    f32_to_bf16(bf16_to_f32(a) + bf16_to_f32(b), NEAREST)
}

pub(crate) extern "C" fn mul_bf16(a: u32, b: u32) -> u32 {
    // In f64: a subnormal product would have too few bits in f32.
    rounded_bf16(
        f64::from(bf16_to_f32(a)) * f64::from(bf16_to_f32(b)),
        NEAREST,
    )
}

pub(crate) extern "C" fn fma_bf16(a: u32, b: u32, c: u32) -> u32 {
    rounded_bf16(
        fma_to_odd(bf16_to_f32(a), bf16_to_f32(b), bf16_to_f32(c)),
        NEAREST,
    )
}

pub(crate) extern "C" fn ex2_f16(a: u32) -> u32 {
    rounded_f16(ex2(f16_to_f32(a)), NEAREST)
}

pub(crate) extern "C" fn ex2_bf16(a: u32) -> u32 {
    // This one exists with `.ftz` only.
    let subnormal = |bits: u32| bits & 0x7f80 == 0;
    let a = if subnormal(a) { a & 0x8000 } else { a };
    let result = rounded_bf16(ex2(bf16_to_f32(a)), NEAREST);
    if subnormal(result) {
        result & 0x8000
    } else {
        result
    }
}

pub(crate) extern "C" fn tanh_f16(a: u32) -> u32 {
    rounded_f16(tanh(f16_to_f32(a)), NEAREST)
}

pub(crate) extern "C" fn tanh_bf16(a: u32) -> u32 {
    rounded_bf16(tanh(bf16_to_f32(a)), NEAREST)
}

#[cfg(test)]
mod tests {
    use super::super::exact::{self, Format, Number};
    use super::*;

    fn random(count: usize) -> impl Iterator<Item = u32> {
        let mut state = 0x1234_5678_9abc_def1_u64;
        (0..count).map(move |_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 20) as u32
        })
    }

    fn number(bits: u32, format: Format) -> Number {
        Number::from_bits(bits.into(), format)
    }

    fn check(format: Format, a: u32, b: u32, c: u32, [sum, product, fused]: [u32; 3]) {
        let n = Rounding::Nearest;
        let [x, y, z] = [a, b, c].map(|bits| number(bits, format));
        let rounded = |number: Number| number.to_bits(format, n) as u32;
        assert_eq!(sum, rounded(exact::add(x, y, n)), "{a:#x} + {b:#x}");
        assert_eq!(product, rounded(exact::mul(x, y)), "{a:#x} * {b:#x}");
        assert_eq!(
            fused,
            rounded(exact::add(exact::mul(x, y), z, n)),
            "{a:#x} * {b:#x} + {c:#x}"
        );
    }

    /// Every value of one operand against some of the others.
    #[test]
    fn every_operand_gives_the_exact_result_rounded_once() {
        let others = [
            0x8000, 1, 0x3ff, 0x3c00, 0x7bff, 0x7c00, 0x7e00, 0x7f7f, 0xbc01,
        ];
        for a in 0..=0xffff_u32 {
            for (i, &b) in others.iter().enumerate() {
                let c = others[(i + a as usize) % others.len()];
                check(
                    Format::F16,
                    a,
                    b,
                    c,
                    [add_f16(a, b), mul_f16(a, b), fma_f16(a, b, c)],
                );
                check(
                    Format::BF16,
                    a,
                    b,
                    c,
                    [add_bf16(a, b), mul_bf16(a, b), fma_bf16(a, b, c)],
                );
            }
        }
    }

    #[test]
    fn random_operands_give_the_exact_result_rounded_once() {
        let mut values = random(600_000).map(|r| r & 0xffff);
        while let (Some(a), Some(b), Some(c)) = (values.next(), values.next(), values.next()) {
            check(
                Format::F16,
                a,
                b,
                c,
                [add_f16(a, b), mul_f16(a, b), fma_f16(a, b, c)],
            );
            check(
                Format::BF16,
                a,
                b,
                c,
                [add_bf16(a, b), mul_bf16(a, b), fma_bf16(a, b, c)],
            );
        }
    }

    /// Whether all values are within `places` of the last place, or `absolute`.
    #[test]
    fn approximations_are_close_for_every_value() {
        for bits in 0..=0xffff_u32 {
            let a = f64::from(f16_to_f32(bits));
            if a.is_nan() {
                assert_eq!((ex2_f16(bits), tanh_f16(bits)), (0x7fff, 0x7fff));
                continue;
            }
            let close = |found: f32, exact: f64, relative: f64, absolute: f64| {
                let error = (f64::from(found) - exact).abs();
                assert!(
                    error <= exact.abs() * relative + absolute,
                    "{a}: {found} {exact}"
                );
            };
            let power = a.exp2();
            if power < 65504.0 {
                close(
                    f16_to_f32(ex2_f16(bits)),
                    power,
                    2.0_f64.powi(-11),
                    2.0_f64.powi(-25),
                );
            }
            close(
                f16_to_f32(tanh_f16(bits)),
                a.tanh(),
                2.0_f64.powi(-10),
                2.0_f64.powi(-24),
            );
            let b = f64::from(bf16_to_f32(bits));
            if !b.is_nan() {
                close(
                    bf16_to_f32(tanh_bf16(bits)),
                    b.tanh(),
                    2.0_f64.powi(-8),
                    1e-38,
                );
            }
        }
        assert_eq!(
            (ex2_f16(0x7c00), ex2_f16(0xfc00), ex2_f16(0x8000)),
            (0x7c00, 0, 0x3c00)
        );
        assert_eq!(
            (ex2_bf16(0xff80), ex2_bf16(0xc2fe), ex2_bf16(0x0001)),
            (0, 0, 0x3f80)
        );
    }
}
