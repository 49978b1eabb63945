//! `f32` and `f64` arithmetic (PTX ISA, "Floating Point Instructions").

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{InstBuilder, MemFlagsData, Type, Value, types};

use crate::codegen::emitter::{EmitResult, Emitter};
use crate::math::rounding::Rounding;
use crate::program::Instruction;
use crate::runtime::Helper;
use ptx::names::{Modifier as M, Opcode as O};

/// The rounding mode of the instruction, unless it is to nearest.
pub(in crate::codegen) fn directed(i: &Instruction) -> Option<Rounding> {
    match i.modifiers.first_of(&[M::Rz, M::Rm, M::Rp])? {
        M::Rz => Some(Rounding::Zero),
        M::Rm => Some(Rounding::Down),
        _ => Some(Rounding::Up),
    }
}

impl Emitter<'_, '_> {
    pub fn float_arithmetic(&mut self, i: &Instruction) -> EmitResult<()> {
        let ty = self.native(i, 0)?;
        let single = ty == types::F32;
        let flush = i.modifiers.has(M::Ftz) && single;
        let rounding = directed(i);
        // Sums and products of halves with singles: all but the last operand are halves.
        let of_halves =
            matches!(i.opcode, O::Add | O::Sub | O::Fma) && i.modifiers.types().nth(1).is_some();
        let a = if of_halves {
            self.half_as_float(i, 1, self.ty(i, 1)?, 0)?
        } else {
            self.operand(i, 1, ty)?
        };
        let value = match i.opcode {
            // `abs` and `neg` flush subnormals, but do not round.
            O::Abs => {
                let a = self.flushed(a, flush);
                self.b.ins().fabs(a)
            }
            O::Neg => {
                let a = self.flushed(a, flush);
                self.b.ins().fneg(a)
            }
            O::Copysign => {
                // `copysign.f32 d, a, b` gives b the sign of a.
                let b = self.operand(i, 2, ty)?;
                self.b.ins().fcopysign(b, a)
            }
            O::Testp => return self.testp(i, a, ty),
            O::Add | O::Sub | O::Mul => {
                let b = self.operand(i, 2, ty)?;
                self.sum_or_product(i.opcode, [a, b], rounding, flush)
            }
            O::Fma | O::Mad => {
                let b = if of_halves {
                    self.half_as_float(i, 2, self.ty(i, 1)?, 0)?
                } else {
                    self.operand(i, 2, ty)?
                };
                let c = self.operand(i, 3, ty)?;
                self.flushed_multiply_add([a, b, c], rounding, flush)
            }
            O::Div => {
                let b = self.operand(i, 2, ty)?;
                let a = self.flushed(a, flush);
                let b = self.flushed(b, flush);
                // `.full` covers the full range: an exact quotient does.
                if i.modifiers.has(M::Approx) {
                    self.call(Helper::div_approx_f32, &[a, b])
                } else {
                    self.divided(a, b, rounding)
                }
            }
            O::Rcp => {
                let a = self.flushed(a, flush);
                match (i.modifiers.has(M::Approx), single) {
                    (true, true) => self.call(Helper::rcp_f32, &[a]),
                    (true, false) => self.call(Helper::rcp_approx_f64, &[a]),
                    (false, _) => {
                        let one = self.float(ty, 1.0);
                        self.divided(one, a, rounding)
                    }
                }
            }
            O::Sqrt => {
                let a = self.flushed(a, flush);
                match (i.modifiers.has(M::Approx), rounding) {
                    (true, _) => self.call(Helper::sqrt_approx_f32, &[a]),
                    (false, None) => self.b.ins().sqrt(a),
                    (false, Some(rounding)) => {
                        let helper = if single {
                            Helper::sqrt_f32
                        } else {
                            Helper::sqrt_f64
                        };
                        let rounding = self.int(types::I32, rounding as u64);
                        self.call(helper, &[a, rounding])
                    }
                }
            }
            O::Min | O::Max => self.min_max(i, a, ty, flush)?,
            _ => {
                let helper = match (i.opcode, single) {
                    (O::Rsqrt, true) => Helper::rsqrt_f32,
                    (O::Rsqrt, false) if i.modifiers.has(M::Ftz) => Helper::rsqrt_approx_f64,
                    (O::Rsqrt, false) => Helper::rsqrt_f64,
                    (O::Sin, true) => Helper::sin_f32,
                    (O::Cos, true) => Helper::cos_f32,
                    (O::Lg2, true) => Helper::lg2_f32,
                    (O::Ex2, true) => Helper::ex2_f32,
                    (O::Tanh, true) => Helper::tanh_f32,
                    _ => return self.unsupported(i, "unsupported type"),
                };
                let a = self.flushed(a, flush);
                self.call(helper, &[a])
            }
        };
        let value = match i.opcode {
            O::Abs | O::Neg | O::Copysign | O::Min | O::Max | O::Mul => value,
            _ => self.flushed(value, flush),
        };
        let value = if i.modifiers.has(M::Sat) {
            self.saturated_float(value, ty)
        } else {
            value
        };
        let value = self.gpu_nan(i, value)?;
        self.result(i, value)
    }

    /// `add`, `sub`, `mul` and `fma` of the two floats in registers of 64 bits.
    pub fn float_pair(&mut self, i: &Instruction) -> EmitResult<()> {
        let flush = i.modifiers.has(M::Ftz);
        let rounding = directed(i);
        let mut sources = Vec::with_capacity(3);
        for at in 1..self.arg_count(i) {
            sources.push(self.operand(i, at, types::I64)?);
        }
        let by = self.int(types::I32, 32);
        let mut halves = [None; 2];
        for (half, result) in halves.iter_mut().enumerate() {
            let mut parts = Vec::with_capacity(3);
            for &source in &sources {
                let part = match half {
                    0 => source,
                    _ => self.b.ins().ushr(source, by),
                };
                let part = self.coerce(part, types::I32);
                parts.push(self.coerce(part, types::F32));
            }
            let value = match parts[..] {
                [a, b] if i.opcode != O::Fma => {
                    self.sum_or_product(i.opcode, [a, b], rounding, flush)
                }
                [a, b, c] => self.flushed_multiply_add([a, b, c], rounding, flush),
                _ => return self.unsupported(i, "an operand is missing"),
            };
            let value = self.flushed(value, flush && i.opcode != O::Mul);
            let value = self.gpu_single(value);
            *result = Some(self.coerce(value, types::I32));
        }
        let [Some(low), Some(high)] = halves else {
            return self.unsupported(i, "an operand is missing");
        };
        let pair = self.join(low, high);
        self.result(i, pair)
    }

    /// `add`, `sub` and `mul`. Only a product is flushed here.
    fn sum_or_product(
        &mut self,
        opcode: O,
        [a, b]: [Value; 2],
        rounding: Option<Rounding>,
        flush: bool,
    ) -> Value {
        let a = self.flushed(a, flush);
        let b = self.flushed(b, flush);
        match (opcode, rounding) {
            (O::Mul, _) if flush => self.product_flushed(a, b, rounding),
            (O::Mul, _) => self.rounded_product(a, b, rounding),
            (O::Add, None) => self.b.ins().fadd(a, b),
            (_, None) => self.b.ins().fsub(a, b),
            (_, Some(rounding)) => {
                let b = if opcode == O::Sub {
                    self.b.ins().fneg(b)
                } else {
                    b
                };
                let helper = if self.b.func.dfg.value_type(a) == types::F32 {
                    Helper::add_f32
                } else {
                    Helper::add_f64
                };
                let rounding = self.int(types::I32, rounding as u64);
                self.call(helper, &[a, b, rounding])
            }
        }
    }

    fn flushed_multiply_add(
        &mut self,
        factors: [Value; 3],
        rounding: Option<Rounding>,
        flush: bool,
    ) -> Value {
        let [a, b, c] = factors.map(|value| self.flushed(value, flush));
        self.multiply_add(a, b, c, rounding)
    }

    /// Flushes subnormals to zeros of the same sign, if `flush` is set.
    pub fn flushed(&mut self, value: Value, flush: bool) -> Value {
        if !flush {
            return value;
        }
        let ty = self.b.func.dfg.value_type(value);
        if ty != types::F32 {
            return value;
        }
        self.zero_where_below(value, value, f32::MIN_POSITIVE)
    }

    /// `value`, or a zero of its sign if the magnitude of `of` is below `least`.
    fn zero_where_below(&mut self, value: Value, of: Value, least: f32) -> Value {
        let size = self.b.ins().fabs(of);
        let least = self.float(types::F32, least.into());
        let tiny = self.b.ins().fcmp(FloatCC::LessThan, size, least);
        let sign = self.float(types::F32, -0.0);
        let signed = self.b.ins().band(value, sign);
        self.b.ins().select(tiny, signed, value)
    }

    fn rounded_product(&mut self, a: Value, b: Value, rounding: Option<Rounding>) -> Value {
        let Some(rounding) = rounding else {
            return self.b.ins().fmul(a, b);
        };
        let helper = if self.b.func.dfg.value_type(a) == types::F32 {
            Helper::mul_f32
        } else {
            Helper::mul_f64
        };
        let rounding = self.int(types::I32, rounding as u64);
        self.call(helper, &[a, b, rounding])
    }

    /// `mul.ftz.f32` of flushed operands. GPUs flush a product before rounding if it is
    /// below the normal range, even if it would be rounded up to the least normal
    /// number. 2^24 times the product shows that: it is in the normal range.
    fn product_flushed(&mut self, a: Value, b: Value, rounding: Option<Rounding>) -> Value {
        const SCALE: f32 = (1 << 24) as f32;
        let product = self.rounded_product(a, b, rounding);
        let scale = self.float(types::F32, SCALE.into());
        // Exact, or infinite if the product is large.
        let scaled = self.b.ins().fmul(a, scale);
        let scaled = self.rounded_product(scaled, b, rounding);
        self.zero_where_below(product, scaled, f32::MIN_POSITIVE * SCALE)
    }

    /// `.sat`: clamps to [0, 1]. NaN becomes 0.
    pub fn saturated_float(&mut self, value: Value, ty: Type) -> Value {
        let zero = self.float(ty, 0.0);
        let one = self.float(ty, 1.0);
        let above = self.b.ins().fcmp(FloatCC::GreaterThan, value, zero);
        let value = self.b.ins().select(above, value, zero);
        let over = self.b.ins().fcmp(FloatCC::GreaterThan, value, one);
        self.b.ins().select(over, one, value)
    }

    pub fn multiply_add(
        &mut self,
        a: Value,
        b: Value,
        c: Value,
        rounding: Option<Rounding>,
    ) -> Value {
        let ty = self.b.func.dfg.value_type(a);
        if rounding.is_none() && self.has_fma {
            return self.b.ins().fma(a, b, c);
        }
        let helper = if ty == types::F32 {
            Helper::fma_f32
        } else {
            Helper::fma_f64
        };
        let rounding = rounding.unwrap_or(Rounding::Nearest);
        let rounding = self.int(types::I32, rounding as u64);
        self.call(helper, &[a, b, c, rounding])
    }

    fn divided(&mut self, a: Value, b: Value, rounding: Option<Rounding>) -> Value {
        let Some(rounding) = rounding else {
            return self.b.ins().fdiv(a, b);
        };
        let ty = self.b.func.dfg.value_type(a);
        let helper = if ty == types::F32 {
            Helper::div_f32
        } else {
            Helper::div_f64
        };
        let rounding = self.int(types::I32, rounding as u64);
        self.call(helper, &[a, b, rounding])
    }

    /// `min` and `max` of two or three operands. Without `.NaN`, a NaN operand is ignored.
    fn min_max(&mut self, i: &Instruction, a: Value, ty: Type, flush: bool) -> EmitResult<Value> {
        let mut value = self.flushed(a, flush);
        let magnitude = i.modifiers.has(M::Abs);
        let first = value;
        if magnitude {
            value = self.b.ins().fabs(value);
        }
        let mut last = first;
        for n in 2..self.arg_count(i) {
            let b = self.operand(i, n, ty)?;
            let b = self.flushed(b, flush);
            last = b;
            let b = if magnitude { self.b.ins().fabs(b) } else { b };
            value = self.min_max_of_two(value, b, i.opcode == O::Min, i.modifiers.has(M::NaN));
        }
        if i.modifiers.has(M::Xorsign) {
            let ty = self.b.func.dfg.value_type(value);
            let bits = Type::int(ty.bits() as u16).unwrap_or(types::I32);
            let flags = MemFlagsData::new();
            let a = self.b.ins().bitcast(bits, flags, first);
            let b = self.b.ins().bitcast(bits, flags, last);
            let sign = self.b.ins().bxor(a, b);
            let sign = self.b.ins().bitcast(ty, flags, sign);
            let signed = self.b.ins().fcopysign(value, sign);
            let is_nan = self.b.ins().fcmp(FloatCC::Unordered, value, value);
            value = self.b.ins().select(is_nan, value, signed);
        }
        Ok(value)
    }

    pub fn min_max_of_two(&mut self, a: Value, b: Value, min: bool, nan: bool) -> Value {
        let ty = self.b.func.dfg.value_type(a);
        // Cranelift's return NaN if either operand is NaN, and order zeros as PTX does.
        let both = if min {
            self.b.ins().fmin(a, b)
        } else {
            self.b.ins().fmax(a, b)
        };
        let canonical = if ty == types::F32 {
            self.float_bits(types::F32, 0x7FFF_FFFF)
        } else {
            self.float_bits(types::F64, 0x7FF8 << 48)
        };
        if nan {
            let unordered = self.b.ins().fcmp(FloatCC::Unordered, a, b);
            return self.b.ins().select(unordered, canonical, both);
        }
        let a_is_nan = self.b.ins().fcmp(FloatCC::Unordered, a, a);
        let b_is_nan = self.b.ins().fcmp(FloatCC::Unordered, b, b);
        let number = self.b.ins().select(a_is_nan, b, both);
        let rest = self.b.ins().select(a_is_nan, canonical, a);
        self.b.ins().select(b_is_nan, rest, number)
    }

    fn testp(&mut self, i: &Instruction, a: Value, ty: Type) -> EmitResult<()> {
        let int = Type::int(ty.bits() as u16).unwrap_or(types::I64);
        let size = self.b.ins().fabs(a);
        let bits = self.b.ins().bitcast(int, MemFlagsData::new(), size);
        let (infinite, least) = if ty == types::F32 {
            (
                u64::from(f32::INFINITY.to_bits()),
                u64::from(f32::MIN_POSITIVE.to_bits()),
            )
        } else {
            (f64::INFINITY.to_bits(), f64::MIN_POSITIVE.to_bits())
        };
        let infinity = self.int(int, infinite);
        let kinds = [
            M::Finite,
            M::Infinite,
            M::Number,
            M::Notanumber,
            M::Normal,
            M::Subnormal,
        ];
        let condition = match i.modifiers.first_of(&kinds) {
            Some(M::Finite) => self.b.ins().icmp(IntCC::UnsignedLessThan, bits, infinity),
            Some(M::Infinite) => self.b.ins().icmp(IntCC::Equal, bits, infinity),
            Some(M::Number) => self
                .b
                .ins()
                .icmp(IntCC::UnsignedLessThanOrEqual, bits, infinity),
            Some(M::Notanumber) => self
                .b
                .ins()
                .icmp(IntCC::UnsignedGreaterThan, bits, infinity),
            Some(kind) => {
                // The values of a kind are consecutive in their bits.
                let (start, end) = if kind == M::Normal {
                    (least, infinite)
                } else {
                    (1, least)
                };
                let start_value = self.int(int, start);
                let above = self.b.ins().isub(bits, start_value);
                let count = self.int(int, end - start);
                let inside = self.b.ins().icmp(IntCC::UnsignedLessThan, above, count);
                if kind == M::Normal {
                    // Zeros count as normal.
                    let zero = self.icmp_imm(IntCC::Equal, bits, 0);
                    self.b.ins().bor(inside, zero)
                } else {
                    inside
                }
            }
            None => return self.unsupported(i, "unsupported property"),
        };
        self.result(i, condition)
    }
}
