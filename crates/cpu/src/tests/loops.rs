//! Loops of the vector function of which several iterations run after one check.

use super::lanes::{ADDRESSES, FILL, agree, kernel, run};
use crate::Vectorization;

/// Loops over shared memory, of which several iterations are checked together: of any length, up
/// to the last word, forwards and backwards, with stores.
#[test]
fn loops_over_shared_memory() {
    for length in 1..10 {
        agree(&format!(
            "{ADDRESSES} {FILL} mov.u32 %r9, 0; mov.u32 %r3, {length}; mov.u32 %r4, tile; mad.lo.u32 %r5, %r2, 4, %r4; \
             L: ld.shared.u32 %r6, [%r4]; add.u32 %r4, %r4, 4; ld.shared.u32 %r7, [%r5+8]; add.u32 %r5, %r5, 64; \
             ld.shared.u32 %r8, [%r4+1020]; mad.lo.u32 %r9, %r6, 3, %r9; mad.lo.u32 %r9, %r7, %r9, %r8; \
             sub.u32 %r3, %r3, 1; setp.ne.u32 %p0, %r3, 0; @%p0 bra L; st.global.u32 [%x2], %r9;"
        ));
        let last = 4096 - 4 * length;
        agree(&format!(
            "{ADDRESSES} {FILL} mov.u32 %r9, 0; cvt.u64.u32 %x3, %r11; add.u64 %x3, %x3, {last}; mov.u32 %r3, 0; bra TEST; \
             L: st.shared.u32 [%x3], %r3; ld.shared.u32 %r4, [%x3]; mad.lo.u32 %r9, %r9, 5, %r4; add.u64 %x3, %x3, 4; \
             add.u32 %r3, %r3, 1; TEST: setp.lt.u32 %p0, %r3, {length}; @%p0 bra L; \
             add.u32 %r9, %r9, %i; st.global.u32 [%x2], %r9;"
        ));
        agree(&format!(
            "{ADDRESSES} {FILL} mov.u32 %r9, 1; mov.u32 %r3, {length}; add.u32 %r4, %r11, {}; \
             L: ld.shared.v2.u32 {{%r5, %r6}}, [%r4]; add.u32 %r4, %r4, -8; mad.lo.u32 %r9, %r9, %r5, %r6; \
             sub.u32 %r3, %r3, 1; setp.ne.u32 %p0, %r3, 0; @%p0 bra L; add.u32 %r9, %r9, %i; st.global.u32 [%x2], %r9;",
            8 * length - 8
        ));
    }
}

/// A loop that leaves shared memory names the access that does.
#[test]
fn faults_in_loops_name_the_access() {
    for (start, step, address) in [
        ("4064", "4", "%r4"),
        ("32", "-4", "%r4"),
        ("2", "4", "%r4"),
        ("0", "6", "%r4"),
        ("0xFFFFFFF0", "4", "%r4+16"),
        ("16", "-8", "%r4+8"),
        ("3000", "100", "%r4+4"),
        ("0x7FFFFFF0", "4", "%r4"),
        ("0", "4096", "%r5"),
        ("8", "-4096", "%r5"),
        ("2", "4", "%r5"),
        ("0", "2", "%r5"),
    ] {
        let source = kernel(&format!(
            "{FILL} mov.u32 %r3, 0; add.u32 %r4, %r11, {start}; mad.lo.u32 %r5, %r2, 4, %r4;\n\
             L: add.u32 %r3, %r3, 1;\nld.shared.u32 %r7, [%r10];\nld.shared.u32 %r6, [{address}];\nadd.u32 %r4, %r4, {step}; \
             add.u32 %r5, %r5, {step}; st.global.u32 [%out], %r6; setp.lt.u32 %p0, %r3, 100; @%p0 bra L;"
        ));
        let alone = run(&source, Vectorization::Never, 1, [128, 1, 1], 0).unwrap_err();
        let together = run(&source, Vectorization::Always, 1, [128, 1, 1], 0).unwrap_err();
        assert_eq!(together, alone, "{start} {step} {address}");
    }
}
