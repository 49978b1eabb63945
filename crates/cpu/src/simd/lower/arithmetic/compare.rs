//! Comparisons and selections of lanes.

use super::integer::by_width;
use crate::program::{Arg, Instruction};
use crate::simd::lower::{Lowered, Lowering, Place, Source, Unsupported, is_half};
use crate::simd::machine::{Condition, Value};
use crate::simd::opcodes as v;
use ptx::names::{Modifier as M, Type};

impl Lowering<'_, '_> {
    pub(in crate::simd::lower) fn setp(&mut self, i: &Instruction) -> Lowered<()> {
        let ty = self.ty(i, 0)?;
        let to = self.arg(i, 0)?;
        let combine = i.modifiers.first_of(&[M::And, M::Or, M::Xor]);
        if let (Arg::Reg(reg), None) = (to, combine)
            && matches!(self.places[reg.index()], Place::Uniform(_))
            && !is_float(ty)
            && ty.bits() >= 32
        {
            let bit = self.compared_ints(i, ty)?;
            return self.write_int(i, reg, bit);
        }
        let (first, second) = match to {
            Arg::List(list) => match *self.program.list(list) {
                [p, q] => (p, Some(q)),
                _ => return Err(Unsupported("a list of predicates")),
            },
            single => (single, None),
        };
        let (mut yes, mut no) = (Vec::new(), Vec::new());
        for piece in 0..self.pieces_for(first, false).max(match second {
            Some(second) => self.pieces_for(second, false),
            None => 1,
        }) {
            let is_true = self.compared_lanes(i, ty, 1, piece)?;
            yes.push(self.combined(i, combine, is_true, piece)?);
            if second.is_some() {
                let is_false = self.mask_not(is_true);
                no.push(self.combined(i, combine, is_false, piece)?);
            }
        }
        let Some(second) = second else {
            return self.write_masks(i, first, &yes);
        };
        // Both are written where the guard held before.
        match i.guard {
            Some(guard) if first == Arg::Reg(guard.reg) => {
                self.write_masks(i, second, &no)?;
                self.write_masks(i, first, &yes)
            }
            _ => {
                self.write_masks(i, first, &yes)?;
                self.write_masks(i, second, &no)
            }
        }
    }

    fn combined(
        &mut self,
        i: &Instruction,
        combine: Option<M>,
        value: Value,
        piece: usize,
    ) -> Lowered<Value> {
        let code = match combine {
            None => return Ok(value),
            Some(M::And) => v::MASK_AND,
            Some(M::Or) => v::MASK_OR,
            Some(_) => v::MASK_XOR,
        };
        let with = self.arg(i, 3)?;
        let with = self.mask(with, piece)?;
        Ok(self.mask_binary(code, value, with))
    }

    /// Compares integers that all lanes share.
    fn compared_ints(&mut self, i: &Instruction, ty: Type) -> Lowered<Value> {
        let wide = ty.bits() == 64;
        let signed = super::integer::is_signed(ty);
        let condition = match (i.comparison(), signed) {
            (Some(M::Eq), _) => Condition::Equal,
            (Some(M::Ne), _) => Condition::NotEqual,
            (Some(M::Lt), true) => Condition::Less,
            (Some(M::Le), true) => Condition::LessOrEqual,
            (Some(M::Gt), true) => Condition::Greater,
            (Some(M::Ge), true) => Condition::GreaterOrEqual,
            (Some(M::Lt | M::Lo), _) => Condition::Below,
            (Some(M::Le | M::Ls), _) => Condition::BelowOrEqual,
            (Some(M::Gt | M::Hi), _) => Condition::Above,
            (Some(M::Ge | M::Hs), _) => Condition::AboveOrEqual,
            _ => return Err(Unsupported("a comparison of integers")),
        };
        let (a, b) = (self.arg(i, 1)?, self.arg(i, 2)?);
        let a = self.int(a, wide)?;
        match self.constant_of(b, wide).map(|bits| {
            if wide {
                i32::try_from(bits.cast_signed()).ok()
            } else {
                Some((bits as u32).cast_signed())
            }
        }) {
            Some(Some(number)) => self.compare_with(wide, a, number),
            _ => {
                let b = self.int(b, wide)?;
                self.compare_int(wide, a, b);
            }
        }
        Ok(self.set_int(condition))
    }

    /// Compares operands `at` and `at + 1` of 16 lanes.
    pub(in crate::simd::lower) fn compared_lanes(
        &mut self,
        i: &Instruction,
        ty: Type,
        at: usize,
        piece: usize,
    ) -> Lowered<Value> {
        if ty.bits() == 64 {
            let low = self.compared_vectors(i, ty, at, 2 * piece)?;
            let high = self.compared_vectors(i, ty, at, 2 * piece + 1)?;
            return Ok(self.mask_join(low, high));
        }
        self.compared_vectors(i, ty, at, piece)
    }

    fn compared_vectors(
        &mut self,
        i: &Instruction,
        ty: Type,
        at: usize,
        piece: usize,
    ) -> Lowered<Value> {
        let wide = ty.bits() == 64;
        let (a, b) = (self.arg(i, at)?, self.arg(i, at + 1)?);
        let comparison = i.comparison();
        if is_float(ty) || is_half(ty) {
            let [a, b] = if is_half(ty) {
                self.compared_halves(i, ty, at, piece)?
            } else {
                let flush = i.modifiers.has(M::Ftz) && !wide;
                let a = self.source(a, wide, piece)?;
                let b = self.source(b, wide, piece)?;
                [self.flushed(a, flush), self.flushed(b, flush)]
            };
            // EQ_OQ, LT_OS, …: without exceptions that count.
            let predicate = match comparison {
                Some(M::Eq) => 0x00,
                Some(M::Lt | M::Lo) => 0x11,
                Some(M::Le | M::Ls) => 0x12,
                Some(M::Nan) => 0x03,
                Some(M::Neu) => 0x04,
                Some(M::Geu) => 0x15,
                Some(M::Gtu) => 0x16,
                Some(M::Num) => 0x07,
                Some(M::Equ) => 0x08,
                Some(M::Ltu) => 0x19,
                Some(M::Leu) => 0x1A,
                // Ordered and not equal.
                Some(M::Ne) => 0x0C,
                Some(M::Ge | M::Hs) => 0x1D,
                Some(M::Gt | M::Hi) => 0x1E,
                _ => return Err(Unsupported("a comparison of floats")),
            };
            let code = by_width(wide, v::COMPARE_F32, v::COMPARE_F64);
            return Ok(self.compared(code, a, b, Some(predicate), None));
        }
        if !matches!(ty.bits(), 16 | 32 | 64) {
            return Err(Unsupported("a comparison of this type"));
        }
        let a = self.integer_source(a, ty, piece)?;
        let b = self.integer_source(b, ty, piece)?;
        let signed = super::integer::is_signed(ty);
        let predicate = match comparison {
            Some(M::Eq) => 0,
            Some(M::Lt | M::Lo) => 1,
            Some(M::Le | M::Ls) => 2,
            Some(M::Ne) => 4,
            Some(M::Ge | M::Hs) => 5,
            Some(M::Gt | M::Hi) => 6,
            _ => return Err(Unsupported("a comparison of integers")),
        };
        let code = if signed {
            by_width(wide, v::COMPARE_S, v::COMPARE_S64)
        } else {
            by_width(wide, v::COMPARE_U, v::COMPARE_U64)
        };
        Ok(self.compared(code, a, b, Some(predicate), None))
    }

    /// `set`: all ones, or 1.0, where a comparison is true.
    pub(in crate::simd::lower) fn set_instruction(&mut self, i: &Instruction) -> Lowered<()> {
        let (to_type, from) = (self.ty(i, 0)?, self.ty(i, 1)?);
        let to = self.arg(i, 0)?;
        if !matches!(to_type, Type::U32 | Type::S32 | Type::F32) {
            return Err(Unsupported("a result of this type"));
        }
        let combine = i.modifiers.first_of(&[M::And, M::Or, M::Xor]);
        let mut values = Vec::new();
        for piece in 0..self.pieces_for(to, false) {
            let mask = self.compared_lanes(i, from, 1, piece)?;
            let mask = self.combined(i, combine, mask, piece)?;
            let yes = match to_type {
                Type::F32 => 0x3F80_0000,
                _ => 0xFFFF_FFFF,
            };
            let zero = Source::Vector(self.in_register(Source::Bits(0), false));
            values.push(self.blended(false, mask, Source::Bits(yes), zero));
        }
        self.write(i, to, false, &values, false)
    }

    pub(in crate::simd::lower) fn selp(&mut self, i: &Instruction) -> Lowered<()> {
        let ty = self.ty(i, 0)?;
        let wide = ty.bits() == 64;
        let to = self.arg(i, 0)?;
        let (a, b, p) = (self.arg(i, 1)?, self.arg(i, 2)?, self.arg(i, 3)?);
        if let Arg::Reg(reg) = to
            && matches!(self.places[reg.index()], Place::Uniform(_))
            && !self.class(reg).is_float()
        {
            let a = self.int(a, wide)?;
            let b = self.int(b, wide)?;
            let bit = self.bit(p)?;
            self.test_int(bit);
            let value = self.select_int(Condition::NotEqual, true, b, a);
            return self.write_int(i, reg, value);
        }
        let mut values = Vec::new();
        for piece in 0..self.pieces_for(to, wide) {
            let mask = self.mask(p, if wide { piece / 2 } else { piece })?;
            let mask = if wide {
                self.eighth(mask, piece % 2)
            } else {
                mask
            };
            let a = self.source(a, wide, piece)?;
            let b = self.source(b, wide, piece)?;
            values.push(self.blended(wide, mask, a, b));
        }
        self.write(i, to, wide, &values, false)
    }
}

pub(in crate::simd::lower) fn is_float(ty: Type) -> bool {
    matches!(ty, Type::F32 | Type::F64)
}
