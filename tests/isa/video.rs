//! Video instructions.

use crate::row::{Row, check};

pub const VIDEO: &[Row] = &[
    (
        "vabsdiff4.u32.u32.u32.add %rd, %r0, %r1, %r2;",
        &[0x0102_0304, 0x0401_0302, 5],
        11,
    ),
    (
        "vadd4.u32.u32.u32.sat %rd, %r0, %r1, %r2;",
        &[0x0102_03FF, 0x0401_0302, 5],
        0x0503_06FF,
    ),
    // The sum takes results that are not cut to their lanes.
    (
        "vsub2.u32.u32.u32.add %rd, %r0, %r1, %r2;",
        &[0, 0x1F, 0x001F_0007],
        0x001E_FFE8,
    ),
    (
        "vadd4.s32.s32.s32 %rd.b20, %r0, %r1, %r2;",
        &[0x8000_0000, 0x1E95_3B71, 0x7FFF_FFFF],
        0x7F95_FF71,
    ),
    // Of a shifted number 34 bits are saturated.
    (
        "vshl.s32.s32.u32.sat.wrap.max %rd, %r0.h1, %r1.b0, %r2;",
        &[0xB37F_FFFF, 0x16, 0x16],
        0x7FFF_FFFF,
    ),
    (
        "vmax2.s32.s32.s32 %rd, %r0, %r1, %r2;",
        &[0xFFFF_0004, 0x0001_0003],
        0x0001_0004,
    ),
    (
        "vadd.s32.u32.u32 %rd, %r0.b1, %r1.h1;",
        &[0x0000_1200, 0x0003_0000],
        0x15,
    ),
    (
        "vmad.u32.u32.u32 %rd, %r0.b0, %r1.b0, %r2;",
        &[0x103, 5, 100],
        115,
    ),
];

#[test]
fn video() {
    check(VIDEO);
}
