//! Accesses to the allocations that parameters point to.

use super::{WORDS, kernel, run};
use crate::Vectorization;

/// Each word of an allocation may be accessed, and nothing in front of it, behind it, or across its
/// end: the fault is that of the thread alone.
#[test]
fn an_allocation_ends_where_it_ends() {
    let load = |ty: &str, bytes: u32, offset: i64| {
        let (reg, value) = match bytes {
            8 => ("%x3", "cvt.u32.u64 %r3, %x3;"),
            _ => ("%r3", ""),
        };
        // An access wider than a word starts at every word that it fits to.
        let words = (bytes / 4).max(1);
        format!(
            "mul.lo.u32 %r4, %i, {bytes}; cvt.u64.u32 %x0, %r4; add.s64 %x1, %in, %x0; \
             mul.wide.u32 %x0, %i, 4; add.s64 %x2, %out, %x0; \
             setp.ge.u32 %p0, %i, {}; @%p0 bra DONE; \
             ld.global.{ty} {reg}, [%x1+{offset}]; {value} add.u32 %r3, %r3, %i; \
             st.global.u32 [%x2], %r3; DONE:",
            WORDS as u32 / words
        )
    };
    let blocks = WORDS as u32 / 256;
    for (ty, bytes) in [("u8", 1), ("u16", 2), ("u32", 4), ("u64", 8)] {
        for offset in [0, 1, 2, 4, -1, -4, 16 * 1024 - 4096, 16 * 1024 - 4095] {
            let source = kernel(&load(ty, bytes, offset));
            let alone = run(&source, Vectorization::Never, blocks, [256, 1, 1], 0);
            let together = run(&source, Vectorization::Always, blocks, [256, 1, 1], 0);
            assert_eq!(together, alone, "{ty} at {offset}");
            let last = offset + i64::from(bytes) * (WORDS as i64 / i64::from(bytes / 4).max(1));
            let is_inside = offset >= 0 && last <= 4 * WORDS as i64;
            let is_aligned = offset % i64::from(bytes) == 0;
            assert_eq!(alone.is_ok(), is_inside && is_aligned, "{ty} at {offset}");
        }
    }
}

/// A pointer into the middle of an allocation, with what lies in front of it.
#[test]
fn a_parameter_may_point_into_an_allocation() {
    let at = |address: &str| {
        format!(
            "{address} mul.wide.s32 %x0, %r3, 4; add.s64 %x1, %in, %x0; ld.global.u32 %r4, [%x1]; \
             mul.wide.u32 %x0, %i, 4; add.s64 %x2, %out, %x0; st.global.u32 [%x2], %r4;"
        )
    };
    let inside = "add.s64 %in, %in, 8192; sub.s32 %r3, %i, 2048;";
    let outside = "add.s64 %in, %in, 8192; sub.s32 %r3, %i, 2049;";
    for (address, is_inside) in [(inside, true), (outside, false)] {
        let source = kernel(&at(address));
        let alone = run(&source, Vectorization::Never, 16, [256, 1, 1], 0);
        let together = run(&source, Vectorization::Always, 16, [256, 1, 1], 0);
        assert_eq!(together, alone, "{address}");
        assert_eq!(alone.is_ok(), is_inside, "{address}");
    }
}
