//! Comparison, selection and tests of properties.

use crate::row::{NAN32, Row, check, d, s, w};

pub const COMPARISONS: &[Row] = &[
    ("setp.lt.s32 %pd, %r0, %r1;", &[w(-1), 1], 1),
    ("setp.lt.u32 %pd, %r0, %r1;", &[w(-1), 1], 0),
    ("setp.hs.u32 %pd, %r0, %r1;", &[5, 5], 1),
    ("setp.ge.s64 %pd, %a0, %a1;", &[u64::MAX], 0),
    (
        "setp.eq.u32 %p1, %r2, 9; setp.lt.and.s32 %p0|%p2, %r0, %r1, %p1; selp.u64 %d, 1, 2, %p0; @%p2 add.u64 %d, %d, 10;",
        &[1, 2, 9],
        1,
    ),
    (
        "setp.eq.u32 %p1, %r2, 9; setp.lt.and.s32 %p0|%p2, %r0, %r1, %p1; selp.u64 %d, 1, 2, %p0; @%p2 add.u64 %d, %d, 10;",
        &[3, 2, 9],
        12,
    ),
    (
        "setp.eq.u32 %p1, %r2, 9; setp.lt.xor.s32 %p0, %r0, %r1, !%p1; selp.u64 %d, 1, 2, %p0;",
        &[1, 2, 8],
        2,
    ),
    ("setp.lt.f32 %pd, %f0, %f1;", &[s(1.0), NAN32], 0),
    ("setp.ltu.f32 %pd, %f0, %f1;", &[s(1.0), NAN32], 1),
    ("setp.ne.f32 %pd, %f0, %f1;", &[s(1.0), NAN32], 0),
    ("setp.neu.f32 %pd, %f0, %f1;", &[s(1.0), NAN32], 1),
    ("setp.nan.f32 %pd, %f0, %f1;", &[s(1.0), NAN32], 1),
    ("setp.eq.ftz.f32 %pd, %f0, %f1;", &[1], 1),
    ("setp.eq.f32 %pd, %f0, %f1;", &[1], 0),
    ("setp.gtu.f64 %pd, %g0, %g1;", &[d(2.0), d(1.0)], 1),
    ("set.lt.u32.s32 %rd, %r0, %r1;", &[w(-1), 1], w(-1)),
    ("set.lt.f32.s32 %fd, %r0, %r1;", &[w(-1), 1], s(1.0)),
    ("slct.s32.s32 %rd, %r0, %r1, %r2;", &[5, 6, w(-1)], 6),
    (
        "mov.b32 %f0, %r2; slct.b64.f32 %d, %a0, %a1, %f0;",
        &[5, 6, s(-0.0)],
        5,
    ),
    (
        "setp.lt.f16x2 %p0|%p1, %r0, %r1; selp.u64 %d, 1, 2, %p0; @%p1 add.u64 %d, %d, 10;",
        &[0x3C00_3C00, 0x4000_0000],
        12,
    ),
];

pub const PROPERTIES: &[Row] = &[
    ("testp.finite.f32 %pd, %f0;", &[s(1.0)], 1),
    ("testp.finite.f32 %pd, %f0;", &[s(f32::INFINITY)], 0),
    ("testp.infinite.f32 %pd, %f0;", &[s(f32::NEG_INFINITY)], 1),
    ("testp.number.f32 %pd, %f0;", &[NAN32], 0),
    ("testp.notanumber.f32 %pd, %f0;", &[NAN32], 1),
    ("testp.normal.f32 %pd, %f0;", &[], 1),
    ("testp.normal.f32 %pd, %f0;", &[1], 0),
    ("testp.subnormal.f32 %pd, %f0;", &[1], 1),
    ("testp.subnormal.f32 %pd, %f0;", &[], 0),
];

#[test]
fn comparison_and_selection() {
    check(COMPARISONS);
}

#[test]
fn properties() {
    check(PROPERTIES);
}
