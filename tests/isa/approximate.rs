//! Approximations, and how far the PTX ISA lets them be from the exact value.

/// How much two results of a body may differ.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// Not at all; two NaNs are the same.
    Exact,
    /// Units in the last place of an `f32`.
    Ulps(u32),
    Relative(f64),
    Absolute(f64),
    /// The PTX ISA says nothing of this input.
    Unspecified,
}

/// Instructions and the bound of each input `x` (and `y`).
type Approximation = (&'static str, fn(f64, f64) -> Bound);

/// Bodies of approximations. Bounds are from each instruction's section.
pub const APPROXIMATIONS: &[Approximation] = &[
    ("rcp.approx.f32 %fd, %f0;", |_, _| Bound::Ulps(1)),
    ("rcp.approx.ftz.f32 %fd, %f0;", |_, _| Bound::Ulps(1)),
    ("sqrt.approx.f32 %fd, %f0;", |_, _| {
        Bound::Relative(TWO_TO_MINUS_23)
    }),
    ("sqrt.approx.ftz.f32 %fd, %f0;", |_, _| {
        Bound::Relative(TWO_TO_MINUS_23)
    }),
    ("rsqrt.approx.f32 %fd, %f0;", |_, _| {
        Bound::Relative(1.278e-7)
    }),
    ("rsqrt.approx.ftz.f32 %fd, %f0;", |_, _| {
        Bound::Relative(1.278e-7)
    }),
    ("div.approx.f32 %fd, %f0, %f1;", quotient),
    ("div.approx.ftz.f32 %fd, %f0, %f1;", quotient),
    ("div.full.f32 %fd, %f0, %f1;", |_, _| Bound::Ulps(2)),
    ("div.full.ftz.f32 %fd, %f0, %f1;", |_, _| Bound::Ulps(2)),
    ("sin.approx.f32 %fd, %f0;", wave),
    ("sin.approx.ftz.f32 %fd, %f0;", wave),
    ("cos.approx.f32 %fd, %f0;", wave),
    ("cos.approx.ftz.f32 %fd, %f0;", wave),
    ("lg2.approx.f32 %fd, %f0;", logarithm),
    ("lg2.approx.ftz.f32 %fd, %f0;", logarithm),
    ("ex2.approx.f32 %fd, %f0;", |_, _| Bound::Ulps(2)),
    ("ex2.approx.ftz.f32 %fd, %f0;", |_, _| Bound::Ulps(2)),
    ("tanh.approx.f32 %fd, %f0;", |_, _| {
        Bound::Relative(4.883e-4)
    }),
    ("ex2.approx.f16 %hd, %h0;", |_, _| Bound::Relative(1.047e-3)),
    ("ex2.approx.ftz.bf16 %hd, %h0;", |_, _| {
        Bound::Relative(7.813e-3)
    }),
    ("tanh.approx.f16 %hd, %h0;", |_, _| {
        Bound::Absolute(4.928e-4)
    }),
    ("tanh.approx.bf16 %hd, %h0;", |_, _| {
        Bound::Relative(3.907e-3)
    }),
    ("rcp.approx.ftz.f64 %gd, %g0;", |_, _| {
        Bound::Relative(9.537e-7)
    }),
    ("rsqrt.approx.ftz.f64 %gd, %g0;", |_, _| {
        Bound::Relative(9.537e-7)
    }),
    ("rsqrt.approx.f64 %gd, %g0;", |_, _| Bound::Relative(1e-15)),
];

const TWO_TO_MINUS_23: f64 = 1.193e-7;

fn quotient(_: f64, divisor: f64) -> Bound {
    // Below 2^-126 nothing is said; above 2^126 results are named.
    if divisor != 0.0 && divisor.abs() < f64::from(f32::MIN_POSITIVE) {
        Bound::Unspecified
    } else {
        Bound::Ulps(2)
    }
}

fn wave(angle: f64, _: f64) -> Bound {
    use std::f64::consts::PI;
    match angle.abs() {
        a if a <= 2.0 * PI => Bound::Absolute(6.744e-7), // 2^-20.5
        a if a <= 100.0 * PI => Bound::Absolute(3.757e-5), // 2^-14.7
        a if a.is_finite() => Bound::Unspecified,
        _ => Bound::Exact,
    }
}

fn logarithm(x: f64, _: f64) -> Bound {
    const TWO_TO_MINUS_22: f64 = 2.385e-7;
    if x > 0.5 && x < 2.0 {
        Bound::Absolute(TWO_TO_MINUS_22)
    } else {
        Bound::Relative(TWO_TO_MINUS_22)
    }
}

/// Whether two approximations of one value may both be right: each may be off by
/// the bound, and each is rounded, so that `last` (the distance of neighbours at
/// the larger one) may come on top.
pub fn agree(a: f64, b: f64, bound: Bound, last: f64) -> bool {
    if a == b || a.is_nan() && b.is_nan() {
        return true;
    }
    let distance = (a - b).abs();
    let largest = a.abs().max(b.abs());
    let allowed = match bound {
        Bound::Exact => return false,
        Bound::Unspecified => return true,
        Bound::Ulps(ulps) => f64::from(ulps) * last,
        Bound::Relative(error) => error * largest,
        Bound::Absolute(error) => error,
    };
    distance <= 2.0 * allowed + last
}
