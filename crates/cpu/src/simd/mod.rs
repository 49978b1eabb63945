//! The compiler for processors with AVX-512: a group of 16 threads, or a warp of 32, runs as lanes of
//! vectors, and lanes that do not take a branch are masked.
//!
//! ```text
//! program → divergence → lower → builder (SSA) → numbering → allocate (regalloc2) → emit → assembler
//! ```

mod allocate;
mod assembler;
mod builder;
mod divergence;
mod emit;
mod lower;
mod machine;
mod numbering;
mod opcodes;
mod result_shape;
mod shape;
mod suspension;

pub(crate) use suspension::{ResumePlace, Suspension};

use crate::program::Program;

#[cfg(test)]
thread_local! {
    /// Whether kernels of this thread's tests are compiled here: by default they are for processors
    /// without AVX-512, wherever the tests run.
    pub(crate) static IN_TESTS: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// The most steps of a kernel that is compiled so, and the most instructions of its code.
const MAX_STEPS: usize = 4096;
const MAX_INSTRUCTIONS: usize = 60_000;

/// The most slots of 8 bytes for values that have no register: the stack of a thread has room for more.
const MAX_SLOTS: usize = 16 << 10;

/// The machine code of a kernel that runs `width` threads at a time, or the reason why there is none.
pub(crate) fn compile(
    program: &Program<'_>,
    suspension: &Suspension,
    width: usize,
) -> Result<Vec<u8>, String> {
    let steps: usize = program.blocks.iter().map(|block| block.steps.len()).sum();
    if steps > MAX_STEPS {
        return Err("it is too large".to_owned());
    }
    let code = lower::lower(program, suspension, width).map_err(|what| format!("it has {what}"))?;
    let blocks = code.layout.iter();
    let instructions = blocks.map(|block| code.blocks[block.0 as usize].instructions.len());
    if instructions.sum::<usize>() > MAX_INSTRUCTIONS {
        return Err("its code is too large".to_owned());
    }
    let allocated = allocate::allocate(&code).map_err(|error| format!("no registers: {error}"))?;
    if allocated.num_spillslots > MAX_SLOTS {
        return Err("its values take too much of the stack".to_owned());
    }
    Ok(emit::machine_code(&code, &allocated))
}
