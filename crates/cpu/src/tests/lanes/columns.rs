//! Columns of a tile in shared memory, which are stored side by side.

use super::{ADDRESSES, agree, kernel, run};
use crate::Vectorization::{Always, Never};

/// Fills most of the tile with what follows from the addresses, and leaves the address of column
/// `at` of a row for each thread in `%r4`.
pub(super) fn columns(stride: i32, at: i32) -> String {
    let fill = |k: u32| {
        let at = 192 * k;
        format!(
            "add.u32 %r11, %r10, {at}; mul.lo.u32 %r11, %r11, 2654435761;
             st.shared.u32 [%r12+{at}], %r11;"
        )
    };
    let fill: String = (0..16).map(fill).collect();
    format!(
        "{ADDRESSES} mov.u32 %r12, %ntid.x; mov.u32 %r13, %tid.y; mad.lo.u32 %r10, %r13, %r12, %r2;
         shl.b32 %r10, %r10, 2; mov.u32 %r12, tile; add.u32 %r12, %r12, %r10; {fill} bar.sync 0;
         mov.u32 %r5, tile; mad.lo.u32 %r4, %r2, {stride}, %r5; add.u32 %r4, %r4, {at};"
    )
}

#[test]
fn columns_become_rows() {
    for (stride, at) in [(12, 0), (20, 4), (44, 128), (-44, 2772), (-16, 1008)] {
        let columns = columns(stride, at);
        let alone = "ld.shared.u32 %r9, [%r4+8]; st.global.u32 [%x2], %r9;";
        let used = "ld.shared.f32 %f0, [%r4]; st.global.f32 [%x2], %f0; mov.b32 %r9, %f0;
                    not.b32 %r9, %r9; st.global.u32 [%x2+4096], %r9;";
        // The second one loads what the first has in another space.
        let twice = "ld.shared.b32 %r9, [%r4]; st.global.b32 [%x2], %r9; st.shared.u32 [%r4], %i;
                     ld.shared.u32 %r9, [%r4]; st.global.u32 [%x2+8192], %r9;";
        let guarded = "setp.lt.u32 %p0, %i, %n; @%p0 ld.shared.u32 %r9, [%r4];
                       @%p0 st.global.u32 [%x2+4], %r9;";
        // Not what was loaded is stored.
        let other = "mov.u32 %r9, %i; ld.shared.u32 %r8, [%r4]; st.global.u32 [%x2], %r9;
                     st.global.u32 [%x2+4096], %r8;";
        for body in [alone, used, twice, guarded, other] {
            agree(&format!("{columns} {body}"));
        }
    }
}

#[test]
fn faults_are_those_of_each_thread() {
    let load = "ld.shared.u32 %r9, [%r4]; st.global.u32 [%x2], %r9;";
    let store = "ld.shared.u32 %r9, [%r4]; st.global.u32 [%x2+16320], %r9;";
    let odd = "ld.shared.u32 %r9, [%r4+2]; st.global.u32 [%x2], %r9;";
    for (body, at, faults) in [
        (load, 1320, false),
        (load, 1324, true),
        (load, 4000, true),
        (load, -8, true),
        (store, 0, true),
        (store, 4000, true),
        (odd, 0, true),
    ] {
        let source = kernel(&format!("{} {body}", columns(44, at)));
        let results = [Never, Always].map(|how| run(&source, how, 1, [64, 1, 1], 64));
        assert_eq!(results[0].is_err(), faults, "{body} {at}: {results:?}");
        assert_eq!(results[0], results[1], "{body} {at}");
    }
}
