//! Inputs for which GPUs do not give what the PTX ISA states, all of them seen on
//! an H200 and in the code that CUDA's compiler makes: it has no instruction for
//! these bodies, and what it puts together instead is not the same everywhere.
//! The CPU device does what is stated.

/// Whether the result of a GPU for this input is not that of the PTX ISA.
pub fn departs(body: &str, input: &[u64; 4]) -> bool {
    let [a, b, c, d] = input.map(|bits| bits as u32);
    let opcode = body.split_whitespace().next().unwrap_or_default();
    let mut words = opcode.split('.');
    let (name, types): (_, Vec<&str>) = (
        words.next().unwrap_or_default(),
        words.by_ref().take(3).collect(),
    );
    let rest: Vec<&str> = words.collect();
    let signed = |n: u32| n > i32::MAX as u32;
    match (name, &types[..]) {
        // Places and lengths are taken whole, not modulo 256 as stated (and as the
        // instructions for 32 bits do).
        ("bfe", ["u64" | "s64"]) => b > 0xFF || c > 0xFF,
        ("bfi", ["b64"]) => c > 0xFF || d > 0xFF,
        // `c` is taken for signed, and so are factors of 32 bits.
        ("vmad", ["u32", "u32", "u32"]) if rest.contains(&"sat") => {
            signed(a) || signed(b) || signed(c)
        }
        ("vmad", ["u32", "u32", "u32"]) if !rest.is_empty() => signed(c),
        // What is saturated to 32 bits without a sign is not clamped from above, and
        // compares as though it were larger than any `c` where its highest bit is 1.
        ("vadd" | "vsub" | "vshl", &["u32", of_a, of_b])
            if matches!(&rest[..], ["sat", .., "min" | "max"]) =>
        {
            let value = |n: u32, ty| match ty {
                "s32" => i64::from(n.cast_signed()),
                _ => i64::from(n),
            };
            let between = match name {
                "vadd" => value(a, of_a) + value(b, of_b),
                "vsub" => value(a, of_a) - value(b, of_b),
                // Of `%r0.h1` and `%r1.b0`, in 34 bits.
                _ => {
                    let amount = match rest[1] {
                        "wrap" => b & 31,
                        _ => (b & 0xFF).min(32),
                    };
                    let high = match of_a {
                        "s32" => i64::from(a.cast_signed() >> 16),
                        _ => i64::from(a >> 16),
                    };
                    high << amount << 30 >> 30
                }
            };
            between > i64::from(i32::MAX)
        }
        _ => false,
    }
}

#[test]
fn only_named_inputs_depart() {
    for (body, input, expected) in [
        ("bfe.u64 %d, %a0, %r1, %r2;", [1, 255, 255, 0], false),
        ("bfe.u64 %d, %a0, %r1, %r2;", [1, 256, 8, 0], true),
        ("bfe.u32 %rd, %r0, %r1, %r2;", [1, 256, 8, 0], false),
        ("bfi.b64 %d, %a0, %a1, %r2, %r3;", [1, 256, 8, 255], false),
        (
            "vadd.u32.u32.u32.sat.min %rd, %r0, %r1, %r2;",
            [1 << 31, 0, 0, 0],
            true,
        ),
        (
            "vadd.u32.u32.u32.sat.min %rd, %r0, %r1, %r2;",
            [1, 1, u64::MAX, 0],
            false,
        ),
        (
            "vadd.s32.u32.u32.sat.min %rd, %r0, %r1, %r2;",
            [1 << 31, 0, 0, 0],
            false,
        ),
        (
            "vmad.u32.u32.u32.shr7 %rd, %r0.h0, %r1.h1, %r2;",
            [1 << 31, 0, 0, 0],
            false,
        ),
        (
            "vmad.u32.u32.u32.sat %rd, %r0, %r1, %r2;",
            [1 << 31, 0, 0, 0],
            true,
        ),
    ] {
        assert_eq!(departs(body, &input), expected, "{body} {input:X?}");
    }
}
