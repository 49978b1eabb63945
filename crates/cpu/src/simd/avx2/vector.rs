//! Instructions on vectors: each half alone, or both together where lanes move between the halves.

use regalloc2::Operand;

use super::instructions::{Operation, word};
use super::{Legalized, Legalizer, Pair, Source, Unsupported, opcodes as a};
use crate::simd::machine::{Evex, Form, INT, MASK, Masking, Op, Value};
use crate::simd::opcodes as v;

/// Makes the instructions for a half.
type Unary = fn(&mut Legalizer, Value) -> Value;

/// The operands of an instruction on vectors.
pub(super) struct Operands {
    pub first: Option<Pair>,
    pub last: [Source; 2],
    pub old: Option<Pair>,
    pub mask: Option<Value>,
    pub masking: Masking,
}

impl Legalizer {
    pub(super) fn vector(&mut self, op: &Op, operands: &[Value]) -> Legalized<()> {
        let &Op::Vector {
            code,
            form,
            immediate,
            constant,
            masking,
            rounding,
        } = op
        else {
            return Err(Unsupported);
        };
        let operation = Operation {
            code,
            form,
            immediate,
            rounding,
        };
        let result = operands[0];
        let mut rest = operands[1..].iter().copied();
        let mut next = || rest.next().ok_or(Unsupported);
        let first = match form {
            Form::Binary | Form::Ternary => Some(next()?),
            _ => None,
        };
        let last = match constant {
            Some(constant) => {
                [0, 1].map(|half| Source::Constant(self.half_of_constant(constant, half)))
            }
            None => {
                let value = next()?;
                if value.class() == INT {
                    let all = self.splat(value, code.wide);
                    [Source::Value(all); 2]
                } else {
                    self.pair(value)?.map(Source::Value)
                }
            }
        };
        let keeps = masking == Masking::Merge || form == Form::Ternary;
        let old = if keeps { Some(next()?) } else { None };
        let mask = match masking {
            Masking::None => None,
            _ => Some(next()?),
        };
        let pair_of = |value: Option<Value>| value.map(|value| self.pair(value)).transpose();
        let operands = Operands {
            first: pair_of(first)?,
            last,
            old: pair_of(old)?,
            mask,
            masking,
        };
        if result.class() == INT {
            return self.first_lane(operation, result, last[0]);
        }
        self.compute(operation, result, &operands)
    }

    fn first_lane(&mut self, operation: Operation, result: Value, low: Source) -> Legalized<()> {
        let low = self.in_register(low);
        let op = Op::Vector {
            code: operation.code,
            form: operation.form,
            immediate: None,
            constant: None,
            masking: Masking::None,
            rounding: operation.rounding,
        };
        self.emit(op, [Operand::reg_def(result), Operand::reg_use(low)]);
        Ok(())
    }

    /// Computes a vector or a mask.
    pub(super) fn compute(
        &mut self,
        operation: Operation,
        result: Value,
        operands: &Operands,
    ) -> Legalized<()> {
        let code = operation.code;
        if result.class() == MASK {
            return self.comparison(operation, result, operands);
        }
        let masks = match operands.mask {
            Some(mask) => Some(self.masks_of(mask, code.wide)?),
            None => None,
        };
        if let (Masking::Select, Some(masks), Some(first)) =
            (operands.masking, masks, operands.first)
        {
            let pair =
                [0, 1].map(|n| self.blended(code.wide, masks[n], operands.last[n], first[n]));
            return self.define(Some(result), pair);
        }
        let mut pair = match self.across(operation, operands)? {
            Some(pair) => pair,
            None => {
                let old = operands.old.filter(|_| operation.form == Form::Ternary);
                let mut half = |n: usize| {
                    let (first, old) = (operands.first.map(|p| p[n]), old.map(|p| p[n]));
                    self.of_half(operation, first, operands.last[n], old)
                };
                [half(0)?, half(1)?]
            }
        };
        if let Some(masks) = masks {
            for (n, half) in pair.iter_mut().enumerate() {
                *half = match (operands.masking, operands.old) {
                    (Masking::Zero, _) => self.of_values(v::AND, masks[n], *half),
                    (Masking::Merge, Some(old)) => {
                        self.blended(code.wide, masks[n], Source::Value(*half), old[n])
                    }
                    _ => return Err(Unsupported),
                };
            }
        }
        self.define(Some(result), pair)
    }

    fn comparison(
        &mut self,
        operation: Operation,
        result: Value,
        operands: &Operands,
    ) -> Legalized<()> {
        let first = operands.first.ok_or(Unsupported)?;
        let mut half = |n: usize| {
            self.compared(
                operation.code,
                operation.immediate,
                first[n],
                operands.last[n],
            )
        };
        let lanes = [half(0)?, half(1)?];
        let mut pair = self.mask_from(lanes, operation.code.wide);
        if let Some(mask) = operands.mask {
            let only = self.pair(mask)?;
            pair = [0, 1].map(|n| self.of_values(v::AND, pair[n], only[n]));
        }
        self.define(Some(result), pair)
    }

    /// Instructions that move lanes from one half to another, or change their width.
    fn across(&mut self, operation: Operation, operands: &Operands) -> Legalized<Option<Pair>> {
        let code = operation.code;
        let widens = [
            v::WIDEN_U,
            v::WIDEN_S,
            v::F32_TO_F64,
            v::I32_TO_F64,
            v::U32_TO_F64,
            v::HALF_TO_F32,
            v::LOAD_HALVES_U,
            v::LOAD_HALVES_S,
        ];
        let narrows = [v::F64_TO_F32, v::F64_TRUNCATED_TO_I32, v::F32_TO_HALF];
        let narrows_longs = [v::I64_TO_F32, v::U64_TO_F32];
        let known = [
            v::INSERT_HALF,
            v::EXTRACT_HALF,
            v::NARROW_TO_WORDS,
            v::NARROW_TO_HALVES,
            v::F64_TRUNCATED_TO_U32,
            v::PERMUTE,
            v::PERMUTE_TWO,
            v::CONFLICTS,
        ];
        let all = known.iter().chain(&widens).chain(&narrows);
        if !all.chain(&narrows_longs).any(|known| *known == code) {
            return Ok(None);
        }
        let last = operands.last.map(|half| self.in_register(half));
        Ok(Some(match code {
            v::INSERT_HALF => {
                let [low, _] = operands.first.ok_or(Unsupported)?;
                [low, last[0]]
            }
            v::EXTRACT_HALF => [last[1]; 2],
            v::NARROW_TO_WORDS => [self.packed(last[0], last[1]); 2],
            v::NARROW_TO_HALVES => [self.narrowed_to_halves(last); 2],
            v::F64_TRUNCATED_TO_U32 => {
                let bits = last.map(|half| self.double_to_u32(half));
                [self.packed(bits[0], bits[1]); 2]
            }
            v::CONFLICTS => self.conflicts(last),
            v::PERMUTE => {
                let index = operands.first.ok_or(Unsupported)?;
                index.map(|index| self.permuted(index, last))
            }
            v::PERMUTE_TWO => {
                let index = operands.old.ok_or(Unsupported)?;
                let first = operands.first.ok_or(Unsupported)?;
                index.map(|index| {
                    let one = self.permuted(index, first);
                    let other = self.permuted(index, last);
                    let is_other = self.shift(6, false, index, 27);
                    self.blended(false, is_other, Source::Value(other), one)
                })
            }
            _ if widens.contains(&code) => {
                let upper = self.upper(last[0]);
                [last[0], upper].map(|half| match code {
                    v::U32_TO_F64 => self.u32_to_double(half),
                    _ => self.unary(code, half),
                })
            }
            _ => {
                let halves = last.map(|half| match code {
                    v::I64_TO_F32 | v::U64_TO_F32 => {
                        self.long_to_float(half, code == v::I64_TO_F32, operation.rounding)
                    }
                    _ => self.plain(operation, None, Source::Value(half), None),
                });
                [self.joined(halves[0], halves[1]); 2]
            }
        }))
    }

    /// The lower 16 bits of 16 lanes.
    pub(super) fn narrowed_to_halves(&mut self, pair: Pair) -> Value {
        let halves = pair.map(|half| self.binary(v::AND, half, word(0xFFFF)));
        let packed = self.of_values(a::PACK_TO_HALVES, halves[0], halves[1]);
        self.in_order(packed)
    }

    /// One half of an instruction that computes each lane alone.
    pub(super) fn of_half(
        &mut self,
        operation: Operation,
        first: Option<Value>,
        last: Source,
        old: Option<Value>,
    ) -> Legalized<Value> {
        let Operation {
            code,
            form,
            immediate,
            rounding,
        } = operation;
        let wide = code.wide;
        if let Form::Shift(operation) = form {
            let value = self.in_register(last);
            let by = immediate.ok_or(Unsupported)?;
            return Ok(match (operation, wide) {
                (0, _) => self.rotated(wide, value, by),
                (4, true) => self.shifted_signed(value, |l, value| l.shift(2, true, value, by)),
                _ => self.shift(operation, wide, value, by),
            });
        }
        let minima = [v::MIN_S64, v::MIN_U64, v::MAX_S64, v::MAX_U64];
        let unaries: [(Evex, Unary); 9] = [
            (v::ABS64, Self::magnitude),
            (v::LEADING_ZEROS, Self::leading_zeros),
            (v::LEADING_ZEROS64, Self::leading_zeros_of_longs),
            (v::COUNT_ONES, |l, value| l.count_ones(value, false)),
            (v::COUNT_ONES64, |l, value| l.count_ones(value, true)),
            (v::F32_TRUNCATED_TO_U32, Self::float_to_u32),
            (v::F64_TRUNCATED_TO_I64, |l, value| {
                l.double_to_long(value, true)
            }),
            (v::F64_TRUNCATED_TO_U64, |l, value| {
                l.double_to_long(value, false)
            }),
            (v::COPY, |_, value| value),
        ];
        if let Some((_, make)) = unaries.iter().find(|(known, _)| *known == code) {
            let value = self.in_register(last);
            return Ok(make(self, value));
        }
        match (code, first) {
            (v::COPY64 | v::BROADCAST_INT | v::BROADCAST_INT64, _) => Ok(self.in_register(last)),
            (v::U32_TO_F32, _) => {
                let value = self.in_register(last);
                Ok(self.u32_to_float(value, rounding))
            }
            (v::I64_TO_F64 | v::U64_TO_F64, _) => {
                let value = self.in_register(last);
                Ok(self.long_to_double(value, code == v::I64_TO_F64, rounding))
            }
            (v::MUL64, Some(first)) => Ok(self.product_of_longs(first, last)),
            (_, Some(first)) if minima.contains(&code) => {
                let signed = [v::MIN_S64, v::MAX_S64].contains(&code);
                let is_max = [v::MAX_S64, v::MAX_U64].contains(&code);
                Ok(self.least_long((signed, is_max), first, last))
            }
            (v::SHIFT_SIGNED64, Some(first)) => {
                Ok(self.shifted_signed(first, |l, value| l.binary(v::SHIFT_RIGHT64, value, last)))
            }
            (v::FUNNEL_LEFT | v::FUNNEL_RIGHT, Some(other)) => {
                let old = old.ok_or(Unsupported)?;
                Ok(self.funnel(code == v::FUNNEL_LEFT, old, other, last))
            }
            (v::TERNARY | v::TERNARY64, Some(first)) => {
                let old = old.ok_or(Unsupported)?;
                let table = immediate.ok_or(Unsupported)?;
                let last = self.in_register(last);
                Ok(self.logic(table, old, first, last))
            }
            (v::RANGE_F32 | v::RANGE_F64, Some(first)) => {
                let last = self.in_register(last);
                let is_max = immediate.ok_or(Unsupported)? & 1 != 0;
                Ok(self.range((wide, is_max), first, last))
            }
            _ => Ok(self.plain(operation, first, last, old)),
        }
    }
}
