//! Barriers in shared memory that count arrivals and bytes, and the copies that they count.

use crate::block::{THREADS, kernel, launch};

/// Every thread arrives, waits for the phase, and reads what another has written.
#[test]
fn threads_wait_for_a_phase() {
    for (space, address) in [("", "%x0"), (".shared", "%r1"), (".shared::cta", "%r1")] {
        for wait in [
            // By the state that the arrival returned, and by the parity of the phase.
            format!("mbarrier.try_wait{space}.b64 %p1, [{address}], %x1;"),
            format!("mbarrier.test_wait{space}.b64 %p1, [{address}], %x1;"),
            format!("mbarrier.try_wait.parity{space}.b64 %p1, [{address}], 0;"),
            format!("mbarrier.test_wait.parity{space}.b64 %p1, [{address}], %r6;"),
        ] {
            let body = format!(
                "mov.u32 %r6, 0; mov.u32 %r1, memory; cvt.u64.u32 %x0, %r1; cvta.shared.u64 %x0, %x0;\n\
                 setp.eq.u32 %p0, %t, 0;\n@%p0 mbarrier.init{space}.b64 [{address}], {THREADS};\n\
                 bar.sync 0;\nshl.b32 %r2, %t, 2; add.u32 %r2, %r2, %r1; mul.lo.u32 %r3, %t, 3;\n\
                 st.shared.u32 [%r2+16], %r3;\nmbarrier.arrive{space}.b64 %x1, [{address}];\n\
                 L: {wait}\n@!%p1 bra L;\n\
                 xor.b32 %r2, %t, 63; shl.b32 %r2, %r2, 2; add.u32 %r2, %r2, %r1;\n\
                 ld.shared.u32 %r3, [%r2+16];\nst.global.u32 [%out], %r3;"
            );
            let found = launch(&kernel(1, 1, &body), 1, &[0; THREADS], THREADS);
            let expected: Vec<u32> = (0..THREADS as u32).map(|t| 3 * (63 - t)).collect();
            assert_eq!(found, expected, "{body}");
        }
    }
}

/// What a phase waits for, and what it is worth to those who ask.
#[test]
fn phases_count_arrivals_and_bytes() {
    // The results of 8 questions, one bit each, by thread 0 alone.
    let ask = |n: u32, parity: u32| {
        format!(
            "mbarrier.test_wait.parity.shared.b64 %p1, [%r1], {parity};\n\
             selp.u32 %r3, {}, 0, %p1; or.b32 %r2, %r2, %r3;\n",
            1 << n
        )
    };
    let body = format!(
        "setp.ne.u32 %p0, %t, 0; @%p0 ret; mov.u32 %r1, memory; mov.u32 %r2, 0;\n\
         mbarrier.init.shared.b64 [%r1], 3;\n{}{}\
         mbarrier.arrive.shared.b64 %x0, [%r1], 2;\nmbarrier.pending_count.b64 %r4, %x0;\n\
         mbarrier.expect_tx.relaxed.cta.shared.b64 [%r1], 64;\n\
         mbarrier.arrive_drop.shared.b64 %x1, [%r1];\n{}\
         mbarrier.complete_tx.shared.b64 [%r1], 64;\n{}{}\
         mbarrier.arrive.noComplete.shared.b64 %x2, [%r1], 1;\n\
         mbarrier.arrive.expect_tx.shared.b64 %x3, [%r1], 32;\n{}\
         mbarrier.complete_tx.shared.b64 [%r1], 32;\n{}{}\
         mbarrier.inval.shared.b64 [%r1];\n\
         st.global.v2.u32 [%out], {{%r2, %r4}};",
        ask(0, 0),
        ask(1, 1),
        ask(2, 0),
        ask(3, 0),
        ask(4, 1),
        ask(5, 1),
        ask(6, 1),
        ask(7, 0),
    );
    let found = launch(&kernel(1, 2, &body), 1, &[0; THREADS], 2 * THREADS);
    // Phase 0 is open, then complete, then phase 1 of two arrivals and 32 bytes.
    assert_eq!(found[..2], [0b0100_1010, 3], "{body}");
}

/// Copies of many bytes, to shared memory and back.
#[test]
fn bulk_copies() {
    let input: Vec<u32> = (0..THREADS as u32 * 4).map(|n| 7 * n).collect();
    for to in [".shared::cta", ".shared::cluster"] {
        let body = format!(
            "mov.u32 %r1, memory; setp.eq.u32 %p0, %t, 0; @!%p0 bra WAIT;\n\
             mbarrier.init.shared.b64 [%r1], 1;\nfence.proxy.async.shared::cta;\n\
             mbarrier.arrive.expect_tx.shared.b64 _, [%r1], 1024;\n\
             cp.async.bulk{to}.global.mbarrier::complete_tx::bytes [memory+128], [%in], 1024, [%r1];\n\
             WAIT: bar.sync 0;\nL: mbarrier.try_wait.parity.shared.b64 %p1, [%r1], 0; @!%p1 bra L;\n\
             xor.b32 %r2, %t, 1; shl.b32 %r2, %r2, 4; add.u32 %r2, %r2, %r1;\n\
             ld.shared.v4.b32 {{%r4, %r5, %r6, %r7}}, [%r2+128];\n\
             shl.b32 %r2, %t, 4; add.u32 %r2, %r2, %r1;\n\
             st.shared.v4.b32 [%r2+2048], {{%r4, %r5, %r6, %r7}};\n\
             fence.proxy.async.shared::cta; bar.sync 0;\n@!%p0 bra END;\n\
             cp.async.bulk.global.shared::cta.bulk_group [%out], [memory+2048], 1024;\n\
             cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;\nEND:"
        );
        let found = launch(&kernel(4, 4, &body), 1, &input, 4 * THREADS);
        let expected: Vec<u32> = (0..4 * THREADS).map(|at| input[at ^ 4]).collect();
        assert_eq!(found, expected, "{body}");
    }
}

/// Copies of a thread are complete where it arrives for them.
#[test]
fn copies_arrive_at_a_barrier() {
    let body = format!(
        "mov.u32 %r1, memory; setp.eq.u32 %p0, %t, 0;\n\
         @%p0 mbarrier.init.shared.b64 [%r1], {THREADS};\nbar.sync 0;\n\
         shl.b32 %r2, %t, 2; add.u32 %r2, %r2, %r1;\n\
         cp.async.ca.shared.global [%r2+16], [%in], 4;\n\
         cp.async.mbarrier.arrive.noinc.shared.b64 [%r1];\n\
         L: mbarrier.try_wait.parity.shared.b64 %p1, [%r1], 0; @!%p1 bra L;\n\
         xor.b32 %r2, %t, 5; shl.b32 %r2, %r2, 2; add.u32 %r2, %r2, %r1;\n\
         ld.shared.u32 %r3, [%r2+16];\nst.global.u32 [%out], %r3;"
    );
    let input: Vec<u32> = (0..THREADS as u32).map(|n| n * n).collect();
    let found = launch(&kernel(1, 1, &body), 1, &input, THREADS);
    let expected: Vec<u32> = (0..THREADS).map(|at| input[at ^ 5]).collect();
    assert_eq!(found, expected);
}

/// Of what is not copied there are zeros: in the second warp a thread copies 0 to 3 bytes, in the
/// first all.
#[test]
fn copies_of_fewer_bytes() {
    for words in [1, 2, 4] {
        let bytes = 4 * words;
        let mut body = format!(
            "mov.u32 %r1, memory; mul.lo.u32 %r2, %t, {bytes}; add.u32 %r2, %r2, %r1;\n\
             setp.lt.u32 %p0, %t, 32; and.b32 %r3, %t, 3; selp.b32 %r3, {bytes}, %r3, %p0;\n\
             st.shared.u32 [%r2], 7;\n\
             cp.async.ca.shared.global [%r2], [%in], {bytes}, %r3;\n\
             cp.async.commit_group; cp.async.wait_group 0; bar.sync 0;\n"
        );
        for at in 0..words {
            let at = 4 * at;
            body += &format!("ld.shared.u32 %r4, [%r2+{at}]; st.global.u32 [%out+{at}], %r4;\n");
        }
        let input: Vec<u32> = (1..=(THREADS * words) as u32)
            .map(|n| n.wrapping_mul(0x0105_0301))
            .collect();
        let found = launch(&kernel(words, words, &body), 1, &input, THREADS * words);
        let expected = |(at, &word): (usize, &u32)| {
            let thread = at / words;
            match (thread < 32, at % words) {
                (true, _) => word,
                (false, 0) => word & ((1 << (8 * (thread % 4))) - 1),
                _ => 0,
            }
        };
        let expected: Vec<u32> = input.iter().enumerate().map(expected).collect();
        assert_eq!(found, expected, "{bytes} bytes");
    }
}

/// Halves that follow one another, from and to registers of 32 bits.
#[test]
fn halves_side_by_side() {
    let body = "{ .reg .b16 %h; .reg .f32 %f;\n\
         mul.wide.u32 %x0, %t, 2; sub.s64 %x0, %out, %x0;\n\
         ld.global.f32 %f, [%in]; cvt.rn.f16.f32 %h, %f; st.global.b16 [%x0], {%h};\n\
         bar.sync 0; ld.global.b16 %h, [%x0]; cvt.f32.f16 %f, %h; st.global.f32 [%out+256], %f; }";
    let halves = [
        0.0, -0.0, 1.0, -2.5, 65504.0, 65519.9, 65520.0, -1e9, 6e-8, 2.9e-8, 6.1e-5, 1.0005, 1.0015,
    ];
    let special = [f32::INFINITY, f32::NEG_INFINITY, f32::NAN];
    let values = halves.into_iter().chain(special).cycle().take(THREADS);
    let input: Vec<u32> = values.map(f32::to_bits).collect();
    let found = launch(&kernel(1, 1, body), 1, &input, 2 * THREADS);
    let expected = [
        0, 0x8000, 0x3C00, 0xC100, 0x7BFF, 0x7BFF, 0x7C00, 0xFC00, 1, 0, 0x3FF, 0x3C01, 0x3C02,
        0x7C00, 0xFC00, 0x7FFF,
    ];
    let words: Vec<u32> = (0..8)
        .map(|at| expected[2 * at] | expected[2 * at + 1] << 16)
        .collect();
    assert_eq!(found[..8], words, "{:x?}", &found[..8]);
    assert_eq!(found[THREADS + 3], (-2.5_f32).to_bits());
    assert_eq!(found[THREADS + 8], 2.0_f32.powi(-24).to_bits());
    assert_eq!(found[THREADS + 14], f32::NEG_INFINITY.to_bits());
    assert_eq!(found[THREADS + 15], 0x7FFF_FFFF);
}
