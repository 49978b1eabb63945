//! Calls of the runtime's helpers.

use cranelift_codegen::ir::{AbiParam, InstBuilder, Signature, Type, Value, types};

use super::{EmitResult, Emitter, READONLY};
use crate::abi::{FaultKind, offset};
use crate::program::Instruction;
use crate::runtime::{Helper, Scalar};

impl Emitter<'_, '_> {
    /// Calls a helper of the runtime.
    pub fn call(&mut self, helper: Helper, args: &[Value]) -> Value {
        let (params, result) = helper.signature();
        let ty = |scalar: Scalar| match scalar {
            Scalar::I32 => types::I32,
            Scalar::I64 => types::I64,
            Scalar::F32 => types::F32,
            Scalar::F64 => types::F64,
        };
        let mut signature = Signature::new(self.convention);
        signature
            .params
            .extend(params.iter().map(|&p| AbiParam::new(ty(p))));
        signature.returns.push(AbiParam::new(ty(result)));
        debug_assert_eq!(params.len(), args.len(), "{}", helper.name());
        let signature = self.b.import_signature(signature);
        let at = helper as i32 * 8;
        let helpers = self.context_word(offset::HELPERS);
        let function = self.b.ins().load(types::I64, READONLY, helpers, at);
        let call = self.b.ins().call_indirect(signature, function, args);
        self.b.inst_results(call)[0]
    }

    /// Calls a helper with the operands from 1 on, followed by constants.
    pub fn call_with_operands(
        &mut self,
        instruction: &Instruction,
        helper: Helper,
        ty: Type,
        sources: usize,
        extra: &[u32],
    ) -> EmitResult<Value> {
        let mut args = Vec::with_capacity(sources + extra.len());
        for i in 1..=sources {
            args.push(self.operand(instruction, i, ty)?);
        }
        for &n in extra {
            args.push(self.int(types::I32, n.into()));
        }
        Ok(self.call(helper, &args))
    }

    /// Records a fault other than that of an access, and ends the block.
    pub fn fault(&mut self, kind: FaultKind, address: Option<Value>) {
        let thread = self.thread_index();
        let kind = self.int(types::I32, kind as u64);
        let address = address.unwrap_or_else(|| self.int(types::I64, 0));
        let access = self.int(types::I32, 0);
        let line = self.int(types::I32, self.line.into());
        let context = self.fixed.context;
        self.call(
            Helper::fault,
            &[context, kind, thread, address, access, line],
        );
        let fail = self.fail;
        self.b.ins().jump(fail, &[]);
    }
}
