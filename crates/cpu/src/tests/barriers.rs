//! Lane groups that go on behind barriers leave what threads leave that the scheduler resumes one by one.

use super::lanes::{ADDRESSES, kernel, run};
use crate::Vectorization;

const BLOCKS: [(u32, [u32; 3]); 6] = [
    (3, [32, 8, 1]),
    (2, [64, 3, 1]),
    (1, [32, 1, 1]),
    (2, [16, 4, 2]),
    (1, [16, 5, 1]),
    (2, [8, 8, 4]),
];

/// Runs it in groups and thread by thread, and returns what the blocks leave.
fn agree(source: &str) -> Vec<Result<Vec<u32>, String>> {
    let results = BLOCKS.map(|(grid, block)| {
        let alone = run(source, Vectorization::Never, grid, block, 7);
        let together = run(source, Vectorization::Always, grid, block, 7);
        assert_eq!(together, alone, "{block:?}\n{source}");
        alone
    });
    results.into()
}

/// `%r3` is the thread's number in its block, `%r5` the address of its word of the tile, `%r6` that of
/// a thread of another group, `%r7` what the thread sums.
fn block(body: &str) -> String {
    kernel(&format!(
        "mov.u32 %r12, %tid.y; mov.u32 %r13, %tid.z; mov.u32 %r14, %ntid.y;\n\
         mad.lo.u32 %r3, %r13, %r14, %r12; mad.lo.u32 %r3, %r3, %r1, %r2;\n\
         mad.lo.u32 %i, %r0, 256, %r3; {ADDRESSES} ld.global.u32 %r7, [%x1];\n\
         mov.u32 %r4, tile; mad.lo.u32 %r5, %r3, 4, %r4; mov.u32 %r15, %ntid.z;\n\
         mul.lo.u32 %r15, %r15, %r14; mul.lo.u32 %r15, %r15, %r1; add.u32 %r6, %r3, 37;\n\
         rem.u32 %r6, %r6, %r15; mad.lo.u32 %r6, %r6, 4, %r4;\n{body}\nst.global.u32 [%x2], %r7;"
    ))
}

/// Exchanges what is summed with the other group.
const EXCHANGE: &str = "st.shared.u32 [%r5], %r7;\nbar.sync 0;\nld.shared.u32 %r8, [%r6];\n\
                        mad.lo.u32 %r7, %r7, 3, %r8;\nbar.sync 0;";

#[test]
fn one_after_the_other() {
    for between in [
        "",
        // `%tid`, behind barriers.
        "mov.u32 %r9, %tid.x; mov.u32 %r10, %tid.y; mov.u32 %r11, %tid.z;\n\
         mad.lo.u32 %r9, %r10, 5, %r9; mad.lo.u32 %r9, %r11, 11, %r9; add.u32 %r7, %r7, %r9;",
        // What is the same for all, and for each group.
        "add.u32 %n, %n, %r0; add.u32 %r7, %r7, %n; add.u32 %r7, %r7, %r12;",
        // Another barrier.
        "bar.sync 3; xor.b32 %r7, %r7, %n;",
        // Barriers that have results, and those of a part of the block or of all.
        "setp.gt.u32 %p0, %r3, 40; bar.red.popc.u32 %r9, 0, %p0; add.u32 %r7, %r7, %r9;",
        "bar.sync 1, %r15; add.u32 %r7, %r7, 5;",
        // Warp operations.
        "shfl.sync.bfly.b32 %r9, %r7, 5, 31, 0xffffffff; add.u32 %r7, %r7, %r9;",
    ] {
        let source = block(&[EXCHANGE, between, EXCHANGE, between, EXCHANGE].join("\n"));
        for result in agree(&source) {
            assert_eq!(result.map(|_| ()), Ok(()), "{source}");
        }
    }
}

/// Loops with barriers, from which some blocks go on sooner.
#[test]
fn in_loops() {
    let source = block(&format!(
        "add.u32 %n, %n, %r0;\nAGAIN: {EXCHANGE}\nsetp.lt.u32 %p0, %n, 8; @%p0 bra LESS;\n\
         {EXCHANGE}\nadd.u32 %r7, %r7, 1;\nLESS: sub.u32 %n, %n, 1; setp.ne.u32 %p1, %n, 0; @%p1 bra AGAIN;\n\
         {EXCHANGE}"
    ));
    for result in agree(&source) {
        assert_eq!(result.map(|_| ()), Ok(()));
    }
}

/// Groups that wait at different places for the same barrier, and threads that do.
#[test]
fn at_different_places() {
    for threads in ["%r12", "%r2", "%r7"] {
        let source = block(&format!(
            "and.b32 %r9, {threads}, 1; setp.eq.u32 %p0, %r9, 0;\n{EXCHANGE}\n@%p0 bra EVEN;\n\
             st.shared.u32 [%r5], %r7;\nbar.sync 0;\nadd.u32 %r7, %r7, 1; bra MEET;\n\
             EVEN: add.u32 %r8, %r7, 9; st.shared.u32 [%r5], %r8;\nbar.sync 0;\n\
             MEET: ld.shared.u32 %r8, [%r6]; add.u32 %r7, %r7, %r8;\nbar.sync 0;\n{EXCHANGE}"
        ));
        for result in agree(&source) {
            assert_eq!(result.map(|_| ()), Ok(()));
        }
    }
}

/// Threads and groups that exit, for which the others do not wait.
#[test]
fn without_those_that_have_exited() {
    for leaves in [
        "setp.eq.u32 %p0, %r12, 2;",
        "setp.gt.u32 %p0, %r2, 11;",
        "setp.eq.u32 %p0, %r0, 1;",
    ] {
        let source = block(&format!(
            "st.shared.u32 [%r6], %r7; {leaves}\nbar.sync 0;\n@%p0 bra OUT;\nld.shared.u32 %r8, [%r5];\n\
             add.u32 %r7, %r7, %r8;\nbar.sync 0;\nst.shared.u32 [%r5], %r7;\nbar.sync 0;\n\
             ld.shared.u32 %r8, [%r5]; mad.lo.u32 %r7, %r8, 7, %r7;\nbar.sync 0;\nOUT:"
        ));
        for result in agree(&source) {
            assert_eq!(result.map(|_| ()), Ok(()));
        }
    }
}

/// A fault behind barriers is that of the thread that makes it.
#[test]
fn faults_behind_barriers() {
    let source = block(&format!(
        "{EXCHANGE}\n{EXCHANGE}\nsetp.eq.u32 %p0, %r3, 9; @%p0 add.u64 %x2, %x2, 1;"
    ));
    for (result, (_, [x, ..])) in agree(&source).into_iter().zip(BLOCKS) {
        let message = result.expect_err("its address is misaligned");
        let thread = format!("thread ({},{},0)", 9 % x, 9 / x);
        assert!(message.contains(&thread), "{message}");
    }
}

/// Comparisons that threads read behind barriers, of indices that change: with those of the thread's
/// own comparison, not those of a later one.
#[test]
fn comparisons_of_changing_indices() {
    // `%r9` is what the comparisons compare, anew each time around; `%n` is 7.
    for (compare, again) in [
        ("add.u32 %r9, %r3, %r13; setp.lt.u32 %p1, %r9, 90;", ""),
        ("add.u32 %r9, %r2, %r13; setp.lt.u32 %p1, %r9, 30;", ""),
        ("add.u32 %r9, %r2, %r13; setp.lt.u32 %p1, %r9, %n;", ""),
        // The index has changed when the predicate is read, whose block the loop passes by.
        (
            "add.u32 %r9, %r2, %r13; setp.gt.u32 %p2, %r13, 30; @%p2 bra PASS;\n\
             setp.lt.u32 %p1, %r9, 40; PASS:",
            "",
        ),
        // Two of one index, in two blocks.
        (
            "add.u32 %r9, %r2, %r13; setp.lt.u32 %p3, %r9, 20; selp.u32 %r10, 1, 2, %p3;\n\
             setp.gt.u32 %p2, %r13, 30; @%p2 bra PASS;\nsetp.lt.u32 %p1, %r9, 40; PASS:",
            "selp.u32 %r9, 5, 6, %p3; mad.lo.u32 %r7, %r7, 7, %r9;",
        ),
    ] {
        let source = block(&format!(
            "mov.u32 %r13, 0; setp.ne.u32 %p1, %r13, 0;\nAGAIN: {compare}\n{EXCHANGE}\n\
             selp.u32 %r11, 3, 4, %p1; mad.lo.u32 %r7, %r7, 5, %r11; @%p1 add.u32 %r7, %r7, 1;\n\
             {again}\nadd.u32 %r13, %r13, 11; setp.lt.u32 %p0, %r13, 55; @%p0 bra AGAIN;"
        ));
        for result in agree(&source) {
            assert_eq!(result.map(|_| ()), Ok(()), "{source}");
        }
    }
}
