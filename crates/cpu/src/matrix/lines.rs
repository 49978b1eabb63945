//! The matrices of the products of warp groups and of tensor memory: their lines (rows of A,
//! columns of B) in units of 16 bytes, which are two of dense matrices, and sums of products in
//! blocks of 8 by 8.

use super::descriptor::Descriptor;
use super::element::{self, Element, UNIT, read_floats};
use crate::abi::{self, BlockContext};
use crate::access::host_address;

/// Rows and columns that are summed at a time.
pub(super) const BLOCK: usize = 8;

/// The sums of a block.
pub(super) type Block<T> = [[T; BLOCK]; BLOCK];

/// A matrix by lines, each of so many units.
pub(super) struct Lines {
    pub units: usize,
    pub all: Vec<[u8; UNIT]>,
}

impl Lines {
    pub fn new(count: usize, units: usize) -> Lines {
        let all = vec![[0; UNIT]; count * units];
        Lines { units, all }
    }

    /// The bytes of each line.
    pub fn each(&mut self) -> impl Iterator<Item = &mut [u8]> {
        let lines = self.all.chunks_mut(self.units);
        lines.map(<[_]>::as_flattened_mut)
    }

    /// The floats, line by line.
    pub fn floats(&self, element: Element) -> Vec<f32> {
        let in_unit = 8 * UNIT / element.container() as usize;
        let mut floats = vec![0.0; self.all.len() * in_unit];
        let units = self.all.chunks(element::UNITS);
        for (units, floats) in units.zip(floats.chunks_mut(element::UNITS * in_unit)) {
            read_floats(element, units, floats);
        }
        floats
    }

    /// The integers, line by line; of bits, words of them.
    pub fn integers(&self, element: Element) -> Vec<i32> {
        let mut integers = Vec::with_capacity(self.all.len() * UNIT);
        for unit in &self.all {
            match element {
                Element::S8 => integers.extend(unit.map(|byte| i32::from(byte.cast_signed()))),
                Element::U8 => integers.extend(unit.map(i32::from)),
                _ => {
                    let words = unit.as_chunks().0.iter();
                    integers.extend(words.map(|word| i32::from_le_bytes(*word)));
                }
            }
        }
        integers
    }
}

/// The shared memory of the block, as one thread accesses it.
pub(super) struct Shared {
    pub context: *mut BlockContext,
    pub thread: u32,
    pub line: u32,
}

impl Shared {
    /// `None` after recording a fault.
    ///
    /// # Safety
    /// The context is that of a block that is running, and no other reference to it is in use.
    pub unsafe fn unit(&self, offset: u64) -> Option<[u8; UNIT]> {
        let access = UNIT as u32 | abi::Access::SHARED;
        // SAFETY: the caller's contract.
        let place = unsafe { host_address(self.context, self.thread, offset, access, self.line) }?;
        // SAFETY: `host_address` has checked these bytes.
        Some(unsafe { place.cast::<[u8; UNIT]>().read() })
    }

    /// The lines of a matrix, so many, each with `k` elements. Of elements below 8 bits, which
    /// are 16 to a unit, each gets a byte.
    ///
    /// # Safety
    /// That of [`unit`](Self::unit).
    pub unsafe fn lines(
        &self,
        matrix: Descriptor,
        element: Element,
        [count, k]: [usize; 2],
        transposed: bool,
    ) -> Option<Lines> {
        let bits = element.container() as usize;
        let mut lines = Lines::new(count, k * bits / (8 * UNIT));
        if !transposed {
            let units = lines.units;
            for (number, line) in (0..).zip(lines.all.chunks_mut(units)) {
                for (unit, bytes) in (0..).zip(line) {
                    // SAFETY: the caller's contract.
                    let stored = unsafe { self.unit(matrix.along(number, unit)) }?;
                    *bytes = element::unpacked(element, stored);
                }
            }
            return Some(lines);
        }
        // A unit has the elements of several lines.
        let bytes = bits / 8;
        let of_line = lines.units * UNIT;
        let all = lines.all.as_flattened_mut();
        for (number, lines) in (0..).zip(all.chunks_mut(UNIT / bytes * of_line)) {
            for at in 0..k {
                // SAFETY: the caller's contract.
                let stored = unsafe { self.unit(matrix.across(number, at as u64)) }?;
                let unit = element::unpacked(element, stored);
                for (line, value) in lines.chunks_mut(of_line).zip(unit.chunks(bytes)) {
                    line[at * bytes..][..bytes].copy_from_slice(value);
                }
            }
        }
        Some(lines)
    }
}

/// Lines in blocks: at each place along `k`, the elements of eight of them.
pub(super) fn in_blocks<T: Copy + Default>(lines: &[T], k: usize) -> Vec<[T; BLOCK]> {
    let mut blocks = vec![[T::default(); BLOCK]; lines.len() / BLOCK];
    for (block, places) in lines.chunks(BLOCK * k).zip(blocks.chunks_mut(k)) {
        for (number, line) in block.chunks(k).enumerate() {
            for (at, value) in places.iter_mut().zip(line) {
                at[number] = *value;
            }
        }
    }
    blocks
}

/// Adds the products of eight lines and those of a block to its sums.
#[inline(always)]
#[allow(clippy::needless_range_loop, reason = "as in `product`")]
pub(super) fn add<T: Copy>(
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
pub(super) fn add_floats(left: &[f32], right: &[[f32; BLOCK]], sums: &mut Block<f32>) {
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
