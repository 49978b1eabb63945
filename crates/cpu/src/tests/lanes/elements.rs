//! Kernels of one element per thread: guards, arithmetic, and the bounds of arrays.

use super::{ADDRESSES, kernel, run};
use crate::Vectorization;

/// Rows of four lane groups and of fewer, and rows that end within four. Grids of fewer threads do
/// not run together: where their parameters point to is not looked up.
const BLOCKS: [(u32, [u32; 3], u32); 10] = [
    (8, [128, 1, 1], 1024),
    (5, [256, 1, 1], 1200),
    (3, [512, 1, 1], 1536),
    (1, [1024, 1, 1], 1000),
    (9, [128, 1, 1], 1060),
    (7, [160, 1, 1], 1111),
    (2, [128, 4, 1], 200),
    (2, [160, 2, 2], 4000),
    (4, [32, 8, 1], 512),
    (3, [192, 1, 2], 333),
];

fn agree(body: &str) {
    let source = kernel(body);
    for (grid, block, n) in BLOCKS {
        let alone = run(&source, Vectorization::Never, grid, block, n);
        let together = run(&source, Vectorization::Always, grid, block, n);
        assert_eq!(
            alone, together,
            "{body}\n{grid} blocks of {block:?}, n = {n}"
        );
        let written = alone.map(|words| words.iter().any(|&w| w != 0));
        assert_eq!(written, Ok(true), "{body}");
    }
}

const SUM: &str = "ld.global.f32 %f0, [%x1]; ld.global.f32 %f1, [%x1+4]; add.f32 %f2, %f0, %f1; \
                   st.global.f32 [%x2], %f2;";

/// Guards that hold for all lanes of a group, for some and for none.
#[test]
fn guards() {
    for guard in [
        "",
        "setp.ge.u32 %p0, %i, %n; @%p0 bra END;",
        "setp.lt.s32 %p0, %i, %n; @!%p0 bra END;",
        "setp.gt.u32 %p0, %n, %i; @%p0 bra BODY; bra END; BODY:",
        "setp.le.u32 %p0, %n, 100; @%p0 bra END;",
        // Of the row alone, and from the other end.
        "setp.ge.u32 %p0, %r2, 100; @%p0 bra END;",
        "setp.lt.u32 %p0, %r2, 20; @%p0 bra END;",
        "sub.u32 %r3, %n, %i; setp.le.s32 %p0, %r3, 7; @%p0 bra END;",
        "setp.ge.u32 %p0, %i, %n; @%p0 bra END; setp.lt.u32 %p1, %i, 33; @%p1 bra END;",
        // The bound changes behind the comparison, and the index.
        "mov.u32 %r3, %n; setp.ge.u32 %p0, %i, %r3; mov.u32 %r3, 5; add.u32 %r4, %r3, 3; @%p0 bra END;",
    ] {
        agree(&format!("{guard} {ADDRESSES} {SUM}\nEND:"));
    }
    for guard in [
        "setp.eq.u32 %p0, %i, %n; @%p0 bra END;",
        "and.b32 %r3, %r2, 64; setp.ne.u32 %p0, %r3, 0; @%p0 bra END;",
        // The same in a lane group, and not in several.
        "shr.u32 %r3, %r2, 5; setp.ge.u32 %p0, %r3, 2; @%p0 bra END;",
    ] {
        agree(&format!("{guard} {ADDRESSES} {SUM}\nEND:"));
    }
}

/// Values that all threads share, and arithmetic in each order of its operands.
#[test]
fn arithmetic_of_elements() {
    for steps in [
        "cvt.rn.f32.u32 %f4, %n; mul.f32 %f2, %f0, %f4; add.f32 %f2, %f2, %f1;",
        "sub.f32 %f2, %f1, %f0; sub.f32 %f2, %f2, %f3; sub.f32 %f2, %f3, %f2;",
        "fma.rn.f32 %f2, %f0, %f3, %f1; fma.rn.f32 %f2, %f3, %f0, %f2;",
        "fma.rn.f32 %f2, %f0, %f0, %f1; add.f32 %f2, %f2, %f1;",
        "mul.f32 %f4, %f1, %f3; fma.rn.f32 %f4, %f4, %f3, %f4; add.f32 %f2, %f4, %f4;",
        "add.f32 %f0, %f0, %f1; add.f32 %f1, %f0, %f1; add.f32 %f2, %f0, %f1;",
    ] {
        let body = format!(
            "{ADDRESSES} mov.f32 %f3, 0f3FC00000; ld.global.f32 %f0, [%x1]; \
             ld.global.f32 %f1, [%x1+512]; {steps} st.global.f32 [%x2], %f2;"
        );
        agree(&body);
    }
}

/// What lanes share in one group and not in the next, and values that change between two uses.
#[test]
fn values_that_differ() {
    for body in [
        // One of each warp, and one of each thread.
        format!(
            "{ADDRESSES} shr.u32 %r3, %r2, 5; cvt.rn.f32.u32 %f3, %r3; ld.global.f32 %f0, [%x1]; \
             add.f32 %f2, %f0, %f3; st.global.f32 [%x2], %f2;"
        ),
        format!(
            "{ADDRESSES} mov.u32 %r3, %warpid; cvt.rn.f32.u32 %f3, %r3; ld.global.f32 %f0, [%x1]; \
             add.f32 %f2, %f0, %f3; st.global.f32 [%x2], %f2;"
        ),
        format!(
            "{ADDRESSES} cvt.rn.f32.u32 %f3, %i; ld.global.f32 %f0, [%x1]; add.f32 %f2, %f0, %f3; \
             st.global.f32 [%x2], %f2;"
        ),
        format!("{ADDRESSES} add.u32 %r3, %i, 1; st.global.u32 [%x2], %r3;"),
        // The lanes of a warp have neighbouring elements, those of the next warp do not.
        "and.b32 %r3, %i, 31; shr.u32 %r4, %i, 5; mad.lo.u32 %r3, %r4, 64, %r3; \
         and.b32 %r3, %r3, 1023; mul.wide.u32 %x0, %r3, 4; add.u64 %x1, %in, %x0; \
         mul.wide.u32 %x0, %i, 4; add.u64 %x2, %out, %x0; ld.global.f32 %f0, [%x1]; \
         st.global.f32 [%x2], %f0;"
            .to_owned(),
        "mov.u32 %r3, %laneid; mul.wide.u32 %x0, %r3, 4; add.u64 %x1, %in, %x0; \
         mul.wide.u32 %x0, %i, 4; add.u64 %x2, %out, %x0; ld.global.f32 %f0, [%x1]; \
         st.global.f32 [%x2], %f0;"
            .to_owned(),
        // Kernels over planes have half warps.
        "mov.u32 %r3, %tid.y; mov.u32 %r4, %tid.z; mad.lo.u32 %r3, %r4, 7, %r3; \
         mad.lo.u32 %r3, %r3, 77, %i; mul.wide.u32 %x0, %r3, 4; add.u64 %x1, %in, %x0; \
         mul.wide.s32 %x0, %i, 4; add.s64 %x2, %out, %x0; ld.global.f32 %f0, [%x1]; \
         cvt.rn.f32.u32 %f1, %r4; sub.f32 %f0, %f1, %f0; st.global.f32 [%x2], %f0;"
            .to_owned(),
        // A thread loads what it has stored, and what all have.
        format!("{ADDRESSES} mov.f32 %f3, 0f3FC00000; st.global.f32 [%x2], %f3; {SUM}")
            .replace("[%x1+4]", "[%x2]"),
        format!(
            "{ADDRESSES} ld.global.f32 %f0, [%x1]; st.global.f32 [%x2], %f0; \
             ld.global.f32 %f3, [%in]; add.f32 %f0, %f0, %f3; st.global.f32 [%x2], %f0;"
        ),
    ] {
        agree(&body);
    }
    for body in [
        // What the lanes share is another value when they use it again.
        format!(
            "{ADDRESSES} mov.f32 %f3, 0f3FC00000; ld.global.f32 %f0, [%x1]; mul.f32 %f0, %f0, %f3; \
             mov.f32 %f3, 0f40200000; mul.f32 %f0, %f0, %f3; st.global.f32 [%x2], %f0;"
        ),
        // The address changes between two uses.
        format!(
            "{ADDRESSES} ld.global.f32 %f0, [%x1]; add.u64 %x1, %x1, 512; ld.global.f32 %f1, [%x1]; \
             add.f32 %f0, %f0, %f1; st.global.f32 [%x2], %f0; add.u64 %x2, %x2, 4096; \
             st.global.f32 [%x2], %f1;"
        ),
        // All load one value, before they store.
        format!(
            "{ADDRESSES} ld.global.f32 %f3, [%in+64]; ld.global.nc.f32 %f0, [%x1]; \
             add.f32 %f0, %f0, %f3; st.global.f32 [%x2], %f0; st.global.f32 [%x2+4096], %f3;"
        ),
    ] {
        agree(&body);
    }
}

/// The first access that is out of bounds is that of the thread alone: at both ends of an allocation,
/// and where the index wraps around within the groups.
#[test]
fn faults() {
    let at = |load: &str, store: &str| {
        format!(
            "{load} add.u64 %x1, %in, %x0; {store} add.u64 %x2, %out, %x0;\n\
             ld.global.f32 %f0, [%x1];\nst.global.f32 [%x2], %f0;"
        )
    };
    let usual = "mul.wide.u32 %x0, %i, 4;";
    let mut faults = 0;
    for other in [
        // Elements from 3,950 on, of 4,096; from -90 on; around the last that there are.
        "add.u32 %r3, %i, 3950; mul.wide.u32 %x0, %r3, 4;",
        "add.u32 %r3, %i, -90; mul.wide.s32 %x0, %r3, 4;",
        "add.u32 %r3, %i, 3968; mul.wide.u32 %x0, %r3, 4;",
        "add.u32 %r3, %i, 3969; mul.wide.u32 %x0, %r3, 4;",
        "add.u32 %r3, %i, 4000; mul.wide.u32 %x0, %r3, 4;",
        "mul.wide.u32 %x0, %i, 4; add.u64 %x0, %x0, -1;",
        "mul.wide.u32 %x0, %i, 4; add.u64 %x0, %x0, 2;",
        // 90 elements below 2^32, and below 2^31.
        "add.u32 %r3, %i, -90; mul.wide.u32 %x0, %r3, 4; sub.u64 %x0, %x0, 17179868816;",
        "add.u32 %r3, %i, 0x7FFFFFA6; cvt.s64.s32 %x0, %r3; shl.b64 %x0, %x0, 2; \
         sub.u64 %x0, %x0, 8589934232;",
    ] {
        for body in [at(other, usual), at(usual, other)] {
            let source = kernel(&body);
            for (grid, block) in [(1, [1024, 1, 1]), (4, [256, 1, 1]), (8, [128, 1, 1])] {
                let alone = run(&source, Vectorization::Never, grid, block, 0);
                let together = run(&source, Vectorization::Always, grid, block, 0);
                assert_eq!(together, alone, "{body}");
                faults += u32::from(alone.is_err());
            }
        }
    }
    assert!(faults > 24, "{faults}");
}
