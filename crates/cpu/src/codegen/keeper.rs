//! The function through which kernels ask the runtime about a suspicious access.
//!
//! An ordinary call may change most registers, so that everything a loop keeps
//! in registers would live in memory because of a call that almost never
//! happens. This function preserves them all.

use cranelift_codegen::ir::{
    AbiParam, ExtFuncData, ExternalName, FuncRef, Function, InstBuilder, Signature,
    UserExternalName, UserFuncName, types,
};
use cranelift_codegen::isa::{CallConv, OwnedTargetIsa};
use cranelift_frontend::FunctionBuilder;

use super::Code;
use super::emitter::FIXED;
use super::function::Tools;
use crate::block::offset;
use crate::math::Helper;

/// The context, a thread, an address, and what is done there, in one number.
fn signature(convention: CallConv) -> Signature {
    let mut signature = Signature::new(convention);
    for ty in [types::I64, types::I32, types::I64, types::I64] {
        signature.params.push(AbiParam::new(ty));
    }
    signature
}

/// Makes the keeper known to a function. Patching a call into code is done for
/// x86 alone: elsewhere there is none.
pub(super) fn declare(b: &mut FunctionBuilder<'_>) -> Option<FuncRef> {
    if !cfg!(target_arch = "x86_64") {
        return None;
    }
    let signature = b.import_signature(signature(CallConv::PreserveAll));
    let name = b
        .func
        .declare_imported_user_function(UserExternalName::new(0, 0));
    Some(b.import_function(ExtFuncData {
        name: ExternalName::user(name),
        signature,
        colocated: true,
        patchable: false,
    }))
}

/// The keeper's code.
pub(super) fn compile(isa: &OwnedTargetIsa) -> Result<Code, String> {
    let Tools {
        mut context,
        mut builder,
    } = Tools::default();
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
    let helpers = b.ins().load(types::I64, FIXED, args[0], offset::HELPERS);
    let at = Helper::check_neighbours as i32 * 8;
    let function = b.ins().load(types::I64, FIXED, helpers, at);
    b.ins().call_indirect(inner, function, &args);
    b.ins().return_(&[]);
    b.seal_all_blocks();
    b.finalize(isa.frontend_config());
    super::function::machine_code(&mut context, isa)
}
