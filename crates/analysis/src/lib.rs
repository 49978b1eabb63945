//! What a linter and a compiler of PTX both ask of a function: its control-flow graph,
//! and how its values depend on the thread.

#![forbid(unsafe_code)]

pub mod control_flow;
pub mod dependence;

/// A hash of this crate's sources, for the keys of what a cache keeps of compiling PTX.
#[doc(hidden)]
pub const SOURCES: &str = env!("PTXKIT_ANALYSIS_SOURCES");
