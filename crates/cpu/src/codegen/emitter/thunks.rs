//! The thunks at the start of every blob, which kernels call to check an access.
//!
//! An ordinary call clobbers most registers, so that the register allocator would
//! spill the values of a loop for a call that almost never happens. The thunks
//! preserve all registers.

use cranelift_codegen::ir::{
    AbiParam, ExtFuncData, ExternalName, FuncRef, InstBuilder, MemFlagsData, Signature, Type, types,
};
use cranelift_codegen::isa::{CallConv, OwnedTargetIsa};
use cranelift_frontend::FunctionBuilder;

use super::machine_code::{
    CACHE_LINE, CHECK_ACCESS, Encoded, MachineCode, machine_code, thunk_name,
};
use crate::abi::offset;
use crate::codegen::compiler_contexts::CompilerContexts;
use crate::memory::GRANULE_SHIFT;
use crate::runtime::Helper;

/// The thunks, one after the other.
pub(crate) struct Thunks {
    pub code: MachineCode,
    /// The offset of the one that calls the slow path with the arguments in the context.
    slow_check: u32,
    checks: CheckThunks,
}

/// The offsets of the thunks that make a whole check of 1, 2, 4 … bytes, up to 32.
#[derive(Clone, Copy, Default)]
pub(in crate::codegen) struct CheckThunks {
    pub generic: [u32; 6],
    pub shared: [u32; 6],
}

/// They are written for x86-64 and the registers in which System V passes arguments; on other hosts a
/// slow path is an ordinary call.
const EXIST: bool = cfg!(target_arch = "x86_64") && cfg!(unix);

impl Thunks {
    pub(in crate::codegen) fn compile(isa: &OwnedTargetIsa) -> Result<Thunks, String> {
        let mut code = slow_path(isa)?;
        let (mut slow_check, mut checks) = (0, CheckThunks::default());
        if EXIST {
            slow_check = append(&mut code, slow_check_of_context);
            let slow_or_unwind = append(&mut code, slow_check_or_unwind);
            let CheckThunks { generic, shared } = &mut checks;
            for (thunks, check) in [
                (generic, check as fn(u8) -> Vec<u8>),
                (shared, shared_check),
            ] {
                for (shift, thunk) in (0..).zip(thunks) {
                    *thunk = append(&mut code, |start| {
                        let mut code = check(shift);
                        let end = start as i32 + code.len() as i32 + 4;
                        code.extend((slow_or_unwind as i32 - end).to_le_bytes());
                        code
                    });
                }
            }
        }
        Ok(Thunks {
            code,
            slow_check,
            checks,
        })
    }

    /// Declares the one that calls the slow path with the arguments in the context.
    pub(in crate::codegen) fn declare_slow_check(
        &self,
        b: &mut FunctionBuilder<'_>,
    ) -> Option<FuncRef> {
        let signature = with_params(CallConv::PreserveAll, &[types::I64]);
        EXIST.then(|| declare(b, self.slow_check, signature))
    }

    /// The thunks that check accesses, for code that is compiled fast: the call takes a fraction of the
    /// time of what else each access would have compiled.
    pub(in crate::codegen) fn checks(&self) -> Option<CheckThunks> {
        EXIST.then_some(self.checks)
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
    let mut contexts = CompilerContexts::take();
    let function = &mut contexts.context.func;
    function.signature = signature(CallConv::PreserveAll);
    let mut b = FunctionBuilder::new(function, &mut contexts.builder);
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
    let at = Helper::check_access as i32 * 8;
    let function = b
        .ins()
        .load(types::I64, MemFlagsData::trusted(), helpers, at);
    b.ins().call_indirect(inner, function, &args);
    b.ins().return_(&[]);
    b.seal_all_blocks();
    b.finalize(isa.frontend_config());
    let code = machine_code(&mut contexts, isa, &Encoded::default());
    contexts.give_back();
    code
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

/// Has the slow path, at the start of the thunks, check the access of a thunk that a
/// [`Check`](super::machine_code::Check) has called, which has the access behind the call. After a
/// fault it does not return, but unwinds the kernel's first code. The address is in `rdi`, the
/// context in the frame of the thread loop, below that of the function.
#[rustfmt::skip]
fn slow_check_or_unwind(start: u32) -> Vec<u8> {
    let [thread, kind, stack] =
        [offset::CHECK_THREAD, offset::FAULT_KIND, offset::UNWIND_STACK].map(i32::to_le_bytes);
    let code: [&[u8]; 11] = [
        &[0x57, 0x56, 0x52, 0x51],        // push rdi, rsi, rdx, rcx
        &[0x48, 0x8b, 0x4c, 0x24, 0x20],  // mov  rcx, [rsp + 32]
        &[0x48, 0x8b, 0x49, CHECK_ACCESS], // mov rcx, [rcx + access]
        &[0x48, 0x89, 0xfa],              // mov  rdx, rdi
        &[0x48, 0x8b, 0x7d, CONTEXT],     // mov  rdi, [rbp + context]
        &[0x8b, 0xb7], &thread,           // mov  esi, [rdi + thread]
        &[0xe8], &[0; 4],                 // call the slow path
        &[0x83, 0xbf], &kind,             // cmp  dword [rdi + kind], 0
    ];
    let call: usize = code[..9].iter().map(|part| part.len()).sum();
    let mut code = code.concat();
    let back = -(start as i32 + call as i32);
    code[call - 4..call].copy_from_slice(&back.to_le_bytes());
    code.push(0);
    code.extend([0x75, 0x05]);                   // jne  + 5
    code.extend([0x59, 0x5a, 0x5e, 0x5f, 0xc3]); // pop  rcx, rdx, rsi, rdi; ret
    code.extend([0x48, 0x8b, 0xa7]);
    code.extend(stack);                          // mov  rsp, [rdi + stack]
    code.extend([0xb8, 1, 0, 0, 0]);             // mov  eax, 1
    code.extend(RETURN);
    code
}

/// Restores the registers that System V has functions preserve, in the order in which the thread loop
/// has pushed them, and returns.
#[rustfmt::skip]
pub(in crate::codegen) const RETURN: [u8; 11] = [
    0x41, 0x5f, 0x41, 0x5e, 0x41, 0x5d, 0x41, 0x5c, // pop r15, r14, r13, r12
    0x5b, 0x5d,                                     // pop rbx, rbp
    0xc3,                                           // ret
];

/// Bytes from the frame pointer of a function that the thread loop calls to the context, which that
/// has pushed last: the caller's frame pointer and the return address are before it.
const CONTEXT: u8 = 16;

/// Checks an access of `1 << shift` bytes at the generic address in `rdi` as inline code does, and ends
/// with a jump, to be completed, where the shadow memory does not allow it. Cranelift would save twice
/// as many registers.
#[rustfmt::skip]
fn check(shift: u8) -> Vec<u8> {
    const { assert!(offset::ARENA_BASE < 128 && offset::LAST_GRANULE < 128 && offset::SHADOW < 128) };
    let [base, last, shadow] = [offset::ARENA_BASE, offset::LAST_GRANULE, offset::SHADOW].map(|at| at as u8);
    let granule = GRANULE_SHIFT as u8 - shift;
    let mask = ((1 << granule) - 1_u32).to_le_bytes();
    let code: [&[u8]; 20] = [
        &[0x50],                                     // push  rax
        &[0x41, 0x50],                               // push  r8
        &[0x41, 0x51],                               // push  r9
        &[0x4c, 0x8b, 0x4d, CONTEXT],                // mov   r9, [rbp + context]
        &[0x48, 0x89, 0xf8],                         // mov   rax, rdi
        &[0x49, 0x2b, 0x41, base],                   // sub   rax, [r9 + base]
        &[0x48, 0xc1, 0xc8, shift],                  // ror   rax, shift
        &[0x49, 0x89, 0xc0],                         // mov   r8, rax
        &[0x49, 0xc1, 0xe8, granule],                // shr   r8, granule
        &[0x4d, 0x3b, 0x41, last],                   // cmp   r8, [r9 + last]
        &[0x4d, 0x0f, 0x47, 0x41, last],             // cmova r8, [r9 + last]
        &[0x4d, 0x8b, 0x49, shadow],                 // mov   r9, [r9 + shadow]
        &[0x47, 0x0f, 0xb7, 0x04, 0x41],             // movzx r8d, word [r9 + 2 * r8]
        &[0x41, 0xc1, 0xe8, shift],                  // shr   r8d, shift
        &[0x25, mask[0], mask[1], mask[2], mask[3]], // and   eax, mask
        &[0x44, 0x39, 0xc0],                         // cmp   eax, r8d
        &[0x41, 0x59, 0x41, 0x58, 0x58],             // pop   r9, r8, rax
        &[0x73, 0x01],                               // jae   + 1
        &[0xc3],                                     // ret
        &[0xe9],                                     // jmp
    ];
    code.concat()
}

/// The same in shared memory.
#[rustfmt::skip]
fn shared_check(shift: u8) -> Vec<u8> {
    let size = offset::SHARED_SIZE.to_le_bytes();
    let code: [&[u8]; 12] = [
        &[0x50],                        // push rax
        &[0x41, 0x50],                  // push r8
        &[0x4c, 0x8b, 0x45, CONTEXT],   // mov  r8, [rbp + context]
        &[0x4d, 0x8b, 0x80], &size,     // mov  r8, [r8 + size]
        &[0x49, 0xc1, 0xe8, shift],     // shr  r8, shift
        &[0x48, 0x89, 0xf8],            // mov  rax, rdi
        &[0x48, 0xc1, 0xc8, shift],     // ror  rax, shift
        &[0x4c, 0x39, 0xc0],            // cmp  rax, r8
        &[0x41, 0x58, 0x58],            // pop  r8, rax
        &[0x73, 0x01, 0xc3],            // jae  + 1; ret
        &[0xe9],                        // jmp
    ];
    code.concat()
}
