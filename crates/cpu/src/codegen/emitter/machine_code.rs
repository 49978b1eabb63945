//! From a finished function to its machine code.

use crate::codegen::compiler_contexts::CompilerContexts;
use cranelift_codegen::FinalizedRelocTarget;
use cranelift_codegen::binemit::Reloc;
use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::ir::{ExternalName, UserExternalName};
use cranelift_codegen::isa::OwnedTargetIsa;

/// Machine code of one function.
#[derive(Clone, Debug, Default)]
pub(crate) struct MachineCode {
    pub bytes: Vec<u8>,
    /// The calls of the thunks at the start of the blob: the offset of the 4-byte displacement,
    /// which is relative to its end, and the offset of the thunk in the blob.
    pub thunk_calls: Vec<(u32, u32)>,
    /// What the processor must have besides the [features](crate::processor::features).
    pub feature: Option<&'static str>,
}

/// What is encoded here of a kernel's code.
#[derive(Default)]
pub(in crate::codegen) struct Encoded {
    /// What stands in front of Cranelift's function, which it calls. It is as long as some cache lines.
    pub front: Vec<u8>,
    /// What checks accesses, by the names of the function's calls.
    pub checks: Vec<Check>,
}

/// A check of an access, behind the function.
pub(in crate::codegen) struct Check {
    /// Where the thunk is that it calls.
    pub thunk: u32,
    /// The line and the [`Access`](crate::abi::Access), as `check_access` takes them.
    pub access: u64,
}

/// Compiles the function in the contexts, and puts what is encoded around it.
pub(in crate::codegen) fn machine_code(
    contexts: &mut CompilerContexts,
    isa: &OwnedTargetIsa,
    encoded: &Encoded,
) -> Result<MachineCode, String> {
    let context = &mut contexts.context;
    let front = encoded.front.len() as u32;
    let compiled = context
        .compile(&**isa, &mut ControlPlane::default())
        .map_err(|e| format!("Cranelift cannot compile the function: {:?}", e.inner))?;
    let mut calls = Vec::new();
    for reloc in compiled.buffer.relocs() {
        // The only direct calls are those of the thunks and of checks.
        match (&reloc.target, reloc.kind, reloc.addend) {
            (
                &FinalizedRelocTarget::ExternalName(ExternalName::User(name)),
                Reloc::X86CallPCRel4,
                -4,
            ) => calls.push((front + reloc.offset, name)),
            _ => {
                return Err(format!(
                    "the function has an unsupported relocation ({:?})",
                    reloc.kind
                ));
            }
        }
    }
    let mut bytes = [&encoded.front, compiled.code_buffer()].concat();
    let mut thunk_calls = Vec::with_capacity(encoded.checks.len());
    bytes.resize(bytes.len().next_multiple_of(CHECK), 0);
    let checks = bytes.len();
    for check in &encoded.checks {
        thunk_calls.push((bytes.len() as u32 + 1, check.thunk));
        // call the thunk; ret
        bytes.extend([0xe8, 0, 0, 0, 0, 0xc3, 0, 0]);
        bytes.extend(check.access.to_le_bytes());
    }
    for (offset, name) in calls {
        let name = &context.func.params.user_named_funcs()[name];
        let number = name.index as usize;
        let start = match name.namespace {
            THUNKS => {
                thunk_calls.push((offset, name.index));
                continue;
            }
            _ => checks + number * CHECK,
        };
        let at = offset as usize;
        let distance = start as i64 - (at as i64 + 4);
        bytes[at..at + 4].copy_from_slice(&(distance as i32).to_le_bytes());
    }
    Ok(MachineCode {
        bytes,
        thunk_calls,
        feature: None,
    })
}

/// The alignment of functions.
pub(in crate::codegen) const CACHE_LINE: usize = 64;

/// The namespaces of functions that a function calls.
const THUNKS: u32 = 0;
const CHECKS: u32 = 1;

/// The bytes of a check: a call of 5, the return, and behind 2 unused ones the access.
const CHECK: usize = 16;

/// Bytes from where the thunk returns to in a check to the access.
pub(in crate::codegen) const CHECK_ACCESS: u8 = 3;

/// The name of the thunk at this offset of the blob.
pub(in crate::codegen) fn thunk_name(offset: u32) -> UserExternalName {
    UserExternalName::new(THUNKS, offset)
}

/// The name of a check, by its number.
pub(in crate::codegen) fn check_name(number: u32) -> UserExternalName {
    UserExternalName::new(CHECKS, number)
}
