//! Accesses by an index, and instructions that vector code has for whole vectors: both compilers agree with
//! one thread after the other.

use super::{ADDRESSES, agree_with_bounds, kernel, run};
use crate::Vectorization;

fn with(body: &str) -> String {
    format!("{ADDRESSES} ld.global.u32 %r3, [%x1]; {body} st.global.u32 [%x2], %r4;")
}

/// An index in `%r5` that is not a multiple of the thread's, and stays in bounds.
const SCATTERED: &str = "and.b32 %r5, %r3, 1023;";
/// One that is the thread's, found where the compiler cannot see it.
const HIDDEN: &str = "xor.b32 %r5, %r3, %r3; add.u32 %r5, %r5, %i;";

#[test]
fn loads_by_an_index() {
    for index in [SCATTERED, HIDDEN] {
        for body in [
            "mul.wide.s32 %x3, %r5, 4; add.s64 %x3, %in, %x3; ld.global.u32 %r4, [%x3];",
            "mul.wide.u32 %x3, %r5, 4; add.s64 %x3, %in, %x3; ld.global.u32 %r4, [%x3+8];",
            // Behind the first element, which an offset reaches.
            "add.s32 %r5, %r5, 3; mul.wide.s32 %x3, %r5, 4; add.s64 %x3, %x3, %in; \
             ld.global.u32 %r4, [%x3+-12];",
            "cvt.s64.s32 %x3, %r5; shl.b64 %x3, %x3, 2; add.s64 %x3, %in, %x3; \
             ld.global.u32 %r4, [%x3+4];",
            "cvt.u64.u32 %x3, %r5; add.s64 %x3, %in, %x3; ld.global.s8 %r4, [%x3+1];",
            "mul.wide.s32 %x3, %r5, 2; add.s64 %x3, %in, %x3; ld.global.u16 %r4, [%x3];",
            "mad.wide.s32 %x3, %r5, 8, %in; ld.global.u64 %x4, [%x3]; cvt.u32.u64 %r4, %x4;",
            "mul.wide.s32 %x3, %r5, 16; add.s64 %x3, %in, %x3; \
             ld.global.v4.u32 {%r4, %r6, %r7, %r8}, [%x3]; add.u32 %r4, %r4, %r8;",
            // Parts of larger elements.
            "mul.wide.s32 %x3, %r5, 8; add.s64 %x3, %in, %x3; ld.global.u32 %r4, [%x3+4];",
            "mul.wide.s32 %x3, %r5, 4; add.s64 %x3, %in, %x3; ld.global.u8 %r4, [%x3+3];",
            "mul.wide.s32 %x3, %r5, 16; add.s64 %x3, %in, %x3; ld.global.u16 %r4, [%x3+14];",
            // Elements that start at half an element.
            "shl.b32 %r5, %r5, 1; mul.wide.s32 %x3, %r5, 4; add.s64 %x3, %in, %x3; \
             ld.global.u64 %x4, [%x3]; cvt.u32.u64 %r4, %x4;",
            // A sum of two indices.
            "add.s32 %r6, %r5, %r0; mul.wide.s32 %x3, %r6, 4; add.s64 %x3, %in, %x3; \
             ld.global.u32 %r4, [%x3]; add.s32 %r6, %r6, 5; mul.wide.s32 %x3, %r6, 4; \
             add.s64 %x3, %in, %x3; ld.global.u32 %r6, [%x3]; sub.u32 %r4, %r4, %r6;",
        ] {
            agree_with_bounds(&with(&format!("{index} {body}")));
        }
    }
}

/// Vectors of 32 bytes, in bounds and behind the end.
#[test]
fn loads_of_the_widest_vectors() {
    for (n, is_inside) in [
        (0, true),
        (1 << 12, false),
        (1 << 16, false),
        (1 << 22, false),
    ] {
        let source = kernel(&with(
            "and.b32 %r5, %r2, 511; add.u32 %r5, %r5, %n; mul.wide.u32 %x3, %r5, 32; add.s64 %x3, %in, %x3; \
             ld.global.v8.b32 {%r4, %r6, %r7, %r8, %r9, %r10, %r11, %r12}, [%x3]; \
             add.u32 %r4, %r4, %r12;",
        ));
        let source = source.replace(".target sm_90", ".target sm_100");
        let [alone, together] = [Vectorization::Never, Vectorization::Always]
            .map(|vectorization| run(&source, vectorization, 2, [1024, 1, 1], n));
        assert_eq!(alone, together, "{n}");
        assert_eq!(alone.is_ok(), is_inside, "{n}: {alone:?}");
    }
}

#[test]
fn stores_by_an_index() {
    for body in [
        "mul.wide.s32 %x3, %r5, 4; add.s64 %x3, %out, %x3; st.global.u32 [%x3], %r3;",
        "mul.wide.u32 %x3, %r5, 8; add.s64 %x3, %out, %x3; \
         st.global.v2.u32 [%x3], {%r3, %r5};",
        "cvt.u64.u32 %x3, %r5; add.s64 %x3, %out, %x3; st.global.u8 [%x3], %r3;",
        "mul.wide.s32 %x3, %r5, 2; add.s64 %x3, %out, %x3; st.global.u16 [%x3+2], %r3;",
        // Only some lanes.
        "and.b32 %r6, %r3, 1; setp.eq.u32 %p0, %r6, 0; mul.wide.s32 %x3, %r5, 4; \
         add.s64 %x3, %out, %x3; @%p0 st.global.u32 [%x3], %r3;",
    ] {
        agree_with_bounds(&format!(
            "{ADDRESSES} ld.global.u32 %r3, [%x1]; {HIDDEN} {body}"
        ));
    }
}

/// Indices whose sum with the base, or whose multiple, does not fit 32 bits, and such that are outside.
#[test]
fn indices_far_from_the_start() {
    for body in [
        // The base is far behind, and the index negative.
        "add.s64 %x5, %in, 1073741824; sub.s32 %r5, %r5, 268435456; mul.wide.s32 %x3, %r5, 4; \
         add.s64 %x3, %x5, %x3; ld.global.u32 %r4, [%x3];",
        // An unsigned index from 2^31 on.
        "sub.s64 %x5, %in, 0x200000000; add.u32 %r5, %r5, 0x80000000; mul.wide.u32 %x3, %r5, 4; \
         add.s64 %x3, %x5, %x3; ld.global.u32 %r4, [%x3];",
        // A negative index as an unsigned one, which is outside.
        "sub.s32 %r5, %r5, 1; mul.wide.u32 %x3, %r5, 4; add.s64 %x3, %in, %x3; \
         mov.u32 %r4, 1; setp.eq.u32 %p0, %r5, 0xFFFFFFFF; @%p0 bra END; \
         ld.global.u32 %r4, [%x3+4]; END:",
    ] {
        agree_with_bounds(&with(&format!("{HIDDEN} {body}")));
    }
}

/// An index in front of the array or behind it is a fault, and the fault is the thread's.
#[test]
fn indices_outside() {
    for body in [
        "add.s32 %r5, %r5, 100000000; mul.wide.s32 %x3, %r5, 4; add.s64 %x3, %in, %x3; \
         ld.global.u32 %r4, [%x3];",
        "sub.s32 %r5, 600, %r5; mul.wide.s32 %x3, %r5, 4; add.s64 %x3, %in, %x3; \
         ld.global.u32 %r4, [%x3+-400];",
        "sub.s32 %r5, 600, %r5; mul.wide.u32 %x3, %r5, 4; add.s64 %x3, %in, %x3; \
         ld.global.u32 %r4, [%x3];",
        "mov.u32 %r4, 0; mul.wide.s32 %x3, %r5, 32; add.s64 %x3, %out, %x3; st.global.u8 [%x3], %r3;",
        "mul.wide.s32 %x3, %r5, 2; add.s64 %x3, %in, %x3; ld.global.u32 %r4, [%x3];",
    ] {
        let source = kernel(&with(&format!("{HIDDEN} {body}")));
        let [alone, together] = [Vectorization::Never, Vectorization::Always]
            .map(|vectorization| run(&source, vectorization, 16, [64, 1, 1], 0));
        assert_eq!(alone, together, "{body}");
        assert!(alone.is_err(), "{body}");
    }
}

/// Addresses that live from one side of a barrier to the other, and from iteration to iteration.
#[test]
fn sums_across_barriers_and_loops() {
    for body in [
        "mul.wide.s32 %x3, %r5, 4; add.s64 %x3, %in, %x3; bar.sync 0; ld.global.u32 %r4, [%x3];",
        "mul.wide.s32 %x3, %r5, 4; add.s64 %x3, %in, %x3; mov.u32 %r4, 0; mov.u32 %r6, 0; \
         AGAIN: ld.global.u32 %r7, [%x3]; add.u32 %r4, %r4, %r7; add.s64 %x3, %x3, 64; \
         add.u32 %r6, %r6, 1; setp.lt.u32 %p0, %r6, 20; @%p0 bra AGAIN;",
        // Lanes leave the loop one by one.
        "mul.wide.s32 %x3, %r5, 4; add.s64 %x3, %in, %x3; mov.u32 %r4, 0; and.b32 %r6, %r3, 15; \
         AGAIN: ld.global.u32 %r7, [%x3]; xor.b32 %r4, %r4, %r7; add.s64 %x3, %x3, 4; \
         setp.eq.u32 %p0, %r6, 0; sub.u32 %r6, %r6, 1; @!%p0 bra AGAIN; \
         ld.global.u32 %r7, [%x3]; add.u32 %r4, %r4, %r7;",
    ] {
        for index in [SCATTERED, HIDDEN] {
            agree_with_bounds(&with(&format!("{index} {body}")));
        }
    }
}

#[test]
fn bytes_and_pairs() {
    for body in [
        "prmt.b32 %r4, %r3, %i, %r3;",
        "prmt.b32 %r4, %r3, %i, 0xBA98;",
        "mul.lo.u32 %r5, %r3, 77; prmt.b32 %r4, %r5, %r3, %r5;",
        "mul.lo.u32 %r5, %r3, 77; add.u16x2 %r4, %r5, %r3;",
        "mul.lo.u32 %r5, %r3, 77; min.s16x2 %r4, %r5, %r3; max.u16x2 %r6, %r5, %r3; \
         xor.b32 %r4, %r4, %r6;",
        "mul.lo.u32 %r5, %r3, 77; min.s16x2.relu %r4, %r5, %r3;",
        "mul.lo.u32 %r5, %r3, 0x10077; max.s32.relu %r4, %r5, -5;",
        "mul.hi.u32 %r5, %n, 0x12345678; mul.hi.s32 %r6, %n, -77; add.u32 %r4, %r5, %r6; \
         add.u32 %r4, %r4, %r3;",
    ] {
        agree_with_bounds(&with(body));
    }
}

/// The runtime copies, to addresses that lanes do not share, with counts that differ.
#[test]
fn asynchronous_copies() {
    for copy in [
        "cp.async.ca.shared.global [%r4], [%x1], 4;",
        "and.b32 %r5, %r3, 3; cp.async.ca.shared.global [%r4], [%x1], 4, %r5;",
        "setp.lt.u32 %p0, %r3, 0x100000; cp.async.ca.shared.global [%r4], [%x1], 4, %p0;",
    ] {
        agree_with_bounds(&with(&format!(
            "and.b32 %r4, %r2, 63; shl.b32 %r4, %r4, 2; mov.u32 %r6, tile; add.u32 %r4, %r4, %r6; {copy} \
             cp.async.commit_group; cp.async.wait_group 0; ld.shared.u32 %r4, [%r4];"
        )));
    }
}

#[test]
fn parameters_by_address() {
    agree_with_bounds(&with(
        "mov.u64 %x3, in; ld.param.u32 %r4, [%x3+16]; add.u32 %r4, %r4, %r3;",
    ));
}

/// The number of a warp, and of a lane in it, from the thread's index.
#[test]
fn numbers_of_warps_and_lanes() {
    for body in [
        "shr.u32 %r5, %r2, 5; and.b32 %r6, %r2, 31; mad.lo.u32 %r4, %r5, 100, %r6;",
        "shr.s32 %r5, %r2, 4; and.b32 %r6, %r2, 0xFFFFFFE0; add.u32 %r4, %r5, %r6;",
        "shr.u32 %r5, %r2, 5; setp.eq.u32 %p0, %r5, 0; mov.u32 %r4, %r3; @%p0 bra END; \
         shfl.sync.bfly.b32 %r4, %r3, 1, 31, -1; END:",
        // A register that is also something else.
        "mov.u32 %r6, %r2; setp.lt.u32 %p0, %r3, 0x200000; @%p0 mov.u32 %r6, %r3; shr.u32 %r4, %r6, 5;",
        "shr.u32 %r4, %r2, 5; setp.lt.u32 %p0, %r3, 0x200000; @%p0 add.u32 %r4, %r4, %r3;",
        // One that only some lanes write: in the others it is 0.
        "setp.lt.u32 %p0, %r3, 0x200000; @%p0 mov.u32 %r6, %tid.x; shr.u32 %r4, %r6, 5;",
        "setp.lt.u32 %p0, %r3, 0x200000; @%p0 bra END; mov.u32 %r6, %tid.x; END: shr.u32 %r4, %r6, 4;",
    ] {
        agree_with_bounds(&with(&format!(
            "mov.u32 %r2, %tid.x; {body} add.u32 %r4, %r4, %r3;"
        )));
    }
}

/// Atomic operations of lanes that share addresses, in their order.
#[test]
fn counters_in_shared_memory() {
    for update in [
        "atom.shared.add.u32 %r8, [%r5], %r3;",
        "atom.shared.exch.b32 %r8, [%r5], %r3;",
        "atom.shared.max.s32 %r8, [%r5], %r3;",
        "and.b32 %r9, %r3, 64; setp.eq.u32 %p0, %r9, 0; mov.u32 %r8, 1; \
         @%p0 atom.shared.xor.b32 %r8, [%r5], %r3;",
        "mov.u32 %r8, 5; red.shared.min.u32 [%r5+4], %r3; red.shared.or.b32 [%r5], 1;",
    ] {
        for bins in [1, 7, 255] {
            agree_with_bounds(&with(&format!(
                "mov.u32 %r6, tile; shl.b32 %r7, %r2, 2; add.u32 %r7, %r7, %r6; st.shared.u32 [%r7], %r2; \
                 st.shared.u32 [%r7+1024], %r2; bar.sync 0; and.b32 %r5, %r3, {bins}; \
                 shl.b32 %r5, %r5, 2; add.u32 %r5, %r5, %r6; {update} bar.sync 0; \
                 ld.shared.u32 %r4, [%r5]; mad.lo.u32 %r4, %r8, 3, %r4;"
            )));
        }
    }
}

/// A product of matrices, between other code and barriers.
#[test]
fn products_of_matrices() {
    let source = kernel(&with(
        "and.b32 %r5, %r3, 0x3C003C00; mov.b32 %f0, 0f3F800000; mov.b32 %f1, 0f40000000; \
         cvt.rn.f32.u32 %f2, %i; mov.b32 %f3, 0f00000000; \
         mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f4, %f5, %f6, %f7}, {%r5, %r5}, {%r5}, \
         {%f0, %f1, %f2, %f3}; bar.sync 0; add.f32 %f4, %f4, %f6; mov.b32 %r4, %f4;",
    ));
    // Warps are whole.
    for (grid, block) in [(4, [64, 1, 1]), (2, [32, 2, 1]), (1, [16, 16, 1])] {
        let [alone, together] = [Vectorization::Never, Vectorization::Always]
            .map(|vectorization| run(&source, vectorization, grid, block, 256));
        assert_eq!(alone, together, "{block:?}");
        assert!(alone.unwrap().iter().any(|word| *word != 0));
    }
}
