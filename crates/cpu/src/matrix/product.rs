//! Products of matrices: D = A · B + C.
//!
//! Floats: products are exact, and are added to C in the order of `k`, each sum rounded to
//! the nearest `f32` (of `f64`: each fused multiply-add rounded as the instruction says). An
//! `f16` result is rounded once more at the end. Tensor cores add several products at once
//! and round otherwise, so that sums that are not exact may differ in their last bits.
//! Integers: the sum of the products is exact; adding C wraps around, or is clamped.

#[cfg(target_arch = "x86_64")]
use super::avx;
use super::element::{self, Element, Float, Narrow, half, of_f16, single};
use super::factors::{COLUMNS, Factors, ROWS, Sums, Tile};
use super::fragment::{is_quad_pair, operands, parts};
#[cfg(target_arch = "x86_64")]
use super::halves;
use super::operation::{Code, Operation};
use super::quad_pair;
use super::registers::{Registers, Words};
use super::scale::Scales;
use super::sparse::Selection;
use crate::math::round::fma_f64;

/// The most elements along `k`: of floats and of integers, where A is dense; otherwise, and of
/// pairs of floats in a byte, twice as many.
const FLOATS: usize = 32;
const INTEGERS: usize = 64;
/// Rows that are summed at a time, a divisor of all numbers of rows.
const LINES: usize = 4;

/// Executes a `mma` or `wmma.mma`.
pub(super) fn multiply(operation: &Operation, registers: &mut Registers<'_>) {
    multiply_with(operation, registers, true);
}

/// `in_vectors`: by [`halves`] where that applies.
fn multiply_with(operation: &Operation, registers: &mut Registers<'_>, in_vectors: bool) {
    let Some(operands) = operands(operation) else {
        return;
    };
    let [d, a, b, ..] = operands.counts.map(|(count, _)| count);
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
        return of_tiles(operation, registers, k, [tile], in_vectors);
    }
    let (transposed, count, parts) = parts(operation);
    let (first_a, first_b) = if transposed {
        (first_b, first_a)
    } else {
        (first_a, first_b)
    };
    let tiles = parts.map(|part| Tile {
        a: first_a + part.a,
        b: first_b + part.b,
        c: first_c + part.c,
        d: part.d,
        rows: 16,
    });
    match count {
        1 => of_tiles(operation, registers, k, [tiles[0]], in_vectors),
        _ => of_tiles(operation, registers, k, tiles, in_vectors),
    }
}

fn of_tiles<const TILES: usize>(
    operation: &Operation,
    registers: &mut Registers<'_>,
    k: usize,
    tiles: [Tile; TILES],
    in_vectors: bool,
) {
    #[cfg(target_arch = "x86_64")]
    if in_vectors && halves::applies(operation) {
        // SAFETY: the processor has what the function needs.
        return unsafe { halves::multiply(operation.elements, registers, k, tiles) };
    }
    of_any_tile(operation, registers, k, &tiles);
}

/// Of any elements. Not inlined, as it has a frame of several pages.
#[inline(never)]
fn of_any_tile(operation: &Operation, registers: &mut Registers<'_>, k: usize, tiles: &[Tile]) {
    use Element::*;
    // C of all tiles is read before the first D is written: they may share registers.
    match operation.elements[1] {
        F64 => of_doubles(operation, registers, k, tiles),
        S8 | U8 | S4 | U4 | B1 => match selection(operation, registers, k) {
            None => of_integers::<INTEGERS>(operation, registers, k, None, tiles),
            some => of_integers::<{ 2 * INTEGERS }>(operation, registers, k, some, tiles),
        },
        _ => {
            let mut sums = [[[0.0; COLUMNS]; ROWS]; 2];
            for (sums, tile) in sums.iter_mut().zip(tiles) {
                read_sums(operation.elements[3], registers, tile, sums);
                let factors = Factors {
                    rows: tile.rows,
                    k,
                    a: [0, 1, 2, 3].map(|n| registers.words(tile.a + n)),
                    b: [0, 1, 2, 3].map(|n| registers.words(tile.b + n)),
                    selection: selection(operation, registers, k),
                    scales: Scales::new(operation, registers, tile.c + tile.rows / 4),
                };
                let [_, of_a, of_b, _] = operation.elements;
                match of_a {
                    F16 => factors.add(element::F16, element::F16, sums),
                    Bf16 => factors.add(element::Bf16, element::Bf16, sums),
                    Tf32 => factors.add(element::Tf32, element::Tf32, sums),
                    E2m1x2 => factors.add(element::E2m1x2, element::E2m1x2, sums),
                    _ => {
                        let [of_a, of_b] = [of_a, of_b].map(|of| Narrow::new(of, true));
                        factors.add(of_a, of_b, sums);
                    }
                }
            }
            for (sums, tile) in sums.iter_mut().zip(tiles) {
                write_sums(operation.elements[0], registers, tile, sums);
            }
        }
    }
}

/// The elements of eight rows, of which a register has four words each.
fn rows(sums: &mut Sums<f32>, block: usize) -> Option<&mut [[f32; COLUMNS]; 8]> {
    sums.get_mut(8 * block..)?.first_chunk_mut()
}

/// Reads C. By index, here and in [`write_sums`], as in [`Factors::add_with`].
#[allow(clippy::needless_range_loop, reason = "of each operation: see there")]
fn read_sums(element: Element, registers: &Registers<'_>, tile: &Tile, sums: &mut Sums<f32>) {
    for block in 0..tile.rows / 8 {
        let Some(rows) = rows(sums, block) else {
            return;
        };
        if element == Element::F16 {
            let words = registers.words(tile.c + block).as_chunks::<4>().0;
            for row in 0..8 {
                let halves = words[row].map(|word| [word as u16, (word >> 16) as u16]);
                let [[a, b], [c, d], [e, f], [g, h]] = halves;
                rows[row] = [a, b, c, d, e, f, g, h].map(of_f16);
            }
            continue;
        }
        let left = registers.words(tile.c + 2 * block).as_chunks::<4>().0;
        let right = registers.words(tile.c + 2 * block + 1).as_chunks::<4>().0;
        for row in 0..8 {
            let ([a, c, e, g], [b, d, f, h]) = (left[row], right[row]);
            rows[row] = [a, b, c, d, e, f, g, h].map(f32::from_bits);
        }
    }
}

/// Writes D.
#[allow(clippy::needless_range_loop, reason = "as in `read_sums`")]
fn write_sums(element: Element, registers: &mut Registers<'_>, tile: &Tile, sums: &mut Sums<f32>) {
    for block in 0..tile.rows / 8 {
        let Some(rows) = rows(sums, block) else {
            return;
        };
        let (mut left, mut right) = ([[0; 4]; 8], [[0; 4]; 8]);
        if element == Element::F16 {
            for row in 0..8 {
                let [a, b, c, d, e, f, g, h] = rows[row].map(half);
                left[row] = [a | b << 16, c | d << 16, e | f << 16, g | h << 16];
            }
            registers.set_words(tile.d + block, as_words(&left));
            continue;
        }
        for row in 0..8 {
            let [a, b, c, d, e, f, g, h] = rows[row].map(single);
            (left[row], right[row]) = ([a, c, e, g], [b, d, f, h]);
        }
        registers.set_words(tile.d + 2 * block, as_words(&left));
        registers.set_words(tile.d + 2 * block + 1, as_words(&right));
    }
}

/// The words of a register, lane after lane.
fn as_words(rows: &[[u32; 4]; 8]) -> &Words {
    // The rows have as many words.
    rows.as_flattened().first_chunk().unwrap_or(&[0; 32])
}

/// Where the elements of a sparse A belong; its metadata are the last operand.
fn selection(operation: &Operation, registers: &Registers<'_>, k: usize) -> Option<Selection> {
    operation.has(Operation::SPARSE).then(|| {
        let metadata = registers.words(registers.len() - 1);
        let selector = operation.flags >> Operation::SELECTOR & 3;
        Selection::new(operation.elements[1], k, selector as usize, metadata)
    })
}

impl Factors<'_> {
    /// Adds the products to the sums, with the instructions that the processor has.
    fn add<A: Float, B: Float>(&self, of_a: A, of_b: B, sums: &mut Sums<f32>) {
        if self.k <= FLOATS {
            self.add_products::<A, B, FLOATS>(of_a, of_b, sums)
        } else {
            self.add_products::<A, B, { 2 * FLOATS }>(of_a, of_b, sums)
        }
    }

    fn add_products<A: Float, B: Float, const DEPTH: usize>(
        &self,
        of_a: A,
        of_b: B,
        sums: &mut Sums<f32>,
    ) {
        #[cfg(target_arch = "x86_64")]
        {
            use std::is_x86_feature_detected as has;
            if has!("avx2") && has!("fma") && has!("f16c") {
                // SAFETY: the processor has all three.
                return unsafe { avx::add::<A, B, DEPTH>(self, of_a, of_b, sums) };
            }
            if A::EXACT_PRODUCTS && B::EXACT_PRODUCTS && self.scales.is_none() {
                return self.add_with::<A, B, DEPTH>(of_a, of_b, sums, |a, b, c| a * b + c);
            }
        }
        self.add_with::<A, B, DEPTH>(of_a, of_b, sums, |a, b, c| a.mul_add(b, c));
    }

    #[inline(always)]
    #[allow(clippy::needless_range_loop, reason = "of the sums: see there")]
    fn add_with<A: Float, B: Float, const DEPTH: usize>(
        &self,
        of_a: A,
        of_b: B,
        sums: &mut Sums<f32>,
        fma: impl Fn(f32, f32, f32) -> f32,
    ) {
        let (left, right) = self.rows::<DEPTH>(
            4 * A::IN_REGISTER,
            |register, out| of_a.read(register, out),
            |register, out| of_b.read(register, out),
        );
        // Four rows at a time: each sum waits for the one before it, so that the rows overlap.
        // By index, as an iterator of each row costs more than its sums.
        for first in (0..self.rows).step_by(LINES) {
            let mut lines = [[0.0; COLUMNS]; LINES];
            lines.copy_from_slice(&sums[first..first + LINES]);
            for at in 0..self.k {
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

fn of_integers<const DEPTH: usize>(
    operation: &Operation,
    registers: &mut Registers<'_>,
    k: usize,
    selection: Option<Selection>,
    tiles: &[Tile],
) {
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
        let stored = if selection.is_some() { k / 2 } else { k };
        for number in 0..blocks * stored / width {
            integers(of_a, registers.words(tile.a + number), &mut block);
            let (first, at) = (number % blocks * 8, number / blocks * width);
            for (row, line) in left[first..]
                .iter_mut()
                .zip(block.chunks_exact(width).take(8))
            {
                row[at..at + width].copy_from_slice(line);
            }
        }
        if let Some(selection) = &selection {
            for (row, line) in left.iter_mut().enumerate() {
                let stored = std::mem::replace(line, [0; DEPTH]);
                selection.expand(row, &stored, line);
            }
        }
        let mut right = [[0; COLUMNS]; DEPTH];
        for number in 0..k / width {
            integers(of_b, registers.words(tile.b + number), &mut block);
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
                *result = if operation.has(Operation::SATURATES) {
                    c.saturating_add(sum)
                } else {
                    c.wrapping_add(sum)
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

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::super::registers::Doubles;
    use super::*;
    use Element::{Bf16, F16, F32};

    /// The slots of a warp after a product.
    fn multiplied(
        operation: &Operation,
        [m, n, k]: [u32; 3],
        multiply: impl Fn(&mut Registers<'_>),
    ) -> Vec<Doubles> {
        let mut seed = u64::from(m ^ n << 8 ^ k << 16);
        let mut next = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) as u32 ^ (seed >> 20) as u32
        };
        let mut slots = vec![[0; 32]; 40];
        for (number, slot) in slots.iter_mut().enumerate() {
            // Some have all exponents, so that there are infinities and NaNs.
            let mask = if number % 5 == 0 { !0 } else { 0xBFFF_BFFF };
            let words = std::array::from_fn(|_| next() & mask);
            let words: [u32; 32] = words;
            for (pair, slot) in words.as_chunks::<2>().0.iter().zip(slot) {
                *slot = u64::from(pair[0]) | u64::from(pair[1]) << 32;
            }
        }
        multiply(&mut Registers::in_memory(&mut slots, &operation.slots));
        slots
    }

    #[test]
    fn products_of_halves_are_those_of_any_elements() {
        let forms = [
            (F16, F32, F32),
            (F16, F16, F16),
            (F16, F32, F16),
            (F16, F16, F32),
            (Bf16, F32, F32),
        ];
        for (of, d, c) in forms {
            for (code, m, n, k) in [
                (Code::Mma, 16, 8, 8),
                (Code::Mma, 16, 8, 16),
                (Code::WmmaMma, 16, 16, 16),
                (Code::WmmaMma, 8, 32, 16),
                (Code::WmmaMma, 32, 8, 16),
            ] {
                let mut operation = Operation {
                    code,
                    shape: [m, n, k],
                    elements: [d, of, of, c],
                    flags: 0,
                    slots: Vec::new(),
                };
                let Some(operands) = operands(&operation) else {
                    continue;
                };
                let counts = operands.counts.map(|(count, _)| count as u32);
                let (results, total) = (counts[0], counts.iter().sum());
                // In registers of their own, in those of A, and in those of C in another order.
                for results_in in [
                    (0..results).collect::<Vec<u32>>(),
                    (results..2 * results).collect(),
                    (total - results..total).rev().collect(),
                ] {
                    operation.slots = results_in;
                    operation.slots.extend(results..total);
                    assert!(halves::applies(&operation));
                    let shape = [m, n, k];
                    let found = multiplied(&operation, shape, |registers| {
                        multiply(&operation, registers);
                    });
                    let expected = multiplied(&operation, shape, |registers| {
                        multiply_with(&operation, registers, false);
                    });
                    assert_eq!(found, expected, "{operation:?}");
                }
            }
        }
    }
}
