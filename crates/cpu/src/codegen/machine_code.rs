//! From a finished function to its machine code.

use cranelift_codegen::Context;
use cranelift_codegen::FinalizedRelocTarget;
use cranelift_codegen::binemit::Reloc;
use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::ir::{ExternalName, UserExternalName};
use cranelift_codegen::isa::OwnedTargetIsa;
use cranelift_frontend::FunctionBuilderContext;

/// Machine code of one function.
#[derive(Clone, Debug, Default)]
pub(crate) struct MachineCode {
    pub bytes: Vec<u8>,
    /// Offsets of the calls' 4-byte displacements to the slow-path thunk, which are
    /// relative to the end of the displacement.
    pub thunk_calls: Vec<u32>,
}

/// Cranelift's contexts, which keep their allocations from function to function.
pub(crate) struct CompilerContexts {
    pub context: Context,
    pub builder: FunctionBuilderContext,
}

impl Default for CompilerContexts {
    fn default() -> CompilerContexts {
        CompilerContexts {
            context: Context::new(),
            builder: FunctionBuilderContext::new(),
        }
    }
}

/// Compiles the function in `context`, and puts the functions of loops that it calls behind it.
pub(super) fn machine_code(
    context: &mut Context,
    isa: &OwnedTargetIsa,
    wide_loops: &[Vec<u8>],
) -> Result<MachineCode, String> {
    let compiled = context
        .compile(&**isa, &mut ControlPlane::default())
        .map_err(|e| format!("Cranelift cannot compile the function: {:?}", e.inner))?;
    let mut calls = Vec::new();
    for reloc in compiled.buffer.relocs() {
        // The only direct calls are those of the slow-path thunk and of these loops.
        match (&reloc.target, reloc.kind, reloc.addend) {
            (
                &FinalizedRelocTarget::ExternalName(ExternalName::User(name)),
                Reloc::X86CallPCRel4,
                -4,
            ) => calls.push((reloc.offset, name)),
            _ => {
                return Err(format!(
                    "the function has an unsupported relocation ({:?})",
                    reloc.kind
                ));
            }
        }
    }
    let mut bytes = compiled.code_buffer().to_vec();
    let mut starts = Vec::new();
    for code in wide_loops {
        bytes.resize(bytes.len().next_multiple_of(CACHE_LINE), 0);
        starts.push(bytes.len());
        bytes.extend_from_slice(code);
    }
    let mut thunk_calls = Vec::new();
    for (offset, name) in calls {
        let number = context.func.params.user_named_funcs()[name].index;
        let Some(number) = wide_loop_of(number) else {
            thunk_calls.push(offset);
            continue;
        };
        let start = starts
            .get(number)
            .ok_or("the function calls an unknown loop")?;
        let at = offset as usize;
        let distance = *start as i64 - (at as i64 + 4);
        bytes[at..at + 4].copy_from_slice(&(distance as i32).to_le_bytes());
    }
    Ok(MachineCode { bytes, thunk_calls })
}

/// The alignment of functions, and so of the loops behind them.
const CACHE_LINE: usize = 64;

/// The name of the thunk in a function.
pub(super) fn thunk_name() -> UserExternalName {
    UserExternalName::new(0, 0)
}

/// The name of a loop's function, by its number.
pub(super) fn wide_loop_name(number: usize) -> UserExternalName {
    UserExternalName::new(0, number as u32 + 1)
}

fn wide_loop_of(name: u32) -> Option<usize> {
    name.checked_sub(1).map(|number| number as usize)
}
