//! Conversions between floats and integers that AVX2 has no instruction for.

use super::instructions::{Operation, long, word};
use super::{Legalizer, Source, opcodes as a};
use crate::simd::machine::{Form, Value};
use crate::simd::opcodes as v;

const TWO_TO_52: u64 = 0x4330_0000_0000_0000;
const TWO_TO_84: u64 = 0x4530_0000_0000_0000;

fn double(value: f64) -> Source {
    long(value.to_bits())
}

fn float(value: f32) -> Source {
    word(value.to_bits())
}

// Predicates of comparisons: unordered operands are different, and compare as false otherwise.
const LESS: u8 = 0x11;
const NOT_EQUAL: u8 = 0x04;
const GREATER_OR_EQUAL: u8 = 0x1D;
const GREATER: u8 = 0x1E;

// Roundings of `vround`, without exceptions.
const DOWN: u8 = 9;
const TO_ZERO: u8 = 11;

impl Legalizer {
    fn is(&mut self, predicate: u8, wide: bool, first: Value, last: Source) -> Value {
        let code = if wide { v::COMPARE_F64 } else { v::COMPARE_F32 };
        let operation = Operation {
            immediate: Some(predicate),
            ..Operation::new(code, Form::Binary)
        };
        self.plain(operation, Some(first), last, None)
    }

    fn rounded_sum(&mut self, wide: bool, first: Value, last: Value, rounding: u8) -> Value {
        let code = if wide { v::ADD_F64 } else { v::ADD_F32 };
        let operation = Operation {
            rounding,
            ..Operation::new(code, Form::Binary)
        };
        self.plain(operation, Some(first), Source::Value(last), None)
    }

    /// The sum of both halves of 16 bits, which are exact.
    pub(super) fn u32_to_float(&mut self, value: Value, rounding: u8) -> Value {
        let high = self.shift(2, false, value, 16);
        let high = self.unary(v::I32_TO_F32, high);
        let high = self.binary(v::MUL_F32, high, float(65536.0));
        let low = self.binary(v::AND, value, word(0xFFFF));
        let low = self.unary(v::I32_TO_F32, low);
        self.rounded_sum(false, high, low, rounding)
    }

    /// Four numbers of 32 bits.
    pub(super) fn u32_to_double(&mut self, value: Value) -> Value {
        let flipped = self.binary(v::XOR.of_128_bits(), value, word(1 << 31));
        let value = self.unary(v::I32_TO_F64, flipped);
        self.binary(v::ADD_F64, value, double(2_147_483_648.0))
    }

    /// Ones where it is not in the range.
    pub(super) fn float_to_u32(&mut self, value: Value) -> Value {
        const HALF: f32 = 2_147_483_648.0;
        let is_large = self.is(GREATER_OR_EQUAL, false, value, float(HALF));
        let less = self.binary(v::AND, is_large, float(HALF));
        let rest = self.of_values(v::SUB_F32, value, less);
        let whole = self.unary(v::F32_TRUNCATED_TO_I32, rest);
        let top = self.shift(6, false, is_large, 31);
        let whole = self.of_values(v::XOR, whole, top);
        let is_low = self.is(LESS, false, value, float(2.0 * HALF));
        let is_high = self.is(GREATER, false, value, float(-1.0));
        let fits = self.of_values(v::AND, is_low, is_high);
        let ones = self.in_register(word(!0));
        self.blended(false, fits, Source::Value(whole), ones)
    }

    /// The lower halves of 64 bits have the integer, or ones where it is not in the range.
    pub(super) fn double_to_u32(&mut self, value: Value) -> Value {
        let whole = self.unary_by(v::ROUND_F64, value, TO_ZERO);
        let is_positive = self.is(GREATER_OR_EQUAL, true, whole, double(0.0));
        let is_low = self.is(LESS, true, whole, double(4_294_967_296.0));
        let fits = self.of_values(v::AND, is_positive, is_low);
        let bits = self.binary(v::ADD_F64, whole, long(TWO_TO_52));
        let ones = self.in_register(long(u64::MAX));
        self.blended(true, fits, Source::Value(bits), ones)
    }

    /// The upper and the lower 32 bits as doubles, which are exact.
    fn parts_of_long(&mut self, value: Value, signed: bool) -> [Value; 2] {
        let low = self.binary(v::AND, value, long(0xFFFF_FFFF));
        let low = self.binary(v::OR, low, long(TWO_TO_52));
        let low = self.binary(v::SUB_F64, low, long(TWO_TO_52));
        let high = self.shift(2, true, value, 32);
        let (flip, zero) = if signed {
            (
                1 << 31,
                19_342_813_113_834_066_795_298_816.0 + 9_223_372_036_854_775_808.0,
            )
        } else {
            (0, f64::from_bits(TWO_TO_84))
        };
        let high = self.binary(v::XOR, high, long(TWO_TO_84 | flip));
        let high = self.binary(v::SUB_F64, high, double(zero));
        [high, low]
    }

    pub(super) fn long_to_double(&mut self, value: Value, signed: bool, rounding: u8) -> Value {
        let [high, low] = self.parts_of_long(value, signed);
        self.rounded_sum(true, high, low, rounding)
    }

    /// Four floats. The double in between is rounded to odd, so that the float is rounded once.
    pub(super) fn long_to_float(&mut self, value: Value, signed: bool, rounding: u8) -> Value {
        let [high, low] = self.parts_of_long(value, signed);
        let sum = self.of_values(v::ADD_F64, high, low);
        let kept = self.of_values(v::SUB_F64, sum, high);
        let error = self.of_values(v::SUB_F64, low, kept);
        let zero = self.zero();
        let is_inexact = self.is(NOT_EQUAL, true, error, Source::Value(zero));
        let last = self.binary(v::AND, sum, long(1));
        let is_even = self.binary(v::ADD64, last, long(u64::MAX));
        // 1 if the error has the sign of the sum, and -1 otherwise.
        let signs = self.of_values(v::XOR, error, sum);
        let is_other = self.of_values(a::GREATER64, zero, signs);
        let step = self.binary(v::OR, is_other, long(1));
        let step = self.of_values(v::AND, step, is_inexact);
        let step = self.of_values(v::AND, step, is_even);
        let odd = self.of_values(v::ADD64, sum, step);
        let operation = Operation {
            rounding,
            ..Operation::new(v::F64_TO_F32, Form::Unary)
        };
        self.plain(operation, None, Source::Value(odd), None)
    }

    /// Truncates. What is out of range becomes the number with the top bit, or ones.
    pub(super) fn double_to_long(&mut self, value: Value, signed: bool) -> Value {
        const TWO_TO_32: f64 = 4_294_967_296.0;
        let whole = self.unary_by(v::ROUND_F64, value, TO_ZERO);
        let high = self.binary(v::MUL_F64, whole, double(1.0 / TWO_TO_32));
        let high = self.unary_by(v::ROUND_F64, high, DOWN);
        let above = self.binary(v::MUL_F64, high, double(TWO_TO_32));
        let low = self.of_values(v::SUB_F64, whole, above);
        let low = self.binary(v::ADD_F64, low, long(TWO_TO_52));
        let low = self.binary(v::AND, low, long(0xFFFF_FFFF));
        let high = self.binary(v::ADD_F64, high, double(1.5 * f64::from_bits(TWO_TO_52)));
        let high = self.shift(6, true, high, 32);
        let bits = self.of_values(v::OR, high, low);
        let (least, limit, outside) = if signed {
            (
                -9_223_372_036_854_775_808.0,
                9_223_372_036_854_775_808.0,
                1 << 63,
            )
        } else {
            (0.0, 18_446_744_073_709_551_616.0, u64::MAX)
        };
        let is_not_low = self.is(GREATER_OR_EQUAL, true, whole, double(least));
        let is_not_high = self.is(LESS, true, whole, double(limit));
        let fits = self.of_values(v::AND, is_not_low, is_not_high);
        let outside = self.in_register(long(outside));
        self.blended(true, fits, Source::Value(bits), outside)
    }

    /// The least or greatest of two floats that are no NaN, of which -0 is below 0.
    pub(super) fn range(&mut self, (wide, is_max): (bool, bool), a: Value, b: Value) -> Value {
        let code = match (wide, is_max) {
            (false, false) => v::MIN_F32,
            (false, true) => v::MAX_F32,
            (true, false) => v::MIN_F64,
            (true, true) => v::MAX_F64,
        };
        // Of equal operands, the instructions return the second.
        let [one, other] = [(a, b), (b, a)].map(|(a, b)| self.of_values(code, a, b));
        let code = if is_max { v::AND } else { v::OR };
        self.of_values(code, one, other)
    }
}
