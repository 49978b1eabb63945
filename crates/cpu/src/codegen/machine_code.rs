//! From a finished function to its machine code.

use cranelift_codegen::Context;
use cranelift_codegen::binemit::Reloc;
use cranelift_codegen::control::ControlPlane;
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

/// Compiles the function in `context`.
pub(super) fn machine_code(
    context: &mut Context,
    isa: &OwnedTargetIsa,
) -> Result<MachineCode, String> {
    let compiled = context
        .compile(&**isa, &mut ControlPlane::default())
        .map_err(|e| format!("Cranelift cannot compile the function: {:?}", e.inner))?;
    let thunk_calls = compiled.buffer.relocs().iter().map(|reloc| {
        // The only direct calls are those of the slow-path thunk.
        if reloc.kind == Reloc::X86CallPCRel4 && reloc.addend == -4 {
            Ok(reloc.offset)
        } else {
            Err(format!(
                "the function has an unsupported relocation ({:?})",
                reloc.kind
            ))
        }
    });
    let thunk_calls = thunk_calls.collect::<Result<_, _>>()?;
    Ok(MachineCode {
        bytes: compiled.code_buffer().to_vec(),
        thunk_calls,
    })
}
