//! Conversions of halves, minima and maxima, whose vectors take other instructions than scalars.

use super::{ADDRESSES, agree, kernel, run};
use crate::Vectorization::{Always, Never};

/// Runs a kernel over 4096 threads, whose first has the number `first`.
fn agree_on(body: &str, first: u32) {
    let words = same_on(body, first);
    assert!(words.iter().any(|&word| word != 0), "{body}");
}

/// The results, which may all be zeros.
fn same_on(body: &str, first: u32) -> Vec<u32> {
    let source = kernel(body);
    let alone = run(&source, Never, 16, [256, 1, 1], first).unwrap();
    let together = run(&source, Always, 16, [256, 1, 1], first).unwrap();
    let differs = alone.iter().zip(&together).position(|(a, b)| a != b);
    assert_eq!(differs, None, "of {first} on: {body}");
    alone
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

/// Random bits, and numbers of neighbouring exponents.
fn pairs(and: u32, or: u32) -> String {
    format!(
        ".reg .b16 %h<8>; .reg .b32 %v<8>; {ADDRESSES} \
         mad.lo.u32 %r3, %i, 2654435761, 12345; shf.l.wrap.b32 %r4, %r3, %r3, 13; \
         mad.lo.u32 %r4, %r4, 2246822519, %r3; shf.l.wrap.b32 %r5, %r4, %r4, 17; \
         mad.lo.u32 %r5, %r5, 3266489917, %r4; \
         and.b32 %v1, %r3, {and}; or.b32 %v1, %v1, {or}; and.b32 %v2, %r4, {and}; \
         or.b32 %v2, %v2, {or}; and.b32 %v3, %r5, {and}; or.b32 %v3, %v3, {or}; \
         mov.b32 {{%h1, %h4}}, %v1; mov.b32 {{%h2, %h5}}, %v2; mov.b32 {{%h3, %h6}}, %v3; "
    )
}

const REGIMES: [(u32, u32); 3] = [(u32::MAX, 0), (0x83FF_87FF, 0x3800_3C00), (0x81FF_83FF, 0)];

/// What is rounded once is the same, whichever way it is computed.
#[test]
fn arithmetic_of_halves() {
    let mut operations = Vec::new();
    for ty in ["f16", "bf16"] {
        let mut forms = vec![
            "add.rn", "sub.rn", "mul.rn", "min", "max", "min.NaN", "max.NaN",
        ];
        if ty == "f16" {
            forms.extend(["add.ftz", "mul.ftz.sat", "sub.sat", "min.ftz"]);
        }
        for form in forms {
            operations.push(format!("{form}.{ty}x2 %v4, %v1, %v2;"));
            operations.push(format!("{form}.{ty} %h0, %h1, %h2; cvt.u32.u16 %v4, %h0;"));
        }
        for form in ["fma.rn", "fma.rn.relu"] {
            operations.push(format!("{form}.{ty}x2 %v4, %v1, %v2, %v3;"));
            operations.push(format!(
                "{form}.{ty} %h0, %h1, %h2, %h3; cvt.u32.u16 %v4, %h0;"
            ));
        }
        for form in ["neg", "abs"] {
            operations.push(format!("{form}.{ty}x2 %v4, %v1;"));
        }
        operations.push(format!(
            "setp.lt.{ty} %p1, %h1, %h2; selp.b32 %v4, 7, 9, %p1;"
        ));
        operations.push(format!(
            "setp.neu.{ty} %p1, %h1, %h2; selp.b32 %v4, 7, 9, %p1;"
        ));
    }
    for (and, or) in REGIMES {
        for operation in &operations {
            let body = format!("{} {operation} st.global.u32 [%x2], %v4;", pairs(and, or));
            same_on(&body, 1);
        }
    }
}

#[test]
fn conversions_of_halves() {
    let operations = [
        "cvt.rn.f16x2.f32 %v4, %f1, %f2;",
        "cvt.rz.f16x2.f32 %v4, %f1, %f2;",
        "cvt.rn.relu.f16x2.f32 %v4, %f1, %f2;",
        "cvt.rn.bf16x2.f32 %v4, %f1, %f2;",
        "cvt.rz.bf16x2.f32 %v4, %f1, %f2;",
        "cvt.rn.relu.bf16x2.f32 %v4, %f1, %f2;",
        "cvt.rn.bf16.f32 %h0, %f1; cvt.u32.u16 %v4, %h0;",
        "cvt.rz.f16.f32 %h0, %f1; cvt.u32.u16 %v4, %h0;",
        "cvt.rm.f16.f32 %h0, %f1; cvt.u32.u16 %v4, %h0;",
        "cvt.rp.f16.f32 %h0, %f1; cvt.u32.u16 %v4, %h0;",
        "cvt.f32.bf16 %f3, %h1; mov.b32 %v4, %f3;",
        "cvt.sat.f32.f16 %f3, %h1; mov.b32 %v4, %f3;",
        "cvt.rzi.s32.f16 %v4, %h1;",
        "cvt.rni.u32.f16 %v4, %h1;",
        "cvt.rpi.s64.f16 %x4, %h1; cvt.u32.u64 %v4, %x4;",
        "cvt.rmi.s32.bf16 %v4, %h1;",
    ];
    for (and, or) in REGIMES {
        for operation in operations {
            let body = format!(
                "{} mov.b32 %f1, %v1; mov.b32 %f2, %v2; {operation} st.global.u32 [%x2], %v4;",
                pairs(and, or)
            );
            same_on(&body, 1);
        }
    }
}

#[test]
fn sums_and_products_of_floats_in_pairs_and_with_halves() {
    let mut operations = Vec::new();
    for modifiers in ["rn", "rz", "rm.ftz", "ftz", "rn.ftz"] {
        for opcode in ["add", "sub", "mul"] {
            operations.push(format!("{opcode}.{modifiers}.f32x2 %w4, %w1, %w2;"));
        }
    }
    operations.push("fma.rn.f32x2 %w4, %w1, %w2, %w3;".to_owned());
    operations.push("fma.rp.ftz.f32x2 %w4, %w1, %w2, %w3;".to_owned());
    for ty in ["f16", "bf16"] {
        for operation in ["add.rn", "sub.rz", "add.sat"] {
            operations.push(format!(
                "{operation}.f32.{ty} %f1, %h1, %f2; mov.b32 %v4, %f1; mov.b64 %w4, {{%v4, %v4}};"
            ));
        }
        operations.push(format!(
            "fma.rn.f32.{ty} %f1, %h1, %h2, %f2; mov.b32 %v4, %f1; mov.b64 %w4, {{%v4, %v4}};"
        ));
    }
    for (and, or) in REGIMES {
        for operation in &operations {
            let body = format!(
                "{} .reg .b64 %w<8>; mov.b64 %w1, {{%v1, %v2}}; mov.b64 %w2, {{%v2, %v3}}; \
                 mov.b64 %w3, {{%v3, %v1}}; mov.b32 %f2, %v3; {operation} \
                 mov.b64 {{%v5, %v6}}, %w4; mov.b32 %f3, %v5; mov.b32 %f4, %v6; \
                 setp.nan.f32 %p1, %f3, %f3; selp.b32 %v5, 1, %v5, %p1; \
                 setp.nan.f32 %p1, %f4, %f4; selp.b32 %v6, 1, %v6, %p1; \
                 mad.lo.u32 %v5, %v6, 31, %v5; st.global.u32 [%x2], %v5;",
                pairs(and, or)
            );
            let source = kernel(&body).replace(".target sm_90", ".target sm_100");
            let [alone, together] =
                [Never, Always].map(|lanes| run(&source, lanes, 16, [256, 1, 1], 1).unwrap());
            assert_eq!(alone, together, "{body}");
        }
    }
}
