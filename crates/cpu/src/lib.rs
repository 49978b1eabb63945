//! The CPU device: a driver of its own behind the same table of entry points.

#![allow(unsafe_code)]

pub mod blob;
pub mod block;
pub mod code;
mod codegen;
mod compile;
pub mod entries;
pub mod heap;
mod hot;
pub mod math;
pub mod memory;
mod merge;
pub mod print;
mod program;
pub mod run;
mod state;
mod texture;

/// The newest PTX that the device reads. What it cannot run of it, it refuses
/// by name.
pub const NEWEST_PTX: ptx::ast::Version = ptx::ast::Version { major: 9, minor: 5 };

pub use compile::{CompileError, CompileErrorKind, CompileOptions, Lanes, Problem, compile};

/// A hash of the compiler's sources, for what is found by the compiler's identity.
pub const COMPILER_SOURCES: &str = env!("PTXKIT_COMPILER_SOURCES");
