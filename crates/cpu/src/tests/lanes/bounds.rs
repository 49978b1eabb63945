//! Accesses around both ends of memory, of any form: threads that run together find the same in bounds as
//! threads that run alone.

use super::{ADDRESSES, kernel, run_image};
use crate::source::compile_image;
use crate::{CompileOptions, Vectorization};

/// The kernels of every test run; `PTXKIT_BOUNDS_KERNELS` asks for more.
const KERNELS: u64 = 300;

/// Numbers that look random, from that of a kernel on (SplitMix64).
struct Choices(u64);

impl Choices {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ z >> 31
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.next() as usize % all.len()]
    }

    fn one_in(&mut self, count: u64) -> bool {
        self.next().is_multiple_of(count)
    }
}

/// An access of so many bytes; `AT` stands for its address.
const ACCESSES: [(i64, &str); 37] = [
    (1, "ld.SPACE.u8 %r9, AT;"),
    (1, "ld.SPACE.s8 %r9, AT;"),
    (2, "ld.SPACE.u16 %r9, AT;"),
    (2, "ld.SPACE.b16 %h0, AT; cvt.u32.u16 %r9, %h0;"),
    (4, "ld.SPACE.u32 %r9, AT;"),
    (4, "ld.SPACE.f32 %f0, AT; mov.b32 %r9, %f0;"),
    (8, "ld.SPACE.u64 %x5, AT; cvt.u32.u64 %r9, %x5;"),
    (
        8,
        "ld.SPACE.f64 %g0, AT; mov.b64 %x5, %g0; cvt.u32.u64 %r9, %x5;",
    ),
    (2, "ld.SPACE.v2.u8 {%h0, %h1}, AT; cvt.u32.u16 %r9, %h1;"),
    (4, "ld.SPACE.v2.b16 {%h0, %h1}, AT; cvt.u32.u16 %r9, %h1;"),
    (8, "ld.SPACE.v2.u32 {%r8, %r9}, AT; add.u32 %r9, %r9, %r8;"),
    (16, "ld.SPACE.v2.u64 {%x4, %x5}, AT; cvt.u32.u64 %r9, %x5;"),
    (
        4,
        "ld.SPACE.v4.u8 {%h0, %h1, %h2, %h3}, AT; cvt.u32.u16 %r9, %h3;",
    ),
    (
        8,
        "ld.SPACE.v4.b16 {%h0, %h1, %h2, %h3}, AT; cvt.u32.u16 %r9, %h3;",
    ),
    (
        16,
        "ld.SPACE.v4.u32 {%r7, %r8, %r9, %r6}, AT; add.u32 %r9, %r9, %r6;",
    ),
    (
        16,
        "ld.SPACE.v4.f32 {%f0, %f1, %f2, %f3}, AT; mov.b32 %r9, %f3;",
    ),
    (4, "ld.volatile.SPACE.u32 %r9, AT;"),
    // Three times: loops of products consist of it.
    (4, "ld.SPACE.f32 %f0, AT; mov.b32 %r9, %f0;"),
    (4, "ld.SPACE.f32 %f0, AT; mov.b32 %r9, %f0;"),
    (
        16,
        "ld.SPACE.b128 %q0, AT; mov.b128 {%x4, %x5}, %q0; cvt.u32.u64 %r9, %x5;",
    ),
    (1, "st.SPACE.u8 AT, 7;"),
    (2, "st.SPACE.b16 AT, %h4;"),
    (4, "st.SPACE.u32 AT, 7;"),
    (4, "st.SPACE.f32 AT, %f4;"),
    (8, "st.SPACE.f64 AT, %g1;"),
    (8, "st.SPACE.v2.u32 AT, {7, 7};"),
    (16, "st.SPACE.v4.f32 AT, {%f4, %f4, %f4, %f4};"),
    (8, "st.SPACE.v4.b16 AT, {%h4, %h4, %h4, %h4};"),
    (16, "st.SPACE.v2.f64 AT, {%g1, %g1};"),
    (4, "atom.SPACE.add.u32 %r9, AT, 1; mov.u32 %r9, 0;"),
    (8, "atom.SPACE.add.u64 %x5, AT, 1;"),
    (4, "red.SPACE.add.u32 AT, 1;"),
    (4, "red.SPACE.max.u32 AT, 7;"),
    (
        4,
        "cp.async.ca.shared.global AT, [%x7+64], 4; cp.async.wait_all;",
    ),
    (
        8,
        "cp.async.ca.shared.global AT, [%x7+64], 8; cp.async.wait_all;",
    ),
    (
        16,
        "cp.async.cg.shared.global AT, [%x7+64], 16; cp.async.wait_all;",
    ),
    (
        16,
        "cp.async.cg.shared.global AT, [%x7+64], 16, %r14; cp.async.wait_all;",
    ),
];

/// Bytes of `tile`, and of the array that a kernel writes.
const SHARED: i64 = 4096;
const GLOBAL: i64 = 16384;
const THREADS: i64 = 64;

/// A kernel whose accesses start at `n` bytes from the start of memory.
struct Case {
    source: String,
    /// Around those that just fit.
    starts: Vec<i64>,
    /// Each thread has one access. Of several, those of other threads may come first where threads run
    /// together, so that another one is reported.
    is_one: bool,
}

/// Code for how far a thread's address is from the lowest one, in `%r10`, and how far the highest is.
fn distance(choices: &mut Choices, bytes: i64) -> (String, i64) {
    let last = THREADS - 1;
    match choices.next() % 8 {
        0 => (
            format!("xor.b32 %r10, %r2, 5; mul.lo.u32 %r10, %r10, {bytes};"),
            last * bytes,
        ),
        1 => (
            format!("and.b32 %r10, %r3, {last}; mul.lo.u32 %r10, %r10, {bytes};"),
            last * bytes,
        ),
        2 => (
            format!("shr.u32 %r10, %r2, 2; mul.lo.u32 %r10, %r10, {bytes};"),
            last / 4 * bytes,
        ),
        _ => {
            let stride = choices.of(&[bytes, bytes, bytes, 2 * bytes, 0, 16, 12, -bytes, 64]);
            let all = stride * last;
            let first = (-all).max(0);
            (
                format!("mad.lo.s32 %r10, %r2, {stride}, {first};"),
                all.abs(),
            )
        }
    }
}

fn case(number: u64) -> Case {
    let mut choices = Choices(number);
    let (bytes, access) = choices.of(&ACCESSES);
    let is_copy = access.starts_with("cp");
    let changes = ["st", "atom", "red"]
        .iter()
        .any(|op| access.starts_with(op));
    // The last one is that of shared memory by generic addresses.
    let space = if is_copy {
        "shared"
    } else {
        choices.of(&["shared", "global", "", "generic"])
    };
    let size = if matches!(space, "shared" | "generic") {
        SHARED
    } else {
        GLOBAL
    };
    let (at, ty) = if space == "shared" {
        ("%r11", "s32")
    } else {
        ("%x6", "s64")
    };
    let base = match space {
        "shared" => "mov.u32 %r11, tile; add.u32 %r11, %r11, %r10; add.s32 %r11, %r11, %n;",
        "generic" => {
            "mov.u32 %r11, tile; add.u32 %r11, %r11, %r10; cvt.u64.u32 %x6, %r11; \
             cvta.shared.u64 %x6, %x6; cvt.s64.s32 %x4, %n; add.s64 %x6, %x6, %x4;"
        }
        _ => {
            "cvt.u64.u32 %x4, %r10; add.s64 %x6, %out, %x4; cvt.s64.s32 %x4, %n; add.s64 %x6, %x6, %x4;"
        }
    };
    let (distance, farthest) = distance(&mut choices, bytes);

    // Others by the same register may be checked together.
    let mut offsets = vec![choices.of(&[0, 0, 16, -16, 4096])];
    while choices.one_in(4) {
        offsets.push(offsets[0] + choices.of(&[bytes, -bytes, 16, 64, -256]));
    }
    let dotted = match space {
        "" | "generic" => String::new(),
        space => format!(".{space}"),
    };
    let multiplies = access.contains(".f32 %f0") && choices.one_in(2);
    let accesses: String = offsets
        .iter()
        .map(|offset| {
            let access = access
                .replace(".SPACE", &dotted)
                .replace("AT", &format!("[{at}+{offset}]"));
            match (multiplies, access.split_once(';')) {
                (true, Some((load, _))) => format!("{load}; fma.rn.f32 %f5, %f0, %f4, %f5;"),
                _ => access,
            }
        })
        .collect();
    let guards = ["%r13, 8", "%r2, 20", "%r0, 1"]
        .map(|limit| format!("setp.ge.u32 %p0, {limit}; @%p0 bra SKIP;"));
    let guard = if multiplies || choices.one_in(2) {
        ""
    } else {
        guards[choices.next() as usize % guards.len()].as_str()
    };
    let body = if multiplies {
        // A loop of nothing but loads and arithmetic.
        accesses
    } else {
        format!("{guard} {accesses} SKIP: mad.lo.u32 %r12, %r12, 31, %r9;")
    };
    let iterations = if choices.one_in(3) {
        choices.of(&[2, 3, 4, 7, 16])
    } else {
        1
    };
    let step = choices.of(&[bytes, bytes, 16, 64, -bytes, -64, 0]);
    let body = match iterations {
        1 => body,
        _ => format!(
            "mov.u32 %r15, 0; AGAIN: {body} add.{ty} {at}, {at}, {step}; add.u32 %r15, %r15, 1; \
             setp.lt.u32 %p1, %r15, {iterations}; @%p1 bra AGAIN;"
        ),
    };

    let moved = step * (iterations - 1);
    let lowest = offsets.iter().min().unwrap() + moved.min(0);
    let highest = offsets.iter().max().unwrap() + moved.max(0) + farthest + bytes;
    let beyond = [
        0,
        bytes,
        1,
        2 * bytes,
        16 * bytes,
        SHARED,
        4 * SHARED,
        1 << 20,
    ];
    let starts = beyond
        .iter()
        .flat_map(|beyond| [-lowest - beyond, size - highest + beyond]);

    let fill: String = (0..4)
        .map(|n| {
            format!(
                "st.shared.v4.u32 [%r5+{}], {{%r2, %r3, %r2, {n}}}; ",
                n * 1024
            )
        })
        .collect();
    let shuffle = choices.of(&["", "shfl.sync.bfly.b32 %r4, %r2, 1, 31, -1;"]);
    let last = if changes {
        ""
    } else {
        "mov.b32 %r9, %f5; add.u32 %r12, %r12, %r9; st.global.u32 [%x2], %r12;"
    };
    let source = kernel(&format!(
        ".reg .b16 %h<8>; .reg .b128 %q<1>; {ADDRESSES} ld.global.u32 %r3, [%x1]; mov.u32 %r13, %laneid; \
         mov.u32 %r14, 7; mov.u32 %r9, 1; mov.u32 %r12, 5; mov.u16 %h4, 7; mov.f32 %f4, 0f40400000; \
         mov.f32 %f5, %f4; mov.f64 %g1, 0d4008000000000000; mad.wide.u32 %x7, %r2, {bytes}, %out; \
         mov.u32 %r5, tile; mad.lo.u32 %r5, %r2, 16, %r5; {fill} {shuffle} bar.sync 0; \
         {distance} {base} {body} bar.sync 0; {last} \
         ld.shared.v4.u32 {{%r5, %r6, %r7, %r8}}, [%r5]; add.u32 %r5, %r5, %r6; xor.b32 %r5, %r5, %r7; \
         st.global.u32 [%x2+8192], %r5;"
    ));
    let required = choices.of(&["", ".reqntid 64"]);
    Case {
        source: source.replace(".param .u32 n) {", &format!(".param .u32 n) {required} {{")),
        starts: starts.collect(),
        is_one: iterations == 1 && offsets.len() == 1,
    }
}

#[test]
fn together_as_alone() {
    let kernels =
        std::env::var("PTXKIT_BOUNDS_KERNELS").map_or(KERNELS, |all| all.parse().unwrap());
    let [mut good, mut bad] = [0; 2];
    for number in 0..kernels {
        let Case {
            source,
            starts,
            is_one,
        } = case(number);
        let images = [Vectorization::Never, Vectorization::Always].map(|vectorization| {
            compile_image(&source, &CompileOptions { vectorization }).unwrap()
        });
        for start in starts {
            let [alone, together] = [0, 1].map(|image| {
                let image = images[image].clone();
                run_image(image, 1, [THREADS as u32, 1, 1], (start as u32, 0))
            });
            let known = format!("kernel {number} at {start}");
            match &alone {
                Ok(_) => {
                    good += 1;
                    assert!(together == alone, "{known}: {:?}\n{source}", together.err());
                }
                Err(alone) => {
                    bad += 1;
                    assert!(together.is_err(), "{known}: {alone}\n{source}");
                }
            }
            if is_one && alone.is_err() {
                assert_eq!(together, alone, "{known}\n{source}");
            }
        }
    }
    // Both happen often.
    assert!(good > kernels && bad > kernels, "{good} {bad}");
}

/// A distance of up to 64 bits between a register and the address is added to it.
#[test]
fn distances_of_64_bits_are_added() {
    for distance in [
        "0x7FFFFFFF",
        "0x80000000",
        "0x100000000",
        "-0x80000000",
        "-0x80000001",
        "0x7FFFFFFFFFFFFFF0",
        "-0x7FFFFFFFFFFFFFFF",
        "-0x8000000000000000",
    ] {
        super::agree(&format!(
            "{ADDRESSES} mov.u64 %x3, {distance}; sub.u64 %x3, %x1, %x3; sub.u64 %x4, %x3, 4; \
             ld.global.u32 %r3, [%x3+{distance}]; @%p0 ld.global.u32 %r3, [%x4+{distance}]; \
             st.global.u32 [%x2], %r3;"
        ));
    }
}
