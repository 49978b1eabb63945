//! `div.u32 a, a, 10` and `div.u32 a, a, 8`: the shared part of the two rules.

use crate::FunctionContext;
use ptx::ast::{Instruction, Operand};
use ptx::names::{Opcode, Type};

/// An integer division or remainder by a constant.
pub(super) struct Division<'m, 'a> {
    pub remainder: bool,
    pub signed: bool,
    pub bits: u32,
    /// The absolute value of the divisor.
    pub by: u64,
    pub negative: bool,
    pub operands: &'m [Operand<'a>],
}

impl<'m, 'a> Division<'m, 'a> {
    pub fn of(
        function: &FunctionContext<'m, 'a>,
        instruction: &Instruction,
    ) -> Option<Division<'m, 'a>> {
        let remainder = match instruction.opcode {
            Opcode::Div => false,
            Opcode::Rem => true,
            _ => return None,
        };
        let modifiers = &function.mnemonic(instruction).modifiers;
        let ty = modifiers.types().next()?;
        let signed = match ty {
            Type::U16 | Type::U32 | Type::U64 => false,
            Type::S16 | Type::S32 | Type::S64 => true,
            _ => return None,
        };
        let bits = ty.bits();
        let operands = function.operands(instruction);
        let number = function.linear(instruction.operands.start as usize + 2)?;
        let number = number.as_number()? << (64 - bits) >> (64 - bits);
        let by = if signed {
            number.unsigned_abs()
        } else {
            number as u64 & (u64::MAX >> (64 - bits))
        };
        (by != 0).then_some(Division {
            remainder,
            signed,
            bits,
            by,
            negative: signed && number < 0,
            operands,
        })
    }

    /// The approximate number of machine instructions that ptxas 13.5 generates for sm_90.
    pub fn instructions(&self) -> u32 {
        match (self.bits, self.signed) {
            (64, _) => 60,
            (_, true) => 18,
            (_, false) => 14,
        }
    }

    /// The name in messages.
    pub fn name(&self) -> &'static str {
        if self.remainder {
            "remainder"
        } else {
            "division"
        }
    }
}
