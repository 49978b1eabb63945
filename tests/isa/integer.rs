//! Integer arithmetic.

use crate::row::{MIN32, Row, check, w};

pub const ARITHMETIC: &[Row] = &[
    ("add.u32 %rd, %r0, %r1;", &[7, 8], 15),
    ("add.s32.sat %rd, %r0, 1;", &[0x7FFF_FFFF], 0x7FFF_FFFF),
    ("sub.s32.sat %rd, %r0, %r1;", &[MIN32, 1], MIN32),
    ("add.s64 %d, %a0, %a1;", &[u64::MAX, 3], 2),
    ("sub.u16 %hd, %h2, %h3;", &[], 0),
    ("add.u16 %hd, %h0, %h1;", &[0xFFFF, 2], 1),
    ("mul.lo.s32 %rd, %r0, %r1;", &[w(-3), 5], w(-15)),
    ("mul.hi.s32 %rd, %r0, %r1;", &[w(-3), 5], w(-1)),
    ("mul.hi.u32 %rd, %r0, %r1;", &[w(-3), 5], 4),
    ("mul.wide.s32 %d, %r0, %r1;", &[w(-3), 5], -15_i64 as u64),
    ("mul.wide.u32 %d, %r0, %r1;", &[w(-1), 2], 0x1_FFFF_FFFE),
    ("mul.hi.u64 %d, %a0, %a1;", &[1 << 63, 6], 3),
    ("mul.hi.s64 %d, %a0, %a1;", &[1 << 63, 6], -3_i64 as u64),
    ("mul.wide.s16 %rd, %h0, %h0;", &[0xFFFE], 4),
    ("mad.lo.s32 %rd, %r0, %r1, %r2;", &[6, 7, w(-2)], 40),
    (
        "mad.hi.s32.sat %rd, %r0, %r1, %r2;",
        &[0x4000_0000, 8, 0x7FFF_FFFF],
        0x7FFF_FFFF,
    ),
    ("mad.wide.s32 %d, %r0, %r1, %a2;", &[w(-6), 7, 50], 8),
    ("mul24.lo.u32 %rd, %r0, %r1;", &[0xFF00_0003, 5], 15),
    (
        "mul24.hi.s32 %rd, %r0, %r1;",
        &[0x0080_0000, 0x0001_0000],
        w(-0x0080_0000),
    ),
    (
        "mad24.lo.s32 %rd, %r0, %r1, %r2;",
        &[0x00FF_FFFF, 5, 100],
        95,
    ),
    ("sad.s32 %rd, %r0, %r1, %r2;", &[w(-3), 5, 100], 108),
    ("sad.u32 %rd, %r0, %r1, %r2;", &[7, 5, 100], 102),
    ("abs.s32 %rd, %r0;", &[w(-5)], 5),
    ("abs.s32 %rd, %r0;", &[MIN32], MIN32),
    ("neg.s64 %d, %a0;", &[5], -5_i64 as u64),
    ("min.s32 %rd, %r0, %r1;", &[w(-1), 1], w(-1)),
    ("min.u32 %rd, %r0, %r1;", &[w(-1), 1], 1),
    ("max.s64 %d, %a0, %a1;", &[u64::MAX, 1], 1),
    (
        "add.u16x2 %rd, %r0, %r1;",
        &[0x0001_FFFF, 0x0001_0001],
        0x0002_0000,
    ),
    (
        "min.s16x2 %rd, %r0, %r1;",
        &[0x0001_FFFF, 0x8000_0001],
        0x8000_FFFF,
    ),
    (
        "dp4a.s32.s32 %rd, %r0, %r1, %r2;",
        &[0xFF02_0304, 0x0202_0101, 10],
        19,
    ),
    (
        "dp4a.u32.u32 %rd, %r0, %r1, %r2;",
        &[0xFF00_0000, 0x0200_0000, 10],
        520,
    ),
    (
        "dp2a.lo.s32.s32 %rd, %r0, %r1, %r2;",
        &[0xFFFF_0003, 0x0908_0205, 1],
        14,
    ),
    (
        "dp2a.hi.s32.s32 %rd, %r0, %r1, %r2;",
        &[0xFFFF_0003, 0x0908_0205, 1],
        16,
    ),
];

/// No host trap, whatever is divided by what.
pub const DIVISION: &[Row] = &[
    ("div.s32 %rd, %r0, %r1;", &[w(-7), 2], w(-3)),
    ("rem.s32 %rd, %r0, %r1;", &[w(-7), 2], w(-1)),
    ("div.s32 %rd, %r0, %r1;", &[MIN32, w(-1)], MIN32),
    ("rem.s32 %rd, %r0, %r1;", &[MIN32, w(-1)], 0),
    ("div.u32 %rd, %r0, %r1;", &[7], w(-1)),
    ("rem.u32 %rd, %r0, %r1;", &[7], 0xFFFF_FFFF),
    ("div.s64 %d, %a0, %a1;", &[1 << 63, u64::MAX], 1 << 63),
    ("div.s64 %d, %a0, %a1;", &[5], u64::MAX),
    ("div.u64 %d, %a0, %a1;", &[u64::MAX, 16], u64::MAX / 16),
    ("div.s16 %hd, %h0, %h1;", &[0xFFF9, 2], 0xFFFD),
    ("div.s16 %hd, %h0, %h1;", &[0x8000, 0xFFFF], 0x8000),
];

pub const CARRIES: &[Row] = &[
    (
        "add.cc.u32 %r0, %r0, %r1; addc.u32 %r2, %r2, %r3; mov.b64 %d, {%r0, %r2};",
        &[w(-1), 1, 5, 6],
        12 << 32,
    ),
    (
        "sub.cc.u32 %r0, %r0, %r1; subc.u32 %r2, %r2, %r3; mov.b64 %d, {%r0, %r2};",
        &[0, 1, 6, 5],
        0xFFFF_FFFF,
    ),
    (
        "add.cc.u64 %x0, %a0, %a1; addc.cc.u64 %x1, %a2, %a3; addc.u64 %d, %x1, 0;",
        &[u64::MAX, 1, u64::MAX],
        1,
    ),
    (
        "add.cc.u32 %r0, %r0, %r1; madc.hi.u32 %rd, %r2, %r3, 7;",
        &[w(-1), 1, MIN32, 4],
        10,
    ),
    (
        "mad.lo.cc.u32 %r0, %r0, %r1, %r2; addc.u32 %r3, %r3, 0; mov.b64 %d, {%r0, %r3};",
        &[3, 5, w(-1), 1],
        2 << 32 | 14,
    ),
];

#[test]
fn arithmetic() {
    check(ARITHMETIC);
}

#[test]
fn division() {
    check(DIVISION);
}

#[test]
fn carries() {
    check(CARRIES);
}
