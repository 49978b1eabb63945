//! Values of lanes that are known when the code is generated, such as those of `%laneid`, and what
//! follows from them: a guard that is true for each lane costs nothing.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, InstructionData, Opcode, Value, types};

use super::emitter::Emitter;

impl Emitter<'_, '_> {
    /// The instruction that computes a value, if it is no parameter of a block.
    pub fn definition(&self, value: Value) -> Option<&InstructionData> {
        let dfg = &self.b.func.dfg;
        let value = dfg.resolve_aliases(value);
        Some(&dfg.insts[dfg.value_def(value).inst()?])
    }

    /// A constant integer.
    pub fn constant_scalar(&self, value: Value) -> Option<i64> {
        match *self.definition(value)? {
            InstructionData::UnaryImm {
                opcode: Opcode::Iconst,
                imm,
            } => Some(imm.bits()),
            _ => None,
        }
    }

    /// The lanes of a constant vector of 32-bit integers.
    pub fn constant_lanes(&self, value: Value) -> Option<[u32; 4]> {
        if self.b.func.dfg.value_type(value) != types::I32X4 {
            return None;
        }
        match *self.definition(value)? {
            InstructionData::UnaryConst {
                opcode: Opcode::Vconst,
                constant_handle,
            } => {
                let bytes = self.b.func.dfg.constants.get(constant_handle).as_slice();
                let mut lanes = [0; 4];
                for (lane, word) in lanes.iter_mut().zip(bytes.as_chunks().0) {
                    *lane = u32::from_le_bytes(*word);
                }
                Some(lanes)
            }
            InstructionData::Unary {
                opcode: Opcode::Splat,
                arg,
            } => Some([self.constant_scalar(arg)? as u32; 4]),
            _ => None,
        }
    }

    /// The comparison whose result a value is.
    pub fn compares(&self, value: Value) -> Option<Opcode> {
        let opcode = self.definition(value)?.opcode();
        matches!(opcode, Opcode::Icmp | Opcode::Fcmp).then_some(opcode)
    }

    /// A constant vector.
    pub fn vector_of(&mut self, lanes: [u32; 4]) -> Value {
        let bytes: Vec<u8> = lanes.into_iter().flat_map(u32::to_le_bytes).collect();
        let constant = self.b.func.dfg.constants.insert(bytes.into());
        self.b.ins().vconst(types::I32X4, constant)
    }

    /// The mask that the comparison of two constant vectors gives.
    pub fn constant_comparison(&mut self, cc: IntCC, a: Value, b: Value) -> Option<Value> {
        let (a, b) = (self.constant_lanes(a)?, self.constant_lanes(b)?);
        let mut mask = [0; 4];
        for (lane, (a, b)) in mask.iter_mut().zip(a.into_iter().zip(b)) {
            *lane = match holds(cc, a, b) {
                true => u32::MAX,
                false => 0,
            };
        }
        Some(self.vector_of(mask))
    }

    /// Whether a mask is that of all lanes, or of none.
    pub fn constant_mask(&self, mask: Value) -> Option<bool> {
        match self.constant_lanes(mask)? {
            [u32::MAX, u32::MAX, u32::MAX, u32::MAX] => Some(true),
            [0, 0, 0, 0] => Some(false),
            _ => None,
        }
    }

    /// One bit for each lane, from vectors of masks that are all constant.
    pub fn constant_ballot(&self, masks: &[Value]) -> Option<u32> {
        let mut ballot = 0;
        for (number, &mask) in masks.iter().enumerate() {
            for (lane, part) in self.constant_lanes(mask)?.into_iter().enumerate() {
                ballot |= u32::from(part != 0) << (4 * number + lane);
            }
        }
        Some(ballot)
    }
}

fn holds(cc: IntCC, a: u32, b: u32) -> bool {
    let (signed, other) = (a.cast_signed(), b.cast_signed());
    match cc {
        IntCC::Equal => a == b,
        IntCC::NotEqual => a != b,
        IntCC::SignedLessThan => signed < other,
        IntCC::SignedLessThanOrEqual => signed <= other,
        IntCC::SignedGreaterThan => signed > other,
        IntCC::SignedGreaterThanOrEqual => signed >= other,
        IntCC::UnsignedLessThan => a < b,
        IntCC::UnsignedLessThanOrEqual => a <= b,
        IntCC::UnsignedGreaterThan => a > b,
        IntCC::UnsignedGreaterThanOrEqual => a >= b,
    }
}
