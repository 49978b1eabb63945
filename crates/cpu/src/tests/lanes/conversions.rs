//! Conversions between integers, to registers that are as wide as the result or wider.

use super::{ADDRESSES, agree};

const TYPES: [(&str, u32); 8] = [
    ("u8", 8),
    ("s8", 8),
    ("u16", 16),
    ("s16", 16),
    ("u32", 32),
    ("s32", 32),
    ("u64", 64),
    ("s64", 64),
];

#[test]
fn integers() {
    // A value of each lane, and one that all lanes share.
    let sources = [
        "xor.b32 %r4, %r3, 0x8081; shl.b32 %r5, %r3, 7;",
        "ld.global.u32 %r4, [%in+4]; ld.global.u32 %r5, [%in+8]; or.b32 %r4, %r4, 0x8080;",
    ];
    for source in sources {
        for (to, to_bits) in TYPES {
            let mut body = format!(
                ".reg .b16 %h<2>; {ADDRESSES} ld.global.u32 %r3, [%x1]; {source}\n\
                 mov.b64 %x3, {{%r4, %r5}}; cvt.u16.u32 %h0, %r4; mov.u32 %r9, %r3;\n"
            );
            for (from, from_bits) in TYPES {
                let operand = match from_bits {
                    64 => "%x3",
                    32 => "%r4",
                    _ => "%h0",
                };
                // Narrow sources are in registers of 32 bits, too.
                for operand in [operand, if from_bits < 32 { "%r4" } else { operand }] {
                    if to_bits <= 16 {
                        body += &format!(
                            "cvt.{to}.{from} %h1, {operand}; cvt.u32.u16 %r6, %h1; mad.lo.u32 %r9, %r9, 31, %r6;\n"
                        );
                    }
                    if to_bits <= 32 {
                        body += &format!(
                            "cvt.{to}.{from} %r6, {operand}; mad.lo.u32 %r9, %r9, 31, %r6;\n"
                        );
                    }
                    body += &format!(
                        "cvt.{to}.{from} %x4, {operand}; mov.b64 {{%r6, %r7}}, %x4; \
                         mad.lo.u32 %r9, %r9, 31, %r6; mad.lo.u32 %r9, %r9, 31, %r7;\n"
                    );
                }
            }
            agree(&format!("{body} st.global.u32 [%x2], %r9;"));
        }
    }
}

/// Registers of 16 bits keep to their bits, also where sums and products have more.
#[test]
fn registers_of_16_bits() {
    for operation in [
        "add.u16 %h2, %h0, %h1",
        "sub.u16 %h2, %h0, %h1",
        "mul.lo.u16 %h2, %h0, %h1",
        "mad.lo.u16 %h2, %h0, %h1, %h0",
        "min.u16 %h2, %h0, %h1",
        "max.s16 %h2, %h0, %h1",
        "min.s16 %h2, %h0, %h1",
        "shl.b16 %h2, %h0, 3",
        "shr.u16 %h2, %h0, 3",
        "shr.s16 %h2, %h0, 3",
        "not.b16 %h2, %h0",
        "neg.s16 %h2, %h0",
        "abs.s16 %h2, %h0",
        "xor.b16 %h2, %h0, %h1",
        "and.b16 %h2, %h0, 0x80ff",
        "selp.b16 %h2, %h0, %h1, %p0",
    ] {
        for extend in ["u32.u16", "s32.s16"] {
            agree(&format!(
                ".reg .b16 %h<4>; {ADDRESSES} ld.global.u32 %r3, [%x1]; ld.global.u32 %r4, [%x1+64]; \
                 cvt.u16.u32 %h0, %r3; cvt.u16.u32 %h1, %r4; setp.gt.u32 %p0, %r3, 9000000; \
                 {operation}; max.u16 %h3, %h2, 7; min.u16 %h3, %h3, %h2; add.u16 %h3, %h3, %h2; \
                 cvt.{extend} %r5, %h3; cvt.{extend} %r6, %h2; mad.lo.u32 %r5, %r6, 3, %r5; or.b32 %r5, %r5, 1; \
                 st.global.u32 [%x2], %r5;"
            ));
        }
    }
}
