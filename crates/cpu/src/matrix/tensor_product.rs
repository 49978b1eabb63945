//! `tcgen05.mma`: products whose sums are in tensor memory, which one thread issues; and
//! `tcgen05.cp`.
//!
//! They are complete where they stand, so that commits have nothing to wait for. Sums are those
//! of [`product`](super::product).

use super::descriptor::Descriptor;
use super::element::{Element, UNIT, half, of_f16, single};
use super::lines::{BLOCK, Block, Lines, Shared, add, add_floats, in_blocks};
use super::scale::{ScaleType, scale_line};
use crate::abi::BlockContext;
use crate::access::{context, record_tensor_fault};
use crate::tensor_memory::{LANES, LANES_OF_WARP, Place, TensorFault, TensorMemory};

/// The types that an instruction multiplies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Kind {
    F16 = 0,
    Tf32 = 1,
    F8f6f4 = 2,
    I8 = 3,
    Mxf8f6f4 = 4,
    /// And `mxf4nvf4`.
    Mxf4 = 5,
}

/// Bits of the encoded instruction.
pub(crate) struct Flags;

impl Flags {
    /// The [`Kind`].
    pub const KIND: u32 = 0;
    /// A is in tensor memory; otherwise a descriptor says where it is.
    pub const A_IN_TENSOR_MEMORY: u32 = 4;
    /// `.ws`
    pub const WEIGHTS: u32 = 5;
    /// By which power of 2 the sums are divided before.
    pub const SCALE: u32 = 8;
    /// How many scales a row of A has: none, one, two or four.
    pub const SCALES: u32 = 12;
}

/// An instruction with its operands.
pub(crate) struct Product {
    /// Of [`Flags`].
    pub encoded: u32,
    /// The address of D.
    pub d: u32,
    /// The descriptor of A, or its address.
    pub a: u64,
    pub b: u64,
    /// The instruction descriptor.
    pub instruction: u32,
    /// Whether the product is added to D.
    pub adds: bool,
    /// The lanes of D that stay.
    pub disabled: u128,
    /// The addresses of the scales of A and of B, where they have some.
    pub scales: [u32; 2],
}

/// What an instruction descriptor says of scales.
#[derive(Clone, Copy)]
struct Scales {
    of: ScaleType,
    count: usize,
    /// The first byte of those of A and of B.
    first: [u32; 2],
}

/// What an instruction descriptor says.
struct Shape {
    d: Element,
    a: Element,
    b: Element,
    negated: [bool; 2],
    transposed: [bool; 2],
    m: usize,
    n: usize,
    k: usize,
    saturates: bool,
    scales: Option<Scales>,
}

impl Shape {
    /// `None` for one that the kind does not have.
    fn new(bits: u32, encoded: u32) -> Option<Shape> {
        use Element::*;
        let field = |at: u32, count: u32| bits >> at & ((1 << count) - 1);
        let is_set = |at: u32| field(at, 1) != 0;
        let weights = encoded >> Flags::WEIGHTS & 1 != 0;
        let kind = encoded >> Flags::KIND & 7;
        let is = |wanted: Kind| kind == wanted as u32;
        let operand = |number: u32| {
            Some(match number {
                0 if is(Kind::Mxf8f6f4) => E4m3,
                1 if is(Kind::Mxf8f6f4) => E5m2,
                3 if is(Kind::Mxf8f6f4) => E2m3,
                4 if is(Kind::Mxf8f6f4) => E3m2,
                5 if is(Kind::Mxf8f6f4) => E2m1,
                1 if is(Kind::Mxf4) => E2m1x2,
                0 if is(Kind::F16) => F16,
                1 if is(Kind::F16) => Bf16,
                2 if is(Kind::Tf32) => Tf32,
                0 if is(Kind::I8) => U8,
                1 if is(Kind::I8) => S8,
                0 if is(Kind::F8f6f4) => E4m3,
                1 if is(Kind::F8f6f4) => E5m2,
                3 if is(Kind::F8f6f4) => E2m3,
                4 if is(Kind::F8f6f4) => E3m2,
                5 if is(Kind::F8f6f4) => E2m1,
                _ => return None,
            })
        };
        let (a, b) = (operand(field(7, 3))?, operand(field(10, 3))?);
        let scales = match encoded >> Flags::SCALES & 3 {
            0 => None,
            // More along `k` than there are by default.
            _ if is_set(31) => return None,
            n => Some(Scales {
                of: if is_set(23) {
                    ScaleType::Ue8m0
                } else {
                    ScaleType::Ue4m3
                },
                count: 1 << (n - 1),
                first: [field(29, 2), field(4, 2)],
            }),
        };
        let d = match field(4, 2) {
            _ if scales.is_some() => F32,
            0 if is(Kind::F8f6f4) || is(Kind::F16) && (a, b) == (F16, F16) => F16,
            1 if !is(Kind::I8) => F32,
            2 if is(Kind::I8) => S32,
            _ => return None,
        };
        let shape = Shape {
            d,
            a,
            b,
            negated: [is_set(13), is_set(14)],
            transposed: [is_set(15), is_set(16)],
            m: field(24, 5) as usize * 16,
            n: field(17, 6) as usize * 8,
            k: 8 * 2 * UNIT / a.container() as usize,
            saturates: is_set(3),
            scales,
        };
        let rows = if weights {
            matches!(shape.m, 32 | 64 | 128) && matches!(shape.n, 64 | 128 | 256)
        } else {
            matches!(shape.m, 64 | 128) && (8..=256).contains(&shape.n)
        } && scales.is_none_or(|scales| shape.has(scales));
        let integer = is(Kind::I8);
        let columns = !integer || shape.n <= 32 || shape.n.is_multiple_of(16);
        let dense = !is_set(2);
        let signs = !integer || shape.negated == [false; 2];
        (rows && columns && dense && signs && (integer || !shape.saturates)).then_some(shape)
    }

    /// Whether it is one with scales.
    fn has(&self, Scales { of, count, first }: Scales) -> bool {
        let types = match of {
            ScaleType::Ue8m0 => true,
            ScaleType::Ue4m3 => count == 4,
        };
        let in_word = first
            .iter()
            .all(|first| (*first as usize).is_multiple_of(count));
        let packed = self.a == Element::E2m1x2;
        self.m == LANES && types && in_word && !(packed && self.transposed != [false; 2])
    }

    /// The first lane of eight rows of D, and by how many columns those of D are further.
    fn place(&self, weights: bool, row: usize, column: usize) -> (usize, usize) {
        if !weights {
            return match self.m {
                // The lower half of the lanes of each warp.
                64 => (row / 16 * 32 + row % 16, column),
                _ => (row, column),
            };
        }
        // Columns behind the first part are in further lanes.
        let part = self.n * self.m / LANES;
        (row + column / part * self.m, column % part)
    }
}

/// Executes it; `None` after recording a fault.
///
/// # Safety
/// The context is that of a block that is running, and no other reference to it is in use.
pub(crate) unsafe fn multiply(
    product: &Product,
    block: *mut BlockContext,
    thread: u32,
    line: u32,
) -> Option<()> {
    let shared = Shared {
        context: block,
        thread,
        line,
    };
    // SAFETY: the caller's contract, as below.
    let fail = |fault: TensorFault| unsafe {
        record_tensor_fault(block, thread, fault, line);
    };
    let Product {
        encoded,
        instruction,
        ..
    } = *product;
    let descriptor = |bits: u64| {
        let found = Descriptor::of_fifth_generation(bits);
        found.ok_or(TensorFault::Matrix((bits >> 32) as u32))
    };
    let weights = encoded >> Flags::WEIGHTS & 1 != 0;
    let in_tensor_memory = encoded >> Flags::A_IN_TENSOR_MEMORY & 1 != 0;
    let shape = Shape::new(instruction, encoded)
        // Where the parts of A are is not documented.
        .filter(|shape| !(weights && in_tensor_memory && shape.m < LANES))
        .ok_or(TensorFault::Instruction(instruction));
    let shape = shape.map_err(fail).ok()?;
    let Shape { m, n, k, .. } = shape;
    let left = if in_tensor_memory {
        // SAFETY: the caller's contract; a block has its tensor memory as long as it runs.
        let memory = unsafe { &mut *context(&block).tensor_memory };
        let at = Place::of(product.a as u32);
        rows(memory, at, &shape).map_err(fail).ok()?
    } else {
        let a = descriptor(product.a).map_err(fail).ok()?;
        // SAFETY: the caller's contract.
        unsafe { shared.lines(a, shape.a, [m, k], shape.transposed[0]) }?
    };
    let b = descriptor(product.b).map_err(fail).ok()?;
    // SAFETY: the caller's contract.
    let right = unsafe { shared.lines(b, shape.b, [n, k], shape.transposed[1]) }?;
    // SAFETY: as above.
    let memory = unsafe { &mut *context(&block).tensor_memory };
    let mut scales = [const { Vec::new() }; 2];
    if let Some(of) = shape.scales {
        for ((scales, lines), address) in scales.iter_mut().zip([m, n]).zip(product.scales) {
            *scales = read_scales(memory, address, lines).map_err(fail).ok()?;
        }
        for (scales, first) in scales.iter_mut().zip(of.first) {
            scales.iter_mut().for_each(|word| *word >>= 8 * first);
        }
    }
    let sums = Sums {
        memory,
        at: Place::of(product.d),
        disabled: product.disabled,
        shape: &shape,
        weights,
    };
    let scale = encoded >> Flags::SCALE & 0xF;
    let done = match shape.d {
        Element::S32 => sums.of_integers(&left, &right, product.adds),
        _ => sums.of_floats([&left, &right], &scales, product.adds.then_some(scale)),
    };
    done.map_err(fail).ok()
}

/// A from tensor memory: the lanes of D, and elements packed along the columns.
fn rows(memory: &mut TensorMemory, at: Place, shape: &Shape) -> Result<Lines, TensorFault> {
    let mut lines = Lines::new(shape.m, 2);
    for column in 0..2 * UNIT / 4 {
        for first in (0..shape.m).step_by(BLOCK) {
            let (lane, _) = shape.place(false, first, 0);
            let place = Place {
                lane: at.lane + lane,
                ..at.after(column)
            };
            let words = memory.lanes(place, BLOCK)?;
            for (line, word) in lines.each().skip(first).zip(words) {
                let bytes = word.to_le_bytes().map(|byte| match shape.a {
                    // It is in the middle of its byte.
                    Element::E2m1 => byte >> 2 & 0xF,
                    _ => byte,
                });
                line[4 * column..][..4].copy_from_slice(&bytes);
            }
        }
    }
    Ok(lines)
}

/// The words that have the scales of so many lines. Those of 32 lines are in 32 lanes of a column,
/// and each warp's lanes have them all.
fn read_scales(
    memory: &mut TensorMemory,
    address: u32,
    lines: usize,
) -> Result<Vec<u32>, TensorFault> {
    let mut scales = Vec::with_capacity(lines);
    for first in (0..lines).step_by(LANES_OF_WARP) {
        let place = Place::of(address).after(first / LANES_OF_WARP);
        let count = LANES_OF_WARP.min(lines - first);
        scales.extend_from_slice(memory.lanes(place, count)?);
    }
    Ok(scales)
}

/// D.
struct Sums<'a> {
    memory: &'a mut TensorMemory,
    at: Place,
    disabled: u128,
    shape: &'a Shape,
    weights: bool,
}

impl Sums<'_> {
    /// Replaces each block of D by what `sum` makes of it. A block has eight columns, whose
    /// eight words are in consecutive lanes.
    fn each_block(
        self,
        mut sum: impl FnMut(usize, usize, &mut Block<u32>),
    ) -> Result<(), TensorFault> {
        for row in (0..self.shape.m).step_by(BLOCK) {
            for column in (0..self.shape.n).step_by(BLOCK) {
                let (lane, column_at) = self.shape.place(self.weights, row, column);
                let lane = self.at.lane + lane;
                let first = Place {
                    lane,
                    ..self.at.after(column_at)
                };
                let mut words = [[0; BLOCK]; BLOCK];
                for (n, words) in words.iter_mut().enumerate() {
                    words.copy_from_slice(self.memory.lanes(first.after(n), BLOCK)?);
                }
                let before = words;
                sum(row / BLOCK, column / BLOCK, &mut words);
                let disabled = self.disabled >> lane.min(LANES - BLOCK);
                for (n, (words, before)) in words.iter().zip(&before).enumerate() {
                    let to = self.memory.lanes(first.after(n), BLOCK)?;
                    to.copy_from_slice(words);
                    for (row, (to, before)) in to.iter_mut().zip(before).enumerate() {
                        if disabled >> row & 1 != 0 {
                            *to = *before;
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// `scale`: by which power of 2 the sums are divided before; `None`: they are 0.
    fn of_floats(
        self,
        [left, right]: [&Lines; 2],
        scales: &[Vec<u32>; 2],
        scale: Option<u32>,
    ) -> Result<(), TensorFault> {
        let Shape { d, k, .. } = *self.shape;
        let mut matrices = [left.floats(self.shape.a), right.floats(self.shape.b)];
        if let Some(Scales { of, count, .. }) = self.shape.scales {
            for (matrix, scales) in matrices.iter_mut().zip(scales) {
                for (line, word) in matrix.chunks_mut(k).zip(scales) {
                    scale_line(of, &word.to_le_bytes()[..count], line);
                }
            }
        }
        for (matrix, negated) in matrices.iter_mut().zip(self.shape.negated) {
            if negated {
                matrix.iter_mut().for_each(|value| *value = -*value);
            }
        }
        let [left, right] = matrices;
        let left = in_blocks(&left, k);
        // A power of 2.
        let factor = f32::from_bits((127 - scale.unwrap_or(0)) << 23);
        let halves = d == Element::F16;
        self.each_block(|row, column, words| {
            let mut sums = [[0.0; BLOCK]; BLOCK];
            if scale.is_some() {
                let words = words.as_flattened().iter();
                for (sum, word) in sums.as_flattened_mut().iter_mut().zip(words) {
                    let value = if halves {
                        of_f16(*word as u16)
                    } else {
                        f32::from_bits(*word)
                    };
                    *sum = value * factor;
                }
            }
            let left = &left[row * k..][..k];
            add_floats(&right[column * BLOCK * k..][..BLOCK * k], left, &mut sums);
            let sums = sums.as_flattened().iter();
            for (word, sum) in words.as_flattened_mut().iter_mut().zip(sums) {
                *word = if halves { half(*sum) } else { single(*sum) };
            }
        })
    }

    fn of_integers(self, left: &Lines, right: &Lines, adds: bool) -> Result<(), TensorFault> {
        let k = self.shape.k;
        let saturates = self.shape.saturates;
        let left = in_blocks(&left.integers(self.shape.a), k);
        let right = right.integers(self.shape.b);
        self.each_block(|row, column, words| {
            let mut sums = [[0; BLOCK]; BLOCK];
            let right = &right[column * BLOCK * k..][..BLOCK * k];
            let multiply_add = |a: i32, b: i32, sum: i32| sum + a * b;
            add(right, &left[row * k..][..k], &mut sums, multiply_add);
            let sums = sums.as_flattened().iter();
            for (word, sum) in words.as_flattened_mut().iter_mut().zip(sums) {
                let before = if adds { word.cast_signed() } else { 0 };
                *word = if saturates {
                    before.saturating_add(*sum)
                } else {
                    before.wrapping_add(*sum)
                }
                .cast_unsigned();
            }
        })
    }
}

/// The rows that `tcgen05.cp` copies, each of so many units, and to which quarters of the lanes:
/// by warp, the rows in 32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Copied {
    pub units: usize,
    /// By warp.
    pub rows: [usize; LANES / LANES_OF_WARP],
}

/// In the order of their numbers in encoded instructions.
const COPIES: [(&[&str], Copied); 5] = [
    (&["128x256b"], copied(2, [0, 1, 2, 3])),
    (&["128x128b"], copied(1, [0, 1, 2, 3])),
    (&["64x128b", "warpx2::02_13"], copied(1, [0, 1, 0, 1])),
    (&["64x128b", "warpx2::01_23"], copied(1, [0, 0, 1, 1])),
    (&["32x128b", "warpx4"], copied(1, [0, 0, 0, 0])),
];

const fn copied(units: usize, rows: [usize; 4]) -> Copied {
    Copied { units, rows }
}

impl Copied {
    /// The number of the form with these words.
    pub(crate) fn number(has: impl Fn(&str) -> bool) -> Option<usize> {
        let mut all = COPIES.iter();
        all.position(|(words, _)| words.iter().all(|word| has(word)))
    }
}

/// Executes `tcgen05.cp` of the form with this number; `None` after recording a fault.
///
/// # Safety
/// That of [`multiply`].
pub(crate) unsafe fn copy(
    number: usize,
    (to, from): (u32, u64),
    block: *mut BlockContext,
    thread: u32,
    line: u32,
) -> Option<()> {
    // SAFETY: the caller's contract, as below.
    let fail = |fault: TensorFault| unsafe {
        record_tensor_fault(block, thread, fault, line);
    };
    let (_, form) = COPIES.get(number)?;
    let Some(matrix) = Descriptor::of_fifth_generation(from) else {
        fail(TensorFault::Matrix((from >> 32) as u32));
        return None;
    };
    let shared = Shared {
        context: block,
        thread,
        line,
    };
    let to = Place::of(to);
    for (quarter, rows) in form.rows.into_iter().enumerate() {
        for lane in 0..LANES_OF_WARP {
            for unit in 0..form.units {
                let row = rows * LANES_OF_WARP + lane;
                // SAFETY: the caller's contract.
                let bytes = unsafe { shared.unit(matrix.along(row as u64, unit as u64)) }?;
                // SAFETY: the caller's contract; a block has its tensor memory as long as it runs.
                let memory = unsafe { &mut *context(&block).tensor_memory };
                for (column, word) in bytes.as_chunks().0.iter().enumerate() {
                    let place = Place {
                        lane: to.lane + quarter * LANES_OF_WARP + lane,
                        ..to.after(UNIT / 4 * unit + column)
                    };
                    let words = memory.lanes(place, 1).map_err(fail).ok()?;
                    words[0] = u32::from_le_bytes(*word);
                }
            }
        }
    }
    Some(())
}
