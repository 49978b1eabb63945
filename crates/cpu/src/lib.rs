//! The CPU device: it implements the table of CUDA driver entries on the host's processor.

#![allow(unsafe_code)]

pub mod abi;
pub mod blob;
mod codegen;
mod compile;
pub mod entries;
pub mod heap;
pub mod math;
pub mod memory;
mod merge;
pub mod module;
pub mod print;
mod program;
pub mod run;
mod texture;
mod tier_up;

/// The newest PTX version that the device reads. Instructions that it does not support are
/// errors that name them.
pub const NEWEST_PTX: ptx::ast::Version = ptx::ast::Version { major: 9, minor: 5 };

pub use compile::{
    CompileError, CompileErrorKind, CompileOptions, Problem, Vectorization, compile,
};

/// A hash of the compiler's sources, for cache keys that contain the compiler's identity.
pub const COMPILER_SOURCES: &str = env!("PTXKIT_COMPILER_SOURCES");
