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
