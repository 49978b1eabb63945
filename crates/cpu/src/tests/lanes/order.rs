//! The order of accesses: threads see their own stores, and faults name the first access.

use super::{ADDRESSES, agree, kernel, run};
use crate::Vectorization;

/// Each thread sees what it has stored, in place and elsewhere, and what it reads before it is
/// overwritten.
#[test]
fn threads_see_their_own_stores() {
    for steps in [
        "ld.global.u32 %r3, [%x2]; mad.lo.u32 %r4, %r4, 3, %r3; st.global.u32 [%x2], %r4;",
        // What was stored is loaded again.
        "st.global.u32 [%x2], %r4; ld.global.u32 %r3, [%x2]; add.u32 %r3, %r3, %r4; \
         st.global.u32 [%x2], %r3;",
        // By each lane from where its neighbour may have stored.
        "st.global.u32 [%x2], 5; ld.global.u32 %r3, [%x1]; add.u32 %r3, %r3, %r4; \
         st.global.u32 [%x2], %r3;",
        // A value that all lanes share changes between two uses, and an address.
        "mov.u32 %r5, 3; mul.lo.u32 %r3, %r4, %r5; add.u32 %r5, %r5, %r0; mul.lo.u32 %r6, %r4, %r5; \
         add.u32 %r3, %r3, %r6; st.global.u32 [%x2], %r3;",
        "add.u64 %x1, %x1, 64; ld.global.u32 %r5, [%x1]; xor.b32 %r3, %r4, %r5; \
         st.global.u32 [%x2], %r3; add.u64 %x2, %x2, 2048; st.global.u32 [%x2], %r5;",
        "st.global.u32 [%x2], %i; add.u32 %r5, %i, 7; add.u32 %r3, %r4, %r5; \
         st.global.u32 [%x2+2048], %r3;",
        // Conditions, of the arithmetic alone.
        "and.b32 %r5, %r4, 3; setp.eq.u32 %p0, %r5, 1; @%p0 add.u32 %r4, %r4, 100; \
         @!%p0 sub.u32 %r4, %r4, %i; ld.global.u32 %r5, [%x1+4]; xor.b32 %r4, %r4, %r5; \
         st.global.u32 [%x2], %r4;",
        "setp.lt.u32 %p0, %r4, 9999999; @%p0 mov.u32 %r4, 1; st.global.u32 [%x2], %r4; \
         add.u32 %r4, %r4, 2; st.global.u32 [%x2+2048], %r4;",
    ] {
        agree(&format!("{ADDRESSES} ld.global.u32 %r4, [%x1]; {steps}"));
    }
}

/// A value that all lanes load is that which the one of them has stored that loads it after its store.
#[test]
fn shared_loads_follow_stores() {
    // A thread reads what another writes.
    super::ORDER_COUNTS.set(true);
    let body = format!(
        "{ADDRESSES} ld.global.u32 %r4, [%x1]; add.u32 %r4, %r4, 1; st.global.u32 [%x2], %r4; \
         ld.global.u32 %r5, [%out+124]; mul.wide.u32 %x3, %i, 4; add.u64 %x3, %x3, %out; \
         st.global.u32 [%x3+4096], %r5;"
    );
    let words = run(&kernel(&body), Vectorization::Always, 1, [32, 1, 1], 32).unwrap();
    assert_ne!(words[31], 0);
    assert_eq!(
        words[1024 + 31],
        words[31],
        "thread 31 loads what it stored"
    );
}

/// The first access that is out of bounds is reported, and of it the first thread.
#[test]
fn faults_name_the_first_access() {
    for (place, line) in [("%x1+16320", 19), ("%x2+16320", 20)] {
        let [load, store] =
            [("%x1", 19), ("%x2", 20)].map(|(usual, at)| if line == at { place } else { usual });
        let source = kernel(&format!(
            "{ADDRESSES}\nld.global.u32 %r4, [{load}]; add.u32 %r4, %r4, 1;\n\
             st.global.u32 [{store}], %r4;"
        ));
        let alone = run(&source, Vectorization::Never, 1, [32, 1, 1], 32);
        let together = run(&source, Vectorization::Always, 1, [32, 1, 1], 32);
        assert_eq!(together, alone);
        let fault = together.unwrap_err();
        assert!(fault.starts_with("thread [16, 0, 0]"), "{fault}");
        assert!(fault.ends_with(&format!("PTX line {line}")), "{fault}");
    }
}
