//! Comparison and selection (PTX ISA, "Comparison and Selection Instructions").

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{InstBuilder, Value, types};

use crate::codegen::emitter::{EmitResult, Emitter, is_signed, native};
use crate::program::{Arg, Instruction};
use ptx::names::{Modifier as M, Type as P};

impl Emitter<'_, '_> {
    pub fn setp(&mut self, i: &Instruction) -> EmitResult<()> {
        let ty = self.ty(i, 0)?;
        let combine = i.modifiers.first_of(&[M::And, M::Or, M::Xor]);
        let with = match combine {
            Some(_) => Some(self.predicate(i, 3)?),
            None => None,
        };
        if matches!(ty, P::F16x2 | P::Bf16x2) {
            // One predicate for each of the two values.
            let Arg::List(list) = self.arg(i, 0)? else {
                return self.unsupported(i, "one predicate for two values");
            };
            for (half, &to) in self.list(list).iter().enumerate() {
                let a = self.half_as_float(i, 1, ty, half)?;
                let b = self.half_as_float(i, 2, ty, half)?;
                let condition = self.compare_floats(i, a, b)?;
                let condition = self.combined(condition, combine, with);
                self.write(i, to, condition)?;
            }
            return Ok(());
        }
        let condition = self.compared(i, 1, ty)?;
        match self.arg(i, 0)? {
            Arg::List(list) => {
                let &[p, q] = self.list(list) else {
                    return self.unsupported(i, "unsupported list of results");
                };
                let first = self.combined(condition, combine, with);
                let not = self.not(condition);
                let second = self.combined(not, combine, with);
                self.write(i, p, first)?;
                self.write(i, q, second)
            }
            to => {
                let condition = self.combined(condition, combine, with);
                self.write(i, to, condition)
            }
        }
    }

    fn combined(&mut self, condition: Value, combine: Option<M>, with: Option<Value>) -> Value {
        match (combine, with) {
            (Some(M::And), Some(with)) => self.b.ins().band(condition, with),
            (Some(M::Or), Some(with)) => self.b.ins().bor(condition, with),
            (Some(M::Xor), Some(with)) => self.b.ins().bxor(condition, with),
            _ => condition,
        }
    }

    /// `set`: all ones, or 1.0, if the comparison is true.
    pub fn set(&mut self, i: &Instruction) -> EmitResult<()> {
        let to = self.ty(i, 0)?;
        let from = self.ty(i, 1)?;
        let combine = i.modifiers.first_of(&[M::And, M::Or, M::Xor]);
        let with = match combine {
            Some(_) => Some(self.predicate(i, 3)?),
            None => None,
        };
        let one = match to {
            P::F16 | P::F16x2 => Some(0x3C00),
            P::Bf16 | P::Bf16x2 => Some(0x3F80),
            _ => None,
        };
        if matches!(from, P::F16x2 | P::Bf16x2) {
            let mut halves = [None; 2];
            for (half, value) in halves.iter_mut().enumerate() {
                let a = self.half_as_float(i, 1, from, half)?;
                let b = self.half_as_float(i, 2, from, half)?;
                let condition = self.compare_floats(i, a, b)?;
                let condition = self.combined(condition, combine, with);
                let yes = self.int(types::I16, one.unwrap_or(u64::MAX));
                let no = self.int(types::I16, 0);
                *value = Some(self.b.ins().select(condition, yes, no));
            }
            let [Some(low), Some(high)] = halves else {
                return self.unsupported(i, "an operand is missing");
            };
            let value = self.join(low, high);
            return self.result(i, value);
        }
        let condition = self.compared(i, 1, from)?;
        let condition = self.combined(condition, combine, with);
        let ty = self.native(i, 0)?;
        let (yes, no) = match (to, one) {
            (P::F32, _) => (self.float(types::F32, 1.0), self.float(types::F32, 0.0)),
            (_, Some(one)) => (self.int(ty, one), self.int(ty, 0)),
            _ => (self.int(ty, u64::MAX), self.int(ty, 0)),
        };
        let value = self.b.ins().select(condition, yes, no);
        self.result(i, value)
    }

    /// Compares operands `at` and `at + 1` as values of `ty`.
    pub fn compared(&mut self, i: &Instruction, at: usize, ty: P) -> EmitResult<Value> {
        match ty {
            P::F32 | P::F64 => {
                let ty = native(ty).unwrap_or(types::F32);
                let a = self.operand(i, at, ty)?;
                let b = self.operand(i, at + 1, ty)?;
                let flush = i.modifiers.has(M::Ftz);
                let a = self.flushed(a, flush);
                let b = self.flushed(b, flush);
                self.compare_floats(i, a, b)
            }
            P::F16 | P::Bf16 => {
                let a = self.half_as_float(i, at, ty, 0)?;
                let b = self.half_as_float(i, at + 1, ty, 0)?;
                self.compare_floats(i, a, b)
            }
            _ => {
                let Some(native) = native(ty) else {
                    return self.unsupported(i, "unsupported type");
                };
                let a = self.operand(i, at, native)?;
                let b = self.operand(i, at + 1, native)?;
                let signed = is_signed(ty);
                let cc = match (i.comparison(), signed) {
                    (Some(M::Eq), _) => IntCC::Equal,
                    (Some(M::Ne), _) => IntCC::NotEqual,
                    (Some(M::Lt), true) => IntCC::SignedLessThan,
                    (Some(M::Le), true) => IntCC::SignedLessThanOrEqual,
                    (Some(M::Gt), true) => IntCC::SignedGreaterThan,
                    (Some(M::Ge), true) => IntCC::SignedGreaterThanOrEqual,
                    (Some(M::Lt | M::Lo), _) => IntCC::UnsignedLessThan,
                    (Some(M::Le | M::Ls), _) => IntCC::UnsignedLessThanOrEqual,
                    (Some(M::Gt | M::Hi), _) => IntCC::UnsignedGreaterThan,
                    (Some(M::Ge | M::Hs), _) => IntCC::UnsignedGreaterThanOrEqual,
                    _ => return self.unsupported(i, "unsupported comparison of integers"),
                };
                Ok(self.b.ins().icmp(cc, a, b))
            }
        }
    }

    pub fn compare_floats(&mut self, i: &Instruction, a: Value, b: Value) -> EmitResult<Value> {
        let cc = match i.comparison() {
            Some(M::Eq) => FloatCC::Equal,
            // `ne` is false if either operand is NaN.
            Some(M::Ne) => FloatCC::OrderedNotEqual,
            Some(M::Lt | M::Lo) => FloatCC::LessThan,
            Some(M::Le | M::Ls) => FloatCC::LessThanOrEqual,
            Some(M::Gt | M::Hi) => FloatCC::GreaterThan,
            Some(M::Ge | M::Hs) => FloatCC::GreaterThanOrEqual,
            Some(M::Equ) => FloatCC::UnorderedOrEqual,
            Some(M::Neu) => FloatCC::NotEqual,
            Some(M::Ltu) => FloatCC::UnorderedOrLessThan,
            Some(M::Leu) => FloatCC::UnorderedOrLessThanOrEqual,
            Some(M::Gtu) => FloatCC::UnorderedOrGreaterThan,
            Some(M::Geu) => FloatCC::UnorderedOrGreaterThanOrEqual,
            Some(M::Num) => FloatCC::Ordered,
            Some(M::Nan) => FloatCC::Unordered,
            _ => return self.unsupported(i, "unsupported comparison of floating-point values"),
        };
        Ok(self.b.ins().fcmp(cc, a, b))
    }

    pub fn selp(&mut self, i: &Instruction) -> EmitResult<()> {
        let ty = self.result_type(i)?;
        let a = self.mov_operand(i, 1, ty)?;
        let b = self.mov_operand(i, 2, ty)?;
        let p = self.predicate(i, 3)?;
        let value = self.b.ins().select(p, a, b);
        self.result(i, value)
    }

    /// `slct`: selects by the sign of the third operand.
    pub fn slct(&mut self, i: &Instruction) -> EmitResult<()> {
        let ty = self.result_type(i)?;
        let a = self.mov_operand(i, 1, ty)?;
        let b = self.mov_operand(i, 2, ty)?;
        let condition = if self.ty(i, 1)? == P::F32 {
            let c = self.operand(i, 3, types::F32)?;
            let c = self.flushed(c, i.modifiers.has(M::Ftz));
            let zero = self.float(types::F32, 0.0);
            self.b.ins().fcmp(FloatCC::GreaterThanOrEqual, c, zero)
        } else {
            let c = self.operand(i, 3, types::I32)?;
            self.icmp_imm(IntCC::SignedGreaterThanOrEqual, c, 0)
        };
        let value = self.b.ins().select(condition, a, b);
        self.result(i, value)
    }
}
