//! Loops over tiles between the barriers of a block.

use super::lanes::{ADDRESSES, kernel, run};
use crate::Vectorization;

/// Rows that are left over, and groups of which a row has two.
const BLOCKS: [(u32, [u32; 3]); 7] = [
    (2, [16, 16, 1]),
    (1, [16, 15, 1]),
    (1, [16, 7, 1]),
    (1, [16, 6, 1]),
    (2, [16, 5, 1]),
    (1, [32, 4, 1]),
    (3, [16, 1, 1]),
];

/// The results, of which all that are not numbers count as one.
fn numbers(result: Result<Vec<u32>, String>) -> Result<Vec<u32>, String> {
    let number = |bits: u32| {
        if f32::from_bits(bits).is_nan() {
            f32::NAN.to_bits()
        } else {
            bits
        }
    };
    result.map(|words| words.into_iter().map(number).collect())
}

fn agree(source: &str, faults: bool) {
    for (grid, block) in BLOCKS {
        let alone = numbers(run(source, Vectorization::Never, grid, block, 0));
        let together = numbers(run(source, Vectorization::Always, grid, block, 0));
        assert_eq!(alone.is_err(), faults, "{alone:?}\n{source}");
        assert_eq!(together, alone, "{block:?}\n{source}");
    }
}

/// A block that three times waits at a barrier and sums over its tile: each row of threads from its
/// own row of 16 words on.
fn sums(start: &str, before: &str, body: &str, after: &str) -> String {
    kernel(&format!(
        "mov.u32 %r12, %tid.y; mad.lo.u32 %r3, %r12, %r1, %r2; mad.lo.u32 %i, %r0, 256, %r3; {ADDRESSES} \
         ld.global.u32 %r6, [%x1]; shl.b32 %r6, %r6, 7; mov.u32 %r4, tile; mad.lo.u32 %r5, %r3, 4, %r4; \
         st.shared.u32 [%r5], %r6; not.b32 %r6, %r6; st.shared.u32 [%r5+2048], %r6; \
         mad.lo.u32 %r7, %r12, 64, %r4; mad.lo.u32 %r8, %r2, 4, %r4; mov.u32 %r14, 0; mov.u32 %r15, 16; \
         mov.f32 %f0, 0f00000000; mov.f32 %f1, 0f3F800000; {start}\n\
         TILE: bar.sync 0;\nmov.u32 %r10, %r7; mov.u32 %r11, %r8; mov.u32 %r13, %r15; {before}\n\
         L: {body}\nsub.u32 %r13, %r13, 1; setp.ne.u32 %p0, %r13, 0; @%p0 bra L;\n{after}\n\
         bar.sync 0; add.u32 %r14, %r14, 1; setp.lt.u32 %p1, %r14, 3; @%p1 bra TILE;\n\
         st.global.f32 [%x2], %f0; st.global.f32 [%x2+4096], %f1;"
    ))
}

const LOADS: &str = "ld.shared.f32 %f2, [%r10];\nld.shared.f32 %f3, [%r11+2048];\n\
                     add.u32 %r10, %r10, 4; add.u32 %r11, %r11, 64;";

/// Loops of every length, with what is left of iterations that follow one another.
#[test]
fn loops_of_products() {
    for length in [1, 2, 3, 4, 5, 7, 8, 16] {
        let source = sums(
            &format!("mov.u32 %r15, {length};"),
            "",
            &format!("{LOADS} fma.rn.f32 %f0, %f2, %f3, %f0;"),
            "",
        );
        agree(&source, false);
    }
}

/// Each kind of arithmetic, in each of its places, and several sums.
#[test]
fn arithmetic_in_loops() {
    for body in [
        "mul.f32 %f4, %f2, %f3; add.f32 %f0, %f0, %f4;",
        "mul.rn.f32 %f4, %f2, %f3; sub.f32 %f0, %f0, %f4;",
        "sub.f32 %f0, %f2, %f0; add.f32 %f0, %f0, %f3;",
        "mul.f32 %f0, %f0, %f3; add.f32 %f0, %f2, %f0;",
        "fma.rn.f32 %f0, %f0, %f3, %f2;",
        "fma.rn.f32 %f0, %f3, %f3, %f0; fma.rn.f32 %f1, %f2, %f3, %f1;",
        "mul.f32 %f4, %f2, %f2; fma.rn.f32 %f0, %f4, %f3, %f0;",
        "mul.f32 %f4, %f3, %f3; fma.rn.f32 %f0, %f4, %f2, %f0;",
        "fma.rn.f32 %f0, %f2, %f3, %f0; add.f32 %f4, %f3, %f2; sub.f32 %f1, %f4, %f1; fma.rn.f32 %f0, %f4, %f4, %f0;",
    ] {
        let source = sums("", "", &format!("{LOADS} {body}"), "");
        agree(&source, false);
    }
}

/// Loads of several words, loads from addresses that fall, and several in an iteration.
#[test]
fn loads_in_loops() {
    for (start, before, body) in [
        (
            "mov.u32 %r15, 8;",
            "",
            "ld.shared.v2.f32 {%f2, %f3}, [%r10]; add.u32 %r10, %r10, 8; ld.shared.f32 %f4, [%r11]; \
             fma.rn.f32 %f0, %f2, %f4, %f0; ld.shared.f32 %f4, [%r11+64]; fma.rn.f32 %f0, %f3, %f4, %f0; \
             add.u32 %r11, %r11, 128;",
        ),
        (
            "mov.u32 %r15, 4;",
            "",
            "ld.shared.v4.f32 {%f2, _, %f3, %f5}, [%r10]; ld.shared.f32 %f4, [%r11+128]; \
             fma.rn.f32 %f0, %f2, %f4, %f0; fma.rn.f32 %f1, %f3, %f4, %f1; mul.f32 %f4, %f4, %f5; \
             add.f32 %f0, %f0, %f4; add.u32 %r10, %r10, 16; add.u32 %r11, %r11, 64;",
        ),
        (
            "",
            "add.u32 %r10, %r10, 60; add.u32 %r11, %r11, 3008;",
            "ld.shared.f32 %f2, [%r10]; ld.shared.f32 %f3, [%r11]; fma.rn.f32 %f0, %f2, %f3, %f0; \
             add.u32 %r10, %r10, -4; sub.u32 %r11, %r11, 64;",
        ),
    ] {
        let source = sums(start, before, body, "");
        agree(&source, false);
    }
}

/// What other code has to do: it stays right beside the loops, and in place of them.
#[test]
fn around_loops() {
    let product = format!("{LOADS} fma.rn.f32 %f0, %f2, %f3, %f0;");
    for (start, before, body, after) in [
        // The sum is used in front of the loop, and behind it.
        ("", "add.f32 %f0, %f0, %f1;", "", ""),
        (
            "",
            "",
            "",
            "mul.f32 %f0, %f0, 0f3F000000; add.f32 %f1, %f1, %f0;",
        ),
        ("", "mov.f32 %f0, %f1;", "", "add.f32 %f1, %f0, %f0;"),
        // What the last iteration loads is used behind the loop.
        ("", "", "", "add.f32 %f1, %f1, %f3;"),
        ("", "", "", "add.f32 %f1, %f1, %f2;"),
        // What the loop only reads.
        (
            "",
            "",
            "fma.rn.f32 %f0, %f3, %f1, %f0; add.f32 %f0, %f0, %f2;",
            "",
        ),
        // Operations that its code generator lacks.
        ("", "", "fma.rn.ftz.f32 %f0, %f2, %f3, %f0;", ""),
        ("", "", "fma.rn.sat.f32 %f0, %f2, %f3, %f0;", ""),
        ("", "", "fma.rz.f32 %f0, %f2, %f3, %f0;", ""),
        ("", "", "max.f32 %f0, %f2, %f0; add.f32 %f0, %f0, %f3;", ""),
        (
            "",
            "",
            "fma.rn.f32 %f0, %f2, 0f3F800000, %f0; add.f32 %f0, %f0, %f3;",
            "",
        ),
        (
            "",
            "",
            "fma.rn.f32 %f4, %f2, %f3, %f1; mul.f32 %f1, %f4, %f0; add.f32 %f0, %f4, %f2;",
            "",
        ),
        (
            "",
            "",
            "mov.f32 %f4, %f0; mov.f32 %f0, %f1; fma.rn.f32 %f1, %f2, %f3, %f4;",
            "",
        ),
    ] {
        let body = match body {
            "" => product.clone(),
            body => format!("{LOADS} {body}"),
        };
        agree(&sums(start, before, &body, after), false);
    }
}

/// Rows that differ in the length of the loop, or in the addresses that are usually one.
#[test]
fn groups_that_disagree() {
    let product = format!("{LOADS} fma.rn.f32 %f0, %f2, %f3, %f0;");
    for row in [0, 1, 2, 3, 5] {
        for differs in ["mov.u32 %r15, 5;", "add.u32 %r8, %r8, 64;"] {
            let start = format!("setp.eq.u32 %p2, %r12, {row}; @!%p2 bra SAME; {differs} SAME:");
            agree(&sums(&start, "", &product, ""), false);
        }
    }
    // Each has its own row in place of the common one.
    agree(&sums("mov.u32 %r8, %r7;", "", &product, ""), false);
    // And its own of both.
    agree(
        &sums(
            "mad.lo.u32 %r8, %r12, 64, %r8;",
            "",
            "ld.shared.f32 %f2, [%r10];\nld.shared.f32 %f3, [%r11];\n\
                     add.u32 %r10, %r10, 4; fma.rn.f32 %f0, %f2, %f3, %f0;",
            "",
        ),
        false,
    );
}

/// Iterations that leave shared memory are reported as those of the thread that does.
#[test]
fn faults_in_loops() {
    for (start, body) in [
        ("", LOADS.replace("2048", "3200")),
        ("mov.u32 %r15, 65;", LOADS.replace("2048", "0")),
        (
            "setp.eq.u32 %p2, %r12, 0; @!%p2 bra ON; add.u32 %r7, %r7, 4090; ON:",
            LOADS.to_owned(),
        ),
        ("mov.u32 %r15, 100000;", LOADS.to_owned()),
        ("mov.u32 %r15, 0;", LOADS.to_owned()),
    ] {
        agree(
            &sums(
                start,
                "",
                &format!("{body} fma.rn.f32 %f0, %f2, %f3, %f0;"),
                "",
            ),
            true,
        );
    }
}

/// A block that copies to its tile, again and again: each thread its word, behind one that all have in common.
fn copies(start: &str, copy: &str, tile: &str) -> String {
    kernel(&format!(
        "mov.u32 %r12, %tid.y; mad.lo.u32 %r3, %r12, %r1, %r2; mad.lo.u32 %i, %r0, 256, %r3; {ADDRESSES} \
         mov.u32 %r4, tile; mad.lo.u32 %r5, %r3, 4, %r4; mov.u32 %r14, 0; mov.u32 %r9, %i; \
         mad.lo.u32 %r8, %r2, 4, %r4; {start}\n\
         TILE: {copy}\nbar.sync 0;\n{tile}\nbar.sync 0;\nadd.u64 %x1, %x1, 64; add.u32 %r14, %r14, 1;\n\
         setp.lt.u32 %p1, %r14, 5; @%p1 bra TILE;\nst.global.u32 [%x2], %r9;"
    ))
}

/// Groups that copy one after the other what they sum behind the barrier.
#[test]
fn copies_to_tiles() {
    const COPY: &str = "ld.global.u32 %r6, [%x1];\nst.shared.u32 [%r5], %r6;";
    const SUM: &str = "ld.shared.u32 %r7, [%r5]; mad.lo.u32 %r9, %r9, 3, %r7;";
    for (copy, tile) in [
        (COPY, SUM),
        // What changes in between is the same for all rows.
        (
            "mad.lo.u32 %r6, %r14, 7, %i; st.shared.u32 [%r5], %r6; add.u32 %r14, %r14, 1;\nmad.lo.u32 %r9, %r14, %r9, %r14;",
            SUM,
        ),
        (
            "mov.u32 %r10, %r14; add.u32 %r6, %r10, %i; add.u32 %r10, %r10, 3; mad.lo.u32 %r6, %r6, %r10, %r10; st.shared.u32 [%r5], %r6;",
            SUM,
        ),
        (
            "mul.lo.u32 %r6, %r14, %r14; add.u32 %r9, %r9, %r6; st.shared.u32 [%r5], %r9;",
            SUM,
        ),
    ] {
        agree(&copies("", copy, tile), false);
    }
    // What all rows read changes in between, by what they have in common.
    let changes = copies(
        "",
        COPY,
        "mad.lo.u32 %r9, %r9, 3, %r14;\nadd.u32 %r14, %r14, 1;",
    );
    agree(
        &changes.replace("add.u32 %r14, %r14, 1;\nsetp", "setp"),
        false,
    );
    // Rows that leave the loop at different times, or go on at different steps.
    for (row, differs) in [
        (2, "mov.u32 %r14, 2;"),
        (2, "add.u64 %x1, %x1, 128;"),
        // Once it has run, the first half of a warp has what the second still has.
        (0, "mov.u32 %r14, -1;"),
    ] {
        let start = format!("setp.eq.u32 %p2, %r12, {row}; @!%p2 bra SAME; {differs} SAME:");
        agree(&copies(&start, COPY, "mad.lo.u32 %r9, %r9, 3, %r6;"), false);
    }
}

/// An access outside of its memory is reported as that of the first thread that makes one.
#[test]
fn faults_in_copies() {
    for (row, differs) in [
        (0, "add.u64 %x1, %x1, 0x40000000;"),
        (1, "add.u64 %x1, %x1, 0x40000000;"),
        (2, "add.u32 %r5, %r5, 4096;"),
        (3, "add.u32 %r5, %r5, 2;"),
        (4, "add.u64 %x1, %x1, 2;"),
    ] {
        let start = format!("setp.ge.u32 %p2, %r12, {row}; @!%p2 bra ON; {differs} ON:");
        for copy in [
            "ld.global.u32 %r6, [%x1];\nst.shared.u32 [%r5], %r6;",
            // Not in the first iteration, which no group resumes.
            "setp.eq.u32 %p3, %r14, 0; @%p3 bra DONE;\nld.global.u32 %r6, [%x1];\nst.shared.u32 [%r5], %r6;\nDONE:",
        ] {
            let source = copies(&start, copy, "add.u32 %r9, %r9, 1;");
            for (grid, block) in BLOCKS {
                let alone = run(&source, Vectorization::Never, grid, block, 0);
                let together = run(&source, Vectorization::Always, grid, block, 0);
                assert_eq!(together, alone, "{block:?}\n{source}");
                assert!(alone.is_err() || row >= block[1], "{block:?}\n{source}");
            }
        }
    }
}
