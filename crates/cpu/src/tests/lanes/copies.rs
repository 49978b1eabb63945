//! `cp.async` by the lanes of a group to and from addresses that do not follow one another.

use super::{ADDRESSES, agree, kernel, run};
use crate::Vectorization;

/// Each thread copies to a cell of 16 bytes of the tile.
const CELLS: &str = "mov.u32 %r4, tile; xor.b32 %r5, %r2, 5; mad.lo.u32 %r5, %r5, 16, %r4; \
     ld.global.u32 %r3, [%x1]; and.b32 %r6, %r3, 127; mad.wide.u32 %x3, %r6, 16, %in; \
     and.b32 %r7, %r3, 24; setp.eq.u32 %p0, %r7, 8;";

fn copy(size: u32, count: &str) -> String {
    let mut sum = String::new();
    for word in 0..size / 4 {
        sum += &format!(
            "ld.shared.u32 %r8, [%r5+{}]; mad.lo.u32 %r9, %r9, 31, %r8; ",
            512 + 4 * word
        );
    }
    format!(
        "cp.async.ca.shared.global [%r5+512], [%x3+48], {size}{count}; cp.async.wait_all; \
         bar.sync 0; mov.u32 %r9, %i; {sum} st.global.u32 [%x2], %r9;"
    )
}

#[test]
fn copies_of_scattered_cells() {
    for size in [4, 8, 16] {
        // All, as many as a register says, and none where a predicate is true.
        for count in ["", ", %r7", ", %p0"] {
            agree(&format!("{ADDRESSES} {CELLS} {}", copy(size, count)));
        }
        let odd = "shr.u32 %r7, %r3, 9; and.b32 %r7, %r7, 7;";
        agree(&format!(
            "{ADDRESSES} {CELLS} {odd} {}",
            copy(size, ", %r7")
        ));
    }
}

/// The copy of one lane is out of bounds or misaligned.
#[test]
fn faults_name_the_lane_that_copies() {
    for (bad, count) in [
        ("add.u32 %r5, %r5, 5000;", ""),
        ("add.u32 %r5, %r5, 5000;", ", %r7"),
        ("add.u32 %r5, %r5, 4;", ""),
        ("add.u64 %x3, %x3, 0x40000000;", ""),
        ("add.u64 %x3, %x3, 0x40000000; mov.u32 %r7, 3;", ", %r7"),
        ("add.u64 %x3, %x3, 4;", ""),
    ] {
        let body = copy(16, count);
        let source = kernel(&format!(
            "{ADDRESSES} {CELLS} mov.u32 %r7, 16; setp.ne.u32 %p1, %r2, 37; @%p1 bra GOOD; {bad} GOOD: {body}"
        ));
        let alone = run(&source, Vectorization::Never, 1, [64, 1, 1], 0).unwrap_err();
        assert!(alone.contains("thread [37, 0, 0]"), "{alone}");
        let together = run(&source, Vectorization::Always, 1, [64, 1, 1], 0);
        assert_eq!(together.unwrap_err(), alone, "{source}");
    }
}

/// Cells that follow one another, up to the end of shared memory and beyond.
#[test]
fn copies_of_neighbouring_cells() {
    for size in [4, 8, 16] {
        let fits = 4096 - 64 * size;
        for offset in [0, fits, fits + size, 4096, 8192] {
            for count in ["", ", %r7"] {
                let source = kernel(&format!(
                    "{ADDRESSES} mov.u32 %r4, tile; mad.lo.u32 %r5, %r2, {size}, %r4; mov.u32 %r7, {size}; \
                     mad.wide.u32 %x3, %r2, {size}, %in; \
                     cp.async.ca.shared.global [%r5+{offset}], [%x3], {size}{count}; cp.async.wait_all; \
                     bar.sync 0; ld.shared.u32 %r8, [%r5+{offset}]; st.global.u32 [%x2], %r8;"
                ));
                let [alone, together] = [Vectorization::Never, Vectorization::Always]
                    .map(|vectorization| run(&source, vectorization, 1, [64, 1, 1], 0));
                assert_eq!(alone.is_ok(), offset <= fits, "{size} {offset}");
                assert_eq!(together, alone, "{size} {offset} {count}");
            }
        }
    }
}
