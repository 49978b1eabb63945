//! Logic, shifts and bit fields (PTX ISA, "Logic and Shift Instructions", and the bit
//! field instructions of "Integer Arithmetic Instructions").

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Type, Value, types};

use crate::codegen::emitter::{EmitResult, Emitter, is_signed};
use crate::program::{Arg, Instruction, LoweringError};
use crate::runtime::Helper;
use ptx::names::{Modifier as M, Opcode as O, Type as P};

impl Emitter<'_, '_> {
    pub fn bits(&mut self, i: &Instruction) -> EmitResult<()> {
        let ty = self.native(i, 0)?;
        if ty.is_float() {
            let message = "the instruction works on bits and integers, not on floats";
            return Err(LoweringError::invalid(i.span, message));
        }
        let signed = is_signed(self.ty(i, 0)?);
        let predicates = self.ty(i, 0)? == P::Pred;
        let value = match i.opcode {
            O::And | O::Or | O::Xor => {
                let (a, b) = if predicates {
                    (self.predicate(i, 1)?, self.predicate(i, 2)?)
                } else {
                    (self.operand(i, 1, ty)?, self.operand(i, 2, ty)?)
                };
                match i.opcode {
                    O::And => self.b.ins().band(a, b),
                    O::Or => self.b.ins().bor(a, b),
                    _ => self.b.ins().bxor(a, b),
                }
            }
            O::Not if predicates => {
                let a = self.predicate(i, 1)?;
                self.not(a)
            }
            O::Not => {
                let a = self.operand(i, 1, ty)?;
                self.b.ins().bnot(a)
            }
            O::Cnot => {
                let a = self.operand(i, 1, ty)?;
                let zero = self.icmp_imm(IntCC::Equal, a, 0);
                self.coerce(zero, ty)
            }
            O::Shl | O::Shr => {
                let a = self.operand(i, 1, ty)?;
                let amount = self.arg(i, 2)?;
                self.shift(i, a, amount, ty, signed)?
            }
            O::Shf => self.funnel(i)?,
            O::Lop3 => return self.lop3(i),
            O::Prmt => self.permute(i)?,
            O::Popc => {
                let a = self.operand(i, 1, ty)?;
                let count = self.b.ins().popcnt(a);
                self.coerce(count, types::I32)
            }
            O::Clz => {
                let a = self.operand(i, 1, ty)?;
                let count = self.b.ins().clz(a);
                self.coerce(count, types::I32)
            }
            O::Brev => {
                let a = self.operand(i, 1, ty)?;
                self.b.ins().bitrev(a)
            }
            O::Bfind => {
                let a = self.operand(i, 1, ty)?;
                let a = self.widen(a, types::I64, signed);
                let bits = self.int(types::I32, ty.bits().into());
                let flag = self.int(types::I32, signed.into());
                let amount = self.int(types::I32, i.modifiers.has(M::Shiftamt).into());
                self.call(Helper::bfind, &[a, bits, flag, amount])
            }
            O::Bfe => {
                let a = self.operand(i, 1, ty)?;
                let start = self.operand(i, 2, types::I32)?;
                let length = self.operand(i, 3, types::I32)?;
                let wide = self.widen(a, types::I64, signed);
                let bits = self.int(types::I32, ty.bits().into());
                let helper = if signed {
                    Helper::bfe_s64
                } else {
                    Helper::bfe_u64
                };
                let field = self.call(helper, &[wide, start, length, bits]);
                self.coerce(field, ty)
            }
            O::Bfi => {
                let a = self.operand(i, 1, ty)?;
                let b = self.operand(i, 2, ty)?;
                let start = self.operand(i, 3, types::I32)?;
                let length = self.operand(i, 4, types::I32)?;
                let a = self.coerce(a, types::I64);
                let b = self.coerce(b, types::I64);
                let bits = self.int(types::I32, ty.bits().into());
                let bytes = self.call(Helper::bfi, &[a, b, start, length, bits]);
                self.coerce(bytes, ty)
            }
            O::Fns => self.call_with_operands(i, Helper::fns, types::I32, 3, &[])?,
            O::Clmad => {
                let upper = u32::from(i.modifiers.has(M::Hi));
                self.call_with_operands(i, Helper::clmad, types::I64, 3, &[upper])?
            }
            O::Bmsk => self.mask(i)?,
            _ => self.sign_or_zero_extend(i, signed)?,
        };
        self.result(i, value)
    }

    pub fn widen(&mut self, value: Value, ty: Type, signed: bool) -> Value {
        let from = self.b.func.dfg.value_type(value);
        if from.bits() >= ty.bits() {
            return value;
        }
        if let Some(number) = self.known_constant(value) {
            let unused = 64 - from.bits();
            let number = if signed {
                number << unused >> unused
            } else {
                (number.cast_unsigned() << unused >> unused).cast_signed()
            };
            return self.int(ty, number.cast_unsigned());
        }
        if signed {
            self.b.ins().sextend(ty, value)
        } else {
            self.b.ins().uextend(ty, value)
        }
    }

    /// `shl` and `shr`. Amounts are clamped to the width, not taken modulo the width.
    fn shift(
        &mut self,
        i: &Instruction,
        a: Value,
        amount: Arg,
        ty: Type,
        signed: bool,
    ) -> EmitResult<Value> {
        let bits = u64::from(ty.bits());
        let left = i.opcode == O::Shl;
        if let Arg::Int(n) = amount {
            let n = n & 0xFFFF_FFFF;
            let n = match (n >= bits, signed && !left) {
                (true, false) => return Ok(self.int(ty, 0)),
                (true, true) => bits - 1,
                (false, _) => n,
            };
            let n = self.int(types::I32, n);
            return Ok(self.shift_by(a, n, left, signed));
        }
        let amount = self.read(amount, types::I32)?;
        if signed && !left {
            let last = self.int(types::I32, bits - 1);
            let amount = self.b.ins().umin(amount, last);
            return Ok(self.shift_by(a, amount, left, signed));
        }
        let shifted = self.shift_by(a, amount, left, signed);
        let inside = self.icmp_imm(IntCC::UnsignedLessThan, amount, bits as i64);
        let zero = self.int(ty, 0);
        Ok(self.b.ins().select(inside, shifted, zero))
    }

    fn shift_by(&mut self, a: Value, amount: Value, left: bool, signed: bool) -> Value {
        match (left, signed) {
            (true, _) => self.b.ins().ishl(a, amount),
            (false, true) => self.b.ins().sshr(a, amount),
            (false, false) => self.b.ins().ushr(a, amount),
        }
    }

    /// `shf`: the upper or lower half of a shifted pair.
    fn funnel(&mut self, i: &Instruction) -> EmitResult<Value> {
        let low = self.operand(i, 1, types::I64)?;
        let low = self.coerce(low, types::I32);
        let low = self.coerce(low, types::I64);
        let high = self.operand(i, 2, types::I32)?;
        let high = self.coerce(high, types::I64);
        let amount = self.operand(i, 3, types::I32)?;
        let amount = if i.modifiers.has(M::Wrap) {
            let mask = self.int(types::I32, 31);
            self.b.ins().band(amount, mask)
        } else {
            let most = self.int(types::I32, 32);
            self.b.ins().umin(amount, most)
        };
        let by = self.int(types::I32, 32);
        let high = self.b.ins().ishl(high, by);
        let pair = self.b.ins().bor(high, low);
        let half = if i.modifiers.has(M::L) {
            let shifted = self.b.ins().ishl(pair, amount);
            self.b.ins().ushr(shifted, by)
        } else {
            self.b.ins().ushr(pair, amount)
        };
        Ok(self.coerce(half, types::I32))
    }

    /// `lop3`: any function of three bits, decomposed by `a` into two functions of `b` and
    /// `c`.
    fn lop3(&mut self, i: &Instruction) -> EmitResult<()> {
        // `lop3.or.b32 d|p, a, b, c, table, q`: `p` is `d != 0` or `q`.
        let combine = i.modifiers.first_of(&[M::And, M::Or]);
        let a = self.operand(i, 1, types::I32)?;
        let b = self.operand(i, 2, types::I32)?;
        let c = self.operand(i, 3, types::I32)?;
        let Arg::Int(table) = self.arg(i, 4)? else {
            return self.unsupported(i, "a truth table that is not constant");
        };
        let value = self.truth_table(a, b, c, table as u8);
        let Some(combine) = combine else {
            return self.result(i, value);
        };
        let q = self.predicate(i, 5)?;
        let any = self.icmp_imm(IntCC::NotEqual, value, 0);
        let p = match combine {
            M::And => self.b.ins().band(any, q),
            _ => self.b.ins().bor(any, q),
        };
        match self.arg(i, 0)? {
            Arg::List(list) => {
                let [d, to] = *self.list(list) else {
                    return self.unsupported(i, "unsupported list of results");
                };
                self.write(i, d, value)?;
                self.write(i, to, p)
            }
            to => self.write(i, to, p),
        }
    }

    fn truth_table(&mut self, a: Value, b: Value, c: Value, table: u8) -> Value {
        // The upper four bits of the table are for a = 1, the lower four for a = 0.
        let high = self.table_of_two(b, c, table >> 4);
        let low = self.table_of_two(b, c, table & 15);
        match (high, low) {
            (TwoInputFunction::Zero, TwoInputFunction::Zero) => self.int(types::I32, 0),
            (TwoInputFunction::Ones, TwoInputFunction::Ones) => self.int(types::I32, u64::MAX),
            (TwoInputFunction::Ones, TwoInputFunction::Zero) => a,
            (TwoInputFunction::Zero, TwoInputFunction::Ones) => self.b.ins().bnot(a),
            (TwoInputFunction::Value(v), TwoInputFunction::Zero) => self.b.ins().band(a, v),
            (TwoInputFunction::Zero, TwoInputFunction::Value(v)) => self.b.ins().band_not(v, a),
            (TwoInputFunction::Ones, TwoInputFunction::Value(v)) => self.b.ins().bor(a, v),
            (TwoInputFunction::Value(v), TwoInputFunction::Ones) => {
                let not = self.b.ins().bnot(a);
                self.b.ins().bor(not, v)
            }
            (TwoInputFunction::Value(high), TwoInputFunction::Value(low)) => {
                if table >> 4 == table & 15 {
                    return high;
                }
                if table >> 4 == !table & 15 {
                    return self.b.ins().bxor(a, low);
                }
                let yes = self.b.ins().band(a, high);
                let no = self.b.ins().band_not(low, a);
                self.b.ins().bor(yes, no)
            }
        }
    }

    fn table_of_two(&mut self, b: Value, c: Value, table: u8) -> TwoInputFunction {
        TwoInputFunction::Value(match table {
            0b0000 => return TwoInputFunction::Zero,
            0b1111 => return TwoInputFunction::Ones,
            0b1100 => b,
            0b0011 => self.b.ins().bnot(b),
            0b1010 => c,
            0b0101 => self.b.ins().bnot(c),
            0b1000 => self.b.ins().band(b, c),
            0b0111 => {
                let v = self.b.ins().band(b, c);
                self.b.ins().bnot(v)
            }
            0b1110 => self.b.ins().bor(b, c),
            0b0001 => {
                let v = self.b.ins().bor(b, c);
                self.b.ins().bnot(v)
            }
            0b0110 => self.b.ins().bxor(b, c),
            0b1001 => {
                let v = self.b.ins().bxor(b, c);
                self.b.ins().bnot(v)
            }
            0b0100 => self.b.ins().band_not(b, c),
            0b0010 => self.b.ins().band_not(c, b),
            0b1101 => {
                let not = self.b.ins().bnot(c);
                self.b.ins().bor(b, not)
            }
            _ => {
                let not = self.b.ins().bnot(b);
                self.b.ins().bor(c, not)
            }
        })
    }

    fn permute(&mut self, i: &Instruction) -> EmitResult<Value> {
        use crate::math::integer::PrmtMode;
        let a = self.operand(i, 1, types::I32)?;
        let b = self.operand(i, 2, types::I32)?;
        let mode = i
            .modifiers
            .first_of(&[M::F4e, M::B4e, M::Rc8, M::Ecl, M::Ecr, M::Rc16]);
        // The usual case: a constant selector.
        if let (None, Arg::Int(selector)) = (mode, self.arg(i, 3)?) {
            return Ok(self.choose_bytes(a, b, selector));
        }
        let c = self.operand(i, 3, types::I32)?;
        let mode = match mode {
            None => PrmtMode::Index,
            Some(M::F4e) => PrmtMode::F4e,
            Some(M::B4e) => PrmtMode::B4e,
            Some(M::Rc8) => PrmtMode::Rc8,
            Some(M::Ecl) => PrmtMode::Ecl,
            Some(M::Ecr) => PrmtMode::Ecr,
            Some(_) => PrmtMode::Rc16,
        };
        let mode = self.int(types::I32, mode as u64);
        Ok(self.call(Helper::prmt, &[a, b, c, mode]))
    }

    fn choose_bytes(&mut self, a: Value, b: Value, selector: u64) -> Value {
        match selector & 0xFFFF {
            0x3210 => return a,
            0x7654 => return b,
            _ => {}
        }
        let a = self.coerce(a, types::I64);
        let b = self.coerce(b, types::I64);
        let half = self.int(types::I32, 32);
        let b = self.b.ins().ishl(b, half);
        let pair = self.b.ins().bor(a, b);
        let mut bytes = None;
        for byte in 0..4_u64 {
            let choice = selector >> (4 * byte) & 15;
            let by = self.int(types::I32, (choice & 7) * 8);
            let shifted = self.b.ins().ushr(pair, by);
            let part = self.b.ins().ireduce(types::I8, shifted);
            // The fourth bit replicates the sign of the byte.
            let part = if choice & 8 != 0 {
                let sign = self.int(types::I32, 7);
                self.b.ins().sshr(part, sign)
            } else {
                part
            };
            let part = self.b.ins().uextend(types::I32, part);
            let by = self.int(types::I32, 8 * byte);
            let part = if byte == 0 {
                part
            } else {
                self.b.ins().ishl(part, by)
            };
            bytes = Some(match bytes {
                None => part,
                Some(rest) => self.b.ins().bor(rest, part),
            });
        }
        bytes.unwrap_or(pair)
    }

    /// `bmsk`: `length` ones from bit `start` on.
    fn mask(&mut self, i: &Instruction) -> EmitResult<Value> {
        let start = self.operand(i, 1, types::I32)?;
        let length = self.operand(i, 2, types::I32)?;
        let (start, length) = if i.modifiers.has(M::Wrap) {
            let mask = self.int(types::I32, 31);
            (
                self.b.ins().band(start, mask),
                self.b.ins().band(length, mask),
            )
        } else {
            let most = self.int(types::I32, 32);
            (
                self.b.ins().umin(start, most),
                self.b.ins().umin(length, most),
            )
        };
        // In 64 bits, so that shifts by 32 are defined.
        let one = self.int(types::I64, 1);
        let ones = self.b.ins().ishl(one, length);
        let ones = self.b.ins().iadd_imm_s(ones, -1);
        let mask = self.b.ins().ishl(ones, start);
        Ok(self.coerce(mask, types::I32))
    }

    /// `szext`: the low `b` bits of `a`, extended.
    fn sign_or_zero_extend(&mut self, i: &Instruction, signed: bool) -> EmitResult<Value> {
        let a = self.operand(i, 1, types::I32)?;
        let count = self.operand(i, 2, types::I32)?;
        let count = if i.modifiers.has(M::Wrap) {
            let mask = self.int(types::I32, 31);
            self.b.ins().band(count, mask)
        } else {
            let most = self.int(types::I32, 32);
            self.b.ins().umin(count, most)
        };
        // Shifts left and back right in 64 bits: `count` may be up to 32.
        let a = self.coerce(a, types::I64);
        let width = self.int(types::I32, 64);
        let by = self.b.ins().isub(width, count);
        let zero_count = self.icmp_imm(IntCC::Equal, count, 0);
        let up = self.b.ins().ishl(a, by);
        let down = self.shift_by(up, by, false, signed);
        let down = self.coerce(down, types::I32);
        let zero = self.int(types::I32, 0);
        Ok(self.b.ins().select(zero_count, zero, down))
    }
}

/// A function of two inputs.
enum TwoInputFunction {
    Zero,
    Ones,
    Value(Value),
}
