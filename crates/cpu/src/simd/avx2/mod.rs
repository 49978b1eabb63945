//! Legalization for AVX2: rewrites code for vectors of 512 bits and mask registers as code for pairs of
//! vectors of 256 bits.
//!
//! A mask becomes a pair of vectors whose lanes of 32 bits are zeros or ones, whatever the width of the
//! lanes it was made for.

mod convert;
mod count;
mod instructions;
mod integer;
mod mask;
mod memory;
mod opcodes;
mod vector;

use std::collections::HashMap;

use analysis::control_flow::BlockId;
use regalloc2::{Operand, OperandKind};
use smallvec::SmallVec;

use super::machine::{Block, Code, Constant, INT, Instruction, Masking, Op, Value, ZMM};
use super::{numbering, opcodes as v};

/// The lower and the upper half of a vector or mask.
type Pair = [Value; 2];

/// An operand of an instruction on vectors.
#[derive(Clone, Copy, Debug)]
enum Source {
    Value(Value),
    Constant(Constant),
}

/// An instruction that AVX2 cannot do.
pub(super) struct Unsupported;

type Legalized<T> = Result<T, Unsupported>;

struct Legalizer {
    code: Code,
    out: Vec<Instruction>,
    /// By value: its halves.
    pairs: Vec<Option<Pair>>,
    /// Halves of constants.
    halves: HashMap<(u32, usize), u32>,
    /// The offset of 128 bytes of the stack for one instruction.
    area: i32,
}

/// The same code for AVX2.
pub(super) fn legalize(code: Code) -> Legalized<Code> {
    // Definitions come before uses in this order.
    let order = numbering::graph(&code).order;
    let area = code.lane_bytes.max(64).next_multiple_of(64);
    let mut l = Legalizer {
        pairs: vec![None; code.values as usize],
        code,
        out: Vec::new(),
        halves: HashMap::new(),
        area: area as i32,
    };
    l.code.lane_bytes = area + 128;
    l.code.is_avx2 = true;
    for n in 0..l.code.blocks.len() {
        let params = std::mem::take(&mut l.code.blocks[n].params);
        l.code.blocks[n].params = l.pairs_of_params(&params);
    }
    for BlockId(at) in order {
        let instructions = std::mem::take(&mut l.code.blocks[at as usize].instructions);
        for instruction in &instructions {
            l.instruction(instruction)?;
        }
        l.code.blocks[at as usize].instructions = std::mem::take(&mut l.out);
    }
    let mut blocks = std::mem::take(&mut l.code.blocks);
    for block in &mut blocks {
        l.rewrite_arguments(block);
    }
    l.code.blocks = blocks;
    let mut code = l.code;
    code.verified("avx2");
    numbering::run(&mut code);
    Ok(code)
}

impl Legalizer {
    fn pairs_of_params(&mut self, params: &[Value]) -> Vec<Value> {
        let mut all = Vec::new();
        for &param in params {
            if param.class() == INT {
                all.push(param);
                continue;
            }
            let pair = [(); 2].map(|()| self.value());
            self.pairs[param.vreg()] = Some(pair);
            all.extend(pair);
        }
        all
    }

    fn rewrite_arguments(&self, block: &mut Block) {
        for arguments in &mut block.arguments {
            let mut all = Vec::new();
            for &argument in &*arguments {
                match self.pairs[argument.vreg()] {
                    Some(pair) => all.extend(pair),
                    None => all.push(argument),
                }
            }
            *arguments = all;
        }
    }

    fn instruction(&mut self, instruction: &Instruction) -> Legalized<()> {
        let operands: SmallVec<[Value; 6]> =
            instruction.operands.iter().map(|o| o.vreg()).collect();
        let result = operands.first().copied();
        match instruction.op {
            Op::Vector { .. } => return self.vector(&instruction.op, &operands),
            Op::Load { .. } => return self.load(&instruction.op, &operands),
            Op::Store { .. } => return self.store(&instruction.op, &operands),
            Op::Gather { code, scale } => return self.gather((code, scale), &operands),
            Op::Scatter { code, scale } => return self.scatter((code, scale), &operands),
            Op::Constant(constant) => {
                let pair = [0, 1].map(|half| {
                    let constant = self.half_of_constant(constant, half);
                    self.constant(constant)
                });
                return self.define(result, pair);
            }
            Op::ZeroVector | Op::MaskConstant(false) => {
                let zero = self.zero();
                return self.define(result, [zero; 2]);
            }
            Op::MaskConstant(true) => {
                let ones = self.constant(Constant::Word(!0));
                return self.define(result, [ones; 2]);
            }
            Op::MaskBinary(opcode) => return self.mask_binary(opcode, &operands),
            Op::MaskNot => {
                let pair = self.pair(operands[1])?;
                let pair = pair.map(|half| self.inverted(half));
                return self.define(result, pair);
            }
            Op::MaskShift { right: true, by: 8 } => {
                let [_, high] = self.pair(operands[1])?;
                let zero = self.zero();
                return self.define(result, [high, zero]);
            }
            Op::MaskShift { .. } => return Err(Unsupported),
            Op::MaskTest => return self.mask_test(&operands),
            Op::MaskToInt => {
                let pair = self.pair(operands[1])?;
                self.mask_to_int(operands[0], pair);
                return Ok(());
            }
            Op::IntToMask => {
                let all = self.splat(operands[1], false);
                return self.define(result, [all; 2]);
            }
            Op::StoreMask { offset } => {
                for (half, offset) in self
                    .pair(operands[0])?
                    .into_iter()
                    .zip([offset, offset + 32])
                {
                    let op = Op::Store {
                        code: v::STORE.of_256_bits(),
                        offset,
                        unit: 32,
                        masked: false,
                    };
                    let operands = [half, operands[1]].map(Operand::reg_use);
                    self.emit(op, operands);
                }
                return Ok(());
            }
            Op::LoadMask { offset } => {
                let base = operands[1];
                let pair = [offset, offset + 32].map(|offset| {
                    let value = self.value();
                    let op = Op::Load {
                        code: v::LOAD.of_256_bits(),
                        offset,
                        unit: 32,
                        masking: Masking::None,
                        broadcast: false,
                        binary: false,
                        immediate: None,
                    };
                    self.emit(op, [Operand::reg_def(value), Operand::reg_use(base)]);
                    value
                });
                return self.define(result, pair);
            }
            Op::StoreLanes { at } => {
                let pair = self.pair(operands[0])?;
                self.store_area(pair, at);
                return Ok(());
            }
            Op::StoreMaskLanes { at } => {
                let pair = self.pair(operands[0])?;
                let bits = self.int();
                self.mask_to_int(bits, pair);
                self.emit(Op::StoreIntLanes { at }, [Operand::reg_use(bits)]);
                return Ok(());
            }
            Op::LoadLanes { at } => {
                let pair = [0, 32].map(|offset| {
                    let value = self.value();
                    let op = Op::LoadLanes { at: at + offset };
                    self.emit(op, [Operand::reg_def(value)]);
                    value
                });
                return self.define(result, pair);
            }
            _ => {}
        }
        // Other instructions have no vectors, or have their halves as operands.
        let mut operands: SmallVec<[Operand; 6]> = SmallVec::new();
        for operand in &instruction.operands {
            match self.pairs[operand.vreg().vreg()] {
                Some(pair) => operands.extend(pair.map(Operand::reg_use)),
                None if operand.vreg().class() != INT && operand.kind() == OperandKind::Def => {
                    return Err(Unsupported);
                }
                None => operands.push(*operand),
            }
        }
        self.emit(instruction.op.clone(), operands);
        Ok(())
    }

    fn emit(&mut self, op: Op, operands: impl IntoIterator<Item = Operand>) {
        let operands = operands.into_iter().collect();
        self.out.push(Instruction { op, operands });
    }

    fn value(&mut self) -> Value {
        let value = Value::new(self.code.values as usize, ZMM);
        self.code.values += 1;
        value
    }

    fn int(&mut self) -> Value {
        let value = Value::new(self.code.values as usize, INT);
        self.code.values += 1;
        value
    }

    fn pair(&self, value: Value) -> Legalized<Pair> {
        let pair = self.pairs.get(value.vreg()).copied().flatten();
        pair.ok_or(Unsupported)
    }

    fn define(&mut self, result: Option<Value>, pair: Pair) -> Legalized<()> {
        let result = result.ok_or(Unsupported)?;
        self.pairs[result.vreg()] = Some(pair);
        Ok(())
    }

    fn half_of_constant(&mut self, constant: Constant, half: usize) -> Constant {
        let Constant::Vector(number) = constant else {
            return constant;
        };
        let vectors = &mut self.code.vectors;
        let number = *self.halves.entry((number, half)).or_insert_with(|| {
            let mut bytes = [0; 64];
            bytes[..32].copy_from_slice(&vectors[number as usize][32 * half..][..32]);
            vectors.push(bytes);
            vectors.len() as u32 - 1
        });
        Constant::Vector(number)
    }

    /// A constant of eight words.
    fn words(&mut self, words: [u32; 8]) -> Source {
        let mut bytes = [0; 64];
        for (place, word) in bytes.chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        let vectors = &mut self.code.vectors;
        let known = vectors.iter().position(|known| *known == bytes);
        let number = known.unwrap_or_else(|| {
            vectors.push(bytes);
            vectors.len() - 1
        });
        Source::Constant(Constant::Vector(number as u32))
    }

    fn constant(&mut self, constant: Constant) -> Value {
        let value = self.value();
        self.emit(Op::Constant(constant), [Operand::reg_def(value)]);
        value
    }

    fn zero(&mut self) -> Value {
        let value = self.value();
        self.emit(Op::ZeroVector, [Operand::reg_def(value)]);
        value
    }

    fn in_register(&mut self, source: Source) -> Value {
        match source {
            Source::Value(value) => value,
            Source::Constant(constant) => self.constant(constant),
        }
    }

    /// Puts a vector where a function of the runtime, or the next instruction, finds it.
    fn store_area(&mut self, pair: Pair, at: i32) {
        for (value, offset) in pair.into_iter().zip([0, 32]) {
            let op = Op::StoreLanes { at: at + offset };
            self.emit(op, [Operand::reg_use(value)]);
        }
    }
}
