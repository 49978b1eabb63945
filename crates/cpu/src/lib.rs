//! The CPU device: a driver of its own behind the same table of entry points.

pub mod entries;
pub mod blob;
pub mod block;
pub mod code;
mod codegen;
mod compile;
pub mod heap;
mod hot;
pub mod math;
pub mod memory;
mod merge;
pub mod print;
mod program;
pub mod run;
mod texture;

/// The newest PTX that the device reads. What it cannot run of it, it refuses
/// by name.
pub const NEWEST_PTX: ptx::ast::Version = ptx::ast::Version { major: 9, minor: 5 };

pub use compile::{CompileError, CompileErrorKind, CompileOptions, Lanes, Problem, compile};
