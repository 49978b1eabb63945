//! What the next block loads is prefetched.

use super::{ADDRESSES, agree, kernel};
use crate::source::compile_image;
use crate::{CompileOptions, Vectorization};

/// Whether the code prefetches; `None` where the processor lacks what it takes.
fn prefetches(body: &str) -> Option<bool> {
    let options = CompileOptions {
        vectorization: Vectorization::Always,
    };
    let image = compile_image(&kernel(body), &options).unwrap();
    let has = |name: &str| image.features.iter().any(|feature| feature == name);
    let found = image.code.windows(3).any(|code| code == [0x48, 0x0F, 0x18]);
    (has("has_avx2") && has("has_fma") && has("has_f16c")).then_some(found)
}

const LOAD: &str = "ld.global.u32 %r3, [%x1];";
const BARRIER: &str = "mov.u32 %r4, tile; mad.lo.u32 %r4, %r2, 4, %r4; st.shared.u32 [%r4], %r3; \
    bar.sync 0; xor.b32 %r4, %r4, 4; ld.shared.u32 %r4, [%r4]; add.u32 %r3, %r3, %r4; \
    or.b32 %r3, %r3, 1; st.global.u32 [%x2], %r3;";

#[test]
fn kernels_with_barriers() {
    let body = format!("{ADDRESSES} {LOAD} {BARRIER}");
    assert_ne!(prefetches(&body), Some(false));
    agree(&body);
    // The distance is known, and does not depend on the size of a block.
    let body = format!(
        "mad.lo.u32 %r5, %r0, 64, %r2; mul.wide.u32 %x0, %r5, 4; add.u64 %x1, %in, %x0; \
         mul.wide.u32 %x0, %i, 4; add.u64 %x2, %out, %x0; {LOAD} {BARRIER}"
    );
    assert_ne!(prefetches(&body), Some(false));
    agree(&body);
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
        assert_ne!(prefetches(&body), Some(false), "{body}");
        agree(&body);
    }
}

#[test]
fn other_loads() {
    for body in [
        // Without a barrier, the processor is ahead.
        format!("{ADDRESSES} {LOAD} st.global.u32 [%x2], %r3;"),
        // Lanes meet, and go on at once.
        format!("{ADDRESSES} {LOAD} bar.warp.sync -1; st.global.u32 [%x2], %r3;"),
        // Each block loads the same.
        format!("{ADDRESSES} mul.wide.u32 %x0, %r2, 4; add.u64 %x1, %in, %x0; {LOAD} {BARRIER}"),
        // Nobody knows how far it is.
        format!(
            "{ADDRESSES} mad.lo.u32 %r5, %r0, %n, %r2; mul.wide.u32 %x0, %r5, 4; \
             add.u64 %x1, %in, %x0; {LOAD} {BARRIER}"
        ),
        // One follows the other.
        format!(
            "{ADDRESSES} mov.u32 %r5, 0; mov.u32 %r6, 0; AGAIN: {LOAD} add.u32 %r6, %r6, %r3; \
             add.u64 %x1, %x1, 1024; add.u32 %r5, %r5, 1; setp.lt.u32 %p0, %r5, 3; \
             @%p0 bra AGAIN; {BARRIER}"
        ),
        // Shared memory is near.
        format!(
            "{ADDRESSES} mad.lo.u32 %r5, %r0, 4, 0; mad.lo.u32 %r5, %r2, 4, %r5; \
             ld.shared.u32 %r3, [%r5]; {BARRIER}"
        ),
    ] {
        assert_ne!(prefetches(&body), Some(true), "{body}");
    }
}
