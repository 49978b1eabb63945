//! The slow-path thunk: kernels call it to check an access that the shadow memory
//! does not allow.
//!
//! An ordinary call clobbers most registers, so that the register allocator would
//! spill the values of a loop for a call that almost never happens. The thunk
//! preserves all registers.

use cranelift_codegen::ir::{
    AbiParam, ExtFuncData, ExternalName, FuncRef, Function, InstBuilder, Signature, UserFuncName,
    types,
};
use cranelift_codegen::isa::{CallConv, OwnedTargetIsa};
use cranelift_frontend::FunctionBuilder;

use super::emitter::READONLY;
use super::machine_code::{CompilerContexts, MachineCode, machine_code, thunk_name};
use crate::abi::offset;
use crate::runtime::Helper;

/// The context, the thread, the address and the encoded access.
fn signature(convention: CallConv) -> Signature {
    let mut signature = Signature::new(convention);
    for ty in [types::I64, types::I32, types::I64, types::I64] {
        signature.params.push(AbiParam::new(ty));
    }
    signature
}

/// Declares the thunk in a function. Direct calls are patched on x86-64 only; on other
/// hosts the slow path is an ordinary call.
pub(super) fn declare(b: &mut FunctionBuilder<'_>) -> Option<FuncRef> {
    if !cfg!(target_arch = "x86_64") {
        return None;
    }
    let signature = b.import_signature(signature(CallConv::PreserveAll));
    let name = b.func.declare_imported_user_function(thunk_name());
    Some(b.import_function(ExtFuncData {
        name: ExternalName::user(name),
        signature,
        colocated: true,
        patchable: false,
    }))
}

/// Compiles the thunk.
pub(super) fn compile(isa: &OwnedTargetIsa) -> Result<MachineCode, String> {
    let CompilerContexts {
        mut context,
        mut builder,
    } = CompilerContexts::default();
    let outer = signature(CallConv::PreserveAll);
    context.func = Function::with_name_signature(UserFuncName::default(), outer);
    let mut b = FunctionBuilder::new(&mut context.func, &mut builder);
    let entry = b.create_block();
    b.append_block_params_for_function_params(entry);
    b.switch_to_block(entry);
    let args = b.block_params(entry).to_vec();
    let mut inner = signature(isa.default_call_conv());
    inner.returns.push(AbiParam::new(types::I32));
    let inner = b.import_signature(inner);
    let helpers = b.ins().load(types::I64, READONLY, args[0], offset::HELPERS);
    let at = Helper::check_contiguous as i32 * 8;
    let function = b.ins().load(types::I64, READONLY, helpers, at);
    b.ins().call_indirect(inner, function, &args);
    b.ins().return_(&[]);
    b.seal_all_blocks();
    b.finalize(isa.frontend_config());
    machine_code(&mut context, isa, &[])
}
