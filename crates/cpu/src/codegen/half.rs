//! f16 and bf16, single and in pairs: kept as bits, computed by the runtime's
//! functions, which round once.

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{InstBuilder, Value, types};

use super::emitter::{Emitted, Emitter};
use crate::math::{Helper, Rounding};
use crate::program::Instruction;
use ptx::names::{Modifier as M, Opcode as O, Type as P};

impl Emitter<'_, '_> {
    pub fn half(&mut self, i: &Instruction) -> Emitted<()> {
        // `fma.rn.bf16x2` and `ex2.approx.ftz.bf16x2` alike: the type comes last.
        let ty = self.ty(i, 0)?;
        let brain = matches!(ty, P::Bf16 | P::Bf16x2);
        if matches!(ty, P::F16x2 | P::Bf16x2) {
            let mut halves = [None; 2];
            for (half, value) in halves.iter_mut().enumerate() {
                *value = Some(self.half_operation(i, ty, brain, half)?);
            }
            let [Some(low), Some(high)] = halves else {
                return self.refuse(i, "an operand is missing");
            };
            let by = self.int(types::I32, 16);
            let high = self.b.ins().ishl(high, by);
            let value = self.b.ins().bor(low, high);
            return self.result(i, value);
        }
        if !matches!(ty, P::F16 | P::Bf16) {
            return self.refuse(i, "this type");
        }
        if i.opcode == O::Testp {
            return self.refuse(i, "this type");
        }
        let value = self.half_operation(i, ty, brain, 0)?;
        let value = self.reshape(value, types::I16);
        self.result(i, value)
    }

    /// Half `half` of operand `at`: its bits in an `i32`.
    pub(super) fn half_bits(
        &mut self,
        i: &Instruction,
        at: usize,
        ty: P,
        half: usize,
    ) -> Emitted<Value> {
        if matches!(ty, P::F16x2 | P::Bf16x2) {
            let pair = self.operand(i, at, types::I32)?;
            let by = self.int(types::I32, 16 * (half as u64 & 1));
            let part = self.b.ins().ushr(pair, by);
            let mask = self.int(types::I32, 0xFFFF);
            Ok(self.b.ins().band(part, mask))
        } else {
            let bits = self.operand(i, at, types::I16)?;
            Ok(self.reshape(bits, types::I32))
        }
    }

    /// Half `half` of operand `at` as `f32`.
    pub fn half_as_float(
        &mut self,
        i: &Instruction,
        at: usize,
        ty: P,
        half: usize,
    ) -> Emitted<Value> {
        let bits = self.half_bits(i, at, ty, half)?;
        let bits = self.flushed_half(bits, ty, i.modifiers.has(M::Ftz));
        Ok(self.half_to_float(bits, matches!(ty, P::Bf16 | P::Bf16x2)))
    }

    /// The value of bits in an `i32`, exact.
    pub fn half_to_float(&mut self, bits: Value, brain: bool) -> Value {
        let helper = if brain {
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
        self.select(tiny, zero, bits)
    }

    fn half_operation(
        &mut self,
        i: &Instruction,
        ty: P,
        brain: bool,
        half: usize,
    ) -> Emitted<Value> {
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
                    value = self.half_extreme(i, value, last, brain);
                }
                if i.modifiers.has(M::Xorsign) {
                    let signs = self.b.ins().bxor(a, last);
                    let signs = self.b.ins().band(signs, sign);
                    let size = self.b.ins().band_not(value, sign);
                    value = self.b.ins().bor(size, signs);
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
                let helper = match (i.opcode == O::Mul, brain) {
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
                let helper = if brain {
                    Helper::fma_bf16
                } else {
                    Helper::fma_f16
                };
                self.call(helper, &[a, b, c])
            }
            O::Ex2 if brain => self.call(Helper::ex2_bf16, &[a]),
            O::Ex2 => self.call(Helper::ex2_f16, &[a]),
            O::Tanh if brain => self.call(Helper::tanh_bf16, &[a]),
            O::Tanh => self.call(Helper::tanh_f16, &[a]),
            _ => return self.refuse(i, "this type"),
        };
        if matches!(i.opcode, O::Neg | O::Abs) {
            return Ok(value);
        }
        let value = self.flushed_half(value, ty, flush);
        let wants = i.modifiers.first_of(&[M::Sat, M::Relu]);
        Ok(match wants {
            Some(kind) => self.half_clamped(value, brain, kind == M::Sat),
            None => value,
        })
    }

    /// `.sat`: into [0, 1], NaN to 0. `.relu`: negative to 0, NaN kept.
    fn half_clamped(&mut self, bits: Value, brain: bool, sat: bool) -> Value {
        let value = self.half_to_float(bits, brain);
        let zero = self.float(types::F32, 0.0);
        let none = self.int(types::I32, 0);
        if !sat {
            let positive = self.fcmp(FloatCC::UnorderedOrGreaterThan, value, zero);
            return self.select(positive, bits, none);
        }
        let one = self.float(types::F32, 1.0);
        let positive = self.fcmp(FloatCC::GreaterThan, value, zero);
        let bits = self.select(positive, bits, none);
        let over = self.fcmp(FloatCC::GreaterThan, value, one);
        let one = self.int(types::I32, if brain { 0x3F80 } else { 0x3C00 });
        self.select(over, one, bits)
    }

    fn half_extreme(&mut self, i: &Instruction, a: Value, b: Value, brain: bool) -> Value {
        let (x, y) = if i.modifiers.has(M::Abs) {
            let mask = self.int(types::I32, 0x7FFF);
            (self.b.ins().band(a, mask), self.b.ins().band(b, mask))
        } else {
            (a, b)
        };
        let x = self.half_to_float(x, brain);
        let y = self.half_to_float(y, brain);
        let min = i.opcode == O::Min;
        let value = self.extreme_of_two(x, y, min, i.modifiers.has(M::NaN));
        let bits = self.float_to_half(value, brain, Rounding::Nearest);
        // The canonical NaN of both formats.
        let is_nan = self.fcmp(FloatCC::Unordered, value, value);
        let nan = self.int(types::I32, 0x7FFF);
        self.select(is_nan, nan, bits)
    }

    /// The bits in an `i32`.
    pub fn float_to_half(&mut self, value: Value, brain: bool, rounding: Rounding) -> Value {
        let rounding = self.int(types::I32, rounding as u64);
        let single = self.b.func.dfg.value_type(value) == types::F32;
        let helper = match (single, brain) {
            (true, true) => Helper::f32_to_bf16,
            (true, false) => Helper::f32_to_f16,
            (false, true) => Helper::f64_to_bf16,
            (false, false) => Helper::f64_to_f16,
        };
        self.call(helper, &[value, rounding])
    }
}
