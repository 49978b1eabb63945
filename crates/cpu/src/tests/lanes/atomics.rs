//! Atomics, and accesses at addresses that follow from what the lanes have loaded.

use super::{ADDRESSES, FILL, agree, kernel, run, run_with};
use crate::Vectorization::{Always, Never};

/// Each thread counts what it has loaded, and stores a checksum of all counts.
fn counting(count: &str) -> String {
    format!(
        ".reg .b16 %h<4>; .shared .align 16 .b8 other[1024]; mov.u32 %r10, tile; mov.u32 %r11, other; \
         mov.u32 %r3, %r2; mov.u32 %r9, 0; ZERO: mad.lo.u32 %r4, %r3, 4, %r10; \
         st.shared.u32 [%r4], %r9; add.u32 %r3, %r3, %r1; setp.lt.u32 %p0, %r3, 1280; \
         @%p0 bra ZERO; bar.sync 0; cvt.u64.u32 %x1, %i; add.u64 %x1, %in, %x1;\n{count}\n\
         bar.sync 0; mov.u32 %r3, 0; SUM: mad.lo.u32 %r4, %r3, 4, %r10; ld.shared.u32 %r5, [%r4]; \
         mad.lo.u32 %r9, %r9, 31, %r5; add.u32 %r3, %r3, 1; setp.lt.u32 %p0, %r3, 1280; \
         @%p0 bra SUM; mul.wide.u32 %x3, %i, 4; add.u64 %x2, %out, %x3; st.global.u32 [%x2], %r9;"
    )
}

#[test]
fn bytes_are_counted() {
    let load = "ld.global.u8 %r3, [%x1];";
    let half = "ld.global.u8 %h0, [%x1+1]; cvt.u32.u16 %r3, %h0; and.b32 %r3, %r3, 255;";
    let word = "mul.wide.u32 %x4, %i, 4; add.u64 %x4, %in, %x4; \
                ld.global.u32 %r3, [%x4];";
    for (load, index) in [
        (load, "mad.lo.u32 %r4, %r3, 4, %r10;"),
        (load, "mad.lo.u32 %r4, 4, %r3, %r11;"),
        (load, "shl.b32 %r4, %r3, 4; add.u32 %r4, %r4, 1036;"),
        (load, "shl.b32 %r4, %r3, 2; sub.u32 %r4, %r4, -4096;"),
        (load, "add.u32 %r4, %r3, 1; mad.lo.u32 %r4, %r4, 4, %r10;"),
        (load, "and.b32 %r4, %r3, 60; add.u32 %r4, %r4, %r11;"),
        (half, "mad.lo.s32 %r4, %r3, 16, %r10;"),
        (word, "and.b32 %r4, %r3, 0xFFC; add.u32 %r4, %r10, %r4;"),
        (
            word,
            "shr.u32 %r4, %r3, 24; shl.b32 %r4, %r4, 2; add.u32 %r4, %r11, %r4;",
        ),
        (word, "min.u32 %r4, %r3, 255; shl.b32 %r4, %r4, 2;"),
    ] {
        for count in [
            "atom.shared.add.u32 %r5, [%r4], 1;",
            "red.shared.add.u32 [%r4], %r3; red.shared.add.u32 [%r4], 5;",
            "red.shared.max.u32 [%r4+4], %r3; red.shared.add.u32 [%r11], %r3;",
        ] {
            if index.contains("4096") && count.contains("+4") {
                continue;
            }
            agree(&counting(&format!("{load} {index} {count}")));
        }
    }
    // What the atomic returns is used, and the byte is, too.
    agree(&counting(
        "ld.global.u8 %r3, [%x1]; shl.b32 %r4, %r3, 3; add.u32 %r4, %r4, %r10; cvt.u64.u32 %x4, %r3; \
         atom.shared.max.u64 %x5, [%r4], %x4; setp.gt.u64 %p1, %x5, %x4; selp.u32 %r6, 1, 0, %p1; \
         red.shared.add.u32 [%r4+4], %r6; red.shared.add.u32 [%r11], %r3;",
    ));
}

/// The lanes keep what they have loaded when it is overwritten.
#[test]
fn bytes_that_are_overwritten_are_counted_before() {
    agree(&counting(
        "cvt.u64.u32 %x1, %i; add.u64 %x1, %x1, %out; add.u64 %x1, %x1, 8192; \
         st.global.u8 [%x1], %i; bar.sync 0; ld.global.u8 %r3, [%x1]; mad.lo.u32 %r4, %r3, 4, %r10; \
         mov.u32 %r6, 3; st.global.u8 [%x1], %r6; red.shared.add.u32 [%r4], 1;",
    ));
}

/// A byte may be as high as 255, and its address just behind the shared memory of the kernel, or in
/// its dynamic part.
#[test]
fn faults_are_those_of_the_first_lane() {
    for (load, shift, offset) in [
        // The last word is in bounds, or just out.
        ("u8", 4, 1036),
        ("u8", 4, 1040),
        ("u8", 2, 4096),
        ("u8", 2, 4100),
        ("u8", 4, 1044),
        // Not aligned.
        ("u8", 2, 2),
        ("u8", 1, 0),
        ("u8", 0, 64),
        // Not even 0 has an address there, and each shift loses bits.
        ("u8", 2, -4),
        ("u8", 24, 0),
        ("u8", 31, 4),
        // Negative.
        ("s8", 2, 0),
        ("s8", 2, 512),
        ("s8", 3, 1024),
        ("u16", 2, 0),
    ] {
        let scale = if load == "u16" { 2 } else { 1 };
        for (base, bytes) in [("0", 0), ("0", 1024), ("dynamic", 1024)] {
            let body = counting(&format!(
                "mov.u32 %r5, 255; setp.eq.u32 %p1, %i, 77; @%p1 st.global.u8 [%x1], %r5; bar.sync 0; \
                 mad.wide.u32 %x1, %i, {scale}, %in; ld.global.{load} %r3, [%x1]; mov.u32 %r12, {base};\n\
                 shl.b32 %r4, %r3, {shift}; add.u32 %r4, %r4, {offset}; add.u32 %r4, %r4, %r12;\n\
                 red.shared.add.u32 [%r4], 1;\n"
            ));
            let dynamic = ".extern .shared .align 16 .b8 dynamic[];\n.visible";
            let source = kernel(&body).replacen(".visible", dynamic, 1);
            let [lowest, highest] = match load {
                "s8" => [-128, 127],
                "u8" => [0, 255],
                _ => [0, 0xFFFF],
            }
            .map(|value: i64| (value << shift) + offset);
            let in_bounds = lowest >= 0 && highest + 4 <= 5120 + i64::from(bytes);
            let is_aligned = shift >= 2 && offset % 4 == 0;
            for grid in [1, 3] {
                let [alone, together] =
                    [Never, Always].map(|how| run_with(&source, how, grid, [96, 1, 1], (9, bytes)));
                let case = format!("{load} << {shift} + {offset} + {base}, {bytes}");
                assert_eq!(together, alone, "{case}");
                if base == "0" {
                    assert_eq!(alone.is_ok(), in_bounds && is_aligned, "{case}: {alone:?}");
                }
            }
        }
    }
}

/// Factors that are powers of two are shifts.
#[test]
fn products_with_powers_of_two() {
    let load = "mul.wide.u32 %x0, %i, 4; add.u64 %x1, %in, %x0; add.u64 %x2, %out, %x0; \
                ld.global.u32 %r3, [%x1];";
    for factor in ["1", "2", "0x40000000", "-2147483648", "0", "3", "-4"] {
        agree(&format!(
            "{load} mul.lo.u32 %r4, %r3, {factor}; mul.lo.s32 %r5, {factor}, %r3; \
             mad.lo.u32 %r5, %r5, 7, %r4; mad.lo.s32 %r4, %r3, {factor}, %r3; \
             xor.b32 %r5, %r5, %r4; add.u32 %r5, %r5, 1; st.global.u32 [%x2], %r5;"
        ));
    }
    let source = kernel(&format!(
        "{load} mul.lo.u32 %r4, %r3, 16; sub.u32 %r4, %r4, %r3; st.global.u32 [%x2], %r4;"
    ));
    let words = run(&source, Always, 1, [64, 1, 1], 0).unwrap();
    let word = |i: u32| i.wrapping_mul(2_654_435_761) >> 7;
    assert!((0..64).all(|i| words[i as usize] == word(i).wrapping_mul(15)));
}

#[test]
fn atomics_in_shared_memory() {
    for (operation, result) in [
        ("add.u32 %r7, [%r6], %r3", "%r7"),
        ("min.s32 %r7, [%r6], %r3", "%r7"),
        ("max.u32 %r7, [%r6], %r3", "%r7"),
        ("and.b32 %r7, [%r6], %r3", "%r7"),
        ("xor.b32 %r7, [%r6], %r3", "%r7"),
        ("exch.b32 %r7, [%r6], %r3", "%r7"),
        ("inc.u32 %r7, [%r6], 20", "%r7"),
        ("cas.b32 %r7, [%r6], 0, %r3", "%r7"),
        ("add.f32 %f1, [%r6], 0f3FC00000", "%f1"),
    ] {
        agree(&format!(
            "{ADDRESSES} ld.global.u32 %r3, [%x1]; mov.u32 %r4, tile; and.b32 %r5, %r3, 3; mad.lo.u32 %r6, %r5, 4, %r4; \
             mov.u32 %r7, 0; mad.lo.u32 %r8, %r2, 4, %r4; st.shared.u32 [%r8], %r7; bar.sync 0; \
             atom.shared.{operation}; mov.b32 %r7, {result}; add.u32 %r7, %r7, 1; bar.sync 0; ld.shared.u32 %r9, [%r6]; \
             mad.lo.u32 %r9, %r9, 3, %r7; st.global.u32 [%x2], %r9;"
        ));
    }
}

/// Addresses in shared memory at a distance from each other, and anywhere.
#[test]
fn scattered_shared_memory() {
    for address in [
        "mul.lo.u32 %r4, %r2, 12; add.u32 %r4, %r4, %r11;",
        "mul.lo.u32 %r4, %r2, -8; add.u32 %r4, %r4, %r11; add.u32 %r4, %r4, 1000;",
        "xor.b32 %r4, %r2, 21; mad.lo.u32 %r4, %r4, 4, %r11;",
        "and.b32 %r4, %r3, 124; add.u32 %r4, %r4, %r11;",
    ] {
        for bytes in ["u8", "u32", "v2.u32"] {
            let to = if bytes == "v2.u32" {
                "{%r6, %r7}"
            } else {
                "%r6"
            };
            agree(&format!(
                "{ADDRESSES} {FILL} ld.global.u32 %r3, [%x1]; {address} and.b32 %r4, %r4, 0xFFFFFFF8; mov.u32 %r7, 3; ld.shared.{bytes} {to}, [%r4+16]; \
                 mad.lo.u32 %r9, %r6, 5, %r7; add.u32 %r9, %r9, 1; st.global.u32 [%x2], %r9;"
            ));
        }
    }
}

#[test]
fn gathers_and_atomics() {
    agree(&format!(
        "{ADDRESSES} ld.global.u32 %r3, [%x1]; and.b32 %r3, %r3, 1023; mul.wide.u32 %x3, %r3, 4; \
         add.u64 %x3, %in, %x3; ld.global.u32 %r4, [%x3]; st.global.u32 [%x2], %r4; \
         and.b32 %r5, %r4, 7; mul.wide.u32 %x4, %r5, 4; add.u64 %x4, %out, %x4; \
         red.global.add.u32 [%x4+8192], 1; atom.global.max.u32 %r6, [%x4+12288], %r4;"
    ));
}
