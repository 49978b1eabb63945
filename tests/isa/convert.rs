//! Conversions.

use crate::row::{NAN32, Row, check, d, s, w};

pub const CONVERSIONS: &[Row] = &[
    ("cvt.s64.s32 %d, %r0;", &[w(-5)], -5_i64 as u64),
    ("cvt.u64.u32 %d, %r0;", &[w(-5)], w(-5)),
    ("cvt.s32.s8 %rd, %r0;", &[0x80], w(-128)),
    ("cvt.u32.u8 %rd, %r0;", &[0x1FF], 0xFF),
    ("cvt.sat.u8.s32 %rd, %r0;", &[w(-5)], 0),
    ("cvt.sat.s8.s32 %rd, %r0;", &[300], 127),
    ("cvt.sat.s32.u32 %rd, %r0;", &[w(-1)], 0x7FFF_FFFF),
    ("cvt.sat.u32.s64 %rd, %a0;", &[1 << 40], w(-1)),
    ("cvt.s8.s32 %rd, %r0;", &[0x180], w(-128)),
    ("cvt.rzi.s32.f32 %rd, %f0;", &[s(-2.7)], w(-2)),
    ("cvt.rni.s32.f32 %rd, %f0;", &[s(2.5)], 2),
    ("cvt.rmi.s32.f32 %rd, %f0;", &[s(-2.1)], w(-3)),
    ("cvt.rpi.u32.f32 %rd, %f0;", &[s(2.1)], 3),
    ("cvt.rzi.s32.f32 %rd, %f0;", &[s(3.0e9)], 0x7FFF_FFFF),
    ("cvt.rzi.u32.f32 %rd, %f0;", &[s(-3.0)], 0),
    ("cvt.rzi.s32.f32 %rd, %f0;", &[NAN32], 0),
    ("cvt.rzi.s64.f32 %d, %f0;", &[s(-3.9)], -3_i64 as u64),
    ("cvt.rzi.u8.f32 %rd, %f0;", &[s(300.0)], 255),
    ("cvt.rzi.s32.f64 %rd, %g0;", &[d(-7.9)], w(-7)),
    ("cvt.rn.f32.s32 %fd, %r0;", &[w(-7)], s(-7.0)),
    ("cvt.rn.f32.u32 %fd, %r0;", &[w(-1)], s(4294967296.0)),
    ("cvt.rz.f32.u32 %fd, %r0;", &[w(-1)], 0x4F7F_FFFF),
    (
        "cvt.rn.f64.u64 %gd, %a0;",
        &[u64::MAX],
        d(18446744073709551616.0),
    ),
    (
        "cvt.rn.f32.u64 %fd, %a0;",
        &[u64::MAX],
        s(18446744073709551616.0),
    ),
    ("cvt.rn.f32.f64 %fd, %g0;", &[d(0.1)], s(0.1)),
    ("cvt.rz.f32.f64 %fd, %g0;", &[d(0.1)], s(0.1) - 1),
    ("cvt.f64.f32 %gd, %f0;", &[s(1.5)], d(1.5)),
    ("cvt.rmi.f32.f32 %fd, %f0;", &[s(-1.5)], s(-2.0)),
    ("cvt.sat.f32.f32 %fd, %f0;", &[s(7.0)], s(1.0)),
    ("cvt.rn.f16.f32 %hd, %f0;", &[s(1.0e9)], 0x7C00),
    ("cvt.rn.f16.f32 %hd, %f0;", &[s(1.5)], 0x3E00),
    ("cvt.rn.bf16.f32 %hd, %f0;", &[s(1.5)], 0x3FC0),
    ("cvt.f32.f16 %fd, %h0;", &[0x3E00], s(1.5)),
    ("cvt.f32.bf16 %fd, %h0;", &[0x3FC0], s(1.5)),
    (
        "cvt.rn.f16x2.f32 %rd, %f0, %f1;",
        &[s(1.0), s(2.0)],
        0x3C00_4000,
    ),
    (
        "cvt.rn.satfinite.e4m3x2.f32 %hd, %f0, %f1;",
        &[s(1.0), s(2.0)],
        0x3840,
    ),
    (
        "cvt.pack.sat.s16.s32 %rd, %r0, %r1;",
        &[w(-40000), 7],
        0x8000_0007,
    ),
    (
        "cvt.pack.sat.u8.s32.b32 %rd, %r0, %r1, %r2;",
        &[300, w(-5), 0x1234_5678],
        0x5678_FF00,
    ),
    (
        "cvt.pack.sat.s4.s32.b32 %rd, %r0, %r1, %r2;",
        &[w(-2), 100, 0x1234_5678],
        0x3456_78E7,
    ),
    ("cvt.rn.f16.s32 %hd, %r0;", &[w(-2)], 0xC000),
    ("cvt.rn.sat.f16.s32 %hd, %r0;", &[w(-2)], 0),
    ("cvt.rn.sat.f16.u32 %hd, %r0;", &[2], 0x3C00),
    // NaN gives 0, but of f64 or in 64 bits the sign bit.
    ("cvt.rzi.u32.f32 %rd, %f0;", &[NAN32], 0),
    ("cvt.rzi.u32.f64 %rd, %g0;", &[d(f64::NAN)], 1 << 31),
    ("cvt.rmi.s16.f64 %hd, %g0;", &[d(f64::NAN)], 0x8000),
    ("cvt.rzi.u64.f32 %d, %f0;", &[NAN32], 1 << 63),
    // `.ftz` leaves what is no f32 alone, and on devices the source of an f16.
    ("cvt.ftz.f32.f16 %fd, %h0;", &[1], 0x3380_0000),
    ("cvt.rp.ftz.f16.f32 %hd, %f0;", &[1], 1),
    ("cvt.rna.tf32.f32 %rd, %f0;", &[0x7F80_0001], 0x7F80_0000),
    ("cvt.rzi.s32.f16 %rd, %h0;", &[0xC100], w(-2)),
    // Wider registers, where the values of neighbouring threads wrap around in
    // the type alone.
    (
        "mov.u32 %r4, %tid.x; sub.u32 %r4, %r4, 5; cvt.u32.u32 %d, %r4; shr.u64 %d, %d, 32;",
        &[],
        0,
    ),
    (
        "mov.u32 %r4, %tid.x; cvt.u64.u32 %x0, %r4; add.u64 %x0, %x0, 0xFFFFFFFB; cvt.u64.u32 %d, %x0; shr.u64 %d, %d, 32;",
        &[],
        0,
    ),
];

#[test]
fn conversions() {
    check(CONVERSIONS);
}
