//! Stochastic rounding, `cvt.rs`: to one of the two nearest numbers of a format, to the further one
//! from zero as often as the distance from the nearer one says, by random bits.

use super::exact::Format;

/// The formats to which numbers are rounded, with the number by which they are passed to the helper.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    F16 = 0,
    Bf16 = 1,
    E4m3 = 2,
    E5m2 = 3,
    E2m3 = 4,
    E3m2 = 5,
    E2m1 = 6,
}

impl Target {
    /// The format with this number, and how many random bits there are for a conversion to it.
    fn from_number(number: u32) -> (Format, i32) {
        match number {
            0 => (Format::F16, 13),
            1 => (Format::BF16, 16),
            2 => (Format::E4M3, 16),
            3 => (Format::E5M2, 16),
            4 => (Format::E2M3, 16),
            5 => (Format::E3M2, 16),
            _ => (Format::E2M1, 16),
        }
    }
}

/// The number of a format that `a` is rounded to, or the next one above the largest. The random bits
/// are added where the first bits that the format lacks are, and what carries is kept.
pub(crate) extern "C" fn round_stochastic(a: f32, random: u32, target: u32) -> f32 {
    let (format, count) = Target::from_number(target);
    let magnitude = a.to_bits() & 0x7FFF_FFFF;
    if magnitude == 0 || !a.is_finite() {
        return a;
    }
    // The number is so many units of a power of two.
    let (units, unit) = match magnitude >> 23 {
        0 => (magnitude, -149),
        exponent => (magnitude & 0x7F_FFFF | 1 << 23, exponent as i32 - 150),
    };
    let exponent = unit + 31 - units.leading_zeros() as i32;
    let kept_unit = format.unit(exponent);
    // Each format lacks as many bits as there are random ones, or more.
    let dropped = kept_unit - unit;
    let random = u64::from(random) & ((1 << count) - 1);
    // Carries come from what is not much less than a unit of the format alone.
    let kept = match dropped {
        ..=48 => (u64::from(units) + (random << (dropped - count))) >> dropped,
        _ => 0,
    };
    let power = f64::from_bits(((1023 + kept_unit) as u64) << 52);
    ((kept as f64 * power) as f32).copysign(a)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::convert::{f32_to_e4m3, f32_to_f16};

    /// The neighbours of a number, and how many of all random bits lead to the one that is further from
    /// zero.
    fn outcomes(a: f32, target: Target, bits: u32) -> (f32, f32, u32) {
        let round = |random| round_stochastic(a, random, target as u32);
        let (near, far) = (round(0), round(u32::MAX));
        let mut count = 0;
        for random in 0..1 << bits {
            let rounded = round(random);
            assert!(rounded == near || rounded == far, "{a} to {rounded}");
            count += u32::from(rounded != near);
        }
        (near, far, count)
    }

    #[test]
    fn as_often_as_the_distance_says() {
        use Target::*;
        // A quarter of the way from 1 to the next number.
        for (target, bits, step) in [
            (F16, 13, 1.0 / 1024.0),
            (Bf16, 16, 1.0 / 128.0),
            (E4m3, 16, 0.125),
            (E5m2, 16, 0.25),
            (E2m3, 16, 0.125),
            (E3m2, 16, 0.25),
            (E2m1, 16, 0.5),
        ] {
            for sign in [1.0, -1.0] {
                let found = outcomes(sign * (1.0 + step / 4.0), target, bits);
                assert_eq!(
                    found,
                    (sign, sign * (1.0 + step), 1 << (bits - 2)),
                    "{target:?}"
                );
                assert_eq!(outcomes(sign, target, bits), (sign, sign, 0), "{target:?}");
            }
        }
    }

    #[test]
    fn below_the_least_normal_number_and_above_the_largest() {
        use Target::*;
        let least = f32::exp2(-9.0);
        assert_eq!(outcomes(least * 0.75, E4m3, 16), (0.0, least, 3 << 14));
        assert_eq!(
            outcomes(least * 2.5, E4m3, 16),
            (least * 2.0, least * 3.0, 1 << 15)
        );
        // Too small for any random bits.
        assert_eq!(outcomes(f32::exp2(-60.0), E4m3, 16), (0.0, 0.0, 0));
        assert_eq!(
            outcomes(f32::exp2(-27.0), F16, 13),
            (0.0, f32::exp2(-24.0), 1 << 10)
        );
        let subnormal = f32::from_bits(0x18000);
        assert_eq!(
            outcomes(subnormal, Bf16, 16),
            (f32::from_bits(0x10000), f32::from_bits(0x20000), 1 << 15)
        );
        // What the conversion behind it makes the largest, or infinity.
        assert_eq!(outcomes(456.0, E4m3, 16), (448.0, 480.0, 1 << 14));
        assert_eq!(f32_to_e4m3(480.0), 0x7E);
        assert_eq!(outcomes(65520.0, F16, 13), (65504.0, 65536.0, 1 << 12));
        assert_eq!(f32_to_f16(65536.0, 0), 0x7C00);
        for a in [0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY] {
            assert_eq!(
                round_stochastic(a, u32::MAX, F16 as u32).to_bits(),
                a.to_bits()
            );
        }
        assert!(round_stochastic(f32::NAN, 5, E2m1 as u32).is_nan());
    }
}
