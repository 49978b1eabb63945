//! What lanes of a group execute one after the other, and where they go on together.

use super::{ADDRESSES, agree, kernel, run};
use crate::Vectorization;

#[test]
fn lanes_that_leave_a_loop_at_different_times_go_on_together() {
    // The length of a Collatz sequence, with branches in the loop.
    agree(&format!(
        "{ADDRESSES} add.u32 %r3, %i, 1; mov.u32 %r4, 0;
         LOOP: setp.eq.u32 %p1, %r3, 1; @%p1 bra DONE; and.b32 %r5, %r3, 1; setp.eq.u32 %p2, %r5, 0;
         @%p2 bra EVEN; mad.lo.u32 %r3, %r3, 3, 1; bra NEXT; EVEN: shr.u32 %r3, %r3, 1;
         NEXT: add.u32 %r4, %r4, 1; bra LOOP;
         DONE: ld.global.u32 %r6, [%x1]; add.u32 %r4, %r4, %r6; st.global.u32 [%x2], %r4;"
    ));
}

#[test]
fn lanes_read_their_own_index() {
    for index in [
        "%tid.x",
        "%tid.y",
        "%laneid",
        "%warpid",
        "%ntid.x",
        "%lanemask_lt",
    ] {
        agree(&format!(
            "{ADDRESSES} mov.u32 %r3, 5; and.b32 %r4, %i, 3; setp.eq.u32 %p1, %r4, 1; @%p1 bra SKIP;
             MORE: mov.u32 %r5, {index}; add.u32 %r3, %r3, %r5; sub.u32 %r4, %r4, 1;
             setp.gt.s32 %p2, %r4, 0; @%p2 bra MORE;
             SKIP: st.global.u32 [%x2], %r3;"
        ));
    }
}

#[test]
fn registers_of_all_classes_come_and_go() {
    agree(&format!(
        "{ADDRESSES} .reg .b16 %h<3>; cvt.u16.u32 %h0, %i; cvt.rn.f32.u32 %f0, %i; cvt.rn.f64.u32 %g0, %i;
         cvt.u64.u32 %x4, %i; setp.lt.u32 %p3, %i, 9; and.b32 %r4, %i, 3; setp.eq.u32 %p1, %r4, 1; @%p1 bra SKIP;
         MORE: add.u16 %h0, %h0, 3; add.f32 %f0, %f0, 0f3f000000; add.f64 %g0, %g0, 0d3fe0000000000000;
         shl.b64 %x4, %x4, 1; not.pred %p3, %p3; sub.u32 %r4, %r4, 1; setp.gt.s32 %p2, %r4, 0; @%p2 bra MORE;
         SKIP: cvt.u32.u16 %r5, %h0; cvt.rzi.u32.f32 %r6, %f0; cvt.rzi.u32.f64 %r7, %g0; cvt.u32.u64 %r8, %x4;
         selp.u32 %r9, 1, 2, %p3; mad.lo.u32 %r5, %r5, 3, %r6; mad.lo.u32 %r5, %r5, 3, %r7;
         mad.lo.u32 %r5, %r5, 3, %r8; mad.lo.u32 %r5, %r5, 3, %r9; st.global.u32 [%x2], %r5;"
    ));
}

#[test]
fn a_fault_is_of_the_lane() {
    let source = kernel(&format!(
        "{ADDRESSES} mov.u32 %r4, %r2; setp.lt.u32 %p1, %i, 6; @%p1 bra SKIP;
         MORE: shl.b32 %r4, %r4, 1; setp.lt.u32 %p2, %r4, 1000; @%p2 bra MORE;
         mov.u64 %x3, 16; ld.global.u32 %r4, [%x3]; SKIP: st.global.u32 [%x2], %r4;"
    ));
    let [alone, together] = [Vectorization::Never, Vectorization::Always]
        .map(|lanes| run(&source, lanes, 1, [64, 1, 1], 64).unwrap_err());
    assert_eq!(together, alone);
    assert!(together.contains("thread [6, 0, 0]"), "{together}");
}
