//! Loads at indices that a minimum or maximum keeps in a row.

use super::{ADDRESSES, agree, kernel, run};
use crate::Vectorization;

/// The lanes whose index is clamped load from where the clamp says, of each type, and also where
/// the index itself is used again.
#[test]
fn clamped_lanes_load_for_themselves() {
    let low = "sub.s32 %r3, %i, 5; max.s32 %r3, %r3, 0;";
    let high = "add.u32 %r3, %i, 5; mov.u32 %r4, 101; min.u32 %r3, %r3, %r4;";
    let wraps = "sub.u32 %r3, %i, 5; mov.u32 %r4, 101; min.u32 %r3, %r3, %r4;";
    let both = "sub.s32 %r3, %i, 9; mov.u32 %r4, 60; max.s32 %r3, %r3, 3; min.s32 %r3, %r4, %r3;";
    let far = "sub.u32 %r3, %i, 256; max.u32 %r3, %r3, 0xFFFFFF10; sub.u32 %r3, %r3, 0xFFFFFF00;";
    for index in [low, high, wraps, both, far] {
        for (ty, bytes, load) in [
            ("u8", 1, "%r9"),
            ("s8", 1, "%r9"),
            ("s16", 2, "%r9"),
            ("b16", 2, "%h0"),
            ("f32", 4, "%f0"),
            ("u64", 8, "%x4"),
        ] {
            let word = match load {
                "%h0" => "cvt.u32.u16 %r9, %h0;",
                "%f0" => "mov.b32 %r9, %f0;",
                "%x4" => "cvt.u32.u64 %r9, %x4;",
                _ => "",
            };
            for again in [
                "",
                "xor.b32 %r9, %r9, %r3;",
                "cvt.u32.u64 %r5, %x3; sub.u32 %r9, %r9, %r5; cvt.u32.u64 %r5, %in; add.u32 %r9, %r9, %r5;",
            ] {
                agree(&format!(
                    "{ADDRESSES} .reg .b16 %h<2>; {index} mul.wide.s32 %x3, %r3, {bytes}; add.s64 %x3, %x3, %in; \
                     ld.global.{ty} {load}, [%x3]; {word} {again} add.u32 %r9, %r9, 1; st.global.u32 [%x2], %r9;"
                ));
            }
        }
        // In the arm of a branch, and in a loop.
        agree(&format!(
            "{ADDRESSES} mov.u32 %r9, 7; setp.gt.u32 %p0, %i, 2; @!%p0 bra JOIN; {index} \
             mad.wide.u32 %x3, %r3, 4, %in; ld.global.u32 %r9, [%x3]; JOIN: add.u32 %r9, %r9, 1; \
             st.global.u32 [%x2], %r9;"
        ));
        agree(&format!(
            "{ADDRESSES} mov.u32 %r9, 1; mov.u32 %r10, 0; L: {index} mad.wide.u32 %x3, %r3, 4, %in; \
             ld.global.u32 %r5, [%x3]; mad.lo.u32 %r9, %r9, 5, %r5; add.u32 %r10, %r10, 1; \
             setp.lt.u32 %p0, %r10, 3; @%p0 bra L; st.global.u32 [%x2], %r9;"
        ));
    }
}

/// What was loaded, and what it was loaded for, is there behind barriers.
#[test]
fn clamped_lanes_keep_what_they_load() {
    for index in [
        "sub.s32 %r3, %i, 5; max.s32 %r3, %r3, 0;",
        "add.u32 %r3, %i, 5; min.u32 %r3, %r3, 101;",
    ] {
        agree(&format!(
            "{ADDRESSES} {index} mad.wide.u32 %x3, %r3, 4, %in; ld.global.u32 %r9, [%x3]; \
             mov.u32 %r12, tile; mad.lo.u32 %r4, %r2, 4, %r12; mov.u32 %r10, 0; mov.u32 %r11, 7; \
             L: st.shared.u32 [%r4], %r10; bar.sync 0; ld.shared.u32 %r5, [%r12+4]; \
             add.u32 %r5, %r5, %r9; mad.lo.u32 %r11, %r11, 31, %r5; bar.sync 0; \
             add.u32 %r10, %r10, 1; setp.lt.u32 %p0, %r10, 4; @%p0 bra L; \
             add.u32 %r11, %r11, %r9; st.global.u32 [%x2], %r11;"
        ));
    }
}

/// An index that wraps around behind the clamp.
#[test]
fn a_clamped_index_may_wrap() {
    for add in ["0xFFFFFFF8", "0xFFFFFF98"] {
        agree(&format!(
            "{ADDRESSES} sub.s32 %r3, %i, 2; max.s32 %r3, %r3, 0; add.u32 %r3, %r3, {add}; \
             mul.wide.u32 %x3, %r3, 4; and.b64 %x4, %x3, 0x1fc; add.u64 %x3, %x4, %in; \
             ld.global.u32 %r9, [%x3]; add.u32 %r9, %r9, 1; st.global.u32 [%x2], %r9;"
        ));
    }
}

/// The fault is that of the first lane whose index is out of bounds.
#[test]
fn faults_name_the_clamped_lane() {
    for index in [
        "add.u32 %r3, %i, 3993; min.u32 %r3, %r3, 4100;",
        "add.u32 %r3, %i, 4080; min.u32 %r3, %r3, 4090; add.u32 %r3, %r3, 1000000;",
        "sub.s32 %r3, %i, 20; max.s32 %r3, %r3, -9;",
        "sub.s32 %r3, 9, %i; max.s32 %r3, %r3, -4;",
    ] {
        let source = kernel(&format!(
            "{ADDRESSES} {index} mul.wide.s32 %x3, %r3, 4; add.s64 %x3, %x3, %in; ld.global.u32 %r9, [%x3]; \
             st.global.u32 [%x2], %r9;"
        ));
        for grid in [1, 4] {
            let alone = run(&source, Vectorization::Never, grid, [128, 1, 1], 0);
            let together = run(&source, Vectorization::Always, grid, [128, 1, 1], 0);
            assert_eq!(together, alone, "{index}");
            assert!(alone.is_err(), "{index}");
        }
    }
}
