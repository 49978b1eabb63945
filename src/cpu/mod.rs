//! The CPU device: a driver of its own behind the same table of entry points.

pub mod blob;
pub mod block;
mod compile;
pub mod math;
pub mod run;

pub use compile::{CompileError, CompileErrorKind, CompileOptions, Problem, compile};
