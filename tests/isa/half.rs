//! f16 and bf16.

use crate::row::{Row, check};

pub const HALF: &[Row] = &[
    ("add.f16 %hd, %h0, %h1;", &[0x3C00, 0x4000], 0x4200),
    ("sub.f16 %hd, %h0, %h1;", &[0x3C00, 0x4000], 0xBC00),
    ("mul.f16 %hd, %h0, %h1;", &[0x4000, 0x4200], 0x4600),
    (
        "fma.rn.f16 %hd, %h0, %h1, %h2;",
        &[0x4000, 0x4200, 0x3C00],
        0x4700,
    ),
    (
        "fma.rn.relu.f16 %hd, %h0, %h1, %h2;",
        &[0xC000, 0x4200, 0x3C00],
        0,
    ),
    ("neg.f16 %hd, %h0;", &[0x3C00], 0xBC00),
    ("max.f16 %hd, %h0, %h1;", &[0x7E00, 0x3C00], 0x3C00),
    ("add.ftz.f16 %hd, %h0, %h1;", &[0x0001, 0x0001], 0),
    (
        "fma.rn.bf16 %hd, %h0, %h1, %h2;",
        &[0x4000, 0x4040, 0x3F80],
        0x40E0,
    ),
    ("min.NaN.bf16 %hd, %h0, %h1;", &[0x7FC0, 0x3F80], 0x7FFF),
    (
        "add.f16x2 %rd, %r0, %r1;",
        &[0x3C00_4000, 0x4000_3C00],
        0x4200_4200,
    ),
    (
        "fma.rn.bf16x2 %rd, %r0, %r1, %r2;",
        &[0x3F80_4000, 0x4000_4000],
        0x4000_4080,
    ),
];

#[test]
fn half_precision() {
    check(HALF);
}
