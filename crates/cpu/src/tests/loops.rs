//! Loops over shared memory.

use super::lanes::{ADDRESSES, FILL, agree, kernel, run};
use crate::Vectorization;

/// Loops of any length, up to the last word, forwards and backwards, with stores.
#[test]
fn loops_over_shared_memory() {
    for length in 1..10 {
        agree(&format!(
            "{ADDRESSES} {FILL} mov.u32 %r9, 0; mov.u32 %r3, {length}; mov.u32 %r4, tile; mad.lo.u32 %r5, %r2, 4, %r4; \
             L: ld.shared.u32 %r6, [%r4]; add.u32 %r4, %r4, 4; ld.shared.u32 %r7, [%r5+8]; add.u32 %r5, %r5, 64; \
             ld.shared.u32 %r8, [%r4+1020]; mad.lo.u32 %r9, %r6, 3, %r9; mad.lo.u32 %r9, %r7, %r9, %r8; \
             sub.u32 %r3, %r3, 1; setp.ne.u32 %p0, %r3, 0; @%p0 bra L; st.global.u32 [%x2], %r9;"
        ));
        let last = 4096 - 4 * length;
        agree(&format!(
            "{ADDRESSES} {FILL} mov.u32 %r9, 0; cvt.u64.u32 %x3, %r11; add.u64 %x3, %x3, {last}; mov.u32 %r3, 0; bra TEST; \
             L: st.shared.u32 [%x3], %r3; ld.shared.u32 %r4, [%x3]; mad.lo.u32 %r9, %r9, 5, %r4; add.u64 %x3, %x3, 4; \
             add.u32 %r3, %r3, 1; TEST: setp.lt.u32 %p0, %r3, {length}; @%p0 bra L; \
             add.u32 %r9, %r9, %i; st.global.u32 [%x2], %r9;"
        ));
        agree(&format!(
            "{ADDRESSES} {FILL} mov.u32 %r9, 1; mov.u32 %r3, {length}; add.u32 %r4, %r11, {}; \
             L: ld.shared.v2.u32 {{%r5, %r6}}, [%r4]; add.u32 %r4, %r4, -8; mad.lo.u32 %r9, %r9, %r5, %r6; \
             sub.u32 %r3, %r3, 1; setp.ne.u32 %p0, %r3, 0; @%p0 bra L; add.u32 %r9, %r9, %i; st.global.u32 [%x2], %r9;",
            8 * length - 8
        ));
    }
}

/// A loop that leaves shared memory names the access that does.
#[test]
fn faults_in_loops_name_the_access() {
    for (start, step, address) in [
        ("4064", "4", "%r4"),
        ("32", "-4", "%r4"),
        ("2", "4", "%r4"),
        ("0", "6", "%r4"),
        ("0xFFFFFFE0", "4", "%r4+16"),
        ("16", "-8", "%r4+8"),
        ("3000", "100", "%r4+4"),
        ("0x7FFFFFF0", "4", "%r4"),
        ("0", "4096", "%r5"),
        ("8", "-4096", "%r5"),
        ("2", "4", "%r5"),
        ("0", "2", "%r5"),
    ] {
        let source = kernel(&format!(
            "{FILL} mov.u32 %r3, 0; add.u32 %r4, %r11, {start}; mad.lo.u32 %r5, %r2, 4, %r4;\n\
             L: add.u32 %r3, %r3, 1;\nld.shared.u32 %r7, [%r10];\nld.shared.u32 %r6, [{address}];\nadd.u32 %r4, %r4, {step}; \
             add.u32 %r5, %r5, {step}; st.global.u32 [%out], %r6; setp.lt.u32 %p0, %r3, 100; @%p0 bra L;"
        ));
        let alone = run(&source, Vectorization::Never, 1, [128, 1, 1], 0).unwrap_err();
        let together = run(&source, Vectorization::Always, 1, [128, 1, 1], 0).unwrap_err();
        assert_eq!(together, alone, "{start} {step} {address}");
    }
}

/// Loops that end at a bound: in every way to say so, upwards and downwards, by any step, and with
/// a counter that is compared before or after it changes.
#[test]
fn counted_loops() {
    let step = |add: &str, test: &str, register: &str, ty: &str| {
        format!(
            "L: ld.shared.u32 %r6, [%r4+8]; add.u32 %r4, %r4, 4; mad.lo.u32 %r9, %r9, 3, %r6; \
             add.{ty} {register}, {register}, {add}; {test} @%p0 bra L; st.global.u32 [%x2], %r9;"
        )
    };
    let start = format!("{ADDRESSES} {FILL} mov.u32 %r9, %i; mov.u32 %r4, tile;");
    for n in [1, 3, 4, 8, 9, 64] {
        for (from, add, test) in [
            (0, 1, format!("setp.lt.u32 %p0, %r3, {n};")),
            (0, 1, format!("setp.gt.s32 %p0, {n}, %r3;")),
            (0, 2, format!("setp.lo.u32 %p0, %r3, {n};")),
            (-5, 4, format!("setp.le.s32 %p0, %r3, {n};")),
            (n, -1, "setp.gt.s32 %p0, %r3, 0;".into()),
            (n, -2, "setp.ge.s32 %p0, %r3, -3;".into()),
            (4 * n, -4, "setp.ne.s32 %p0, %r3, 0;".into()),
            (0, 8, format!("setp.ne.u32 %p0, {}, %r3;", 8 * n)),
            (0, 3, format!("setp.lt.u32 %p0, %r3, {n};")),
            (
                0,
                1,
                format!("setp.ge.u32 %p1, %r3, {n}; not.pred %p0, %p1;"),
            ),
        ] {
            let body = step(&add.to_string(), &test, "%r3", "s32");
            agree(&format!("{start} mov.u32 %r3, {from}; {body}"));
            let test = test.replace("32 %p", "64 %p").replace("%r3", "%x4");
            let body = step(&add.to_string(), &test, "%x4", "s64");
            agree(&format!("{start} mov.u64 %x4, {from}; {body}"));
        }
        agree(&format!(
            "{start} mov.u32 %r3, 0; \
             L: ld.shared.u32 %r6, [%r4]; add.u32 %r4, %r4, 8; setp.ge.u32 %p0, %r3, {n}; \
             add.u32 %r3, %r3, 1; mad.lo.u32 %r9, %r9, 3, %r6; @!%p0 bra L; \
             add.u32 %r9, %r9, %r4; mad.lo.u32 %r9, %r9, 5, %r3; st.global.u32 [%x2], %r9;"
        ));
    }
}

/// Accesses that a compiler has unrolled are checked once: at one distance from each other, in
/// lanes next to each other or apart, and with an address that changes between them.
#[test]
fn unrolled_loops() {
    agree(&format!(
        "{ADDRESSES} {FILL} mov.u32 %r4, tile; mad.lo.u32 %r5, %r2, 4, %r4; mad.lo.u32 %r6, %r2, 8, %r4; mov.u32 %r9, %i; \
         bar.sync 0; ld.shared.u32 %r7, [%r4+4]; ld.shared.u32 %r8, [%r5+64]; mad.lo.u32 %r9, %r7, %r8, %r9; \
         ld.shared.u32 %r7, [%r4+8]; ld.shared.u32 %r8, [%r5+128]; mad.lo.u32 %r9, %r7, %r8, %r9; \
         ld.shared.v2.u32 {{%r7, %r8}}, [%r6]; mad.lo.u32 %r9, %r7, %r8, %r9; add.u32 %r6, %r6, 1024; \
         ld.shared.v2.u32 {{%r7, %r8}}, [%r6+8]; mad.lo.u32 %r9, %r7, %r8, %r9; add.u32 %r4, %r4, 16; \
         ld.shared.u32 %r7, [%r4+4]; mad.lo.u32 %r9, %r7, %r8, %r9; st.global.u32 [%x2], %r9;"
    ));
}

/// One of them that leaves shared memory is named, and those before it are made.
#[test]
fn faults_in_unrolled_loops_name_the_access() {
    for (start, offset) in [
        (0, 4096),
        (0, 4094),
        (2, 0),
        (-64, 0),
        (4032, 0),
        (4000, 64),
    ] {
        let source = kernel(&format!(
            "{FILL} add.u32 %r4, %r11, {start}; mad.lo.u32 %r5, %r2, 4, %r4; bar.sync 0;\n\
             ld.shared.u32 %r6, [%r4+64];\nst.global.u32 [%out], %r6;\nld.shared.u32 %r7, [%r4+{offset}];\n\
             ld.shared.u32 %r8, [%r5];\nst.shared.u32 [%r5+32], %r8;\nst.global.u32 [%out+4], %r7;"
        ));
        let alone = run(&source, Vectorization::Never, 1, [128, 1, 1], 0).unwrap_err();
        let together = run(&source, Vectorization::Always, 1, [128, 1, 1], 0).unwrap_err();
        assert_eq!(together, alone, "{start} {offset}");
    }
}

/// Rows of a block that sum over the same rows of a tile, some of which leave the loop early or the tile.
#[test]
fn rows_of_a_tile() {
    let product = |count: &str, from: &str, distance: i32| {
        format!(
            "mov.u32 %r12, %tid.y; mad.lo.u32 %r3, %r12, %r1, %r2; mad.lo.u32 %i, %r0, 256, %r3; {ADDRESSES} \
             ld.global.u32 %r6, [%x1]; mov.u32 %r4, tile; mad.lo.u32 %r5, %r3, 4, %r4; st.shared.u32 [%r5], %r6; \
             not.b32 %r6, %r6; st.shared.u32 [%r5+2048], %r6; mad.lo.u32 %r7, %r12, 64, %r4; \
             mad.lo.u32 %r8, %r2, 4, %r4; mov.u32 %r9, %i; mov.u32 %r14, 0; mov.u32 %r15, 16; {count}\n\
             TILE: bar.sync 0;\nmov.u32 %r10, %r7; mov.u32 %r11, {from}; mov.u32 %r13, %r15;\n\
             L: ld.shared.u32 %r5, [%r10];\nld.shared.u32 %r6, [%r11+{distance}];\n\
             mad.lo.u32 %r9, %r5, %r6, %r9; add.u32 %r10, %r10, 4; add.u32 %r11, %r11, 64; \
             sub.u32 %r13, %r13, 1; setp.ne.u32 %p0, %r13, 0; @%p0 bra L;\n\
             bar.sync 0; add.u32 %r14, %r14, 1; setp.lt.u32 %p1, %r14, 3; @%p1 bra TILE; st.global.u32 [%x2], %r9;"
        )
    };
    let differs = "setp.eq.u32 %p2, %r12, 1; @!%p2 bra SAME; mov.u32 %r15, 5; SAME:";
    for (count, from, distance) in [
        ("", "%r8", 2048),
        ("mov.u32 %r15, 7;", "%r8", 2048),
        // Only when they run is it known that the second row's loop ends earlier.
        (differs, "%r8", 2048),
        // Each row reads its own.
        ("", "%r7", 0),
        // The last iterations leave shared memory.
        ("", "%r8", 3200),
    ] {
        let source = kernel(&product(count, from, distance));
        for (grid, block) in [
            (2, [16, 16, 1]),
            (1, [16, 3, 1]),
            (1, [32, 4, 1]),
            (3, [16, 1, 1]),
        ] {
            let alone = run(&source, Vectorization::Never, grid, block, 0);
            let together = run(&source, Vectorization::Always, grid, block, 0);
            assert_eq!(alone.is_err(), distance == 3200, "{alone:?}");
            assert_eq!(together, alone, "{count} {from} {distance}, {block:?}");
        }
    }
}
