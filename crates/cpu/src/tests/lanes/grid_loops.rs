//! Loops over arrays, most of them by the size of the grid.

use super::{ADDRESSES, agree, kernel, run};
use crate::Vectorization;

/// Blocks of one dimension and of two, with little and with much arithmetic between accesses.
#[test]
fn loops_by_the_size_of_the_grid() {
    let stride = "mov.u32 %r4, %nctaid.x; mul.lo.u32 %r4, %r4, %r1; bra TEST;";
    let next = "add.u32 %i, %i, %r4; TEST: setp.lt.u32 %p0, %i, %n; @%p0 bra NEXT;";
    let access = "ld.global.u32 %r5, [%x1]; ld.global.u32 %r6, [%x2]; mad.lo.u32 %r6, %r5, 3, %r6; \
                  st.global.u32 [%x2], %r6;";
    let body = format!("{stride} NEXT: {ADDRESSES} {access} {next}");
    let plane = format!("mov.u32 %r7, %tid.y; add.u32 %i, %i, %r7; {body}");
    let work = format!(
        "{stride} NEXT: {ADDRESSES} {access} {} {next}",
        "mul.lo.u32 %r6, %r6, %r5;".repeat(20)
    );
    agree(&plane);
    agree(&work);
    agree(&body);
    // There are 4096 words, of which a lane of either half of its warp is the first to leave.
    for (grid, block, start, n) in [
        (2, [32, 1, 1], 5, 4000),
        (3, [96, 1, 1], 21, 4077),
        (2, [48, 1, 1], 0, 1000),
        (4, [128, 1, 1], 3979, 4400),
        (4, [128, 1, 1], 3995, 4400),
    ] {
        let source = kernel(&format!("add.u32 %i, %i, {start}; {body}"));
        let alone = run(&source, Vectorization::Never, grid, block, n);
        let together = run(&source, Vectorization::Always, grid, block, n);
        assert_eq!(together.is_err(), n > 4096);
        assert_eq!(
            together, alone,
            "{grid} blocks of {block:?}, {start} to {n}"
        );
    }
}

/// After and before barriers, with conditions in the loop, where some threads leave it early, and one
/// loop after the other.
#[test]
fn barriers_and_conditions() {
    // No two threads change the same word, in blocks of two dimensions either.
    let sizes = "mov.u32 %r13, %ntid.y; mov.u32 %r14, %tid.y; mad.lo.u32 %r14, %r0, %r13, %r14; \
                 mad.lo.u32 %i, %r14, %r1, %r2; mov.u32 %r15, %nctaid.x; mul.lo.u32 %r3, %r15, %r1; \
                 mul.lo.u32 %r4, %r3, %r13; mov.u32 %r5, 7; mov.u32 %r9, %i;";
    let load = "mul.wide.u32 %x0, %i, 4; add.u64 %x1, %in, %x0; ld.global.u32 %r6, [%x1];";
    let change = "add.u64 %x2, %out, %x0; ld.global.u32 %r7, [%x2]; mad.lo.u32 %r7, %r7, 3, %r6; \
                  st.global.u32 [%x2], %r7;";
    let update = format!("{load} {change} add.u32 %i, %i, %r4;");
    let store = "mul.wide.u32 %x0, %r9, 4; add.u64 %x2, %out, %x0; ld.global.u32 %r7, [%x2]; \
                 add.u32 %r5, %r5, %r7; st.global.u32 [%x2], %r5;";
    let share = "mov.u32 %r10, tile; mov.u32 %r11, %tid.y; mad.lo.u32 %r11, %r11, %r1, %r2; \
                 mad.lo.u32 %r11, %r11, 4, %r10; st.shared.u32 [%r11], %i; bar.sync 0; \
                 xor.b32 %r12, %r11, 4; ld.shared.u32 %r12, [%r12]; add.u32 %r5, %r5, %r12;";
    let test = "setp.lt.u32 %p0, %i, %n;";
    for body in [
        // A test before each iteration, and one behind it.
        format!("{sizes} bra TEST; NEXT: {update} TEST: {test} @%p0 bra NEXT; {store}"),
        format!(
            "{sizes} {test} @!%p0 bra DONE; NEXT: {update} {test} @%p0 bra NEXT; DONE: {store}"
        ),
        // The loop starts where threads resume, and a barrier follows.
        format!(
            "{sizes} {share} bra TEST; NEXT: {update} TEST: {test} @%p0 bra NEXT; bar.sync 0; \
             {share} {store}"
        ),
        // Two loops, the second for some of the threads alone.
        format!(
            "{sizes} bra TEST; NEXT: {update} TEST: {test} @%p0 bra NEXT; mov.u32 %i, %r9; \
             setp.gt.u32 %p1, %i, 50; @%p1 bra DONE; bra TEST2; \
             NEXT2: {update} TEST2: {test} @%p0 bra NEXT2; DONE: {store}"
        ),
        // A condition in the loop, and threads that leave it.
        format!(
            "{sizes} bra TEST; NEXT: {load} and.b32 %r12, %r6, 3; setp.eq.u32 %p1, %r12, 0; \
             @%p1 bra SKIP; {change} SKIP: add.u32 %i, %i, %r4; TEST: {test} @%p0 bra NEXT; {store}"
        ),
        format!(
            "{sizes} bra TEST; NEXT: {update} and.b32 %r12, %r6, 15; setp.eq.u32 %p1, %r12, 0; \
             @%p1 bra DONE; TEST: {test} @%p0 bra NEXT; DONE: {store}"
        ),
        // Around it another loop.
        format!(
            "{sizes} mov.u32 %r8, 3; OUTER: bra TEST; NEXT: {update} TEST: {test} @%p0 bra NEXT; \
             mov.u32 %i, %r9; sub.u32 %r8, %r8, 1; setp.ne.u32 %p1, %r8, 0; @%p1 bra OUTER; {store}"
        ),
    ] {
        agree(&body);
        let source = kernel(&body);
        for (grid, block, n) in [
            (2, [64, 1, 1], 1000),
            (1, [128, 2, 1], 4000),
            (3, [48, 1, 1], 555),
        ] {
            let alone = run(&source, Vectorization::Never, grid, block, n);
            let together = run(&source, Vectorization::Always, grid, block, n);
            assert_eq!(
                together, alone,
                "{body}\n{grid} blocks of {block:?}, n = {n}"
            );
        }
    }
}

/// A fault in a loop names the first thread that has one, and what it accesses.
#[test]
fn faults_name_the_thread() {
    let body = format!(
        "mov.u32 %r4, %nctaid.x; mul.lo.u32 %r4, %r4, %r1; bra TEST; NEXT: {ADDRESSES}\n\
         ld.global.u32 %r5, [%x1];\nst.global.u32 [%x2], %r5; add.u32 %i, %i, %r4; \
         TEST: setp.lt.u32 %p0, %i, %n; @%p0 bra NEXT;"
    );
    let source = kernel(&body);
    for block in [128, 96, 352] {
        let [alone, together] = [Vectorization::Never, Vectorization::Always]
            .map(|vectorization| run(&source, vectorization, 1, [block, 1, 1], 5000).unwrap_err());
        assert_eq!(together, alone);
    }
}

/// The fault of an earlier block is reported, though a later one has its own in an earlier iteration.
#[test]
fn the_first_fault_of_the_grid() {
    let source = kernel(
        "setp.eq.u32 %p1, %r0, 0; selp.u32 %n, 1000, %n, %p1; setp.eq.u32 %p1, %r0, 2; \
         selp.u32 %r10, 8192, 0, %p1; mov.u32 %r4, %nctaid.x; mul.lo.u32 %r4, %r4, %r1; bra TEST; \
         NEXT: add.u32 %r11, %i, %r10; mul.wide.u32 %x0, %r11, 4; add.u64 %x1, %in, %x0; \
         mul.wide.u32 %x3, %i, 4; add.u64 %x2, %out, %x3;\nld.global.u32 %r5, [%x1];\n\
         st.global.u32 [%x2], %r5;\nadd.u32 %i, %i, %r4; TEST: setp.lt.u32 %p0, %i, %n; @%p0 bra NEXT;",
    );
    for n in [2000, 4400] {
        let alone = run(&source, Vectorization::Never, 4, [128, 1, 1], n);
        let together = run(&source, Vectorization::Always, 4, [128, 1, 1], n);
        assert!(alone.is_err());
        assert_eq!(together, alone, "{n}");
    }
}

/// Accesses under guards in front of such a loop, behind another one.
#[test]
fn loops_behind_guarded_accesses() {
    let source = kernel(
        "mov.u32 %r15, %nctaid.x; mul.lo.u32 %r4, %r15, %r1; mov.u32 %r3, %i; \
         A: mul.wide.u32 %x0, %r3, 4; add.u64 %x1, %in, %x0; add.u64 %x2, %out, %x0; \
         ld.global.u32 %r5, [%x1]; ld.global.u32 %r6, [%x2]; add.u32 %r6, %r6, %r5; \
         st.global.u32 [%x2], %r6; add.u32 %r3, %r3, %r4; setp.lt.u32 %p0, %r3, %n; @%p0 bra A; \
         mov.u32 %r7, 1; mov.u32 %r8, 2; mov.u32 %r9, %i; mul.wide.u32 %x3, %i, 4; \
         add.u64 %x4, %in, %x3; add.u32 %r10, %i, 1; setp.lt.u32 %p1, %i, %n; \
         setp.lt.u32 %p2, %r10, %n; @%p1 ld.global.u32 %r7, [%x4]; @%p2 ld.global.u32 %r8, [%x4+4]; \
         B: mul.wide.u32 %x5, %r9, 4; add.u64 %x6, %out, %x5; ld.global.u32 %r11, [%x6]; \
         mad.lo.u32 %r11, %r11, %r7, %r8; st.global.u32 [%x6], %r11; \
         add.u32 %r9, %r9, %r4; setp.lt.u32 %p3, %r9, %n; @%p3 bra B;",
    );
    let [alone, together] = [Vectorization::Never, Vectorization::Always]
        .map(|how| run(&source, how, 1, [64, 1, 1], 1024));
    assert!(alone.is_ok());
    assert_eq!(together, alone);
}

/// Sums and counts that a loop carries, and what it leaves in shared memory.
#[test]
fn carried_sums() {
    let start = "mov.u32 %r4, %nctaid.x; mul.lo.u32 %r4, %r4, %r1; mov.u32 %r3, 0; mov.u32 %r10, tile; \
                 mad.lo.u32 %r11, %r2, 4, %r10; st.shared.u32 [%r11], %r3; bar.sync 0; bra TEST;";
    let sum = "NEXT: mul.wide.u32 %x0, %i, 4; add.u64 %x1, %in, %x0; ld.global.u32 %r5, [%x1];";
    let next = "add.u32 %i, %i, %r4; TEST: setp.lt.u32 %p0, %i, %n; @%p0 bra NEXT; bar.sync 0;";
    let store = "mad.lo.u32 %i, %r0, %r1, %r2; ld.shared.u32 %r6, [%r11]; add.u32 %r3, %r3, %r6; \
                 mul.wide.u32 %x0, %i, 4; add.u64 %x2, %out, %x0; add.u32 %r3, %r3, 1; \
                 st.global.u32 [%x2], %r3;";
    for step in [
        "mad.lo.u32 %r3, %r3, 31, %r5;",
        "and.b32 %r6, %r5, 15; mad.lo.u32 %r6, %r6, 4, %r10; red.shared.add.u32 [%r6], 1;",
        "mad.lo.u32 %r3, %r3, 7, %r5; and.b32 %r6, %r5, 60; add.u32 %r6, %r6, %r10; \
         red.shared.add.u32 [%r6], %r5;",
        "setp.gt.u32 %p1, %r5, 20000000; @%p1 add.u32 %r3, %r3, %r5; and.b32 %r6, %r5, 7; \
         setp.eq.u32 %p1, %r6, 0; @%p1 bra SKIP; add.u32 %r3, %r3, 3; SKIP:",
    ] {
        let source = kernel(&format!("{start} {sum} {step} {next} {store}"));
        // Fewer iterations than a turn has, and more.
        for (grid, n) in [(5, 64), (4, 1000), (1, 700), (9, 4096)] {
            let [alone, together] = [Vectorization::Never, Vectorization::Always]
                .map(|how| run(&source, how, grid, [64, 1, 1], n));
            assert!(alone.as_ref().is_ok_and(|words| words[0] != 0));
            assert_eq!(together, alone, "{step} {grid} {n}");
        }
    }
}

/// A loop over bytes, and one over halves.
#[test]
fn narrow_loads_in_loops() {
    for (ty, bytes) in [("u8", 1), ("s8", 1), ("u16", 2)] {
        let body = format!(
            "mul.wide.u32 %x0, %i, {bytes}; add.u64 %x1, %in, %x0; mul.wide.u32 %x0, %i, 4; \
             add.u64 %x2, %out, %x0; mov.u32 %r5, 0; mov.u32 %r6, 0; \
             AGAIN: ld.global.{ty} %r3, [%x1]; add.u32 %r6, %r6, %r3; add.u64 %x1, %x1, 64; \
             add.u32 %r5, %r5, 1; setp.lt.u32 %p0, %r5, 3; @%p0 bra AGAIN; st.global.u32 [%x2], %r6;"
        );
        agree(&body);
    }
}
