//! Floating point of 32 and 64 bits.

use crate::row::{MIN32, NAN32, Row, check, d, s};

const TINY: u64 = 1;
const THIRD: f32 = 1.0 / 3.0;

pub const SINGLE: &[Row] = &[
    ("add.f32 %fd, %f0, %f1;", &[s(1.5), s(2.25)], s(3.75)),
    ("add.rz.f32 %fd, %f0, %f1;", &[s(1.0), s(1.0e-10)], s(1.0)),
    (
        "add.rp.f32 %fd, %f0, %f1;",
        &[s(1.0), s(1.0e-10)],
        0x3F80_0001,
    ),
    (
        "sub.rm.f32 %fd, %f0, %f1;",
        &[s(1.0), s(1.0e-10)],
        0x3F7F_FFFF,
    ),
    (
        "mul.rp.f32 %fd, %f0, %f1;",
        &[0x3F80_0001, 0x3F80_0001],
        0x3F80_0003,
    ),
    (
        "mul.rn.f32 %fd, %f0, %f1;",
        &[0x3F80_0001, 0x3F80_0001],
        0x3F80_0002,
    ),
    ("add.ftz.f32 %fd, %f0, %f1;", &[TINY, TINY], 0),
    ("add.f32 %fd, %f0, %f1;", &[TINY, TINY], 2),
    ("mul.ftz.f32 %fd, %f0, %f1;", &[0x0080_0000, s(-0.5)], MIN32),
    // Tiny before it rounds up to a normal number.
    ("mul.ftz.f32 %fd, %f0, %f1;", &[0x00FF_FFFF, s(-0.5)], MIN32),
    (
        "mul.rm.ftz.f32 %fd, %f0, %f1;",
        &[0x00FF_FFFF, s(-0.5)],
        MIN32,
    ),
    (
        "mul.f32 %fd, %f0, %f1;",
        &[0x00FF_FFFF, s(-0.5)],
        0x8080_0000,
    ),
    ("add.sat.f32 %fd, %f0, %f1;", &[s(1.5), s(2.0)], s(1.0)),
    ("add.sat.f32 %fd, %f0, %f1;", &[NAN32, s(2.0)], 0),
    (
        "fma.rn.f32 %fd, %f0, %f1, %f2;",
        &[0x3F80_0001, 0x3F7F_FFFF, s(-1.0)],
        0x337F_FFFE,
    ),
    (
        "fma.rz.f32 %fd, %f0, %f1, %f2;",
        &[s(1.0), s(1.0), s(-1.0e-10)],
        0x3F7F_FFFF,
    ),
    ("div.rn.f32 %fd, %f0, %f1;", &[s(1.0), s(3.0)], s(THIRD)),
    ("div.rz.f32 %fd, %f0, %f1;", &[s(1.0), s(3.0)], s(THIRD) - 1),
    ("rcp.rn.f32 %fd, %f0;", &[s(3.0)], s(THIRD)),
    (
        "sqrt.rn.f32 %fd, %f0;",
        &[s(2.0)],
        s(std::f32::consts::SQRT_2),
    ),
    (
        "sqrt.rp.f32 %fd, %f0;",
        &[s(2.0)],
        s(std::f32::consts::SQRT_2) + 1,
    ),
    (
        "sqrt.rm.f32 %fd, %f0;",
        &[s(2.0)],
        s(std::f32::consts::SQRT_2),
    ),
    ("abs.f32 %fd, %f0;", &[s(-2.5)], s(2.5)),
    ("neg.ftz.f32 %fd, %f0;", &[TINY], MIN32),
    ("min.f32 %fd, %f0, %f1;", &[NAN32, s(1.0)], s(1.0)),
    ("min.f32 %fd, %f0, %f1;", &[s(2.0), NAN32], s(2.0)),
    ("min.f32 %fd, %f0, %f1;", &[NAN32, NAN32], 0x7FFF_FFFF),
    ("min.NaN.f32 %fd, %f0, %f1;", &[s(2.0), NAN32], 0x7FFF_FFFF),
    ("min.f32 %fd, %f0, %f1;", &[s(0.0), s(-0.0)], MIN32),
    ("max.f32 %fd, %f0, %f1;", &[s(-0.0), s(0.0)], 0),
    (
        "max.xorsign.abs.f32 %fd, %f0, %f1;",
        &[s(-2.0), s(1.0)],
        s(-2.0),
    ),
    (
        "max.xorsign.abs.f32 %fd, %f0, %f1;",
        &[s(-2.0), s(-1.0)],
        s(2.0),
    ),
    ("copysign.f32 %fd, %f0, %f1;", &[s(-1.0), s(3.0)], s(-3.0)),
    ("ex2.approx.f32 %fd, %f0;", &[s(3.0)], s(8.0)),
    ("lg2.approx.f32 %fd, %f0;", &[s(8.0)], s(3.0)),
    ("rsqrt.approx.f32 %fd, %f0;", &[s(4.0)], s(0.5)),
    ("rcp.approx.ftz.f32 %fd, %f0;", &[s(4.0)], s(0.25)),
    ("div.full.f32 %fd, %f0, %f1;", &[s(9.0), s(3.0)], s(3.0)),
    ("sin.approx.f32 %fd, %f0;", &[s(0.0)], s(0.0)),
    ("cos.approx.f32 %fd, %f0;", &[s(0.0)], s(1.0)),
    ("mov.f32 %fd, 0f3FC00000;", &[], s(1.5)),
    ("mov.f32 %fd, 0.1;", &[], s(0.1)),
];

pub const DOUBLE: &[Row] = &[
    ("add.f64 %gd, %g0, %g1;", &[d(0.1), d(0.2)], d(0.1 + 0.2)),
    (
        "add.rz.f64 %gd, %g0, %g1;",
        &[d(0.1), d(0.2)],
        d(0.1 + 0.2) - 1,
    ),
    (
        "fma.rn.f64 %gd, %g0, %g1, %g2;",
        &[d(0.1), d(10.0), d(-1.0)],
        d(1.0 / (1_u64 << 54) as f64),
    ),
    (
        "div.rp.f64 %gd, %g0, %g1;",
        &[d(1.0), d(3.0)],
        d(1.0 / 3.0) + 1,
    ),
    (
        "sqrt.rn.f64 %gd, %g0;",
        &[d(2.0)],
        d(std::f64::consts::SQRT_2),
    ),
    ("min.f64 %gd, %g0, %g1;", &[d(f64::NAN), d(4.0)], d(4.0)),
    ("neg.f64 %gd, %g0;", &[d(4.0), d(4.0)], d(-4.0)),
    (
        "mov.f64 %gd, 0d3FF8000000000000;",
        &[d(4.0), d(4.0)],
        d(1.5),
    ),
];

#[test]
fn single_precision() {
    check(SINGLE);
}

#[test]
fn double_precision() {
    check(DOUBLE);
}
