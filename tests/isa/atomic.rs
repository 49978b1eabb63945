//! Atomics. The first input is what lies at `[%out]` before; the result is what
//! the instruction read, in the upper half, and what lies there after, in the
//! lower one.

use crate::row::{Row, check, d, s, w};

/// A row of an instruction whose 32-bit result is `%r4`.
macro_rules! word {
    ($statement:literal, $old:expr, $b:expr, $c:expr, $new:expr) => {
        (
            concat!(
                "st.global.u64 [%out], %a0; ",
                $statement,
                " cvt.u64.u32 %d, %r4; ld.global.u64 %x1, [%out]; shl.b64 %d, %d, 32; or.b64 %d, %d, %x1;"
            ),
            &[$old, $b, $c],
            $old << 32 | $new,
        )
    };
}

/// A row of which only the 64 bits there after count.
macro_rules! after {
    ($statement:literal, $old:expr, $b:expr, $c:expr, $new:expr) => {
        (
            concat!(
                "st.global.u64 [%out], %a0; ",
                $statement,
                " ld.global.u64 %d, [%out];"
            ),
            &[$old, $b, $c],
            $new,
        )
    };
}

/// A row of an instruction of 128 bits on the last two inputs, whose operands `%q0` are the first two
/// and `%q1` the last: in bytes, what it read and what is there after.
macro_rules! wide {
    ($statement:literal, $new:expr) => {
        (
            concat!(
                "{ .reg .b128 %q<3>; mov.b128 %q0, {%a0, %a1}; mov.b128 %q1, {%a2, %a3}; ",
                $statement,
                " mov.b128 {%x0, %x1}, %q2; ld.global.v2.b64 {%x2, %x3}, [%in+16]; \
                 shl.b64 %x1, %x1, 8; shl.b64 %x2, %x2, 16; shl.b64 %x3, %x3, 24; \
                 or.b64 %d, %x0, %x1; or.b64 %d, %d, %x2; or.b64 %d, %d, %x3; }"
            ),
            &[1, 2, 4, 8],
            0x0804 | $new << 16,
        )
    };
}

const WIDE: &[Row] = &[
    wide!("atom.global.exch.b128 %q2, [%in+16], %q0;", 0x0201),
    wide!("atom.cas.b128 %q2, [%in+16], %q1, %q0;", 0x0201),
    wide!(
        "atom.relaxed.gpu.global.cas.b128 %q2, [%in+16], %q0, %q1;",
        0x0804
    ),
    wide!(
        "{ .shared .align 16 .b8 m[16384]; .reg .b32 p; mov.u32 p, %tid.x; shl.b32 p, p, 4; \
         mov.u32 %r4, m; add.u32 p, p, %r4; st.shared.b128 [p], %q1; \
         atom.shared.cas.b128 %q2, [p], %q1, %q0; ld.shared.b128 %q1, [p]; \
         st.global.b128 [%in+16], %q1; }",
        0x0201
    ),
];

pub const ATOMICS: &[Row] = &[
    word!("atom.global.add.u32 %r4, [%out], %r1;", 5, 3, 0, 8),
    word!("atom.global.min.s32 %r4, [%out], %r1;", 5, w(-3), 0, w(-3)),
    word!("atom.global.min.u32 %r4, [%out], %r1;", 5, w(-3), 0, 5),
    word!("atom.global.max.s32 %r4, [%out], %r1;", 5, w(-3), 0, 5),
    word!("atom.global.max.u32 %r4, [%out], %r1;", 5, w(-3), 0, w(-3)),
    word!("atom.global.and.b32 %r4, [%out], %r1;", 6, 3, 0, 2),
    word!("atom.global.or.b32 %r4, [%out], %r1;", 6, 3, 0, 7),
    word!("atom.global.xor.b32 %r4, [%out], %r1;", 6, 3, 0, 5),
    word!("atom.global.exch.b32 %r4, [%out], %r1;", 6, 3, 0, 3),
    word!("atom.global.cas.b32 %r4, [%out], %r1, %r2;", 6, 6, 9, 9),
    word!("atom.global.cas.b32 %r4, [%out], %r1, %r2;", 6, 5, 9, 6),
    word!("atom.global.inc.u32 %r4, [%out], %r1;", 6, 6, 0, 0),
    word!("atom.global.inc.u32 %r4, [%out], %r1;", 5, 6, 0, 6),
    word!("atom.global.dec.u32 %r4, [%out], %r1;", 0, 6, 0, 6),
    word!("atom.global.dec.u32 %r4, [%out], %r1;", 9, 6, 0, 6),
    word!(
        "atom.global.add.f32 %f4, [%out], %f1; mov.b32 %r4, %f4;",
        s(1.0),
        s(2.0),
        0,
        s(3.0)
    ),
    // Global memory flushes subnormals, shared memory keeps them.
    word!(
        "atom.global.add.f32 %f4, [%out], %f1; mov.b32 %r4, %f4;",
        0x8000_0001,
        3,
        0,
        0
    ),
    (
        "{ .shared .align 4 .b8 m[4096]; .reg .b32 p; mov.u32 p, %tid.x; shl.b32 p, p, 2; mov.u32 %r4, m; add.u32 p, p, %r4; st.shared.u32 [p], %r0; red.shared.add.f32 [p], %f1; ld.shared.u32 %rd, [p]; }",
        &[2, 3],
        5,
    ),
    // A sum that is no number is left as NVIDIA's one NaN.
    (
        "{ .shared .align 4 .b8 m[4096]; .reg .b32 p; mov.u32 p, %tid.x; shl.b32 p, p, 2; mov.u32 %r4, m; add.u32 p, p, %r4; st.shared.u32 [p], %r0; red.shared.add.f32 [p], %f1; ld.shared.u32 %rd, [p]; }",
        &[0xFF, 0xFFC0_0000],
        0x7FFF_FFFF,
    ),
    word!(
        "atom.global.add.noftz.f16x2 %r4, [%out], %r1;",
        0x3C00_3C00,
        0x4000_3C00,
        0,
        0x4200_4000
    ),
    word!(
        "atom.global.cas.b16 %h4, [%out], %h1, %h2; cvt.u32.u16 %r4, %h4;",
        7,
        7,
        9,
        9
    ),
    after!(
        "red.global.add.u64 [%out], %a1;",
        5,
        1 << 32,
        0,
        1 << 32 | 5
    ),
    after!(
        "red.global.add.v2.f32 [%out], {%f1, %f2};",
        s(2.0) << 32 | s(1.0),
        s(3.0),
        s(5.0),
        s(7.0) << 32 | s(4.0)
    ),
    after!(
        "red.global.add.noftz.v4.f16 [%out], {%h1, %h2, %h1, %h2};",
        0x3C00_3C00_3C00_3C00,
        0x4000,
        0x3C00,
        0x4000_4200_4000_4200
    ),
    (
        "st.global.u64 [%out], %a0; atom.global.add.v2.f32 {%f4, %f5}, [%out], {%f1, %f2}; \
         mov.b64 %x0, {%f4, %f5}; ld.global.u64 %x1, [%out]; sub.u64 %d, %x1, %x0;",
        &[s(2.0) << 32 | s(1.0), s(3.0), s(5.0)],
        (s(7.0) << 32 | s(4.0)) - (s(2.0) << 32 | s(1.0)),
    ),
    (
        "st.global.u64 [%out], %a0; red.global.add.f64 [%out], %g1; ld.global.f64 %gd, [%out];",
        &[d(1.0), d(2.0)],
        d(3.0),
    ),
];

#[test]
fn atomics() {
    check(ATOMICS);
    check(WIDE);
}
