//! The elements of matrices.

use std::sync::LazyLock;

use crate::math::convert::{
    e2m1_to_f16, e2m3_to_f16, e3m2_to_f16, e4m3_to_f16, e5m2_to_f16, f16_to_f32, f32_to_f16,
};
use crate::math::rounding::Rounding;

/// The type of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[allow(missing_docs, reason = "the names are those of PTX")]
pub enum Element {
    F16 = 0,
    Bf16 = 1,
    Tf32 = 2,
    F32 = 3,
    F64 = 4,
    E4m3 = 5,
    E5m2 = 6,
    S8 = 7,
    U8 = 8,
    S4 = 9,
    U4 = 10,
    B1 = 11,
    S32 = 12,
    B16 = 13,
    E2m3 = 14,
    E3m2 = 15,
    E2m1 = 16,
    /// [`E2m1`](Self::E2m1), two to a byte.
    E2m1x2 = 17,
}

const ALL: [(Element, &str, u32); 18] = [
    (Element::F16, "f16", 16),
    (Element::Bf16, "bf16", 16),
    (Element::Tf32, "tf32", 32),
    (Element::F32, "f32", 32),
    (Element::F64, "f64", 64),
    (Element::E4m3, "e4m3", 8),
    (Element::E5m2, "e5m2", 8),
    (Element::S8, "s8", 8),
    (Element::U8, "u8", 8),
    (Element::S4, "s4", 4),
    (Element::U4, "u4", 4),
    (Element::B1, "b1", 1),
    (Element::S32, "s32", 32),
    (Element::B16, "b16", 16),
    (Element::E2m3, "e2m3", 6),
    (Element::E3m2, "e3m2", 6),
    (Element::E2m1, "e2m1", 4),
    (Element::E2m1x2, "e2m1x2", 4),
];

impl Element {
    /// The element with this number.
    pub fn from_number(number: u32) -> Option<Element> {
        ALL.get(number as usize).map(|row| row.0)
    }

    /// The element with a name of PTX, `f16`.
    pub fn from_text(text: &str) -> Option<Element> {
        ALL.iter().find(|row| row.1 == text).map(|row| row.0)
    }

    /// Its width.
    pub fn bits(self) -> u32 {
        ALL[self as usize].2
    }

    /// The bits of what holds it among elements of 8 bits: theirs for a float below that.
    pub(super) fn container(self) -> u32 {
        match self {
            Element::E2m3 | Element::E3m2 | Element::E2m1 => 8,
            _ => self.bits(),
        }
    }
}

/// The floats of a register, or of so many [`UNITS`], as many as there may be.
pub(super) type Floats = [f32; 256];

/// How the floats of a fragment are read.
pub(super) trait Float: Copy {
    /// Elements of a register.
    const IN_REGISTER: usize;
    /// The product of any two is an `f32`, so that it makes no difference whether the
    /// addition behind it is fused.
    const EXACT_PRODUCTS: bool;
    /// They are halves, which some processors convert.
    const IS_F16: bool = false;

    /// The elements of a register, those of lane 0 first.
    fn read(self, register: &[u32; 32], out: &mut Floats);
}

#[derive(Clone, Copy)]
pub(super) struct F16;
#[derive(Clone, Copy)]
pub(super) struct Bf16;
#[derive(Clone, Copy)]
pub(super) struct Tf32;
#[derive(Clone, Copy)]
pub(super) struct E2m1x2;
/// Floats of 8 bits and less, a byte each: the values of all bytes.
#[derive(Clone, Copy)]
pub(super) struct Narrow(&'static [f32; 256]);

#[inline(always)]
fn halves(register: &[u32; 32]) -> [u16; 64] {
    let mut halves = [0; 64];
    for (pair, word) in halves.as_chunks_mut::<2>().0.iter_mut().zip(register) {
        pair[0] = *word as u16;
        pair[1] = (*word >> 16) as u16;
    }
    halves
}

/// The value of an `f16`, without branches.
#[inline(always)]
pub(super) fn of_f16(bits: u16) -> f32 {
    let bits = u32::from(bits);
    // The exponents differ by 112. The product is exact, also of subnormal numbers.
    let finite = f32::from_bits((bits & 0x7FFF) << 13) * f32::from_bits((127 + 112) << 23);
    let special = if bits & 0x7C00 == 0x7C00 {
        0x7F80_0000
    } else {
        0
    };
    f32::from_bits(finite.to_bits() | special | (bits & 0x8000) << 16)
}

impl Float for F16 {
    const IN_REGISTER: usize = 2;
    const EXACT_PRODUCTS: bool = true;
    const IS_F16: bool = true;

    #[inline(always)]
    fn read(self, register: &[u32; 32], out: &mut Floats) {
        for (out, half) in out.iter_mut().zip(halves(register)) {
            *out = of_f16(half);
        }
    }
}

impl Float for Bf16 {
    const IN_REGISTER: usize = 2;
    // The exponent of a product may be out of range.
    const EXACT_PRODUCTS: bool = false;

    #[inline(always)]
    fn read(self, register: &[u32; 32], out: &mut Floats) {
        for (out, half) in out.iter_mut().zip(halves(register)) {
            *out = f32::from_bits(u32::from(half) << 16);
        }
    }
}

impl Float for Tf32 {
    const IN_REGISTER: usize = 1;
    const EXACT_PRODUCTS: bool = false;

    #[inline(always)]
    fn read(self, register: &[u32; 32], out: &mut Floats) {
        for (out, word) in out.iter_mut().zip(register) {
            // The lower bits of the register do not count.
            *out = f32::from_bits(word & !0x1FFF);
        }
    }
}

/// The values of all 256 numbers of 8 bits.
fn eighths(to_f16: extern "C" fn(u32) -> u32) -> [f32; 256] {
    let mut values = [0.0; 256];
    for (value, bits) in values.iter_mut().zip(0..) {
        *value = f16_to_f32(to_f16(bits));
    }
    values
}

fn look_up(values: &[f32; 256], register: &[u32; 32], out: &mut Floats) {
    for (out, word) in out.as_chunks_mut::<4>().0.iter_mut().zip(register) {
        *out = word.to_le_bytes().map(|byte| values[usize::from(byte)]);
    }
}

impl Narrow {
    /// `in_middle`: as in registers, where those of 4 bits are bits 2 to 5 of their byte;
    /// otherwise they are the lowest.
    pub fn new(element: Element, in_middle: bool) -> Narrow {
        extern "C" fn middle(bits: u32) -> u32 {
            e2m1_to_f16(bits >> 2)
        }
        static VALUES: [LazyLock<[f32; 256]>; 6] = [
            LazyLock::new(|| eighths(e4m3_to_f16)),
            LazyLock::new(|| eighths(e5m2_to_f16)),
            LazyLock::new(|| eighths(e2m3_to_f16)),
            LazyLock::new(|| eighths(e3m2_to_f16)),
            LazyLock::new(|| eighths(e2m1_to_f16)),
            LazyLock::new(|| eighths(middle)),
        ];
        Narrow(match element {
            Element::E5m2 => &VALUES[1],
            Element::E2m3 => &VALUES[2],
            Element::E3m2 => &VALUES[3],
            Element::E2m1 if in_middle => &VALUES[5],
            Element::E2m1 => &VALUES[4],
            _ => &VALUES[0],
        })
    }
}

/// The values of all floats of four bits.
const E2M1: [f32; 16] = [
    0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0,
];

impl Float for E2m1x2 {
    const IN_REGISTER: usize = 8;
    const EXACT_PRODUCTS: bool = true;

    fn read(self, register: &[u32; 32], out: &mut Floats) {
        for (out, word) in out.as_chunks_mut::<8>().0.iter_mut().zip(register) {
            *out = std::array::from_fn(|n| E2M1[(word >> (4 * n) & 0xF) as usize]);
        }
    }
}

impl Float for Narrow {
    const IN_REGISTER: usize = 4;
    const EXACT_PRODUCTS: bool = true;

    fn read(self, register: &[u32; 32], out: &mut Floats) {
        look_up(self.0, register, out);
    }
}

/// Bytes of a unit, and units that are read at a time.
pub(super) const UNIT: usize = 16;
pub(super) const UNITS: usize = 8;

/// The floats of at most [`UNITS`] units, as many as `out` has room for.
pub(super) fn read_floats(element: Element, units: &[[u8; UNIT]], out: &mut [f32]) {
    let mut register = [0; 32];
    let words = units.as_flattened().as_chunks::<4>().0;
    for (word, bytes) in register.iter_mut().zip(words) {
        *word = u32::from_le_bytes(*bytes);
    }
    let mut all = [0.0; 256];
    match element {
        Element::F16 => F16.read(&register, &mut all),
        Element::Bf16 => Bf16.read(&register, &mut all),
        Element::Tf32 => Tf32.read(&register, &mut all),
        Element::E2m1x2 => E2m1x2.read(&register, &mut all),
        _ => Narrow::new(element, false).read(&register, &mut all),
    }
    let count = out.len().min(all.len());
    out[..count].copy_from_slice(&all[..count]);
}

/// A unit of shared memory with a byte for each element: those of 6 and of 4 bits are packed
/// there, 16 of them, and the rest of the unit is unused.
pub(super) fn unpacked(element: Element, unit: [u8; UNIT]) -> [u8; UNIT] {
    let bits = element.bits() as usize;
    if bits == element.container() as usize {
        return unit;
    }
    let packed = u128::from_le_bytes(unit);
    std::array::from_fn(|n| (packed >> (bits * n)) as u8 & ((1 << bits) - 1))
}

/// The bits of a result. There is one NaN.
#[inline(always)]
pub(super) fn single(value: f32) -> u32 {
    if value.is_nan() {
        0x7FFF_FFFF
    } else {
        value.to_bits()
    }
}

/// The same for an `f16`.
pub(super) fn half(value: f32) -> u32 {
    if value.is_nan() {
        0x7FFF
    } else {
        f32_to_f16(value, Rounding::Nearest as u32) & 0xFFFF
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_half_is_read_as_the_conversion_reads_it() {
        for bits in 0..=u16::MAX {
            let (found, expected) = (of_f16(bits), f16_to_f32(bits.into()));
            let same = found.to_bits() == expected.to_bits();
            assert!(same || found.is_nan() && expected.is_nan(), "{bits:#x}");
        }
    }

    #[test]
    fn elements_are_their_numbers() {
        for (number, (element, text, _)) in (0..).zip(ALL) {
            assert_eq!(element as u32, number);
            assert_eq!(Element::from_number(number), Some(element));
            assert_eq!(Element::from_text(text), Some(element));
        }
        assert_eq!(Element::from_number(ALL.len() as u32), None);
    }
}
