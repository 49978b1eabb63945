//! Instructions on vectors of 256 bits.

use regalloc2::Operand;

use super::{Legalizer, Source, opcodes as a};
use crate::simd::machine::{Constant, Evex, Form, Masking, Op, Value};
use crate::simd::opcodes as v;

/// No rounding of its own.
pub(super) const CURRENT: u8 = 4;

/// A constant in all lanes of 32 bits.
pub(super) fn word(bits: u32) -> Source {
    Source::Constant(Constant::Word(bits))
}

/// A constant in all lanes of 64 bits.
pub(super) fn long(bits: u64) -> Source {
    Source::Constant(Constant::Long(bits))
}

/// An instruction without its operands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operation {
    pub code: Evex,
    pub form: Form,
    pub immediate: Option<u8>,
    pub rounding: u8,
}

impl Operation {
    pub fn new(code: Evex, form: Form) -> Operation {
        Operation {
            code,
            form,
            immediate: None,
            rounding: CURRENT,
        }
    }
}

impl Legalizer {
    /// One instruction: `old` is an operand that the result replaces.
    pub(super) fn plain(
        &mut self,
        operation: Operation,
        first: Option<Value>,
        last: Source,
        old: Option<Value>,
    ) -> Value {
        let result = self.value();
        let mut operands = vec![Operand::reg_def(result)];
        operands.extend(first.map(Operand::reg_use));
        let constant = match last {
            Source::Value(value) => {
                operands.push(Operand::reg_use(value));
                None
            }
            Source::Constant(constant) => Some(constant),
        };
        if let Some(old) = old {
            operands.push(Operand::reg_use(old));
            operands[0] = Operand::reg_reuse_def(result, operands.len() - 1);
        }
        let op = Op::Vector {
            code: operation.code.of_256_bits(),
            form: operation.form,
            immediate: operation.immediate,
            constant,
            masking: Masking::None,
            rounding: operation.rounding,
        };
        self.emit(op, operands);
        result
    }

    pub(super) fn binary(&mut self, code: Evex, first: Value, last: Source) -> Value {
        self.plain(Operation::new(code, Form::Binary), Some(first), last, None)
    }

    pub(super) fn of_values(&mut self, code: Evex, first: Value, last: Value) -> Value {
        self.binary(code, first, Source::Value(last))
    }

    pub(super) fn binary_by(&mut self, code: Evex, first: Value, last: Value, by: u8) -> Value {
        let operation = Operation {
            immediate: Some(by),
            ..Operation::new(code, Form::Binary)
        };
        self.plain(operation, Some(first), Source::Value(last), None)
    }

    pub(super) fn unary(&mut self, code: Evex, operand: Value) -> Value {
        let operation = Operation::new(code, Form::Unary);
        self.plain(operation, None, Source::Value(operand), None)
    }

    pub(super) fn unary_by(&mut self, code: Evex, operand: Value, by: u8) -> Value {
        let operation = Operation {
            immediate: Some(by),
            ..Operation::new(code, Form::Unary)
        };
        self.plain(operation, None, Source::Value(operand), None)
    }

    /// A shift: 2 right, 4 signed, 6 left.
    pub(super) fn shift(&mut self, operation: u8, wide: bool, operand: Value, by: u8) -> Value {
        let code = if wide { v::SHIFT_BY64 } else { v::SHIFT_BY };
        let operation = Operation {
            immediate: Some(by),
            ..Operation::new(code, Form::Shift(operation))
        };
        self.plain(operation, None, Source::Value(operand), None)
    }

    pub(super) fn inverted(&mut self, value: Value) -> Value {
        self.binary(v::XOR, value, word(!0))
    }

    /// The upper 128 bits.
    pub(super) fn upper(&mut self, value: Value) -> Value {
        let operation = Operation {
            immediate: Some(1),
            ..Operation::new(a::EXTRACT, Form::Reversed)
        };
        self.plain(operation, None, Source::Value(value), None)
    }

    /// Two vectors of 128 bits as one.
    pub(super) fn joined(&mut self, low: Value, high: Value) -> Value {
        self.binary_by(a::INSERT, low, high, 1)
    }

    /// `then` where the sign of a lane of the mask is set, and `otherwise`.
    pub(super) fn blended(
        &mut self,
        wide: bool,
        mask: Value,
        then: Source,
        otherwise: Value,
    ) -> Value {
        let result = self.value();
        let mut operands = vec![Operand::reg_def(result), Operand::reg_use(otherwise)];
        let constant = match then {
            Source::Value(value) => {
                operands.push(Operand::reg_use(value));
                None
            }
            Source::Constant(constant) => Some(constant),
        };
        operands.push(Operand::reg_use(mask));
        let op = Op::Vector {
            code: if wide { a::BLEND64 } else { a::BLEND },
            form: Form::Binary,
            immediate: None,
            constant,
            masking: Masking::Select,
            rounding: CURRENT,
        };
        self.emit(op, operands);
        result
    }

    /// A general-purpose register in all lanes.
    pub(super) fn splat(&mut self, int: Value, wide: bool) -> Value {
        let (from, broadcast) = if wide {
            (a::FROM_INT64, v::BROADCAST64)
        } else {
            (a::FROM_INT, v::BROADCAST)
        };
        let first = self.unary(from, int);
        self.unary(broadcast, first)
    }

    /// The lower halves of the lanes of 64 bits of two vectors.
    pub(super) fn packed(&mut self, low: Value, high: Value) -> Value {
        let pairs = self.binary_by(a::SHUFFLE_TWO, low, high, 0x88);
        self.in_order(pairs)
    }

    /// Undoes the order that packing within 128 bits leaves.
    pub(super) fn in_order(&mut self, pairs: Value) -> Value {
        self.unary_by(a::PERMUTE_LONGS, pairs, 0xD8)
    }
}
