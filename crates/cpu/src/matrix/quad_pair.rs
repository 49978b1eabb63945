//! `mma.m8n8k4` of halves: each quad pair, lanes `4 * i` to `4 * i + 3` and those 16 higher,
//! multiplies matrices of its own.

use super::element::{Element, half, of_f16, single};
use super::operation::Operation;
use super::registers::{Registers, Words};

/// Half `at` of the registers of a lane.
fn element(registers: &[Words], lane: usize, at: usize) -> f32 {
    of_f16((registers[at / 2][lane] >> (16 * (at % 2))) as u16)
}

/// The lanes of a quad pair.
fn lanes(pair: usize) -> impl Iterator<Item = usize> {
    (0..8).map(move |n| pair * 4 + n % 4 + n / 4 * 16)
}

/// Row and column of element `i` of a lane in C and D.
fn place(element: Element, lane: usize, i: usize) -> (usize, usize) {
    let lower = lane / 16 * 4;
    match element {
        Element::F16 => (lane % 4 + lower, i),
        _ => ((lane & 1) + (i & 2) + lower, (i & 4) + (lane & 2) + (i & 1)),
    }
}

pub(super) fn multiply(operation: &Operation, registers: &mut Registers<'_>) {
    let [d, _, _, c] = operation.elements;
    let results = if d == Element::F16 { 4 } else { 8 };
    let words = |first: usize, count: usize| -> Vec<Words> {
        (first..first + count)
            .map(|n| *registers.words(n))
            .collect()
    };
    let (a, b) = (words(results, 2), words(results + 2, 2));
    let third = words(results + 4, registers.len() - results - 4);
    let mut out = vec![[0; 32]; results];
    for pair in 0..4 {
        let (mut left, mut right, mut sums) = ([[0.0; 4]; 8], [[0.0; 8]; 4], [[0.0_f32; 8]; 8]);
        for lane in lanes(pair) {
            let line = lane % 4 + lane / 16 * 4;
            for i in 0..4 {
                let value = element(&a, lane, i);
                if !operation.has(Operation::A_COLUMNS) {
                    left[line][i] = value
                } else {
                    left[i + lane / 16 * 4][lane % 4] = value
                }
                let value = element(&b, lane, i);
                if operation.has(Operation::B_COLUMNS) {
                    right[i][line] = value
                } else {
                    right[lane % 4][i + lane / 16 * 4] = value
                }
            }
            for i in 0..8 {
                let (row, column) = place(c, lane, i);
                sums[row][column] = match c {
                    Element::F16 => element(&third, lane, i),
                    _ => f32::from_bits(third[i][lane]),
                };
            }
        }
        for (sums, left) in sums.iter_mut().zip(&left) {
            for (a, right) in left.iter().zip(&right) {
                for (sum, b) in sums.iter_mut().zip(right) {
                    // The product is exact.
                    *sum += a * b;
                }
            }
        }
        for lane in lanes(pair) {
            for i in 0..8 {
                let (row, column) = place(d, lane, i);
                match d {
                    Element::F16 => out[i / 2][lane] |= half(sums[row][column]) << (16 * (i % 2)),
                    _ => out[i][lane] = single(sums[row][column]),
                }
            }
        }
    }
    for (n, words) in out.iter().enumerate() {
        registers.set_words(n, words);
    }
}
