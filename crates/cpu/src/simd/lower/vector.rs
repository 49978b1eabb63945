//! Instructions on vectors and masks.

use regalloc2::Operand;

use super::{Addend, Lowering, Source};
use crate::simd::machine::{Constant, Evex, Form, INT, MASK, Masking, Op, Value, ZMM};
use crate::simd::opcodes as v;

/// No embedded rounding: the current mode applies.
pub(super) const CURRENT: u8 = 4;

pub(super) fn constant(bits: u64, wide: bool) -> Constant {
    if wide {
        Constant::Long(bits)
    } else {
        Constant::Word(bits as u32)
    }
}

impl Lowering<'_, '_> {
    pub(super) fn in_register(&mut self, source: Source, wide: bool) -> Value {
        match source {
            Source::Vector(value) => value,
            Source::Bits(0) => {
                let value = self.b.value(ZMM);
                self.b.emit(Op::ZeroVector, [Operand::reg_def(value)]);
                value
            }
            Source::Bits(bits) => self.b.constant(constant(bits, wide)),
        }
    }

    fn operand(source: Source, code: Evex) -> (Option<Operand>, Option<Constant>) {
        match source {
            Source::Vector(value) => (Some(Operand::reg_use(value)), None),
            Source::Bits(bits) => (None, Some(constant(bits, code.wide))),
        }
    }

    /// An instruction whose result is a vector.
    #[allow(
        clippy::too_many_arguments,
        reason = "these are the parts of an instruction"
    )]
    fn emit_vector(
        &mut self,
        code: Evex,
        form: Form,
        first: Option<Value>,
        last: Source,
        old: Option<Value>,
        immediate: Option<u8>,
        rounding: u8,
    ) -> Value {
        let result = self.b.value(ZMM);
        let (last, constant) = Self::operand(last, code);
        let mut operands = vec![Operand::reg_def(result)];
        operands.extend(first.map(Operand::reg_use));
        operands.extend(last);
        if let Some(old) = old {
            operands.push(Operand::reg_use(old));
            operands[0] = Operand::reg_reuse_def(result, operands.len() - 1);
        }
        let op = Op::Vector {
            code,
            form,
            immediate,
            constant,
            masking: Masking::None,
            rounding,
        };
        self.b.emit(op, operands);
        result
    }

    pub(super) fn binary(&mut self, code: Evex, a: Source, b: Source) -> Value {
        self.binary_with(code, a, b, None, CURRENT)
    }

    pub(super) fn binary_with(
        &mut self,
        code: Evex,
        a: Source,
        b: Source,
        immediate: Option<u8>,
        rounding: u8,
    ) -> Value {
        let a = self.in_register(a, code.wide);
        // Embedded rounding needs a register operand.
        let b = match rounding {
            CURRENT => b,
            _ => Source::Vector(self.in_register(b, code.wide)),
        };
        let result = self.emit_vector(code, Form::Binary, Some(a), b, None, immediate, rounding);
        if code == v::ADD {
            self.note_sum(result, a, b);
        }
        result
    }

    /// Keeps that a vector is the sum of another and a value that all lanes share.
    fn note_sum(&mut self, sum: Value, a: Value, b: Source) {
        let splat = |e: &Self, value| e.splats.get(&value).copied().map(Addend::Value);
        let parts = match b {
            Source::Bits(bits) => Some((a, Addend::Constant(bits as u32))),
            Source::Vector(b) => match (splat(self, a), splat(self, b)) {
                (_, Some(shared)) => Some((a, shared)),
                (Some(shared), None) => Some((b, shared)),
                (None, None) => None,
            },
        };
        if let Some(parts) = parts {
            self.sums.insert(sum, parts);
        }
    }

    /// A commutative instruction: a constant becomes the second operand.
    pub(super) fn commutative(&mut self, code: Evex, a: Source, b: Source) -> Value {
        match a {
            Source::Bits(_) => self.binary(code, b, a),
            Source::Vector(_) => self.binary(code, a, b),
        }
    }

    pub(super) fn unary(&mut self, code: Evex, a: Source) -> Value {
        self.unary_with(code, a, None, CURRENT)
    }

    pub(super) fn unary_with(
        &mut self,
        code: Evex,
        a: Source,
        immediate: Option<u8>,
        rounding: u8,
    ) -> Value {
        let a = Source::Vector(self.in_register(a, code.wide));
        self.emit_vector(code, Form::Unary, None, a, None, immediate, rounding)
    }

    /// The operand of a conversion whose own width the opcode does not say.
    pub(super) fn converted(&mut self, code: Evex, a: Value) -> Value {
        self.unary(code, Source::Vector(a))
    }

    /// `old` with an operation of `a` and `b`, such as a sum with their product.
    pub(super) fn ternary(
        &mut self,
        code: Evex,
        old: Source,
        a: Source,
        b: Source,
        immediate: Option<u8>,
        rounding: u8,
    ) -> Value {
        let (a, b) = match (a, rounding) {
            (Source::Bits(_), CURRENT) if code.opcode == v::FMA_F32.opcode => (b, a),
            _ => (a, b),
        };
        let a = self.in_register(a, code.wide);
        let old = self.in_register(old, code.wide);
        let b = match rounding {
            CURRENT => b,
            _ => Source::Vector(self.in_register(b, code.wide)),
        };
        self.emit_vector(
            code,
            Form::Ternary,
            Some(a),
            b,
            Some(old),
            immediate,
            rounding,
        )
    }

    /// A shift by a constant: 2 right, 4 signed, 6 left, 0 rotation to the right.
    pub(super) fn shift(&mut self, operation: u8, wide: bool, a: Value, by: u8) -> Value {
        let code = match (wide, operation) {
            (false, _) => v::SHIFT_BY,
            (true, 0 | 4) => v::SHIFT_SIGNED_BY64,
            (true, _) => v::SHIFT_BY64,
        };
        let a = Source::Vector(a);
        self.emit_vector(
            code,
            Form::Shift(operation),
            None,
            a,
            None,
            Some(by),
            CURRENT,
        )
    }

    /// An extraction, whose result is a vector.
    pub(super) fn reversed(&mut self, code: Evex, a: Value, immediate: Option<u8>) -> Value {
        let a = Source::Vector(a);
        self.emit_vector(code, Form::Reversed, None, a, None, immediate, CURRENT)
    }

    /// The lanes for which a comparison is true, among those in `only`.
    pub(super) fn compared(
        &mut self,
        code: Evex,
        a: Source,
        b: Source,
        immediate: Option<u8>,
        only: Option<Value>,
    ) -> Value {
        let a = self.in_register(a, code.wide);
        let result = self.b.value(MASK);
        let (last, constant) = Self::operand(b, code);
        let mut operands = vec![Operand::reg_def(result), Operand::reg_use(a)];
        operands.extend(last);
        operands.extend(only.map(Operand::reg_use));
        let op = Op::Vector {
            code,
            form: Form::Binary,
            immediate,
            constant,
            masking: match only {
                Some(_) => Masking::Zero,
                None => Masking::None,
            },
            rounding: CURRENT,
        };
        self.b.emit(op, operands);
        result
    }

    /// `a` where the mask is set, otherwise `b`.
    pub(super) fn blended(&mut self, wide: bool, mask: Value, a: Source, b: Source) -> Value {
        let code = if wide { v::BLEND64 } else { v::BLEND };
        let b = self.in_register(b, wide);
        let result = self.b.value(ZMM);
        let (last, constant) = Self::operand(a, code);
        let mut operands = vec![Operand::reg_def(result), Operand::reg_use(b)];
        operands.extend(last);
        // Where the mask is not set, a blend has its first operand, which is not what the result held.
        operands.push(Operand::reg_use(mask));
        let op = Op::Vector {
            code,
            form: Form::Binary,
            immediate: None,
            constant,
            masking: Masking::Select,
            rounding: CURRENT,
        };
        self.b.emit(op, operands);
        result
    }

    /// The lower halves of 16 lanes.
    pub(super) fn narrowed(&mut self, low: Value, high: Value) -> Value {
        let [low, high] = [low, high].map(|half| self.reversed(v::NARROW_TO_WORDS, half, None));
        self.joined(low, high)
    }

    /// Two vectors of 256 bits as one.
    pub(super) fn joined(&mut self, low: Value, high: Value) -> Value {
        let (low, high) = (Source::Vector(low), Source::Vector(high));
        self.binary_with(v::INSERT_HALF, low, high, Some(1), CURRENT)
    }

    /// The upper 256 bits.
    pub(super) fn upper_half(&mut self, vector: Value) -> Value {
        self.reversed(v::EXTRACT_HALF, vector, Some(1))
    }

    /// The lower (0) or upper 256 bits, in a vector of 256 bits.
    pub(super) fn half_of(&mut self, vector: Value, half: usize) -> Value {
        match half {
            0 => vector,
            _ => self.upper_half(vector),
        }
    }

    /// Eight of 16 lanes, extended to 64 bits.
    pub(super) fn widened(&mut self, vector: Value, half: usize, signed: bool) -> Value {
        let from = self.half_of(vector, half);
        let code = if signed { v::WIDEN_S } else { v::WIDEN_U };
        self.converted(code, from)
    }

    /// The first lane, in a general-purpose register.
    pub(super) fn first_lane(&mut self, vector: Value, wide: bool) -> Value {
        let code = if wide { v::TO_INT64 } else { v::TO_INT };
        let result = self.b.value(INT);
        let op = Op::Vector {
            code,
            form: Form::Reversed,
            immediate: None,
            constant: None,
            masking: Masking::None,
            rounding: CURRENT,
        };
        let operands = [Operand::reg_def(result), Operand::reg_use(vector)];
        self.b.emit(op, operands);
        result
    }

    pub(super) fn mask_binary(&mut self, opcode: u8, a: Value, b: Value) -> Value {
        let result = self.b.value(MASK);
        let operands = [result, a, b].map(Operand::reg_use);
        let operands = [Operand::reg_def(result), operands[1], operands[2]];
        self.b.emit(Op::MaskBinary(opcode), operands);
        result
    }

    pub(super) fn mask_and(&mut self, a: Value, b: Value) -> Value {
        self.mask_binary(v::MASK_AND, a, b)
    }

    /// `b` without `a`.
    pub(super) fn mask_without(&mut self, a: Value, b: Value) -> Value {
        self.mask_binary(v::MASK_AND_NOT, a, b)
    }

    pub(super) fn mask_or(&mut self, a: Value, b: Value) -> Value {
        self.mask_binary(v::MASK_OR, a, b)
    }

    /// Joins two masks of eight lanes.
    pub(super) fn mask_join(&mut self, low: Value, high: Value) -> Value {
        self.mask_binary(0x4B, high, low)
    }

    pub(super) fn mask_not(&mut self, a: Value) -> Value {
        let result = self.b.value(MASK);
        let operands = [Operand::reg_def(result), Operand::reg_use(a)];
        self.b.emit(Op::MaskNot, operands);
        result
    }

    pub(super) fn no_lanes(&mut self) -> Value {
        let result = self.b.value(MASK);
        self.b
            .emit(Op::MaskConstant(false), [Operand::reg_def(result)]);
        result
    }

    /// One half of a mask of 16 lanes.
    pub(super) fn eighth(&mut self, mask: Value, half: usize) -> Value {
        if half == 0 {
            return mask;
        }
        let result = self.b.value(MASK);
        let operands = [Operand::reg_def(result), Operand::reg_use(mask)];
        self.b.emit(Op::MaskShift { right: true, by: 8 }, operands);
        result
    }

    /// The mask for one vector of 4-byte or 8-byte lanes.
    pub(super) fn mask_for(&mut self, masks: &[Value], wide: bool, piece: usize) -> Value {
        if wide {
            self.eighth(masks[piece / 2], piece % 2)
        } else {
            masks[piece]
        }
    }

    /// Sets the flags: equal if there is no lane.
    pub(super) fn test_masks(&mut self, masks: &[Value]) {
        let first = masks[0];
        let last = masks.get(1).copied().unwrap_or(first);
        let operands = [Operand::reg_use(first), Operand::reg_use(last)];
        self.b.emit(Op::MaskTest, operands);
    }

    pub(super) fn mask_to_int(&mut self, mask: Value) -> Value {
        let result = self.b.value(INT);
        let operands = [Operand::reg_def(result), Operand::reg_use(mask)];
        self.b.emit(Op::MaskToInt, operands);
        result
    }
}
