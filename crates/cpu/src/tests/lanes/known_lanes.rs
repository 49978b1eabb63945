//! Guards on the place of a lane in its warp, which are known when the code is generated.

use super::{ADDRESSES, agree, kernel, run};
use crate::Vectorization;

/// Makes the groups whole warps.
const SHUFFLE: &str = "shfl.sync.bfly.b32 %r8, %r2, 4, 31, -1;";
const LANE: &str = "mov.u32 %r4, %laneid; and.b32 %r5, %r2, 31; shr.u32 %r6, %i, 5; shl.b32 %r6, %r6, 2; mov.u32 %r7, tile; add.u32 %r6, %r6, %r7;";

#[test]
fn arms_for_known_lanes() {
    for guard in [
        "setp.eq.u32 %p0, %r4, 31;",
        "setp.ne.u32 %p0, %r5, 0;",
        "setp.lt.s32 %p0, %r5, 3;",
        "setp.gt.u32 %p0, %r4, 40;",
        "setp.le.u32 %p0, %r4, 31;",
        "sub.u32 %r9, %r4, 30; setp.ge.s32 %p0, %r9, 0;",
        "mul.lo.u32 %r9, %r4, 3; setp.hs.u32 %p0, %r9, 89;",
        "setp.lt.u32 %p1, %r4, 9; setp.eq.and.u32 %p0, %r5, 8, %p1;",
    ] {
        for arm in [
            "@%p0 st.shared.u32 [%r6], %r3; bar.sync 0; ld.shared.u32 %r9, [%r6];",
            "@%p0 ld.global.u32 %r9, [%in+8]; add.u32 %r9, %r9, 1;",
            "@!%p0 bra SKIP; ld.global.u32 %r9, [%x1+4]; add.u32 %r9, %r9, 5; st.shared.u32 [%r6], %r9; SKIP:",
            "@%p0 bra ODD; mul.lo.u32 %r9, %r3, 3; bra JOIN; ODD: add.u32 %r9, %r3, %r2; JOIN: add.u32 %r9, %r9, %r8;",
            "@%p0 add.u32 %r9, %r3, %r8; @!%p0 xor.b32 %r9, %r9, %r3;",
            "selp.u32 %r9, %r3, %r8, %p0; @%p0 red.shared.add.u32 [tile+128], 3; bar.sync 0; ld.shared.u32 %r8, [tile+128]; add.u32 %r9, %r9, %r8;",
        ] {
            agree(&format!(
                "{ADDRESSES} {LANE} {SHUFFLE} ld.global.u32 %r3, [%x1]; mov.u32 %r9, 7; {guard} {arm} or.b32 %r9, %r9, 1; st.global.u32 [%x2], %r9;"
            ));
        }
    }
}

/// The access of one lane is out of bounds.
#[test]
fn faults_name_the_known_lane() {
    for store in [
        "setp.eq.u32 %p0, %r4, 31; @%p0 st.shared.u32 [%r6+5000], %r3;",
        "setp.ge.u32 %p0, %r4, 5; mad.lo.u32 %r6, %r2, 600, %r6; @%p0 ld.shared.u32 %r3, [%r6];",
    ] {
        let source = kernel(&format!(
            "{ADDRESSES} {LANE} {SHUFFLE} ld.global.u32 %r3, [%x1]; {store} st.global.u32 [%x2], %r3;"
        ));
        let alone = run(&source, Vectorization::Never, 1, [64, 1, 1], 0).unwrap_err();
        assert!(!alone.contains("thread [0, 0, 0]"), "{alone}");
        let together = run(&source, Vectorization::Always, 1, [64, 1, 1], 0);
        assert_eq!(together.unwrap_err(), alone);
    }
}
