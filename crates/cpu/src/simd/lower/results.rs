//! Writing results: lanes that do not execute an instruction keep what they had.

use regalloc2::{Operand, OperandConstraint, OperandKind, OperandPos};

use super::{Lowered, Lowering, Place, Source, Unsupported};
use crate::program::{Arg, Guard, Instruction, Reg, RegClass};
use crate::simd::builder::Variable;
use crate::simd::machine::{Condition, Form, Masking, Memory, Op, Value, ZMM};
use crate::simd::opcodes as v;

/// How many instructions back to search for the definition of a value that gets a write mask.
const NEAR: usize = 40;

impl Lowering<'_, '_> {
    /// The lanes that write a register; `None` if the old values of the others are dead.
    fn writing(&mut self, reg: Reg, guard: Option<Guard>) -> Lowered<Option<Vec<Value>>> {
        let keeps = self.active.is_some() && self.divergence.keeps(reg, self.block, &self.liveness);
        let active = self.active.clone().filter(|_| keeps);
        let Some(guard) = guard else {
            return Ok(active);
        };
        let arg = if guard.negated {
            Arg::Not(guard.reg)
        } else {
            Arg::Reg(guard.reg)
        };
        let mut masks = Vec::new();
        for piece in 0..self.width / 16 {
            let mask = self.mask(arg, piece)?;
            masks.push(match &active {
                Some(active) => self.mask_and(mask, active[piece]),
                None => mask,
            });
        }
        Ok(Some(masks))
    }

    /// Writes vectors of 4 or 8 bytes for each lane. A wider register gets them extended.
    pub(super) fn write(
        &mut self,
        i: &Instruction,
        to: Arg,
        wide: bool,
        values: &[Value],
        signed: bool,
    ) -> Lowered<()> {
        let Arg::Reg(reg) = to else {
            return match to {
                Arg::Sink => Ok(()),
                _ => Err(Unsupported("a kind of result")),
            };
        };
        let class = self.class(reg);
        if class == RegClass::Pred {
            return Err(Unsupported("a number in a predicate"));
        }
        match self.places[reg.index()].clone() {
            Place::Uniform(variable) if class.is_float() => {
                if (class.bytes() == 8) != wide {
                    return Err(Unsupported("a float of another width"));
                }
                self.write_uniform_vector(i, variable, wide, values[0])
            }
            Place::Extended(_) => Err(Unsupported("a result that is a sum")),
            Place::Uniform(_) | Place::Affine(..) | Place::Indexed(_) => {
                let value = self.first_lane(values[0], wide);
                let value = if class.bytes() == 8 && !wide {
                    self.extended(
                        value,
                        Memory {
                            bytes: 4,
                            signed,
                            wide: true,
                        },
                    )
                } else {
                    value
                };
                self.write_int(i, reg, value)
            }
            Place::Lanes(variables) => {
                let values = self.of_width(values, wide, (class.bytes() == 8, signed));
                let masks = self.writing(reg, i.guard)?;
                let wide = class.bytes() == 8;
                for (piece, value) in values.iter().enumerate() {
                    // The result of several instructions, or in several vectors.
                    if values[..piece].contains(value) {
                        self.b.keep(*value);
                    }
                }
                for (piece, (&value, variable)) in values.iter().zip(variables).enumerate() {
                    let value = match class {
                        RegClass::I16 => self.low_half(value),
                        _ => value,
                    };
                    let mask = masks
                        .as_ref()
                        .map(|masks| self.mask_for(masks, wide, piece));
                    self.assign(variable, wide, value, mask);
                }
                Ok(())
            }
        }
    }

    fn write_uniform_vector(
        &mut self,
        i: &Instruction,
        variable: Variable,
        wide: bool,
        value: Value,
    ) -> Lowered<()> {
        let value = match i.guard {
            None => value,
            Some(guard) => {
                let bit = self.int(Arg::Reg(guard.reg), false)?;
                let mask = self.mask_of_bit(bit);
                let old = self.b.get(variable);
                let (yes, no) = if guard.negated {
                    (old, value)
                } else {
                    (value, old)
                };
                self.blended(wide, mask, Source::Vector(yes), Source::Vector(no))
            }
        };
        self.b.set(variable, value);
        Ok(())
    }

    /// The same bits in lanes of another width.
    pub(super) fn of_width(
        &mut self,
        values: &[Value],
        wide: bool,
        (wanted, signed): (bool, bool),
    ) -> Vec<Value> {
        match (wide, wanted) {
            (true, false) => values
                .chunks(2)
                .map(|pair| self.narrowed(pair[0], pair[1]))
                .collect(),
            (false, true) => {
                let mut wide = Vec::with_capacity(2 * values.len());
                for &value in values {
                    for half in 0..2 {
                        wide.push(self.widened(value, half, signed));
                    }
                }
                wide
            }
            _ => values.to_vec(),
        }
    }

    /// The lower 16 bits of each lane.
    pub(super) fn low_half(&mut self, value: Value) -> Value {
        self.binary(v::AND, Source::Vector(value), Source::Bits(0xFFFF))
    }

    /// Assigns a vector, in some lanes or all.
    fn assign(&mut self, variable: Variable, wide: bool, value: Value, mask: Option<Value>) {
        let Some(mask) = mask else {
            return self.b.set(variable, value);
        };
        let old = self.b.get(variable);
        let merged = match self.fused(value, old, (mask, wide)) {
            Some(merged) => merged,
            None => {
                let merged = self.b.value(ZMM);
                let operands = [
                    Operand::reg_reuse_def(merged, 2),
                    Operand::reg_use(value),
                    Operand::reg_use(old),
                    Operand::reg_use(mask),
                ];
                let op = Op::Vector {
                    code: if wide { v::COPY64 } else { v::COPY },
                    form: Form::Unary,
                    immediate: None,
                    constant: None,
                    masking: Masking::Merge,
                    rounding: super::vector::CURRENT,
                };
                self.b.emit(op, operands);
                merged
            }
        };
        self.b.set(variable, merged);
    }

    /// Adds a write mask to the instruction that has just computed a value.
    fn fused(&mut self, value: Value, old: Value, (mask, wide): (Value, bool)) -> Option<Value> {
        if self.b.is_kept(value) {
            return None;
        }
        let block = self.b.current();
        let instructions = &self.b.code.blocks[block.0 as usize].instructions;
        let recent = instructions.len().saturating_sub(NEAR);
        let mut at = None;
        for (n, instruction) in instructions.iter().enumerate().skip(recent) {
            for operand in &instruction.operands {
                if operand.vreg() == value {
                    match operand.kind() {
                        OperandKind::Def => at = Some(n),
                        // Something else needs it.
                        OperandKind::Use => return None,
                    }
                }
            }
        }
        let at = at?;
        let Op::Vector {
            code,
            form,
            masking: Masking::None,
            ..
        } = instructions[at].op
        else {
            return None;
        };
        let fits = code.maskable && code.wide == wide;
        let accumulates = form == Form::Ternary;
        let keeps = !accumulates || instructions[at].operands.last()?.vreg() == old;
        if !fits || !keeps || form == Form::Reversed {
            return None;
        }
        let mut instruction = self.b.code.blocks[block.0 as usize].instructions.remove(at);
        let merged = self.b.value(ZMM);
        let operands = &mut instruction.operands;
        if !accumulates {
            operands.push(Operand::reg_use(old));
        }
        let reused = operands.len() - 1;
        operands[0] = Operand::new(
            merged,
            OperandConstraint::Reuse(reused),
            OperandKind::Def,
            OperandPos::Late,
        );
        operands.push(Operand::reg_use(mask));
        if let Op::Vector { masking, .. } = &mut instruction.op {
            *masking = Masking::Merge;
        }
        self.b.emit(instruction.op, instruction.operands);
        Some(merged)
    }

    /// Writes a value that all lanes share.
    pub(super) fn write_int(&mut self, i: &Instruction, reg: Reg, value: Value) -> Lowered<()> {
        let class = self.class(reg);
        match self.places[reg.index()].clone() {
            Place::Uniform(_) if class.is_float() => {
                let wide = class.bytes() == 8;
                let vector = self.splat(value, wide);
                self.write(i, Arg::Reg(reg), wide, &[vector], false)
            }
            Place::Extended(_) => Err(Unsupported("a result that is a sum")),
            Place::Indexed(_) if i.guard.is_some() => {
                Err(Unsupported("a guarded result that is a sum"))
            }
            Place::Indexed(sum) => {
                self.set_indexed(&sum, value, None);
                Ok(())
            }
            Place::Uniform(variable) | Place::Affine(variable, _) => {
                let value = match i.guard {
                    None => value,
                    Some(guard) => {
                        let old = self.b.get(variable);
                        let bit = self.int(Arg::Reg(guard.reg), false)?;
                        let condition = if guard.negated {
                            Condition::Equal
                        } else {
                            Condition::NotEqual
                        };
                        self.test_int(bit);
                        self.select_int(condition, class.bytes() == 8, old, value)
                    }
                };
                self.b.set(variable, value);
                Ok(())
            }
            Place::Lanes(_) if class == RegClass::Pred => {
                let mask = self.mask_of_bit(value);
                let masks = vec![mask; self.width / 16];
                self.write_masks(i, Arg::Reg(reg), &masks)
            }
            Place::Lanes(_) => {
                let wide = class.bytes() == 8;
                let vector = self.splat(value, wide);
                let vectors = vec![vector; self.pieces(wide)];
                self.write(i, Arg::Reg(reg), wide, &vectors, false)
            }
        }
    }

    /// Writes 0 to the first operand.
    pub(super) fn write_zero(&mut self, i: &Instruction) -> Lowered<()> {
        let Arg::Reg(to) = self.arg(i, 0)? else {
            return Err(Unsupported("a kind of result"));
        };
        let zero = self.b.immediate(0);
        self.write_int(i, to, zero)
    }

    /// Writes a predicate.
    pub(super) fn write_masks(
        &mut self,
        i: &Instruction,
        to: Arg,
        values: &[Value],
    ) -> Lowered<()> {
        let Arg::Reg(reg) = to else {
            return match to {
                Arg::Sink => Ok(()),
                _ => Err(Unsupported("a kind of result")),
            };
        };
        if self.class(reg) != RegClass::Pred {
            return Err(Unsupported("a predicate in a number"));
        }
        match self.places[reg.index()].clone() {
            Place::Affine(..) | Place::Extended(_) | Place::Indexed(_) => {
                Err(Unsupported("a predicate with a stride"))
            }
            Place::Uniform(_) => {
                let bits = self.mask_to_int(values[0]);
                let bit = self.alu_immediate(super::scalar::AND, false, bits, 1);
                self.write_int(i, reg, bit)
            }
            Place::Lanes(variables) => {
                let masks = self.writing(reg, i.guard)?;
                for (piece, (&value, variable)) in values.iter().zip(variables).enumerate() {
                    let value = match &masks {
                        None => value,
                        Some(masks) => {
                            let old = self.b.get(variable);
                            let kept = self.mask_without(masks[piece], old);
                            let new = self.mask_and(masks[piece], value);
                            self.mask_or(kept, new)
                        }
                    };
                    self.b.set(variable, value);
                }
                Ok(())
            }
        }
    }
}
