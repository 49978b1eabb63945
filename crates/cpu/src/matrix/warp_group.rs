//! `wgmma.mma_async`: products of 64 rows, which four warps compute together.
//!
//! It is complete where it stands, so that fences and waits do nothing. D has the registers
//! of a `mma` with 16 rows for each warp, eight columns after the other, and so has A where
//! it is in registers. Sums are those of [`product`](super::product).

use super::descriptor::Descriptor;
use super::element::{Element, half, of_f16, single};
use super::lines::{BLOCK, Lines, Shared, add, add_floats, in_blocks};
use super::operation::Operation;
use super::registers::Registers;
use super::sparse::Selection;
use crate::abi::{BlockContext, WARP_SIZE};

/// Rows of A, and those of each warp.
const ROWS: usize = 64;
const ROWS_OF_WARP: usize = 16;
/// Units of a line of A and of B.
const UNITS: usize = 2;
/// Executes it for the warps from the one whose first thread is `first` on; `None` after
/// recording a fault.
///
/// # Safety
/// See [`Operation::execute`].
pub(super) unsafe fn multiply(
    operation: &Operation,
    context: *mut BlockContext,
    first: u32,
    line: u32,
) -> Option<()> {
    let [_, n, k] = operation.shape.map(|size| size as usize);
    let shared = Shared {
        context,
        thread: first,
        line,
    };
    let [d, of_a, of_b, _] = operation.elements;
    // SAFETY: the caller's contract; one of them at a time is in use.
    let of_warp = |warp: usize| unsafe {
        Registers::new(context, first + warp as u32 * WARP_SIZE, &operation.slots)
    };
    // The rows of each warp have their metadata in its lanes, behind the other registers.
    let sparse = operation.has(Operation::SPARSE);
    let stored = if sparse { k / 2 } else { k };
    let selector = operation.flags >> Operation::SELECTOR & 3;
    let selections: Vec<Selection> = (0..ROWS / ROWS_OF_WARP)
        .take_while(|_| sparse)
        .map(|warp| {
            let metadata = *of_warp(warp).words(operation.slots.len() - 1);
            Selection::new(of_a, k, selector as usize, &metadata)
        })
        .collect();
    // SAFETY: the caller's contract. All threads have the same operands.
    let request = unsafe { *(*context).requests.add(first as usize) };
    let [a, b, adds, ..] = request.operands;
    let left = if operation.has(Operation::A_IN_REGISTERS) {
        let registers = n * d.bits() as usize / 64;
        let mut lines = Lines::new(ROWS, UNITS);
        let rows = lines.all.chunks_mut(ROWS_OF_WARP * UNITS);
        for (warp, rows) in rows.enumerate() {
            let warp = of_warp(warp);
            for number in 0..4 {
                let words = warp.words(registers + number);
                let rows = rows[number % 2 * 8 * UNITS..].chunks_mut(UNITS);
                for (row, words) in rows.zip(words.as_chunks::<4>().0) {
                    for (bytes, word) in row[number / 2].as_chunks_mut().0.iter_mut().zip(words) {
                        *bytes = word.to_le_bytes();
                    }
                }
            }
        }
        lines
    } else {
        let transposed = operation.has(Operation::TRANSPOSED);
        // SAFETY: the caller's contract.
        unsafe { shared.lines(Descriptor::from_bits(a), of_a, [ROWS, stored], transposed) }?
    };
    let transposed = operation.has(Operation::TRANSPOSED_B);
    // SAFETY: the caller's contract.
    let right = unsafe { shared.lines(Descriptor::from_bits(b), of_b, [n, k], transposed) }?;

    use Element::*;
    match of_a {
        S8 | U8 | B1 => {
            let k = if of_a == B1 { k / 32 } else { k };
            let left = laid_out(left.integers(of_a), &selections, k);
            let right = in_blocks(&right.integers(of_b), k);
            for warp in 0..ROWS / ROWS_OF_WARP {
                let left = &left[warp * ROWS_OF_WARP * k..][..ROWS_OF_WARP * k];
                of_integers(operation, &mut of_warp(warp), left, &right, k, adds != 0);
            }
        }
        _ => {
            let mut left = laid_out(left.floats(of_a), &selections, k);
            let mut right = right.floats(of_b);
            for (matrix, negated) in [
                (&mut left, Operation::NEGATED_A),
                (&mut right, Operation::NEGATED_B),
            ] {
                if operation.has(negated) {
                    matrix.iter_mut().for_each(|value| *value = -*value);
                }
            }
            let right = in_blocks(&right, k);
            for warp in 0..ROWS / ROWS_OF_WARP {
                let left = &left[warp * ROWS_OF_WARP * k..][..ROWS_OF_WARP * k];
                of_floats(d, &mut of_warp(warp), left, &right, k, adds != 0);
            }
        }
    }
    Some(())
}

/// A with what is not stored of it, if it is sparse.
fn laid_out<T: Copy + Default>(stored: Vec<T>, selections: &[Selection], k: usize) -> Vec<T> {
    if selections.is_empty() {
        return stored;
    }
    let mut all = vec![T::default(); 2 * stored.len()];
    let rows = all.chunks_mut(k).zip(stored.chunks(k / 2));
    for (number, (row, stored)) in rows.enumerate() {
        selections[number / ROWS_OF_WARP].expand(number % ROWS_OF_WARP, stored, row);
    }
    all
}

/// The products of a warp: `left` has its 16 rows.
fn of_floats(
    d: Element,
    registers: &mut Registers<'_>,
    left: &[f32],
    right: &[[f32; BLOCK]],
    k: usize,
    adds: bool,
) {
    for (block, right) in right.chunks(k).enumerate() {
        for (upper, left) in left.chunks(BLOCK * k).enumerate() {
            let mut sums = [[0.0; BLOCK]; BLOCK];
            let number = 2 * block + upper;
            // A lane has two neighbours of a row, so that lanes are the pairs of the block.
            let pairs = sums.as_flattened_mut().as_chunks_mut::<2>().0.iter_mut();
            match (adds, d) {
                (false, _) => {}
                (_, Element::F16) => {
                    for (pair, &word) in pairs.zip(registers.words(number)) {
                        *pair = [of_f16(word as u16), of_f16((word >> 16) as u16)];
                    }
                }
                _ => {
                    let [even, odd] = [0, 1].map(|n| registers.words(2 * number + n));
                    for (pair, words) in pairs.zip(even.iter().zip(odd)) {
                        *pair = [f32::from_bits(*words.0), f32::from_bits(*words.1)];
                    }
                }
            }
            add_floats(left, right, &mut sums);
            let pairs = sums.as_flattened().as_chunks::<2>().0;
            if d == Element::F16 {
                let words =
                    std::array::from_fn(|lane| half(pairs[lane][0]) | half(pairs[lane][1]) << 16);
                registers.set_words(number, &words);
                continue;
            }
            for (n, number) in (2 * number..2 * number + 2).enumerate() {
                let words = std::array::from_fn(|lane| single(pairs[lane][n]));
                registers.set_words(number, &words);
            }
        }
    }
}

/// The same for integers and bits.
fn of_integers(
    operation: &Operation,
    registers: &mut Registers<'_>,
    left: &[i32],
    right: &[[i32; BLOCK]],
    k: usize,
    adds: bool,
) {
    for (block, right) in right.chunks(k).enumerate() {
        for (upper, left) in left.chunks(BLOCK * k).enumerate() {
            let mut sums = [[0; BLOCK]; BLOCK];
            match operation.elements[1] {
                Element::B1 => add(left, right, &mut sums, |a, b, sum| {
                    sum + (a & b).count_ones() as i32
                }),
                _ => add(left, right, &mut sums, |a, b, sum: i32| sum + a * b),
            }
            let pairs = sums.as_flattened().as_chunks::<2>().0;
            let first = 2 * (2 * block + upper);
            for (n, number) in (first..first + 2).enumerate() {
                let before = if adds {
                    *registers.words(number)
                } else {
                    [0; 32]
                };
                let words = std::array::from_fn(|lane| {
                    let (sum, before) = (pairs[lane][n], before[lane].cast_signed());
                    let sum = if operation.has(Operation::SATURATES) {
                        before.saturating_add(sum)
                    } else {
                        before.wrapping_add(sum)
                    };
                    sum.cast_unsigned()
                });
                registers.set_words(number, &words);
            }
        }
    }
}
