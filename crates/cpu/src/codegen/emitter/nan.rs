//! NaNs with the bits that a GPU gives them, where [`NanBits`](crate::nan::NanBits) asks for it.
//!
//! Results of less than 64 bits are one NaN, whatever the operands are. Instructions on `f64` pass on
//! an operand: the second, the third, and then the first, with its payload and sign.

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{InstBuilder, Value, types};

use super::{EmitResult, Emitter};
use crate::program::Instruction;
use ptx::names::{Modifier as M, Opcode as O};

const SINGLE: u64 = 0x7FFF_FFFF;
const DOUBLE: u64 = 0xFFF8_0000_0000_0000;
/// `rcp.approx.ftz.f64` and `rsqrt.approx.ftz.f64` have no lower half.
const APPROXIMATE: u64 = 0x7FFF_FFFF_0000_0000;
/// Of `f16` and `bf16`.
const HALF: u64 = 0x7FFF;

impl Emitter<'_, '_> {
    /// The result of an instruction on `f32` or `f64`.
    pub fn gpu_nan(&mut self, i: &Instruction, value: Value) -> EmitResult<Value> {
        if !self.has_gpu_nans || i.opcode == O::Copysign {
            return Ok(value);
        }
        let ty = self.b.func.dfg.value_type(value);
        if ty == types::F32 {
            return Ok(self.gpu_single(value));
        }
        let approximate = i.modifiers.has(M::Approx) && i.modifiers.has(M::Ftz);
        let order: &[usize] = match i.opcode {
            _ if approximate => &[],
            O::Div => &[1, 2],
            O::Add | O::Sub | O::Mul | O::Min | O::Max => &[2, 1],
            O::Fma | O::Mad => &[2, 3, 1],
            _ => &[1],
        };
        let mut nan = self.float_bits(ty, if approximate { APPROXIMATE } else { DOUBLE });
        for &at in order.iter().rev() {
            let operand = self.operand(i, at, ty)?;
            let is_nan = self.b.ins().fcmp(FloatCC::Unordered, operand, operand);
            // The sum of a NaN and itself is the quiet NaN.
            let quiet = self.b.ins().fadd(operand, operand);
            nan = self.b.ins().select(is_nan, quiet, nan);
        }
        let is_nan = self.b.ins().fcmp(FloatCC::Unordered, value, value);
        Ok(self.b.ins().select(is_nan, nan, value))
    }

    /// An `f32` that an instruction has computed.
    pub fn gpu_single(&mut self, value: Value) -> Value {
        if !self.has_gpu_nans {
            return value;
        }
        let nan = self.float_bits(types::F32, SINGLE);
        let is_nan = self.b.ins().fcmp(FloatCC::Unordered, value, value);
        self.b.ins().select(is_nan, nan, value)
    }

    /// A half that an instruction has computed, in the lower bits of an `i32`.
    pub fn gpu_half(&mut self, bits: Value, is_bf16: bool) -> Value {
        if !self.has_gpu_nans {
            return bits;
        }
        self.canonical_half(bits, is_bf16)
    }

    /// The same, whatever is asked for.
    pub fn canonical_half(&mut self, bits: Value, is_bf16: bool) -> Value {
        let size = self.int(types::I32, HALF);
        let size = self.b.ins().band(bits, size);
        let infinity = if is_bf16 { 0x7F80 } else { 0x7C00 };
        let is_nan = self.icmp_imm(IntCC::UnsignedGreaterThan, size, infinity);
        let nan = self.int(types::I32, HALF);
        self.b.ins().select(is_nan, nan, bits)
    }
}
