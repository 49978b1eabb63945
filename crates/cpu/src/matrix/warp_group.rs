//! `wgmma.mma_async`: products of 64 rows, which four warps compute together.
//!
//! It is complete where it stands, so that fences and waits do nothing. D has the registers
//! of a `mma` with 16 rows for each warp, eight columns after the other, and so has A where
//! it is in registers. Sums are those of [`product`](super::product).

use super::descriptor::Descriptor;
use super::element::{self, Element, UNIT, half, of_f16, read_floats, single};
use super::operation::Operation;
use super::registers::Registers;
use crate::abi::{self, BlockContext, WARP_SIZE};
use crate::runtime::host_address;

/// Rows of A, and those of each warp.
const ROWS: usize = 64;
const ROWS_OF_WARP: usize = 16;
/// Units of a line of A and of B.
const UNITS: usize = 2;
/// Rows and columns that are summed at a time.
const BLOCK: usize = 8;

/// The sums of a block.
type Block<T> = [[T; BLOCK]; BLOCK];

/// A matrix by lines, in units.
type Lines = Vec<[[u8; UNIT]; UNITS]>;

/// The shared memory of the block, as the first thread of the group accesses it.
struct Shared {
    context: *mut BlockContext,
    first: u32,
    line: u32,
}

impl Shared {
    /// `None` after recording a fault.
    fn unit(&self, offset: u64) -> Option<[u8; UNIT]> {
        let access = UNIT as u32 | abi::Access::SHARED;
        // SAFETY: the contract of `multiply`.
        let place = unsafe { host_address(self.context, self.first, offset, access, self.line) }?;
        // SAFETY: `host_address` has checked these bytes.
        Some(unsafe { place.cast::<[u8; UNIT]>().read() })
    }

    /// The lines of a matrix, each with `k` elements.
    fn lines(&self, matrix: Descriptor, count: usize, k: usize, transposed: bool) -> Option<Lines> {
        let mut lines = vec![[[0; UNIT]; UNITS]; count];
        if !transposed {
            for (number, line) in (0..).zip(&mut lines) {
                for (unit, bytes) in (0..).zip(line) {
                    *bytes = self.unit(matrix.along(number, unit))?;
                }
            }
            return Some(lines);
        }
        // Elements of 16 bits: a unit has those of eight lines.
        for (number, lines) in (0..).zip(lines.chunks_mut(8)) {
            for at in 0..k {
                let unit = self.unit(matrix.across(number, at as u64))?;
                for (line, element) in lines.iter_mut().zip(unit.as_chunks::<2>().0) {
                    line[at / 8][at % 8 * 2..][..2].copy_from_slice(element);
                }
            }
        }
        Some(lines)
    }
}

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
        first,
        line,
    };
    // SAFETY: the caller's contract. All threads have the same operands.
    let request = unsafe { *(*context).requests.add(first as usize) };
    let [a, b, adds, ..] = request.operands;
    // SAFETY: the caller's contract; one of them at a time is in use.
    let of_warp = |warp: usize| unsafe {
        Registers::new(context, first + warp as u32 * WARP_SIZE, &operation.slots)
    };
    let left = match operation.has(Operation::A_IN_REGISTERS) {
        true => {
            let registers = operation.slots.len() - 4;
            let mut lines = vec![[[0; UNIT]; UNITS]; ROWS];
            for (warp, lines) in lines.chunks_mut(ROWS_OF_WARP).enumerate() {
                let warp = of_warp(warp);
                for number in 0..4 {
                    let words = warp.words(registers + number);
                    let rows = lines[number % 2 * 8..].iter_mut();
                    for (row, words) in rows.zip(words.as_chunks::<4>().0) {
                        for (bytes, word) in row[number / 2].as_chunks_mut().0.iter_mut().zip(words)
                        {
                            *bytes = word.to_le_bytes();
                        }
                    }
                }
            }
            lines
        }
        false => {
            let transposed = operation.has(Operation::TRANSPOSED);
            shared.lines(Descriptor::from_bits(a), ROWS, k, transposed)?
        }
    };
    let transposed = operation.has(Operation::TRANSPOSED_B);
    let right = shared.lines(Descriptor::from_bits(b), n, k, transposed)?;

    use Element::*;
    let [d, of_a, of_b, _] = operation.elements;
    match of_a {
        S8 | U8 | B1 => {
            let k = if of_a == B1 { k / 32 } else { k };
            let left = integers(of_a, &left, k);
            let right = by_columns(&integers(of_b, &right, k), k);
            for warp in 0..ROWS / ROWS_OF_WARP {
                let left = &left[warp * ROWS_OF_WARP * k..][..ROWS_OF_WARP * k];
                of_integers(operation, &mut of_warp(warp), left, &right, k, adds != 0);
            }
        }
        _ => {
            let mut left = floats(of_a, &left, k);
            let mut right = floats(of_b, &right, k);
            for (matrix, negated) in [
                (&mut left, Operation::NEGATED_A),
                (&mut right, Operation::NEGATED_B),
            ] {
                if operation.has(negated) {
                    matrix.iter_mut().for_each(|value| *value = -*value);
                }
            }
            let right = by_columns(&right, k);
            for warp in 0..ROWS / ROWS_OF_WARP {
                let left = &left[warp * ROWS_OF_WARP * k..][..ROWS_OF_WARP * k];
                of_floats(d, &mut of_warp(warp), left, &right, k, adds != 0);
            }
        }
    }
    Some(())
}

/// The floats of a matrix, line by line.
fn floats(element: Element, lines: &Lines, k: usize) -> Vec<f32> {
    let mut floats = vec![0.0; lines.len() * k];
    let units = lines.as_flattened().chunks(element::UNITS);
    for (units, floats) in units.zip(floats.chunks_mut(element::UNITS * k / UNITS)) {
        read_floats(element, units, floats);
    }
    floats
}

/// The integers of a matrix, line by line; of bits, words of them.
fn integers(element: Element, lines: &Lines, k: usize) -> Vec<i32> {
    let mut integers = Vec::with_capacity(lines.len() * k);
    for unit in lines.as_flattened() {
        match element {
            Element::S8 => integers.extend(unit.map(|byte| i32::from(byte.cast_signed()))),
            Element::U8 => integers.extend(unit.map(i32::from)),
            _ => integers.extend(
                unit.as_chunks()
                    .0
                    .iter()
                    .map(|word| i32::from_le_bytes(*word)),
            ),
        }
    }
    integers
}

/// Columns in blocks: at each place along `k`, the elements of eight of them.
fn by_columns<T: Copy + Default>(lines: &[T], k: usize) -> Vec<[T; BLOCK]> {
    let mut columns = vec![[T::default(); BLOCK]; lines.len() / BLOCK];
    for (block, columns) in lines.chunks(BLOCK * k).zip(columns.chunks_mut(k)) {
        for (number, line) in block.chunks(k).enumerate() {
            for (at, value) in columns.iter_mut().zip(line) {
                at[number] = *value;
            }
        }
    }
    columns
}

/// Adds the products of eight rows and the columns of a block to its sums.
#[inline(always)]
#[allow(clippy::needless_range_loop, reason = "as in `product`")]
fn add<T: Copy>(
    left: &[T],
    right: &[[T; BLOCK]],
    sums: &mut Block<T>,
    multiply_add: impl Fn(T, T, T) -> T,
) {
    let k = right.len();
    let mut block = *sums;
    for at in 0..k {
        let right = &right[at];
        for row in 0..BLOCK {
            let a = left[row * k + at];
            for column in 0..BLOCK {
                block[row][column] = multiply_add(a, right[column], block[row][column]);
            }
        }
    }
    *sums = block;
}

/// The same with the instructions that the processor has.
fn add_floats(left: &[f32], right: &[[f32; BLOCK]], sums: &mut Block<f32>) {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx2,fma")]
        fn fused(left: &[f32], right: &[[f32; BLOCK]], sums: &mut Block<f32>) {
            add(left, right, sums, f32::mul_add);
        }
        if std::is_x86_feature_detected!("avx2") && std::is_x86_feature_detected!("fma") {
            // SAFETY: the processor has both.
            return unsafe { fused(left, right, sums) };
        }
    }
    add(left, right, sums, f32::mul_add);
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
                    for (pair, word) in pairs.zip(registers.words(number)) {
                        *pair = [of_f16(word as u16), of_f16((word >> 16) as u16)];
                    }
                }
                _ => {
                    let [even, odd] = [0, 1].map(|n| registers.words(2 * number + n));
                    for (pair, words) in pairs.zip(even.into_iter().zip(odd)) {
                        *pair = [f32::from_bits(words.0), f32::from_bits(words.1)];
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
                let before = match adds {
                    true => registers.words(number),
                    false => [0; 32],
                };
                let words = std::array::from_fn(|lane| {
                    let (sum, before) = (pairs[lane][n], before[lane].cast_signed());
                    let sum = match operation.has(Operation::SATURATES) {
                        true => before.saturating_add(sum),
                        false => before.wrapping_add(sum),
                    };
                    sum.cast_unsigned()
                });
                registers.set_words(number, &words);
            }
        }
    }
}
