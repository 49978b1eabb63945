//! Products with a sparse A, against dense ones with its zeros. Which lanes hold the metadata
//! stands here as the figures of the PTX ISA have it.

use crate::block::{THREADS, kernel, launch};
use crate::matrix::{
    BF16, E4M3, E5M2, Element, F16, F32, Matrix, S4, S8, S32, TF32, U4, U8, fragment, matrix,
    multiply, place_of_a, place_of_b, place_of_c, registers, times,
};

/// A sparse matrix: its elements that are there, all of it, and for each chunk of a row four bits
/// that say which are there.
pub struct Sparse {
    pub stored: Matrix,
    pub whole: Matrix,
    chunks: Vec<Vec<u32>>,
}

impl Sparse {
    /// One with so many rows and columns.
    pub fn new(rows: usize, k: usize, element: Element, seed: usize) -> Sparse {
        let stored = matrix(rows, k / 2, element, seed);
        let mut whole = vec![vec![0.0; k]; rows];
        let mut chunks = vec![Vec::new(); rows];
        // Elements of a chunk, and those that stay together.
        let (in_chunk, unit) = match element.bits {
            32 => (2, 1),
            4 => (8, 2),
            _ => (4, 1),
        };
        for row in 0..rows {
            for chunk in 0..k / in_chunk {
                let pairs = [(0, 1), (0, 2), (1, 2), (0, 3), (1, 3), (2, 3)];
                let halves = [(0, 1), (2, 3)];
                let number = seed + 7 * row + 3 * chunk + row * chunk;
                let (first, second) = match element.bits {
                    32 => halves[number % 2],
                    _ => pairs[number % 6],
                };
                chunks[row].push((first | second << 2) as u32);
                let places = match element.bits {
                    32 => vec![first / 2],
                    _ => vec![first, second],
                };
                let count = places.len() * unit;
                for (n, place) in places.into_iter().enumerate() {
                    for part in 0..unit {
                        let from = stored[row][count * chunk + n * unit + part];
                        whole[row][in_chunk * chunk + place * unit + part] = from;
                    }
                }
            }
        }
        Sparse {
            stored,
            whole,
            chunks,
        }
    }

    /// The metadata that a lane holds of the 16 rows from `first` on, if it is one of the
    /// selected ones.
    pub fn metadata(&self, first: usize, bits: usize, selector: usize, lane: usize) -> u32 {
        let (group, place) = (lane >> 2, lane % 4);
        let chunks = self.chunks[0].len();
        let row = |upper: usize| &self.chunks[first + group + 8 * upper];
        let nibbles = |row: &[u32], from: usize, count: usize| {
            let chunks = row[from..from + count].iter().enumerate();
            chunks.fold(0, |all, (n, chunk)| all | chunk << (4 * n))
        };
        if bits >= 16 {
            // One lane or two, with 16 bits of each row.
            let lanes = chunks / 4;
            if place / lanes != selector {
                return 0xFFFF_FFFF;
            }
            let from = place % lanes * 4;
            return nibbles(row(0), from, 4) | nibbles(row(1), from, 4) << 16;
        }
        // Two lanes or four, with 32 bits of one row.
        let lanes = chunks / 4;
        if place / lanes != selector {
            return 0xFFFF_FFFF;
        }
        let place = place % lanes;
        nibbles(row(place % 2), place / 2 * 8, 8)
    }
}

fn check(k: usize, words: &str, [d, a, b]: [Element; 3], selector: usize) {
    let shape = [16, 8, k];
    let warps: Vec<(Sparse, Matrix, Matrix)> = (0..2)
        .map(|warp| {
            (
                Sparse::new(16, k, a, 1 + 100 * warp),
                matrix(k, 8, b, 37 + 50 * warp),
                matrix(16, 8, d, 11 * (warp + 1)),
            )
        })
        .collect();
    let of_lane = |thread: usize| -> [Vec<u32>; 4] {
        let (left, right, sums) = &warps[thread / 32];
        let lane = thread % 32;
        [
            fragment(&left.stored, place_of_a, [16, 8, k / 2], a, lane),
            fragment(right, place_of_b, shape, b, lane),
            fragment(sums, place_of_c, shape, d, lane),
            vec![left.metadata(0, a.bits, selector, lane)],
        ]
    };
    let sizes = of_lane(0).map(|words| words.len());
    let (mut input, mut output) = (0, 0);
    let [a_, b_, c_, e_] =
        [0, 1, 2, 3].map(|n| registers(sizes[n], false, &mut input, 10 * (n + 1), false));
    let d_ = registers(sizes[2], false, &mut output, 0, true);
    let types = [d, a, b, d].map(|element| element.name).join(".");
    for variant in ["sp", "sp::ordered_metadata"] {
        let instruction = format!("mma.{variant}.sync.aligned.m16n8k{k}.row.col{words}.{types}");
        let body = format!(
            "{}{}{}{}{instruction} {{{}}}, {{{}}}, {{{}}}, {{{}}}, {}, {selector};\n{}",
            a_.moves,
            b_.moves,
            c_.moves,
            e_.moves,
            d_.list,
            a_.list,
            b_.list,
            c_.list,
            e_.list,
            d_.moves
        );
        let words: Vec<u32> = (0..THREADS).flat_map(|t| of_lane(t).concat()).collect();
        let text = kernel(input, output, &body);
        let found = launch(&text, 1, &words, THREADS * output);
        for thread in 0..THREADS {
            let (left, right, sums) = &warps[thread / 32];
            let expected = multiply(&left.whole, right, sums, times);
            let expected = fragment(&expected, place_of_c, shape, d, thread % 32);
            let found = &found[thread * output..][..output];
            assert_eq!(found, expected, "{instruction} {selector}, thread {thread}");
        }
    }
}

#[test]
fn products_of_floats() {
    for selector in 0..4 {
        check(16, "", [F16, F16, F16], selector);
        check(16, "", [F32, F16, F16], selector);
        check(16, "", [F32, BF16, BF16], selector);
        check(8, "", [F32, TF32, TF32], selector);
    }
    for selector in 0..2 {
        check(32, "", [F16, F16, F16], selector);
        check(32, "", [F32, F16, F16], selector);
        check(32, "", [F32, BF16, BF16], selector);
        check(16, "", [F32, TF32, TF32], selector);
    }
    check(64, "", [F32, E4M3, E5M2], 0);
    check(64, "", [F32, E5M2, E5M2], 0);
}

#[test]
fn products_of_integers() {
    for selector in 0..2 {
        for words in ["", ".satfinite"] {
            check(32, words, [S32, S8, U8], selector);
            check(64, words, [S32, U4, S4], selector);
        }
    }
    for (a, b) in [(S8, S8), (U8, S8)] {
        check(64, "", [S32, a, b], 0);
    }
    for (a, b) in [(S4, S4), (S4, U4)] {
        check(128, ".satfinite", [S32, a, b], 0);
    }
}
