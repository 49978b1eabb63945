//! Registers of all shapes that groups keep at barriers.

use super::{ADDRESSES, agree};

/// A uniform register, an affine one, a sum of 64 bits, an index, vectors of both widths, and masks.
const REGISTERS: &str = ".reg .pred %q<4>; mov.u32 %r10, tile; mad.lo.u32 %r10, %r2, 4, %r10; \
     ld.global.u32 %r3, [%x1]; mul.lo.u32 %r4, %i, -3; shr.u32 %r5, %n, 1; and.b32 %r6, %r3, 1023; \
     mad.wide.u32 %x3, %r6, 4, %in; cvt.u64.u32 %x4, %r3; shl.b64 %x4, %x4, 33; cvt.rn.f32.u32 %f0, %n; \
     cvt.rn.f64.u32 %g0, %n; cvt.rn.f32.u32 %f1, %r3; and.b32 %r7, %r3, 4; setp.ne.u32 %q0, %r7, 0; \
     setp.lt.u32 %q1, %i, 40; setp.gt.u32 %q2, %n, 100;";

/// A number that depends on all of them.
const SUM: &str = "mov.u32 %r9, %r4; \
     mad.lo.u32 %r9, %r9, 5, %r5; ld.global.u32 %r8, [%x3]; mad.lo.u32 %r9, %r9, 5, %r8; shr.u64 %x5, %x4, 30; \
     cvt.u32.u64 %r8, %x5; mad.lo.u32 %r9, %r9, 5, %r8; cvt.rzi.u32.f32 %r8, %f0; mad.lo.u32 %r9, %r9, 5, %r8; \
     cvt.rzi.u32.f64 %r8, %g0; mad.lo.u32 %r9, %r9, 5, %r8; cvt.rzi.u32.f32 %r8, %f1; mad.lo.u32 %r9, %r9, 5, %r8; \
     @%q0 add.u32 %r9, %r9, 1; @%q1 add.u32 %r9, %r9, 20; @!%q2 add.u32 %r9, %r9, 300;";

fn body(barriers: &str) -> String {
    format!(
        "{ADDRESSES} {REGISTERS} {barriers} {SUM} or.b32 %r9, %r9, 1; st.global.u32 [%x2], %r9;"
    )
}

#[test]
fn one_barrier_and_several() {
    agree(&body("bar.sync 0;"));
    agree(&body("bar.sync 0; st.shared.u32 [%r10], %r4; bar.sync 0;"));
    agree(&body(
        "mov.u32 %r11, 3; L: bar.sync 0; st.shared.u32 [%r10], %r11; sub.u32 %r11, %r11, 1; \
         setp.gt.u32 %p0, %r11, 0; @%p0 bra L;",
    ));
}

/// Registers that one barrier has saved, and another one saves only if they have changed.
#[test]
fn registers_change_between_barriers() {
    agree(&body(
        "bar.sync 0; add.u32 %r4, %r4, 3; not.pred %q0, %q0; bar.sync 0; add.u32 %r5, %r5, 7; bar.sync 0;",
    ));
}

/// Some lanes of a group wait, or all wait at another kind of barrier: they save what packed registers have
/// held.
#[test]
fn other_barriers_follow() {
    for barrier in [
        "bar.red.or.pred %p1, 0, %q0; @%p1 add.u32 %r5, %r5, 1;",
        "bar.red.popc.u32 %r12, 0, %q0; add.u32 %r5, %r5, %r12;",
        "bar.sync 1;",
        "@%q0 bra ODD; bar.sync 0; bra DONE; ODD: add.u32 %r5, %r5, 2; bar.sync 0; DONE:",
        "@%q1 bra LOW; bar.sync 0; bra DONE; LOW: bar.sync 0; add.u32 %r4, %r4, 2; DONE:",
    ] {
        agree(&body(&format!("bar.sync 0; {barrier} bar.sync 0;")));
        agree(&body(&format!(
            "{barrier} bar.sync 0; add.u32 %r4, %r4, 1; bar.sync 0;"
        )));
    }
}

/// Threads of some groups exit before a barrier that others wait at.
#[test]
fn groups_exit() {
    agree(&body(
        "bar.sync 0; setp.gt.u32 %p1, %r2, 31; @%p1 bra OUT; bar.sync 0; OUT:",
    ));
    agree(&body(
        "bar.sync 0; setp.gt.u32 %p1, %r2, 15; mov.u32 %r9, 9; @%p1 st.global.u32 [%x2], %r9; @%p1 ret; bar.sync 0;",
    ));
}

/// With operations of the warp, groups are warps.
#[test]
fn warps() {
    agree(&body(
        "bar.sync 0; shfl.sync.bfly.b32 %r12, %r3, 1, 31, -1; add.u32 %r5, %r5, %r12; bar.sync 0; \
         vote.sync.any.pred %p1, %q0, -1; @%p1 add.u32 %r4, %r4, 1; bar.sync 0;",
    ));
}
