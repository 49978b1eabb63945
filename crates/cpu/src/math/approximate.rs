//! The approximations (`.approx`), within the errors that the PTX ISA states.
//!
//! The exact bits of a GPU cannot be computed without its tables. These results are
//! evaluated in `f64`, so that they are correctly rounded or off by one unit.

/// `2^a`, close to exact.
pub(super) fn ex2(a: f32) -> f64 {
    f64::from(a).exp2()
}

/// The hyperbolic tangent, close to exact.
pub(super) fn tanh(a: f32) -> f64 {
    f64::from(a).tanh()
}

/// Replaces a NaN by the GPU's canonical one.
fn canonical(value: f32) -> f32 {
    if value.is_nan() {
        f32::from_bits(0x7fff_ffff)
    } else {
        value
    }
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
        assert!(sqrt_approx_f32(-1.0).is_nan());
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
