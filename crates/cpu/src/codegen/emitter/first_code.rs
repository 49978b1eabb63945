//! A kernel's first code, which is compiled fast: what surrounds the function is encoded here.
//!
//! Cranelift compiles what one thread does, from its start or a resume point on. In front of that
//! stands the loop over threads, which also advances `%tid`. An access calls a check of its own behind
//! the function: that calls the thunk for its size, and has what the slow path is to know of the access.
//! So the call takes the address alone. Where there is a fault, the thunk does not return: it unwinds
//! the function. So an access ends no basic block, which saves the register allocator most of its work.
//!
//! All this is for x86-64 and System V, as the thunks are.

use cranelift_codegen::ir::{AbiParam, Block, SigRef, Signature, Value, types};
use cranelift_codegen::isa::CallConv;
use cranelift_frontend::FunctionBuilder;

use super::machine_code::CACHE_LINE;
use super::thunks::{CheckThunks, RETURN};
use crate::abi::offset;

/// What the emitter of first code has of its own.
pub(in crate::codegen) struct FirstCode {
    pub thunks: CheckThunks,
    /// Of checks.
    pub signature: SigRef,
    /// The address of the parameters, and the block that has loaded it.
    pub params: Option<(Block, Value)>,
}

impl FirstCode {
    pub fn new(thunks: CheckThunks, b: &mut FunctionBuilder<'_>) -> FirstCode {
        let mut signature = Signature::new(CallConv::PreserveAll);
        signature.params.push(AbiParam::new(types::I64));
        FirstCode {
            thunks,
            signature: b.import_signature(signature),
            params: None,
        }
    }
}

/// The parameters of the function: the context and the thread. It returns 0, or 1 after a fault.
pub(in crate::codegen) fn signature(convention: CallConv) -> Signature {
    let mut signature = Signature::new(convention);
    signature
        .params
        .extend([types::I64, types::I32].map(AbiParam::new));
    signature.returns.push(AbiParam::new(types::I32));
    signature
}

/// The loop over threads, which calls the function behind it. `used` says which components of `%tid`
/// the function reads. On the stack are the registers that [`RETURN`] restores, which the context
/// points to, and the context, which checks find there by the function's frame pointer.
#[rustfmt::skip]
pub(in crate::codegen) fn thread_loop(used: [bool; 3]) -> Vec<u8> {
    let stack = offset::UNWIND_STACK.to_le_bytes();
    let thread = offset::CHECK_THREAD.to_le_bytes();
    let axes = used.iter().rposition(|&used| used).map_or(0, |last| last as i32 + 1);
    let axes = || (0..axes).map(|axis| [offset::TID, offset::BLOCK_DIM].map(|at| (at + 4 * axis).to_le_bytes()));

    let mut code = [
        &[0x55, 0x53][..],                                 // push rbp, rbx
        &[0x41, 0x54, 0x41, 0x55, 0x41, 0x56, 0x41, 0x57], // push r12, r13, r14, r15
        &[0x48, 0x89, 0xa7], &stack,                       // mov  [rdi + stack], rsp
        &[0x57],                                           // push rdi
        &[0x48, 0x89, 0xfb],                               // mov  rbx, rdi
        &[0x41, 0x89, 0xf4],                               // mov  r12d, esi
        &[0x41, 0x89, 0xd5],                               // mov  r13d, edx
        &[0x31, 0xc0],                                     // xor  eax, eax
        &[0x45, 0x39, 0xec],                               // cmp  r12d, r13d
        &[0x0f, 0x83],                                     // jae  end
    ].concat();
    let mut to_end = vec![code.len()];
    code.extend([0; 4]);
    code.extend([0x89, 0xf0]);                             // mov  eax, esi
    for [tid, size] in axes() {
        // Of a block with threads no size is zero.
        code.extend([0x31, 0xd2, 0xf7, 0xb7]);             // xor  edx, edx
        code.extend(size);                                 // div  dword [rdi + size]
        code.extend([0x89, 0x97]);
        code.extend(tid);                                  // mov  [rdi + tid], edx
    }
    let head = code.len();
    code.extend([0x44, 0x89, 0xa3]);
    code.extend(thread);                                   // mov  [rbx + thread], r12d
    code.extend([0x48, 0x89, 0xdf]);                       // mov  rdi, rbx
    code.extend([0x44, 0x89, 0xe6]);                       // mov  esi, r12d
    code.push(0xe8);                                       // call the function
    let to_function = code.len();
    code.extend([0; 4]);
    code.extend([0x85, 0xc0, 0x0f, 0x85]);                 // test eax, eax; jnz end
    to_end.push(code.len());
    code.extend([0; 4]);
    code.extend([0x41, 0xff, 0xc4]);                       // inc  r12d
    code.extend([0x45, 0x39, 0xec, 0x0f, 0x83]);           // cmp  r12d, r13d; jae end
    to_end.push(code.len());
    code.extend([0; 4]);
    let mut to_head = Vec::new();
    for [tid, size] in axes() {
        code.extend([0x8b, 0x8b]);
        code.extend(tid);                                  // mov  ecx, [rbx + tid]
        code.extend([0xff, 0xc1, 0x89, 0x8b]);             // inc  ecx
        code.extend(tid);                                  // mov  [rbx + tid], ecx
        code.extend([0x3b, 0x8b]);
        code.extend(size);                                 // cmp  ecx, [rbx + size]
        code.extend([0x0f, 0x85]);                         // jne  head
        to_head.push(code.len());
        code.extend([0; 4]);
        code.extend([0x89, 0x83]);
        code.extend(tid);                                  // mov  [rbx + tid], eax, which is 0
    }
    code.push(0xe9);                                       // jmp  head
    to_head.push(code.len());
    code.extend([0; 4]);
    let end = code.len();
    code.push(0x59);                                       // pop  rcx
    code.extend(RETURN);
    let function = code.len().next_multiple_of(CACHE_LINE);
    code.resize(function, 0);

    let targets = [(to_end, end), (to_head, head), (vec![to_function], function)];
    for (places, target) in targets {
        for at in places {
            let distance = target as i32 - (at as i32 + 4);
            code[at..at + 4].copy_from_slice(&distance.to_le_bytes());
        }
    }
    code
}
