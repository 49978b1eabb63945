//! Loops that wait for other lanes, warps or blocks, and meet others of their warp meanwhile.

use super::{WORDS, kernel, run};
use crate::Vectorization;

/// Each item is done once the next one is: by one thread of several warps and blocks, some of which have
/// no item. `done` sets `%p7` to whether all lanes of the warp that are there have nothing left, from `%p6`
/// of each.
#[track_caller]
fn chain(load: &str, done: &str) {
    // `%r4` is the number of items, `%x1` the address of an item's word.
    let body = format!(
        "mov.u32 %r4, %n; mov.u32 %r5, %nctaid.x; mul.lo.u32 %r5, %r5, %r1;
        again: setp.eq.u32 %p6, %r0, %r0; mov.u32 %r6, %i;
        next: setp.lt.u32 %p0, %r6, %r4; vote.sync.any.pred %p1, %p0, -1; @!%p1 bra voted;
        @!%p0 bra behind; mul.wide.u32 %x0, %r6, 4; add.u64 %x1, %out, %x0;
        {load}.u32 %r7, [%x1]; setp.ne.u32 %p2, %r7, 0; @%p2 bra behind;
        add.u32 %r8, %r6, 1; setp.eq.u32 %p3, %r8, %r4; @%p3 bra finish;
        {load}.u32 %r9, [%x1+4]; setp.ne.u32 %p4, %r9, 0; @%p4 bra finish;
        setp.ne.u32 %p6, %r0, %r0; bra behind;
        finish: mov.u32 %r10, 7; st.volatile.global.u32 [%x1], %r10;
        behind: add.u32 %r6, %r6, %r5; bra next;
        voted: {done} @!%p7 bra again;"
    );
    for vectorization in [Vectorization::Never, Vectorization::Always] {
        for (grid, block, items) in [(4, 128, 64), (1, 96, 34), (12, 32, 400)] {
            let words = run(&kernel(&body), vectorization, grid, [block, 1, 1], items).unwrap();
            let mut expected = vec![7; items as usize];
            expected.resize(WORDS, 0);
            assert_eq!(words, expected, "{vectorization:?}, {grid} x {block}");
        }
    }
}

#[test]
fn items_that_wait_for_the_next_one() {
    for done in [
        "vote.sync.all.pred %p7, %p6, -1;",
        "vote.sync.ballot.b32 %r11, %p6, -1; setp.eq.u32 %p7, %r11, -1;",
        "activemask.b32 %r12; vote.sync.ballot.b32 %r11, %p6, %r12; setp.eq.u32 %p7, %r11, %r12;",
        "selp.u32 %r11, 1, 0, %p6; redux.sync.and.b32 %r11, %r11, -1; setp.ne.u32 %p7, %r11, 0;",
        "selp.u32 %r11, 1, 0, %p6; match.any.sync.b32 %r12, %r11, -1; setp.eq.u32 %p7, %r12, -1;
         and.pred %p7, %p7, %p6;",
        "selp.u32 %r11, 1, 0, %p6; shfl.sync.idx.b32 %r11, %r11, 0, 31, -1; bar.warp.sync -1;
         setp.ne.u32 %p7, %r11, 0; vote.sync.all.pred %p7, %p6, -1;",
        "bar.red.and.pred %p7, 0, %p6;",
        // Each lane waits for its own condition; the vote only synchronizes.
        "bar.warp.sync -1; mov.pred %p7, %p6; vote.sync.uni.pred %p7, %p6, -1; and.pred %p7, %p7, %p6;",
    ] {
        chain("ld.volatile.global", done);
    }
    chain("ld.relaxed.gpu.global", "vote.sync.all.pred %p7, %p6, -1;");
}

#[test]
fn lanes_that_wait_for_each_other_with_votes() {
    // The first half waits for a flag of the second, and the second for one of the first.
    let body = "setp.lt.u32 %p0, %r2, 16; mov.u32 %r3, tile; selp.u32 %r4, 65535, 0xffff0000, %p0;
        setp.eq.u32 %p1, %r2, 31; @%p1 st.volatile.shared.u32 [tile+8], 1; @!%p0 bra second;
        first: ld.volatile.shared.u32 %r5, [tile+8]; setp.ne.u32 %p2, %r5, 0;
        vote.sync.any.pred %p3, %p2, %r4; @!%p3 bra first; st.volatile.shared.u32 [tile+4], 2; bra both;
        second: ld.volatile.shared.u32 %r5, [tile+4]; setp.ne.u32 %p2, %r5, 0; bar.warp.sync %r4;
        @!%p2 bra second;
        both: mul.wide.u32 %x0, %r2, 4; add.u64 %x1, %out, %x0; st.global.u32 [%x1], %r5;";
    for vectorization in [Vectorization::Never, Vectorization::Always] {
        let zero = "st.shared.u32 [tile+4], 0; st.shared.u32 [tile+8], 0; bar.sync 0;";
        let source = kernel(&format!("{zero} {body}"));
        let words = run(&source, vectorization, 1, [32, 1, 1], 0).unwrap();
        assert_eq!(words[..16], [1; 16]);
        assert_eq!(words[16..32], [2; 16]);
    }
}
