//! Sums and products with a carry, which is a predicate of the program.

use super::integer::{by_width, is_signed};
use crate::program::{Arg, Instruction, Reg};
use crate::simd::lower::{Lowered, Lowering, Source, Unsupported};
use crate::simd::machine::Value;
use crate::simd::opcodes as v;
use ptx::names::{Modifier as M, Opcode as O, Type};

// Predicates of comparisons of integers.
const EQUAL: u8 = 0;
const BELOW: u8 = 1;
const NOT_BELOW: u8 = 5;

impl Lowering<'_, '_> {
    /// `add.cc`, `addc`, `sub.cc`, `subc`, `mad.cc` and `madc`.
    pub(in crate::simd::lower) fn with_carry(&mut self, i: &Instruction) -> Lowered<()> {
        let ty = self.ty(i, 0)?;
        let is_integer = matches!(
            ty,
            Type::U32 | Type::S32 | Type::B32 | Type::U64 | Type::S64 | Type::B64
        );
        if !is_integer || i.modifiers.has(M::Sat) {
            return Err(Unsupported("a sum with a carry of this type"));
        }
        let Some(carry) = self.program.carry else {
            return Err(Unsupported("a carry that no instruction sets"));
        };
        let wide = ty.bits() == 64;
        let to = self.arg(i, 0)?;
        let each = if wide { 2 } else { 1 };
        let count = self.pieces_for(to, wide).div_ceil(each);
        let count = count.max(self.pieces_for(Arg::Reg(carry), false));
        let (mut values, mut masks) = (Vec::new(), Vec::new());
        for piece in 0..count {
            let mut outs = Vec::new();
            for part in 0..each {
                let (value, out) = self.sum_with_carry(i, (ty, carry), each * piece + part)?;
                values.push(value);
                outs.push(out);
            }
            masks.push(match outs[..] {
                [low, high] => self.mask_join(low, high),
                _ => outs[0],
            });
        }
        self.write(i, to, wide, &values, is_signed(ty))?;
        if i.modifiers.has(M::Cc) {
            self.write_masks(i, Arg::Reg(carry), &masks)
        } else {
            Ok(())
        }
    }

    /// A sum of one vector, and the lanes with a carry.
    fn sum_with_carry(
        &mut self,
        i: &Instruction,
        (ty, carry): (Type, Reg),
        piece: usize,
    ) -> Lowered<(Value, Value)> {
        let wide = ty.bits() == 64;
        let uses_carry = matches!(i.opcode, O::Addc | O::Subc | O::Madc);
        let subtracts = matches!(i.opcode, O::Sub | O::Subc);
        let (add, compare) = (
            by_width(wide, v::ADD, v::ADD64),
            by_width(wide, v::COMPARE_U, v::COMPARE_U64),
        );
        let (a, n) = match i.opcode {
            O::Mad | O::Madc => (self.product(i, ty, piece)?, 3),
            _ => {
                let a = self.arg(i, 1)?;
                (self.vector(a, wide, piece)?, 2)
            }
        };
        let b = self.arg(i, n)?;
        let b = self.vector(b, wide, piece)?;
        if subtracts && !uses_carry {
            let out = self.compared(
                compare,
                Source::Vector(a),
                Source::Vector(b),
                Some(NOT_BELOW),
                None,
            );
            let code = by_width(wide, v::SUB, v::SUB64);
            let value = self.binary(code, Source::Vector(a), Source::Vector(b));
            return Ok((value, out));
        }
        let ones = Source::Bits(if wide { u64::MAX } else { u32::MAX.into() });
        let b = if subtracts {
            // a + !b + 1 without a borrow.
            self.binary(by_width(wide, v::XOR, v::XOR64), Source::Vector(b), ones)
        } else {
            b
        };
        let sum = self.binary(add, Source::Vector(a), Source::Vector(b));
        let over = self.compared(
            compare,
            Source::Vector(sum),
            Source::Vector(a),
            Some(BELOW),
            None,
        );
        if !uses_carry {
            return Ok((sum, over));
        }
        let flag = if wide {
            let flag = self.mask(Arg::Reg(carry), piece / 2)?;
            self.eighth(flag, piece % 2)
        } else {
            self.mask(Arg::Reg(carry), piece)?
        };
        let next = self.binary(add, Source::Vector(sum), Source::Bits(1));
        let value = self.blended(wide, flag, Source::Vector(next), Source::Vector(sum));
        let all = Source::Vector(self.in_register(ones, wide));
        let wraps = self.compared(compare, Source::Vector(sum), all, Some(EQUAL), Some(flag));
        Ok((value, self.mask_or(over, wraps)))
    }
}
