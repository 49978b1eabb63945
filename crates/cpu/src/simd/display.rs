//! Prints the machine IR.
//!
//! ```text
//! block2(v8):
//!     v9 = add v8, 0x1 {k3 merge v8}
//!     jump block3(v9)
//! ```

use std::fmt::{self, Display, Formatter};

use regalloc2::{Operand, OperandKind};

use super::machine::{
    Block, Code, Constant, INT, Instruction, Label, MASK, Masking, Memory, Op, Shift, Value,
};
use super::opcodes;

/// A value: `r` for general-purpose registers, `v` for vectors, `k` for masks, and its number.
struct Name(Value);

impl Display for Name {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let class = match self.0.class() {
            INT => 'r',
            MASK => 'k',
            _ => 'v',
        };
        write!(f, "{class}{}", self.0.vreg())
    }
}

/// Words with separators.
struct List<T>(Vec<T>);

impl<T: Display> Display for List<T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (n, item) in self.0.iter().enumerate() {
            let separator = if n == 0 { "" } else { ", " };
            write!(f, "{separator}{item}")?;
        }
        Ok(())
    }
}

fn names<'v>(values: impl IntoIterator<Item = &'v Value>) -> List<Name> {
    List(values.into_iter().map(|value| Name(*value)).collect())
}

/// A block, with the values of its parameters.
fn target(label: Label, arguments: &[Value]) -> String {
    let Label(number) = label;
    if arguments.is_empty() {
        format!("block{number}")
    } else {
        format!("block{number}({})", names(arguments))
    }
}

impl Display for Code {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for &label in &self.layout {
            let block = &self.blocks[label.0 as usize];
            let cold = if block.is_cold { " cold" } else { "" };
            writeln!(f, "{}:{cold}", target(label, &block.params))?;
            for instruction in &block.instructions {
                write!(f, "    ")?;
                self.instruction(f, block, instruction)?;
                writeln!(f)?;
            }
        }
        Ok(())
    }
}

impl Code {
    fn instruction(
        &self,
        f: &mut Formatter<'_>,
        block: &Block,
        instruction: &Instruction,
    ) -> fmt::Result {
        let of_kind = |kind: OperandKind| {
            let operands = instruction.operands.iter();
            operands.filter(move |operand| operand.kind() == kind)
        };
        let results: Vec<Name> = of_kind(OperandKind::Def).map(name).collect();
        if !results.is_empty() {
            write!(f, "{} = ", List(results))?;
        }
        let mut operands: Vec<String> = of_kind(OperandKind::Use)
            .map(|operand| name(operand).to_string())
            .collect();
        let arguments = |n: usize| block.arguments.get(n).map_or(&[][..], |all| all);
        let operation = match instruction.op {
            Op::Jump(to) => format!("jump {}", target(to, arguments(0))),
            Op::Branch {
                condition,
                then,
                otherwise,
            } => {
                let [then, otherwise] =
                    [(then, 0), (otherwise, 1)].map(|(label, n)| target(label, arguments(n)));
                format!("branch {}, {then}, {otherwise}", lower(condition))
            }
            Op::Vector {
                code,
                immediate,
                constant,
                masking,
                rounding,
                ..
            } => {
                let mask = masked(&mut operands, masking);
                operands.extend(constant.map(|constant| self.constant(constant)));
                operands.extend(immediate.map(|number| format!("{number:#x}")));
                operands.extend((rounding < 4).then(|| format!("rounding {rounding}")));
                let operands = List(std::mem::take(&mut operands));
                format!("{} {operands}{mask}", opcode(code))
            }
            Op::Load {
                code,
                offset,
                masking,
                broadcast,
                immediate,
                ..
            } => {
                let mask = masked(&mut operands, masking);
                let base = operands.pop().unwrap_or_default();
                let to_all = if broadcast { " to all lanes" } else { "" };
                operands.push(format!("[{base}{offset:+}]{to_all}"));
                operands.extend(immediate.map(|number| format!("{number:#x}")));
                let operands = List(std::mem::take(&mut operands));
                format!("{} {operands}{mask}", opcode(code))
            }
            Op::Store {
                code,
                offset,
                masked: is_masked,
                ..
            } => {
                let masking = if is_masked {
                    Masking::Zero
                } else {
                    Masking::None
                };
                let mask = masked(&mut operands, masking);
                let base = operands.pop().unwrap_or_default();
                let value = operands.pop().unwrap_or_default();
                format!("{} [{base}{offset:+}], {value}{mask}", opcode(code))
            }
            Op::Gather { code, scale } | Op::Scatter { code, scale } => {
                format!("{} scale {}", opcode(code), 1 << scale)
            }
            Op::Constant(constant) => format!("constant {}", self.constant(constant)),
            Op::Check { call } | Op::CallLanes { call } => {
                let called = &self.calls[call as usize];
                let kind = match instruction.op {
                    Op::Check { .. } => "check",
                    _ => "call",
                };
                format!("{kind} helper {}", called.helper)
            }
            ref op => integer(op, &mut operands).unwrap_or_else(|| lower(op)),
        };
        write!(f, "{operation}")?;
        if !operands.is_empty() {
            write!(f, " {}", List(operands))?;
        }
        Ok(())
    }

    fn constant(&self, constant: Constant) -> String {
        match constant {
            Constant::Word(bits) => format!("{bits:#x}"),
            Constant::Long(bits) => format!("{bits:#x}.64"),
            Constant::Vector(number) => {
                let bytes = &self.vectors[number as usize];
                let words = bytes.chunks_exact(4);
                let words =
                    words.map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
                format!(
                    "[{}]",
                    List(words.map(|word| format!("{word:#x}")).collect())
                )
            }
        }
    }
}

fn name(operand: &Operand) -> Name {
    Name(operand.vreg())
}

fn opcode(code: super::machine::Evex) -> String {
    let name = opcodes::name(code).map(str::to_lowercase);
    name.unwrap_or_else(|| format!("opcode {}:{:02x}", code.map, code.opcode))
}

/// Takes the mask, and the lanes that it keeps, from the operands.
fn masked(operands: &mut Vec<String>, masking: Masking) -> String {
    let mut last = || operands.pop().unwrap_or_default();
    match masking {
        Masking::None => String::new(),
        Masking::Zero => format!(" {{{}, zero}}", last()),
        Masking::Select => format!(" {{{}, select}}", last()),
        Masking::Merge => {
            let mask = last();
            format!(" {{{mask}, merge {}}}", last())
        }
    }
}

/// An operation on general-purpose registers or masks.
fn integer(op: &Op, operands: &mut Vec<String>) -> Option<String> {
    let bits = |wide: bool| if wide { "64" } else { "32" };
    let mut address = |offset: i32| {
        let base = operands.pop().unwrap_or_default();
        operands.push(format!("[{base}{offset:+}]"));
    };
    let text = match *op {
        Op::Alu { op, wide } => format!("{}.{}", lower(op), bits(wide)),
        Op::AluImmediate { op, wide, number } => {
            operands.push(number.to_string());
            format!("{}.{}", lower(op), bits(wide))
        }
        Op::Test { wide } => format!("test.{}", bits(wide)),
        Op::Multiply { wide } => format!("mul.{}", bits(wide)),
        Op::MultiplyImmediate { wide, number } => {
            operands.push(number.to_string());
            format!("mul.{}", bits(wide))
        }
        Op::ShiftImmediate { shift, wide, by } => {
            operands.push(by.to_string());
            let name = match shift {
                Shift::Rotate => "ror",
                Shift::Left => "shl",
                Shift::Right => "shr",
                Shift::Arithmetic => "sar",
            };
            format!("{name}.{}", bits(wide))
        }
        Op::Negate { wide } => format!("neg.{}", bits(wide)),
        Op::Not { wide } => format!("not.{}", bits(wide)),
        Op::Extend(memory) => format!("extend.{}", kind(memory)),
        Op::Address { offset } => {
            address(offset);
            "address".to_owned()
        }
        Op::Indexed { scale, offset } => {
            let index = operands.pop().unwrap_or_default();
            let base = operands.pop().unwrap_or_default();
            operands.push(format!("[{base}+{index}*{}{offset:+}]", 1 << scale));
            "address".to_owned()
        }
        Op::LoadInt { memory, offset } => {
            address(offset);
            format!("load.{}", kind(memory))
        }
        Op::StoreInt { bytes, offset } => {
            address(offset);
            operands.reverse();
            format!("store.{}", 8 * u32::from(bytes))
        }
        Op::Immediate(bits) => format!("immediate {bits:#x}"),
        Op::Set(condition) => format!("set {}", lower(condition)),
        Op::Select { condition, wide } => format!("select.{} {}", bits(wide), lower(condition)),
        Op::MaskBinary(code) => match code {
            opcodes::MASK_AND => "and".to_owned(),
            opcodes::MASK_AND_NOT => "and_not".to_owned(),
            opcodes::MASK_OR => "or".to_owned(),
            opcodes::MASK_XOR => "xor".to_owned(),
            _ => format!("mask {code:02x}"),
        },
        Op::MaskConstant(all) => format!("lanes {}", if all { "all" } else { "none" }),
        _ => return None,
    };
    Some(text)
}

/// The type of an integer in memory.
fn kind(memory: Memory) -> String {
    let sign = if memory.signed { 's' } else { 'u' };
    format!("{sign}{}", 8 * memory.bytes)
}

/// The operation as it is declared, in lower case.
fn lower(op: impl fmt::Debug) -> String {
    format!("{op:?}").to_lowercase()
}
