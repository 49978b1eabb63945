//! Scales of blocks of a matrix along `k`: `.block_scale`.
//!
//! Each row of A and each column of B has one, two or four, for as many blocks of equal length.
//! An element is multiplied by its scale before it is multiplied by another.

use super::operation::Operation;
use super::registers::Registers;

/// The most scales of a row.
const MOST: usize = 4;
const ROWS: usize = 16;

/// The type of a scale: floats without a sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScaleType {
    /// A power of 2, `ue8m0`.
    Ue8m0,
    /// `ue4m3`
    Ue4m3,
}

impl ScaleType {
    pub fn value(self, bits: u8) -> f32 {
        let wide = u32::from(bits);
        match self {
            ScaleType::Ue8m0 if bits == 0xFF => f32::NAN,
            // 2^-127 is a subnormal number.
            ScaleType::Ue8m0 if bits == 0 => f32::from_bits(1 << 22),
            ScaleType::Ue8m0 => f32::from_bits(wide << 23),
            ScaleType::Ue4m3 if bits & 0x7F == 0x7F => f32::NAN,
            // The exponents differ by 120. The product is exact, also of subnormal numbers.
            ScaleType::Ue4m3 => {
                f32::from_bits((wide & 0x7F) << 20) * f32::from_bits((127 + 120) << 23)
            }
        }
    }
}

/// Multiplies the elements of a line by their scales, of which it has as many as `bytes`.
pub(super) fn scale_line(of: ScaleType, bytes: &[u8], line: &mut [f32]) {
    let block = (line.len() / bytes.len().max(1)).max(1);
    for (elements, byte) in line.chunks_mut(block).zip(bytes) {
        let scale = of.value(*byte);
        elements.iter_mut().for_each(|element| *element *= scale);
    }
}

/// The scales of a `mma`.
pub(super) struct Scales {
    of: ScaleType,
    count: usize,
    rows: [[u8; MOST]; ROWS],
    columns: [[u8; MOST]; ROWS],
}

impl Scales {
    /// From the registers behind those of C. Of the four lanes of a group, two hold the scales
    /// of two rows of A, `group` and `group + 8`, and one those of a column of B; selectors say
    /// which lanes, and which of their bytes is the first.
    pub fn new(operation: &Operation, registers: &Registers<'_>, first: usize) -> Option<Scales> {
        let count = operation.scales()?;
        let word = |n: usize| registers.words(first + n)[0] as usize;
        let (of_a, of_b) = (registers.words(first), registers.words(first + 3));
        let (byte_a, thread_a, byte_b, thread_b) = (word(1), word(2), word(4), word(5));
        let bytes = |word: u32, byte: usize| (word >> (8 * (byte & 3))).to_le_bytes();
        Some(Scales {
            of: if operation.has(Operation::UE4M3) {
                ScaleType::Ue4m3
            } else {
                ScaleType::Ue8m0
            },
            count,
            rows: std::array::from_fn(|row| {
                let lane = row % 8 * 4 + (thread_a & 1) * 2 + row / 8;
                bytes(of_a[lane], byte_a)
            }),
            columns: std::array::from_fn(|column| {
                let lane = column % 8 * 4 + (thread_b & 3);
                bytes(of_b[lane], byte_b)
            }),
        })
    }

    /// Multiplies a row of A.
    pub fn scale_row(&self, number: usize, line: &mut [f32]) {
        scale_line(self.of, &self.rows[number][..self.count], line);
    }

    /// Multiplies elements of a column of B, the first of which is at `at` of all `k`.
    pub fn scale_column(&self, number: usize, at: usize, k: usize, line: &mut [f32]) {
        let block = k / self.count;
        for (element, at) in line.iter_mut().zip(at..) {
            *element *= self.of.value(self.columns[number][at / block]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_have_no_sign() {
        let powers = [
            (127, 1.0),
            (128, 2.0),
            (0, 2.0_f32.powi(-127)),
            (254, 2.0_f32.powi(127)),
        ];
        for (bits, value) in powers {
            assert_eq!(ScaleType::Ue8m0.value(bits), value);
        }
        let small = [
            (0x38, 1.0),
            (0xB8, 1.0),
            (0x7E, 448.0),
            (1, 2.0_f32.powi(-9)),
        ];
        for (bits, value) in small {
            assert_eq!(ScaleType::Ue4m3.value(bits), value);
        }
        assert!(ScaleType::Ue8m0.value(0xFF).is_nan() && ScaleType::Ue4m3.value(0x7F).is_nan());
    }

    #[test]
    fn each_block_of_a_line_has_its_scale() {
        let mut line = [1.0; 8];
        scale_line(ScaleType::Ue8m0, &[127, 128, 129, 126], &mut line);
        assert_eq!(line, [1.0, 1.0, 2.0, 2.0, 4.0, 4.0, 0.5, 0.5]);
    }
}
