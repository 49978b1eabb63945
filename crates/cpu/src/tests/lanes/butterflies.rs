//! Butterflies of shuffles, which leave one value in all lanes.

use super::{ADDRESSES, agree};

/// What a reduction leaves is used in each way.
const USES: &str = "mad.lo.u32 %r9, %r3, 3, %r2; xor.b32 %r9, %r9, %r3; \
    shr.u32 %r10, %r2, 5; shl.b32 %r10, %r10, 2; mov.u32 %r11, tile; add.u32 %r10, %r11, %r10; \
    st.shared.u32 [%r10], %r3; bar.sync 0; ld.shared.u32 %r11, [tile]; add.u32 %r9, %r9, %r11; \
    setp.gt.s32 %p0, %r3, 1000; @%p0 bra LARGE; add.u32 %r9, %r9, 7; LARGE: \
    or.b32 %r9, %r9, 1; st.global.u32 [%x2], %r9;";

fn reduction(operation: &str, masks: &[u32]) -> String {
    let step = |mask: &u32| {
        format!("shfl.sync.bfly.b32 %r4, %r3, {mask}, 31, -1; {operation} %r3, %r3, %r4;\n")
    };
    masks.iter().map(step).collect()
}

fn agree_on(steps: &str) {
    agree(&format!(
        "{ADDRESSES} ld.global.u32 %r3, [%x1]; {steps} {USES}"
    ));
}

#[test]
fn reductions_of_all_lanes_and_of_some() {
    for operation in [
        "add.u32",
        "mul.lo.u32",
        "min.s32",
        "max.u32",
        "and.b32",
        "or.b32",
        "xor.b32",
        "sub.u32",
    ] {
        let orders: [&[u32]; 6] = [
            &[16, 8, 4, 2, 1],
            &[1, 2, 4, 8, 16],
            &[16, 8, 4, 2],
            &[4, 2, 1],
            &[3, 4, 8, 16],
            &[31, 15, 7, 3, 1],
        ];
        for masks in orders {
            agree_on(&reduction(operation, masks));
        }
    }
}

#[test]
fn floats_and_pairs() {
    for (operation, first) in [
        ("add.f32", "and.b32 %r3, %r3, 0x3FFFFFFF;"),
        ("max.f32", ""),
        ("min.NaN.f32", ""),
        ("mul.f32", "or.b32 %r3, %r3, 0x3F000000;"),
        ("add.f16x2", "and.b32 %r3, %r3, 0x3FFF3FFF;"),
    ] {
        let steps: String = [16, 8, 4, 2, 1]
            .map(|mask| {
                format!(
                    "shfl.sync.bfly.b32 %r4, %r3, {mask}, 31, -1; mov.b32 %f0, %r3; \
                     mov.b32 %f1, %r4; {} mov.b32 %r3, %f2;\n",
                    match operation {
                        "add.f16x2" => "add.f16x2 %r3, %r3, %r4; mov.b32 %f2, %r3;".to_owned(),
                        _ => format!("{operation} %f2, %f0, %f1;"),
                    }
                )
            })
            .concat();
        agree_on(&format!("{first} {steps}"));
        let in_floats: String = [16, 8, 4, 2, 1]
            .map(|mask| {
                format!(
                    "shfl.sync.bfly.b32 %f1, %f0, {mask}, 31, -1; {} %f0, %f1, %f0;\n",
                    operation.replace("f16x2", "f32")
                )
            })
            .concat();
        agree_on(&format!(
            "{first} mov.b32 %f0, %r3; {in_floats} mov.b32 %r3, %f0;"
        ));
    }
}

/// What looks like a butterfly, and is none.
#[test]
fn other_operations() {
    let most = reduction("add.u32", &[16, 8, 4, 2]);
    for last in [
        // The value has changed.
        "shfl.sync.bfly.b32 %r4, %r3, 1, 31, -1; add.u32 %r3, %r3, %r2; add.u32 %r3, %r3, %r4;",
        "shfl.sync.bfly.b32 %r4, %r3, 1, 31, -1; add.u32 %r4, %r4, %r2; add.u32 %r3, %r3, %r4;",
        "shfl.sync.bfly.b32 %r4, %r3, 1, 31, -1; setp.lt.u32 %p1, %r2, 9; @%p1 mov.u32 %r3, 5; add.u32 %r3, %r3, %r4;",
        "shfl.sync.bfly.b32 %r4, %r3, 1, 31, -1; and.b32 %r7, %r2, 1; setp.eq.u32 %p1, %r7, 0; @%p1 mov.u32 %r3, 5; add.u32 %r3, %r3, %r4;",
        "shfl.sync.bfly.b32 %r3, %r3, 1, 31, -1; add.u32 %r3, %r3, %r3;",
        // Some blocks do not shuffle.
        "and.b32 %r4, %r2, 1; setp.eq.u32 %p1, %r0, 0; @%p1 bra JOIN; shfl.sync.bfly.b32 %r4, %r3, 1, 31, -1; JOIN: add.u32 %r3, %r3, %r4;",
        // Some lanes do not.
        "shfl.sync.bfly.b32 %r4, %r3, 1, 31, -1; setp.lt.u32 %p1, %r2, 9; @%p1 add.u32 %r3, %r3, %r4;",
        "shfl.sync.bfly.b32 %r4, %r3, 1, 31, -1; setp.lt.u32 %p1, %r2, 9; @%p1 bra FEW; add.u32 %r3, %r3, %r4; FEW:",
        // Other lanes, and other values.
        "shfl.sync.down.b32 %r4, %r3, 1, 31, -1; add.u32 %r3, %r3, %r4;",
        "shfl.sync.bfly.b32 %r4, %r3, 1, 0x101f, -1; add.u32 %r3, %r3, %r4;",
        "shfl.sync.bfly.b32 %r4, %r3, 1, 0, -1; add.u32 %r3, %r3, %r4;",
        "shfl.sync.bfly.b32 %r4, %r2, 1, 31, -1; add.u32 %r3, %r3, %r4;",
        "shfl.sync.bfly.b32 %r4, %r3, %r0, 31, -1; add.u32 %r3, %r3, %r4;",
        "shfl.sync.bfly.b32 %r4|%p1, %r3, 1, 31, -1; @%p1 add.u32 %r3, %r3, %r4;",
        "shfl.sync.bfly.b32 %r4, %r3, 1, 31, -1; mad.lo.u32 %r3, %r3, %r4, %r2;",
        // Two at a time.
        "shfl.sync.bfly.b32 %r4, %r3, 1, 31, -1; shfl.sync.bfly.b32 %r5, %r2, 16, 31, -1; add.u32 %r3, %r4, %r3; add.u32 %r5, %r5, %r2; xor.b32 %r3, %r3, %r5;",
        // A constant, and what all have.
        "shfl.sync.bfly.b32 %r4, 5, 1, 31, -1; add.u32 %r3, %r3, %r4;",
        "shfl.sync.bfly.b32 %r4, %r0, 1, 31, -1; add.u32 %r3, %r3, %r4;",
    ] {
        agree_on(&format!("{most} {last}"));
    }
}

/// What some lanes write alone depends on which lanes these are.
#[test]
fn masked_arms() {
    agree(&format!(
        "{ADDRESSES} and.b32 %r3, %r2, 1; and.b32 %r4, %r2, 16; setp.eq.u32 %p0, %r4, 0; \
         @%p0 bra JOIN; mul.lo.u32 %r3, %r3, 5; JOIN: {} {USES}",
        reduction("add.u32", &[1])
    ));
    agree(&format!(
        "{ADDRESSES} shr.u32 %r3, %r2, 1; mul.wide.u32 %x3, %r3, 4; add.u64 %x3, %in, %x3; \
         and.b32 %r4, %r2, 1; setp.eq.u32 %p0, %r4, 0; mov.u32 %r3, 0; \
         @%p0 ld.global.u32 %r3, [%x3]; {} {USES}",
        reduction("add.u32", &[2, 4, 8, 16])
    ));
    // The second arm depends on what the first one leaves.
    agree(&format!(
        "{ADDRESSES} and.b32 %r3, %r2, 1; and.b32 %r4, %r2, 16; setp.eq.u32 %p0, %r4, 0; mov.u32 %r5, 0; \
         @%p0 bra NEXT; add.u32 %r5, %r3, 3; NEXT: setp.eq.u32 %p1, %r5, 4; \
         @%p1 bra JOIN; mul.lo.u32 %r3, %r3, 5; add.u32 %r3, %r3, 1; JOIN: {} {USES}",
        reduction("add.u32", &[1])
    ));
}

/// The copies of an unrolled loop have shuffles across a bit each.
#[test]
fn unrolled_loops() {
    for (bit, shuffle) in [
        (
            1,
            "shfl.sync.bfly.b32 %r5, %r4, %r3, 31, -1; add.u32 %r6, %r4, %r5; add.u32 %r9, %r9, %r6;",
        ),
        (
            16,
            "add.u32 %r6, %r4, %r5; add.u32 %r9, %r9, %r6; shfl.sync.bfly.b32 %r5, %r4, %r3, 31, -1;",
        ),
        (
            31,
            "shfl.sync.bfly.b32 %r5, %r4, %r3, 31, -1; add.u32 %r4, %r4, %r5; add.u32 %r9, %r9, %r4;",
        ),
    ] {
        agree(&format!(
            "{ADDRESSES} and.b32 %r4, %r2, {bit}; mov.u32 %r5, %r2; mov.u32 %r9, 0; mov.u32 %r3, 16; \
             AGAIN: {shuffle} shr.u32 %r3, %r3, 1; setp.ne.u32 %p1, %r3, 0; @%p1 bra AGAIN; \
             mov.u32 %r3, %r9; {USES}"
        ));
    }
}

/// The accumulator is that of the iteration before.
#[test]
fn in_loops() {
    let all = reduction("add.u32", &[16, 8, 4, 2, 1]);
    agree_on(&format!(
        "mov.u32 %r5, 0; AGAIN: {all} add.u32 %r3, %r3, %r2; add.u32 %r5, %r5, 1; \
         setp.lt.u32 %p1, %r5, 3; @%p1 bra AGAIN; {all}"
    ));
    agree_on(&format!(
        "mov.u32 %r5, 0; mov.u32 %r6, %r2; mov.u32 %r8, %r3; AGAIN: mov.u32 %r3, %r8; {all} \
         add.u32 %r6, %r6, %r3; add.u32 %r8, %r8, %r6; add.u32 %r5, %r5, 1; \
         setp.lt.u32 %p1, %r5, 3; @%p1 bra AGAIN; add.u32 %r3, %r3, %r6;"
    ));
    // The operation is in the next iteration.
    agree_on(
        "mov.u32 %r5, 0; mov.u32 %r4, 1; AGAIN: add.u32 %r3, %r3, %r4; mul.lo.u32 %r3, %r3, 5; \
         shfl.sync.bfly.b32 %r4, %r3, 1, 31, -1; add.u32 %r5, %r5, 1; \
         setp.lt.u32 %p1, %r5, 3; @%p1 bra AGAIN;",
    );
}

/// The threads of a warp have parted before, or some have left.
#[test]
fn parted_lanes() {
    let all = reduction("add.u32", &[16, 8, 4, 2, 1]);
    agree_on(&format!(
        "setp.lt.u32 %p1, %r2, 13; @%p1 bra FEW; mul.lo.u32 %r3, %r3, 7; st.shared.u32 [tile+8], %r3; \
         FEW: bar.warp.sync -1; {all}"
    ));
    agree_on(&format!(
        "{all} setp.lt.u32 %p1, %r2, 13; @%p1 bra FEW; mad.lo.u32 %r3, %r3, 7, %r2; \
         atom.global.add.u32 %r8, [%out+8000], %r3; FEW: bar.sync 0;"
    ));
}
