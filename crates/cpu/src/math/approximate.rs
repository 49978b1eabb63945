//! The approximations (`.approx`), within the errors that the PTX ISA states.
//!
//! The exact bits of a GPU cannot be computed without its tables. These results are
//! evaluated in `f64`, so that they are correctly rounded or off by one unit.

/// `2^a`, close to exact: within 2^-45 of it, so that an `f32` of it is nearly always the nearest.
///
/// Without branches, so that loops over it are vectorized.
#[inline(always)]
pub(super) fn ex2(a: f32) -> f64 {
    /// A sum with it has the other summand as an integer in its lowest bits.
    const INTEGER: f64 = 6_755_399_441_055_744.0;
    /// Beyond it, results are 0 or infinite in all formats.
    const MOST: f64 = 200.0;
    /// `ln(2)^k / k!`, from the highest power on.
    const TERMS: [f64; 12] = [
        4.445_538_271_870_811e-10,
        7.054_911_620_801_121e-9,
        1.017_808_600_923_97e-7,
        1.321_548_679_014_430_7e-6,
        1.525_273_380_405_984e-5,
        1.540_353_039_338_161e-4,
        1.333_355_814_642_844_3e-3,
        9.618_129_107_628_477e-3,
        5.550_410_866_482_158e-2,
        0.240_226_506_959_100_7,
        std::f64::consts::LN_2,
        1.0,
    ];
    let x = f64::from(a);
    let x = if x > MOST { MOST } else { x };
    let x = if x < -MOST { -MOST } else { x };
    let sum = x + INTEGER;
    let rest = x - (sum - INTEGER);
    let mut power = TERMS[0];
    for term in &TERMS[1..] {
        power = power * rest + term;
    }
    // NaN stays in `power`.
    power * f64::from_bits(sum.to_bits().wrapping_add(1023) << 52)
}

/// The hyperbolic tangent, close to exact.
pub(super) fn tanh(a: f32) -> f64 {
    f64::from(a).tanh()
}

/// Replaces a NaN by the GPU's canonical one. By its bits: LLVM may take one NaN for another, and
/// leaves a comparison of floats out.
#[inline(always)]
fn canonical(value: f32) -> f32 {
    let bits = value.to_bits();
    f32::from_bits(if bits & 0x7fff_ffff > 0x7f80_0000 {
        0x7fff_ffff
    } else {
        bits
    })
}

/// Applies `function` to the upper 32 bits of `a`, and returns the upper 32 bits of the
/// result. The lower bits of both are 0, and subnormals are flushed. So a NaN whose payload
/// is in the lower bits counts as infinity.
fn of_upper_half(a: f64, function: impl Fn(f64) -> f64) -> f64 {
    let upper = |value: f64| match value {
        _ if value.is_subnormal() => 0.0_f64.copysign(value),
        _ if value.is_nan() => f64::from_bits(0x7fff_ffff_0000_0000),
        _ => f64::from_bits(value.to_bits() & 0xffff_ffff_0000_0000),
    };
    let a = f64::from_bits(a.to_bits() & 0xffff_ffff_0000_0000);
    upper(function(upper(a)))
}

pub(crate) extern "C" fn ex2_f32(a: f32) -> f32 {
    canonical(ex2(a) as f32)
}

/// [`ex2_f32`] of `count` values. Returns 0.
///
/// # Safety
/// There are so many values, and nothing else accesses them.
pub(crate) unsafe extern "C" fn ex2_lanes(values: *mut f32, count: u32) -> u32 {
    // SAFETY: the caller's contract.
    let values = unsafe { std::slice::from_raw_parts_mut(values, count as usize) };
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512dq") {
        // SAFETY: the processor has the instructions.
        unsafe { ex2_lanes_avx512(values) };
        return 0;
    } else if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has the instructions.
        unsafe { ex2_lanes_avx2(values) };
        return 0;
    }
    ex2_all(values);
    0
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512dq")]
unsafe fn ex2_lanes_avx512(values: &mut [f32]) {
    ex2_all(values);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn ex2_lanes_avx2(values: &mut [f32]) {
    ex2_all(values);
}

#[inline(always)]
fn ex2_all(values: &mut [f32]) {
    for value in values {
        *value = canonical(ex2(*value) as f32);
    }
}

pub(crate) extern "C" fn lg2_f32(a: f32) -> f32 {
    canonical(f64::from(a).log2() as f32)
}

pub(crate) extern "C" fn sin_f32(a: f32) -> f32 {
    canonical(f64::from(a).sin() as f32)
}

pub(crate) extern "C" fn cos_f32(a: f32) -> f32 {
    canonical(f64::from(a).cos() as f32)
}

pub(crate) extern "C" fn tanh_f32(a: f32) -> f32 {
    canonical(tanh(a) as f32)
}

pub(crate) extern "C" fn rsqrt_f32(a: f32) -> f32 {
    canonical((1.0 / f64::from(a).sqrt()) as f32)
}

pub(crate) extern "C" fn rcp_f32(a: f32) -> f32 {
    canonical(1.0 / a)
}

pub(crate) extern "C" fn sqrt_approx_f32(a: f32) -> f32 {
    canonical(a.sqrt())
}

/// `div.approx`: multiplies by the reciprocal of `b`, which is flushed to zero for `b` above
/// 2^126.
pub(crate) extern "C" fn div_approx_f32(a: f32, b: f32) -> f32 {
    const LARGEST: f32 = f32::from_bits((126 + 127) << 23);
    if b.abs() > LARGEST {
        return canonical(a * 0.0_f32.copysign(b));
    }
    canonical(a / b)
}

pub(crate) extern "C" fn rcp_approx_f64(a: f64) -> f64 {
    of_upper_half(a, |a| 1.0 / a)
}

pub(crate) extern "C" fn rsqrt_f64(a: f64) -> f64 {
    1.0 / a.sqrt()
}

pub(crate) extern "C" fn rsqrt_approx_f64(a: f64) -> f64 {
    of_upper_half(a, |a| rsqrt_f64(a))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tables of special values in the PTX ISA.
    #[test]
    fn special_values() {
        let (zero, inf) = (0.0_f32, f32::INFINITY);
        assert_eq!(
            [-inf, -0.0, 0.0, inf].map(|x| ex2_f32(x)),
            [0.0, 1.0, 1.0, inf]
        );
        assert_eq!([-0.0, 0.0, inf].map(|x| lg2_f32(x)), [-inf, -inf, inf]);
        assert!(
            [-1.0, -inf, f32::NAN]
                .map(|x| lg2_f32(x))
                .iter()
                .all(|x| x.to_bits() == 0x7fff_ffff)
        );
        assert!(
            [inf, -inf, f32::NAN]
                .map(|x| sin_f32(x))
                .iter()
                .all(|x| x.is_nan())
        );
        assert!(
            [inf, -inf, f32::NAN]
                .map(|x| cos_f32(x))
                .iter()
                .all(|x| x.is_nan())
        );
        assert_eq!(sin_f32(-0.0).to_bits(), (-zero).to_bits());
        assert_eq!([0.0, -0.0].map(|x| cos_f32(x)), [1.0, 1.0]);
        assert_eq!([-inf, inf].map(|x| tanh_f32(x)), [-1.0, 1.0]);
        assert_eq!([-0.0, 0.0, inf].map(|x| rsqrt_f32(x)), [-inf, inf, 0.0]);
        assert!(rsqrt_f32(-1.0).is_nan());
        assert_eq!([-0.0, 0.0, inf].map(|x| rcp_f32(x)), [-inf, inf, 0.0]);
        assert_eq!(sqrt_approx_f32(-1.0).to_bits(), 0x7FFF_FFFF);
        assert_eq!(sqrt_approx_f32(-0.0).to_bits(), (-zero).to_bits());
        assert_eq!(rcp_approx_f64(5e-324), f64::INFINITY);
        assert_eq!(rsqrt_approx_f64(-5e-324), f64::NEG_INFINITY);
        assert_eq!(rcp_approx_f64(f64::MAX), 0.0);
        // Only the upper halves count, where this NaN is an infinity.
        let low_payload = f64::from_bits(0xfff0_0000_0000_0001);
        assert_eq!(rcp_approx_f64(low_payload).to_bits(), 1 << 63);
        assert!(rsqrt_approx_f64(low_payload).is_nan());
        assert_eq!(rsqrt_approx_f64(-low_payload), 0.0);
        let large = 2.0_f32.powi(127);
        assert_eq!(div_approx_f32(-2.0, large).to_bits(), (-zero).to_bits());
        assert_eq!(div_approx_f32(2.0, large / 2.0), 2.0_f32.powi(-125));
        assert_eq!(div_approx_f32(2.0, inf), 0.0);
        assert!(div_approx_f32(inf, large).is_nan());
    }

    #[test]
    fn halves_of_doubles_are_within_their_error() {
        for i in 1..10_000 {
            let a = f64::from(i) * 0.37;
            for (found, exact) in [
                (rcp_approx_f64(a), 1.0 / a),
                (rsqrt_approx_f64(a), 1.0 / a.sqrt()),
            ] {
                assert_eq!(found.to_bits() & 0xffff_ffff, 0);
                assert!(((found - exact) / exact).abs() < 2.0_f64.powi(-20));
            }
        }
    }

    /// `f32` results against the same function with more digits.
    #[test]
    fn results_are_the_nearest() {
        for i in 0..20_000 {
            let a = (i as f32 - 10_000.0) * 0.0123;
            assert_eq!(ex2_f32(a), libm::exp2(f64::from(a)) as f32, "ex2 {a}");
            let close =
                |found: f32, exact: f64| (f64::from(found) - exact).abs() <= exact.abs() * 6.1e-8;
            assert!(close(sin_f32(a), libm::sin(a.into())), "sin {a}");
            assert!(close(cos_f32(a), libm::cos(a.into())), "cos {a}");
            assert!(close(tanh_f32(a), libm::tanh(a.into())), "tanh {a}");
            if a > 0.0 {
                assert!(close(lg2_f32(a), libm::log2(a.into())), "lg2 {a}");
            }
        }
    }
}
