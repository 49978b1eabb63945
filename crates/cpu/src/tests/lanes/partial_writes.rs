//! Registers that some lanes write between sync points: the others keep their values.

use super::{ADDRESSES, agree};

/// Writes of a register by the lanes for which `%p1` is true.
const WRITES: [&str; 9] = [
    "@!%p1 bra SKIP; mov.b32 %r9, 7; SKIP:",
    "@%p1 mov.b32 %r9, 7;",
    "@%p1 ld.global.u32 %r9, [%x1];",
    "@%p1 bra TAKE; add.u32 %r9, %r9, %r3; bra SKIP; TAKE: ld.global.u32 %r9, [%x1]; SKIP:",
    "@!%p1 bra SKIP; ld.global.u32 %r9, [%x1]; ld.global.u32 %r8, [%x1+4]; SKIP:",
    "@%p1 atom.shared.add.u32 %r9, [%r10], 3;",
    // Loops and branches, which lanes run one after the other.
    "@!%p1 bra SKIP; mov.u32 %r11, %r2; AGAIN: add.u32 %r9, %r9, %r11; shr.u32 %r11, %r11, 1; \
     setp.ne.u32 %p3, %r11, 0; @%p3 bra AGAIN; SKIP:",
    "@%p1 bra TAKE; setp.gt.u32 %p3, %r2, 9; @%p3 bra MORE; xor.b32 %r9, %r9, 5; bra SKIP; \
     MORE: ld.global.u32 %r9, [%x1]; bra SKIP; TAKE: add.u32 %r8, %r8, 1; SKIP:",
    "and.b32 %r11, %i, 7; AGAIN: add.u32 %r9, %r9, %r11; sub.u32 %r11, %r11, 1; \
     setp.gt.s32 %p3, %r11, 2; @%p3 bra AGAIN;",
];

const BARRIER: &str = "bar.sync 0;";
const SHUFFLE: &str = "shfl.sync.bfly.b32 %r4, %i, 1, 31, -1; add.u32 %r3, %r3, %r4;";
const MATCH: &str = "match.any.sync.b32 %r4, %r3, -1; add.u32 %r3, %r3, %r4;";
const REDUX: &str = "redux.sync.min.s32 %r4, %i, -1; add.u32 %r3, %r3, %r4;";
const WARP: &str = "bar.warp.sync -1;";

/// Sync points before and after a write. Groups execute some where they stand; others suspend them.
const SYNCS: [[&str; 2]; 7] = [
    [BARRIER, BARRIER],
    [BARRIER, SHUFFLE],
    [SHUFFLE, BARRIER],
    [REDUX, MATCH],
    [MATCH, MATCH],
    [WARP, REDUX],
    [SHUFFLE, WARP],
];

const START: &str = "mov.u32 %r4, %tid.y; mad.lo.u32 %r4, %r4, %r1, %r2; mov.u32 %r10, tile; \
     mad.lo.u32 %r10, %r4, 4, %r10; st.shared.u32 [%r10], %i; \
     mad.lo.u32 %r9, %i, 3, 5; mov.u32 %r8, %i; mov.u32 %r3, %i; and.b32 %r6, %i, 3; mov.u32 %r5, 0;";
const END: &str = "add.u32 %r9, %r9, %r8; add.u32 %r9, %r9, %r3; st.global.u32 [%x2], %r9;";

#[test]
fn a_branch_around_a_sync_point_follows() {
    for write in WRITES {
        for [first, second] in SYNCS {
            agree(&format!(
                "{ADDRESSES} {START} {first} setp.ne.u32 %p1, %r6, 1; {write} \
                 setp.eq.u32 %p2, %n, 1; @!%p2 bra ELSE; {second} ELSE: bar.sync 0; {END}"
            ));
        }
    }
}

#[test]
fn a_loop_writes_in_other_lanes_each_time() {
    for write in WRITES {
        for [first, second] in SYNCS {
            agree(&format!(
                "{ADDRESSES} {START} LOOP: {first} setp.eq.u32 %p1, %r6, %r5; {write} {second} \
                 add.u32 %r5, %r5, 1; setp.lt.u32 %p2, %r5, 3; @%p2 bra LOOP; {END}"
            ));
        }
    }
}

#[test]
fn loops_wait_after_one_write() {
    for write in WRITES {
        for sync in [BARRIER, SHUFFLE, MATCH] {
            agree(&format!(
                "{ADDRESSES} {START} bar.sync 0; setp.ne.u32 %p1, %r6, 1; {write} LOOP: {sync} \
                 add.u32 %r5, %r5, 1; setp.lt.u32 %p2, %r5, 4; @%p2 bra LOOP; {END}"
            ));
        }
    }
}

/// A register gets what another has, in some lanes: both keep their values.
#[test]
fn copies_in_some_lanes() {
    for copied in [
        "mul.lo.u32 %r4, %r3, 8; @%p0 mov.b32 %r5, %r4;",
        "xor.b32 %r4, %r3, %r6; @!%p0 mov.b32 %r5, %r4;",
        "add.u32 %r4, %r3, %r6; @%p0 bra SKIP; mov.b32 %r5, %r4; SKIP:",
    ] {
        agree(&format!(
            "{ADDRESSES} ld.global.u32 %r3, [%x1]; not.b32 %r6, %r3; mov.u32 %r5, 7; \
             and.b32 %r7, %r3, 4; setp.eq.u32 %p0, %r7, 0; {copied} bar.sync 0; \
             mad.lo.u32 %r4, %r4, 3, %r5; or.b32 %r4, %r4, 1; st.global.u32 [%x2], %r4;"
        ));
    }
}
