//! Carries, products of bytes, and results beside a predicate.

use super::{ADDRESSES, agree};

/// Numbers of which many are at the limits.
const NUMBERS: &str = ".reg .b32 %v<8>; .reg .b64 %w<8>; .reg .pred %q<4>; \
    mad.lo.u32 %r3, %i, 2654435761, 12345; shf.l.wrap.b32 %r4, %r3, %r3, 13; \
    mad.lo.u32 %r4, %r4, 2246822519, %r3; shf.l.wrap.b32 %r5, %r4, %r4, 17; \
    setp.lt.u32 %p1, %r4, 2147483648; setp.lt.s32 %p2, %r5, 0; setp.gt.u32 %p3, %r3, 3221225472; \
    mov.u32 %v1, %r3; selp.b32 %v2, -1, %r4, %p3; selp.b32 %v3, 0, %r5, %p1; \
    selp.b32 %v3, -1, %v3, %p3; mov.b64 %w1, {%v1, %v2}; mov.b64 %w2, {%v3, %r5}; \
    mov.b64 %w3, {%v2, %v3}; ";

fn each_agrees(operations: &[&str]) {
    for operation in operations {
        agree(&format!(
            "{ADDRESSES} {NUMBERS} mov.u32 %v4, 0; {operation} st.global.u32 [%x2], %v4;"
        ));
    }
}

#[test]
fn sums_and_products_with_carries() {
    each_agrees(&[
        "add.cc.u32 %v5, %v1, %v2; addc.cc.u32 %v6, %v2, %v3; addc.u32 %v4, %v5, %v6;",
        "sub.cc.u32 %v5, %v1, %v2; subc.cc.u32 %v6, %v2, %v3; subc.u32 %v4, %v6, 0;",
        "add.cc.u64 %w4, %w1, %w2; addc.cc.u64 %w5, %w2, %w3; addc.u32 %v4, %v1, 0;",
        "sub.cc.s64 %w4, %w1, %w2; subc.u64 %w5, %w4, %w3; cvt.u32.u64 %v4, %w5;",
        "mad.lo.cc.u32 %v5, %v1, %v2, %v3; madc.hi.cc.u32 %v6, %v1, %v2, %v3; addc.u32 %v4, %v6, 0;",
        "mad.lo.cc.u64 %w4, %w1, %w2, %w3; addc.u32 %v4, %v1, 0;",
        "@%p1 add.cc.u32 %v5, %v1, %v2; @!%p1 add.cc.u32 %v5, 0, 0; addc.u32 %v4, %v3, %v2;",
        // All lanes share the sum, and not the carry.
        "add.cc.u32 %v5, %n, 1; addc.u32 %v6, %n, 0; @%p2 add.cc.u32 %v5, %v1, %v2; \
         addc.u32 %v4, %n, 0; add.u32 %v4, %v4, %v6;",
    ]);
}

#[test]
fn products_of_bytes() {
    let mut operations = Vec::new();
    for a in ["u32", "s32"] {
        for b in ["u32", "s32"] {
            operations.push(format!("dp4a.{a}.{b} %v4, %v1, %v2, %v3;"));
            operations.push(format!("dp2a.lo.{a}.{b} %v4, %v1, %v2, %v3;"));
            operations.push(format!("dp2a.hi.{a}.{b} %v4, %v1, %v2, 7;"));
        }
    }
    let operations: Vec<&str> = operations.iter().map(String::as_str).collect();
    each_agrees(&operations);
}

#[test]
fn truth_tables_beside_a_predicate_and_highest_bits() {
    each_agrees(&[
        "lop3.or.b32 %v5|%q1, %v1, %v2, %v3, 0x80, %p1; selp.b32 %v4, %v5, 3, %q1;",
        "lop3.and.b32 %v5|%q1, %v1, %v2, %v3, 0x01, %p2; selp.b32 %v4, %v5, 3, %q1;",
        "lop3.or.b32 _|%q1, %v3, %v3, %v3, 0xF0, %p2; selp.b32 %v4, 5, 3, %q1;",
        "@%p1 lop3.or.b32 %v4|%p1, %v1, %v2, %v3, 0x96, %p2; @%p1 add.u32 %v4, %v4, 1;",
        "bfind.u32 %v4, %v3;",
        "bfind.s32 %v4, %v3;",
        "bfind.shiftamt.u32 %v4, %v3;",
        "bfind.shiftamt.s32 %v4, %v2;",
        "bfind.u64 %v4, %w2;",
        "bfind.shiftamt.s64 %v4, %w3;",
    ]);
}
