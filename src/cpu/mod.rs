//! The CPU device: a driver of its own behind the same table of entry points.

pub mod api;
pub mod blob;
pub mod block;
pub mod code;
mod codegen;
mod compile;
pub mod heap;
mod hot;
pub mod math;
pub mod memory;
pub mod print;
mod program;
pub mod run;

pub use compile::{CompileError, CompileErrorKind, CompileOptions, Lanes, Problem, compile};
