//! Conversions and approximations in SIMD vectors, with the bits of the helpers that scalar code
//! calls.

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{InstBuilder, InstructionData, Opcode, Value, types};

use super::emitter::{EmitResult, Emitter, LITTLE_ENDIAN};
use super::lane_set::{LaneSet, vectors};
use super::{wide, wide_call};
use crate::program::{Instruction, RegClass};
use crate::runtime::Helper;
use ptx::names::{Modifier as M, Type};

impl Emitter<'_, '_> {
    pub fn is_vector(&self, value: Value) -> bool {
        self.b.func.dfg.value_type(value).is_vector()
    }

    fn as_bits(&mut self, value: Value) -> Value {
        self.b.ins().bitcast(types::I32X4, LITTLE_ENDIAN, value)
    }

    fn as_floats(&mut self, value: Value) -> Value {
        self.b.ins().bitcast(types::F32X4, LITTLE_ENDIAN, value)
    }

    /// `value`, or the GPU's NaN for every NaN.
    fn canonical(&mut self, value: Value) -> Value {
        let is_nan = self.fcmp(FloatCC::Unordered, value, value);
        let nan = self.float_bits(types::F32, 0x7FFF_FFFF);
        self.select(is_nan, nan, value)
    }

    /// `rcp.approx.f32` of vectors.
    pub fn vector_reciprocal(&mut self, a: Value) -> Value {
        let one = self.float(types::F32, 1.0);
        let value = self.b.ins().fdiv(one, a);
        self.canonical(value)
    }

    /// `sqrt.approx.f32` of vectors.
    pub fn vector_square_root(&mut self, a: Value) -> Value {
        let value = self.b.ins().sqrt(a);
        self.canonical(value)
    }

    /// `div.approx.f32` of vectors: the reciprocal of what is above 2^126 is 0.
    pub fn vector_quotient(&mut self, a: Value, b: Value) -> Value {
        let quotient = self.b.ins().fdiv(a, b);
        let size = self.b.ins().fabs(b);
        let largest = self.float_bits(types::F32, (126 + 127) << 23);
        let is_large = self.fcmp(FloatCC::GreaterThan, size, largest);
        let sign = self.float(types::F32, -0.0);
        let zero = self.b.ins().band(b, sign);
        let product = self.b.ins().fmul(a, zero);
        let value = self.select(is_large, product, quotient);
        self.canonical(value)
    }

    /// `cvt.f32.f16` of vectors of bits.
    pub fn vector_from_half(&mut self, bits: Value) -> Value {
        // A second product makes what is above all finite halves infinite.
        let value = self.vector_from_finite_half(bits);
        let up = self.float_bits(types::F32, (112 + 127) << 23);
        let down = self.float_bits(types::F32, (127 - 112) << 23);
        let value = self.b.ins().fmul(value, up);
        let value = self.b.ins().fmul(value, down);
        let magnitude = self.int(types::I32, 0x7FFF);
        let magnitude = self.b.ins().band(bits, magnitude);
        let infinite = self.int(types::I32, 0x7C00);
        let is_nan = self.icmp(IntCC::SignedGreaterThan, magnitude, infinite);
        let nan = self.float_bits(types::F32, 0x7FFF_FFFF);
        self.select(is_nan, nan, value)
    }

    /// The same of halves that are neither infinite nor NaN.
    fn vector_from_finite_half(&mut self, bits: Value) -> Value {
        // The sign to the top, and the rest to the lowest bits of the exponent.
        let (top, kept) = match self.part_of_words(bits) {
            Some((words, true)) => (words, 0x8FFF_E000),
            part => {
                let words = part.map_or(bits, |(words, _)| words);
                let shift = self.scalar_int(types::I32, 16);
                (self.b.ins().ishl(words, shift), 0x8FFF_FFFF)
            }
        };
        let shift = self.scalar_int(types::I32, 3);
        let moved = self.b.ins().sshr(top, shift);
        let kept = self.int(types::I32, kept);
        let moved = self.b.ins().band(moved, kept);
        let value = self.as_floats(moved);
        // The exponents differ by 112. A product is right for subnormal halves, too.
        let up = self.float_bits(types::F32, (112 + 127) << 23);
        self.b.ins().fmul(value, up)
    }

    /// The words of which a vector has the lower halves, or the upper ones.
    fn part_of_words(&self, part: Value) -> Option<(Value, bool)> {
        let InstructionData::Binary { opcode, args } = *self.definition(part)? else {
            return None;
        };
        match opcode {
            Opcode::Band if self.constant_lanes(args[1]) == Some([0xFFFF; 4]) => {
                Some((args[0], false))
            }
            Opcode::Ushr if self.constant_scalar(args[1]) == Some(16) => Some((args[0], true)),
            _ => None,
        }
    }

    /// `cvt.f32.f16` of a vector of such halves.
    pub fn finite_half(&mut self, i: &Instruction) -> EmitResult<()> {
        self.set_guard(i.guard);
        let bits = self.half_bits(i, 1, Type::F16, 0)?;
        let value = self.vector_from_finite_half(bits);
        self.result(i, value)
    }

    /// `cvt.rn.f16.f32` of vectors, as bits.
    pub fn vector_to_half(&mut self, value: Value) -> Value {
        if self.has_wide_vectors {
            // The upper bits of the GPU's NaN are those of its half.
            let value = self.canonical(value);
            let place = self.spilled(&[]);
            wide_call::call_preserving(self, wide::store_halves(), &[place, value]);
            let flags = LITTLE_ENDIAN.with_notrap();
            return self.b.ins().uload16x4(flags, place, 0);
        }
        let bits = self.as_bits(value);
        let magnitude = self.int(types::I32, 0x7FFF_FFFF);
        let magnitude = self.b.ins().band(bits, magnitude);
        let sign = self.b.ins().bxor(bits, magnitude);
        let shift = self.scalar_int(types::I32, 16);
        let sign = self.b.ins().ushr(sign, shift);
        // 2^16 is the first number whose exponent is that of infinity.
        let infinite = self.int(types::I32, (16 + 127) << 23);
        let clamped = self.b.ins().smin(magnitude, infinite);
        // The power of two in it; below the normal halves, the last of these.
        let exponent = self.int(types::I32, 0xFF << 23);
        let exponent = self.b.ins().band(clamped, exponent);
        let least = self.int(types::I32, (127 - 14) << 23);
        let exponent = self.b.ins().smax(exponent, least);
        // The last bit of a sum with 2^13 times that power is that of the half: it is rounded to
        // the nearest, of two to the even one.
        let above = self.int(types::I32, 13 << 23);
        let large = self.b.ins().iadd(exponent, above);
        let clamped = self.as_floats(clamped);
        let addend = self.as_floats(large);
        let sum = self.b.ins().fadd(clamped, addend);
        let sum = self.as_bits(sum);
        let digits = self.b.ins().isub(sum, large);
        // With the leading digit, which counts as one exponent.
        let shift = self.scalar_int(types::I32, 13);
        let exponent = self.b.ins().ushr(exponent, shift);
        let result = self.b.ins().iadd(digits, exponent);
        let rebase = self.int(types::I32, (127 - 14) << 10);
        let result = self.b.ins().isub(result, rebase);
        let result = self.b.ins().bor(result, sign);
        let infinite = self.int(types::I32, 0x7F80_0000);
        let is_nan = self.icmp(IntCC::SignedGreaterThan, magnitude, infinite);
        let nan = self.int(types::I32, 0x7FFF);
        self.select(is_nan, nan, result)
    }

    /// `ex2.approx.f32` of the whole lane group, in one call.
    pub fn group_exponential(&mut self, i: &Instruction) -> EmitResult<()> {
        let flush = i.modifiers.has(M::Ftz);
        let mut values = Vec::new();
        for vector in vectors(self.width, RegClass::F32) {
            self.lane_set = vector;
            let value = self.operand(i, 1, types::F32)?;
            values.push(self.flushed(value, flush));
        }
        self.lane_set = LaneSet::Scalar;
        let start = self.spilled(&values);
        let count = self.scalar_int(types::I32, self.width.into());
        self.call(Helper::ex2_lanes, &[start, count]);
        for (n, vector) in (0..).zip(vectors(self.width, RegClass::F32)) {
            self.lane_set = vector;
            self.set_guard(i.guard);
            let value = self.unspilled(types::F32X4, start, n);
            let value = self.flushed(value, flush);
            let value = self.gpu_single(value);
            self.result(i, value)?;
        }
        self.lane_set = LaneSet::Scalar;
        Ok(())
    }
}
