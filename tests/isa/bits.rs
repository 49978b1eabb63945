//! Logic, shifts, fields and permutations.

use crate::row::{MIN32, Row, check, w};

pub const BITS: &[Row] = &[
    ("and.b32 %rd, %r0, %r1;", &[0xFF0F, 0x0FF0], 0x0F00),
    ("xor.b64 %d, %a0, %a1;", &[0xFF, 0x0F], 0xF0),
    ("not.b32 %rd, %r0;", &[0xFF], 0xFFFF_FF00),
    ("cnot.b32 %rd, %r0;", &[], 1),
    ("cnot.b32 %rd, %r0;", &[9], 0),
    (
        "setp.eq.u32 %p0, %r0, 1; not.pred %p0, %p0; selp.u64 %d, 5, 6, %p0;",
        &[1],
        6,
    ),
    ("shl.b32 %rd, %r0, %r1;", &[1, 31], MIN32),
    // Amounts are clamped, not taken modulo the width.
    ("shl.b32 %rd, %r0, %r1;", &[1, 32], 0),
    ("shr.u32 %rd, %r0, %r1;", &[MIN32, 33], 0),
    ("shr.s32 %rd, %r0, %r1;", &[MIN32, 33], w(-1)),
    ("shr.s32 %rd, %r0, 40;", &[MIN32], w(-1)),
    ("shl.b32 %rd, %r0, 32;", &[1], 0),
    ("shr.s64 %d, %a0, %r1;", &[1 << 63, 63], u64::MAX),
    ("shl.b64 %d, %a0, %r1;", &[1, 64], 0),
    ("shl.b16 %hd, %h0, %r1;", &[1, 16], 0),
    ("shr.s16 %hd, %h0, %r1;", &[0x8000, 20], 0xFFFF),
    (
        "shf.l.wrap.b32 %rd, %r0, %r1, %r2;",
        &[0x8000_0001, 0x10, 36],
        0x108,
    ),
    (
        "shf.l.clamp.b32 %rd, %r0, %r1, %r2;",
        &[0x8000_0001, 0x10, 36],
        0x8000_0001,
    ),
    (
        "shf.r.wrap.b32 %rd, %r0, %r1, %r2;",
        &[0x8000_0001, 0x13, 4],
        0x3800_0000,
    ),
    (
        "shf.r.clamp.b32 %rd, %r0, %r1, %r2;",
        &[0x8000_0001, 0x13, 99],
        0x13,
    ),
    (
        "lop3.b32 %rd, %r0, %r1, %r2, 0x96;",
        &[0b1100, 0b1010, 0b1111],
        0b1001,
    ),
    (
        "lop3.b32 %rd, %r0, %r1, %r2, 0xE8;",
        &[0b1100, 0b1010, 0b0110],
        0b1110,
    ),
    (
        "lop3.b32 %rd, %r0, %r1, %r2, 0x1D;",
        &[0xF0F0_F0F0, 0xCCCC_CCCC, 0xAAAA_AAAA],
        0x1D1D_1D1D,
    ),
    (
        "prmt.b32 %rd, %r0, %r1, 0x5410;",
        &[0x3322_1100, 0x7766_5544],
        0x5544_1100,
    ),
    (
        "prmt.b32 %rd, %r0, %r1, 0x8B;",
        &[0x8322_1190, 0x7766_5544],
        0x9090_FFFF,
    ),
    (
        "prmt.b32 %rd, %r0, %r1, %r2;",
        &[0x3322_1100, 0x7766_5544, 0x0123],
        0x0011_2233,
    ),
    (
        "prmt.b32.f4e %rd, %r0, %r1, %r2;",
        &[0x3322_1100, 0x7766_5544, 1],
        0x4433_2211,
    ),
    (
        "prmt.b32.rc16 %rd, %r0, %r1, %r2;",
        &[0x3322_1100, 0x7766_5544, 1],
        0x3322_3322,
    ),
    ("popc.b64 %rd, %a0;", &[u64::MAX], 64),
    ("clz.b32 %rd, %r0;", &[0x00FF_0000], 8),
    ("clz.b64 %rd, %a0;", &[], 64),
    ("brev.b32 %rd, %r0;", &[1], MIN32),
    ("bfind.u32 %rd, %r0;", &[0x0001_0000], 16),
    ("bfind.u32 %rd, %r0;", &[], w(-1)),
    ("bfind.s32 %rd, %r0;", &[w(-2)], 0),
    ("bfind.shiftamt.u32 %rd, %r0;", &[0x0001_0000], 15),
    ("bfind.u64 %rd, %a0;", &[1 << 40], 40),
    ("bfe.u32 %rd, %r0, 4, 8;", &[0xABCD], 0xBC),
    ("bfe.s32 %rd, %r0, 4, 8;", &[0xABCD], w(-68)),
    ("bfe.s32 %rd, %r0, 28, 8;", &[0x9000_0000], w(-7)),
    ("bfe.u64 %d, %a0, 32, 16;", &[0x1234_5678_9ABC_DEF0], 0x5678),
    (
        "bfi.b32 %rd, %r0, %r1, 8, 8;",
        &[0xFFAB, 0x1111_1111],
        0x1111_AB11,
    ),
    ("bfi.b64 %d, %a0, %a1, 60, 8;", &[0xFF], 0xF << 60),
    ("fns.b32 %rd, %r0, 0, 2;", &[0b1010], 3),
    ("bmsk.clamp.b32 %rd, %r0, %r1;", &[4, 8], 0xFF0),
    ("bmsk.clamp.b32 %rd, %r0, %r1;", &[0, 40], 0xFFFF_FFFF),
    ("bmsk.wrap.b32 %rd, %r0, %r1;", &[36, 33], 0x10),
    ("szext.clamp.s32 %rd, %r0, %r1;", &[0xF8, 4], w(-8)),
    ("szext.clamp.u32 %rd, %r0, %r1;", &[0xF8, 4], 8),
    ("szext.clamp.s32 %rd, %r0, %r1;", &[0xF8], 0),
    ("szext.wrap.u32 %rd, %r0, %r1;", &[0xF8, 36], 8),
];

#[test]
fn bits_and_shifts() {
    check(BITS);
}
