//! Masks, which are vectors.

use regalloc2::Operand;

use super::instructions::Operation;
use super::{Legalized, Legalizer, Pair, Source, Unsupported, opcodes as a};
use crate::simd::machine::{Alu, Constant, Evex, Form, Op, Shift, Value};
use crate::simd::opcodes as v;

impl Legalizer {
    pub(super) fn mask_binary(&mut self, opcode: u8, operands: &[Value]) -> Legalized<()> {
        let (one, other) = (self.pair(operands[1])?, self.pair(operands[2])?);
        let code = match opcode {
            v::MASK_AND => v::AND,
            v::MASK_AND_NOT => v::ANDN,
            v::MASK_OR => v::OR,
            v::MASK_XOR => v::XOR,
            // Two masks of eight lanes, the upper one first.
            0x4B => return self.define(Some(operands[0]), [other[0], one[0]]),
            _ => return Err(Unsupported),
        };
        let pair = [0, 1].map(|n| self.of_values(code, one[n], other[n]));
        self.define(Some(operands[0]), pair)
    }

    pub(super) fn mask_test(&mut self, operands: &[Value]) -> Legalized<()> {
        let mut all: Option<Value> = None;
        for (n, &operand) in operands.iter().enumerate() {
            if operands[..n].contains(&operand) {
                continue;
            }
            for half in self.pair(operand)? {
                all = Some(match all {
                    None => half,
                    Some(known) => self.of_values(v::OR, known, half),
                });
            }
        }
        let all = all.ok_or(Unsupported)?;
        self.emit(Op::MaskTest, [all, all].map(Operand::reg_use));
        Ok(())
    }

    /// Puts the 16 bits of a mask into a register.
    pub(super) fn mask_to_int(&mut self, result: Value, [low, high]: Pair) {
        let [low, high] = [low, high].map(|half| {
            let bits = self.int();
            let operands = [Operand::reg_def(bits), Operand::reg_use(half)];
            self.emit(Op::MaskToInt, operands);
            bits
        });
        let up = self.int();
        let op = Op::ShiftImmediate {
            shift: Shift::Left,
            wide: false,
            by: 8,
        };
        self.emit(op, [Operand::reg_reuse_def(up, 1), Operand::reg_use(high)]);
        let op = Op::Alu {
            op: Alu::Or,
            wide: false,
        };
        let operands = [Operand::reg_reuse_def(result, 1), Operand::reg_use(up)];
        self.emit(op, operands.into_iter().chain([Operand::reg_use(low)]));
    }

    /// The masks of the two halves of a vector.
    pub(super) fn masks_of(&mut self, mask: Value, wide: bool) -> Legalized<Pair> {
        let pair = self.pair(mask)?;
        if !wide {
            return Ok(pair);
        }
        let upper = self.upper(pair[0]);
        Ok([pair[0], upper].map(|half| self.unary(v::WIDEN_S, half)))
    }

    /// A mask from the results of two comparisons.
    pub(super) fn mask_from(&mut self, lanes: Pair, wide: bool) -> Pair {
        if !wide {
            lanes
        } else {
            let low = self.packed(lanes[0], lanes[1]);
            let none = self.zero();
            [low, none]
        }
    }

    /// Lanes of ones where a comparison is true.
    pub(super) fn compared(
        &mut self,
        code: Evex,
        predicate: Option<u8>,
        first: Value,
        last: Source,
    ) -> Legalized<Value> {
        if code == v::HAVE_NO_BIT {
            let both = self.binary(v::AND, first, last);
            let zero = self.zero();
            return Ok(self.of_values(a::EQUAL, both, zero));
        }
        let predicate = predicate.ok_or(Unsupported)?;
        let wide = code.wide;
        if [v::COMPARE_F32, v::COMPARE_F64].contains(&code) {
            let operation = Operation {
                immediate: Some(predicate),
                ..Operation::new(code, Form::Binary)
            };
            return Ok(self.plain(operation, Some(first), last, None));
        }
        let (equal, greater) = if wide {
            (a::EQUAL64, a::GREATER64)
        } else {
            (a::EQUAL, a::GREATER)
        };
        if predicate & 3 == 0 {
            let found = self.binary(equal, first, last);
            return Ok(if predicate == 4 {
                self.inverted(found)
            } else {
                found
            });
        }
        // Below or not: 1, 5. Above or not: 6, 2.
        let is_unsigned = [v::COMPARE_U, v::COMPARE_U64].contains(&code);
        if is_unsigned && !wide && matches!(predicate, 2 | 5) {
            let code = if predicate == 5 { v::MAX_U } else { v::MIN_U };
            let bound = self.binary(code, first, last);
            return Ok(self.of_values(a::EQUAL, first, bound));
        }
        let (first, last) = if !is_unsigned {
            (first, last)
        } else {
            self.with_signs_flipped(first, last, wide)
        };
        let found = match predicate {
            1 | 5 => {
                let last = self.in_register(last);
                self.of_values(greater, last, first)
            }
            2 | 6 => self.binary(greater, first, last),
            _ => return Err(Unsupported),
        };
        Ok(match predicate {
            1 | 6 => found,
            _ => self.inverted(found),
        })
    }

    /// Unsigned numbers as signed ones of the same order.
    pub(super) fn with_signs_flipped(
        &mut self,
        first: Value,
        last: Source,
        wide: bool,
    ) -> (Value, Source) {
        let sign = Source::Constant(if wide {
            Constant::Long(1 << 63)
        } else {
            Constant::Word(1 << 31)
        });
        let first = self.binary(v::XOR, first, sign);
        let last = match last {
            Source::Constant(Constant::Word(bits)) if !wide => {
                Source::Constant(Constant::Word(bits ^ 1 << 31))
            }
            Source::Constant(Constant::Long(bits)) if wide => {
                Source::Constant(Constant::Long(bits ^ 1 << 63))
            }
            other => {
                let other = self.in_register(other);
                Source::Value(self.binary(v::XOR, other, sign))
            }
        };
        (first, last)
    }
}
