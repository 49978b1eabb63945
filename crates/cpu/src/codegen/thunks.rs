//! The thunks at the start of every blob, which kernels call to check an access.
//!
//! An ordinary call clobbers most registers, so that the register allocator would
//! spill the values of a loop for a call that almost never happens. The thunks
//! preserve all registers.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{
    AbiParam, ExtFuncData, ExternalName, FuncRef, Function, InstBuilder, Signature, UserFuncName,
    types,
};
use cranelift_codegen::isa::{CallConv, OwnedTargetIsa};
use cranelift_frontend::FunctionBuilder;

use super::emitter::READONLY;
use super::machine_code::{CACHE_LINE, CompilerContexts, MachineCode, machine_code, thunk_name};
use crate::abi::offset;
use crate::memory::{GRANULE, GRANULE_SHIFT};
use crate::runtime::Helper;

/// The thunks, one after the other.
pub(crate) struct Thunks {
    pub code: MachineCode,
    /// The offset of the thunk that makes the whole check. The slow path is in front of it.
    check: u32,
}

/// Direct calls are patched on x86-64 only; on other hosts a slow path is an ordinary call.
const HAS_CALLS: bool = cfg!(target_arch = "x86_64");

impl Thunks {
    pub(super) fn compile(isa: &OwnedTargetIsa) -> Result<Thunks, String> {
        let mut code = compile(isa, slow_path)?;
        let start = code.bytes.len().next_multiple_of(CACHE_LINE);
        if HAS_CALLS {
            let check = compile(isa, check)?;
            code.bytes.resize(start, 0);
            code.bytes.extend_from_slice(&check.bytes);
            let calls = check.thunk_calls.into_iter();
            code.thunk_calls
                .extend(calls.map(|(at, thunk)| (start as u32 + at, thunk)));
        }
        Ok(Thunks {
            code,
            check: start as u32,
        })
    }

    /// Declares the thunk that checks an access, for code that is compiled fast: the call takes a
    /// fraction of the time of what else each access would have compiled.
    pub(super) fn declare_check(&self, b: &mut FunctionBuilder<'_>) -> Option<FuncRef> {
        declare(b, self.check)
    }
}

/// Declares the slow path: it is called if the shadow memory does not allow an access.
pub(super) fn declare_slow_path(b: &mut FunctionBuilder<'_>) -> Option<FuncRef> {
    declare(b, 0)
}

fn declare(b: &mut FunctionBuilder<'_>, at: u32) -> Option<FuncRef> {
    if !HAS_CALLS {
        return None;
    }
    let signature = b.import_signature(signature(CallConv::PreserveAll));
    let name = b.func.declare_imported_user_function(thunk_name(at));
    Some(b.import_function(ExtFuncData {
        name: ExternalName::user(name),
        signature,
        colocated: true,
        patchable: false,
    }))
}

/// The context, the thread, the address and the encoded access.
fn signature(convention: CallConv) -> Signature {
    let mut signature = Signature::new(convention);
    for ty in [types::I64, types::I32, types::I64, types::I64] {
        signature.params.push(AbiParam::new(ty));
    }
    signature
}

fn compile(
    isa: &OwnedTargetIsa,
    emit: fn(&OwnedTargetIsa, &mut FunctionBuilder<'_>),
) -> Result<MachineCode, String> {
    let CompilerContexts {
        mut context,
        mut builder,
    } = CompilerContexts::default();
    let signature = signature(CallConv::PreserveAll);
    context.func = Function::with_name_signature(UserFuncName::default(), signature);
    let mut b = FunctionBuilder::new(&mut context.func, &mut builder);
    let entry = b.create_block();
    b.append_block_params_for_function_params(entry);
    b.switch_to_block(entry);
    emit(isa, &mut b);
    b.ins().return_(&[]);
    b.seal_all_blocks();
    b.finalize(isa.frontend_config());
    machine_code(&mut context, isa, &[])
}

/// Has the runtime check the access.
fn slow_path(isa: &OwnedTargetIsa, b: &mut FunctionBuilder<'_>) {
    let Some(entry) = b.current_block() else {
        return;
    };
    let args = b.block_params(entry).to_vec();
    let mut inner = signature(isa.default_call_conv());
    inner.returns.push(AbiParam::new(types::I32));
    let inner = b.import_signature(inner);
    let helpers = b.ins().load(types::I64, READONLY, args[0], offset::HELPERS);
    let at = Helper::check_contiguous as i32 * 8;
    let function = b.ins().load(types::I64, READONLY, helpers, at);
    b.ins().call_indirect(inner, function, &args);
}

/// Checks an access of a power of two of bytes, as inline code does, and calls the slow path if the
/// shadow memory does not allow it.
fn check(_: &OwnedTargetIsa, b: &mut FunctionBuilder<'_>) {
    let Some(entry) = b.current_block() else {
        return;
    };
    let args = b.block_params(entry).to_vec();
    let [context, address, encoded] = [args[0], args[2], args[3]];
    let field = |b: &mut FunctionBuilder<'_>, at| b.ins().load(types::I64, READONLY, context, at);
    let base = field(b, offset::ARENA_BASE);
    let inside = b.ins().isub(address, base);
    let granule = b.ins().ushr_imm_u(inside, i64::from(GRANULE_SHIFT));
    // No byte of the last granule may be accessed.
    let last = field(b, offset::LAST_GRANULE);
    let granule = b.ins().umin(granule, last);
    let at = b.ins().ishl_imm_u(granule, 1);
    let shadow = field(b, offset::SHADOW);
    let at = b.ins().iadd(shadow, at);
    let valid = b.ins().uload16(types::I64, READONLY, at, 0);
    let size = b.ins().band_imm_u(encoded, 0xff);
    let place = b.ins().band_imm_u(inside, GRANULE.cast_signed() - 1);
    let end = b.ins().iadd(place, size);
    // A misaligned access ends behind all that is valid.
    let below = b.ins().iadd_imm_s(size, -1);
    let misaligned = b.ins().band(inside, below);
    let far = b.ins().ishl_imm_u(misaligned, 16);
    let end = b.ins().iadd(end, far);
    let good = b.ins().icmp(IntCC::UnsignedLessThanOrEqual, end, valid);
    let (ok, cold) = (b.create_block(), b.create_block());
    b.set_cold_block(cold);
    b.ins().brif(good, ok, &[], cold, &[]);
    b.switch_to_block(cold);
    if let Some(slow_path) = declare_slow_path(b) {
        b.ins().call(slow_path, &args);
    }
    b.ins().jump(ok, &[]);
    b.switch_to_block(ok);
}
