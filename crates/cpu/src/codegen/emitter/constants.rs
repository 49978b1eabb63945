//! Constants.

use cranelift_codegen::ir::immediates::{Ieee32, Ieee64};
use cranelift_codegen::ir::{InstBuilder, InstructionData, Opcode, Type, Value, types};

use super::{EmitResult, Emitter};
use crate::program::{Arg, LoweringError, float_bits};
use ptx::ast::Span;

impl Emitter<'_, '_> {
    /// The bits of a constant operand of type `ty`; `None` if the operand is not
    /// constant.
    pub fn constant_bits(arg: Arg, ty: Type) -> EmitResult<Option<u64>> {
        match arg {
            Arg::Int(_) if ty.is_float() => Err(LoweringError::invalid(
                Span::default(),
                "an integer constant as a floating-point operand",
            )),
            Arg::Int(n) => Ok(Some(n)),
            Arg::Float(value) => Ok(Some(float_bits(value, ty.bytes().into()))),
            _ => Ok(None),
        }
    }

    /// An integer constant, truncated to the type's width.
    pub fn int(&mut self, ty: Type, value: u64) -> Value {
        let masked = (value & (u64::MAX >> (64 - ty.bits().clamp(1, 64)))).cast_signed();
        let block = self.b.current_block();
        let Some(block) = block.filter(|_| self.first_code.is_some()) else {
            return self.b.ins().iconst(ty, masked);
        };
        if let Some(value) = self.recent_constants.find(block, masked)
            && self.b.func.dfg.value_type(value) == ty
        {
            return value;
        }
        let value = self.b.ins().iconst(ty, masked);
        self.recent_constants.note(block, masked, value);
        value
    }

    pub fn float(&mut self, ty: Type, value: f64) -> Value {
        if ty == types::F32 {
            self.b.ins().f32const(value as f32)
        } else {
            self.b.ins().f64const(value)
        }
    }

    /// A floating-point constant by its bits.
    pub fn float_bits(&mut self, ty: Type, bits: u64) -> Value {
        if ty == types::F32 {
            self.b.ins().f32const(Ieee32::with_bits(bits as u32))
        } else {
            self.b.ins().f64const(Ieee64::with_bits(bits))
        }
    }

    /// A constant by its bits.
    pub fn constant(&mut self, ty: Type, bits: u64) -> Value {
        if ty.is_float() {
            self.float_bits(ty, bits)
        } else {
            self.int(ty, bits)
        }
    }

    pub fn zero(&mut self, ty: Type) -> Value {
        if ty.is_float() {
            self.float(ty, 0.0)
        } else {
            self.int(ty, 0)
        }
    }

    /// The number that a value is, if it is a constant.
    pub fn known_constant(&self, value: Value) -> Option<i64> {
        let dfg = &self.b.func.dfg;
        let value = dfg.resolve_aliases(value);
        match dfg.insts[dfg.value_def(value).inst()?] {
            InstructionData::UnaryImm {
                opcode: Opcode::Iconst,
                imm,
            } => Some(imm.bits()),
            _ => None,
        }
    }
}
