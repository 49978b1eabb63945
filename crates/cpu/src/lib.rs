//! The CPU device: a driver of its own behind the same table of entry points.
//!
//! Public are the table, the compiler and its options. What the device is made
//! of stays private: a program that could fill in a code image, or open a range
//! of addresses to kernels, would reach all of its own memory.

#![allow(unsafe_code)]

mod blob;
mod block;
mod code;
mod codegen;
mod compile;
mod entries;
mod heap;
mod hot;
mod math;
mod memory;
mod merge;
mod print;
mod program;
mod run;
mod setting;
#[cfg(test)]
mod tests;
mod texture;

/// The newest PTX that the device reads. What it cannot run of it, it refuses
/// by name.
pub const NEWEST_PTX: ptx::ast::Version = ptx::ast::Version { major: 9, minor: 5 };

pub use compile::{CompileError, CompileErrorKind, CompileOptions, Lanes, Problem, compile};
pub use entries::table;

/// A hash of the compiler's sources, for what is found by the compiler's identity.
pub const COMPILER_SOURCES: &str = env!("PTXKIT_COMPILER_SOURCES");
