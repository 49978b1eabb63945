//! Reading operands.

use smallvec::SmallVec;

use super::{Lowered, Lowering, Place, Source, Unsupported};
use crate::abi::offset;
use crate::program::{Arg, Instruction, Reg, RegClass, Storage, float_bits};
use crate::simd::machine::{INT, MASK, Memory, Op, Value};
use crate::simd::opcodes as v;
use ptx::names::Type;
use regalloc2::Operand;

pub(super) const LONG: Memory = Memory {
    bytes: 8,
    signed: false,
    wide: true,
};
pub(super) const WORD: Memory = Memory {
    bytes: 4,
    signed: false,
    wide: false,
};

pub(super) fn is_wide(ty: Type) -> bool {
    ty.bits() == 64
}

impl Lowering<'_, '_> {
    pub(super) fn arg(&self, i: &Instruction, n: usize) -> Lowered<Arg> {
        let args = self.program.list(i.args);
        args.get(n)
            .copied()
            .ok_or(Unsupported("an operand is missing"))
    }

    pub(super) fn class(&self, reg: Reg) -> RegClass {
        self.program.registers[reg.index()]
    }

    /// The bits of a constant operand.
    pub(super) fn constant_of(&self, arg: Arg, wide: bool) -> Option<u64> {
        match arg {
            Arg::Int(number) if wide => Some(number),
            Arg::Int(number) => Some(number & 0xFFFF_FFFF),
            Arg::Float(value) => Some(float_bits(value, if wide { 8 } else { 4 })),
            Arg::Sink => Some(0),
            _ => None,
        }
    }

    /// Whether all lanes have the same value of an operand.
    pub(super) fn is_uniform(&self, arg: Arg) -> bool {
        !self.divergence.is_operand_divergent(self.program, arg)
    }

    /// A field of the context.
    pub(super) fn field(&mut self, memory: Memory, at: i32) -> Value {
        let value = self.b.value(INT);
        let op = Op::LoadInt { memory, offset: at };
        let operands = [Operand::reg_def(value), Operand::reg_use(self.context)];
        self.b.emit(op, operands);
        value
    }

    /// An operand that all lanes share, in a general-purpose register whose upper bits may be
    /// anything: of the lower 32 bits, or of all.
    pub(super) fn int(&mut self, arg: Arg, wide: bool) -> Lowered<Value> {
        if let Some(bits) = self.constant_of(arg, wide) {
            return Ok(self.b.immediate(bits));
        }
        match arg {
            Arg::Reg(reg) => {
                let class = self.class(reg);
                match self.places[reg.index()] {
                    Place::Uniform(variable) if class.is_float() => {
                        let vector = self.b.get(variable);
                        Ok(self.first_lane(vector, class.bytes() == 8))
                    }
                    Place::Uniform(variable) => {
                        let value = self.b.get(variable);
                        if wide && class.bytes() < 8 || class.bytes() == 2 {
                            // The upper bits of narrower registers are anything.
                            Ok(self.extended(
                                value,
                                Memory {
                                    bytes: class.bytes() as u8,
                                    ..WORD
                                },
                            ))
                        } else {
                            Ok(value)
                        }
                    }
                    Place::Affine(variable, _) if self.takes_first && !wide => {
                        Ok(self.b.get(variable))
                    }
                    _ => Err(Unsupported("a divergent operand")),
                }
            }
            Arg::Not(reg) => {
                let value = self.int(Arg::Reg(reg), false)?;
                let number = 1;
                Ok(self.alu_immediate(super::scalar::XOR, false, value, number))
            }
            Arg::Special(special) if self.takes_first && !self.is_uniform(arg) => {
                self.first_special(special)
            }
            Arg::Special(special) => self.uniform_special(special),
            Arg::Symbol(storage, offset) => {
                let offset = offset.bytes();
                match storage {
                    Storage::Global(index) => {
                        let globals = self.field(LONG, offset::GLOBALS);
                        let base = self.load_int(LONG, globals, index as i32 * 8);
                        Ok(self.add_offset(base, offset))
                    }
                    Storage::Shared(base) | Storage::Local(base) | Storage::Param(base) => Ok(self
                        .b
                        .immediate(i64::from(base).wrapping_add(offset).cast_unsigned())),
                    Storage::DynamicShared => {
                        let base = i64::from(self.program.shared_bytes);
                        Ok(self.b.immediate(base.wrapping_add(offset).cast_unsigned()))
                    }
                    Storage::CallParam(_) | Storage::Stack(_) => {
                        Err(Unsupported("an address of the stack"))
                    }
                }
            }
            Arg::List(list) => match *self.program.list(list) {
                [element] => self.int(element, wide),
                _ => Err(Unsupported("a list of operands")),
            },
            _ => Err(Unsupported("a kind of operand")),
        }
    }

    /// One vector of an operand of 32 or 64 bits for each lane. Of a wider register the lower half
    /// counts, and a narrower one is zero-extended.
    pub(super) fn source(&mut self, arg: Arg, wide: bool, piece: usize) -> Lowered<Source> {
        if let Some(bits) = self.constant_of(arg, wide) {
            return Ok(Source::Bits(bits));
        }
        let vector = match arg {
            Arg::Reg(reg) => {
                let class = self.class(reg);
                match self.places[reg.index()].clone() {
                    _ if class == RegClass::Pred => {
                        return Err(Unsupported("a predicate as a number"));
                    }
                    Place::Uniform(variable)
                        if class.is_float() && (class.bytes() == 8) == wide =>
                    {
                        self.b.get(variable)
                    }
                    Place::Uniform(_) => {
                        let value = self.int(arg, wide)?;
                        self.splat(value, wide)
                    }
                    Place::Affine(variable, stride) => {
                        let first = self.b.get(variable);
                        if wide {
                            let lanes = self.series(first, stride, piece / 2);
                            self.widened(lanes, piece % 2, false)
                        } else {
                            self.series(first, stride, piece)
                        }
                    }
                    Place::Extended(sum) => {
                        if wide {
                            self.sum_lanes(sum, piece)
                        } else {
                            let low = self.sum_lanes(sum, 2 * piece);
                            let high = self.sum_lanes(sum, 2 * piece + 1);
                            self.narrowed(low, high)
                        }
                    }
                    Place::Indexed(sum) => {
                        if wide {
                            self.indexed_lanes(&sum, piece)
                        } else {
                            let low = self.indexed_lanes(&sum, 2 * piece);
                            let high = self.indexed_lanes(&sum, 2 * piece + 1);
                            self.narrowed(low, high)
                        }
                    }
                    Place::Lanes(variables) => match (class.bytes() == 8, wide) {
                        (true, false) => {
                            let [low, high] = [0, 1].map(|n| self.b.get(variables[2 * piece + n]));
                            self.narrowed(low, high)
                        }
                        (false, true) => {
                            let half = self.b.get(variables[piece / 2]);
                            self.widened(half, piece % 2, false)
                        }
                        _ => self.b.get(variables[piece]),
                    },
                }
            }
            Arg::Special(special) if !self.is_uniform(arg) => {
                let vector =
                    self.divergent_special(special, if wide { piece / 2 } else { piece })?;
                if wide {
                    self.widened(vector, piece % 2, false)
                } else {
                    vector
                }
            }
            Arg::List(list) if !self.is_uniform(arg) => match *self.program.list(list) {
                [element] => return self.source(element, wide, piece),
                _ => return Err(Unsupported("a list of operands")),
            },
            _ => {
                let value = self.int(arg, wide)?;
                self.splat(value, wide)
            }
        };
        Ok(Source::Vector(vector))
    }

    /// The vector of an operand.
    pub(super) fn vector(&mut self, arg: Arg, wide: bool, piece: usize) -> Lowered<Value> {
        let source = self.source(arg, wide, piece)?;
        Ok(self.in_register(source, wide))
    }

    /// All vectors of an operand.
    pub(super) fn vectors(&mut self, arg: Arg, wide: bool) -> Lowered<SmallVec<[Value; 4]>> {
        let pieces = 0..self.pieces(wide);
        pieces.map(|piece| self.vector(arg, wide, piece)).collect()
    }

    /// A mask of a predicate operand.
    pub(super) fn mask(&mut self, arg: Arg, piece: usize) -> Lowered<Value> {
        match arg {
            Arg::Reg(reg) => match self.places[reg.index()].clone() {
                Place::Lanes(variables) if self.class(reg) == RegClass::Pred => {
                    Ok(self.b.get(variables[piece]))
                }
                Place::Uniform(_) => {
                    let bit = self.int(arg, false)?;
                    Ok(self.mask_of_bit(bit))
                }
                _ => Err(Unsupported("a number as a predicate")),
            },
            Arg::Not(reg) => {
                let mask = self.mask(Arg::Reg(reg), piece)?;
                Ok(self.mask_not(mask))
            }
            Arg::Int(number) => {
                let value = self.b.value(MASK);
                self.b
                    .emit(Op::MaskConstant(number != 0), [Operand::reg_def(value)]);
                Ok(value)
            }
            _ => Err(Unsupported("a kind of predicate")),
        }
    }

    /// 16 lanes of 0 or 1.
    pub(super) fn mask_of_bit(&mut self, bit: Value) -> Value {
        let all = self.negated(bit);
        let mask = self.b.value(MASK);
        let operands = [Operand::reg_def(mask), Operand::reg_use(all)];
        self.b.emit(Op::IntToMask, operands);
        mask
    }

    /// A general-purpose register in all lanes.
    pub(super) fn splat(&mut self, value: Value, wide: bool) -> Value {
        let code = if wide {
            v::BROADCAST_INT64
        } else {
            v::BROADCAST_INT
        };
        let vector = self.unary(code, Source::Vector(value));
        if !wide {
            self.splats.insert(vector, value);
        }
        vector
    }

    pub(super) fn load_int(&mut self, memory: Memory, base: Value, offset: i32) -> Value {
        let value = self.b.value(INT);
        let operands = [Operand::reg_def(value), Operand::reg_use(base)];
        self.b.emit(Op::LoadInt { memory, offset }, operands);
        value
    }
}
