//! Checks that are made once for several accesses: what is read behind them is what each lane reads alone.

use super::{ADDRESSES, agree, kernel, run};
use crate::Vectorization;

/// The same for blocks of these sizes.
fn agree_in(block: [u32; 3], body: &str) {
    for n in [0, 3, 5, 16, 31, 33] {
        let source = kernel(body);
        let [alone, together] = [Vectorization::Never, Vectorization::Always]
            .map(|vectorization| run(&source, vectorization, 2, block, n));
        assert!(alone.is_ok(), "{body}");
        assert_eq!(together, alone, "{n} {body}");
    }
}

/// Each lane has the address of its own, also where an offset is no multiple of the size.
#[test]
fn lanes_have_their_addresses() {
    let cells = format!(
        "{ADDRESSES} mov.u32 %r4, tile; mad.lo.u32 %r4, %r2, 32, %r4; add.u32 %r5, %r4, 4; mad.lo.u32 %r6, %r2, 3, 7;"
    );
    let fill = "st.shared.u32 [%r4+8], %r2; st.shared.u32 [%r4+12], %r6; st.shared.u32 [%r4+16], %r2; st.shared.u32 [%r4+20], %r6;";
    agree_in(
        [64, 1, 1],
        &format!(
            "{cells} {fill} bar.sync 0; ld.shared.v2.u32 {{%r8, %r9}}, [%r5+4]; ld.shared.v2.u32 {{%r10, %r11}}, [%r5+12]; \
             ld.shared.v2.u32 {{%r12, %r13}}, [%r5+4]; mad.lo.u32 %r8, %r9, 5, %r8; mad.lo.u32 %r8, %r10, 11, %r8; \
             mad.lo.u32 %r8, %r13, 13, %r8; st.global.u32 [%x2], %r8;"
        ),
    );
    agree_in(
        [64, 1, 1],
        &format!(
            "{cells} {fill} mov.u32 %r9, 0; bar.sync 0; AGAIN: st.shared.v2.u32 [%r5+4], {{%r2, %r6}}; \
             st.shared.v2.u32 [%r5+12], {{%r6, %r2}}; add.u32 %r9, %r9, 1; setp.lt.u32 %p0, %r9, 3; @%p0 bra AGAIN; \
             bar.sync 0; ld.shared.u32 %r8, [%r4+8]; ld.shared.u32 %r10, [%r4+20]; mad.lo.u32 %r8, %r10, 7, %r8; \
             st.global.u32 [%x2], %r8;"
        ),
    );
}

/// A parameter that is loaded once more behind a barrier is there when a check reads it.
#[test]
fn parameters_are_there_for_checks() {
    agree_in(
        [32, 1, 1],
        &format!(
            "{ADDRESSES} shl.b32 %r3, %r2, 2; st.shared.u32 [%r3], %r2; mul.lo.u32 %r9, %n, 4; bar.sync 0, 32; \
             ld.shared.u32 %r4, [%r9]; ld.shared.u32 %r5, [%r9+4]; ld.shared.u32 %r6, [%r9+8]; ld.shared.u32 %r7, [%r9+12]; \
             mad.lo.u32 %r8, %r5, 100, %r4; mad.lo.u32 %r8, %r6, 10000, %r8; mad.lo.u32 %r8, %r7, 1000000, %r8; \
             st.global.u32 [%x2], %r8;"
        ),
    );
    agree_in(
        [32, 1, 1],
        &format!(
            "{ADDRESSES} shl.b32 %r3, %r2, 2; st.shared.u32 [%r3], %r2; bar.sync 0, 32; min.s32 %r4, %r2, %n; \
             mul.wide.s32 %x3, %r4, 4; add.s64 %x4, %in, %x3; ld.global.u32 %r5, [%x4]; st.global.u32 [%x2], %r5;"
        ),
    );
}

/// Behind a load at a clamped index the next one at that index is clamped, too.
#[test]
fn indices_are_clamped_twice() {
    agree_in(
        [32, 1, 1],
        &format!(
            "{ADDRESSES} min.s32 %r4, %i, %n; mul.wide.s32 %x3, %r4, 4; add.s64 %x4, %in, %x3; ld.global.u32 %r5, [%x4]; \
             min.s32 %r6, %i, %n; mul.wide.s32 %x5, %r6, 4; add.s64 %x6, %in, %x5; ld.global.u32 %r7, [%x6+64]; \
             mad.lo.u32 %r8, %r7, 1000, %r5; st.global.u32 [%x2], %r8;"
        ),
    );
}

/// A load from an address that rows share, into a register that they do not share.
#[test]
fn rows_share_an_address_alone() {
    agree(&format!(
        "{ADDRESSES} mov.u32 %r10, %tid.x; mov.u32 %r11, %tid.y; shl.b32 %r3, %r11, 6; shl.b32 %r4, %r10, 2; \
         add.u32 %r5, %r3, %r4; and.b32 %r5, %r5, 1020; cvt.rn.f32.u32 %f1, %r10; st.shared.f32 [%r5], %f1; \
         st.shared.f32 [%r5+1024], %f1; setp.lt.u32 %p1, %r10, 8; mov.f32 %f2, 0f00000000; and.b32 %r4, %r4, 60; \
         and.b32 %r3, %r3, 960; add.u32 %r7, %r4, 1024; mov.u32 %r8, 0; bar.sync 0; \
         AGAIN: ld.shared.f32 %f3, [%r3]; ld.shared.f32 %f4, [%r7]; @%p1 mov.f32 %f4, %f3; fma.rn.f32 %f2, %f3, %f4, %f2; \
         add.u32 %r3, %r3, 4; add.u32 %r7, %r7, 64; add.u32 %r8, %r8, 1; setp.lt.u32 %p2, %r8, 16; @%p2 bra AGAIN; \
         bar.sync 0; add.f32 %f2, %f2, 0f3F800000; mad.lo.u32 %r9, %r11, %r1, %r10; mul.wide.u32 %x3, %r9, 4; \
         add.u64 %x3, %out, %x3; st.global.f32 [%x3], %f2;"
    ));
}

/// Groups in which a clamp's value wraps around have passed no check up to its load.
#[test]
fn checks_between_a_clamp_and_its_load() {
    let source = kernel(
        "shl.b32 %r3, %r2, 1; add.u32 %r3, %r3, 0x7ffffff0; mov.u32 %r4, 0x80000007; sub.u32 %r5, %r4, %r2; \
         mul.wide.u32 %x0, %r2, 8; add.s64 %x1, %out, %x0; max.s32 %r6, %r3, %n; cvt.s64.s32 %x2, %r6; \
         mad.wide.s32 %x3, %r5, 1, %x2; add.s64 %x3, %x3, %in; ld.global.u8 %r7, [%x3+9]; cvt.s64.s32 %x4, %r5; \
         st.global.u64 [%x1], %x4; st.global.u32 [%x1+2048], %r7;",
    );
    let [alone, together] = [Vectorization::Never, Vectorization::Always]
        .map(|vectorization| run(&source, vectorization, 1, [32, 1, 1], 1 << 31));
    assert!(alone.is_ok(), "{alone:?}");
    assert_eq!(together, alone);
}

/// `%laneid` is no part of `%tid.x`: what is left of that is the first thread of the warp.
#[test]
fn lanes_of_other_warps_have_other_addresses() {
    for block in [[64, 1, 1], [16, 4, 1]] {
        agree_in(
            block,
            &format!(
                "{ADDRESSES} mov.u32 %r3, %tid.y; mad.lo.u32 %r3, %r3, %r1, %r2; shl.b32 %r4, %r3, 2; \
                 st.shared.u32 [%r4], %r3; bar.sync 0; mov.u32 %r5, %laneid; sub.u32 %r6, %r2, %r5; \
                 shl.b32 %r7, %r5, 2; and.b32 %r7, %r7, 60; or.b32 %r8, %r6, %r7; and.b32 %r8, %r8, 4092; \
                 ld.shared.u32 %r9, [%r8]; mad.lo.u32 %r10, %r3, 4, 0; cvt.u64.u32 %x3, %r10; \
                 add.u64 %x3, %x3, %out; st.global.u32 [%x3], %r9;"
            ),
        );
    }
}

/// A register of 32 bits wraps around, and so does its sum with the offset of an access.
#[test]
fn addresses_that_wrap_around_twice() {
    let fill = "shl.b32 %r3, %r2, 2; st.shared.u32 [%r3], %r2; bar.sync 0; mov.u32 %r5, 0; mov.u32 %r6, 0;";
    let store = "mul.wide.u32 %x0, %i, 4; add.u64 %x2, %out, %x0; st.global.u32 [%x2], %r6;";
    for body in [
        "shl.b32 %r4, %n, 4; sub.u32 %r4, %r4, 8; L: sub.u32 %r4, %r4, 16; ld.shared.u32 %r7, [%r4+8]; \
         add.u32 %r6, %r6, %r7; add.u32 %r5, %r5, 1; setp.lt.u32 %p0, %r5, %n; @%p0 bra L;",
        "mov.u32 %r4, %n; L: sub.u32 %r4, %r4, 16; ld.shared.u32 %r7, [%r4+8]; ld.shared.u32 %r10, [%r4+12]; \
         ld.shared.u32 %r11, [%r4+16]; ld.shared.u32 %r12, [%r4+8]; add.u32 %r6, %r6, %r7; \
         add.u32 %r6, %r6, %r10; add.u32 %r6, %r6, %r11; add.u32 %r6, %r6, %r12; \
         setp.eq.u32 %p0, %r6, 77; @%p0 bra L;",
    ] {
        let source = kernel(&format!("{fill} {body} {store}"));
        let [alone, together] = [Vectorization::Never, Vectorization::Always]
            .map(|vectorization| run(&source, vectorization, 1, [64, 1, 1], 8));
        assert!(alone.is_ok(), "{body}");
        assert_eq!(together, alone, "{body}");
    }
}

/// Offsets of 64 bits, whose sums with others wrap around.
#[test]
fn the_largest_offsets() {
    for offset in [
        "-9223372036854775808",
        "9223372036854775804",
        "4611686018427387904",
    ] {
        for access in [
            format!(
                "st.shared.u32 [%x5+1024], %r2; st.shared.u32 [%x5+512], %r2; st.shared.u32 [%x5+768], %r2; st.shared.u32 [%x5+{offset}], %r2;"
            ),
            format!(
                "ld.shared.u32 %r5, [%x5+{offset}]; ld.shared.u32 %r6, [%x5]; add.u32 %r5, %r5, %r6; st.shared.u32 [%x5+8], %r5;"
            ),
            format!("ld.global.u32 %r5, [%x1+{offset}]; st.global.u32 [%x2+{offset}], %r5;"),
            format!("ld.shared.u32 %r5, [tile+{offset}]; st.global.u32 [%x2], %r5;"),
            format!(
                "setp.eq.u32 %p0, %n, 9; @%p0 ld.shared.u32 %r5, [tile+{offset}]; st.global.u32 [%out+{offset}], %r5;"
            ),
        ] {
            for base in ["0", "-4611686018427387904", "-1073741824"] {
                let source = kernel(&format!(
                    "{ADDRESSES} mul.wide.u32 %x4, %r2, 4; add.s64 %x5, %x4, {base}; bar.sync 0; {access} bar.sync 0; \
                     st.global.u32 [%x2], %r2;"
                ));
                let [alone, together] = [Vectorization::Never, Vectorization::Always]
                    .map(|vectorization| run(&source, vectorization, 1, [64, 1, 1], 0));
                // The upper halves of addresses of shared memory do not count.
                let is_wide = access.contains("global.u32 %r5, [%x1") || access.contains("[%out");
                assert!(alone.is_err() || !is_wide, "{access}");
                assert_eq!(together, alone, "{base} {access}");
            }
        }
    }
}
