//! The CPU device: it implements the table of CUDA driver entries on the host's processor.
//!
//! Public are the table, the compiler and its options, what faults say of lines, and where the
//! code of hot kernels is kept. The rest is private: a program that could fill in a code image,
//! or register a range of addresses for kernels, would reach all of its own memory.

#![allow(unsafe_code)]

mod abi;
mod access;
mod blob;
mod code;
mod code_store;
mod codegen;
mod compile;
mod dump;
mod entries;
mod executable;
mod grid_workspace;
mod heap;
mod lines;
mod math;
mod matrix;
mod memory;
mod merge;
mod module;
mod nan;
pub mod observe;
mod optimization;
mod print;
mod processor;
mod program;
mod read_past;
mod run;
mod runtime;
mod sanitizer;
mod setting;
mod shuffle;
mod simd;
mod source;
mod state;
mod tensor_map;
mod tensor_memory;
#[cfg(test)]
mod tests;
mod texture;
mod tier_up;

pub use abi::FaultKind;
pub use code_store::{CodeStore, Variant, with_text};
pub use codegen::Vectorization;
pub use compile::{CompileError, CompileErrorKind, CompileOptions, NEWEST_PTX, Problem};
pub use entries::table;
pub use heap::Caller;
pub use nan::NanBits;
#[doc(hidden)]
pub use processor::processor_features;
pub use run::{Fault, FaultAccess, FaultAllocation, RacingAccess, last_fault};
pub use sanitizer::{Checks, ChecksInUse};
#[doc(hidden)]
pub use source::compile_hot;
pub use source::{check, compile};
pub use state::module::{set_code_store, set_original_lines};
#[doc(hidden)]
pub use state::user_pointer::may_be_memory;

/// Hashes of the compiler's sources and of the analyses that it relies on, for cache keys that
/// contain the compiler's identity.
pub const COMPILER_SOURCES: [&str; 2] = [env!("PTXKIT_COMPILER_SOURCES"), analysis::SOURCES];
