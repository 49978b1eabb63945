//! The CPU device: it implements the table of CUDA driver entries on the host's processor.
//!
//! Public are the table, the compiler and its options, and what faults say of lines. The rest is private: a program that
//! could fill in a code image, or register a range of addresses for kernels, would reach all
//! of its own memory.

#![allow(unsafe_code)]

mod abi;
mod blob;
mod code;
mod codegen;
mod compile;
mod entries;
mod executable;
mod grid_workspace;
mod heap;
mod math;
mod matrix;
mod memory;
mod merge;
mod module;
mod print;
mod processor;
mod program;
mod run;
mod runtime;
mod setting;
mod source;
mod state;
mod tensor_map;
#[cfg(test)]
mod tests;
mod texture;
mod tier_up;

pub use codegen::Vectorization;
pub use compile::{CompileError, CompileErrorKind, CompileOptions, NEWEST_PTX, Problem};
pub use entries::table;
pub use run::{LaunchObserver, observe_launches};
pub use source::{check, compile};
pub use state::module::set_original_lines;

/// Hashes of the compiler's sources and of the analyses that it relies on, for cache keys that
/// contain the compiler's identity.
pub const COMPILER_SOURCES: [&str; 2] = [env!("PTXKIT_COMPILER_SOURCES"), analysis::SOURCES];
