//! Accesses to shared memory at addresses that the bits of the thread's index make up.

use super::{agree, kernel, run};
use crate::Vectorization::{Always, Never};

const WARPS: &str = "shfl.sync.bfly.b32 %r15, %i, 1, 31, -1;";
const STORE: &str = "mul.wide.u32 %x3, %i, 4; add.u64 %x2, %out, %x3; st.global.u32 [%x2], %r9;";

#[test]
fn addresses_of_exchanged_bits() {
    for lanes in ["", WARPS] {
        for offset in [0, 64, 512] {
            agree(&format!(
                "{lanes} and.b32 %r3, %r2, 63; shl.b32 %r3, %r3, 2; xor.b32 %r4, %r3, 36; \
                 mov.u32 %r10, tile; add.u32 %r4, %r10, %r4; add.u32 %r3, %r10, %r3; \
                 mul.lo.u32 %r5, %i, 77; st.shared.u32 [%r4+{offset}], %r5; bar.sync 0; \
                 ld.shared.u32 %r9, [%r3+{offset}]; and.b32 %r6, %r2, 7; shl.b32 %r6, %r6, 2; \
                 add.u32 %r6, %r10, %r6; ld.shared.u32 %r7, [%r6+{offset}]; \
                 mad.lo.u32 %r9, %r9, 31, %r7; {STORE}"
            ));
        }
    }
}

#[test]
fn pairs_of_halves() {
    for lanes in ["", WARPS] {
        agree(&format!(
            ".reg .b16 %h<8>; {lanes} mov.u32 %r10, tile; and.b32 %r3, %r2, 63; \
             shl.b32 %r4, %r3, 1; xor.b32 %r4, %r4, 6; add.u32 %r4, %r10, %r4; \
             mul.lo.u32 %r5, %i, 1021; cvt.u16.u32 %h0, %r5; st.shared.b16 [%r4], %h0; \
             st.shared.b16 [%r4+128], %h0; bar.sync 0; and.b32 %r6, %r2, 3; shl.b32 %r6, %r6, 4; \
             and.b32 %r7, %r2, 28; xor.b32 %r6, %r6, %r7; add.u32 %r6, %r10, %r6; \
             ld.shared.v2.b16 {{%h1, %h2}}, [%r6]; ld.shared.v2.b16 {{%h3, %h4}}, [%r6+128]; \
             cvt.u32.u16 %r9, %h1; cvt.u32.u16 %r3, %h2; mad.lo.u32 %r9, %r9, 31, %r3; \
             cvt.u32.u16 %r3, %h3; mad.lo.u32 %r9, %r9, 31, %r3; cvt.u32.u16 %r3, %h4; \
             mad.lo.u32 %r9, %r9, 31, %r3; {STORE}"
        ));
    }
}

/// An address that some lanes have moved alone follows no bit.
#[test]
fn addresses_of_some_lanes() {
    for lanes in ["", WARPS] {
        agree(&format!(
            "{lanes} mov.u32 %r10, tile; and.b32 %r3, %r2, 63; xor.b32 %r3, %r3, 5; \
             shl.b32 %r3, %r3, 2; add.u32 %r3, %r10, %r3; and.b32 %r4, %r2, 4; \
             setp.eq.u32 %p0, %r4, 0; @%p0 bra SKIP; add.u32 %r3, %r3, 512; \
             SKIP: add.u32 %r11, %r3, 4; st.shared.u32 [%r11], %r2; bar.sync 0; \
             ld.shared.u32 %r9, [%r11]; add.u32 %r9, %r9, %r3; {STORE}"
        ));
    }
}

#[test]
fn faults_at_exchanged_bits() {
    for (lanes, offset) in [("", 4090), (WARPS, 4090), ("", 3968), (WARPS, 4032)] {
        let offset = offset / 4 * 4;
        let source = kernel(&format!(
            "{lanes} mov.u32 %r10, tile; and.b32 %r3, %r2, 31; shl.b32 %r3, %r3, 2; \
             xor.b32 %r3, %r3, 64; add.u32 %r3, %r10, %r3; st.shared.u32 [%r3+{offset}], %r2; \
             bar.sync 0; ld.shared.u32 %r9, [%r3+{offset}]; {STORE}"
        ));
        let results = [Never, Always].map(|how| run(&source, how, 2, [64, 1, 1], 64));
        assert_eq!(results[0].is_err(), offset > 3968, "{results:?}");
        assert_eq!(results[0], results[1], "{offset}");
    }
}

/// Elements of arrays as operands: each thread has its own in local memory, all share those in shared
/// memory.
#[test]
fn elements_of_arrays() {
    for lanes in ["", WARPS] {
        agree(&format!(
            ".local .align 4 .b32 own[4]; .shared .align 4 .b32 common[4]; {lanes} \
             mad.lo.u32 %r3, %i, 7, 3; st.local.u32 own[1], %r3; st.local.u32 [own+8], %i; \
             st.shared.u32 common[2], %r1; bar.sync 0; ld.local.u32 %r4, own[1]; \
             ld.local.u32 %r5, own[2]; ld.shared.u32 %r6, common[2]; mad.lo.u32 %r9, %r4, 3, %r5; \
             mad.lo.u32 %r9, %r9, 5, %r6; {STORE}"
        ));
    }
}
