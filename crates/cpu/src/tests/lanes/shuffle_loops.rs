//! Loops over the distances of shuffles.

use super::{ADDRESSES, agree};

/// A loop that sums what its shuffles give. `%r3` is the distance.
fn body(start: &str, shuffle: &str, next: &str, test: &str) -> String {
    format!(
        "{ADDRESSES} ld.global.u32 %r4, [%x1]; mov.u32 %r9, 0; {start}; \
         L: shfl.sync.{shuffle}, -1; @%p0 add.u32 %r4, %r4, %r5; mad.lo.u32 %r9, %r9, %r3, %r4; {next}; \
         mad.lo.u32 %r9, %r9, 3, %r3; {test}; \
         mad.lo.u32 %r9, %r9, 5, %r3; st.global.u32 [%x2], %r9;"
    )
}

const UP: &str = "up.b32 %r5|%p0, %r4, %r3, 0";
const DOWN: &str = "down.b32 %r5|%p0, %r4, %r3, 31";
const BFLY: &str = "bfly.b32 %r5|%p0, %r4, %r3, 31";
const DOUBLE: &str = "shl.b32 %r3, %r3, 1";
const HALVE: &str = "shr.u32 %r3, %r3, 1";
const WHILE_BELOW: &str = "setp.lt.u32 %p1, %r3, 32; @%p1 bra L";
const WHILE_NOT_0: &str = "setp.ne.u32 %p1, %r3, 0; @%p1 bra L";

/// The distances are constants.
#[test]
fn constant_distances() {
    for (start, shuffle, next, test) in [
        ("mov.u32 %r3, 1", UP, DOUBLE, WHILE_BELOW),
        ("mov.u32 %r3, 16", DOWN, HALVE, WHILE_NOT_0),
        ("mov.b32 %r3, 16", BFLY, HALVE, WHILE_NOT_0),
        ("mov.u32 %r3, 8", BFLY, "shr.b32 %r3, %r3, 1", WHILE_NOT_0),
        ("mov.u32 %r3, 40", UP, DOUBLE, WHILE_BELOW),
        (
            "mov.s32 %r3, 5",
            UP,
            "sub.s32 %r3, %r3, 2",
            "setp.gt.s32 %p1, %r3, -3; @%p1 bra L",
        ),
        (
            "mov.u32 %r3, 0",
            DOWN,
            "add.u32 %r3, %r3, 7",
            "setp.hi.u32 %p1, %r3, 30; @!%p1 bra L",
        ),
        (
            "mov.u32 %r3, 1",
            UP,
            "setp.eq.u32 %p1, %r3, 16; shl.b32 %r3, %r3, 1",
            "@%p1 bra DONE; bra L; DONE: mov.u32 %r5, 0",
        ),
    ] {
        let body = body(start, shuffle, next, test);
        agree(&body);
    }
}

/// The distances are not constants, or there are many.
#[test]
fn other_distances() {
    for (start, shuffle, next, test) in [
        ("mov.u32 %r3, 0", DOWN, "add.u32 %r3, %r3, 1", WHILE_BELOW),
        (
            "and.b32 %r3, %n, 3; or.b32 %r3, %r3, 1",
            UP,
            DOUBLE,
            WHILE_BELOW,
        ),
        (
            "mov.u32 %r3, 1; @%p2 mov.u32 %r3, 2",
            UP,
            DOUBLE,
            WHILE_BELOW,
        ),
        (
            "mov.u32 %r3, 1",
            UP,
            "shl.b32 %r3, %r3, 1; add.u32 %r3, %r3, 1",
            WHILE_BELOW,
        ),
        (
            "mov.u32 %r3, 1",
            UP,
            DOUBLE,
            "setp.lt.u32 %p1, %r3, %n; @%p1 bra L",
        ),
        ("mov.u32 %r3, 1", UP, "shl.b32 %r3, %r3, %r3", WHILE_BELOW),
        (
            "setp.lt.u32 %p3, %n, 5; mov.u32 %r3, 1; @%p3 bra L; mov.u32 %r3, 2",
            UP,
            DOUBLE,
            WHILE_BELOW,
        ),
    ] {
        let body = body(start, shuffle, next, test);
        agree(&body);
    }
}

/// An outer loop continues with the distance that the inner loop has left.
#[test]
fn a_distance_that_outlives_its_loop() {
    let outer = "mov.u32 %r6, 0; mov.u32 %r3, 1";
    let inner = "setp.lt.u32 %p1, %r3, 16; @%p1 bra L; \
                 add.u32 %r6, %r6, 1; shr.u32 %r3, %r3, 2; setp.lt.u32 %p2, %r6, 3; @%p2 bra L";
    agree(&body(outer, UP, DOUBLE, inner));
    let outer = "mov.u32 %r6, 0; O: mov.u32 %r3, 1";
    let inner = "setp.lt.u32 %p1, %r3, 16; @%p1 bra L; \
                 add.u32 %r6, %r6, 1; setp.lt.u32 %p2, %r6, 3; @%p2 bra O";
    let body = body(outer, UP, DOUBLE, inner);
    agree(&body);
}
