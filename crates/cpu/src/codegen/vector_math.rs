//! Conversions and approximations in SIMD vectors, with the bits of the helpers that scalar code
//! calls.

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{InstBuilder, Value, types};

use super::emitter::{EmitResult, Emitter, LITTLE_ENDIAN};
use super::lane_set::{LaneSet, vectors};
use crate::program::{Instruction, RegClass};
use crate::runtime::Helper;
use ptx::names::Modifier as M;

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
        let magnitude = self.int(types::I32, 0x7FFF);
        let magnitude = self.b.ins().band(bits, magnitude);
        let sign = self.b.ins().bxor(bits, magnitude);
        let shift = self.scalar_int(types::I32, 16);
        let sign = self.b.ins().ishl(sign, shift);
        let shift = self.scalar_int(types::I32, 13);
        let moved = self.b.ins().ishl(magnitude, shift);
        // The exponents differ by 112. A product is right for subnormal halves, too.
        let scale = self.float_bits(types::F32, (112 + 127) << 23);
        let moved = self.as_floats(moved);
        let finite = self.b.ins().fmul(moved, scale);
        let finite = self.as_bits(finite);
        let finite = self.b.ins().bor(finite, sign);
        let infinite = self.int(types::I32, 0x7C00);
        let is_infinite = self.icmp(IntCC::Equal, magnitude, infinite);
        let is_nan = self.icmp(IntCC::SignedGreaterThan, magnitude, infinite);
        let infinity = self.int(types::I32, 0x7F80_0000);
        let infinity = self.b.ins().bor(infinity, sign);
        let nan = self.int(types::I32, 0x7FFF_FFFF);
        let value = self.select(is_infinite, infinity, finite);
        let value = self.select(is_nan, nan, value);
        self.as_floats(value)
    }

    /// `cvt.rn.f16.f32` of vectors, as bits.
    pub fn vector_to_half(&mut self, value: Value) -> Value {
        let bits = self.as_bits(value);
        let magnitude = self.int(types::I32, 0x7FFF_FFFF);
        let magnitude = self.b.ins().band(bits, magnitude);
        let shift = self.scalar_int(types::I32, 16);
        let sign = self.b.ins().ushr(bits, shift);
        let sign_bit = self.int(types::I32, 0x8000);
        let sign = self.b.ins().band(sign, sign_bit);

        // To the nearest, of two the even one.
        let shift = self.scalar_int(types::I32, 13);
        let rebase = self.int(types::I32, 112 << 23);
        let rebased = self.b.ins().isub(magnitude, rebase);
        let odd = self.b.ins().ushr(rebased, shift);
        let one = self.int(types::I32, 1);
        let odd = self.b.ins().band(odd, one);
        let half = self.int(types::I32, 0xFFF);
        let rounded = self.b.ins().iadd(rebased, half);
        let rounded = self.b.ins().iadd(rounded, odd);
        let normal = self.b.ins().ushr(rounded, shift);

        // The last bit of a sum with 0.5 is that of a subnormal half.
        let least = self.float(types::F32, 0.5);
        let small = self.as_floats(magnitude);
        let small = self.b.ins().fadd(small, least);
        let small = self.as_bits(small);
        let least = self.as_bits(least);
        let small = self.b.ins().isub(small, least);

        let first_normal = self.int(types::I32, 0x3880_0000);
        let is_small = self.icmp(IntCC::SignedLessThan, magnitude, first_normal);
        // From here on, the next number is infinite.
        let first_infinite = self.int(types::I32, 0x477F_F000);
        let is_large = self.icmp(IntCC::SignedGreaterThanOrEqual, magnitude, first_infinite);
        let infinity = self.int(types::I32, 0x7C00);
        let result = self.select(is_small, small, normal);
        let result = self.select(is_large, infinity, result);
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
            self.result(i, value)?;
        }
        self.lane_set = LaneSet::Scalar;
        Ok(())
    }
}
