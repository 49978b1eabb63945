//! Lanes of a warp that take it that they run in step: they exchange values without a barrier.

use super::{ADDRESSES, WORDS, kernel, run};
use crate::Vectorization;

/// `%r3` is the address of the thread's word in shared memory, which has its word of the input.
fn own_word(body: &str) -> String {
    format!(
        "{ADDRESSES} mov.u32 %r3, tile; mad.lo.u32 %r3, %r2, 4, %r3; ld.global.u32 %r4, [%x1];
         st.shared.u32 [%r3], %r4; bar.sync 0; {body}"
    )
}

fn input(count: u32) -> Vec<u32> {
    let word = |i: u32| i.wrapping_mul(2_654_435_761) >> 7;
    (0..count).map(word).collect()
}

/// What `body` leaves is what the function says, in each way to run it.
#[track_caller]
fn leaves(body: &str, block: u32, expected: impl Fn(&[u32]) -> Vec<u32>) {
    let source = kernel(&own_word(body));
    for vectorization in [Vectorization::Never, Vectorization::Always] {
        for y in [1, 2] {
            // Rows of half of the threads.
            let block = [block / y, y, 1];
            let source = match y {
                1 => source.clone(),
                _ => source.replace(
                    "mov.u32 %r2, %tid.x;",
                    "mov.u32 %r0, %tid.y; mov.u32 %r1, %ntid.x; mov.u32 %r2, %tid.x;
                     mad.lo.u32 %r2, %r0, %r1, %r2; mov.u32 %r0, 0;",
                ),
            };
            let words = run(&source, vectorization, 1, block, 0).unwrap();
            let mut expected = expected(&input(block[0] * y));
            expected.resize(WORDS, 0);
            assert_eq!(words, expected, "{vectorization:?}, {block:?}");
        }
    }
}

fn sum(words: &[u32]) -> Vec<u32> {
    let sum = words
        .iter()
        .fold(0, |sum: u32, word| sum.wrapping_add(*word));
    vec![sum]
}

/// `word += word[distance]`
fn add(space: &str, at: &str, distance: u32) -> String {
    let other = distance * 4;
    format!(
        "ld.volatile{space}.u32 %r5, [{at}+{other}]; ld.volatile{space}.u32 %r6, [{at}];
         add.u32 %r6, %r6, %r5; st.volatile{space}.u32 [{at}], %r6;"
    )
}

#[test]
fn the_last_six_steps_of_a_reduction() {
    let steps = |space, at| -> String {
        let distances = [32, 16, 8, 4, 2, 1];
        distances.map(|distance| add(space, at, distance)).concat()
    };
    let store =
        "setp.ne.u32 %p1, %r2, 0; @%p1 ret; ld.shared.u32 %r5, [%r3]; st.global.u32 [%x2], %r5;";
    let first = "setp.gt.u32 %p0, %r2, 31; @%p0 ret;";
    leaves(
        &format!("{first} {} {store}", steps(".shared", "%r3")),
        64,
        sum,
    );
    // Compilers of old left the state space open.
    let generic = "cvt.u64.u32 %x3, %r3; cvta.shared.u64 %x3, %x3;";
    leaves(
        &format!("{first} {generic} {} {store}", steps("", "%x3")),
        64,
        sum,
    );
}

#[test]
fn lanes_that_leave_a_loop_wait_for_those_that_are_in_it() {
    // Each step has half as many lanes: the others are at its end.
    let body = format!(
        "mov.u32 %r7, 16; setp.gt.u32 %p0, %r2, 31; @%p0 ret; {}
         next: setp.ge.u32 %p1, %r2, %r7; @%p1 bra behind; shl.b32 %r8, %r7, 2; add.u32 %r8, %r8, %r3;
         ld.volatile.shared.u32 %r5, [%r8]; ld.volatile.shared.u32 %r6, [%r3]; add.u32 %r6, %r6, %r5;
         st.volatile.shared.u32 [%r3], %r6;
         behind: shr.u32 %r7, %r7, 1; setp.ne.u32 %p2, %r7, 0; @%p2 bra next;
         ld.shared.u32 %r9, [tile]; setp.ne.u32 %p1, %r2, 31; @%p1 ret; st.global.u32 [%out], %r9;",
        add(".shared", "%r3", 32)
    );
    leaves(&body, 64, sum);
}

#[test]
fn a_scan_takes_from_lanes_before() {
    // Of each warp by itself. The words of others are loaded plainly.
    let body = "mov.u32 %r7, 1; and.b32 %r9, %r2, 31;
        next: shl.b32 %r8, %r7, 2; sub.u32 %r8, %r3, %r8; setp.lt.u32 %p1, %r9, %r7;
        mov.u32 %r5, 0; @!%p1 ld.shared.u32 %r5, [%r8]; ld.volatile.shared.u32 %r6, [%r3];
        add.u32 %r6, %r6, %r5; st.volatile.shared.u32 [%r3], %r6;
        shl.b32 %r7, %r7, 1; setp.lt.u32 %p2, %r7, 32; @%p2 bra next;
        add.u32 %r8, %r9, 1; and.b32 %r8, %r8, 31; sub.u32 %r8, %r8, %r9;
        shl.b32 %r8, %r8, 2; add.u32 %r8, %r8, %r3;
        ld.shared.u32 %r6, [%r8];
        mul.wide.u32 %x0, %r2, 4; add.u64 %x2, %out, %x0; st.global.u32 [%x2], %r6;";
    leaves(body, 64, |words| {
        let mut sums = Vec::new();
        for warp in words.chunks(32) {
            let mut sum = 0_u32;
            let mut scan: Vec<u32> = warp
                .iter()
                .map(|word| {
                    sum = sum.wrapping_add(*word);
                    sum
                })
                .collect();
            // Each stores that of the next lane, and the last that of the first.
            scan.rotate_left(1);
            sums.extend(scan);
        }
        sums
    });
}

#[test]
fn lanes_wait_for_none_that_is_elsewhere() {
    // One lane at a time has the lock, others spin.
    let lock = "take: atom.shared.cas.b32 %r5, [tile+4088], 0, 1; setp.ne.u32 %p0, %r5, 0; @%p0 bra take;
        ld.volatile.shared.u32 %r6, [tile+4092]; add.u32 %r6, %r6, 1; st.volatile.shared.u32 [tile+4092], %r6;
        membar.cta; atom.shared.exch.b32 %r5, [tile+4088], 0; bar.sync 0;
        ld.shared.u32 %r6, [tile+4092]; setp.ne.u32 %p1, %r2, 5; @%p1 ret; st.global.u32 [%out], %r6;";
    let zero = "st.shared.u32 [tile+4088], 0; st.shared.u32 [tile+4092], 0; bar.sync 0;";
    leaves(&format!("{zero} {lock}"), 64, |words| {
        vec![words.len() as u32]
    });
    // A flag of the last lane.
    let flag =
        "setp.eq.u32 %p0, %r2, 31; @%p0 st.volatile.shared.u32 [tile+4092], 7; @%p0 bra done;
        wait: ld.volatile.shared.u32 %r5, [tile+4092]; setp.eq.u32 %p1, %r5, 0; @%p1 bra wait;
        setp.eq.u32 %p1, %r2, 3; @%p1 st.global.u32 [%out], %r5; done:";
    leaves(&format!("{zero} {flag}"), 64, |_| vec![7]);
}

/// As CuPy's `partition` sorts: a warp exchanges in global memory, without barriers.
#[test]
fn a_warp_sorts_by_a_network() {
    let body = "and.b32 %r9, %r2, 31; mul.wide.u32 %x0, %r2, 4; add.u64 %x2, %out, %x0;
        st.global.u32 [%x2], %r4; mov.u32 %r7, 2;
        size: shr.u32 %r8, %r7, 1;
        distance: neg.s32 %r5, %r8; and.b32 %r5, %r9, %r5; add.u32 %r5, %r5, %r9;
        setp.gt.u32 %p0, %r9, 15; @%p0 bra behind;
        sub.u32 %r6, %r2, %r9; add.u32 %r6, %r6, %r5; mul.wide.u32 %x0, %r6, 4; add.u64 %x1, %out, %x0;
        mul.wide.u32 %x0, %r8, 4; add.u64 %x2, %x1, %x0;
        ld.global.u32 %r10, [%x1]; ld.global.u32 %r11, [%x2]; and.b32 %r5, %r5, %r7;
        setp.eq.u32 %p1, %r5, 0; setp.gt.u32 %p2, %r10, %r11; xor.pred %p3, %p1, %p2; @%p3 bra behind;
        st.global.u32 [%x1], %r11; st.global.u32 [%x2], %r10;
        behind: shr.u32 %r8, %r8, 1; setp.ne.u32 %p0, %r8, 0; @%p0 bra distance;
        shl.b32 %r7, %r7, 1; setp.lt.u32 %p0, %r7, 33; @%p0 bra size;";
    leaves(body, 64, |words| {
        let mut words = words.to_vec();
        words.chunks_mut(32).for_each(<[u32]>::sort_unstable);
        words
    });
}

/// A block that waits for another gives way to it, though its lanes meet in between.
#[test]
fn a_grid_waits_by_volatile_loads() {
    let body = "setp.ne.u32 %p0, %r2, 0; @%p0 bra together; atom.add.u32 %r4, [%out], 1;
        mov.u32 %r5, %nctaid.x;
        spin: ld.volatile.u32 %r4, [%out]; setp.lt.u32 %p1, %r4, %r5; @%p1 bra spin;
        together: bar.sync 0; mul.wide.u32 %x0, %i, 4; add.u64 %x1, %out, %x0; st.global.u32 [%x1+4], 9;";
    for vectorization in [Vectorization::Never, Vectorization::Always] {
        let words = run(&kernel(body), vectorization, 20, [32, 1, 1], 0).unwrap();
        assert_eq!(words[0], 20);
        assert_eq!(words[1..641], [9; 640]);
    }
}

/// A word of every thread, stored at `[%x2]`.
const STORE: &str = "mul.wide.u32 %x0, %r2, 4; add.u64 %x2, %out, %x0; st.global.u32 [%x2], %r6;";

/// What each warp makes of its words.
fn by_warp(words: &[u32], of_warp: impl Fn(&[u32]) -> Vec<u32>) -> Vec<u32> {
    words.chunks(32).flat_map(of_warp).collect()
}

#[test]
fn lanes_load_what_others_have_stored() {
    // The word of the lane of reversed number, whatever the lane had there before.
    for load in [
        "xor.b32 %r7, %r2, 31; shl.b32 %r7, %r7, 2; mov.u32 %r8, tile; add.u32 %r7, %r7, %r8;
         ld.shared.u32 %r6, [%r7];",
        "xor.b32 %r7, %r2, 31; mul.wide.u32 %x3, %r7, 4; mov.u64 %x4, tile; cvta.shared.u64 %x4, %x4;
         add.u64 %x3, %x3, %x4; ld.u32 %r6, [%x3];",
        // Loaded in a loop.
        "mov.u32 %r9, 0; again: xor.b32 %r7, %r2, 31; shl.b32 %r7, %r7, 2; mov.u32 %r8, tile;
         add.u32 %r7, %r7, %r8; ld.shared.u32 %r6, [%r7]; add.u32 %r9, %r9, 1; setp.lt.u32 %p0, %r9, 3;
         @%p0 bra again;",
        // By some lanes, and then by others.
        "xor.b32 %r7, %r2, 31; shl.b32 %r7, %r7, 2; mov.u32 %r8, tile; add.u32 %r7, %r7, %r8;
         and.b32 %r9, %r2, 8; setp.eq.u32 %p0, %r9, 0; @%p0 bra some; ld.shared.u32 %r6, [%r7]; bra all;
         some: ld.shared.u32 %r6, [%r7]; all:",
    ] {
        let body = format!("add.u32 %r4, %r4, 1; st.shared.u32 [%r3], %r4; {load} {STORE}");
        leaves(&body, 64, |words| {
            by_warp(words, |warp| warp.iter().rev().map(|word| word + 1).collect())
        });
    }
}

#[test]
fn a_leader_stores_for_its_warp() {
    let body = format!(
        "and.b32 %r9, %r2, 31; shr.u32 %r7, %r2, 5; shl.b32 %r7, %r7, 2; mov.u32 %r8, tile;
         add.u32 %r7, %r7, %r8; setp.ne.u32 %p0, %r9, 31; @%p0 bra all; st.shared.u32 [%r7+1024], %r4;
         all: ld.shared.u32 %r6, [%r7+1024]; {STORE}"
    );
    leaves(&body, 64, |words| {
        by_warp(words, |warp| vec![*warp.last().unwrap(); warp.len()])
    });
}

#[test]
fn lanes_store_what_all_have_loaded() {
    // To places of a permutation, and to those of other lanes before.
    let to = "mad.lo.u32 %r7, %r2, 5, 3; and.b32 %r7, %r7, 31; and.b32 %r9, %r2, -32; or.b32 %r7, %r7, %r9;
        shl.b32 %r7, %r7, 2; mov.u32 %r8, tile; add.u32 %r7, %r7, %r8;";
    let body = format!(
        "{to} bar.warp.sync -1; ld.shared.u32 %r6, [%r3]; st.shared.u32 [%r7], %r6; bar.warp.sync -1;
         ld.shared.u32 %r6, [%r3]; {STORE}"
    );
    let permuted = |warp: &[u32]| {
        let mut result = warp.to_vec();
        for (i, word) in warp.iter().enumerate() {
            result[(i * 5 + 3) % 32] = *word;
        }
        result
    };
    leaves(&body, 64, |words| by_warp(words, permuted));
    // First all clear theirs, then some store.
    let body = format!(
        "{to} mov.u32 %r5, 9; st.shared.u32 [%r3], %r5; setp.lt.u32 %p0, %r4, 100000000;
         @%p0 st.shared.u32 [%r7], %r4; bar.warp.sync -1; ld.shared.u32 %r6, [%r3]; {STORE}"
    );
    leaves(&body, 64, |words| {
        by_warp(words, |warp| {
            let mut result = vec![9; 32];
            for (i, word) in warp.iter().enumerate() {
                if *word < 100_000_000 {
                    result[(i * 5 + 3) % 32] = *word;
                }
            }
            result
        })
    });
}

#[test]
fn one_lane_of_each_key_finds_itself() {
    // Which one is left open; each key has one.
    let body = format!(
        "and.b32 %r7, %r4, 7; shr.u32 %r8, %r2, 5; mad.lo.u32 %r7, %r8, 8, %r7; shl.b32 %r7, %r7, 2;
         mov.u32 %r8, tile; add.u32 %r7, %r7, %r8; st.shared.u32 [%r7+2048], %r2;
         ld.shared.u32 %r5, [%r7+2048]; setp.eq.u32 %p0, %r5, %r2; vote.sync.ballot.b32 %r6, %p0, -1;
         popc.b32 %r6, %r6; {STORE}"
    );
    leaves(&body, 64, |words| {
        by_warp(words, |warp| {
            let mut keys: Vec<u32> = warp.iter().map(|word| word & 7).collect();
            keys.sort_unstable();
            keys.dedup();
            vec![keys.len() as u32; warp.len()]
        })
    });
}

#[test]
fn a_scan_in_place_without_volatile() {
    let body = format!(
        "mov.u32 %r7, 1; and.b32 %r9, %r2, 31;
         next: shl.b32 %r8, %r7, 2; sub.u32 %r8, %r3, %r8; setp.lt.u32 %p1, %r9, %r7; mov.u32 %r5, 0;
         @!%p1 ld.shared.u32 %r5, [%r8]; ld.shared.u32 %r6, [%r3]; add.u32 %r6, %r6, %r5;
         st.shared.u32 [%r3], %r6; shl.b32 %r7, %r7, 1; setp.lt.u32 %p2, %r7, 32; @%p2 bra next; {STORE}"
    );
    leaves(&body, 64, |words| {
        by_warp(words, |warp| {
            let mut sum = 0_u32;
            let sums = warp.iter().map(|word| {
                sum = sum.wrapping_add(*word);
                sum
            });
            sums.collect()
        })
    });
}
