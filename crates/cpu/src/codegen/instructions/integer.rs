//! Integer arithmetic (PTX ISA, "Integer Arithmetic Instructions" and
//! "Extended-Precision").

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Type, Value, types};

use super::convert::is_integer;
use crate::codegen::emitter::{EmitResult, Emitter, is_signed};
use crate::program::{Arg, Instruction};
use crate::runtime::Helper;
use ptx::names::{Modifier as M, Opcode as O, Type as P};

impl Emitter<'_, '_> {
    pub fn integer(&mut self, i: &Instruction) -> EmitResult<()> {
        let ptx = self.ty(i, 0)?;
        let signed = is_signed(ptx);
        match ptx {
            P::U16x2 | P::S16x2 => return self.packed_integers(i, 16, signed),
            P::U8x4 | P::S8x4 => return self.packed_integers(i, 8, signed),
            _ => {}
        }
        // The other packed types are not integers of the register's width.
        if !is_integer(ptx) {
            return self.unsupported(i, "unsupported type");
        }
        let ty = self.native(i, 0)?;
        let carry = i.modifiers.has(M::Cc);
        if matches!(i.opcode, O::Addc | O::Subc | O::Madc) && i.modifiers.has(M::Sat) {
            return self.unsupported(i, "saturation of a sum with a carry");
        }
        let value = match i.opcode {
            O::Add if carry => return self.with_carry(i, ty, false, false),
            O::Sub if carry => return self.with_carry(i, ty, false, true),
            O::Addc => return self.with_carry(i, ty, true, false),
            O::Subc => return self.with_carry(i, ty, true, true),
            O::Madc => return self.mad_with_carry(i, ty, signed, true),
            O::Mad if carry => return self.mad_with_carry(i, ty, signed, false),
            O::Add | O::Sub => {
                let a = self.operand(i, 1, ty)?;
                let b = self.operand(i, 2, ty)?;
                let add = i.opcode == O::Add;
                if i.modifiers.has(M::Sat) {
                    self.saturated(a, b, add)
                } else if add {
                    self.b.ins().iadd(a, b)
                } else {
                    self.b.ins().isub(a, b)
                }
            }
            O::Mul => self.product(i, ty, signed)?,
            O::Mad => {
                let product = self.product(i, ty, signed)?;
                let wide = self.b.func.dfg.value_type(product);
                let c = self.operand(i, 3, wide)?;
                if i.modifiers.has(M::Sat) {
                    self.saturated(product, c, true)
                } else {
                    self.b.ins().iadd(product, c)
                }
            }
            O::Mul24 | O::Mad24 => {
                let product = self.product24(i, signed)?;
                if i.opcode == O::Mul24 {
                    product
                } else {
                    let c = self.operand(i, 3, types::I32)?;
                    if i.modifiers.has(M::Sat) {
                        self.saturated(product, c, true)
                    } else {
                        self.b.ins().iadd(product, c)
                    }
                }
            }
            O::Sad => {
                let a = self.operand(i, 1, ty)?;
                let b = self.operand(i, 2, ty)?;
                let c = self.operand(i, 3, ty)?;
                let less = if signed {
                    IntCC::SignedLessThan
                } else {
                    IntCC::UnsignedLessThan
                };
                let less = self.b.ins().icmp(less, a, b);
                let up = self.b.ins().isub(b, a);
                let down = self.b.ins().isub(a, b);
                let distance = self.b.ins().select(less, up, down);
                self.b.ins().iadd(distance, c)
            }
            O::Div | O::Rem => {
                let a = self.operand(i, 1, ty)?;
                let b = self.operand(i, 2, ty)?;
                self.quotient(a, b, i.opcode == O::Div, signed)
            }
            O::Abs => {
                let a = self.operand(i, 1, ty)?;
                self.b.ins().iabs(a)
            }
            O::Neg => {
                let a = self.operand(i, 1, ty)?;
                self.b.ins().ineg(a)
            }
            O::Min | O::Max => {
                let a = self.operand(i, 1, ty)?;
                let b = self.operand(i, 2, ty)?;
                let value = match (i.opcode == O::Min, signed) {
                    (true, true) => self.b.ins().smin(a, b),
                    (true, false) => self.b.ins().umin(a, b),
                    (false, true) => self.b.ins().smax(a, b),
                    (false, false) => self.b.ins().umax(a, b),
                };
                if i.modifiers.has(M::Relu) {
                    let zero = self.int(ty, 0);
                    self.b.ins().smax(value, zero)
                } else {
                    value
                }
            }
            O::Dp4a | O::Dp2a => return self.dot(i),
            _ => return self.unsupported(i, "unsupported type"),
        };
        self.result_signed(i, value, signed)
    }

    /// `mul.lo`, `.hi` and `.wide` of operands 1 and 2.
    fn product(&mut self, i: &Instruction, ty: Type, signed: bool) -> EmitResult<Value> {
        if i.modifiers.has(M::Wide) {
            let Some(wide) = ty.double_width() else {
                return self.unsupported(i, "unsupported type");
            };
            let a = self.wide_factor(i, 1, (ty, wide), signed)?;
            let b = self.wide_factor(i, 2, (ty, wide), signed)?;
            return Ok(self.low_product(a, b));
        }
        let a = self.operand(i, 1, ty)?;
        let b = self.operand(i, 2, ty)?;
        if !i.modifiers.has(M::Hi) {
            return Ok(self.low_product(a, b));
        }
        Ok(match (ty, signed) {
            (types::I64, true) => self.b.ins().smulhi(a, b),
            (types::I64, false) => self.b.ins().umulhi(a, b),
            _ => {
                let a = self.widen(a, types::I64, signed);
                let b = self.widen(b, types::I64, signed);
                let product = self.b.ins().imul(a, b);
                let bits = self.int(types::I32, ty.bits().into());
                let high = self.b.ins().ushr(product, bits);
                self.coerce(high, ty)
            }
        })
    }

    /// A factor of `mul.wide`, extended. A constant is made in its width at once.
    fn wide_factor(
        &mut self,
        i: &Instruction,
        n: usize,
        (ty, wide): (Type, Type),
        signed: bool,
    ) -> EmitResult<Value> {
        if let Arg::Int(number) = self.arg(i, n)? {
            let unused = 64 - ty.bits();
            let number = if signed {
                ((number << unused).cast_signed() >> unused).cast_unsigned()
            } else {
                number << unused >> unused
            };
            return Ok(self.int(wide, number));
        }
        let factor = self.operand(i, n, ty)?;
        Ok(self.widen(factor, wide, signed))
    }

    /// The low half of a product. Strength reduction is for first code, which does without Cranelift's
    /// optimizer.
    fn low_product(&mut self, a: Value, b: Value) -> Value {
        for (value, factor) in [(a, b), (b, a)] {
            let factor = self.known_constant(factor).map(i64::cast_unsigned);
            if let Some(factor) = factor.filter(|factor| factor.is_power_of_two()) {
                let by = self.int(types::I32, factor.trailing_zeros().into());
                return self.b.ins().ishl(value, by);
            }
        }
        self.b.ins().imul(a, b)
    }

    fn product24(&mut self, i: &Instruction, signed: bool) -> EmitResult<Value> {
        let mut factors = [None; 2];
        for (n, factor) in factors.iter_mut().enumerate() {
            let a = self.operand(i, n + 1, types::I32)?;
            let by = self.int(types::I32, 8);
            let up = self.b.ins().ishl(a, by);
            let low = if signed {
                self.b.ins().sshr(up, by)
            } else {
                self.b.ins().ushr(up, by)
            };
            *factor = Some(self.widen(low, types::I64, signed));
        }
        let [Some(a), Some(b)] = factors else {
            return self.unsupported(i, "an operand is missing");
        };
        let product = self.b.ins().imul(a, b);
        // The product has 48 bits; `.hi` are bits 16 to 47.
        let product = if i.modifiers.has(M::Hi) {
            let by = self.int(types::I32, 16);
            self.b.ins().ushr(product, by)
        } else {
            product
        };
        Ok(self.coerce(product, types::I32))
    }

    /// `.sat`: a 32-bit signed sum or difference, clamped.
    fn saturated(&mut self, a: Value, b: Value, add: bool) -> Value {
        let a = self.b.ins().sextend(types::I64, a);
        let b = self.b.ins().sextend(types::I64, b);
        let exact = if add {
            self.b.ins().iadd(a, b)
        } else {
            self.b.ins().isub(a, b)
        };
        let low = self.int(types::I64, i64::from(i32::MIN).cast_unsigned());
        let high = self.int(types::I64, i32::MAX as u64);
        let value = self.b.ins().smax(exact, low);
        let value = self.b.ins().smin(value, high);
        self.b.ins().ireduce(types::I32, value)
    }

    /// Division that does not trap on the host. As on NVIDIA's GPUs, quotient and remainder
    /// of a division by zero are all ones, and the least value divided by -1 is itself with
    /// remainder 0.
    fn quotient(&mut self, a: Value, b: Value, quotient: bool, signed: bool) -> Value {
        let narrow = self.b.func.dfg.value_type(a);
        let (a, b) = if narrow.bits() < 32 {
            (
                self.widen(a, types::I32, signed),
                self.widen(b, types::I32, signed),
            )
        } else {
            (a, b)
        };
        let ty = self.b.func.dfg.value_type(a);
        let by_zero = self.icmp_imm(IntCC::Equal, b, 0);
        let one = self.int(ty, 1);
        let safe = self.b.ins().select(by_zero, one, b);
        let value = if signed {
            // Division by -1 is negation, which wraps.
            let minus_one = self.icmp_imm(IntCC::Equal, b, -1);
            let safe = self.b.ins().select(minus_one, one, safe);
            if quotient {
                let divided = self.b.ins().sdiv(a, safe);
                let negated = self.b.ins().ineg(a);
                self.b.ins().select(minus_one, negated, divided)
            } else {
                self.b.ins().srem(a, safe)
            }
        } else if quotient {
            self.b.ins().udiv(a, safe)
        } else {
            self.b.ins().urem(a, safe)
        };
        let all_ones = self.int(ty, u64::MAX);
        let value = self.b.ins().select(by_zero, all_ones, value);
        self.coerce(value, narrow)
    }

    fn carry_in(&mut self, i: &Instruction, ty: Type) -> EmitResult<Value> {
        let Some(carry) = self.program.carry else {
            return self.unsupported(i, "a carry that no instruction sets");
        };
        let bit = self.register(carry);
        Ok(self.coerce(bit, ty))
    }

    fn carry_out(&mut self, i: &Instruction, bit: Value) {
        if i.modifiers.has(M::Cc)
            && let Some(carry) = self.program.carry
        {
            self.set_register(carry, bit);
        }
    }

    /// `add.cc`, `addc`, `sub.cc`, `subc`. The flag is the carry of the sum; a difference is
    /// `a + !b + 1`, whose carry says that there is no borrow.
    fn with_carry(
        &mut self,
        i: &Instruction,
        ty: Type,
        uses_carry: bool,
        sub: bool,
    ) -> EmitResult<()> {
        let a = self.operand(i, 1, ty)?;
        let b = self.operand(i, 2, ty)?;
        let (value, out) = if sub && !uses_carry {
            let out = self.b.ins().icmp(IntCC::UnsignedGreaterThanOrEqual, a, b);
            (self.b.ins().isub(a, b), out)
        } else {
            let b = if sub { self.b.ins().bnot(b) } else { b };
            self.sum_with_carry(i, a, b, ty, uses_carry)?
        };
        self.result(i, value)?;
        self.carry_out(i, out);
        Ok(())
    }

    fn sum_with_carry(
        &mut self,
        i: &Instruction,
        a: Value,
        b: Value,
        ty: Type,
        uses_carry: bool,
    ) -> EmitResult<(Value, Value)> {
        let first = self.b.ins().iadd(a, b);
        let overflow = self.b.ins().icmp(IntCC::UnsignedLessThan, first, a);
        if !uses_carry {
            return Ok((first, overflow));
        }
        let bit = self.carry_in(i, ty)?;
        let second = self.b.ins().iadd(first, bit);
        let again = self.b.ins().icmp(IntCC::UnsignedLessThan, second, bit);
        let out = self.b.ins().bor(overflow, again);
        Ok((second, out))
    }

    fn mad_with_carry(
        &mut self,
        i: &Instruction,
        ty: Type,
        signed: bool,
        uses_carry: bool,
    ) -> EmitResult<()> {
        let product = self.product(i, ty, signed)?;
        let c = self.operand(i, 3, ty)?;
        let (value, out) = self.sum_with_carry(i, product, c, ty, uses_carry)?;
        self.result(i, value)?;
        self.carry_out(i, out);
        Ok(())
    }

    fn dot(&mut self, i: &Instruction) -> EmitResult<()> {
        let a_signed = is_signed(self.ty(i, 0)?);
        let b_signed = is_signed(self.ty(i, 1)?);
        let signs = u32::from(a_signed) | u32::from(b_signed) << 1;
        let value = if i.opcode == O::Dp4a {
            self.call_with_operands(i, Helper::dp4a, types::I32, 3, &[signs])?
        } else {
            let high = u32::from(i.modifiers.has(M::Hi)) << 2;
            self.call_with_operands(i, Helper::dp2a, types::I32, 3, &[signs | high])?
        };
        self.result(i, value)
    }

    /// `add`, `sub`, `neg`, `min` and `max` of packed integers of `bits` bits, each in 32 bits.
    fn packed_integers(&mut self, i: &Instruction, bits: u32, signed: bool) -> EmitResult<()> {
        let a = self.operand(i, 1, types::I32)?;
        let b = match i.opcode {
            O::Neg => a,
            _ => self.operand(i, 2, types::I32)?,
        };
        let least = if signed { -1_i64 << (bits - 1) } else { 0 };
        let greatest = least + (1 << bits) - 1;
        let mut packed = self.int(types::I32, 0);
        for at in (0..u32::BITS).step_by(bits as usize) {
            let [a, b] = [a, b].map(|value| self.integer_part(value, at, bits, signed));
            let mut value = match i.opcode {
                O::Add => self.b.ins().iadd(a, b),
                O::Sub => self.b.ins().isub(a, b),
                O::Neg => self.b.ins().ineg(a),
                O::Min => self.b.ins().smin(a, b),
                O::Max => self.b.ins().smax(a, b),
                _ => return self.unsupported(i, "unsupported operation on packed integers"),
            };
            if i.modifiers.has(M::Sat) {
                let least = self.int(types::I32, u64::from(least as u32));
                let greatest = self.int(types::I32, u64::from(greatest as u32));
                value = self.b.ins().smax(value, least);
                value = self.b.ins().smin(value, greatest);
            }
            if i.modifiers.has(M::Relu) {
                let zero = self.int(types::I32, 0);
                value = self.b.ins().smax(value, zero);
            }
            let mask = self.int(types::I32, (1 << bits) - 1);
            let value = self.b.ins().band(value, mask);
            let by = self.int(types::I32, at.into());
            let value = self.b.ins().ishl(value, by);
            packed = self.b.ins().bor(packed, value);
        }
        self.result(i, packed)
    }

    /// The bits of a part of a 32-bit value, extended to 32 bits.
    fn integer_part(&mut self, value: Value, at: u32, bits: u32, signed: bool) -> Value {
        let above = self.int(types::I32, u64::from(u32::BITS - at - bits));
        let value = self.b.ins().ishl(value, above);
        let below = self.int(types::I32, u64::from(u32::BITS - bits));
        if signed {
            self.b.ins().sshr(value, below)
        } else {
            self.b.ins().ushr(value, below)
        }
    }

    /// Concatenates two integers of the same width.
    pub fn join(&mut self, low: Value, high: Value) -> Value {
        let narrow = self.b.func.dfg.value_type(low);
        let wide = narrow.double_width().unwrap_or(types::I64);
        let low = self.b.ins().uextend(wide, low);
        let high = self.b.ins().uextend(wide, high);
        let by = self.int(types::I32, narrow.bits().into());
        let high = self.b.ins().ishl(high, by);
        self.b.ins().bor(low, high)
    }
}
