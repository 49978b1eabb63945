//! The thunks at the start of every blob, which kernels call to check an access.
//!
//! An ordinary call clobbers most registers, so that the register allocator would
//! spill the values of a loop for a call that almost never happens. The thunks
//! preserve all registers.

use cranelift_codegen::ir::{
    AbiParam, ExtFuncData, ExternalName, FuncRef, Function, InstBuilder, MemFlagsData, Signature,
    Type, UserFuncName, types,
};
use cranelift_codegen::isa::{CallConv, OwnedTargetIsa};
use cranelift_frontend::FunctionBuilder;

use super::machine_code::{
    CACHE_LINE, CompilerContexts, Encoded, MachineCode, machine_code, thunk_name,
};
use crate::abi::offset;
use crate::memory::GRANULE_SHIFT;
use crate::runtime::Helper;

/// The thunks, one after the other.
pub(crate) struct Thunks {
    pub code: MachineCode,
    /// The offset of the one that calls the slow path with the arguments in the context.
    slow_check: u32,
    /// The offsets of those that make a whole check of 1, 2, 4 … bytes. The slow path is in front
    /// of them.
    checks: [u32; SIZES],
}

/// The sizes of accesses: 1 to 32 bytes.
const SIZES: usize = 6;

/// The thunks that make a whole check, declared in a function.
pub(super) type CheckThunks = [FuncRef; SIZES];

/// They are written for x86-64 and the registers in which System V passes arguments; on other hosts a
/// slow path is an ordinary call.
const EXIST: bool = cfg!(target_arch = "x86_64") && cfg!(unix);

impl Thunks {
    pub(super) fn compile(isa: &OwnedTargetIsa) -> Result<Thunks, String> {
        let mut code = slow_path(isa)?;
        let (mut slow_check, mut checks) = (0, [0; SIZES]);
        if EXIST {
            slow_check = append(&mut code, slow_check_of_context);
            for (shift, start) in (0..).zip(&mut checks) {
                *start = append(&mut code, |start| check(shift, start));
            }
        }
        Ok(Thunks {
            code,
            slow_check,
            checks,
        })
    }

    /// Declares the one that calls the slow path with the arguments in the context.
    pub(super) fn declare_slow_check(&self, b: &mut FunctionBuilder<'_>) -> Option<FuncRef> {
        let signature = with_params(CallConv::PreserveAll, &[types::I64]);
        EXIST.then(|| declare(b, self.slow_check, signature))
    }

    /// Declares the thunks that check accesses, for code that is compiled fast: the call takes a
    /// fraction of the time of what else each access would have compiled.
    pub(super) fn declare_checks(&self, b: &mut FunctionBuilder<'_>) -> Option<CheckThunks> {
        let declare = |at| declare(b, at, signature(CallConv::PreserveAll));
        EXIST.then(|| self.checks.map(declare))
    }
}

/// Appends a thunk, which is made for its offset, and returns that.
fn append<T: IntoIterator<Item = u8>>(code: &mut MachineCode, thunk: impl Fn(u32) -> T) -> u32 {
    let start = code.bytes.len().next_multiple_of(CACHE_LINE);
    code.bytes.resize(start, 0);
    code.bytes.extend(thunk(start as u32));
    start as u32
}

fn declare(b: &mut FunctionBuilder<'_>, at: u32, signature: Signature) -> FuncRef {
    let signature = b.import_signature(signature);
    let name = b.func.declare_imported_user_function(thunk_name(at));
    b.import_function(ExtFuncData {
        name: ExternalName::user(name),
        signature,
        colocated: true,
        patchable: false,
    })
}

/// The context, the thread, the address and the encoded access.
fn signature(convention: CallConv) -> Signature {
    with_params(
        convention,
        &[types::I64, types::I32, types::I64, types::I64],
    )
}

fn with_params(convention: CallConv, params: &[Type]) -> Signature {
    let mut signature = Signature::new(convention);
    signature
        .params
        .extend(params.iter().copied().map(AbiParam::new));
    signature
}

/// Has the runtime check the access.
fn slow_path(isa: &OwnedTargetIsa) -> Result<MachineCode, String> {
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
    let helpers = b.ins().load(
        types::I64,
        MemFlagsData::trusted(),
        args[0],
        offset::HELPERS,
    );
    let at = Helper::check_contiguous as i32 * 8;
    let function = b
        .ins()
        .load(types::I64, MemFlagsData::trusted(), helpers, at);
    b.ins().call_indirect(inner, function, &args);
    b.ins().return_(&[]);
    b.seal_all_blocks();
    b.finalize(isa.frontend_config());
    machine_code(&mut context, isa, &Encoded::default())
}

/// Calls the slow path, at the start of the thunks, with the arguments in the context, which is in
/// `rdi`. Arguments in registers would take these from what the caller has there, which a value would
/// then not be in where nothing is wrong either.
#[rustfmt::skip]
fn slow_check_of_context(start: u32) -> Vec<u8> {
    let [thread, address, access] =
        [offset::CHECK_THREAD, offset::CHECK_ADDRESS, offset::CHECK_ACCESS].map(i32::to_le_bytes);
    // The call ends there.
    let back = (-(start as i32 + 28)).to_le_bytes();
    let code: [&[u8]; 12] = [
        &[0x56],                      // push rsi
        &[0x52],                      // push rdx
        &[0x51],                      // push rcx
        &[0x8b, 0xb7], &thread,       // mov  esi, [rdi + thread]
        &[0x48, 0x8b, 0x97], &address, // mov  rdx, [rdi + address]
        &[0x48, 0x8b, 0x8f], &access, // mov  rcx, [rdi + access]
        &[0xe8], &back,               // call the slow path
        &[0x59, 0x5a, 0x5e, 0xc3],    // pop  rcx, rdx, rsi; ret
    ];
    code.concat()
}

/// Checks an access of `1 << shift` bytes as inline code does, and ends with a jump to the slow path,
/// where the shadow memory does not allow it. The context is in `rdi`, the address in `rdx`. Cranelift
/// would save twice as many registers.
#[rustfmt::skip]
fn check(shift: u8, start: u32) -> Vec<u8> {
    const { assert!(offset::ARENA_BASE < 128 && offset::LAST_GRANULE < 128 && offset::SHADOW < 128) };
    let [base, last, shadow] = [offset::ARENA_BASE, offset::LAST_GRANULE, offset::SHADOW];
    let granule = GRANULE_SHIFT as u8 - shift;
    let mask = ((1 << granule) - 1_u32).to_le_bytes();
    let code: [&[u8]; 22] = [
        &[0x50],                                     // push  rax
        &[0x41, 0x50],                               // push  r8
        &[0x41, 0x51],                               // push  r9
        &[0x48, 0x89, 0xd0],                         // mov   rax, rdx
        &[0x48, 0x2b, 0x47, base as u8],             // sub   rax, [rdi + base]
        &[0x48, 0xc1, 0xc8, shift],                  // ror   rax, shift
        &[0x49, 0x89, 0xc0],                         // mov   r8, rax
        &[0x49, 0xc1, 0xe8, granule],                // shr   r8, granule
        &[0x4c, 0x8b, 0x4f, last as u8],             // mov   r9, [rdi + last]
        &[0x4d, 0x39, 0xc8],                         // cmp   r8, r9
        &[0x4d, 0x0f, 0x47, 0xc1],                   // cmova r8, r9
        &[0x4c, 0x8b, 0x4f, shadow as u8],           // mov   r9, [rdi + shadow]
        &[0x47, 0x0f, 0xb7, 0x04, 0x41],             // movzx r8d, word [r9 + 2 * r8]
        &[0x41, 0xc1, 0xe8, shift],                  // shr   r8d, shift
        &[0x25, mask[0], mask[1], mask[2], mask[3]], // and   eax, mask
        &[0x44, 0x39, 0xc0],                         // cmp   eax, r8d
        &[0x41, 0x59],                               // pop   r9
        &[0x41, 0x58],                               // pop   r8
        &[0x58],                                     // pop   rax
        &[0x73, 0x01],                               // jae   + 1
        &[0xc3],                                     // ret
        &[0xe9],                                     // jmp
    ];
    let mut code = code.concat();
    let end = start as i32 + code.len() as i32 + 4;
    code.extend((-end).to_le_bytes());
    code
}
