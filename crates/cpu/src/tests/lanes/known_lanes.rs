//! Guards on the place of a lane in its warp.

use super::{ADDRESSES, agree, kernel, run};
use crate::source::compile_image;
use crate::{CompileOptions, Vectorization};

/// Makes the groups whole warps.
const SHUFFLE: &str = "shfl.sync.bfly.b32 %r8, %r2, 4, 31, -1;";
const LANE: &str = "mov.u32 %r4, %laneid; and.b32 %r5, %r2, 31; shr.u32 %r6, %i, 5; shl.b32 %r6, %r6, 2; mov.u32 %r7, tile; add.u32 %r6, %r6, %r7;";

#[test]
fn arms_for_known_lanes() {
    for guard in [
        "setp.eq.u32 %p0, %r4, 31;",
        "setp.ne.u32 %p0, %r5, 0;",
        "setp.lt.s32 %p0, %r5, 3;",
        "setp.gt.u32 %p0, %r4, 40;",
        "setp.le.u32 %p0, %r4, 31;",
        "sub.u32 %r9, %r4, 30; setp.ge.s32 %p0, %r9, 0;",
        "mul.lo.u32 %r9, %r4, 3; setp.hs.u32 %p0, %r9, 89;",
        "setp.lt.u32 %p1, %r4, 9; setp.eq.and.u32 %p0, %r5, 8, %p1;",
    ] {
        for arm in [
            "@%p0 st.shared.u32 [%r6], %r3; bar.sync 0; ld.shared.u32 %r9, [%r6];",
            "@%p0 ld.global.u32 %r9, [%in+8]; add.u32 %r9, %r9, 1;",
            "@!%p0 bra SKIP; ld.global.u32 %r9, [%x1+4]; add.u32 %r9, %r9, 5; st.shared.u32 [%r6], %r9; SKIP:",
            "@%p0 bra ODD; mul.lo.u32 %r9, %r3, 3; bra JOIN; ODD: add.u32 %r9, %r3, %r2; JOIN: add.u32 %r9, %r9, %r8;",
            "@%p0 add.u32 %r9, %r3, %r8; @!%p0 xor.b32 %r9, %r9, %r3;",
            "selp.u32 %r9, %r3, %r8, %p0; @%p0 red.shared.add.u32 [tile+128], 3; bar.sync 0; ld.shared.u32 %r8, [tile+128]; add.u32 %r9, %r9, %r8;",
        ] {
            agree(&format!(
                "{ADDRESSES} {LANE} {SHUFFLE} ld.global.u32 %r3, [%x1]; mov.u32 %r9, 7; {guard} {arm} or.b32 %r9, %r9, 1; st.global.u32 [%x2], %r9;"
            ));
        }
    }
}

/// The access of one lane is out of bounds.
#[test]
fn faults_name_the_known_lane() {
    for store in [
        "setp.eq.u32 %p0, %r4, 31; @%p0 st.shared.u32 [%r6+5000], %r3;",
        "setp.ge.u32 %p0, %r4, 5; mad.lo.u32 %r6, %r2, 600, %r6; @%p0 ld.shared.u32 %r3, [%r6];",
    ] {
        let source = kernel(&format!(
            "{ADDRESSES} {LANE} {SHUFFLE} ld.global.u32 %r3, [%x1]; {store} st.global.u32 [%x2], %r3;"
        ));
        let alone = run(&source, Vectorization::Never, 1, [64, 1, 1], 0).unwrap_err();
        assert!(!alone.contains("thread [0, 0, 0]"), "{alone}");
        let together = run(&source, Vectorization::Always, 1, [64, 1, 1], 0);
        assert_eq!(together.unwrap_err(), alone);
    }
}

/// The first lanes have an access of consecutive addresses in vectors, and the others keep theirs.
const FIRST: &str = "mul.wide.u32 %x3, %r4, 4; add.u64 %x3, %in, %x3; \
     shl.b32 %r10, %r4, 2; add.u32 %r10, %r10, %r7; shl.b32 %r11, %r4, 3; add.u32 %r11, %r11, %r7;";

#[test]
fn arms_for_the_first_lanes() {
    for lanes in [4, 8, 12, 13, 28] {
        for arm in [
            "@%p0 ld.shared.u32 %r9, [%r10+64]; @%p0 st.shared.u32 [%r10], %r9;",
            "@%p0 ld.shared.u32 %r9, [%r10+64]; mad.lo.u32 %r9, %r9, 3, %r8; @%p0 st.shared.u32 [%r10+256], %r9; bar.sync 0; ld.shared.u32 %r9, [%r10+256];",
            "@%p0 ld.global.u32 %r9, [%x3+8];",
            "not.pred %p0, %p0; @%p0 bra SKIP; ld.global.u32 %r9, [%x3+8]; SKIP:",
            "@%p0 st.global.u32 [%x2+2048], %r3; @%p0 st.shared.u32 [%r10], %n; @%p0 st.shared.u32 [%r10+256], %r10; bar.sync 0; ld.shared.u32 %r9, [%r10]; ld.shared.u32 %r8, [%r10+256]; add.u32 %r9, %r9, %r8;",
            "@%p0 ld.shared.f64 %g0, [%r11]; add.f64 %g0, %g0, %g0; @%p0 st.shared.f64 [%r11+256], %g0; bar.sync 0; ld.shared.u32 %r9, [%r11+256];",
            "@!%p0 bra REST; ld.global.u32 %r9, [%x3]; st.shared.u32 [%r10], %r9; bra JOIN; REST: add.u32 %r9, %r3, 5; st.shared.u32 [%r10+4], %r9; JOIN: bar.sync 0; ld.shared.u32 %r9, [%r10];",
        ] {
            let source = kernel(&format!(
                "{ADDRESSES} {LANE} {SHUFFLE} {FIRST} ld.global.u32 %r3, [%x1]; mov.u32 %r9, 7; \
                 mov.f64 %g0, 0d4008000000000000; st.shared.u32 [%r10], %r3; bar.sync 0; \
                 setp.lt.u32 %p0, %r4, {lanes}; {arm} or.b32 %r9, %r9, 1; st.global.u32 [%x2], %r9;"
            ));
            let [alone, together] = [Vectorization::Never, Vectorization::Always]
                .map(|vectorization| run(&source, vectorization, 4, [32, 1, 1], 0).unwrap());
            assert_eq!(together, alone, "{lanes} {arm}");
        }
    }
}

/// The last lane of an access is in bounds, or the first one that is not is named, whatever the other
/// lanes' addresses are.
#[test]
fn the_first_lanes_are_checked_alone() {
    // The bytes of a value, those behind the address, and an access at a distance from it.
    let accesses = [
        (4, 4096, "ld.shared.u32 %r9, [%r10+AT]"),
        (4, 4096, "st.shared.u32 [%r10+AT], %r3"),
        (8, 4096, "st.shared.f64 [%r11+AT], %g0"),
        (4, 16384, "ld.global.u32 %r9, [%x4+AT]"),
        (4, 16384, "st.global.u32 [%x4+AT], %r3"),
    ];
    for (size, bytes, access) in accesses {
        for lanes in [4, 8, 28] {
            let fits = bytes - size * lanes;
            for at in [fits, fits + 1, fits + size, bytes - size, bytes] {
                let access = access.replace("AT", &at.to_string());
                let source = kernel(&format!(
                    "{ADDRESSES} {LANE} {SHUFFLE} {FIRST} ld.global.u32 %r3, [%x1]; mov.u32 %r9, 7; \
                     mov.f64 %g0, 0d4008000000000000; mul.wide.u32 %x4, %r4, 4; add.u64 %x4, %out, %x4; \
                     setp.lt.u32 %p0, %r4, {lanes}; @%p0 {access}; st.global.u32 [%x2], %r9;"
                ));
                let [alone, together] = [Vectorization::Never, Vectorization::Always]
                    .map(|vectorization| run(&source, vectorization, 1, [32, 1, 1], 0));
                assert_eq!(together, alone, "{lanes} {access}");
                assert_eq!(alone.is_ok(), at == fits, "{lanes} {access}");
            }
        }
    }
}

/// Comparisons with the index of a thread, which whole groups have in common or not.
#[test]
fn comparisons_with_the_index() {
    for number in [0, 15, 16, 31, 32, 1023] {
        for comparison in ["lt.u32", "le.s32", "gt.u32", "hs.u32"] {
            for warp in ["", "shfl.sync.bfly.b32 %r8, %i, 1, 31, -1;"] {
                agree(&format!(
                    "{ADDRESSES} setp.{comparison} %p0, %r2, {number}; mov.u32 %r8, 5; {warp} mov.u32 %r9, 1; \
                     @%p0 bra YES; ld.global.u32 %r9, [%x1]; YES: setp.{comparison} %p1|%p2, %r2, {number}; \
                     @%p1 add.u32 %r9, %r9, %r8; @%p2 add.u32 %r9, %r9, 3; st.global.u32 [%x2], %r9;"
                ));
            }
        }
    }
}

/// The mask of the active lanes, in branches and loops.
#[test]
fn active_lanes() {
    for body in [
        "and.b32 %r4, %r2, 3; setp.eq.u32 %p0, %r4, 1; @!%p0 bra JOIN; activemask.b32 %r5; \
         shfl.sync.down.b32 %r6, %i, 4, 31, %r5; popc.b32 %r5, %r5; mad.lo.u32 %r9, %r5, 100, %r6; JOIN:",
        "setp.gt.u32 %p0, %r2, 31; @%p0 bra JOIN; activemask.b32 %r5; \
         shfl.sync.bfly.b32 %r6, %i, 4, 31, %r5; mad.lo.u32 %r9, %r5, 100, %r6; JOIN: bar.sync 0;",
    ] {
        agree(&format!(
            "{ADDRESSES} mov.u32 %r9, 7; {body} st.global.u32 [%x2], %r9;"
        ));
    }
}

/// Kernels with block sizes that no launch can have still compile.
#[test]
fn blocks_that_are_too_large() {
    let source = kernel(
        "mov.u32 %r3, %tid.y; mov.u32 %r4, %tid.z; st.global.u32 [%out], %r3; st.global.u32 [%in], %r4;",
    );
    for size in ["2147483648, 2, 2", "4294967295, 3, 1", "1048577, 5, 7"] {
        let source = source.replacen(") {", &format!(") .reqntid {size} {{"), 1);
        let vectorization = Vectorization::Always;
        let image = compile_image(&source, &CompileOptions { vectorization });
        assert!(image.is_ok(), "{size}");
    }
}
