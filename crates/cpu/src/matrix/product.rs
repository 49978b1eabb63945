//! Products of matrices: D = A · B + C.
//!
//! Floats: products are exact, and are added to C in the order of `k`, each sum rounded to
//! the nearest `f32` (of `f64`: each fused multiply-add rounded as the instruction says). An
//! `f16` result is rounded once more at the end. Tensor cores add several products at once
//! and round otherwise, so that sums that are not exact may differ in their last bits.
//! Integers: the sum of the products is exact; adding C wraps around, or is clamped.

use super::element::{self, Element, Float, half, of_f16, single};
use super::fragment::{is_quad_pair, operands, parts};
use super::operation::{Code, Operation};
use super::quad_pair;
use super::registers::{Registers, Words};
use crate::math::round::fma_f64;

/// Columns of the product of a `mma`.
const COLUMNS: usize = 8;
/// The most rows, and the most elements along `k`.
const ROWS: usize = 16;
const DEPTH: usize = 64;
/// Rows that are summed at a time, a divisor of all numbers of rows.
const LINES: usize = 4;

/// A matrix of sums, by row.
pub(super) type Sums<T> = [[T; COLUMNS]; ROWS];

/// The first registers of A, B, C and D of a product, and its rows.
#[derive(Clone, Copy)]
struct Tile {
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    rows: usize,
}

/// Executes a `mma` or `wmma.mma`.
pub(super) fn multiply(operation: &Operation, registers: &mut Registers<'_>) {
    let Some(operands) = operands(operation) else {
        return;
    };
    let [d, a, b, _] = operands.counts.map(|(count, _)| count);
    let (first_a, first_b, first_c) = (d, d + a, d + a + b);
    if is_quad_pair(operation) && operation.code == Code::Mma {
        return quad_pair::multiply(operation, registers);
    }
    let [m, n, k] = operation.shape.map(|size| size as usize);
    if operation.code == Code::Mma || m * n == 64 {
        let tile = Tile {
            a: first_a,
            b: first_b,
            c: first_c,
            d: 0,
            rows: m,
        };
        return of_tile(operation, registers, k, &[tile]);
    }
    let (transposed, count, parts) = parts(operation);
    let (first_a, first_b) = match transposed {
        true => (first_b, first_a),
        false => (first_a, first_b),
    };
    let tiles = parts.map(|part| Tile {
        a: first_a + part.a,
        b: first_b + part.b,
        c: first_c + part.c,
        d: part.d,
        rows: 16,
    });
    of_tile(operation, registers, k, &tiles[..count]);
}

fn of_tile(operation: &Operation, registers: &mut Registers<'_>, k: usize, tiles: &[Tile]) {
    use Element::*;
    // C of all tiles is read before the first D is written: they may share registers.
    match operation.elements[1] {
        F64 => of_doubles(operation, registers, k, tiles),
        S8 | U8 | S4 | U4 | B1 => of_integers(operation, registers, k, tiles),
        _ => {
            let mut sums = [[[0.0; COLUMNS]; ROWS]; 2];
            for (sums, tile) in sums.iter_mut().zip(tiles) {
                read_sums(operation.elements[3], registers, tile, sums);
                let (mut a, mut b) = ([[0; 32]; 4], [[0; 32]; 4]);
                for (n, words) in a.iter_mut().enumerate() {
                    *words = registers.words(tile.a + n);
                }
                for (n, words) in b.iter_mut().enumerate() {
                    *words = registers.words(tile.b + n);
                }
                let [_, of_a, of_b, _] = operation.elements;
                match (of_a, of_b) {
                    (F16, _) => {
                        add_products::<element::F16, element::F16>(tile.rows, k, &a, &b, sums)
                    }
                    (Bf16, _) => {
                        add_products::<element::Bf16, element::Bf16>(tile.rows, k, &a, &b, sums)
                    }
                    (Tf32, _) => {
                        add_products::<element::Tf32, element::Tf32>(tile.rows, k, &a, &b, sums)
                    }
                    (E4m3, E4m3) => {
                        add_products::<element::E4m3, element::E4m3>(tile.rows, k, &a, &b, sums)
                    }
                    (E4m3, _) => {
                        add_products::<element::E4m3, element::E5m2>(tile.rows, k, &a, &b, sums)
                    }
                    (_, E4m3) => {
                        add_products::<element::E5m2, element::E4m3>(tile.rows, k, &a, &b, sums)
                    }
                    _ => add_products::<element::E5m2, element::E5m2>(tile.rows, k, &a, &b, sums),
                }
            }
            for (sums, tile) in sums.iter().zip(tiles) {
                write_sums(operation.elements[0], registers, tile, sums);
            }
        }
    }
}

/// Reads C. Lane after lane, the pairs of elements that each lane holds are the rows of a
/// block.
fn read_sums(element: Element, registers: &Registers<'_>, tile: &Tile, sums: &mut Sums<f32>) {
    for block in 0..tile.rows / 8 {
        let pairs = sums[8 * block..8 * block + 8].as_flattened_mut();
        let pairs = pairs.as_chunks_mut::<2>().0.iter_mut();
        if element == Element::F16 {
            let words = registers.words(tile.c + block);
            for (pair, word) in pairs.zip(&words) {
                pair[0] = of_f16(*word as u16);
                pair[1] = of_f16((*word >> 16) as u16);
            }
            continue;
        }
        let left = registers.words(tile.c + 2 * block);
        let right = registers.words(tile.c + 2 * block + 1);
        for (pair, (left, right)) in pairs.zip(left.iter().zip(&right)) {
            pair[0] = f32::from_bits(*left);
            pair[1] = f32::from_bits(*right);
        }
    }
}

/// Writes D.
fn write_sums(element: Element, registers: &mut Registers<'_>, tile: &Tile, sums: &Sums<f32>) {
    for block in 0..tile.rows / 8 {
        let pairs = sums[8 * block..8 * block + 8].as_flattened();
        let pairs = pairs.as_chunks::<2>().0;
        let (mut left, mut right) = ([0; 32], [0; 32]);
        if element == Element::F16 {
            for (word, pair) in left.iter_mut().zip(pairs) {
                *word = half(pair[0]) | half(pair[1]) << 16;
            }
            registers.set_words(tile.d + block, &left);
            continue;
        }
        for (word, pair) in left.iter_mut().zip(pairs) {
            *word = single(pair[0]);
        }
        for (word, pair) in right.iter_mut().zip(pairs) {
            *word = single(pair[1]);
        }
        registers.set_words(tile.d + 2 * block, &left);
        registers.set_words(tile.d + 2 * block + 1, &right);
    }
}

/// Adds the products to the sums, with the instructions that the processor has.
fn add_products<A: Float, B: Float>(
    rows: usize,
    k: usize,
    a: &[Words; 4],
    b: &[Words; 4],
    sums: &mut Sums<f32>,
) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::is_x86_feature_detected as has;
        if has!("avx2") && has!("fma") && has!("f16c") {
            // SAFETY: the processor has all three.
            return unsafe { avx::add::<A, B>(rows, k, a, b, sums) };
        }
        if A::EXACT_PRODUCTS && B::EXACT_PRODUCTS {
            return add::<A, B>(rows, k, a, b, sums, |a, b, c| a * b + c);
        }
    }
    add::<A, B>(rows, k, a, b, sums, |a, b, c| a.mul_add(b, c));
}

/// A by row, and B by row.
type Factors = ([[f32; DEPTH / 2]; ROWS], [[f32; COLUMNS]; DEPTH / 2]);

#[inline(always)]
fn factors<A: Float, B: Float>(
    (rows, k): (usize, usize),
    a: &[Words; 4],
    b: &[Words; 4],
    read_a: impl Fn(&Words, &mut [f32; 128]),
    read_b: impl Fn(&Words, &mut [f32; 128]),
) -> Factors {
    let mut left = [[0.0; DEPTH / 2]; ROWS];
    let mut right = [[0.0; COLUMNS]; DEPTH / 2];
    let mut block = [0.0; 128];
    let width = 4 * A::IN_REGISTER;
    for (number, register) in a.iter().take(rows / 8 * k / width).enumerate() {
        read_a(register, &mut block);
        let (first, at) = (number % (rows / 8) * 8, number / (rows / 8) * width);
        for (row, line) in left[first..]
            .iter_mut()
            .zip(block.chunks_exact(width).take(8))
        {
            row[at..at + width].copy_from_slice(line);
        }
    }
    for (number, register) in b.iter().take(k / width).enumerate() {
        read_b(register, &mut block);
        for (column, line) in block.chunks_exact(width).take(8).enumerate() {
            for (row, value) in right[number * width..].iter_mut().zip(line) {
                row[column] = *value;
            }
        }
    }
    (left, right)
}

#[inline(always)]
#[allow(clippy::needless_range_loop, reason = "of the sums: see there")]
fn add<A: Float, B: Float>(
    rows: usize,
    k: usize,
    a: &[Words; 4],
    b: &[Words; 4],
    sums: &mut Sums<f32>,
    fma: impl Fn(f32, f32, f32) -> f32,
) {
    let (left, right) = factors::<A, B>((rows, k), a, b, A::read, B::read);
    // Four rows at a time: each sum waits for the one before it, so that the rows overlap.
    // By index, as an iterator of each row costs more than its sums.
    for first in (0..rows).step_by(LINES) {
        let mut lines = [[0.0; COLUMNS]; LINES];
        lines.copy_from_slice(&sums[first..first + LINES]);
        for at in 0..k {
            let right = &right[at];
            for line in 0..LINES {
                let a = left[first + line][at];
                for n in 0..COLUMNS {
                    lines[line][n] = fma(a, right[n], lines[line][n]);
                }
            }
        }
        sums[first..first + LINES].copy_from_slice(&lines);
    }
}

/// The same with a vector for each row of sums.
#[cfg(target_arch = "x86_64")]
mod avx {
    use std::arch::x86_64::{
        __m256, _mm_loadu_si128, _mm256_cvtph_ps, _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_set1_ps,
        _mm256_storeu_ps,
    };

    use super::{COLUMNS, Float, Sums, Words, factors};

    /// Rows that are summed at a time, so that each sum waits for none of the others. All numbers
    /// of rows are multiples of it.
    const LINES: usize = 8;

    #[target_feature(enable = "avx2,fma,f16c")]
    pub(super) fn add<A: Float, B: Float>(
        rows: usize,
        k: usize,
        a: &[Words; 4],
        b: &[Words; 4],
        sums: &mut Sums<f32>,
    ) {
        let (left, right) = factors::<A, B>(
            (rows, k),
            a,
            b,
            |register, out| match A::IS_F16 {
                true => read_halves(register, out),
                false => A::read(register, out),
            },
            |register, out| match B::IS_F16 {
                true => read_halves(register, out),
                false => B::read(register, out),
            },
        );
        for (left, sums) in left
            .chunks_exact(LINES)
            .zip(sums.chunks_exact_mut(LINES))
            .take(rows / LINES)
        {
            let mut lines: [__m256; LINES] = std::array::from_fn(|line| load(&sums[line]));
            for (at, right) in right.iter().enumerate().take(k) {
                let right = load(right);
                for (line, left) in lines.iter_mut().zip(left) {
                    *line = _mm256_fmadd_ps(_mm256_set1_ps(left[at]), right, *line);
                }
            }
            for (sums, line) in sums.iter_mut().zip(lines) {
                // SAFETY: eight floats.
                unsafe { _mm256_storeu_ps(sums.as_mut_ptr(), line) };
            }
        }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn load(row: &[f32; COLUMNS]) -> __m256 {
        // SAFETY: eight floats.
        unsafe { _mm256_loadu_ps(row.as_ptr()) }
    }

    /// The halves of a register.
    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    fn read_halves(register: &Words, out: &mut [f32; 128]) {
        let words = register.as_chunks::<4>().0;
        for (words, out) in words.iter().zip(out.as_chunks_mut::<8>().0) {
            // SAFETY: 16 bytes, which are eight halves, and as many floats.
            unsafe {
                let halves = _mm_loadu_si128(words.as_ptr().cast());
                _mm256_storeu_ps(out.as_mut_ptr(), _mm256_cvtph_ps(halves));
            }
        }
    }
}

/// The integers of a register, lane after lane; for bits, its words.
fn integers(element: Element, register: &Words, out: &mut [i32; 256]) {
    match element {
        Element::S4 | Element::U4 => {
            for (word, out) in register.iter().zip(out.as_chunks_mut::<8>().0) {
                for (n, out) in (0..).zip(out) {
                    let four = (word >> (4 * n) << 28).cast_signed();
                    *out = match element {
                        Element::S4 => four >> 28,
                        _ => (four.cast_unsigned() >> 28).cast_signed(),
                    };
                }
            }
        }
        Element::B1 => {
            for (word, out) in register.iter().zip(out) {
                *out = word.cast_signed();
            }
        }
        _ => {
            for (word, out) in register.iter().zip(out.as_chunks_mut::<4>().0) {
                *out = word.to_le_bytes().map(|byte| match element {
                    Element::S8 => byte.cast_signed().into(),
                    _ => byte.into(),
                });
            }
        }
    }
}

fn of_integers(operation: &Operation, registers: &mut Registers<'_>, k: usize, tiles: &[Tile]) {
    let [_, of_a, of_b, _] = operation.elements;
    // Bits are multiplied a word at a time.
    let (in_register, k) = match of_a {
        Element::B1 => (1, k / 32),
        element => (32 / element.bits() as usize, k),
    };
    let width = 4 * in_register;
    let mut results = [[[0_i32; COLUMNS]; ROWS]; 2];
    let mut block = [0; 256];
    for (results, tile) in results.iter_mut().zip(tiles) {
        let blocks = tile.rows / 8;
        let mut left = [[0; DEPTH]; ROWS];
        for number in 0..blocks * k / width {
            integers(of_a, &registers.words(tile.a + number), &mut block);
            let (first, at) = (number % blocks * 8, number / blocks * width);
            for (row, line) in left[first..]
                .iter_mut()
                .zip(block.chunks_exact(width).take(8))
            {
                row[at..at + width].copy_from_slice(line);
            }
        }
        let mut right = [[0; COLUMNS]; DEPTH];
        for number in 0..k / width {
            integers(of_b, &registers.words(tile.b + number), &mut block);
            for (column, line) in block.chunks_exact(width).take(8).enumerate() {
                for (row, value) in right[number * width..].iter_mut().zip(line) {
                    row[column] = *value;
                }
            }
        }
        let product = |a: i32, b: i32| match of_a {
            Element::B1 if operation.has(Operation::XOR) => (a ^ b).count_ones() as i32,
            Element::B1 => (a & b).count_ones() as i32,
            _ => a * b,
        };
        for (row, (results, left)) in results.iter_mut().zip(&left).take(tile.rows).enumerate() {
            let mut sums = [0; COLUMNS];
            for (a, right) in left.iter().zip(&right).take(k) {
                for (sum, b) in sums.iter_mut().zip(right) {
                    *sum += product(*a, *b);
                }
            }
            for (column, (result, sum)) in results.iter_mut().zip(sums).enumerate() {
                let c = registers.words(tile.c + row / 8 * 2 + column % 2);
                let c = c[row % 8 * 4 + column / 2].cast_signed();
                *result = match operation.has(Operation::SATURATES) {
                    true => c.saturating_add(sum),
                    false => c.wrapping_add(sum),
                };
            }
        }
    }
    for (results, tile) in results.iter().zip(tiles) {
        for number in 0..tile.rows / 4 {
            let words = std::array::from_fn(|lane| {
                results[number / 2 * 8 + lane / 4][2 * (lane % 4) + number % 2].cast_unsigned()
            });
            registers.set_words(tile.d + number, &words);
        }
    }
}

fn of_doubles(operation: &Operation, registers: &mut Registers<'_>, k: usize, tiles: &[Tile]) {
    let rounding = operation.flags >> Operation::ROUNDING;
    let Some(tile) = tiles.first() else { return };
    let blocks = tile.rows / 8;
    let mut left = [[0.0; ROWS]; ROWS];
    for number in 0..blocks * k / 4 {
        for (lane, bits) in registers.doubles(tile.a + number).iter().enumerate() {
            let row = number % blocks * 8 + lane / 4;
            left[row][number / blocks * 4 + lane % 4] = f64::from_bits(*bits);
        }
    }
    let mut right = [[0.0; COLUMNS]; ROWS];
    for number in 0..k / 4 {
        for (lane, bits) in registers.doubles(tile.b + number).iter().enumerate() {
            right[number * 4 + lane % 4][lane / 4] = f64::from_bits(*bits);
        }
    }
    let mut sums = [[0.0; COLUMNS]; ROWS];
    for number in 0..2 * blocks {
        for (lane, bits) in registers.doubles(tile.c + number).iter().enumerate() {
            let row = number / 2 * 8 + lane / 4;
            sums[row][2 * (lane % 4) + number % 2] = f64::from_bits(*bits);
        }
    }
    for (sums, left) in sums.iter_mut().zip(&left).take(tile.rows) {
        for (a, right) in left.iter().zip(&right).take(k) {
            for (sum, b) in sums.iter_mut().zip(right) {
                *sum = fma_f64(*a, *b, *sum, rounding);
            }
        }
    }
    for number in 0..2 * blocks {
        let doubles = std::array::from_fn(|lane| {
            sums[number / 2 * 8 + lane / 4][2 * (lane % 4) + number % 2].to_bits()
        });
        registers.set_doubles(tile.d + number, &doubles);
    }
}
