//! `mov`, `cvt`, `cvta` and `isspacep` (PTX ISA, "Data Movement and Conversion").

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{InstBuilder, Type, Value, types};

use super::packed::Small;
use crate::abi::offset;
use crate::codegen::emitter::rounding::rounding_of;
use crate::codegen::emitter::{EmitResult, Emitter, is_signed, native};
use crate::math::rounding::Rounding;
use crate::program::{Arg, Instruction};
use crate::runtime::Helper;
use ptx::names::{Modifier as M, Opcode as O, Type as P};

pub(in crate::codegen) fn is_integer(ty: P) -> bool {
    use P::*;
    matches!(
        ty,
        U8 | U16 | U32 | U64 | S8 | S16 | S32 | S64 | B8 | B16 | B32 | B64
    )
}

impl Emitter<'_, '_> {
    pub fn result_type(&self, i: &Instruction) -> EmitResult<Type> {
        let ty = self.native(i, 0)?;
        Ok(match self.arg(i, 0)? {
            Arg::Reg(reg) => {
                let register_type =
                    crate::codegen::emitter::type_of(self.program.registers[reg.index()]);
                if register_type.bits() == ty.bits() {
                    register_type
                } else {
                    ty
                }
            }
            _ => ty,
        })
    }

    pub fn mov(&mut self, i: &Instruction) -> EmitResult<()> {
        let (to, from) = (self.arg(i, 0)?, self.arg(i, 1)?);
        match (to, from) {
            (Arg::List(to), Arg::List(from)) if to.len == from.len => {
                let ty = self.native(i, 0)?;
                let (to, from) = (self.list(to), self.list(from));
                // All are read before any is written: the lists may swap registers.
                let values = from
                    .iter()
                    .map(|&from| self.read(from, ty))
                    .collect::<EmitResult<Vec<_>>>()?;
                for (&to, value) in to.iter().zip(values) {
                    self.write(i, to, value)?;
                }
                Ok(())
            }
            (Arg::List(parts), _) => {
                let whole = self.native(i, 0)?;
                let value = self.operand(i, 1, Type::int(whole.bits() as u16).unwrap_or(whole))?;
                let parts = self.list(parts);
                let Some(part) = Type::int((whole.bits() / parts.len().max(1) as u32) as u16)
                else {
                    return self.unsupported(i, "parts of unsupported width");
                };
                for (n, &to) in parts.iter().enumerate() {
                    if to == Arg::Sink {
                        continue;
                    }
                    let by = self.int(types::I32, n as u64 * u64::from(part.bits()));
                    let shifted = if n == 0 {
                        value
                    } else {
                        self.b.ins().ushr(value, by)
                    };
                    let value = self.coerce(shifted, part);
                    self.write(i, to, value)?;
                }
                Ok(())
            }
            (_, Arg::List(parts)) => {
                let whole = self.native(i, 0)?;
                let whole = Type::int(whole.bits() as u16).unwrap_or(whole);
                let parts = self.list(parts);
                let Some(part) = Type::int((whole.bits() / parts.len().max(1) as u32) as u16)
                else {
                    return self.unsupported(i, "parts of unsupported width");
                };
                let mut value = None;
                for (n, &from) in parts.iter().enumerate() {
                    let piece = self.read(from, part)?;
                    let piece = self.coerce(piece, whole);
                    let by = self.int(types::I32, n as u64 * u64::from(part.bits()));
                    let piece = if n == 0 {
                        piece
                    } else {
                        self.b.ins().ishl(piece, by)
                    };
                    value = Some(match value {
                        None => piece,
                        Some(rest) => self.b.ins().bor(rest, piece),
                    });
                }
                match value {
                    Some(value) => self.result(i, value),
                    None => self.unsupported(i, "an empty list"),
                }
            }
            _ if self.ty(i, 0)? == P::Pred => {
                let value = self.predicate(i, 1)?;
                self.result(i, value)
            }
            _ => {
                let ty = self.result_type(i)?;
                let value = self.mov_operand(i, 1, ty)?;
                self.result(i, value)
            }
        }
    }

    pub fn convert(&mut self, i: &Instruction) -> EmitResult<()> {
        use P::*;
        let (to, from) = (self.ty(i, 0)?, self.ty(i, 1)?);
        if i.modifiers.has(M::Pack) {
            return self.convert_packed(i);
        }
        match (to, from) {
            (F16x2 | Bf16x2, F32) => {
                // The first operand becomes the upper half.
                let is_bf16 = to == Bf16x2;
                let [high, low] = if i.modifiers.has(M::Rs) {
                    self.stochastic_halves(i, is_bf16)?
                } else {
                    [
                        self.converted_to_half(i, 1, types::F32, is_bf16)?,
                        self.converted_to_half(i, 2, types::F32, is_bf16)?,
                    ]
                };
                let by = self.int(types::I32, 16);
                let high = self.b.ins().ishl(high, by);
                let value = self.b.ins().bor(low, high);
                return self.result(i, value);
            }
            (E4m3x4 | E5m2x4 | E2m3x4 | E3m2x4 | E2m1x4, F32) => {
                return self.convert_four(i, to);
            }
            _ if Small::of(to).or(Small::of(from)).is_some() => {
                return self.convert_small(i, to, from);
            }
            (Tf32, F32) => {
                let a = self.operand(i, 1, types::F32)?;
                let a = self.rectified(i, a);
                let rounding = rounding_of(i).unwrap_or(Rounding::Nearest);
                let rounding = self.int(types::I32, rounding as u64);
                let value = self.call(Helper::f32_to_tf32, &[a, rounding]);
                return self.result(i, value);
            }
            _ => {}
        }
        let value = match (is_integer(to), is_integer(from)) {
            (true, true) => {
                let value = self.integer_to_integer(i, to, from)?;
                return self.result_signed(i, value, is_signed(to));
            }
            (true, false) => {
                let value = self.float_to_integer(i, to, from)?;
                return self.result_signed(i, value, is_signed(to));
            }
            (false, true) => self.integer_to_float(i, to, from)?,
            (false, false) => self.float_to_float(i, to, from)?,
        };
        self.result(i, value)
    }

    fn integer_to_integer(&mut self, i: &Instruction, to: P, from: P) -> EmitResult<Value> {
        let (Some(wide), Some(narrow)) = (native(from), native(to)) else {
            return self.unsupported(i, "unsupported type");
        };
        let a = self.operand(i, 1, wide)?;
        if !i.modifiers.has(M::Sat) {
            return Ok(if wide.bits() > narrow.bits() {
                self.coerce(a, narrow)
            } else {
                self.widen(a, narrow, is_signed(from))
            });
        }
        // Clamped in 64 bits to the range of both types.
        let a = self.widen(a, types::I64, is_signed(from));
        let bits = u64::from(narrow.bits());
        let (low, high) = if is_signed(to) {
            (
                (-1_i64 << (bits - 1)).cast_unsigned(),
                (1_u64 << (bits - 1)) - 1,
            )
        } else {
            (0, u64::MAX >> (64 - bits))
        };
        let value = if is_signed(from) {
            let low = self.int(types::I64, low);
            let value = self.b.ins().smax(a, low);
            if high > i64::MAX as u64 {
                value
            } else {
                let high = self.int(types::I64, high);
                self.b.ins().smin(value, high)
            }
        } else {
            let high = self.int(types::I64, high);
            self.b.ins().umin(a, high)
        };
        Ok(self.coerce(value, narrow))
    }

    /// The source of a conversion as `f32` or `f64`, exact.
    fn float_source(&mut self, i: &Instruction, from: P) -> EmitResult<Value> {
        Ok(match from {
            P::F32 => {
                let a = self.operand(i, 1, types::F32)?;
                // GPUs do not flush the source of a conversion to f16.
                let to_half = self.ty(i, 0)? == P::F16;
                self.flushed(a, i.modifiers.has(M::Ftz) && !to_half)
            }
            P::F64 => self.operand(i, 1, types::F64)?,
            // `.ftz` applies to `f32` only.
            P::F16 | P::Bf16 => {
                let bits = self.half_bits(i, 1, from, 0)?;
                self.half_to_float(bits, from == P::Bf16)
            }
            _ => return self.unsupported(i, "unsupported type"),
        })
    }

    fn float_to_integer(&mut self, i: &Instruction, to: P, from: P) -> EmitResult<Value> {
        let Some(narrow) = native(to) else {
            return self.unsupported(i, "unsupported type");
        };
        let a = self.float_source(i, from)?;
        let rounding = rounding_of(i).unwrap_or(Rounding::Zero);
        let signed = is_signed(to);
        let value = if rounding == Rounding::Zero && narrow == types::I32 {
            if signed {
                self.b.ins().fcvt_to_sint_sat(types::I32, a)
            } else {
                self.b.ins().fcvt_to_uint_sat(types::I32, a)
            }
        } else {
            let a = self.as_f64(a);
            let bits = self.int(types::I32, narrow.bits().into());
            let rounding = self.int(types::I32, rounding as u64);
            let helper = if signed {
                Helper::f64_to_int
            } else {
                Helper::f64_to_uint
            };
            let value = self.call(helper, &[a, bits, rounding]);
            self.coerce(value, narrow)
        };
        if from != P::F64 {
            return Ok(value);
        }
        // NaN has been converted to 0, which is right only for narrower sources.
        let nan = self.int(narrow, 1 << (narrow.bits() - 1));
        let is_nan = self.b.ins().fcmp(FloatCC::Unordered, a, a);
        Ok(self.b.ins().select(is_nan, nan, value))
    }

    fn as_f64(&mut self, a: Value) -> Value {
        if self.b.func.dfg.value_type(a) == types::F32 {
            self.b.ins().fpromote(types::F64, a)
        } else {
            a
        }
    }

    fn integer_to_float(&mut self, i: &Instruction, to: P, from: P) -> EmitResult<Value> {
        let Some(wide) = native(from) else {
            return self.unsupported(i, "unsupported type");
        };
        let signed = is_signed(from);
        let a = self.operand(i, 1, wide)?;
        let rounding = rounding_of(i).unwrap_or(Rounding::Nearest);
        if matches!(to, P::F16 | P::Bf16) {
            let a = self.widen(a, types::I64, signed);
            let rounding = self.int(types::I32, rounding as u64);
            let helper = match (signed, to) {
                (true, P::F16) => Helper::i64_to_f16,
                (false, P::F16) => Helper::u64_to_f16,
                (true, _) => Helper::i64_to_bf16,
                (false, _) => Helper::u64_to_bf16,
            };
            let bits = self.call(helper, &[a, rounding]);
            let bits = self.saturated_half(i, bits, to == P::Bf16);
            return Ok(self.coerce(bits, types::I16));
        }
        let Some(ty @ (types::F32 | types::F64)) = native(to) else {
            return self.unsupported(i, "unsupported type");
        };
        let value = if rounding == Rounding::Nearest {
            let least = if signed { types::I32 } else { types::I64 };
            // Zero-extended to 64 bits, unsigned numbers of 32 bits are non-negative.
            let a = self.widen(a, least, signed);
            if signed || wide.bits() < 64 {
                self.b.ins().fcvt_from_sint(ty, a)
            } else {
                self.b.ins().fcvt_from_uint(ty, a)
            }
        } else {
            let a = self.widen(a, types::I64, signed);
            let rounding = self.int(types::I32, rounding as u64);
            let helper = match (signed, ty) {
                (true, types::F32) => Helper::i64_to_f32,
                (false, types::F32) => Helper::u64_to_f32,
                (true, _) => Helper::i64_to_f64,
                (false, _) => Helper::u64_to_f64,
            };
            self.call(helper, &[a, rounding])
        };
        Ok(if i.modifiers.has(M::Sat) {
            self.saturated_float(value, ty)
        } else {
            value
        })
    }

    /// Operand `at` as the bits of an f16 or bf16, in an `i32`.
    fn converted_to_half(
        &mut self,
        i: &Instruction,
        at: usize,
        ty: Type,
        is_bf16: bool,
    ) -> EmitResult<Value> {
        let a = self.operand(i, at, ty)?;
        let rounding = rounding_of(i).unwrap_or(Rounding::Nearest);
        let bits = self.float_to_half(a, is_bf16, rounding);
        Ok(self.rectified_half(i, bits, is_bf16))
    }

    /// `.relu`, applied before the conversion, which never rounds a negative value to a
    /// positive one.
    pub(in crate::codegen) fn rectified(&mut self, i: &Instruction, a: Value) -> Value {
        if !i.modifiers.has(M::Relu) {
            return a;
        }
        let zero = self.float(types::F32, 0.0);
        let keep = self.b.ins().fcmp(FloatCC::UnorderedOrGreaterThan, a, zero);
        self.b.ins().select(keep, a, zero)
    }

    pub(in crate::codegen) fn rectified_half(
        &mut self,
        i: &Instruction,
        bits: Value,
        is_bf16: bool,
    ) -> Value {
        let mut bits = bits;
        if i.modifiers.has(M::Satfinite) {
            // Infinity becomes the largest finite value. NaN is unchanged.
            let (infinite, largest) = if is_bf16 {
                (0x7F80, 0x7F7F)
            } else {
                (0x7C00, 0x7BFF)
            };
            let mask = self.int(types::I32, 0x7FFF);
            let size = self.b.ins().band(bits, mask);
            let over = self.icmp_imm(IntCC::Equal, size, infinite);
            let sign = self.int(types::I32, 0x8000);
            let sign = self.b.ins().band(bits, sign);
            let most = self.int(types::I32, largest);
            let most = self.b.ins().bor(sign, most);
            bits = self.b.ins().select(over, most, bits);
        }
        if i.modifiers.has(M::Relu) {
            let value = self.half_to_float(bits, is_bf16);
            let zero = self.float(types::F32, 0.0);
            let keep = self
                .b
                .ins()
                .fcmp(FloatCC::UnorderedOrGreaterThan, value, zero);
            let none = self.int(types::I32, 0);
            bits = self.b.ins().select(keep, bits, none);
        }
        bits
    }

    /// `.sat` of an f16 or bf16 in an `i32`.
    fn saturated_half(&mut self, i: &Instruction, bits: Value, is_bf16: bool) -> Value {
        if !i.modifiers.has(M::Sat) {
            return bits;
        }
        let value = self.half_to_float(bits, is_bf16);
        let value = self.saturated_float(value, types::F32);
        self.float_to_half(value, is_bf16, Rounding::Nearest)
    }

    fn float_to_float(&mut self, i: &Instruction, to: P, from: P) -> EmitResult<Value> {
        let a = self.float_source(i, from)?;
        let rounding = rounding_of(i);
        let a = match from {
            // Without a modifier the bits of a NaN stay as they are.
            P::F32 if rounding.is_some() || i.modifiers.has(M::Ftz) => self.gpu_single(a),
            _ => a,
        };
        if matches!(to, P::F16 | P::Bf16) {
            let is_bf16 = to == P::Bf16;
            let integral = i
                .modifiers
                .first_of(&[M::Rni, M::Rzi, M::Rmi, M::Rpi])
                .is_some();
            let a = if integral {
                self.integral(a, rounding)
            } else {
                a
            };
            let bits = self.float_to_half(a, is_bf16, rounding.unwrap_or(Rounding::Nearest));
            let bits = self.rectified_half(i, bits, is_bf16);
            let bits = self.saturated_half(i, bits, is_bf16);
            return Ok(self.coerce(bits, types::I16));
        }
        let Some(ty @ (types::F32 | types::F64)) = native(to) else {
            return self.unsupported(i, "unsupported type");
        };
        let source_type = self.b.func.dfg.value_type(a);
        let value = if source_type == ty {
            match rounding {
                Some(_) if from != P::F16 && from != P::Bf16 => self.integral(a, rounding),
                _ => a,
            }
        } else if ty == types::F64 {
            self.b.ins().fpromote(types::F64, a)
        } else {
            match rounding {
                None | Some(Rounding::Nearest) => self.b.ins().fdemote(types::F32, a),
                Some(rounding) => {
                    let rounding = self.int(types::I32, rounding as u64);
                    self.call(Helper::f64_to_f32, &[a, rounding])
                }
            }
        };
        let value = self.flushed(value, i.modifiers.has(M::Ftz));
        Ok(if i.modifiers.has(M::Sat) {
            self.saturated_float(value, ty)
        } else {
            value
        })
    }

    /// `a` rounded to an integral value.
    fn integral(&mut self, a: Value, rounding: Option<Rounding>) -> Value {
        let rounding = rounding.unwrap_or(Rounding::Nearest);
        if self.has_rounding {
            return match rounding {
                Rounding::Zero => self.b.ins().trunc(a),
                Rounding::Down => self.b.ins().floor(a),
                Rounding::Up => self.b.ins().ceil(a),
                _ => self.b.ins().nearest(a),
            };
        }
        let single = self.b.func.dfg.value_type(a) == types::F32;
        let helper = if single {
            Helper::integral_f32
        } else {
            Helper::integral_f64
        };
        let rounding = self.int(types::I32, rounding as u64);
        self.call(helper, &[a, rounding])
    }

    /// `cvta`: converts between generic addresses and those of a state space.
    pub fn cvta(&mut self, i: &Instruction) -> EmitResult<()> {
        let ty = self.native(i, 0)?;
        if ty != types::I64 {
            return self.unsupported(i, "32-bit addresses");
        }
        let value = self.operand(i, 1, ty)?;
        if i.modifiers.has(M::SharedCluster) {
            let helper = if i.modifiers.has(M::To) {
                Helper::generic_to_cluster
            } else {
                Helper::cluster_to_generic
            };
            let context = self.fixed.context;
            let value = self.call(helper, &[context, value]);
            return self.result(i, value);
        }
        let base = match i.modifiers.first_of(SPACES) {
            Some(M::Shared | M::SharedCta) => Some(self.context_word(offset::SHARED)),
            Some(M::Local) => Some(self.frame()),
            Some(M::Param) => Some(self.params()),
            _ => None,
        };
        let value = match (base, i.modifiers.has(M::To)) {
            (None, _) => value,
            (Some(base), false) => self.b.ins().iadd(value, base),
            (Some(base), true) => self.b.ins().isub(value, base),
        };
        self.result(i, value)
    }

    /// `isspacep`: whether a generic address is in a state space.
    pub fn isspacep(&mut self, i: &Instruction) -> EmitResult<()> {
        debug_assert_eq!(i.opcode, O::Isspacep);
        let a = self.operand(i, 1, types::I64)?;
        if i.modifiers.has(M::SharedCluster) {
            let context = self.fixed.context;
            let rank = self.call(Helper::rank_of, &[context, a]);
            let found = self.icmp_imm(IntCC::NotEqual, rank, -1);
            return self.result(i, found);
        }
        let start = self.context_word(offset::SHARED);
        let size = self.context_word(offset::SHARED_SIZE);
        let shared = self.within(a, start, size);
        let frame = self.frame();
        let local_size = self.context_word(offset::LOCAL_STRIDE);
        let local = self.within(a, frame, local_size);
        let param_size = self.int(types::I64, self.program.param_bytes.into());
        let params = self.params();
        let param = self.within(a, params, param_size);
        let condition = match i.modifiers.first_of(SPACES) {
            Some(M::Shared | M::SharedCta) => shared,
            Some(M::Local) => local,
            Some(M::Param) => param,
            Some(M::Const) => self.int(types::I8, 0),
            _ => {
                let other = self.b.ins().bor(shared, local);
                let other = self.b.ins().bor(other, param);
                self.not(other)
            }
        };
        self.result(i, condition)
    }

    fn within(&mut self, address: Value, start: Value, size: Value) -> Value {
        let offset = self.b.ins().isub(address, start);
        self.b.ins().icmp(IntCC::UnsignedLessThan, offset, size)
    }
}

/// The modifiers that name a state space.
pub(in crate::codegen) const SPACES: &[M] = &[
    M::Global,
    M::Shared,
    M::SharedCta,
    M::SharedCluster,
    M::Local,
    M::Const,
    M::Param,
];
