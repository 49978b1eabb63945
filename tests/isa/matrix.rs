//! Operations on matrices, against matrices that are multiplied element by element. Where a
//! lane holds which element stands here as the PTX ISA has it, shape by shape.

use std::fmt::Write;

use ptxkit::driver::{Context, DeviceBuffer, LaunchConfig, Module, Stream};

use crate::block::{THREADS, kernel, launch};
use crate::parts::Parts;

/// The elements of a matrix, and how its numbers are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Element {
    pub name: &'static str,
    pub bits: usize,
    /// Exponent and fraction bits of a float.
    pub float: Option<(u32, u32)>,
}

const fn float(name: &'static str, bits: usize, exponent: u32, fraction: u32) -> Element {
    Element {
        name,
        bits,
        float: Some((exponent, fraction)),
    }
}

const fn integer(name: &'static str, bits: usize) -> Element {
    Element {
        name,
        bits,
        float: None,
    }
}

pub const F16: Element = float("f16", 16, 5, 10);
pub const BF16: Element = float("bf16", 16, 8, 7);
pub const TF32: Element = float("tf32", 32, 8, 23);
pub const F32: Element = float("f32", 32, 8, 23);
const F64: Element = float("f64", 64, 11, 52);
pub const E4M3: Element = float("e4m3", 8, 4, 3);
pub const E5M2: Element = float("e5m2", 8, 5, 2);
pub const E2M3: Element = float("e2m3", 6, 2, 3);
pub const E3M2: Element = float("e3m2", 6, 3, 2);
pub const E2M1: Element = float("e2m1", 4, 2, 1);
pub const S8: Element = integer("s8", 8);
pub const U8: Element = integer("u8", 8);
pub const S4: Element = integer("s4", 4);
pub const U4: Element = integer("u4", 4);
pub const B1: Element = integer("b1", 1);
pub const S32: Element = integer("s32", 32);

impl Element {
    /// The bits of a number that the format has, not subnormal.
    pub fn encode(self, value: f64) -> u64 {
        let Some((exponent_bits, fraction_bits)) = self.float else {
            return value as i64 as u64 & (u64::MAX >> (64 - self.bits));
        };
        if value == 0.0 {
            return 0;
        }
        let exponent = value.abs().log2().floor() as i64;
        let fraction = (value.abs() / 2.0_f64.powi(exponent as i32) - 1.0)
            * 2.0_f64.powi(fraction_bits as i32);
        assert_eq!(fraction.fract(), 0.0, "{value} in {}", self.name);
        let biased = (exponent + (1 << (exponent_bits - 1)) - 1) as u64;
        let sign = u64::from(value < 0.0) << (exponent_bits + fraction_bits);
        sign | biased << fraction_bits | fraction as u64
    }

    /// A small number, some of them negative where the format has those.
    fn number(self, seed: usize) -> f64 {
        let small = (seed * 7919 / 13 + seed / 5) % 7;
        match (self.name, self.float) {
            ("b1", _) => (small % 2) as f64,
            (name, None) if name.starts_with('u') => small as f64,
            (_, None) | ("e2m3" | "e2m1", _) => small as f64 - 3.0,
            _ => (small as f64 - 3.0) / 2.0,
        }
    }
}

/// A matrix by rows.
pub type Matrix = Vec<Vec<f64>>;

pub fn matrix(rows: usize, columns: usize, element: Element, seed: usize) -> Matrix {
    let number = |row: usize, column: usize| element.number(seed + row * columns + column);
    (0..rows)
        .map(|row| (0..columns).map(|column| number(row, column)).collect())
        .collect()
}

/// A · B + C, whose sums are exact for the numbers above.
pub fn multiply(a: &Matrix, b: &Matrix, c: &Matrix, product: impl Fn(f64, f64) -> f64) -> Matrix {
    let sum = |row: usize, column: usize| {
        let products = (0..b.len()).map(|k| product(a[row][k], b[k][column]));
        c[row][column] + products.sum::<f64>()
    };
    (0..c.len())
        .map(|row| (0..c[0].len()).map(|column| sum(row, column)).collect())
        .collect()
}

/// Row and column of element `i` of A in a lane.
pub fn place_of_a([m, _, k]: [usize; 3], bits: usize, lane: usize, i: usize) -> (usize, usize) {
    let (group, place) = (lane >> 2, lane % 4);
    let lower = |upper: bool| if upper { group } else { group + 8 };
    match (m, k, bits) {
        (8, 4, 64) => (group, place),
        (8, 16, 8) => (group, place * 4 + i),
        (8, 32, 4) => (group, place * 8 + i),
        (8, 128, 1) => (group, place * 32 + i),
        (16, 16, 16) => (
            lower(i < 2 || (4..6).contains(&i)),
            place * 2 + (i & 1) + if i >= 4 { 8 } else { 0 },
        ),
        (16, 8, 16) => (lower(i < 2), place * 2 + (i & 1)),
        (16, 4, 32 | 64) => (lower(i == 0), place),
        (16, 8, 32 | 64) => (
            lower(i.is_multiple_of(2)),
            if i < 2 { place } else { place + 4 },
        ),
        (16, 16, 64) => (
            lower(i.is_multiple_of(2)),
            if i.is_multiple_of(2) {
                i * 2 + place
            } else {
                i * 2 - 2 + place
            },
        ),
        (16, 16, 8) => (lower(i < 4), place * 4 + (i & 3)),
        (16, 32, 8) => (
            lower(i < 4 || (8..12).contains(&i)),
            place * 4 + (i & 3) + if i >= 8 { 16 } else { 0 },
        ),
        (16, 32, 4) => (lower(i < 8), place * 8 + (i & 7)),
        (16, 64, 4) => (
            lower(i < 8 || (16..24).contains(&i)),
            place * 8 + (i & 7) + if i >= 16 { 32 } else { 0 },
        ),
        (16, 128, 1) => (lower(i < 32), place * 32 + (i & 31)),
        (16, 256, 1) => (
            lower(i < 32 || (64..96).contains(&i)),
            place * 32 + (i & 31) + if i >= 64 { 128 } else { 0 },
        ),
        _ => panic!("A of m{m}k{k}, {bits} bits"),
    }
}

/// Row and column of element `i` of B in a lane.
pub fn place_of_b([_, _, k]: [usize; 3], bits: usize, lane: usize, i: usize) -> (usize, usize) {
    let (group, place) = (lane >> 2, lane % 4);
    let row = match (k, bits) {
        (4, 32 | 64) => place,
        (8, 32 | 64) => place + 4 * i,
        (16, 64) => place + 4 * i,
        // Of a sparse A, B is twice as long.
        (16, 32) => place + 4 * i,
        (32, 16) => place * 2 + (i & 1) + 8 * (i / 2),
        (64, 8) => place * 4 + (i & 3) + 16 * (i / 4),
        (128, 4) => place * 8 + (i & 7) + 32 * (i / 8),
        (8, 16) => place * 2 + i,
        (16, 16) => place * 2 + (i & 1) + if i >= 2 { 8 } else { 0 },
        (16, 8) => place * 4 + i,
        (32, 8) => place * 4 + (i & 3) + if i >= 4 { 16 } else { 0 },
        (32, 4) => place * 8 + i,
        (64, 4) => place * 8 + (i & 7) + if i >= 8 { 32 } else { 0 },
        (128, 1) => place * 32 + i,
        (256, 1) => place * 32 + (i & 31) + if i >= 32 { 128 } else { 0 },
        _ => panic!("B of k{k}, {bits} bits"),
    };
    (row, group)
}

/// Row and column of element `i` of C and D in a lane.
pub fn place_of_c([m, ..]: [usize; 3], _: usize, lane: usize, i: usize) -> (usize, usize) {
    let (group, place) = (lane >> 2, lane % 4);
    match m {
        8 => (group, place * 2 + i),
        _ => (if i < 2 { group } else { group + 8 }, place * 2 + (i & 1)),
    }
}

pub type PlaceOf = fn([usize; 3], usize, usize, usize) -> (usize, usize);

/// The words of a lane's fragment of a matrix.
pub fn fragment(
    matrix: &Matrix,
    place: PlaceOf,
    shape: [usize; 3],
    element: Element,
    lane: usize,
) -> Vec<u32> {
    let count = matrix.len() * matrix[0].len() / 32;
    let mut words = vec![0; (count * element.bits).div_ceil(32)];
    for i in 0..count {
        let (row, column) = place(shape, element.bits, lane, i);
        let bits = element.encode(matrix[row][column]);
        let at = i * element.bits;
        words[at / 32] |= (bits << (at % 32)) as u32;
        if element.bits == 64 {
            words[at / 32 + 1] = (bits >> 32) as u32;
        }
    }
    words
}

/// The registers of an operand, loaded from the input or stored to the output.
pub struct Registers {
    pub list: String,
    pub moves: String,
}

/// Registers of `words` words; `at` counts the words of the thread before them.
pub fn registers(words: usize, wide: bool, at: &mut usize, first: usize, store: bool) -> Registers {
    let (letter, ty, size) = if wide {
        ('x', "b64", 8)
    } else {
        ('r', "b32", 4)
    };
    let count = 4 * words / size;
    let mut moves = String::new();
    for n in 0..count {
        let register = format!("%{letter}{}", first + n);
        let place = 4 * *at + n * size;
        if store {
            writeln!(moves, "st.global.{ty} [%out+{place}], {register};")
        } else {
            writeln!(moves, "ld.global.{ty} {register}, [%in+{place}];")
        }
        .unwrap();
    }
    *at += words;
    let list: Vec<String> = (first..first + count)
        .map(|n| format!("%{letter}{n}"))
        .collect();
    Registers {
        list: list.join(", "),
        moves,
    }
}

/// A `mma` and the types of D, A, B and C.
struct Mma {
    instruction: String,
    shape: [usize; 3],
    types: [Element; 4],
}

impl Mma {
    fn new(shape: [usize; 3], middle: &str, types: [Element; 4], after: &str) -> Mma {
        let [m, n, k] = shape;
        let names = types.map(|element| element.name).join(".");
        Mma {
            instruction: format!("mma.sync.aligned.m{m}n{n}k{k}.row.col{middle}.{names}{after}"),
            shape,
            types,
        }
    }

    /// Runs it for two warps, and compares D with what `product` makes of A, B and C.
    fn check(&self, product: impl Fn(f64, f64) -> f64) {
        let Mma {
            instruction,
            shape,
            types: [d, a, b, c],
        } = self;
        let [m, n, k] = *shape;
        let warps: Vec<[Matrix; 3]> = (0..2)
            .map(|warp| {
                [
                    matrix(m, k, *a, 1 + 100 * warp),
                    matrix(k, n, *b, 37 + 50 * warp),
                    matrix(m, n, *c, 11 * (warp + 1)),
                ]
            })
            .collect();
        let places: [PlaceOf; 3] = [place_of_a, place_of_b, place_of_c];
        let of_lane = |thread: usize| -> Vec<Vec<u32>> {
            let matrices = warps[thread / 32].iter().zip(places).zip([*a, *b, *c]);
            matrices
                .map(|((matrix, place), element)| {
                    fragment(matrix, place, *shape, element, thread % 32)
                })
                .collect()
        };
        let sizes: Vec<usize> = of_lane(0).iter().map(Vec::len).collect();
        let results = (m * n * d.bits / 1024).max(1);
        let wide = d.bits == 64;
        let (mut input, mut output) = (0, 0);
        let [a_, b_, c_] =
            [0, 1, 2].map(|n| registers(sizes[n], wide, &mut input, 10 * (n + 1), false));
        let d_ = registers(results, wide, &mut output, 0, true);
        let body = format!(
            "{}{}{}{instruction} {{{}}}, {{{}}}, {{{}}}, {{{}}};\n{}",
            a_.moves, b_.moves, c_.moves, d_.list, a_.list, b_.list, c_.list, d_.moves
        );
        let words: Vec<u32> = (0..THREADS).flat_map(|t| of_lane(t).concat()).collect();
        let text = kernel(input, output, &body);
        let found = launch(&text, 1, &words, THREADS * output);
        for thread in 0..THREADS {
            let [a, b, c] = &warps[thread / 32];
            let expected = multiply(a, b, c, &product);
            let expected = fragment(&expected, place_of_c, *shape, *d, thread % 32);
            let found = &found[thread * output..][..output];
            // Rounded down, a sum of 0 is -0.
            let doubles = |words: &[u32]| -> Vec<f64> {
                let pairs = words.chunks_exact(2);
                pairs
                    .map(|pair| f64::from_bits(u64::from(pair[1]) << 32 | u64::from(pair[0])))
                    .collect()
            };
            let same = if wide {
                doubles(found) == doubles(&expected)
            } else {
                found == expected
            };
            assert!(
                same,
                "{instruction}, thread {thread}: {found:X?}, not {expected:X?}"
            );
        }
    }
}

pub fn times(a: f64, b: f64) -> f64 {
    a * b
}

#[test]
fn products_of_floats() {
    for k in [8, 16] {
        Mma::new([16, 8, k], "", [F16; 4], "").check(times);
        Mma::new([16, 8, k], "", [F32, F16, F16, F32], "").check(times);
        Mma::new([16, 8, k], "", [F32, BF16, BF16, F32], "").check(times);
    }
    for k in [4, 8] {
        Mma::new([16, 8, k], "", [F32, TF32, TF32, F32], "").check(times);
    }
    for a in [E4M3, E5M2] {
        for b in [E4M3, E5M2] {
            for sum in [F16, F32] {
                for k in [16, 32] {
                    Mma::new([16, 8, k], "", [sum, a, b, sum], "").check(times);
                }
            }
        }
    }
}

#[test]
fn products_of_doubles() {
    for shape in [[8, 8, 4], [16, 8, 4], [16, 8, 8], [16, 8, 16]] {
        for rounding in ["", ".rn", ".rz", ".rm", ".rp"] {
            Mma::new(shape, rounding, [F64; 4], "").check(times);
        }
    }
}

#[test]
fn products_of_integers() {
    for satfinite in ["", ".satfinite"] {
        for (elements, shapes) in [
            ([S8, U8], [[8, 8, 16], [16, 8, 16], [16, 8, 32]]),
            ([S4, U4], [[8, 8, 32], [16, 8, 32], [16, 8, 64]]),
        ] {
            for shape in shapes {
                for a in elements {
                    for b in elements {
                        // Of mixed signs, once is enough.
                        if a == b || satfinite.is_empty() {
                            Mma::new(shape, satfinite, [S32, a, b, S32], "").check(times);
                        }
                    }
                }
            }
        }
    }
    for shape in [[8, 8, 128], [16, 8, 128], [16, 8, 256]] {
        let types = [S32, B1, B1, S32];
        Mma::new(shape, "", types, ".xor.popc").check(|a, b| f64::from(a != b));
        Mma::new(shape, "", types, ".and.popc").check(times);
    }
}

/// C is a register of the result, and constants stand for registers.
#[test]
fn sums_accumulate_in_place() {
    let body = "ld.global.b32 %r10, [%in]; mov.b32 %r20, %r10;\n\
         mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%r0, %r1, %r2, %r3}, {%r10, %r10, %r10, %r10}, {%r20, %r20}, {0f00000000, 0f3F800000, 0f40000000, 0f40400000};\n\
         mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%r0, %r1, %r2, %r3}, {%r10, %r10, %r10, %r10}, {%r20, %r20}, {%r0, %r1, %r2, %r3};\n\
         mov.u32 %r30, 0;\n\
         L: mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%r0, %r1, %r2, %r3}, {%r10, %r10, %r10, %r10}, {%r20, %r20}, {%r0, %r1, %r2, %r3};\n\
         add.u32 %r30, %r30, 1; setp.lt.u32 %p0, %r30, 5; @%p0 bra L;\n\
         st.global.v4.b32 [%out], {%r0, %r1, %r2, %r3};";
    let found = launch(
        &kernel(1, 4, body),
        1,
        &[1.5_f32.to_bits(); THREADS],
        4 * THREADS,
    );
    // Seven times eight products of 2.25.
    for (at, bits) in found.into_iter().enumerate() {
        let expected = (at % 4) as f32 + 7.0 * 8.0 * 2.25;
        assert_eq!(f32::from_bits(bits), expected, "{at}");
    }
}

/// Sums wrap around, or are clamped; a NaN is the canonical one.
#[test]
fn sums_out_of_range() {
    let run = |satfinite: &str| {
        let body = format!(
            "mov.b32 %r1, 0x7F7F7F7F;\n\
             mma.sync.aligned.m8n8k16.row.col{satfinite}.s32.s8.s8.s32 {{%r2, %r3}}, {{%r1}}, {{%r1}}, {{%r4, %r5}};\n\
             st.global.v2.b32 [%out], {{%r2, %r3}};"
        );
        let body = format!("mov.b32 %r4, 0x7FFFFFFF; mov.b32 %r5, -5;\n{body}");
        launch(&kernel(1, 2, &body), 1, &[0; THREADS], 2 * THREADS)
    };
    let sum = 16 * 127 * 127;
    assert_eq!(
        run("")[..2],
        [i32::MAX.wrapping_add(sum).cast_unsigned(), (sum - 5) as u32]
    );
    assert_eq!(run(".satfinite")[..2], [i32::MAX as u32, (sum - 5) as u32]);
    let body = "mov.b32 %r1, 0x7FC00001; mov.b32 %r2, 0;\n\
         mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32 {%r4, %r5, %r6, %r7}, {%r1, %r1}, {%r1}, {%r2, %r2, %r2, %r2};\n\
         st.global.v4.b32 [%out], {%r4, %r5, %r6, %r7};";
    let found = launch(&kernel(1, 4, body), 1, &[0; THREADS], 4 * THREADS);
    assert_eq!(found, [0x7FFF_FFFF; 4 * THREADS]);
}

/// Four groups of eight lanes multiply matrices of their own.
#[test]
fn products_of_quad_pairs() {
    // Row and column of element `i` in the matrices of a quad pair.
    let line = |lane: usize| lane % 4 + if lane < 16 { 0 } else { 4 };
    let of_a = |columns: bool, lane: usize, i: usize| {
        if !columns {
            (line(lane), i)
        } else {
            (i % 4 + if lane < 16 { 0 } else { 4 }, lane % 4)
        }
    };
    let of_b = |columns: bool, lane: usize, i: usize| {
        if !columns {
            (lane % 4, i + if lane < 16 { 0 } else { 4 })
        } else {
            (i, line(lane))
        }
    };
    let of_c = |element: Element, lane: usize, i: usize| match element.bits {
        16 => (line(lane), i),
        _ => {
            let x = (lane & 1) + (i & 2);
            let row = if lane < 16 { x } else { x + 4 };
            (row, (i & 4) + (lane & 2) + (i & 1))
        }
    };
    for (d, c) in [(F16, F16), (F32, F16), (F32, F32)] {
        for (a_columns, b_columns) in [(false, false), (false, true), (true, false), (true, true)] {
            let matrices = |thread: usize| {
                let seed = thread % 16 / 4 * 31 + thread / 32 * 17;
                [
                    matrix(8, 4, F16, seed),
                    matrix(4, 8, F16, seed + 5),
                    matrix(8, 8, c, seed + 9),
                ]
            };
            let pack = |element: Element, bits: Vec<u64>| -> Vec<u32> {
                match element.bits {
                    16 => bits
                        .chunks(2)
                        .map(|pair| (pair[0] | pair[1] << 16) as u32)
                        .collect(),
                    _ => bits.into_iter().map(|bits| bits as u32).collect(),
                }
            };
            let of_lane = |thread: usize| {
                let lane = thread % 32;
                let [a, b, c_] = matrices(thread);
                let bits = |matrix: &Matrix, element: Element, (row, column): (usize, usize)| {
                    element.encode(matrix[row][column])
                };
                [
                    pack(
                        F16,
                        (0..4)
                            .map(|i| bits(&a, F16, of_a(a_columns, lane, i)))
                            .collect(),
                    ),
                    pack(
                        F16,
                        (0..4)
                            .map(|i| bits(&b, F16, of_b(b_columns, lane, i)))
                            .collect(),
                    ),
                    pack(c, (0..8).map(|i| bits(&c_, c, of_c(c, lane, i))).collect()),
                ]
            };
            let (mut input, mut output) = (0, 0);
            let [a, b, c_] = [2, 2, 8 * c.bits / 32];
            let a = registers(a, false, &mut input, 10, false);
            let b = registers(b, false, &mut input, 20, false);
            let c_ = registers(c_, false, &mut input, 30, false);
            let results = registers(8 * d.bits / 32, false, &mut output, 0, true);
            let layout = |columns: bool| if columns { "col" } else { "row" };
            let body = format!(
                "{}{}{}mma.sync.aligned.m8n8k4.{}.{}.{}.f16.f16.{} {{{}}}, {{{}}}, {{{}}}, {{{}}};\n{}",
                a.moves,
                b.moves,
                c_.moves,
                layout(a_columns),
                layout(b_columns),
                d.name,
                c.name,
                results.list,
                a.list,
                b.list,
                c_.list,
                results.moves
            );
            let words: Vec<u32> = (0..THREADS).flat_map(|t| of_lane(t).concat()).collect();
            let found = launch(&kernel(input, output, &body), 1, &words, THREADS * output);
            for thread in 0..THREADS {
                let [a, b, c_] = matrices(thread);
                let product = multiply(&a, &b, &c_, times);
                let bits = (0..8).map(|i| {
                    let (row, column) = of_c(d, thread % 32, i);
                    d.encode(product[row][column])
                });
                let expected = pack(d, bits.collect());
                assert_eq!(
                    found[thread * output..][..output],
                    expected,
                    "{body} {thread}"
                );
            }
        }
    }
}

/// The bytes of a matrix in memory, and the elements from a line to the next.
fn in_memory(matrix: &Matrix, columns: bool, element: Element, distance: usize) -> Vec<u32> {
    let (rows, width) = (matrix.len(), matrix[0].len());
    let lines = if columns { width } else { rows };
    let mut bytes = vec![0_u8; lines * distance * element.bits / 8];
    for (row, line) in matrix.iter().enumerate() {
        for (column, &value) in line.iter().enumerate() {
            let (line, at) = if columns {
                (column, row)
            } else {
                (row, column)
            };
            let bit = (line * distance + at) * element.bits;
            for (n, byte) in element.encode(value).to_le_bytes().into_iter().enumerate() {
                if 8 * n < element.bits {
                    bytes[bit / 8 + n] |= byte << (bit % 8);
                }
            }
        }
    }
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    let words = bytes.chunks_exact(4);
    words
        .map(|word| u32::from_le_bytes(word.try_into().unwrap()))
        .collect()
}

/// Loads A, B and C, multiplies and stores D, through memory that this test lays out.
fn check_wmma(shape: [usize; 3], types: [Element; 4], counts: [usize; 4], extra: [&str; 2]) {
    let [m, n, k] = shape;
    let [d, a, b, c] = types;
    let [before, after] = extra;
    let halves = [(false, true), (true, false), (false, false), (true, true)];
    // Less than a byte is along k only.
    let layouts = if a.bits < 8 {
        &halves[..1]
    } else {
        &halves[..]
    };
    for &(a_columns, b_columns) in layouts {
        for spaced in [false, true] {
            let matrices = [
                (matrix(m, k, a, 3), a_columns, a),
                (matrix(k, n, b, 8), b_columns, b),
                (matrix(m, n, c, 21), spaced, c),
            ];
            let layout = |columns: bool| if columns { "col" } else { "row" };
            let (mut words, mut body) = (Vec::new(), "mov.u64 %x30, %in;\n".to_owned());
            // All threads have the same address.
            body += "mul.wide.u32 %x31, %t, 4;\nsub.s64 %x30, %x30, %x31;\n";
            let mut lists = Vec::new();
            for (number, (matrix, columns, element)) in matrices.iter().enumerate() {
                let line = if *columns {
                    matrix.len()
                } else {
                    matrix[0].len()
                };
                let distance = if spaced { 2 * line } else { line };
                let name = ["a", "b", "c"][number];
                let wide = element.bits == 64;
                let letter = if wide { "x" } else { "r" };
                let first = if wide { 8 * number } else { 10 * (number + 1) };
                let list: Vec<String> = (first..first + counts[number + 1])
                    .map(|n| format!("%{letter}{n}"))
                    .collect();
                let list = list.join(", ");
                let stride = if spaced {
                    format!(", {distance}")
                } else {
                    String::new()
                };
                writeln!(
                    body,
                    "wmma.load.{name}.sync.aligned.{}.m{m}n{n}k{k}.global.{} {{{list}}}, [%x30+{}]{stride};",
                    layout(*columns),
                    element.name,
                    4 * words.len()
                )
                .unwrap();
                lists.push(list);
                words.extend(in_memory(matrix, *columns, *element, distance));
                words.resize(words.len().next_multiple_of(32), 0);
            }
            let letter = if d.bits == 64 { "x" } else { "r" };
            let first = if d.bits == 64 { 24 } else { 0 };
            let results: Vec<String> = (first..first + counts[0])
                .map(|n| format!("%{letter}{n}"))
                .collect();
            let results = results.join(", ");
            let names = match a.name {
                "f16" => format!("{}.{}", d.name, c.name),
                _ => types.map(|element| element.name).join("."),
            };
            writeln!(
                body,
                "wmma.mma{before}.sync.aligned.{}.{}.m{m}n{n}k{k}.{names}{after} {{{results}}}, {{{}}}, {{{}}}, {{{}}};\n\
                 setp.ge.u32 %p0, %t, 32;\n@%p0 bra END;\n\
                 wmma.store.d.sync.aligned.row.m{m}n{n}k{k}.{} [%out], {{{results}}}, {n};\nEND:",
                layout(a_columns),
                layout(b_columns),
                lists[0],
                lists[1],
                lists[2],
                d.name
            )
            .unwrap();
            words.resize(words.len().max(THREADS), 0);
            // Output: one matrix for the block.
            let text = kernel(1, 0, &body);
            let outputs = (m * n * d.bits / 32).max(THREADS);
            let found = launch(&text, 1, &words, outputs);
            let product = |x: f64, y: f64| match before {
                ".xor.popc" => f64::from(x != y),
                _ => x * y,
            };
            let [(a, ..), (b, ..), (c, ..)] = &matrices;
            let expected = in_memory(&multiply(a, b, c, product), false, d, n);
            assert_eq!(found[..expected.len()], expected, "{text}");
        }
    }
}

#[test]
fn products_of_warps() {
    const NONE: [&str; 2] = ["", ""];
    let shapes = [[16, 16, 16], [8, 32, 16], [32, 8, 16]];
    for shape in shapes {
        for (d, c) in [(F16, F16), (F16, F32), (F32, F16), (F32, F32)] {
            let count = |element: Element| if element == F16 { 4 } else { 8 };
            let counts = [count(d), 8, 8, count(c)];
            check_wmma(shape, [d, F16, F16, c], counts, NONE);
        }
    }
    for (shape, halves, bytes) in [
        (shapes[0], [4, 4], [2, 2]),
        (shapes[1], [2, 8], [1, 4]),
        (shapes[2], [8, 2], [4, 1]),
    ] {
        let [a, b] = halves;
        check_wmma(shape, [F32, BF16, BF16, F32], [8, a, b, 8], NONE);
        let [a, b] = bytes;
        for element in [S8, U8] {
            let types = [S32, element, element, S32];
            check_wmma(shape, types, [8, a, b, 8], NONE);
            check_wmma(shape, types, [8, a, b, 8], ["", ".satfinite"]);
        }
    }
    check_wmma([16, 16, 8], [F32, TF32, TF32, F32], [8, 4, 4, 8], NONE);
    check_wmma([8, 8, 4], [F64; 4], [2, 1, 1, 2], NONE);
    for element in [S4, U4] {
        let types = [S32, element, element, S32];
        check_wmma([8, 8, 32], types, [2, 1, 1, 2], NONE);
    }
    let bits = [S32, B1, B1, S32];
    check_wmma([8, 8, 128], bits, [2, 1, 1, 2], [".xor.popc", ""]);
    check_wmma([8, 8, 128], bits, [2, 1, 1, 2], [".and.popc", ""]);
}

/// The half in row `row` and column `column` of a matrix in memory.
fn half(number: usize, row: usize, column: usize) -> u32 {
    (1000 * number + 10 * row + column) as u32
}

#[test]
fn matrices_between_memory_and_registers() {
    // Each warp writes its rows with 48 bytes between them, and each lane knows one.
    let fill = "mul.lo.u32 %r0, %t, 48; mov.u32 %r1, memory; add.u32 %r1, %r1, %r0;\n\
         ld.global.v4.b32 {%r4, %r5, %r6, %r7}, [%in];\n\
         st.shared.v4.b32 [%r1], {%r4, %r5, %r6, %r7}; bar.sync 0;\n";
    let rows: Vec<u32> = (0..THREADS)
        .flat_map(|thread| {
            let (number, row) = (thread / 8, thread % 8);
            (0..4).map(move |n| half(number, row, 2 * n) | half(number, row, 2 * n + 1) << 16)
        })
        .collect();
    for (count, registers) in [
        (1, "%r10"),
        (2, "%r10, %r11"),
        (4, "%r10, %r11, %r12, %r13"),
    ] {
        for trans in ["", ".trans"] {
            let expected: Vec<u32> = (0..THREADS)
                .flat_map(|thread| {
                    let (first, lane) = (thread / 32 * 4, thread % 32);
                    (0..4).map(move |n| {
                        // Lane 4 * row + i holds elements 2 * i and 2 * i + 1 of its row.
                        let (row, column) = (lane / 4, 2 * (lane % 4));
                        let at = |row, column| match (n < count, trans) {
                            (false, _) => 0,
                            (true, "") => half(first + n, row, column),
                            (true, _) => half(first + n, column, row),
                        };
                        at(row, column) | at(row, column + 1) << 16
                    })
                })
                .collect();
            for (space, address) in [(".shared", "%r1"), ("", "%x0")] {
                let body = format!(
                    "{fill}cvt.u64.u32 %x0, %r1; cvta.shared.u64 %x0, %x0;\n\
                     mov.b32 %r10, 0; mov.b32 %r11, 0; mov.b32 %r12, 0; mov.b32 %r13, 0;\n\
                     ldmatrix.sync.aligned.m8n8.x{count}{trans}{space}.b16 {{{registers}}}, [{address}];\n\
                     st.global.v4.b32 [%out], {{%r10, %r11, %r12, %r13}};"
                );
                let found = launch(&kernel(4, 4, &body), 1, &rows, 4 * THREADS);
                assert_eq!(found, expected, "{body}");
            }
            // What is stored in the same way comes back.
            let body = format!(
                "{fill}ldmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 {{{registers}}}, [%r1];\n\
                 add.u32 %r1, %r1, 4096;\n\
                 stmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 [%r1], {{{registers}}};\n\
                 bar.sync 0; ld.shared.v4.b32 {{%r4, %r5, %r6, %r7}}, [%r1];\n\
                 st.global.v4.b32 [%out], {{%r4, %r5, %r6, %r7}};"
            );
            let found = launch(&kernel(4, 4, &body), 1, &rows, 4 * THREADS);
            for thread in (0..THREADS).filter(|thread| thread % 32 < 8 * count) {
                let at = 4 * thread..4 * thread + 4;
                assert_eq!(found[at.clone()], rows[at], "{body}");
            }
        }
    }
    let body = "ld.global.b32 %r0, [%in];\n\
         movmatrix.sync.aligned.m8n8.trans.b16 %r1, %r0;\nst.global.b32 [%out], %r1;";
    let of = |transposed: bool| -> Vec<u32> {
        (0..THREADS)
            .map(|thread| {
                let (row, column) = (thread % 32 / 4, 2 * (thread % 4));
                let at = |row, column| {
                    if !transposed {
                        half(thread / 32, row, column)
                    } else {
                        half(thread / 32, column, row)
                    }
                };
                at(row, column) | at(row, column + 1) << 16
            })
            .collect()
    };
    let found = launch(&kernel(1, 1, body), 1, &of(false), THREADS);
    assert_eq!(found, of(true));
}

/// Row 3 of a matrix is out of bounds, or misaligned.
#[test]
fn a_row_that_cannot_be_read_is_a_fault() {
    use ptxkit::driver::{CudaError, Driver};
    let mut parts = Parts::of("matrix::a_row_that_cannot_be_read_is_a_fault");
    let check = |bad: u32, expected| {
        let body = format!(
            "shl.b32 %r1, %t, 4; setp.eq.u32 %p0, %t, 3; @%p0 mov.u32 %r1, {bad};\n\
             ldmatrix.sync.aligned.m8n8.x1.shared.b16 {{%r2}}, [%r1];\nst.global.b32 [%out], %r2;"
        );
        let device = Driver::cpu().unwrap().device(0).unwrap();
        let context = Context::create(&device, 0).unwrap();
        let stream = Stream::new(&context).unwrap();
        let module = Module::load(&context, kernel(1, 1, &body).as_bytes()).unwrap();
        let input = DeviceBuffer::<u32>::zeroed(&context, 32).unwrap();
        let mut output = DeviceBuffer::<u32>::zeroed(&context, 32).unwrap();
        let kernel = module.kernel("k").unwrap();
        let config = LaunchConfig::for_elements(32, 32);
        unsafe { kernel.launch(config, &stream, (&input, &mut output)) }.unwrap();
        let error = stream.synchronize().unwrap_err();
        assert_eq!(error.code(), Some(expected), "{error}");
        assert!(error.to_string().contains("(3,0,0)"), "{error}");
    };
    parts.run(|| check(16384, CudaError::ILLEGAL_ADDRESS));
    parts.run(|| check(8, CudaError::MISALIGNED_ADDRESS));
}
