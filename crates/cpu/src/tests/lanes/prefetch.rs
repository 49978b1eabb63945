//! What the next block loads is prefetched.

use super::{ADDRESSES, agree};

const LOAD: &str = "ld.global.u32 %r3, [%x1];";
const BARRIER: &str = "mov.u32 %r4, tile; mad.lo.u32 %r4, %r2, 4, %r4; st.shared.u32 [%r4], %r3; \
    bar.sync 0; xor.b32 %r4, %r4, 4; ld.shared.u32 %r4, [%r4]; add.u32 %r3, %r3, %r4; \
    or.b32 %r3, %r3, 1; st.global.u32 [%x2], %r3;";

#[test]
fn kernels_with_barriers() {
    let body = format!("{ADDRESSES} {LOAD} {BARRIER}");
    agree(&body);
    // The distance is known, and does not depend on the size of a block.
    let body = format!(
        "mad.lo.u32 %r5, %r0, 64, %r2; mul.wide.u32 %x0, %r5, 4; add.u64 %x1, %in, %x0; \
         mul.wide.u32 %x0, %i, 4; add.u64 %x2, %out, %x0; {LOAD} {BARRIER}"
    );
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
        agree(&body);
    }
}
