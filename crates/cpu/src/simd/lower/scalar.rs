//! Uniform instructions, in general-purpose registers. The upper bits of narrower values are
//! unspecified.

use regalloc2::Operand;

use super::{Lowered, Lowering, Place};
use crate::program::{Arg, Instruction, RegClass};
use crate::simd::machine::{Alu, Condition, INT, Memory, Op, Shift, Value};
use ptx::names::{Modifier as M, Opcode as O, Type};

pub(super) const AND: Alu = Alu::And;
pub(super) const XOR: Alu = Alu::Xor;

impl Lowering<'_, '_> {
    pub(super) fn alu(&mut self, op: Alu, wide: bool, a: Value, b: Value) -> Value {
        let value = self.b.value(INT);
        let operands = [
            Operand::reg_reuse_def(value, 1),
            Operand::reg_use(a),
            Operand::reg_use(b),
        ];
        self.b.emit(Op::Alu { op, wide }, operands);
        value
    }

    pub(super) fn alu_immediate(&mut self, op: Alu, wide: bool, a: Value, number: i32) -> Value {
        let value = self.b.value(INT);
        let operands = [Operand::reg_reuse_def(value, 1), Operand::reg_use(a)];
        self.b.emit(Op::AluImmediate { op, wide, number }, operands);
        value
    }

    /// An operation whose second operand may be a constant.
    fn alu_of(&mut self, op: Alu, wide: bool, a: Value, b: Arg) -> Lowered<Value> {
        if let Some(bits) = self.constant_of(b, wide) {
            let number = if wide {
                i32::try_from(bits.cast_signed()).ok()
            } else {
                Some((bits as u32).cast_signed())
            };
            if let Some(number) = number {
                return Ok(self.alu_immediate(op, wide, a, number));
            }
        }
        let b = self.int(b, wide)?;
        Ok(self.alu(op, wide, a, b))
    }

    pub(super) fn negated(&mut self, a: Value) -> Value {
        let value = self.b.value(INT);
        let operands = [Operand::reg_reuse_def(value, 1), Operand::reg_use(a)];
        self.b.emit(Op::Negate { wide: true }, operands);
        value
    }

    pub(super) fn inverted(&mut self, a: Value) -> Value {
        let value = self.b.value(INT);
        let operands = [Operand::reg_reuse_def(value, 1), Operand::reg_use(a)];
        self.b.emit(Op::Not { wide: true }, operands);
        value
    }

    /// The lower bytes of a register, extended to 64 bits.
    pub(super) fn extended(&mut self, a: Value, memory: Memory) -> Value {
        let value = self.b.value(INT);
        let operands = [Operand::reg_def(value), Operand::reg_use(a)];
        self.b.emit(
            Op::Extend(Memory {
                wide: true,
                ..memory
            }),
            operands,
        );
        value
    }

    pub(super) fn add_offset(&mut self, a: Value, offset: i64) -> Value {
        match i32::try_from(offset) {
            Ok(0) => a,
            Ok(offset) => {
                let value = self.b.value(INT);
                let operands = [Operand::reg_def(value), Operand::reg_use(a)];
                self.b.emit(Op::Address { offset }, operands);
                value
            }
            Err(_) => {
                let offset = self.b.immediate(offset.cast_unsigned());
                self.alu(Alu::Add, true, a, offset)
            }
        }
    }

    pub(super) fn shift_int(&mut self, shift: Shift, wide: bool, a: Value, by: u8) -> Value {
        if by == 0 {
            return a;
        }
        let value = self.b.value(INT);
        let operands = [Operand::reg_reuse_def(value, 1), Operand::reg_use(a)];
        self.b
            .emit(Op::ShiftImmediate { shift, wide, by }, operands);
        value
    }

    pub(super) fn multiply_int(&mut self, wide: bool, a: Value, b: Value) -> Value {
        let value = self.b.value(INT);
        let operands = [
            Operand::reg_reuse_def(value, 1),
            Operand::reg_use(a),
            Operand::reg_use(b),
        ];
        self.b.emit(Op::Multiply { wide }, operands);
        value
    }

    pub(super) fn multiply_by(&mut self, wide: bool, a: Value, number: i32) -> Value {
        let value = self.b.value(INT);
        let operands = [Operand::reg_def(value), Operand::reg_use(a)];
        self.b
            .emit(Op::MultiplyImmediate { wide, number }, operands);
        value
    }

    pub(super) fn compare_int(&mut self, wide: bool, a: Value, b: Value) {
        let operands = [a, b].map(Operand::reg_use);
        self.b.emit(Op::Alu { op: Alu::Cmp, wide }, operands);
    }

    pub(super) fn compare_with(&mut self, wide: bool, a: Value, number: i32) {
        let op = Op::AluImmediate {
            op: Alu::Cmp,
            wide,
            number,
        };
        self.b.emit(op, [Operand::reg_use(a)]);
    }

    /// Sets the flags: equal if a bit is 0.
    pub(super) fn test_int(&mut self, bit: Value) {
        let operands = [bit, bit].map(Operand::reg_use);
        self.b.emit(Op::Test { wide: false }, operands);
    }

    /// 1 if the flags are so, otherwise 0.
    pub(super) fn set_int(&mut self, condition: Condition) -> Value {
        let value = self.b.value(INT);
        self.b.emit(Op::Set(condition), [Operand::reg_def(value)]);
        value
    }

    /// `yes` if the flags are so.
    pub(super) fn select_int(
        &mut self,
        condition: Condition,
        wide: bool,
        no: Value,
        yes: Value,
    ) -> Value {
        let value = self.b.value(INT);
        let operands = [
            Operand::reg_reuse_def(value, 1),
            Operand::reg_use(no),
            Operand::reg_use(yes),
        ];
        self.b.emit(Op::Select { condition, wide }, operands);
        value
    }

    /// Lowers a uniform integer instruction to scalar code, if there is a lowering for it.
    pub(super) fn scalar(&mut self, i: &Instruction) -> Lowered<bool> {
        let args = self.program.list(i.args);
        let Some(&Arg::Reg(to)) = args.first() else {
            return Ok(false);
        };
        let class = self.class(to);
        let is_uniform = match self.places[to.index()] {
            Place::Uniform(_) | Place::Indexed(_) => true,
            Place::Affine(..) => self.takes_first,
            _ => false,
        };
        if !is_uniform || class.is_float() {
            return Ok(false);
        }
        if class == RegClass::Pred {
            return self.scalar_predicate(i);
        }
        let Ok(ty) = self.ty(i, 0) else {
            return Ok(false);
        };
        let signed = matches!(ty, Type::S16 | Type::S32 | Type::S64);
        let integer = matches!(
            ty,
            Type::U32 | Type::S32 | Type::B32 | Type::U64 | Type::S64 | Type::B64
        );
        let product = matches!(i.opcode, O::Mul | O::Mad);
        let wide = ty.bits() == 64;
        let is_high = i.modifiers.has(M::Hi);
        let other = i.modifiers.first_of(&[M::Sat, M::Cc]).is_some() || is_high && wide;
        if !integer || other {
            return Ok(false);
        }
        if !product && (class.bytes() == 8) != wide {
            return Ok(false);
        }
        let value = match i.opcode {
            O::Add | O::Sub | O::And | O::Or | O::Xor => {
                let op = match i.opcode {
                    O::Add => Alu::Add,
                    O::Sub => Alu::Sub,
                    O::And => Alu::And,
                    O::Or => Alu::Or,
                    _ => Alu::Xor,
                };
                let a = self.int(args[1], wide)?;
                self.alu_of(op, wide, a, args[2])?
            }
            O::Mul | O::Mad => {
                let product = if is_high || i.modifiers.has(M::Wide) {
                    if wide {
                        return Ok(false);
                    }
                    let memory = Memory {
                        bytes: 4,
                        signed,
                        wide: true,
                    };
                    let mut factors = [None; 2];
                    for (factor, &arg) in factors.iter_mut().zip(&args[1..3]) {
                        let value = self.int(arg, false)?;
                        *factor = Some(self.extended(value, memory));
                    }
                    let [Some(a), Some(b)] = factors else {
                        return Ok(false);
                    };
                    let product = self.multiply_int(true, a, b);
                    if is_high {
                        self.shift_int(Shift::Right, true, product, 32)
                    } else {
                        product
                    }
                } else {
                    let a = self.int(args[1], wide)?;
                    let b = self.int(args[2], wide)?;
                    self.multiply_int(wide, a, b)
                };
                let wide = wide || i.modifiers.has(M::Wide);
                match i.opcode {
                    O::Mul => product,
                    _ => self.alu_of(Alu::Add, wide, product, args[3])?,
                }
            }
            O::Not => {
                let a = self.int(args[1], wide)?;
                self.inverted(a)
            }
            O::Neg => {
                let a = self.int(args[1], wide)?;
                self.negated(a)
            }
            O::Min | O::Max if !i.modifiers.has(M::Relu) => {
                let a = self.int(args[1], wide)?;
                let b = self.int(args[2], wide)?;
                self.compare_int(wide, a, b);
                let condition = match (i.opcode == O::Min, signed) {
                    (true, true) => Condition::Less,
                    (true, false) => Condition::Below,
                    (false, true) => Condition::Greater,
                    (false, false) => Condition::Above,
                };
                self.select_int(condition, wide, b, a)
            }
            O::Shl | O::Shr => match self.scalar_shift(i, args, (wide, signed))? {
                Some(value) => value,
                None => return Ok(false),
            },
            _ => return Ok(false),
        };
        self.write_int(i, to, value)?;
        Ok(true)
    }

    /// A shift, whose count is clamped to the width.
    fn scalar_shift(
        &mut self,
        i: &Instruction,
        args: &[Arg],
        (wide, signed): (bool, bool),
    ) -> Lowered<Option<Value>> {
        let Some(count) = self.constant_of(args[2], false) else {
            return Ok(None);
        };
        let bits = if wide { 64 } else { 32 };
        let a = self.int(args[1], wide)?;
        let shift = match (i.opcode, signed) {
            (O::Shl, _) => Shift::Left,
            (_, true) => Shift::Arithmetic,
            (_, false) => Shift::Right,
        };
        let value = match (count < bits, shift) {
            (true, _) => self.shift_int(shift, wide, a, count as u8),
            (false, Shift::Arithmetic) => self.shift_int(shift, wide, a, bits as u8 - 1),
            (false, _) => self.b.immediate(0),
        };
        Ok(Some(value))
    }

    /// Logical operations on uniform predicates.
    fn scalar_predicate(&mut self, i: &Instruction) -> Lowered<bool> {
        let args = self.program.list(i.args);
        let (Some(&Arg::Reg(to)), [_, sources @ ..]) = (args.first(), args) else {
            return Ok(false);
        };
        let value = match (i.opcode, sources) {
            (O::And | O::Or | O::Xor, &[a, b]) => {
                let op = match i.opcode {
                    O::And => Alu::And,
                    O::Or => Alu::Or,
                    _ => Alu::Xor,
                };
                let a = self.bit(a)?;
                let b = self.bit(b)?;
                self.alu(op, false, a, b)
            }
            (O::Not, &[a]) => {
                let a = self.bit(a)?;
                self.alu_immediate(Alu::Xor, false, a, 1)
            }
            _ => return Ok(false),
        };
        self.write_int(i, to, value)?;
        Ok(true)
    }

    /// A predicate that all lanes share, 0 or 1.
    pub(super) fn bit(&mut self, arg: Arg) -> Lowered<Value> {
        match arg {
            Arg::Int(number) => Ok(self.b.immediate(u64::from(number != 0))),
            _ => self.int(arg, false),
        }
    }
}
