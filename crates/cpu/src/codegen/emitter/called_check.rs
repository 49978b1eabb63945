//! Accesses of first code call their checks.

use cranelift_codegen::ir::{ExtFuncData, ExternalName, FuncRef, InstBuilder, SigRef, Value};
use cranelift_frontend::FunctionBuilder;

use super::Emitter;
use super::machine_code::{Check, check_name};
use crate::abi::offset;

impl Emitter<'_, '_> {
    /// Calls a check of `1 << shift` bytes at an address: in shared memory, or a generic one. Returns
    /// false if there is none.
    pub fn check_by_call(
        &mut self,
        address: Value,
        (shift, is_shared): (u32, bool),
        access: u32,
    ) -> bool {
        let Some(first) = &self.first_code else {
            return false;
        };
        let thunks = if is_shared {
            &first.thunks.shared
        } else {
            &first.thunks.generic
        };
        let Some(&thunk) = thunks.get(shift as usize) else {
            return false;
        };
        let number = self.encoded.checks.len() as u32;
        let access = u64::from(self.line) << 32 | u64::from(access);
        self.encoded.checks.push(Check { thunk, access });
        let check = declare(&mut self.b, number, first.signature);
        self.b.ins().call(check, &[address]);
        true
    }

    /// The address of the kernel's parameters.
    pub fn params(&mut self) -> Value {
        let block = self.b.current_block();
        let known = self.first_code.as_ref().and_then(|first| first.params);
        if let Some((there, value)) = known
            && Some(there) == block
        {
            return value;
        }
        let value = self.context_word(offset::PARAMS);
        if let (Some(first), Some(block)) = (&mut self.first_code, block) {
            first.params = Some((block, value));
        }
        value
    }
}

fn declare(b: &mut FunctionBuilder<'_>, number: u32, signature: SigRef) -> FuncRef {
    let name = b.func.declare_imported_user_function(check_name(number));
    b.import_function(ExtFuncData {
        name: ExternalName::user(name),
        signature,
        colocated: true,
        patchable: false,
    })
}
