//! Lanes that execute blocks without the others, and what each instruction does for lanes: both
//! compilers agree with one thread after the other.

use super::{ADDRESSES, SMALL, agree, agree_in};

/// A load of the thread's number into `%r3`, and a store of `%r4`.
fn with(body: &str) -> String {
    format!("{ADDRESSES} ld.global.u32 %r3, [%x1]; {body} st.global.u32 [%x2], %r4;")
}

#[test]
fn arms_and_loops() {
    for body in [
        // Arms that meet, one within the other.
        "and.b32 %r5, %r3, 3; setp.eq.u32 %p0, %r5, 0; setp.gt.u32 %p1, %r5, 1; mov.u32 %r4, 1; \
         @%p0 bra A; @%p1 bra B; add.u32 %r4, %r3, 7; bra END; B: mul.lo.u32 %r4, %r3, 3; bra END; \
         A: xor.b32 %r4, %r3, 0x55; END:",
        // A loop that lanes leave at different times, by two ways.
        "and.b32 %r5, %r3, 31; mov.u32 %r4, 0; AGAIN: setp.eq.u32 %p0, %r5, 0; @%p0 bra END; \
         add.u32 %r4, %r4, %r5; sub.u32 %r5, %r5, 1; setp.gt.u32 %p1, %r4, 100; @%p1 bra OUT; \
         bra AGAIN; OUT: add.u32 %r4, %r4, 1000; END:",
        // Two loops with one head: the counter of the outer one is the same for all lanes.
        "mov.u32 %r6, 0; mov.u32 %r4, 0; HEAD: and.b32 %r5, %r3, 7; NEXT: setp.ge.u32 %p0, %r4, %r5; \
         @%p0 bra LAST; add.u32 %r4, %r4, 3; bra NEXT; LAST: shr.u32 %r3, %r3, 1; \
         add.u32 %r6, %r6, 1; setp.lt.u32 %p1, %r6, 4; @%p1 bra HEAD; add.u32 %r4, %r4, %r6;",
        // A loop of all lanes within an arm, with a sum of its own.
        "mov.u32 %r4, 5; setp.lt.u32 %p0, %r3, 0x100000; @%p0 bra END; mov.u32 %r5, 0; \
         AGAIN: mad.lo.u32 %r4, %r4, 31, %r3; add.u32 %r5, %r5, 1; setp.ne.u32 %p1, %r5, 6; \
         @%p1 bra AGAIN; END:",
        // All lanes and some of them come to the same block.
        "mov.u32 %r4, 2; setp.gt.u32 %p0, %n, 100; @%p0 bra COMMON; and.b32 %r5, %r3, 1; \
         setp.eq.u32 %p1, %r5, 0; @%p1 bra COMMON; add.u32 %r4, %r4, %r3; bra END; \
         COMMON: sub.u32 %r4, %r3, %r4; END:",
    ] {
        agree(&with(body));
    }
}

/// Barriers and operations of the warp where some lanes have exited or are elsewhere.
#[test]
fn sync_points_in_regions() {
    for body in [
        "mov.u32 %r4, tile; mad.lo.u32 %r4, %r2, 4, %r4; setp.ge.u32 %p0, %i, %n; @%p0 ret; \
         st.shared.u32 [%r4], %r3; bar.warp.sync -1; ld.shared.u32 %r4, [%r4];",
        "setp.lt.u32 %p0, %r3, 0x200000; vote.sync.ballot.b32 %r4, %p0, -1; popc.b32 %r5, %r4; \
         add.u32 %r4, %r4, %r5;",
        "and.b32 %r5, %r3, 6; match.any.sync.b32 %r4, %r5, -1;",
        "redux.sync.max.s32 %r4, %r3, -1;",
        "shfl.sync.up.b32 %r4|%p0, %r3, 3, 0x1808, -1; @!%p0 mov.u32 %r4, 77;",
        "and.b32 %r5, %r3, 31; shfl.sync.bfly.b32 %r4, %r3, %r5, 31, -1;",
    ] {
        agree(&with(body));
    }
}

/// A shuffle from the first of them, as the value of a lane that is not active is undefined.
#[test]
fn operations_of_the_active_lanes() {
    agree_in(
        &SMALL,
        &with(
            "and.b32 %r5, %r3, 1; setp.eq.u32 %p0, %r5, 0; mov.u32 %r4, 9; @%p0 bra EVEN; \
             activemask.b32 %r6; brev.b32 %r7, %r6; clz.b32 %r7, %r7; \
             shfl.sync.idx.b32 %r4, %r3, %r7, 31, %r6; bra END; \
             EVEN: activemask.b32 %r6; vote.sync.ballot.b32 %r4, %p0, %r6; END:",
        ),
    );
}

#[test]
fn bits_and_numbers() {
    for body in [
        // The guard is one of the results.
        "setp.lt.u32 %p0, %r3, 0x200000; @!%p0 setp.ne.s32 %p0|%p1, %i, 3; selp.b32 %r4, 5, 6, %p0; \
         @%p1 add.u32 %r4, %r4, 100;",
        "setp.lt.u32 %p0, %n, 200; @!%p0 setp.ne.s32 %p0|%p1, %n, 3; selp.b32 %r4, 5, 6, %p0; \
         @%p1 add.u32 %r4, %r4, %r3;",
        "brev.b32 %r4, %r3; bfe.u32 %r5, %r3, 5, %r2; xor.b32 %r4, %r4, %r5;",
        "bfe.s32 %r4, %r3, %r2, 11; bfi.b32 %r4, %r3, %r4, %r2, 9;",
        "prmt.b32 %r4, %r3, %i, 0x6152; lop3.b32 %r4, %r4, %r3, %r2, 0xB4;",
        "shf.l.wrap.b32 %r4, %r3, %i, %r2; shf.r.clamp.b32 %r5, %r3, %i, %r2; add.u32 %r4, %r4, %r5;",
        "rem.u32 %r4, %r3, %r2; div.s32 %r5, %r3, -7; add.u32 %r4, %r4, %r5;",
        "mul.hi.u32 %r4, %r3, 0xCCCCCCCD; mul.hi.s32 %r5, %r3, %i; mad.hi.u32 %r4, %r3, %r5, %r4;",
        "cvt.u64.u32 %x3, %r3; mul.lo.u64 %x3, %x3, %x3; div.u64 %x4, %x3, 1000003; \
         rem.s64 %x3, %x3, 12345; add.u64 %x3, %x3, %x4; cvt.u32.u64 %r4, %x3;",
        "cvt.rn.f32.u32 %f0, %r3; cvt.rzi.s32.f32 %r4, %f0; cvt.rmi.u32.f32 %r5, %f0; \
         add.u32 %r4, %r4, %r5;",
        "cvt.rn.f64.s32 %g0, %r3; div.rn.f64 %g0, %g0, 0d4008000000000000; cvt.rpi.s64.f64 %x3, %g0; \
         cvt.u32.u64 %r4, %x3;",
        "cvt.rn.f32.s32 %f0, %r3; min.f32 %f1, %f0, 0fC7C35000; max.NaN.f32 %f0, %f1, %f0; \
         mov.b32 %r4, %f0;",
        "clz.b32 %r4, %r3; bfind.u32 %r5, %r3; sad.u32 %r4, %r4, %r5, %r3;",
    ] {
        agree(&with(body));
    }
}

/// Bytes, halves and pairs at addresses of all kinds.
#[test]
fn accesses() {
    for body in [
        // Bytes one behind the other, and scattered ones.
        "cvt.u64.u32 %x3, %i; add.u64 %x4, %in, %x3; ld.global.u8 %r4, [%x4+1]; \
         and.b32 %r5, %r3, 63; cvt.u64.u32 %x3, %r5; add.u64 %x4, %in, %x3; ld.global.s8 %r5, [%x4]; \
         add.u32 %r4, %r4, %r5;",
        "mov.u32 %r5, tile; and.b32 %r6, %r2, 63; mad.lo.u32 %r5, %r6, 2, %r5; st.shared.u16 [%r5], %r3; \
         bar.sync 0; xor.b32 %r6, %r6, 1; mov.u32 %r5, tile; mad.lo.u32 %r5, %r6, 2, %r5; \
         ld.shared.s16 %r4, [%r5];",
        "mul.wide.u32 %x3, %i, 8; add.u64 %x3, %in, %x3; ld.global.v2.u32 {%r5, %r6}, [%x3]; \
         sub.u32 %r4, %r5, %r6;",
        // An index that wraps around within a group.
        "add.u32 %r5, %i, 0xFFFFFFF0; mul.wide.u32 %x3, %r5, 4; mov.u64 %x4, 0xFFFFFFFFC; \
         min.u64 %x3, %x3, %x4; and.b64 %x3, %x3, 0xFFC; add.u64 %x3, %in, %x3; \
         ld.global.u32 %r4, [%x3];",
        "sub.u32 %r5, %i, 3; max.s32 %r5, %r5, 0; mul.wide.s32 %x3, %r5, 4; add.u64 %x3, %in, %x3; \
         ld.global.u32 %r4, [%x3];",
        "mov.u32 %r5, tile; and.b32 %r6, %r3, 124; add.u32 %r5, %r5, %r6; st.shared.u32 [%r5], 0; \
         bar.sync 0; atom.shared.max.u32 %r6, [%r5], 5; red.shared.add.u32 [%r5], 1; bar.sync 0; \
         ld.shared.u32 %r4, [%r5];",
    ] {
        agree(&with(body));
    }
}
