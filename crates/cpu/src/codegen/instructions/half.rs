//! f16 and bf16, scalar and packed in pairs. They are represented by their bits; helpers
//! compute, and round once.

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{InstBuilder, Value, types};

use crate::codegen::emitter::{EmitResult, Emitter};
use crate::math::rounding::Rounding;
use crate::program::Instruction;
use crate::runtime::Helper;
use ptx::names::{Modifier as M, Opcode as O, Type as P};

impl Emitter<'_, '_> {
    pub fn half(&mut self, i: &Instruction) -> EmitResult<()> {
        let ty = self.ty(i, 0)?;
        let is_bf16 = matches!(ty, P::Bf16 | P::Bf16x2);
        if matches!(ty, P::F16x2 | P::Bf16x2) {
            let mut halves = [None; 2];
            for (half, value) in halves.iter_mut().enumerate() {
                *value = Some(self.half_operation(i, ty, is_bf16, half)?);
            }
            let [Some(low), Some(high)] = halves else {
                return self.unsupported(i, "an operand is missing");
            };
            let by = self.int(types::I32, 16);
            let high = self.b.ins().ishl(high, by);
            let value = self.b.ins().bor(low, high);
            return self.result(i, value);
        }
        if !matches!(ty, P::F16 | P::Bf16) {
            return self.unsupported(i, "unsupported type");
        }
        if i.opcode == O::Testp {
            return self.unsupported(i, "unsupported type");
        }
        let value = self.half_operation(i, ty, is_bf16, 0)?;
        let value = self.coerce(value, types::I16);
        self.result(i, value)
    }

    /// The bits of element `half` of operand `at`, in an `i32`.
    pub(in crate::codegen) fn half_bits(
        &mut self,
        i: &Instruction,
        at: usize,
        ty: P,
        half: usize,
    ) -> EmitResult<Value> {
        if matches!(ty, P::F16x2 | P::Bf16x2) {
            let pair = self.operand(i, at, types::I32)?;
            let by = self.int(types::I32, 16 * (half as u64 & 1));
            let part = self.b.ins().ushr(pair, by);
            let mask = self.int(types::I32, 0xFFFF);
            Ok(self.b.ins().band(part, mask))
        } else {
            let bits = self.operand(i, at, types::I16)?;
            Ok(self.coerce(bits, types::I32))
        }
    }

    /// Element `half` of operand `at` as `f32`.
    pub fn half_as_float(
        &mut self,
        i: &Instruction,
        at: usize,
        ty: P,
        half: usize,
    ) -> EmitResult<Value> {
        let bits = self.half_bits(i, at, ty, half)?;
        let bits = self.flushed_half(bits, ty, i.modifiers.has(M::Ftz));
        Ok(self.half_to_float(bits, matches!(ty, P::Bf16 | P::Bf16x2)))
    }

    /// Converts the bits in an `i32` to `f32`, exactly.
    pub fn half_to_float(&mut self, bits: Value, is_bf16: bool) -> Value {
        let helper = if is_bf16 {
            Helper::bf16_to_f32
        } else {
            Helper::f16_to_f32
        };
        self.call(helper, &[bits])
    }

    fn flushed_half(&mut self, bits: Value, ty: P, flush: bool) -> Value {
        if !flush || !matches!(ty, P::F16 | P::F16x2) {
            return bits;
        }
        let exponent = self.int(types::I32, 0x7C00);
        let exponent = self.b.ins().band(bits, exponent);
        let tiny = self.icmp_imm(IntCC::Equal, exponent, 0);
        let sign = self.int(types::I32, 0x8000);
        let zero = self.b.ins().band(bits, sign);
        self.b.ins().select(tiny, zero, bits)
    }

    fn half_operation(
        &mut self,
        i: &Instruction,
        ty: P,
        is_bf16: bool,
        half: usize,
    ) -> EmitResult<Value> {
        let flush = i.modifiers.has(M::Ftz);
        let a = self.half_bits(i, 1, ty, half)?;
        let a = self.flushed_half(a, ty, flush);
        let sign = self.int(types::I32, 0x8000);
        let value = match i.opcode {
            O::Neg => self.b.ins().bxor(a, sign),
            O::Abs => self.b.ins().band_not(a, sign),
            O::Min | O::Max => {
                let mut value = a;
                let mut last = a;
                for at in 2..self.arg_count(i) {
                    let b = self.half_bits(i, at, ty, half)?;
                    last = self.flushed_half(b, ty, flush);
                    value = self.half_min_max(i, value, last, is_bf16);
                }
                if i.modifiers.has(M::Xorsign) {
                    let signs = self.b.ins().bxor(a, last);
                    let signs = self.b.ins().band(signs, sign);
                    let size = self.b.ins().band_not(value, sign);
                    value = self.b.ins().bor(size, signs);
                    value = self.canonical_half(value, is_bf16);
                }
                return Ok(value);
            }
            O::Add | O::Sub | O::Mul => {
                let b = self.half_bits(i, 2, ty, half)?;
                let b = self.flushed_half(b, ty, flush);
                let b = if i.opcode == O::Sub {
                    self.b.ins().bxor(b, sign)
                } else {
                    b
                };
                let helper = match (i.opcode == O::Mul, is_bf16) {
                    (true, true) => Helper::mul_bf16,
                    (true, false) => Helper::mul_f16,
                    (false, true) => Helper::add_bf16,
                    (false, false) => Helper::add_f16,
                };
                self.call(helper, &[a, b])
            }
            O::Fma => {
                let b = self.half_bits(i, 2, ty, half)?;
                let b = self.flushed_half(b, ty, flush);
                let c = self.half_bits(i, 3, ty, half)?;
                let c = self.flushed_half(c, ty, flush);
                let helper = if is_bf16 {
                    Helper::fma_bf16
                } else {
                    Helper::fma_f16
                };
                self.call(helper, &[a, b, c])
            }
            O::Ex2 if is_bf16 => self.call(Helper::ex2_bf16, &[a]),
            O::Ex2 => self.call(Helper::ex2_f16, &[a]),
            O::Tanh if is_bf16 => self.call(Helper::tanh_bf16, &[a]),
            O::Tanh => self.call(Helper::tanh_f16, &[a]),
            _ => return self.unsupported(i, "unsupported type"),
        };
        if matches!(i.opcode, O::Neg | O::Abs) {
            return Ok(self.gpu_half(value, is_bf16));
        }
        let value = self.flushed_half(value, ty, flush);
        let wants = i.modifiers.first_of(&[M::Sat, M::Relu]);
        let value = match wants {
            Some(kind) => self.half_clamped(value, is_bf16, kind == M::Sat),
            None => value,
        };
        Ok(self.gpu_half(value, is_bf16))
    }

    /// `.sat` clamps to [0, 1] and NaN to 0. `.relu` clamps negative values to 0 and
    /// retains NaN.
    fn half_clamped(&mut self, bits: Value, is_bf16: bool, sat: bool) -> Value {
        let value = self.half_to_float(bits, is_bf16);
        let zero = self.float(types::F32, 0.0);
        let none = self.int(types::I32, 0);
        if !sat {
            let positive = self
                .b
                .ins()
                .fcmp(FloatCC::UnorderedOrGreaterThan, value, zero);
            return self.b.ins().select(positive, bits, none);
        }
        let one = self.float(types::F32, 1.0);
        let positive = self.b.ins().fcmp(FloatCC::GreaterThan, value, zero);
        let bits = self.b.ins().select(positive, bits, none);
        let over = self.b.ins().fcmp(FloatCC::GreaterThan, value, one);
        let one = self.int(types::I32, if is_bf16 { 0x3F80 } else { 0x3C00 });
        self.b.ins().select(over, one, bits)
    }

    fn half_min_max(&mut self, i: &Instruction, a: Value, b: Value, is_bf16: bool) -> Value {
        let (x, y) = if i.modifiers.has(M::Abs) {
            let mask = self.int(types::I32, 0x7FFF);
            (self.b.ins().band(a, mask), self.b.ins().band(b, mask))
        } else {
            (a, b)
        };
        let x = self.half_to_float(x, is_bf16);
        let y = self.half_to_float(y, is_bf16);
        let min = i.opcode == O::Min;
        let value = self.min_max_of_two(x, y, min, i.modifiers.has(M::NaN));
        let bits = self.float_to_half(value, is_bf16, Rounding::Nearest);
        // The canonical NaN of both formats.
        let is_nan = self.b.ins().fcmp(FloatCC::Unordered, value, value);
        let nan = self.int(types::I32, 0x7FFF);
        self.b.ins().select(is_nan, nan, bits)
    }

    /// Converts `f32` or `f64` to the bits in an `i32`.
    pub fn float_to_half(&mut self, value: Value, is_bf16: bool, rounding: Rounding) -> Value {
        let rounding = self.int(types::I32, rounding as u64);
        let single = self.b.func.dfg.value_type(value) == types::F32;
        let helper = match (single, is_bf16) {
            (true, true) => Helper::f32_to_bf16,
            (true, false) => Helper::f32_to_f16,
            (false, true) => Helper::f64_to_bf16,
            (false, false) => Helper::f64_to_f16,
        };
        self.call(helper, &[value, rounding])
    }
}
