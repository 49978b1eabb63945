//! Conversions in every rounding mode, each rounded once.

use super::exact::{Format, Number};
use super::rounding::Rounding;

fn number_f32(a: f32) -> Number {
    Number::from_bits(a.to_bits().into(), Format::F32)
}

fn number_f64(a: f64) -> Number {
    Number::from_bits(a.to_bits(), Format::F64)
}

fn number_i64(a: i64) -> Number {
    Number::from_integer(a < 0, a.unsigned_abs())
}

fn number_u64(a: u64) -> Number {
    Number::from_integer(false, a)
}

/// Rounds a number to a format of at most 32 bits.
fn narrow(number: Number, format: Format, rounding: u32) -> u32 {
    number.to_bits(format, Rounding::from_number(rounding)) as u32
}

pub(crate) extern "C" fn f64_to_f32(a: f64, rounding: u32) -> f32 {
    f32::from_bits(if a.is_nan() {
        narrow_nan(a, 32, 23)
    } else {
        narrow(number_f64(a), Format::F32, rounding)
    })
}

pub(crate) extern "C" fn i64_to_f32(a: i64, rounding: u32) -> f32 {
    f32::from_bits(narrow(number_i64(a), Format::F32, rounding))
}

pub(crate) extern "C" fn u64_to_f32(a: u64, rounding: u32) -> f32 {
    f32::from_bits(narrow(number_u64(a), Format::F32, rounding))
}

pub(crate) extern "C" fn i64_to_f64(a: i64, rounding: u32) -> f64 {
    f64::from_bits(number_i64(a).to_bits(Format::F64, Rounding::from_number(rounding)))
}

pub(crate) extern "C" fn u64_to_f64(a: u64, rounding: u32) -> f64 {
    f64::from_bits(number_u64(a).to_bits(Format::F64, Rounding::from_number(rounding)))
}

pub(crate) extern "C" fn integral_f32(a: f32, rounding: u32) -> f32 {
    match Rounding::from_number(rounding) {
        Rounding::Nearest => a.round_ties_even(),
        Rounding::Zero => a.trunc(),
        Rounding::Down => a.floor(),
        Rounding::Up => a.ceil(),
        Rounding::Away => a.round(),
    }
}

pub(crate) extern "C" fn integral_f64(a: f64, rounding: u32) -> f64 {
    match Rounding::from_number(rounding) {
        Rounding::Nearest => a.round_ties_even(),
        Rounding::Zero => a.trunc(),
        Rounding::Down => a.floor(),
        Rounding::Up => a.ceil(),
        Rounding::Away => a.round(),
    }
}

pub(crate) extern "C" fn f64_to_int(a: f64, bits: u32, rounding: u32) -> i64 {
    if a.is_nan() {
        return if bits >= 64 { i64::MIN } else { 0 };
    }
    // The cast clamps to 64 bits.
    let value = integral_f64(a, rounding) as i64;
    let most = i64::MAX >> (64 - bits.clamp(1, 64));
    value.clamp(-most - 1, most)
}

pub(crate) extern "C" fn f64_to_uint(a: f64, bits: u32, rounding: u32) -> u64 {
    if a.is_nan() {
        return if bits >= 64 { 1 << 63 } else { 0 };
    }
    (integral_f64(a, rounding) as u64).min(u64::MAX >> (64 - bits.clamp(1, 64)))
}

pub(crate) extern "C" fn f32_to_tf32(a: f32, rounding: u32) -> f32 {
    // GPUs truncate a NaN like any number, so that one whose payload is in the low bits becomes
    // an infinity. The other rounding modes return the canonical NaN.
    if a.is_nan() && rounding == Rounding::Away as u32 {
        return f32::from_bits(a.to_bits() & !0x1FFF);
    }
    f32::from_bits(narrow(number_f32(a), Format::TF32, rounding) << 13)
}

pub(crate) extern "C" fn f16_to_f32(a: u32) -> f32 {
    let sign = (a & 0x8000) << 16;
    let magnitude = a & 0x7fff;
    match magnitude {
        // Subnormal: the product is exact.
        0..0x0400 => f32::from_bits((magnitude as f32 * 2.0_f32.powi(-24)).to_bits() | sign),
        0x0400..0x7c00 => f32::from_bits(sign | ((magnitude << 13) + (112 << 23))),
        0x7c00 => f32::from_bits(sign | 0x7f80_0000),
        _ => f32::from_bits(0x7fff_ffff),
    }
}

pub(crate) extern "C" fn bf16_to_f32(a: u32) -> f32 {
    f32::from_bits(a << 16)
}

pub(crate) extern "C" fn f32_to_f16(a: f32, rounding: u32) -> u32 {
    let bits = a.to_bits();
    let magnitude = bits & 0x7fff_ffff;
    // Fast path: normal results, rounded to the nearest.
    if rounding == Rounding::Nearest as u32 && (0x3880_0000..0x477f_f000).contains(&magnitude) {
        let rebased = magnitude - (112 << 23);
        let rounded = rebased + 0xfff + (rebased >> 13 & 1);
        return bits >> 16 & 0x8000 | rounded >> 13;
    }
    narrow(number_f32(a), Format::F16, rounding)
}

pub(crate) extern "C" fn f32_to_bf16(a: f32, rounding: u32) -> u32 {
    let bits = a.to_bits();
    if rounding == Rounding::Nearest as u32 && !a.is_nan() {
        // The largest numbers round up to infinity by themselves.
        return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    }
    narrow(number_f32(a), Format::BF16, rounding)
}

/// A NaN of fewer bits, as GPUs convert an `f64`: quiet, with the sign and the upper part of the
/// payload.
fn narrow_nan(a: f64, bits: u32, fraction: u32) -> u32 {
    let exponent_and_quiet = (1 << (bits - fraction)) - 1;
    let sign = u32::from(a.is_sign_negative()) << (bits - 1);
    let payload = (a.to_bits() & ((1 << 52) - 1)) >> (52 - fraction);
    sign | exponent_and_quiet << (fraction - 1) | payload as u32
}

/// `cvt.f16.f64`.
pub(crate) extern "C" fn f64_to_f16(a: f64, rounding: u32) -> u32 {
    if a.is_nan() {
        narrow_nan(a, 16, 10)
    } else {
        rounded_f16(a, rounding)
    }
}

/// A number that was computed for a half, whose NaN is canonical.
pub(super) fn rounded_f16(a: f64, rounding: u32) -> u32 {
    narrow(number_f64(a), Format::F16, rounding)
}

/// `cvt.bf16.f64`.
pub(crate) extern "C" fn f64_to_bf16(a: f64, rounding: u32) -> u32 {
    if a.is_nan() {
        narrow_nan(a, 16, 7)
    } else {
        rounded_bf16(a, rounding)
    }
}

/// The same for `bf16`.
pub(super) fn rounded_bf16(a: f64, rounding: u32) -> u32 {
    narrow(number_f64(a), Format::BF16, rounding)
}

pub(crate) extern "C" fn i64_to_f16(a: i64, rounding: u32) -> u32 {
    narrow(number_i64(a), Format::F16, rounding)
}

pub(crate) extern "C" fn u64_to_f16(a: u64, rounding: u32) -> u32 {
    narrow(number_u64(a), Format::F16, rounding)
}

pub(crate) extern "C" fn i64_to_bf16(a: i64, rounding: u32) -> u32 {
    narrow(number_i64(a), Format::BF16, rounding)
}

pub(crate) extern "C" fn u64_to_bf16(a: u64, rounding: u32) -> u32 {
    narrow(number_u64(a), Format::BF16, rounding)
}

/// Rounds to at most 8 bits. Values that are too large become the largest finite value,
/// `most`.
fn saturating(a: f32, format: Format, most: u32) -> u32 {
    if a.is_nan() {
        // Formats without a NaN have their largest number instead.
        return format.nan() as u32;
    }
    let negative = u32::from(a.is_sign_negative());
    let magnitude = narrow(number_f32(a.abs()), format, Rounding::Nearest as u32);
    let sign = negative * (format.nan() as u32 + 1);
    sign | magnitude.min(most)
}

pub(crate) extern "C" fn f32_to_e2m3(a: f32) -> u32 {
    saturating(a, Format::E2M3, 0x1f)
}

pub(crate) extern "C" fn f32_to_e3m2(a: f32) -> u32 {
    saturating(a, Format::E3M2, 0x1f)
}

pub(crate) extern "C" fn f32_to_e2m1(a: f32) -> u32 {
    saturating(a, Format::E2M1, 0x7)
}

/// The power of two that is nearest to a magnitude in the direction of the rounding. The
/// largest is 2^127, and NaN is all ones.
pub(crate) extern "C" fn f32_to_ue8m0(a: f32, rounding: u32) -> u32 {
    if a.is_nan() {
        return 0xff;
    }
    let bits = a.to_bits() & 0x7fff_ffff;
    let (exponent, fraction) = (bits >> 23, bits & 0x7f_ffff);
    // The least power is 2^-127, which f32 has among its subnormal numbers.
    let above = match exponent {
        0 => fraction > 1 << 22,
        _ => fraction != 0,
    };
    let up = Rounding::from_number(rounding) == Rounding::Up && above;
    (exponent + u32::from(up)).min(0xfe)
}

pub(crate) extern "C" fn ue8m0_to_bf16(a: u32) -> u32 {
    match a & 0xff {
        0 => 0x40,
        0xff => Format::BF16.nan() as u32,
        exponent => exponent << 7,
    }
}

pub(crate) extern "C" fn e2m3_to_f16(a: u32) -> u32 {
    narrow(
        Number::from_bits(u64::from(a & 0x3f), Format::E2M3),
        Format::F16,
        0,
    )
}

pub(crate) extern "C" fn e3m2_to_f16(a: u32) -> u32 {
    narrow(
        Number::from_bits(u64::from(a & 0x3f), Format::E3M2),
        Format::F16,
        0,
    )
}

pub(crate) extern "C" fn e2m1_to_f16(a: u32) -> u32 {
    narrow(
        Number::from_bits(u64::from(a & 0xf), Format::E2M1),
        Format::F16,
        0,
    )
}

pub(crate) extern "C" fn f32_to_e4m3(a: f32) -> u32 {
    saturating(a, Format::E4M3, 0x7e)
}

pub(crate) extern "C" fn f32_to_e5m2(a: f32) -> u32 {
    saturating(a, Format::E5M2, 0x7b)
}

pub(crate) extern "C" fn e4m3_to_f16(a: u32) -> u32 {
    if a & 0x7f == 0x7f {
        return Format::F16.nan() as u32;
    }
    narrow(
        Number::from_bits(u64::from(a & 0xff), Format::E4M3),
        Format::F16,
        0,
    )
}

pub(crate) extern "C" fn e5m2_to_f16(a: u32) -> u32 {
    // The upper half of an f16.
    let bits = (a & 0xff) << 8;
    if bits & 0x7fff > 0x7c00 {
        Format::F16.nan() as u32
    } else {
        bits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEAREST: u32 = Rounding::Nearest as u32;
    const ZERO: u32 = Rounding::Zero as u32;
    const DOWN: u32 = Rounding::Down as u32;
    const UP: u32 = Rounding::Up as u32;
    const AWAY: u32 = Rounding::Away as u32;

    fn random(count: usize) -> impl Iterator<Item = u64> {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        (0..count).map(move |_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        })
    }

    /// Value of an f16 or bf16 straight from its definition.
    fn value(bits: u32, exponent_bits: u32, fraction_bits: u32) -> f64 {
        let sign = if bits >> 15 & 1 == 1 { -1.0 } else { 1.0 };
        let exponent = (bits >> fraction_bits & ((1 << exponent_bits) - 1)) as i32;
        let fraction = f64::from(bits & ((1 << fraction_bits) - 1));
        let bias = (1 << (exponent_bits - 1)) - 1;
        let unit = 2.0_f64.powi(-(fraction_bits as i32));
        match exponent {
            0 => sign * fraction * unit * 2.0_f64.powi(1 - bias),
            e if e == 2 * bias + 1 => {
                if fraction == 0.0 {
                    sign * f64::INFINITY
                } else {
                    f64::NAN
                }
            }
            e => sign * (1.0 + fraction * unit) * 2.0_f64.powi(e - bias),
        }
    }

    #[test]
    fn every_half_has_its_value_and_comes_back() {
        for bits in 0..=0xffff_u32 {
            let (half, brain) = (value(bits, 5, 10), value(bits, 8, 7));
            if half.is_nan() {
                assert!(f16_to_f32(bits).is_nan());
                assert_eq!(f32_to_f16(f16_to_f32(bits), NEAREST), 0x7fff);
            } else {
                assert_eq!(
                    f64::from(f16_to_f32(bits)).to_bits(),
                    half.to_bits(),
                    "{bits:#x}"
                );
                for rounding in [NEAREST, ZERO, DOWN, UP, AWAY] {
                    assert_eq!(f32_to_f16(f16_to_f32(bits), rounding), bits);
                    assert_eq!(f64_to_f16(half, rounding), bits);
                }
            }
            if brain.is_nan() {
                assert!(bf16_to_f32(bits).is_nan());
                assert_eq!(f32_to_bf16(bf16_to_f32(bits), NEAREST), 0x7fff);
            } else {
                assert_eq!(
                    f64::from(bf16_to_f32(bits)).to_bits(),
                    brain.to_bits(),
                    "{bits:#x}"
                );
                for rounding in [NEAREST, ZERO, DOWN, UP, AWAY] {
                    assert_eq!(f32_to_bf16(bf16_to_f32(bits), rounding), bits);
                    assert_eq!(f64_to_bf16(brain, rounding), bits);
                }
            }
        }
    }

    /// Between each two neighbours: below, at and above the middle.
    #[test]
    fn between_neighbours_each_direction_chooses_right() {
        type Convert = extern "C" fn(f64, u32) -> u32;
        let formats: [(Convert, u32, u32); 2] = [(f64_to_f16, 5, 10), (f64_to_bf16, 8, 7)];
        for (convert, exponent_bits, fraction_bits) in formats {
            let infinity = ((1 << exponent_bits) - 1) << fraction_bits;
            for low in 0..infinity {
                let high = low + 1;
                let at = value(low, exponent_bits, fraction_bits);
                // Where infinity is, rounding sees the next power of two.
                let next = if high == infinity {
                    2.0 * value(
                        infinity - (1 << fraction_bits),
                        exponent_bits,
                        fraction_bits,
                    )
                } else {
                    value(high, exponent_bits, fraction_bits)
                };
                let middle = at + (next - at) / 2.0;
                let even = if low % 2 == 0 { low } else { high };
                for (x, nearest, away) in [
                    (middle.next_down(), low, low),
                    (middle, even, high),
                    (middle.next_up(), high, high),
                ] {
                    let negative = 0x8000;
                    assert_eq!(convert(x, NEAREST), nearest, "{x:e}");
                    assert_eq!(convert(x, AWAY), away);
                    assert_eq!(convert(x, ZERO), low);
                    assert_eq!(convert(x, DOWN), low);
                    assert_eq!(convert(x, UP), high);
                    assert_eq!(convert(-x, DOWN), high | negative);
                    assert_eq!(convert(-x, UP), low | negative);
                    assert_eq!(convert(-x, NEAREST), nearest | negative);
                }
            }
        }
    }

    #[test]
    fn fast_paths_agree_with_the_exact_conversion() {
        for bits in random(1_000_000)
            .map(|r| r as u32)
            .chain((0..0x1_0000).map(|n| 0x3870_0000 + n * 0x1001))
        {
            let a = f32::from_bits(bits);
            assert_eq!(
                f32_to_f16(a, NEAREST),
                narrow(number_f32(a), Format::F16, NEAREST),
                "{bits:#x}"
            );
            assert_eq!(
                f32_to_bf16(a, NEAREST),
                narrow(number_f32(a), Format::BF16, NEAREST),
                "{bits:#x}"
            );
        }
    }

    #[test]
    fn nearest_agrees_with_the_host() {
        for bits in random(300_000) {
            let a = f64::from_bits(bits);
            let near = f64::from_bits(bits >> 12 | (1023 - bits % 160) << 52);
            for a in [a, near] {
                let expected = a as f32;
                let found = f64_to_f32(a, NEAREST);
                assert!(
                    found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan(),
                    "{a:e}"
                );
            }
            let integer = bits >> (bits % 64);
            assert_eq!(u64_to_f32(integer, NEAREST), integer as f32);
            assert_eq!(u64_to_f64(integer, NEAREST), integer as f64);
            let integer = bits.cast_signed() >> (bits % 64);
            assert_eq!(i64_to_f32(integer, NEAREST), integer as f32);
            assert_eq!(i64_to_f64(integer, NEAREST), integer as f64);
        }
    }

    #[test]
    fn directions_bracket_integers() {
        for bits in random(100_000) {
            let (down, up) = (
                i64_to_f64(bits.cast_signed(), DOWN),
                i64_to_f64(bits.cast_signed(), UP),
            );
            assert!(
                down as i128 <= i128::from(bits.cast_signed())
                    && up as i128 >= i128::from(bits.cast_signed())
            );
            assert!(up == down || up == down.next_up());
            let (down, up) = (u64_to_f32(bits, DOWN), u64_to_f32(bits, UP));
            assert!(down as u128 <= u128::from(bits) && up as u128 >= u128::from(bits));
            assert!(up == down || up == down.next_up());
            assert_eq!(u64_to_f32(bits, ZERO), down);
        }
        assert_eq!(i64_to_f16(65520, NEAREST), 0x7c00);
        assert_eq!(i64_to_f16(-65520, ZERO), 0xfbff);
        assert_eq!(u64_to_bf16(257, UP), f32_to_bf16(258.0, NEAREST));
    }

    #[test]
    fn to_integers() {
        assert_eq!(
            [NEAREST, ZERO, DOWN, UP].map(|r| f64_to_int(2.5, 32, r)),
            [2, 2, 2, 3]
        );
        assert_eq!(
            [NEAREST, ZERO, DOWN, UP].map(|r| f64_to_int(-2.5, 32, r)),
            [-2, -2, -3, -2]
        );
        assert_eq!(f64_to_int(1e10, 32, ZERO), i64::from(i32::MAX));
        assert_eq!(f64_to_int(-300.0, 8, ZERO), -128);
        assert_eq!(f64_to_int(f64::NEG_INFINITY, 64, ZERO), i64::MIN);
        assert_eq!(f64_to_uint(-1.0, 32, ZERO), 0);
        assert_eq!(f64_to_uint(300.0, 8, ZERO), 255);
        assert_eq!(f64_to_uint(1e30, 64, ZERO), u64::MAX);
        assert_eq!(
            (
                f64_to_int(f64::NAN, 32, ZERO),
                f64_to_int(f64::NAN, 64, ZERO)
            ),
            (0, i64::MIN)
        );
        assert_eq!(
            (
                f64_to_uint(f64::NAN, 16, ZERO),
                f64_to_uint(f64::NAN, 64, ZERO)
            ),
            (0, 1 << 63)
        );
    }

    #[test]
    fn tf32_keeps_ten_bits() {
        assert_eq!(
            f32_to_tf32(1.0 + 2.0_f32.powi(-11), AWAY),
            1.0 + 2.0_f32.powi(-10)
        );
        assert_eq!(f32_to_tf32(1.0 + 2.0_f32.powi(-11), NEAREST), 1.0);
        assert_eq!(f32_to_tf32(f32::MAX, AWAY), f32::INFINITY);
        assert_eq!(f32_to_tf32(f32::MAX, ZERO).to_bits(), 0x7f7f_e000);
        assert!(f32_to_tf32(f32::NAN, AWAY).is_nan());
        for bits in random(10_000) {
            let a = f32::from_bits(bits as u32);
            if a.is_finite() {
                assert_eq!(
                    f32_to_tf32(a, AWAY).to_bits(),
                    (a.to_bits() + 0x1000) & !0x1fff,
                    "{a:e}"
                );
            }
        }
    }

    #[test]
    fn floats_of_four_and_six_bits() {
        type Way = (extern "C" fn(f32) -> u32, extern "C" fn(u32) -> u32);
        let ways: [(Way, u32, f32); 3] = [
            ((f32_to_e2m3, e2m3_to_f16), 0x20, 7.5),
            ((f32_to_e3m2, e3m2_to_f16), 0x20, 28.0),
            ((f32_to_e2m1, e2m1_to_f16), 0x8, 6.0),
        ];
        for ((narrow, widen), sign, most) in ways {
            for bits in 0..2 * sign {
                assert_eq!(narrow(f16_to_f32(widen(bits))), bits);
            }
            assert_eq!(f16_to_f32(widen(sign - 1)), most);
            assert_eq!(f16_to_f32(widen(narrow(f32::NEG_INFINITY))), -most);
            assert_eq!(f16_to_f32(widen(narrow(f32::NAN))), most);
        }
        let numbers = [0.0, 0.25, 0.26, 0.75, 1.25, 2.5, 2.6, 3.5, 5.0, 5.1];
        let expected = [0.0, 0.0, 0.5, 1.0, 1.0, 2.0, 3.0, 4.0, 4.0, 6.0];
        let rounded = numbers.map(|number| f16_to_f32(e2m1_to_f16(f32_to_e2m1(number))));
        assert_eq!(rounded, expected);
    }

    #[test]
    fn powers_of_two_in_eight_bits() {
        for bits in 0..255 {
            let value = bf16_to_f32(ue8m0_to_bf16(bits));
            assert_eq!(f64::from(value), 2.0_f64.powi(bits as i32 - 127));
            assert_eq!([ZERO, UP].map(|r| f32_to_ue8m0(value, r)), [bits; 2]);
            let next = value.next_up();
            assert_eq!(
                [ZERO, UP].map(|r| f32_to_ue8m0(next, r)),
                [bits, (bits + 1).min(254)]
            );
        }
        assert_eq!(f32_to_ue8m0(f32::NAN, UP), 0xff);
        assert!(bf16_to_f32(ue8m0_to_bf16(0xff)).is_nan());
    }

    #[test]
    fn eight_bit_floats() {
        let e4m3 = |bits: u32| f16_to_f32(e4m3_to_f16(bits));
        assert_eq!(
            (e4m3(0x7e), e4m3(0x01), e4m3(0x38), e4m3(0xc0)),
            (448.0, 2.0_f32.powi(-9), 1.0, -2.0)
        );
        assert!(e4m3(0x7f).is_nan() && e4m3(0xff).is_nan());
        assert_eq!(
            (f32_to_e4m3(1e9), f32_to_e4m3(-470.0), f32_to_e4m3(f32::NAN)),
            (0x7e, 0xfe, 0x7f)
        );
        assert_eq!(
            (f32_to_e5m2(1e9), f32_to_e5m2(f32::NEG_INFINITY)),
            (0x7b, 0xfb)
        );
        for bits in 0..256 {
            if bits & 0x7f != 0x7f {
                assert_eq!(f32_to_e4m3(e4m3(bits)), bits);
            }
            let wide = f16_to_f32(e5m2_to_f16(bits));
            if wide.is_finite() {
                assert_eq!(f32_to_e5m2(wide), bits);
            }
        }
    }
}
