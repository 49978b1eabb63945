//! Instructions that begin with sm_100, as their documentation has them: the CPU device alone
//! runs them here.

use ptxkit::driver::DriverKind;

use crate::kernels::device;
use crate::row::{NAN32, Row, check_for, s};

/// Two floats in 64 bits, the lower one first.
const fn pair(low: f32, high: f32) -> u64 {
    (high.to_bits() as u64) << 32 | low.to_bits() as u64
}

const PAIRS: &[Row] = &[
    (
        "add.rn.f32x2 %d, %a0, %a1;",
        &[pair(1.5, -2.0), pair(0.25, 7.0)],
        pair(1.75, 5.0),
    ),
    (
        "sub.f32x2 %d, %a0, %a1;",
        &[pair(1.5, -2.0), pair(0.25, 7.0)],
        pair(1.25, -9.0),
    ),
    (
        "mul.rn.f32x2 %d, %a0, %a1;",
        &[pair(1.5, -2.0), pair(4.0, 7.0)],
        pair(6.0, -14.0),
    ),
    (
        "fma.rn.f32x2 %d, %a0, %a1, %a2;",
        &[pair(3.0, 16777216.0), pair(2.0, 1.0), pair(0.5, 1.0)],
        pair(6.5, 16777216.0),
    ),
    (
        "fma.rp.f32x2 %d, %a0, %a1, %a2;",
        &[pair(3.0, 16777216.0), pair(2.0, 1.0), pair(0.5, 1.0)],
        pair(6.5, 16777218.0),
    ),
    (
        "add.rm.f32x2 %d, %a0, %a1;",
        &[pair(16777216.0, 1.0), pair(-0.5, 2.0)],
        pair(16777215.0, 3.0),
    ),
    (
        "mul.ftz.f32x2 %d, %a0, %a1;",
        &[pair(1.0e-30, 2.0), pair(1.0e-10, 3.0)],
        pair(0.0, 6.0),
    ),
    (
        "mul.f32x2 %d, %a0, %a1;",
        &[pair(1.0e-30, 2.0), pair(1.0e-10, 3.0)],
        pair(1.0e-30 * 1.0e-10, 6.0),
    ),
    // A constant has both.
];

/// Sums and products of halves with singles.
const MIXED: &[Row] = &[
    ("add.rn.f32.f16 %fd, %h0, %f1;", &[0x3E00, s(2.25)], s(3.75)),
    ("sub.f32.f16 %fd, %h0, %f1;", &[0x3E00, s(2.25)], s(-0.75)),
    ("sub.f32.bf16 %fd, %h0, %f1;", &[0x3FC0, s(2.25)], s(-0.75)),
    (
        "add.rz.sat.f32.bf16 %fd, %h0, %f1;",
        &[0x3FC0, s(2.25)],
        s(1.0),
    ),
    (
        "add.rp.f32.f16 %fd, %h0, %f1;",
        &[0x0001, s(1.0)],
        0x3F80_0001,
    ),
    (
        "fma.rn.f32.f16 %fd, %h0, %h1, %f2;",
        &[0x3E00, 0xC000, s(10.0)],
        s(7.0),
    ),
    (
        "fma.rm.f32.bf16 %fd, %h0, %h1, %f2;",
        &[0x3FC0, 0x4000, s(0.5)],
        s(3.5),
    ),
];

const SMALL_FLOATS: &[Row] = &[
    (
        "{ .reg .b8 %q; cvt.rn.satfinite.e2m1x2.f32 %q, %f0, %f1; cvt.u16.u8 %hd, %q; }",
        &[s(-3.4), s(100.0)],
        0xD7,
    ),
    (
        "{ .reg .b8 %q; cvt.rn.satfinite.relu.e2m1x2.f32 %q, %f0, %f1; cvt.u16.u8 %hd, %q; }",
        &[s(-3.4), s(0.5)],
        0x01,
    ),
    (
        "cvt.rn.satfinite.e2m3x2.f32 %hd, %f0, %f1;",
        &[s(1.0), s(-7.6)],
        0x083F,
    ),
    (
        "cvt.rn.satfinite.e3m2x2.f32 %hd, %f0, %f1;",
        &[s(28.0), s(-0.0625)],
        0x1F21,
    ),
    (
        "cvt.rn.satfinite.e4m3x2.bf16x2 %hd, %r0;",
        &[0x3F80_C000],
        0x38C0,
    ),
    (
        "{ .reg .b8 %q; cvt.u8.u16 %q, %h0; cvt.rn.f16x2.e2m1x2 %rd, %q; }",
        &[0xF1],
        0xC600_3800,
    ),
    ("cvt.rn.f16x2.e2m3x2 %rd, %h0;", &[0x3F08], 0xC780_3C00),
    ("cvt.rn.f16x2.e3m2x2 %rd, %h0;", &[0x1F21], 0x4F00_AC00),
    (
        "{ .reg .b8 %q; cvt.u8.u16 %q, %h0; cvt.rn.bf16x2.e2m1x2 %rd, %q; }",
        &[0xF1],
        0xC0C0_3F00,
    ),
    (
        "cvt.rz.satfinite.ue8m0x2.f32 %hd, %f0, %f1;",
        &[s(3.0), s(f32::INFINITY)],
        0x80FE,
    ),
    (
        "cvt.rp.satfinite.ue8m0x2.f32 %hd, %f0, %f1;",
        &[s(3.0), NAN32],
        0x81FF,
    ),
    ("cvt.rn.bf16x2.ue8m0x2 %rd, %h0;", &[0x807F], 0x4000_3F80),
];

/// A quarter of the way from one number to the next, three quarters of the random bits do not reach
/// it.
const STOCHASTIC: &[Row] = &[
    (
        "cvt.rs.f16x2.f32 %rd, %f0, %f1, %r2;",
        &[s(1.0 + 1.0 / 4096.0), s(1.0 + 1.0 / 4096.0), 0xF800_F7FF],
        0x3C01_3C00,
    ),
    (
        "cvt.rs.relu.satfinite.f16x2.f32 %rd, %f0, %f1, %r2;",
        &[s(-1.5), s(65520.0), 0xFFFF],
        0x0000_7BFF,
    ),
    (
        "cvt.rs.bf16x2.f32 %rd, %f0, %f1, %r2;",
        &[s(1.0 + 1.0 / 512.0), s(-1.0 - 1.0 / 512.0), 0xC000_BFFF],
        0x3F81_BF80,
    ),
    (
        "{ .reg .b32 %q; mov.b32 %q, 0x0003C000; \
         cvt.rs.satfinite.e4m3x4.f32 %rd, {%r0, %r1, %r2, %r3}, %q; }",
        &[s(1.03125), s(1.03125), s(1.03125), s(-1.03125)],
        0x3938_38B9,
    ),
    (
        "{ .reg .b32 %q; mov.b32 %q, 0x0003C000; \
         cvt.rs.satfinite.e5m2x4.f32 %rd, {%r0, %r1, 0x3F880000, %r2}, %q; }",
        &[s(1.0625), s(1.0625), s(1.0625)],
        0x3D3C_3C3D,
    ),
    (
        "{ .reg .b32 %q; mov.b32 %q, 0x0003C000; \
         cvt.rs.satfinite.e2m3x4.f32 %rd, {%r0, %r1, %r2, %r3}, %q; }",
        &[s(1.03125), s(1.03125), s(1.03125), s(-100.0)],
        0x0908_083F,
    ),
    (
        "{ .reg .b32 %q; mov.b32 %q, 0x0003C000; \
         cvt.rs.satfinite.e3m2x4.f32 %rd, {%r0, %r1, %r2, %r3}, %q; }",
        &[s(1.0625), s(1.0625), s(1.0625), s(1.0625)],
        0x0D0C_0C0D,
    ),
    (
        "{ .reg .b32 %q; .reg .b16 %w; mov.b32 %q, 0x00030000; \
         cvt.rs.relu.satfinite.e2m1x4.f32 %w, {%r0, %r1, %r2, %r3}, %q; mov.b16 %hd, %w; }",
        &[s(1.125), s(1.125), s(-5.0), s(100.0)],
        0x3207,
    ),
];

/// No block is taken from the grid.
const LAUNCH_CONTROL: &[Row] = &[
    (
        "{ .reg .b128 %q; mov.b128 %q, {%a0, %a1}; \
         clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %pd, %q; }",
        &[1, 2],
        0,
    ),
    (
        "{ .shared .align 16 .b8 m[4096]; .reg .b32 p; mov.u32 p, %tid.x; shl.b32 p, p, 5; \
         mov.u32 %r4, m; add.u32 p, p, %r4; mbarrier.init.shared.b64 [p], 1; \
         mbarrier.arrive.expect_tx.shared.b64 %x0, [p], 16; st.shared.b64 [p+24], %a0; \
         clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [p+16], [p]; \
         mbarrier.test_wait.parity.shared.b64 %p0, [p], 0; ld.shared.b64 %d, [p+24]; \
         selp.u64 %x1, 5, 6, %p0; add.u64 %d, %d, %x1; }",
        &[77],
        5,
    ),
];

/// Bytes and halves of integers, of which each is a number of its own.
const BYTES: &[Row] = &[
    (
        "add.u8x4 %rd, %r0, %r1;",
        &[0x0102_03FF, 0xFF01_0101],
        0x0003_0400,
    ),
    (
        "add.sat.u8x4 %rd, %r0, %r1;",
        &[0x0102_03FF, 0xFF01_0101],
        0xFF03_04FF,
    ),
    (
        "add.sat.s8x4 %rd, %r0, %r1;",
        &[0x7F80_01FF, 0x01FF_0101],
        0x7F80_0200,
    ),
    (
        "sub.u8x4 %rd, %r0, %r1;",
        &[0x0001_0203, 0x0102_0301],
        0xFFFF_FF02,
    ),
    (
        "sub.sat.u8x4 %rd, %r0, %r1;",
        &[0x0001_0203, 0x0102_0301],
        0x0000_0002,
    ),
    (
        "sub.sat.s8x4 %rd, %r0, %r1;",
        &[0x8000_7F05, 0x0101_FF02],
        0x80FF_7F03,
    ),
    ("neg.s8x4 %rd, %r0;", &[0x0180_00FF], 0xFF80_0001),
    (
        "min.u8x4 %rd, %r0, %r1;",
        &[0x01FF_8003, 0x02FE_7F03],
        0x01FE_7F03,
    ),
    (
        "min.s8x4 %rd, %r0, %r1;",
        &[0x01FF_8003, 0x02FE_7F03],
        0x01FE_8003,
    ),
    (
        "min.relu.s8x4 %rd, %r0, %r1;",
        &[0x01FF_8003, 0x02FE_7F03],
        0x0100_0003,
    ),
    (
        "max.u8x4 %rd, %r0, %r1;",
        &[0x01FF_8003, 0x02FE_7F03],
        0x02FF_8003,
    ),
    (
        "max.s8x4 %rd, %r0, %r1;",
        &[0x01FF_8003, 0x02FE_7F03],
        0x02FF_7F03,
    ),
    (
        "max.relu.s8x4 %rd, %r0, %r1;",
        &[0x01FF_8003, 0x02FE_8103],
        0x0200_0003,
    ),
    (
        "add.sat.u16x2 %rd, %r0, %r1;",
        &[0x0001_FFFF, 0x0001_0001],
        0x0002_FFFF,
    ),
    (
        "add.sat.s16x2 %rd, %r0, %r1;",
        &[0x7FFF_8000, 0x0001_FFFF],
        0x7FFF_8000,
    ),
];

/// Products of polynomials over GF(2).
const CARRYLESS: &[Row] = &[
    ("clmad.lo.u64 %d, %a0, %a1, %a2;", &[3, 3, 0xF0], 0xF5),
    ("clmad.hi.u64 %d, %a0, %a1, %a2;", &[1 << 63, 4, 8], 10),
    ("clmad.hi.u64 %d, %a0, 3, 0;", &[1 << 63], 1),
];

/// Modifiers that the CPU device need not tell apart.
const READ_ONLY: &[Row] = &[
    ("ld.global.proxy::readonly.u64 %d, [%in];", &[7], 7),
    (
        "ld.proxy::readonly.global.nc.v2.u32 {%r4, %rd}, [%in];",
        &[7 << 32],
        7,
    ),
    (
        "activemask.b32 %r4; shfl.sync.idx.no_membermask_overlap.b32 %rd, %r0, 0, 31, %r4;",
        &[9],
        9,
    ),
    (
        "activemask.b32 %r4; bar.warp.sync.no_membermask_overlap %r4; \
         vote.sync.all.no_membermask_overlap.pred %p0, 1, %r4; selp.u32 %rd, 3, 4, %p0;",
        &[],
        3,
    ),
];

#[test]
fn loads_of_read_only_memory() {
    on_the_cpu_device(READ_ONLY);
}

#[test]
fn bytes_of_integers() {
    if device().driver().kind() == DriverKind::Cpu {
        check_for("sm_120f", BYTES);
    }
}

#[test]
fn products_without_carries() {
    on_the_cpu_device(CARRYLESS);
}

#[test]
fn launches_that_are_not_cancelled() {
    on_the_cpu_device(LAUNCH_CONTROL);
}

#[test]
fn pairs_of_floats() {
    on_the_cpu_device(PAIRS);
}

#[test]
fn sums_of_halves_and_singles() {
    on_the_cpu_device(MIXED);
}

#[test]
fn floats_of_four_to_eight_bits() {
    on_the_cpu_device(SMALL_FLOATS);
}

#[test]
fn random_bits_round() {
    on_the_cpu_device(STOCHASTIC);
}

fn on_the_cpu_device(rows: &[Row]) {
    if device().driver().kind() == DriverKind::Cpu {
        check_for("sm_100a", rows);
    }
}
