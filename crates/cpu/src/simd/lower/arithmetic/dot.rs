//! Sums of products of bytes.

use super::integer::is_signed;
use crate::program::Instruction;
use crate::simd::lower::{Lowered, Lowering, Source};
use crate::simd::machine::Value;
use crate::simd::opcodes as v;
use ptx::names::{Modifier as M, Opcode as O};

impl Lowering<'_, '_> {
    /// `dp4a` and `dp2a`: the sum of products of bytes, or of halves and bytes, and a number.
    pub(in crate::simd::lower) fn dot(&mut self, i: &Instruction) -> Lowered<()> {
        let signed = [is_signed(self.ty(i, 0)?), is_signed(self.ty(i, 1)?)];
        let [to, a, b, c] = [
            self.arg(i, 0)?,
            self.arg(i, 1)?,
            self.arg(i, 2)?,
            self.arg(i, 3)?,
        ];
        let is_of_bytes = i.opcode == O::Dp4a;
        let mut values = Vec::new();
        for piece in 0..self.pieces_for(to, false) {
            let [a, b] = [self.vector(a, false, piece)?, self.vector(b, false, piece)?];
            let c = self.source(c, false, piece)?;
            let mut sum = self.in_register(c, false);
            for n in 0..if is_of_bytes { 4 } else { 2 } {
                let (of_a, of_b) = match (is_of_bytes, i.modifiers.has(M::Hi)) {
                    (true, _) => ((8 * n, 8), 8 * n),
                    (false, true) => ((16 * n, 16), 16 + 8 * n),
                    (false, false) => ((16 * n, 16), 8 * n),
                };
                let a = self.field_of(a, of_a, signed[0]);
                let b = self.field_of(b, (of_b, 8), signed[1]);
                let product = self.binary(v::MUL, Source::Vector(a), Source::Vector(b));
                sum = self.binary(v::ADD, Source::Vector(sum), Source::Vector(product));
            }
            values.push(sum);
        }
        self.write(i, to, false, &values, false)
    }

    /// Some bits of lanes of 32 bits, extended.
    fn field_of(&mut self, value: Value, (at, bits): (u8, u8), signed: bool) -> Value {
        let above = 32 - at - bits;
        let up = match above {
            0 => value,
            _ => self.shift(6, false, value, above),
        };
        self.shift(if signed { 4 } else { 2 }, false, up, 32 - bits)
    }
}
