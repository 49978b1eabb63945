//! Arithmetic and logic on integers that AVX2 has no instruction for.

use super::instructions::{long, word};
use super::{Legalizer, Source, opcodes as a};
use crate::simd::machine::Value;
use crate::simd::opcodes as v;

/// A function of bits: a constant or a vector.
enum Logic {
    Zeros,
    Ones,
    Value(Value),
}

impl Legalizer {
    /// A product of 64 bits, from products of 32 bits.
    pub(super) fn product_of_longs(&mut self, first: Value, last: Source) -> Value {
        let last = self.in_register(last);
        let swapped = self.unary_by(a::SHUFFLE_WORDS, last, 0xB1);
        let cross = self.of_values(v::MUL, first, swapped);
        let other = self.shift(2, true, cross, 32);
        let cross = self.of_values(v::ADD, cross, other);
        let cross = self.shift(6, true, cross, 32);
        let low = self.of_values(v::MUL_EVEN_U, first, last);
        self.of_values(v::ADD64, low, cross)
    }

    pub(super) fn least_long(
        &mut self,
        (signed, is_max): (bool, bool),
        first: Value,
        last: Source,
    ) -> Value {
        let (a, b) = if signed {
            (first, last)
        } else {
            self.with_signs_flipped(first, last, true)
        };
        let is_greater = self.binary(a::GREATER64, a, b);
        if is_max {
            let last = self.in_register(last);
            self.blended(true, is_greater, Source::Value(first), last)
        } else {
            self.blended(true, is_greater, last, first)
        }
    }

    /// Ones where a number of 64 bits is negative.
    fn signs(&mut self, value: Value) -> Value {
        let zero = self.zero();
        self.of_values(a::GREATER64, zero, value)
    }

    pub(super) fn magnitude(&mut self, value: Value) -> Value {
        let signs = self.signs(value);
        let flipped = self.of_values(v::XOR, value, signs);
        self.of_values(v::SUB64, flipped, signs)
    }

    /// A signed shift of 64 bits to the right, from an unsigned one.
    pub(super) fn shifted_signed(
        &mut self,
        value: Value,
        shift: impl FnOnce(&mut Self, Value) -> Value,
    ) -> Value {
        let signs = self.signs(value);
        let flipped = self.of_values(v::XOR, value, signs);
        let shifted = shift(self, flipped);
        self.of_values(v::XOR, shifted, signs)
    }

    /// A rotation to the right.
    pub(super) fn rotated(&mut self, wide: bool, value: Value, by: u8) -> Value {
        let bits = if wide { 64 } else { 32 };
        let by = by % bits;
        if by == 0 {
            return value;
        }
        let right = self.shift(2, wide, value, by);
        let left = self.shift(6, wide, value, bits - by);
        self.of_values(v::OR, left, right)
    }

    /// A funnel shift of 32 bits: `old` moves, and bits of `other` follow.
    pub(super) fn funnel(&mut self, left: bool, old: Value, other: Value, by: Source) -> Value {
        let by = self.in_register(by);
        let by = self.binary(v::AND, by, word(31));
        let all = self.in_register(word(32));
        let rest = self.of_values(v::SUB, all, by);
        let (there, back) = if left {
            (v::SHIFT_LEFT, v::SHIFT_RIGHT)
        } else {
            (v::SHIFT_RIGHT, v::SHIFT_LEFT)
        };
        let moved = self.of_values(there, old, by);
        let follow = self.of_values(back, other, rest);
        self.of_values(v::OR, moved, follow)
    }

    /// A function of three operands by its truth table, of which `first` is the highest bit of an index.
    pub(super) fn logic(&mut self, table: u8, first: Value, second: Value, third: Value) -> Value {
        // first ? one : other, as other ^ first & (one ^ other).
        let (one, other) = (table >> 4, table & 0xF);
        let differ = self.logic_of_two(one ^ other, second, third);
        let differ = match differ {
            Logic::Zeros => None,
            Logic::Ones => Some(first),
            Logic::Value(value) => Some(self.of_values(v::AND, first, value)),
        };
        match (self.logic_of_two(other, second, third), differ) {
            (Logic::Zeros, None) => self.zero(),
            (Logic::Zeros, Some(value)) | (Logic::Value(value), None) => value,
            (Logic::Ones, None) => self.in_register(long(u64::MAX)),
            (Logic::Ones, Some(value)) => self.inverted(value),
            (Logic::Value(other), Some(value)) => self.of_values(v::XOR, other, value),
        }
    }

    fn logic_of_two(&mut self, table: u8, a: Value, b: Value) -> Logic {
        let value = match table {
            0 => return Logic::Zeros,
            15 => return Logic::Ones,
            12 => a,
            10 => b,
            8 => self.of_values(v::AND, a, b),
            14 => self.of_values(v::OR, a, b),
            6 => self.of_values(v::XOR, a, b),
            2 => self.of_values(v::ANDN, a, b),
            4 => self.of_values(v::ANDN, b, a),
            // The rest are the inverse of one of these.
            _ => match self.logic_of_two(!table & 15, a, b) {
                Logic::Value(value) => self.inverted(value),
                other => return other,
            },
        };
        Logic::Value(value)
    }
}
