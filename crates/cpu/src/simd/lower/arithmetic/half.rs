//! Halves: f16 and bf16, alone and in pairs. They are computed as floats, and rounded once.

use crate::program::{Arg, Instruction};
use crate::simd::lower::{Lowered, Lowering, Source, Unsupported, is_half};
use crate::simd::machine::Value;
use crate::simd::opcodes as v;
use ptx::names::{Modifier as M, Opcode as O, Type};

const SIGN: u64 = 0x8000;
const NAN: u64 = 0x7FFF;

// Predicates of comparisons.
const NOT_EQUAL: u8 = 0x0C;
const UNORDERED: u8 = 0x03;
const ABOVE: u8 = 0x1E;
const ABOVE_OR_UNORDERED: u8 = 0x16;

/// Whether a type is bf16, alone or in pairs.
fn is_bf16(ty: Type) -> bool {
    matches!(ty, Type::Bf16 | Type::Bf16x2)
}

fn is_pair(ty: Type) -> bool {
    matches!(ty, Type::F16x2 | Type::Bf16x2)
}

fn bits_of(number: f32) -> Source {
    Source::Bits(number.to_bits().into())
}

impl Lowering<'_, '_> {
    pub(in crate::simd::lower) fn half(&mut self, i: &Instruction) -> Lowered<()> {
        let ty = self.ty(i, 0)?;
        if !is_half(ty) || i.modifiers.types().nth(1).is_some() {
            return Err(Unsupported("arithmetic of several types"));
        }
        let to = self.arg(i, 0)?;
        let mut values = Vec::new();
        for piece in 0..self.pieces_for(to, false) {
            let low = self.half_of_result(i, ty, (piece, 0))?;
            values.push(if !is_pair(ty) {
                low
            } else {
                let high = self.half_of_result(i, ty, (piece, 1))?;
                self.pair_of(low, high)
            });
        }
        self.write(i, to, false, &values, false)
    }

    fn pair_of(&mut self, low: Value, high: Value) -> Value {
        let high = self.shift(6, false, high, 16);
        self.binary(v::OR, Source::Vector(low), Source::Vector(high))
    }

    /// The bits of one half of an operand.
    fn half_bits(&mut self, arg: Arg, ty: Type, (piece, half): (usize, usize)) -> Lowered<Value> {
        if matches!(arg, Arg::Float(_)) {
            return Err(Unsupported("a constant half"));
        }
        let value = self.vector(arg, false, piece)?;
        Ok(match (is_pair(ty), half) {
            (true, 1) => self.shift(2, false, value, 16),
            _ => self.low_half(value),
        })
    }

    /// Subnormal f16 become zeros of their sign.
    fn flushed_half(&mut self, bits: Value, ty: Type, i: &Instruction) -> Value {
        if !i.modifiers.has(M::Ftz) || is_bf16(ty) {
            return bits;
        }
        let exponent = self.binary(v::AND, Source::Vector(bits), Source::Bits(0x7C00));
        let zero = Source::Vector(self.in_register(Source::Bits(0), false));
        let is_tiny = self.compared(v::COMPARE_U, Source::Vector(exponent), zero, Some(0), None);
        let sign = self.binary(v::AND, Source::Vector(bits), Source::Bits(SIGN));
        self.blended(false, is_tiny, Source::Vector(sign), Source::Vector(bits))
    }

    /// The float of a half, exactly.
    fn float_of_half(&mut self, bits: Value, is_bf16: bool) -> Value {
        if is_bf16 {
            return self.shift(6, false, bits, 16);
        }
        let halves = self.reversed(v::NARROW_TO_HALVES, bits, None);
        let value = self.converted(v::HALF_TO_F32, halves);
        self.canonical(value)
    }

    /// A half operand that is converted, as a float.
    pub(in crate::simd::lower) fn converted_half(
        &mut self,
        arg: Arg,
        ty: Type,
        piece: usize,
    ) -> Lowered<Source> {
        let bits = self.half_bits(arg, ty, (piece, 0))?;
        Ok(Source::Vector(self.float_of_half(bits, is_bf16(ty))))
    }

    /// A half operand of arithmetic, as a float.
    pub(in crate::simd::lower) fn half_source(
        &mut self,
        i: &Instruction,
        arg: Arg,
        ty: Type,
        at: (usize, usize),
    ) -> Lowered<Value> {
        let bits = self.half_bits(arg, ty, at)?;
        let bits = self.flushed_half(bits, ty, i);
        Ok(self.float_of_half(bits, is_bf16(ty)))
    }

    /// The bits of a float as a half, rounded to nearest (0) or to zero (3); f16 also down (1) or up (2).
    fn half_of_float(&mut self, value: Value, is_bf16: bool, rounding: u8) -> Lowered<Value> {
        if !is_bf16 {
            // The upper bits of the GPU's NaN are those of its half.
            let value = self.canonical(value);
            let halves = self.reversed(v::F32_TO_HALF, value, Some(rounding));
            return Ok(self.converted(v::LOAD_HALVES_U, halves));
        }
        let all = Source::Vector(value);
        let bits = match rounding {
            0 => {
                let last = self.shift(2, false, value, 16);
                let last = self.binary(v::AND, Source::Vector(last), Source::Bits(1));
                let sum = self.binary(v::ADD, all, Source::Vector(last));
                let sum = self.binary(v::ADD, Source::Vector(sum), Source::Bits(0x7FFF));
                self.shift(2, false, sum, 16)
            }
            3 => self.shift(2, false, value, 16),
            _ => return Err(Unsupported("a rounding of bf16")),
        };
        let is_nan = self.compared(v::COMPARE_F32, all, all, Some(UNORDERED), None);
        Ok(self.blended(false, is_nan, Source::Bits(NAN), Source::Vector(bits)))
    }

    /// One half of a result.
    fn half_of_result(&mut self, i: &Instruction, ty: Type, at: (usize, usize)) -> Lowered<Value> {
        let is_bf16 = is_bf16(ty);
        let operand = |e: &mut Self, n: usize| -> Lowered<Value> {
            let arg = e.arg(i, n)?;
            e.half_source(i, arg, ty, at)
        };
        let bits = match i.opcode {
            O::Neg | O::Abs => {
                let arg = self.arg(i, 1)?;
                let bits = self.half_bits(arg, ty, at)?;
                let bits = self.flushed_half(bits, ty, i);
                let (code, with) = match i.opcode {
                    O::Neg => (v::XOR, SIGN),
                    _ => (v::AND, SIGN - 1),
                };
                return Ok(self.binary(code, Source::Vector(bits), Source::Bits(with)));
            }
            O::Min | O::Max => return self.least_half(i, ty, at),
            O::Add | O::Sub | O::Mul if !(is_bf16 && i.opcode == O::Mul) => {
                let (a, b) = (operand(self, 1)?, operand(self, 2)?);
                // A float has more than twice the bits of a half and two more: rounding twice is
                // rounding once.
                let code = match i.opcode {
                    O::Add => v::ADD_F32,
                    O::Sub => v::SUB_F32,
                    _ => v::MUL_F32,
                };
                let value = self.binary(code, Source::Vector(a), Source::Vector(b));
                self.half_of_float(value, is_bf16, 0)?
            }
            O::Mul | O::Fma => {
                let (a, b) = (operand(self, 1)?, operand(self, 2)?);
                let c = match i.opcode {
                    O::Fma => Some(operand(self, 3)?),
                    _ => None,
                };
                let value = self.odd_float_of_sum(a, b, c);
                self.half_of_float(value, is_bf16, 0)?
            }
            _ => return Err(Unsupported("arithmetic of halves")),
        };
        let bits = self.flushed_half(bits, ty, i);
        self.clamped_half(i, bits, is_bf16)
    }

    /// The float of `a * b + c`, or `a * b`, rounded to odd: rounding it again to fewer bits gives what
    /// rounding the exact value gives.
    fn odd_float_of_sum(&mut self, a: Value, b: Value, c: Option<Value>) -> Value {
        let halves = [0, 1].map(|n| {
            let [a, b] = [a, b].map(|value| {
                let half = self.half_of(value, n);
                Source::Vector(self.converted(v::F32_TO_F64, half))
            });
            // Exact: the operands have eleven bits at most.
            let product = self.binary(v::MUL_F64, a, b);
            let sum = match c {
                None => product,
                Some(c) => {
                    let half = self.half_of(c, n);
                    let c = self.converted(v::F32_TO_F64, half);
                    self.odd_sum(product, c)
                }
            };
            self.odd_float(sum)
        });
        self.joined(halves[0], halves[1])
    }

    /// The sum of doubles, rounded to odd.
    fn odd_sum(&mut self, a: Value, b: Value) -> Value {
        let vector = Source::Vector;
        let sum = self.binary(v::ADD_F64, vector(a), vector(b));
        // The exact rounding error (Knuth's two-sum). It is NaN if the sum is not finite.
        let back = self.binary(v::SUB_F64, vector(sum), vector(a));
        let rest = self.binary(v::SUB_F64, vector(sum), vector(back));
        let lost = self.binary(v::SUB_F64, vector(a), vector(rest));
        let other = self.binary(v::SUB_F64, vector(b), vector(back));
        let lost = self.binary(v::ADD_F64, vector(lost), vector(other));
        let zero = vector(self.in_register(Source::Bits(0), true));
        let is_inexact = self.compared(v::COMPARE_F64, vector(lost), zero, Some(NOT_EQUAL), None);
        // Of the two numbers around the exact value, the odd one: the next one in the direction of the
        // error if the sum is even.
        let signs = self.binary(v::XOR64, vector(lost), vector(sum));
        let step = self.shift(4, true, signs, 63);
        let step = self.binary(v::OR64, vector(step), Source::Bits(1));
        let last = self.binary(v::AND64, vector(sum), Source::Bits(1));
        let is_even = self.binary(v::ADD64, vector(last), Source::Bits(u64::MAX));
        let step = self.binary(v::AND64, vector(step), vector(is_even));
        let odd = self.binary(v::ADD64, vector(sum), vector(step));
        self.blended(true, is_inexact, vector(odd), vector(sum))
    }

    /// Eight doubles as floats, rounded to odd.
    fn odd_float(&mut self, value: Value) -> Value {
        let vector = Source::Vector;
        // To zero, with the last bit set if something is lost.
        let float = self.unary_with(v::F64_TO_F32, vector(value), None, 3);
        let back = self.converted(v::F32_TO_F64, float);
        let compare = v::COMPARE_F64;
        let is_inexact = self.compared(compare, vector(back), vector(value), Some(NOT_EQUAL), None);
        let odd = self.binary(v::OR, vector(float), Source::Bits(1));
        self.blended(false, is_inexact, vector(odd), vector(float))
    }

    fn least_half(&mut self, i: &Instruction, ty: Type, at: (usize, usize)) -> Lowered<Value> {
        if i.modifiers.first_of(&[M::Xorsign, M::Abs]).is_some() {
            return Err(Unsupported("a minimum of magnitudes"));
        }
        let kind = (i.opcode == O::Min, i.modifiers.has(M::NaN));
        let arg = self.arg(i, 1)?;
        let mut value = self.half_source(i, arg, ty, at)?;
        for n in 2..self.program.list(i.args).len() {
            let arg = self.arg(i, n)?;
            let other = self.half_source(i, arg, ty, at)?;
            value = self.of_two(Source::Vector(value), Source::Vector(other), kind, false);
        }
        self.half_of_float(value, is_bf16(ty), 0)
    }

    /// `.sat` clamps to [0, 1], and NaN to 0. `.relu` clamps to positive numbers and keeps NaN.
    fn clamped_half(&mut self, i: &Instruction, bits: Value, is_bf16: bool) -> Lowered<Value> {
        let sat = i.modifiers.has(M::Sat);
        if !sat && !i.modifiers.has(M::Relu) {
            return Ok(bits);
        }
        let value = Source::Vector(self.float_of_half(bits, is_bf16));
        let zero = Source::Vector(self.in_register(Source::Bits(0), false));
        let predicate = if sat { ABOVE } else { ABOVE_OR_UNORDERED };
        let is_kept = self.compared(v::COMPARE_F32, value, zero, Some(predicate), None);
        let bits = self.blended(false, is_kept, Source::Vector(bits), zero);
        if !sat {
            return Ok(bits);
        }
        let is_over = self.compared(v::COMPARE_F32, value, bits_of(1.0), Some(ABOVE), None);
        let one = Source::Bits(if is_bf16 { 0x3F80 } else { 0x3C00 });
        Ok(self.blended(false, is_over, one, Source::Vector(bits)))
    }

    /// Conversions to halves: of a float, or of two floats, of which the first becomes the upper half.
    pub(in crate::simd::lower) fn convert_to_half(
        &mut self,
        i: &Instruction,
        ty: Type,
    ) -> Lowered<()> {
        let to = self.arg(i, 0)?;
        let others = [M::Rs, M::Satfinite, M::Sat, M::Rni, M::Rzi, M::Rmi, M::Rpi];
        let flushes = is_bf16(ty) && i.modifiers.has(M::Ftz);
        let is_other = flushes || self.ty(i, 1)? != Type::F32;
        if is_other || i.modifiers.first_of(&others).is_some() {
            return Err(Unsupported("a conversion to halves of this kind"));
        }
        let rounding = Self::conversion_rounding(i).unwrap_or(0);
        let mut values = Vec::new();
        for piece in 0..self.pieces_for(to, false) {
            let mut halves = Vec::new();
            for n in 1..=1 + usize::from(is_pair(ty)) {
                let arg = self.arg(i, n)?;
                let value = self.vector(arg, false, piece)?;
                let bits = self.half_of_float(value, is_bf16(ty), rounding)?;
                halves.push(self.clamped_half(i, bits, is_bf16(ty))?);
            }
            values.push(match halves[..] {
                [high, low] => self.pair_of(low, high),
                _ => halves[0],
            });
        }
        self.write(i, to, false, &values, false)
    }

    /// A conversion of a half to a float.
    pub(in crate::simd::lower) fn convert_from_half(
        &mut self,
        i: &Instruction,
        (to, from): (Type, Type),
    ) -> Lowered<()> {
        let others = [M::Rni, M::Rzi, M::Rmi, M::Rpi, M::Relu];
        if to != Type::F32 || is_pair(from) || i.modifiers.first_of(&others).is_some() {
            return Err(Unsupported("a conversion of halves of this kind"));
        }
        let [result, source] = [self.arg(i, 0)?, self.arg(i, 1)?];
        let mut values = Vec::new();
        for piece in 0..self.pieces_for(result, false) {
            let value = self.converted_half(source, from, piece)?;
            let value = self.in_register(value, false);
            values.push(if i.modifiers.has(M::Sat) {
                self.saturated(value, false)
            } else {
                value
            });
        }
        self.write(i, result, false, &values, false)
    }

    /// Compares halves of operands `at` and `at + 1`, as floats.
    pub(in crate::simd::lower) fn compared_halves(
        &mut self,
        i: &Instruction,
        ty: Type,
        at: usize,
        piece: usize,
    ) -> Lowered<[Source; 2]> {
        if is_pair(ty) {
            return Err(Unsupported("a comparison of pairs"));
        }
        let (a, b) = (self.arg(i, at)?, self.arg(i, at + 1)?);
        let a = self.half_source(i, a, ty, (piece, 0))?;
        let b = self.half_source(i, b, ty, (piece, 0))?;
        Ok([Source::Vector(a), Source::Vector(b)])
    }
}
