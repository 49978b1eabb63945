//! The bits of vectors that are known to be zero: a register of 16 bits is in the lower half of a lane, and
//! most instructions need no mask to keep it so.

use regalloc2::OperandKind;

use super::machine::{Code, Constant, Evex, Form, Instruction, Label, Masking, Op, Value};
use super::opcodes as v;

/// Lanes of 32 bits.
const ALL: u8 = 32;

/// By value: the number of lower bits of a lane that may be set, if the definition has been seen.
pub(super) struct KnownBits {
    widths: Vec<Option<u8>>,
}

fn width_of(bits: u32) -> u8 {
    (u32::BITS - bits.leading_zeros()) as u8
}

impl KnownBits {
    pub fn new(values: usize) -> KnownBits {
        KnownBits {
            widths: vec![None; values],
        }
    }

    fn width(&self, value: Value) -> u8 {
        self.widths[value.vreg()].unwrap_or(ALL)
    }

    /// Notes the parameters of a block. What comes around a loop is not known.
    pub fn enter(&mut self, code: &Code, at: u32) {
        let block = &code.blocks[at as usize];
        for (n, param) in block.params.iter().enumerate() {
            let widths = block.predecessors.iter().flat_map(|from| {
                let from = &code.blocks[from.0 as usize];
                let edges = from.successors().into_iter().zip(&from.arguments);
                edges
                    .filter(|(to, _)| *to == Label(at))
                    .map(|(_, arguments)| self.width(arguments[n]))
            });
            self.widths[param.vreg()] = Some(widths.max().unwrap_or(ALL));
        }
    }

    /// The operand that the result is the same as: one of which a mask keeps all bits.
    pub fn unmasked(&self, instruction: &Instruction) -> Option<Value> {
        match instruction.op {
            Op::Vector {
                code: v::AND,
                constant: Some(Constant::Word(mask)),
                masking: Masking::None,
                ..
            } => {
                let value = uses(instruction).next()?;
                (mask.trailing_ones() >= self.width(value).into()).then_some(value)
            }
            _ => None,
        }
    }

    /// Notes the result of an instruction.
    pub fn note(&mut self, code: &Code, instruction: &Instruction) {
        let mut results = instruction.operands.iter();
        let Some(result) = results.find(|operand| operand.kind() == OperandKind::Def) else {
            return;
        };
        let width = self.width_of_result(code, instruction);
        self.widths[result.vreg().vreg()] = Some(width);
    }

    fn width_of_result(&self, code: &Code, instruction: &Instruction) -> u8 {
        let mut operands = uses(instruction).map(|value| self.width(value));
        match instruction.op {
            Op::ZeroVector => 0,
            Op::Constant(constant) => width_of_constant(code, constant),
            Op::Load {
                code: load,
                masking,
                binary: false,
                ..
            } => {
                let loaded = match load {
                    v::LOAD_BYTES_U => 8,
                    v::LOAD_HALVES_U => 16,
                    _ => ALL,
                };
                match masking {
                    Masking::None | Masking::Zero => loaded,
                    // Behind the base.
                    Masking::Merge => loaded.max(operands.nth(1).unwrap_or(ALL)),
                    Masking::Select => ALL,
                }
            }
            Op::Vector {
                code: opcode,
                form,
                immediate,
                constant,
                masking,
                ..
            } => {
                let first = operands.next().unwrap_or(ALL);
                let second = constant.map(|constant| width_of_constant(code, constant));
                let second = second.or_else(|| operands.next()).unwrap_or(ALL);
                // What a result replaces or merges with is behind them.
                let third = operands.next().unwrap_or(ALL);
                let width = match form {
                    Form::Shift(kind) => shifted(kind, opcode, first, immediate),
                    Form::Binary => binary(opcode, first, second),
                    Form::Ternary if opcode == v::TERNARY && masking == Masking::None => {
                        // The result of three zeros.
                        let sets = immediate.is_none_or(|table| table & 1 == 1);
                        if sets {
                            ALL
                        } else {
                            first.max(second).max(third)
                        }
                    }
                    _ => ALL,
                };
                match masking {
                    Masking::None | Masking::Zero | Masking::Select => width,
                    Masking::Merge if form == Form::Binary => width.max(third),
                    Masking::Merge => ALL,
                }
            }
            _ => ALL,
        }
    }
}

fn uses(instruction: &Instruction) -> impl Iterator<Item = Value> {
    let operands = instruction.operands.iter();
    let uses = operands.filter(|operand| operand.kind() == OperandKind::Use);
    uses.map(|operand| operand.vreg())
}

fn width_of_constant(code: &Code, constant: Constant) -> u8 {
    match constant {
        Constant::Word(bits) => width_of(bits),
        Constant::Long(_) => ALL,
        Constant::Vector(number) => {
            let lanes = code.vectors[number as usize].chunks_exact(4);
            let words = lanes.map(|lane| u32::from_le_bytes([lane[0], lane[1], lane[2], lane[3]]));
            width_of(words.fold(0, |all, word| all | word))
        }
    }
}

fn binary(opcode: Evex, first: u8, second: u8) -> u8 {
    let larger = first.max(second);
    match opcode {
        v::AND | v::MIN_U => first.min(second),
        v::ANDN => second,
        v::OR | v::XOR | v::MAX_U | v::BLEND => larger,
        v::ADD => (larger + 1).min(ALL),
        v::MUL => (first + second).min(ALL),
        // Numbers that are not negative.
        v::MIN_S | v::MAX_S if larger < ALL => larger,
        _ => ALL,
    }
}

fn shifted(kind: u8, opcode: Evex, width: u8, by: Option<u8>) -> u8 {
    match (kind, by) {
        _ if opcode != v::SHIFT_BY => ALL,
        (2, Some(by)) => width.saturating_sub(by),
        (4, Some(by)) if width < ALL => width.saturating_sub(by),
        (6, Some(by)) => width.saturating_add(by).min(ALL),
        _ => ALL,
    }
}
