//! Addresses of shared and local memory have 32 bits: sums wrap, and the upper half of a wider
//! register does not count.

use crate::block::{kernel, launch_blocks};

/// Runs statements that find `memory` in `%r30`, an address 65536 bytes below it in `%r31`, and in
/// `%r29` 0. Word `i` of the memory is `256 + i`, and `%r20` is the result of each thread.
fn run(threads: usize, body: &str) -> Vec<u32> {
    let body = format!(
        "mov.u32 %r30, memory; sub.u32 %r31, %r30, 0x10000; ld.global.u32 %r29, [%in];\n\
         mad.lo.u32 %r28, %t, 4, %r30; add.u32 %r27, %t, 256; st.shared.u32 [%r28], %r27;\n\
         bar.sync 0;\n{body}\nst.global.u32 [%out], %r20;"
    );
    launch_blocks(&kernel(1, 1, &body), 1, threads, &vec![0; threads], threads)
}

/// The result of the first of 32 threads, which alone executes the statements.
fn run_first(body: &str) -> u32 {
    let alone = format!("setp.ne.u32 %p3, %t, 0; @%p3 bra behind; {body} behind:");
    run(32, &alone)[0]
}

#[test]
fn sums_of_an_address_and_an_offset_wrap() {
    for (body, expected) in [
        ("ld.shared.u32 %r20, [%r31+0x10000];", 256),
        (
            "ld.shared.v4.u32 {%r1, %r2, %r3, %r20}, [%r31+0x10000];",
            259,
        ),
        ("ld.shared.u8 %r20, [%r31+0x10001];", 1),
        ("ld.volatile.shared.u32 %r20, [%r31+0x10004];", 257),
        ("ld.shared::cluster.u32 %r20, [%r31+0x10000];", 256),
        (
            "add.u32 %r1, %r30, 0x7ffff000; ld.shared.u32 %r20, [%r1+-0x7ffff000];",
            256,
        ),
        ("ld.shared.u32 %r20, [memory+0x100000004];", 257),
        (
            "st.shared.u32 [%r31+0x10000], 77; ld.shared.u32 %r20, [memory];",
            77,
        ),
        (
            "atom.shared.add.u32 %r1, [%r31+0x10000], 5; ld.shared.u32 %r20, [memory];",
            261,
        ),
        (
            "red.shared.add.u32 [%r31+0x10000], 6; ld.shared.u32 %r20, [memory];",
            262,
        ),
        ("atom.shared.cas.b32 %r20, [%r31+0x10000], 256, 5;", 256),
        (
            "cp.async.ca.shared.global [%r31+0x10004], [%in], 4; cp.async.wait_all; \
             ld.shared.u32 %r20, [memory+4];",
            0,
        ),
        (
            "mbarrier.init.shared.b64 [memory], 1; \
             mbarrier.arrive.shared.b64 %x1, [%r31+0x10000]; \
             mbarrier.test_wait.shared.b64 %p0, [memory], %x1; selp.u32 %r20, 1, 0, %p0;",
            1,
        ),
    ] {
        assert_eq!(run_first(body), expected, "{body}");
    }
}

#[test]
fn upper_halves_of_registers_do_not_count() {
    let high = "cvt.u64.u32 %x0, %r29; add.u64 %x0, %x0, 0x700000000; cvt.u64.u32 %x1, %r30; \
                add.u64 %x1, %x1, %x0;";
    for (body, expected) in [
        ("ld.shared.u32 %r20, [%x1];", 256),
        ("ld.shared.u32 %r20, [%x1+4];", 257),
        (
            "cvt.u64.u32 %x2, %r31; ld.shared.u32 %r20, [%x2+0x10000];",
            256,
        ),
        (
            "cvt.s64.s32 %x2, %r31; ld.shared.u32 %r20, [%x2+0x10000];",
            256,
        ),
        ("st.shared.u32 [%x1], 78; ld.shared.u32 %r20, [memory];", 78),
        (
            "cp.async.ca.shared.global [%x1], [%in], 4; cp.async.wait_all; \
             ld.shared.u32 %r20, [memory];",
            0,
        ),
        (
            "{ .local .align 4 .b8 l[8]; st.local.u32 [l], 41; mov.u64 %x2, l; \
             add.u64 %x2, %x2, %x0; ld.local.u32 %r20, [%x2]; }",
            41,
        ),
        (
            "{ .local .align 4 .b8 l[8]; st.local.u32 [l+4], 42; mov.u32 %r1, l; \
             add.u32 %r1, %r1, %r29; sub.u32 %r1, %r1, 0x10000; \
             ld.local.u32 %r20, [%r1+0x10004]; }",
            42,
        ),
    ] {
        assert_eq!(run_first(&format!("{high} {body}")), expected, "{body}");
    }
}

/// Lanes whose addresses are at one distance from each other, loads by loops, and lanes at any
/// addresses.
#[test]
fn addresses_of_lanes_wrap() {
    let own = |thread: u32| 256 + thread;
    type Value = fn(u32) -> u32;
    let each: [(&str, Value); 6] = [
        (
            "mad.lo.u32 %r1, %t, 4, %r31; ld.shared.u32 %r20, [%r1+0x10000];",
            own,
        ),
        (
            "mad.lo.u32 %r1, %t, -4, %r31; ld.shared.u32 %r20, [%r1+0x1007C];",
            |thread| 256 + 31 - thread,
        ),
        // The first lanes are below 0.
        (
            "mad.lo.u32 %r1, %t, 4, %r29; add.u32 %r1, %r1, -16; setp.lt.u32 %p0, %t, 4; \
             mov.u32 %r20, 7; add.u32 %r1, %r1, %r30; @!%p0 ld.shared.u32 %r20, [%r1];",
            |thread| if thread < 4 { 7 } else { 252 + thread },
        ),
        (
            "xor.b32 %r1, %t, 5; mad.lo.u32 %r1, %r1, 4, %r31; ld.shared.u32 %r20, [%r1+0x10000];",
            |thread| 256 + (thread ^ 5),
        ),
        (
            "mul.lo.u32 %r1, %t, %t; add.u32 %r1, %r1, %r29; and.b32 %r1, %r1, 31; \
             mad.lo.u32 %r1, %r1, 4, %r31; ld.shared.u32 %r20, [%r1+0x10000];",
            |thread| 256 + ((thread * thread) & 31),
        ),
        (
            "mov.u32 %r20, 0; mov.u32 %r2, 0; mad.lo.u32 %r1, %t, 4, %r31; bar.sync 0; \
             again: ld.shared.u32 %r3, [%r1+0x10000]; \
             add.u32 %r20, %r20, %r3; add.u32 %r1, %r1, 0; add.u32 %r2, %r2, 1; \
             setp.lt.u32 %p0, %r2, 8; @%p0 bra again;",
            |thread| 8 * (256 + thread),
        ),
    ];
    for (body, expected) in each {
        let expected: Vec<u32> = (0..32).map(expected).collect();
        assert_eq!(run(32, body), expected, "{body}");
    }
}

#[test]
fn rows_of_matrices_wrap() {
    // Row `i` of 16 bytes begins with word `4 * i`.
    let rows = "and.b32 %r1, %t, 7; mad.lo.u32 %r1, %r1, 16, %r31; ldmatrix.sync.aligned.m8n8.x1\
                .shared.b16 {%r20}, [%r1+0x10000];";
    let expected: Vec<u32> = (256..288).collect();
    assert_eq!(run(32, rows), expected);
    let stored = "and.b32 %r1, %t, 7; mad.lo.u32 %r1, %r1, 16, %r31; mov.u32 %r2, %t; \
                  stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r1+0x10000], {%r2}; \
                  bar.sync 0; ld.shared.u32 %r20, [%r28];";
    assert_eq!(run(32, stored), (0..32).collect::<Vec<u32>>());
}
