//! Logic and shifts of lanes.

use super::integer::by_width;
use crate::program::{Arg, Instruction};
use crate::simd::lower::vector::CURRENT;
use crate::simd::lower::{Lowered, Lowering, Source, Unsupported};
use crate::simd::machine::Value;
use crate::simd::opcodes as v;
use ptx::names::{Modifier as M, Opcode as O, Type};

const LEFT: u8 = 6;
const RIGHT: u8 = 2;

impl Lowering<'_, '_> {
    pub(in crate::simd::lower) fn bits(&mut self, i: &Instruction) -> Lowered<()> {
        let ty = self.ty(i, 0)?;
        let to = self.arg(i, 0)?;
        if ty == Type::Pred {
            return self.logic_of_predicates(i, to);
        }
        if i.opcode == O::Lop3
            && let Some(combine) = i.modifiers.first_of(&[M::And, M::Or])
        {
            return self.lop3_with_predicate(i, to, combine);
        }
        let wide = ty.bits() == 64;
        let counts = matches!(i.opcode, O::Popc | O::Clz | O::Bfind);
        let mut values = Vec::new();
        let pieces = if counts && wide {
            // The results have 32 bits.
            2 * self.pieces_for(to, false)
        } else {
            self.pieces_for(to, wide)
        };
        for piece in 0..pieces {
            values.push(self.bits_of(i, ty, piece)?);
        }
        if counts && wide {
            let narrow: Vec<Value> = values
                .chunks(2)
                .map(|pair| self.narrowed(pair[0], pair[1]))
                .collect();
            return self.write(i, to, false, &narrow, false);
        }
        self.write(i, to, wide, &values, super::integer::is_signed(ty))
    }

    /// `lop3.or.b32 d|p, a, b, c, table, q`: `p` is `d != 0` or `q`.
    fn lop3_with_predicate(&mut self, i: &Instruction, to: Arg, combine: M) -> Lowered<()> {
        let (number, predicate) = match to {
            Arg::List(list) => match *self.program.list(list) {
                [number, predicate] => (number, predicate),
                _ => return Err(Unsupported("a list of results")),
            },
            predicate => (Arg::Sink, predicate),
        };
        let with = self.arg(i, 5)?;
        let code = if combine == M::And {
            v::MASK_AND
        } else {
            v::MASK_OR
        };
        let (mut values, mut masks) = (Vec::new(), Vec::new());
        let pieces = self.pieces_for(number, false);
        let pieces = pieces.max(self.pieces_for(predicate, false));
        for piece in 0..pieces {
            let value = self.bits_of(i, Type::B32, piece)?;
            let zero = Source::Vector(self.in_register(Source::Bits(0), false));
            let any = self.compared(v::COMPARE_U, Source::Vector(value), zero, Some(4), None);
            let with = self.mask(with, piece)?;
            masks.push(self.mask_binary(code, any, with));
            values.push(value);
        }
        if number != Arg::Sink {
            self.write(i, number, false, &values, false)?;
        }
        self.write_masks(i, predicate, &masks)
    }

    fn logic_of_predicates(&mut self, i: &Instruction, to: Arg) -> Lowered<()> {
        let mut values = Vec::new();
        for piece in 0..self.width / 16 {
            let a = self.arg(i, 1)?;
            let a = self.mask(a, piece)?;
            let code = match i.opcode {
                O::Not => {
                    values.push(self.mask_not(a));
                    continue;
                }
                O::And => v::MASK_AND,
                O::Or => v::MASK_OR,
                O::Xor => v::MASK_XOR,
                _ => return Err(Unsupported("an operation on predicates")),
            };
            let b = self.arg(i, 2)?;
            let b = self.mask(b, piece)?;
            values.push(self.mask_binary(code, a, b));
        }
        self.write_masks(i, to, &values)
    }

    fn bits_of(&mut self, i: &Instruction, ty: Type, piece: usize) -> Lowered<Value> {
        let wide = ty.bits() == 64;
        let signed = super::integer::is_signed(ty);
        let arg = self.arg(i, 1)?;
        let a = match i.opcode {
            O::Shr | O::Cnot => self.integer_source(arg, ty, piece)?,
            _ => self.source(arg, wide, piece)?,
        };
        let operand = |e: &mut Self, n: usize| -> Lowered<Source> {
            let arg = e.arg(i, n)?;
            e.source(arg, wide, piece)
        };
        let narrow = matches!(ty.bits(), 16);
        Ok(match i.opcode {
            O::And | O::Or | O::Xor => {
                let b = operand(self, 2)?;
                let code = match i.opcode {
                    O::And => by_width(wide, v::AND, v::AND64),
                    O::Or => by_width(wide, v::OR, v::OR64),
                    _ => by_width(wide, v::XOR, v::XOR64),
                };
                self.commutative(code, a, b)
            }
            O::Not => {
                let ones = Source::Bits(if wide { u64::MAX } else { 0xFFFF_FFFF });
                self.commutative(by_width(wide, v::XOR, v::XOR64), a, ones)
            }
            O::Cnot => {
                let zero = Source::Vector(self.in_register(Source::Bits(0), wide));
                let code = by_width(wide, v::COMPARE_U, v::COMPARE_U64);
                let is_zero = self.compared(code, a, zero, Some(0), None);
                self.blended(wide, is_zero, Source::Bits(1), zero)
            }
            O::Shl | O::Shr => {
                let count = self.arg(i, 2)?;
                self.shifted(i.opcode == O::Shl, (wide, signed), a, count, piece)?
            }
            O::Shf => {
                let high = operand(self, 2)?;
                let count = operand(self, 3)?;
                let left = i.modifiers.has(M::L);
                let (old, other, code) = if left {
                    (high, a, v::FUNNEL_LEFT)
                } else {
                    (a, high, v::FUNNEL_RIGHT)
                };
                let shifted = self.ternary(code, old, other, count, None, CURRENT);
                if i.modifiers.has(M::Wrap) {
                    return Ok(shifted);
                }
                let all = self.compared(v::COMPARE_U, count, Source::Bits(32), Some(5), None);
                self.blended(false, all, other, Source::Vector(shifted))
            }
            O::Lop3 => {
                let b = operand(self, 2)?;
                let c = operand(self, 3)?;
                let Arg::Int(table) = self.arg(i, 4)? else {
                    return Err(Unsupported("a truth table that is not constant"));
                };
                self.ternary(v::TERNARY, a, b, c, Some(table as u8), CURRENT)
            }
            O::Prmt => {
                let b = operand(self, 2)?;
                self.permuted(i, a, b, piece)?
            }
            O::Popc => self.unary(by_width(wide, v::COUNT_ONES, v::COUNT_ONES64), a),
            O::Clz => self.unary(by_width(wide, v::LEADING_ZEROS, v::LEADING_ZEROS64), a),
            O::Bfind => {
                let a = Source::Vector(self.in_register(a, wide));
                let magnitude = if signed {
                    // The highest bit that differs from the sign.
                    self.without_sign(a, wide)
                } else {
                    a
                };
                let code = by_width(wide, v::LEADING_ZEROS, v::LEADING_ZEROS64);
                let zeros = Source::Vector(self.unary(code, magnitude));
                let bits = u64::from(ty.bits());
                if i.modifiers.has(M::Shiftamt) {
                    let code = by_width(wide, v::COMPARE_U, v::COMPARE_U64);
                    let is_none = self.compared(code, zeros, Source::Bits(bits), Some(0), None);
                    let ones = Source::Bits(if wide { u64::MAX } else { u32::MAX.into() });
                    return Ok(self.blended(wide, is_none, ones, zeros));
                }
                let last = Source::Vector(self.in_register(Source::Bits(bits - 1), wide));
                self.binary(by_width(wide, v::SUB, v::SUB64), last, zeros)
            }
            O::Brev => self.reversed_bits(a, wide),
            O::Bfe if !narrow => self.field_of_bits(i, a, (wide, signed), piece)?,
            O::Bfi if !narrow => {
                let b = operand(self, 2)?;
                let start = self.byte_operand(i, 3, wide, piece)?;
                let length = self.byte_operand(i, 4, wide, piece)?;
                let ones = self.ones_of(length, wide);
                let left = by_width(wide, v::SHIFT_LEFT, v::SHIFT_LEFT64);
                let mask = self.binary(left, Source::Vector(ones), start);
                let moved = self.binary(left, a, start);
                let code = by_width(wide, v::TERNARY, v::TERNARY64);
                // mask ? moved : b
                self.ternary(
                    code,
                    Source::Vector(mask),
                    Source::Vector(moved),
                    b,
                    Some(0xCA),
                    CURRENT,
                )
            }
            _ => return Err(Unsupported("an operation on bits")),
        })
    }

    /// Numbers, inverted where they are negative.
    fn without_sign(&mut self, a: Source, wide: bool) -> Source {
        let zero = Source::Vector(self.in_register(Source::Bits(0), wide));
        let code = by_width(wide, v::COMPARE_S, v::COMPARE_S64);
        let is_negative = self.compared(code, a, zero, Some(1), None);
        let ones = Source::Bits(if wide { u64::MAX } else { u32::MAX.into() });
        let inverted = self.binary(by_width(wide, v::XOR, v::XOR64), a, ones);
        Source::Vector(self.blended(wide, is_negative, Source::Vector(inverted), a))
    }

    /// A shift whose count is clamped to the width.
    fn shifted(
        &mut self,
        left: bool,
        (wide, signed): (bool, bool),
        a: Source,
        count: Arg,
        piece: usize,
    ) -> Lowered<Value> {
        let bits = if wide { 64 } else { 32 };
        if let Some(count) = self.constant_of(count, false) {
            let a = self.in_register(a, wide);
            let operation = match (left, signed) {
                (true, _) => LEFT,
                (false, true) => 4,
                (false, false) => RIGHT,
            };
            return Ok(match (count < bits, operation) {
                (true, _) => self.shift(operation, wide, a, count as u8),
                (false, 4) => self.shift(4, wide, a, bits as u8 - 1),
                (false, _) => self.in_register(Source::Bits(0), wide),
            });
        }
        let count = self.source(count, wide, piece)?;
        let code = match (left, signed) {
            (true, _) => by_width(wide, v::SHIFT_LEFT, v::SHIFT_LEFT64),
            (false, true) => by_width(wide, v::SHIFT_SIGNED, v::SHIFT_SIGNED64),
            (false, false) => by_width(wide, v::SHIFT_RIGHT, v::SHIFT_RIGHT64),
        };
        Ok(self.binary(code, a, count))
    }

    /// A position or length operand of a bit field.
    fn byte_operand(
        &mut self,
        i: &Instruction,
        n: usize,
        wide: bool,
        piece: usize,
    ) -> Lowered<Source> {
        let arg = self.arg(i, n)?;
        Ok(match self.source(arg, wide, piece)? {
            Source::Bits(bits) if wide => Source::Bits(bits.min(0xFF)),
            Source::Bits(bits) => Source::Bits(bits & 0xFF),
            // Fields of 64 bits are made of other instructions, which take all of the operand.
            source @ Source::Vector(_) if wide => {
                Source::Vector(self.binary(v::MIN_U64, source, Source::Bits(0xFF)))
            }
            source @ Source::Vector(_) => {
                Source::Vector(self.binary(v::AND, source, Source::Bits(0xFF)))
            }
        })
    }

    /// A mask of the lowest `length` bits.
    fn ones_of(&mut self, length: Source, wide: bool) -> Value {
        let one = Source::Vector(self.in_register(Source::Bits(1), wide));
        let left = by_width(wide, v::SHIFT_LEFT, v::SHIFT_LEFT64);
        let power = self.binary(left, one, length);
        let code = by_width(wide, v::ADD, v::ADD64);
        let less = Source::Bits(if wide { u64::MAX } else { 0xFFFF_FFFF });
        self.binary(code, Source::Vector(power), less)
    }

    fn field_of_bits(
        &mut self,
        i: &Instruction,
        a: Source,
        (wide, signed): (bool, bool),
        piece: usize,
    ) -> Lowered<Value> {
        let start = self.byte_operand(i, 2, wide, piece)?;
        let length = self.byte_operand(i, 3, wide, piece)?;
        if !signed {
            let down = by_width(wide, v::SHIFT_RIGHT, v::SHIFT_RIGHT64);
            let moved = self.binary(down, a, start);
            let ones = self.ones_of(length, wide);
            let code = by_width(wide, v::AND, v::AND64);
            return Ok(self.binary(code, Source::Vector(moved), Source::Vector(ones)));
        }
        let bits = if wide { 64 } else { 32 };
        let all = Source::Vector(self.in_register(Source::Bits(bits), wide));
        let sub = by_width(wide, v::SUB, v::SUB64);
        let above = self.binary(sub, all, start);
        let above = self.binary(sub, Source::Vector(above), length);
        let zero = Source::Vector(self.in_register(Source::Bits(0), wide));
        let above = self.binary(
            by_width(wide, v::MAX_S, v::MAX_S64),
            Source::Vector(above),
            zero,
        );
        let left = by_width(wide, v::SHIFT_LEFT, v::SHIFT_LEFT64);
        let up = self.binary(left, a, Source::Vector(above));
        let back = self.binary(
            by_width(wide, v::ADD, v::ADD64),
            Source::Vector(above),
            start,
        );
        let right = by_width(wide, v::SHIFT_SIGNED, v::SHIFT_SIGNED64);
        let value = self.binary(right, Source::Vector(up), Source::Vector(back));
        let code = by_width(wide, v::COMPARE_U, v::COMPARE_U64);
        let length = Source::Vector(self.in_register(length, wide));
        let is_empty = self.compared(code, length, zero, Some(0), None);
        Ok(self.blended(wide, is_empty, zero, Source::Vector(value)))
    }

    /// `prmt`
    fn permuted(&mut self, i: &Instruction, a: Source, b: Source, piece: usize) -> Lowered<Value> {
        let modes = [M::F4e, M::B4e, M::Rc8, M::Ecl, M::Ecr, M::Rc16];
        if i.modifiers.first_of(&modes).is_some() {
            return Err(Unsupported("a mode of a permutation"));
        }
        match self.arg(i, 3)? {
            Arg::Int(selector) if selector & 0x8888 == 0 => {
                self.permuted_by_constant(selector, a, b)
            }
            selector => self.permuted_by_lane(selector, a, b, piece),
        }
    }

    fn permuted_by_constant(&mut self, selector: u64, a: Source, b: Source) -> Lowered<Value> {
        let mut parts = Vec::new();
        for (source, first) in [(a, 0), (b, 4)] {
            let mut table = [0x80; 64];
            let mut is_used = false;
            for (at, place) in table.iter_mut().enumerate() {
                let choice = selector >> (4 * (at % 4)) & 7;
                if (first..first + 4).contains(&choice) {
                    *place = (at % 16 / 4 * 4) as u8 + (choice - first) as u8;
                    is_used = true;
                }
            }
            if is_used {
                let source = Source::Vector(self.in_register(source, false));
                let table = Source::Vector(self.vector_constant(table));
                parts.push(self.binary(v::SHUFFLE_BYTES, source, table));
            }
        }
        match parts[..] {
            [one] => Ok(one),
            [one, other] => Ok(self.binary(v::OR, Source::Vector(one), Source::Vector(other))),
            _ => Err(Unsupported("an operand is missing")),
        }
    }

    fn permuted_by_lane(
        &mut self,
        selector: Arg,
        a: Source,
        b: Source,
        piece: usize,
    ) -> Lowered<Value> {
        let vector = Source::Vector;
        // A byte for each of the four digits of the selector.
        let digits = self.vector(selector, false, piece)?;
        let digits = self.binary(v::AND, vector(digits), Source::Bits(0xFFFF));
        let up = self.shift(LEFT, false, digits, 8);
        let pairs = self.binary(v::OR, vector(digits), vector(up));
        let pairs = self.binary(v::AND, vector(pairs), Source::Bits(0x00FF_00FF));
        let up = self.shift(LEFT, false, pairs, 4);
        let digits = self.binary(v::OR, vector(pairs), vector(up));
        let digits = self.binary(v::AND, vector(digits), Source::Bits(0x0F0F_0F0F));
        // Bytes of each lane: the first one's place in its 16 bytes.
        let places: [u8; 64] = std::array::from_fn(|at| (at % 16 / 4 * 4) as u8);
        let places = self.vector_constant(places);
        let place = self.binary(v::AND, vector(digits), Source::Bits(0x0303_0303));
        let place = self.binary(v::OR, vector(place), vector(places));
        // The top bit of an index makes a zero.
        let is_second = self.shift(LEFT, false, digits, 5);
        let is_second = self.binary(v::AND, vector(is_second), Source::Bits(0x8080_8080));
        let is_first = self.binary(v::XOR, vector(is_second), Source::Bits(0x8080_8080));
        let mut parts = [None; 2];
        for (part, (source, other)) in parts.iter_mut().zip([(a, is_second), (b, is_first)]) {
            let source = vector(self.in_register(source, false));
            let index = self.binary(v::OR, vector(place), vector(other));
            *part = Some(self.binary(v::SHUFFLE_BYTES, source, vector(index)));
        }
        let [Some(one), Some(other)] = parts else {
            return Err(Unsupported("an operand is missing"));
        };
        let bytes = self.binary(v::OR, vector(one), vector(other));
        // Digits from 8 on select the sign of the byte, in all its bits.
        let signs = self.filled_bytes(bytes, 7);
        let by_sign = self.filled_bytes(digits, 3);
        let table = Some(0xCA);
        Ok(self.ternary(
            v::TERNARY,
            vector(by_sign),
            vector(signs),
            vector(bytes),
            table,
            CURRENT,
        ))
    }

    /// Bytes of ones where a bit of the byte is set.
    fn filled_bytes(&mut self, bytes: Value, bit: u8) -> Value {
        let bits = self.shift(RIGHT, false, bytes, bit);
        let bits = self.binary(v::AND, Source::Vector(bits), Source::Bits(0x0101_0101));
        let up = self.shift(LEFT, false, bits, 8);
        self.binary(v::SUB, Source::Vector(up), Source::Vector(bits))
    }

    /// `brev`
    fn reversed_bits(&mut self, a: Source, wide: bool) -> Value {
        let a = Source::Vector(self.in_register(a, wide));
        let reversed = |n: u8| n.reverse_bits() >> 4;
        let tables: [[u8; 64]; 2] = [4, 0].map(|by| {
            let mut table = [0; 64];
            for (at, place) in table.iter_mut().enumerate() {
                *place = reversed(at as u8 % 16) << by;
            }
            table
        });
        let nibbles = Source::Bits(0x0F0F_0F0F);
        let low = self.binary(v::AND, a, nibbles);
        let Source::Vector(value) = a else {
            return low;
        };
        let high = self.shift(RIGHT, false, value, 4);
        let high = self.binary(v::AND, Source::Vector(high), nibbles);
        let mut parts = [low, high].into_iter().zip(tables).map(|(part, table)| {
            let table = Source::Vector(self.vector_constant(table));
            self.binary(v::SHUFFLE_BYTES, table, Source::Vector(part))
        });
        let (Some(one), Some(other)) = (parts.next(), parts.next()) else {
            return low;
        };
        drop(parts);
        let bytes = self.binary(v::OR, Source::Vector(one), Source::Vector(other));
        let size = if wide { 8 } else { 4 };
        let mut order = [0; 64];
        for (at, place) in order.iter_mut().enumerate() {
            let at = at % 16;
            *place = (at / size * size + size - 1 - at % size) as u8;
        }
        let order = Source::Vector(self.vector_constant(order));
        self.binary(v::SHUFFLE_BYTES, Source::Vector(bytes), order)
    }
}
