//! Accesses under guards: to the elements of a row, up to its end.

use super::{ADDRESSES, agree, kernel, run};
use crate::Vectorization::{Always, Never};

/// Whole warps in place of half ones.
const WARPS: &str = "shfl.sync.bfly.b32 %r15, %i, 1, 31, -1;";

/// Four neighbouring halves of each thread, as far as there are `%n` of them from `%x1` on.
const ROW: &str = "shl.b32 %r3, %i, 2; add.u32 %r4, %r3, 1; add.u32 %r5, %r3, 2; \
    add.u32 %r6, %r3, 3; setp.lt.s32 %p0, %r3, %n; setp.lt.s32 %p1, %r4, %n; \
    setp.lt.s32 %p2, %r5, %n; setp.lt.s32 %p3, %r6, %n; mad.wide.s32 %x1, %r3, 2, %x1; \
    mov.b16 %h0, 7; mov.b16 %h1, 7; @%p0 ld.global.b16 %h0, [%x1]; \
    @%p1 ld.global.b16 %h1, [%x1+2]; mov.b16 %h2, 8; @%p2 ld.global.b16 %h2, [%x1+4]; \
    mov.b16 %h3, %h2; @%p3 ld.global.b16 %h3, [%x1+6];";

/// Stores what was loaded.
const SUM: &str = "cvt.u32.u16 %r7, %h0; cvt.u32.u16 %r8, %h1; cvt.u32.u16 %r9, %h2; \
    cvt.u32.u16 %r10, %h3; mad.lo.u32 %r7, %r7, 31, %r8; mad.lo.u32 %r7, %r7, 31, %r9; \
    mad.lo.u32 %r7, %r7, 31, %r10; selp.b32 %r8, %r7, 5, %p3; add.u32 %r7, %r7, %r8; \
    mul.wide.u32 %x3, %i, 4; add.u64 %x2, %out, %x3; st.global.u32 [%x2], %r7;";

#[test]
fn a_row_of_halves() {
    for lanes in ["", WARPS] {
        agree(&format!(
            ".reg .b16 %h<4>; {lanes} mov.u64 %x1, %in; {ROW} {SUM}"
        ));
        // What it has behind its end is not memory.
        agree(&format!(
            ".reg .b16 %h<4>; {lanes} mul.wide.u32 %x1, %n, 2; sub.u64 %x1, %in, %x1; \
             add.u64 %x1, %x1, 16384; {ROW} {SUM}"
        ));
    }
}

/// Sums that lanes carry around a loop, in which all guards hold but the last time.
#[test]
fn rows_in_a_loop() {
    for lanes in ["", WARPS] {
        agree(&format!(
            ".reg .f32 %a<4>; .reg .b32 %t<6>; {lanes} mov.u32 %t0, 0; mov.f32 %a0, 0f00000000; \
             mov.f32 %a1, %a0; L: shl.b32 %r3, %i, 1; add.u32 %r3, %r3, %t0; add.u32 %r4, %r3, 1; \
             setp.lt.s32 %p0, %r3, %n; setp.lt.s32 %p1, %r4, %n; \
             mad.wide.s32 %x1, %r3, 4, %in; mov.b32 %r5, 0; mov.b32 %r6, 0; \
             @%p0 ld.global.b32 %r5, [%x1]; @%p1 ld.global.b32 %r6, [%x1+4]; \
             cvt.rn.f32.u32 %f0, %r5; cvt.rn.f32.u32 %f1, %r6; add.f32 %a0, %a0, %f0; \
             fma.rn.f32 %a1, %f1, %f0, %a1; selp.f32 %a1, %a1, 0f3F800000, %p1; \
             add.u32 %t0, %t0, 32; setp.lt.u32 %p2, %t0, 160; @%p2 bra L; \
             add.f32 %a0, %a0, %a1; mul.wide.u32 %x3, %i, 4; add.u64 %x2, %out, %x3; \
             st.global.f32 [%x2], %a0;"
        ));
    }
}

/// Guards that depend on what another has loaded, and accesses that overwrite what was loaded.
#[test]
fn guards_and_values_that_change() {
    for lanes in ["", WARPS] {
        agree(&format!(
            "{lanes} mul.wide.u32 %x3, %i, 4; add.u64 %x1, %in, %x3; add.u64 %x2, %out, %x3; \
             setp.lt.u32 %p0, %i, %n; setp.lt.u32 %p1, %i, 60; mov.u32 %r3, 3; mov.u32 %r4, 4; \
             @%p0 ld.global.u32 %r3, [%x1]; add.u32 %r3, %r3, %r4; \
             @%p0 st.global.u32 [%x2], %r3; @%p1 ld.global.u32 %r4, [%x2]; \
             setp.lt.u32 %p1, %r4, 900000; @%p1 ld.global.u32 %r5, [%x1]; \
             @!%p1 mov.u32 %r5, 77; @!%p0 st.global.u32 [%x2], %r5; add.u32 %r5, %r5, %r4; \
             @%p0 st.global.u32 [%x2], %r5;"
        ));
        // Arithmetic under a guard that only some of the lanes have.
        agree(&format!(
            "{lanes} mul.wide.u32 %x3, %i, 4; add.u64 %x1, %in, %x3; add.u64 %x2, %out, %x3; \
             setp.lt.u32 %p0, %i, %n; setp.lt.u32 %p1, %i, 1000; mov.u32 %r5, 3; mov.u32 %r6, 4; \
             @%p0 ld.global.u32 %r5, [%x1]; setp.gt.u32 %p4, %r5, 20000000; \
             @%p4 sub.u32 %r5, %r5, 9; @%p1 ld.global.u32 %r6, [%x1+4]; \
             setp.gt.u32 %p4, %r6, 20000000; @%p4 sub.u32 %r6, %r6, 7; \
             xor.b32 %r6, %r6, %r5; st.global.u32 [%x2], %r6;"
        ));
    }
}

/// The first lane that is out of bounds is named, whichever load it is in.
#[test]
fn faults_of_guarded_loads() {
    for (lanes, n) in [("", 9000), (WARPS, 9000), ("", 8193), (WARPS, 8195)] {
        let source = kernel(&format!(
            ".reg .b16 %h<4>; {lanes} mov.u64 %x1, %in; {ROW} {SUM}"
        ));
        let faults = [Never, Always].map(|how| run(&source, how, 40, [64, 1, 1], n));
        assert!(faults[0].is_err());
        assert_eq!(faults[0], faults[1], "{n}");
    }
}

/// Predicates that are computed anew behind barriers, also where what they compare has changed.
#[test]
fn guards_behind_barriers() {
    for lanes in ["", WARPS] {
        agree(&format!(
            ".reg .b32 %t<6>; {lanes} mov.u32 %t0, 0; mov.u32 %t5, 0; mov.u32 %t3, tile; \
             mad.lo.u32 %t3, %r2, 4, %t3; L: add.u32 %t1, %i, %t0; setp.lt.u32 %p0, %t1, %n; \
             st.shared.u32 [%t3], %t1; bar.sync 0; ld.shared.u32 %t2, [%t3]; \
             selp.b32 %t4, %t2, 1, %p0; mad.lo.u32 %t5, %t5, 3, %t4; bar.sync 0; \
             add.u32 %t1, %t1, 9; add.u32 %t0, %t0, 25; setp.lt.u32 %p1, %t0, 100; @%p1 bra L; \
             @%p0 add.u32 %t5, %t5, 1000; add.u32 %t5, %t5, %t1; \
             mul.wide.u32 %x3, %i, 4; add.u64 %x2, %out, %x3; st.global.u32 [%x2], %t5;"
        ));
    }
}

/// Halves that become floats: finite ones, and an infinite one and NaN in one of the lanes.
#[test]
fn a_row_of_halves_as_floats() {
    for lanes in ["", WARPS] {
        for special in [5, 40, 999] {
            agree(&format!(
                ".reg .b16 %h<4>; {lanes} mul.lo.u32 %r11, %i, 2654435761; \
                 and.b32 %r11, %r11, 0xBBFFBBFF; xor.b32 %r12, %r11, 0x110011; \
                 setp.eq.u32 %p4, %i, {special}; selp.b32 %r11, 0x7C00FE01, %r11, %p4; \
                 mul.wide.u32 %x4, %i, 8; add.u64 %x4, %out, %x4; \
                 st.global.v2.u32 [%x4+8192], {{%r11, %r12}}; add.u64 %x1, %out, 8192; {ROW} \
                 cvt.f32.f16 %f0, %h0; cvt.f32.f16 %f1, %h1; cvt.f32.f16 %f2, %h2; \
                 cvt.f32.f16 %f3, %h3; mov.b32 %r3, %f0; mov.b32 %r4, %f1; mov.b32 %r5, %f2; \
                 mov.b32 %r6, %f3; mad.lo.u32 %r3, %r3, 31, %r4; mad.lo.u32 %r3, %r3, 31, %r5; \
                 mad.lo.u32 %r3, %r3, 31, %r6; mul.wide.u32 %x3, %i, 4; add.u64 %x2, %out, %x3; \
                 st.global.u32 [%x2], %r3;"
            ));
        }
    }
}

/// Guards of which neither the first nor the last lane tells the others.
#[test]
fn guards_of_exchanged_lanes() {
    for lanes in ["", WARPS] {
        agree(&format!(
            "{lanes} mul.wide.u32 %x3, %i, 4; add.u64 %x1, %in, %x3; add.u64 %x2, %out, %x3; \
             and.b32 %r3, %i, 15; xor.b32 %r3, %r3, 12; add.u32 %r4, %i, %n; \
             setp.lt.u32 %p0, %r3, 8; setp.lt.u32 %p1, %r3, 9; mov.u32 %r5, 3; mov.u32 %r6, 4; \
             @%p0 ld.global.u32 %r5, [%x1]; @%p1 ld.global.u32 %r6, [%x1+16]; \
             mad.lo.u32 %r5, %r5, 31, %r6; add.u32 %r5, %r5, %r4; st.global.u32 [%x2], %r5;"
        ));
    }
}

/// A number of all lanes that changes between two uses.
#[test]
fn shared_values_that_change() {
    for lanes in ["", WARPS] {
        agree(&format!(
            "{lanes} mul.wide.u32 %x3, %i, 4; add.u64 %x1, %in, %x3; add.u64 %x2, %out, %x3; \
             setp.lt.u32 %p0, %i, %n; mov.u32 %r5, 3; mov.u32 %r6, 4; mul.lo.u32 %r7, %n, 5; \
             @%p0 ld.global.u32 %r5, [%x1]; add.u32 %r5, %r5, %r7; mul.lo.u32 %r7, %r7, %r7; \
             setp.lt.u32 %p1, %i, 300; @%p0 ld.global.u32 %r6, [%x1+16]; \
             add.u32 %r6, %r6, %r7; mad.lo.u32 %r5, %r5, 31, %r6; st.global.u32 [%x2], %r5;"
        ));
    }
}

/// Values that a loop changes between two uses: of lanes, and as an address.
#[test]
fn values_that_a_loop_changes() {
    for lanes in ["", WARPS] {
        for (between, behind) in [
            ("add.u32 %r6, %r6, %t0; add.u32 %t0, %t0, 1;", ""),
            ("add.u64 %x1, %x1, 64;", "add.u32 %t0, %t0, 1;"),
        ] {
            agree(&format!(
                ".reg .b32 %t<2>; {lanes} mul.wide.u32 %x3, %i, 4; add.u64 %x1, %in, %x3; \
                 mov.u32 %t0, 0; mov.u32 %r6, 7; setp.lt.u32 %p0, %i, %n; \
                 L: setp.lt.u32 %p1, %i, 300; mov.u32 %r5, 3; mov.u32 %r8, 4; \
                 @%p0 ld.global.u32 %r5, [%x1]; mad.lo.u32 %r6, %r6, 31, %r5; {between} \
                 @%p1 ld.global.u32 %r8, [%x1]; mad.lo.u32 %r6, %r6, 31, %r8; {behind} \
                 setp.lt.u32 %p2, %t0, 5; @%p2 bra L; \
                 mul.wide.u32 %x3, %i, 4; add.u64 %x2, %out, %x3; st.global.u32 [%x2], %r6;"
            ));
        }
    }
}

/// Of what lies between the lanes' addresses, they load a part.
#[test]
fn parts_of_rows() {
    for lanes in ["", WARPS] {
        for (stride, ty, first, second) in [
            (4, "u16", 0, 0),
            (4, "u16", 2, 2),
            (8, "u16", 0, 2),
            (8, "u16", 2, 4),
            (8, "u16", 6, 4),
            (8, "u32", 0, 0),
            (8, "u32", 4, 4),
        ] {
            let (register, wide) = match ty {
                "u16" => ("%h", "cvt.u32.u16"),
                _ => ("%t", "mov.b32"),
            };
            // From the first byte of the memory on, and up to its last.
            for start in ["0".to_owned(), format!("{}", 16384 - 256 * stride)] {
                agree(&format!(
                    ".reg .b16 %h<2>; .reg .b32 %t<2>; {lanes} mul.wide.u32 %x3, %i, {stride}; \
                     add.u64 %x1, %in, %x3; add.u64 %x1, %x1, {start}; setp.lt.u32 %p0, %i, %n; \
                     setp.lt.u32 %p1, %i, 250; mov.{ty} {register}0, 3; mov.{ty} {register}1, 4; \
                     @%p0 ld.global.{ty} {register}0, [%x1+{first}]; \
                     @%p1 ld.global.{ty} {register}1, [%x1+{second}]; {wide} %r5, {register}0; \
                     {wide} %r6, {register}1; mad.lo.u32 %r5, %r5, 31, %r6; \
                     mul.wide.u32 %x3, %i, 4; add.u64 %x2, %out, %x3; st.global.u32 [%x2], %r5;"
                ));
            }
        }
    }
}

/// Halves are converted, and what is computed from them to halves again, behind a check of an index
/// that parts the conversions from the loads.
#[test]
fn halves_of_a_row_to_halves() {
    for (lanes, offset) in [
        ("", "0f3F800000"),
        (WARPS, "0f3F800000"),
        (WARPS, "0f7F800000"),
    ] {
        agree(&format!(
            ".reg .b16 %h<4>; {lanes} mov.u64 %x1, %in; {ROW} cvt.f32.f16 %f0, %h0; \
             cvt.f32.f16 %f1, %h1; cvt.f32.f16 %f2, %h2; cvt.f32.f16 %f3, %h3; \
             sub.f32 %f0, %f0, %f1; fma.rn.f32 %f1, %f1, %f2, {offset}; mul.f32 %f2, %f2, %f3; \
             sub.f32 %f3, {offset}, %f3; add.u32 %r11, %i, %n; mad.wide.s32 %x3, %r11, 4, %in; \
             cvt.rn.f16.f32 %h0, %f0; cvt.rn.f16.f32 %h1, %f1; cvt.rn.f16.f32 %h2, %f2; \
             cvt.rn.f16.f32 %h3, %f3; ld.global.u32 %r12, [%x3]; {SUM} add.u32 %r7, %r7, %r12; \
             st.global.u32 [%x2+8192], %r7;"
        ));
    }
}

/// What a group has written before it finds an infinite half it does not write again.
#[test]
fn effects_before_infinite_halves() {
    for lanes in ["", WARPS] {
        agree(&format!(
            ".reg .b16 %h<4>; {lanes} mov.u32 %r11, 0x7C003C00; mul.wide.u32 %x4, %i, 8; \
             add.u64 %x5, %out, %x4; st.global.v2.u32 [%x5+8192], {{%r11, %r11}}; \
             mul.wide.u32 %x3, %i, 4; add.u64 %x2, %out, %x3; add.u64 %x1, %out, 8192; \
             st.global.u32 [%x2], %i; setp.lt.s32 %p5, %i, %n; \
             @%p5 ld.global.u32 %r13, [%x2]; add.u32 %r13, %r13, 1000; \
             @%p5 st.global.u32 [%x2], %r13; setp.lt.s32 %p6, %i, 512; mov.b16 %h0, 7; \
             mov.b16 %h1, 7; add.u64 %x1, %x1, %x4; @%p5 ld.global.b16 %h0, [%x1]; \
             @%p5 ld.global.b16 %h1, [%x1+2]; mov.b16 %h2, 7; mov.b16 %h3, 7; \
             @%p5 ld.global.b16 %h2, [%x1+4]; @%p5 ld.global.b16 %h3, [%x1+6]; \
             cvt.f32.f16 %f0, %h0; cvt.f32.f16 %f1, %h3; mov.b32 %r3, %f0; mov.b32 %r4, %f1; \
             mad.lo.u32 %r3, %r3, 31, %r4; ld.global.u32 %r13, [%x2]; \
             add.u32 %r3, %r3, %r13; st.global.u32 [%x2], %r3;"
        ));
    }
}

/// Comparisons that a check of an index parts from the branch, of values that change between.
#[test]
fn guards_before_checked_indices() {
    for lanes in ["", WARPS] {
        for (change, other) in [("0", "%n"), ("7", "%n"), ("0", "900"), ("%n", "700")] {
            agree(&format!(
                ".reg .b32 %t<4>; {lanes} mov.u32 %r3, %i; mov.u32 %t0, 0; mov.u32 %t2, 5; \
                 L: setp.lt.u32 %p0, %r3, {other}; setp.lt.and.u32 %p0, %t0, 3, %p0; \
                 add.u32 %r4, %r3, %t0; mul.wide.u32 %x3, %r4, 4; add.u64 %x1, %in, %x3; \
                 add.u64 %x2, %out, %x3; add.u32 %r3, %r3, {change}; \
                 @%p0 ld.global.u32 %t1, [%x1]; @%p0 st.global.u32 [%x2], %t1; \
                 add.u32 %t0, %t0, 1; setp.lt.u32 %p1, %t0, 5; @%p1 bra L;"
            ));
        }
    }
}

/// A predicate that comes from two blocks, one of which goes on with the branch.
#[test]
fn guards_that_two_blocks_compare() {
    for lanes in ["", WARPS] {
        agree(&format!(
            "{lanes} mul.wide.u32 %x3, %i, 4; add.u64 %x1, %in, %x3; add.u64 %x2, %out, %x3; \
             setp.lt.u32 %p2, %n, 100; @%p2 bra A; setp.lt.u32 %p0, %i, 40; bra.uni B; \
             A: setp.lt.u32 %p0, %i, 70; B: @%p0 ld.global.u32 %r3, [%x1]; \
             @%p0 st.global.u32 [%x2], %r3;"
        ));
    }
}

/// Arms that some lanes execute in a loop: what only an arm reads is not kept, the rest is.
#[test]
fn registers_of_arms_in_loops() {
    for lanes in ["", WARPS] {
        for arm in [
            // Neither is read outside.
            "ld.global.u32 %t1, [%x1]; st.global.u32 [%x2], %t1;",
            // The next time reads what was loaded now.
            "add.u32 %t2, %t2, %t1; ld.global.u32 %t1, [%x1];",
            "mov.u32 %t1, %t0; atom.global.add.u32 %t1, [%x2], %t1; st.global.u32 [%x1], %t1;",
            "ld.global.u32 %t2, [%x1];",
            // Read where it is written.
            "ld.global.u64 %x4, [%x5]; ld.global.u64 %x4, [%x4]; sub.u64 %x4, %x4, %out; \
             st.global.u32 [%x1], %x4;",
        ] {
            let arm: String = arm
                .split_inclusive(';')
                .map(|i| format!("@%p0 {i} "))
                .collect();
            agree(&format!(
                ".reg .b32 %t<4>; {lanes} mov.u32 %t0, 0; mov.u32 %t1, 3; mov.u32 %t2, 5; \
                 mul.wide.u32 %x3, %i, 4; add.u64 %x1, %out, %x3; add.u64 %x2, %x1, 4096; \
                 add.u64 %x5, %x1, %x3; add.u64 %x5, %x5, 12288; st.global.u64 [%x5], %x5; \
                 mul.lo.u32 %r3, %i, 2654435761; L: shr.u32 %r4, %r3, %t0; \
                 and.b32 %r4, %r4, 1; setp.eq.u32 %p0, %r4, 1; {arm} \
                 add.u32 %t0, %t0, 1; setp.lt.u32 %p1, %t0, 9; @%p1 bra L; \
                 mov.u64 %x6, 0; st.global.u64 [%x5], %x6; st.global.u32 [%x1+8192], %t2;"
            ));
        }
    }
}

/// Lanes that do not execute an access may have addresses below shared memory or past its end: those of the
/// first and of the last lanes of a group, with several accesses from one register.
#[test]
fn other_lanes_are_out_of_bounds() {
    // No lane stores to the second place.
    for (guard, first, second) in [
        ("setp.ge.u32 %p0, %r2, 1;", -4, 2044),
        ("setp.ge.u32 %p0, %r2, 5;", -20, 2028),
        ("setp.lt.u32 %p0, %r2, 20;", 4096 - 80, 2048 - 80),
        ("and.b32 %r5, %r2, 7; setp.ge.u32 %p0, %r5, 1;", -4, 2044),
    ] {
        for access in [
            format!("ld.shared.u32 %r6, [%r4+{first}]; ld.shared.u32 %r7, [%r4+{second}];"),
            format!("st.shared.u32 [%r4+{first}], %r3; ld.shared.u32 %r7, [%r4+{second}];"),
            format!("ld.shared.u32 %r7, [%r4+{second}]; st.shared.u32 [%r4+{first}], %r7;"),
        ] {
            agree(&format!(
                "{ADDRESSES} mov.u32 %r4, tile; mad.lo.u32 %r4, %r2, 4, %r4; ld.global.u32 %r3, [%x1]; \
                 st.shared.u32 [%r4], %r3; mov.u32 %r6, 3; mov.u32 %r7, 5; bar.sync 0; {guard} \
                 @!%p0 bra SKIP; {access}\nSKIP: bar.sync 0; ld.shared.u32 %r8, [%r4]; \
                 mad.lo.u32 %r6, %r6, 3, %r7; mad.lo.u32 %r6, %r6, 5, %r8; st.global.u32 [%x2], %r6;"
            ));
        }
    }
}
