//! Conversions of halves, minima and maxima, whose vectors take other instructions than scalars.

use super::{ADDRESSES, agree, kernel, run};
use crate::Vectorization::{Always, Never};

/// Runs a kernel over 4096 threads, whose first has the number `first`.
fn agree_on(body: &str, first: u32) {
    let source = kernel(body);
    let alone = run(&source, Never, 16, [256, 1, 1], first).unwrap();
    let together = run(&source, Always, 16, [256, 1, 1], first).unwrap();
    assert!(alone.iter().any(|&word| word != 0), "{body}");
    let differs = alone.iter().zip(&together).position(|(a, b)| a != b);
    assert_eq!(differs, None, "of {first} on: {body}");
}

#[test]
fn every_half_becomes_the_same_float() {
    let body = format!(
        ".reg .b16 %h; {ADDRESSES} add.u32 %r3, %i, %n; cvt.u16.u32 %h, %r3; \
         cvt.f32.f16 %f0, %h; st.global.f32 [%x2], %f0;"
    );
    for first in (0..1 << 16).step_by(4096) {
        agree_on(&body, first);
    }
}

/// All signs and exponents, with the digits of a half and those around the middle between two.
#[test]
fn floats_become_the_same_halves() {
    let mut steps = String::new();
    for below in [0, 1, 0xFFF, 0x1000, 0x1001, 0x1FFF] {
        steps += &format!(
            "add.u32 %r6, %r5, {below}; mov.b32 %f0, %r6; cvt.rn.f16.f32 %h, %f0; \
             cvt.u32.u16 %r7, %h; mad.lo.u32 %r4, %r4, 31, %r7;"
        );
    }
    let body = format!(
        ".reg .b16 %h; {ADDRESSES} mov.u32 %r3, 0; mov.u32 %r4, %n; \
         L: mad.lo.u32 %r5, %r3, 4096, %i; shl.b32 %r5, %r5, 13; {steps} \
         add.u32 %r3, %r3, 1; setp.lt.u32 %p0, %r3, 128; @%p0 bra L; st.global.u32 [%x2], %r4;"
    );
    agree_on(&body, 1);
}

/// Every float; a minute in a release build.
#[test]
#[ignore = "takes long"]
fn every_float_becomes_the_same_half() {
    let body = format!(
        ".reg .b16 %h; {ADDRESSES} mov.u32 %r3, 0; mov.u32 %r4, %n; \
         L: mad.lo.u32 %r5, %r3, 4096, %i; mov.b32 %f0, %r5; cvt.rn.f16.f32 %h, %f0; \
         cvt.f32.f16 %f1, %h; mov.b32 %r7, %f1; mad.lo.u32 %r4, %r4, 31, %r7; \
         add.u32 %r3, %r3, 1; setp.lt.u32 %p0, %r3, 1048576; @%p0 bra L; \
         st.global.u32 [%x2], %r4;"
    );
    agree_on(&body, 1);
}

/// Zeros of both signs, numbers, infinities and NaN with each other.
#[test]
fn minima_and_maxima() {
    let special = |reg: &str, number: &str| {
        let mut text = format!("shl.b32 {reg}, {number}, 28;");
        let bits = [
            0x7FC0_0001_u32,
            0xFFC1_2345,
            0x7F80_0000,
            0xFF80_0000,
            1,
            0x8000_0001,
        ];
        for (at, bits) in (1..).zip(bits) {
            text +=
                &format!("setp.eq.u32 %p0, {number}, {at}; selp.b32 {reg}, {bits}, {reg}, %p0;");
        }
        text
    };
    let (a, b) = (special("%r5", "%r3"), special("%r6", "%r4"));
    for operation in ["min", "max", "min.NaN", "max.NaN", "min.ftz", "max.ftz.NaN"] {
        agree(&format!(
            "{ADDRESSES} and.b32 %r3, %i, 15; shr.u32 %r4, %i, 4; and.b32 %r4, %r4, 15; {a} {b} \
             mov.b32 %f0, %r5; mov.b32 %f1, %r6; {operation}.f32 %f2, %f0, %f1; \
             mov.b32 %r7, %f2; xor.b32 %r7, %r7, 0x5555; st.global.u32 [%x2], %r7;"
        ));
    }
}

#[test]
fn halves_are_packed_and_unpacked() {
    let body = format!(
        ".reg .b16 %h<4>; {ADDRESSES} ld.global.u32 %r3, [%x1]; mad.lo.u32 %r3, %r3, 511, %n; \
         mov.b32 {{%h0, %h1}}, %r3; mov.b32 %r4, {{%h1, %h0}}; mov.b32 {{_, %h2}}, %r4; \
         cvt.u32.u16 %r5, %h2; cvt.u32.u16 %r6, %h1; mad.lo.u32 %r5, %r5, 3, %r6; \
         xor.b32 %r5, %r5, %r4; st.global.u32 [%x2], %r5;"
    );
    agree_on(&body, 12345);
    // The upper half of all lanes is the same.
    let body = format!(
        ".reg .b16 %h<4>; {ADDRESSES} mad.lo.u32 %r3, %i, 65536, %n; mov.b32 {{%h0, %h1}}, %r3; \
         mov.b32 %r4, {{%h1, %h0}}; st.global.u32 [%x2], %r4;"
    );
    agree_on(&body, 77);
}
