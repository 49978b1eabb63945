//! The compiler for vectors of x86-64: a group of 16 threads, or a warp of 32, runs as lanes of vectors,
//! and lanes that do not take a branch are masked.
//!
//! ```text
//! program → divergence → lower → builder (SSA) → numbering → allocate (regalloc2) → emit → assembler
//! ```
//!
//! Everything up to `numbering` is in terms of AVX-512. For processors without it, `avx2` makes pairs of
//! vectors of 256 bits of all vectors and masks.

mod allocate;
mod assembler;
mod avx2;
mod builder;
mod display;
mod divergence;
mod emit;
mod isa;
mod known_bits;
mod lower;
mod machine;
mod numbering;
mod opcodes;
mod packed_registers;
mod result_shape;
mod shape;
mod span;
mod suspension;
mod verify;

pub(crate) use isa::Isa;
pub(crate) use suspension::{ResumePlace, Suspension};

use crate::dump::{self, Stage};
use crate::program::Program;

#[cfg(test)]
thread_local! {
    /// The vectors for which kernels of this thread's tests are compiled here.
    pub(crate) static IN_TESTS: std::cell::Cell<Option<Isa>> = const { std::cell::Cell::new(None) };
}

/// The most steps of a kernel that is compiled so, and the most instructions of its code.
const MAX_STEPS: usize = 4096;
const MAX_INSTRUCTIONS: usize = 60_000;

/// The most slots of 8 bytes for values that have no register: the stack of a thread has room for more.
const MAX_SLOTS: usize = 16 << 10;

/// The code of a kernel.
pub(crate) struct Compiled {
    pub bytes: Vec<u8>,
    /// The size of a group's packed registers.
    pub packed_bytes: u32,
}

/// The machine code of a kernel that runs `width` threads at a time, or the reason why there is none.
pub(crate) fn compile(
    program: &Program<'_>,
    suspension: &Suspension,
    width: usize,
    isa: Isa,
) -> Result<Compiled, String> {
    let steps: usize = program.blocks.iter().map(|block| block.steps.len()).sum();
    if steps > MAX_STEPS {
        return Err("it is too large".to_owned());
    }
    let code =
        lower::lower(program, suspension, width, isa).map_err(|what| format!("it has {what}"))?;
    let blocks = code.layout.iter();
    let instructions = blocks.map(|block| code.blocks[block.0 as usize].instructions.len());
    if instructions.sum::<usize>() > MAX_INSTRUCTIONS {
        return Err("its code is too large".to_owned());
    }
    let code = match isa {
        Isa::Avx512 => code,
        Isa::Avx2 => avx2::legalize(code).map_err(|_| "it has instructions of AVX-512")?,
    };
    dump::show(Stage::Simd, program.name, "simd", &code);
    let allocated = allocate::allocate(&code).map_err(|error| format!("no registers: {error}"))?;
    if allocated.num_spillslots > MAX_SLOTS {
        return Err("its values take too much of the stack".to_owned());
    }
    Ok(Compiled {
        bytes: emit::machine_code(&code, &allocated),
        packed_bytes: code.packed_bytes,
    })
}
