//! Member masks that lack the lane that executes the instruction, as on an H200.

use super::{kernel, run};
use crate::Vectorization;

const OPERATIONS: [&str; 12] = [
    "vote.sync.all.pred %p2, %p1, %r5; selp.u32 %r6, 1, 0, %p2;",
    "vote.sync.any.pred %p2, %p1, %r5; selp.u32 %r6, 1, 0, %p2;",
    "vote.sync.uni.pred %p2, %p1, %r5; selp.u32 %r6, 1, 0, %p2;",
    "vote.sync.ballot.b32 %r6, %p1, %r5;",
    "shfl.sync.idx.b32 %r6, %i, 3, 31, %r5;",
    "shfl.sync.bfly.b32 %r6, %i, 1, 31, %r5;",
    "match.any.sync.b32 %r6, %i, %r5;",
    "match.all.sync.b32 %r6, %i, %r5;",
    "redux.sync.add.u32 %r6, %i, %r5;",
    "redux.sync.xor.b32 %r6, %i, %r5;",
    "bar.warp.sync %r5; mov.u32 %r6, 1;",
    "elect.sync %r6|%p2, %r5;",
];

/// A kernel in which lanes execute an operation with the mask in `%r5`, and store `%r6`.
fn with_mask(mask: &str, operation: &str) -> String {
    kernel(&format!(
        "setp.gt.u32 %p1, %i, 7; mov.u32 %r6, 0; mov.u32 %r4, 1; shl.b32 %r4, %r4, %r2;\n\
         {mask}\n{operation}\nbehind: bar.sync 0;\n\
         mad.wide.u32 %x0, %i, 4, %out; st.global.u32 [%x0], %r6;"
    ))
}

#[test]
fn a_mask_without_the_own_lane_is_a_fault() {
    for mask in [
        "sub.u32 %r5, %r4, 1;",
        "not.b32 %r5, %r4;",
        "mov.u32 %r5, -1; setp.eq.u32 %p0, %r2, 9; @%p0 mov.u32 %r5, 0xfffffdff;",
        "mov.u32 %r5, 0x40; setp.ne.u32 %p0, %r2, 5; @%p0 bra behind;",
        "mov.u32 %r5, 0; setp.ne.u32 %p0, %r2, 5; @%p0 bra behind;",
    ] {
        for operation in OPERATIONS {
            let source = with_mask(mask, operation);
            let line = 2 + source[..source.find(operation).unwrap()]
                .matches('\n')
                .count();
            for lanes in [Vectorization::Never, Vectorization::Always] {
                let ran = run(&source, lanes, 1, [32, 1, 1], 0).map(drop);
                let fault = ran.expect_err(&format!("{mask} {operation} {lanes:?}"));
                let named = ["lacks this lane", &format!("PTX line {}", line - 1)];
                assert!(
                    named.iter().all(|words| fault.contains(words)),
                    "{mask} {operation}: {fault}"
                );
            }
        }
    }
}

/// NVIDIA's compiler drops a mask that is the same for the whole warp.
#[test]
fn a_mask_that_the_whole_warp_gives_does_not_count() {
    for mask in ["0", "0xff", "0xfffffffe"] {
        for operation in OPERATIONS {
            let [few, all] = [mask, "-1"].map(|mask| {
                let source = with_mask(&format!("mov.u32 %r5, {mask};"), operation);
                [Vectorization::Never, Vectorization::Always]
                    .map(|lanes| run(&source, lanes, 2, [32, 1, 1], 0).unwrap())
            });
            assert_eq!(few[0], few[1], "{mask} {operation}");
            assert_eq!(few, all, "{mask} {operation}");
        }
    }
}

#[test]
fn masks_of_the_own_lane_and_of_lanes_that_are_gone_are_right() {
    let own = with_mask("mov.u32 %r5, %r4;", OPERATIONS[3]);
    let gone = with_mask(
        "mov.u32 %r5, -1; setp.gt.u32 %p0, %r2, 15; @%p0 ret;",
        OPERATIONS[3],
    );
    for lanes in [Vectorization::Never, Vectorization::Always] {
        let words = run(&own, lanes, 1, [32, 1, 1], 0).unwrap();
        let expected: Vec<u32> = (0..32).map(|i| u32::from(i > 7) << i).collect();
        assert_eq!(words[..32], expected);
        let words = run(&gone, lanes, 1, [32, 1, 1], 0).unwrap();
        assert_eq!(
            (&words[..16], &words[16..32]),
            (&[0xff00; 16][..], &[0; 16][..])
        );
    }
}
