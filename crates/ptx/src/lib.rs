//! The PTX language: lexer, parser, syntax tree, checker and printer.

#![forbid(unsafe_code)]

pub mod ast;
mod bytes;
mod check;
pub mod diagnostic;
#[cfg(feature = "digest")]
mod digest;
pub mod explanation;
mod features;
pub mod isa;
pub mod line_table;
mod name_map;
pub mod names;
mod parse;
pub mod printer;
mod requirements;
pub mod scope;
pub mod signature;
pub mod slice;
mod text;
mod threads;
mod token;
pub mod version;

pub use check::resolution;
pub use check::{
    CheckOptions, Level, Reference, check, check_bodies, check_into, check_parallel, check_with,
    is_surely_valid, references,
};
pub use diagnostic::{Diagnostic, Diagnostics};
#[cfg(feature = "digest")]
pub use digest::Digest;
pub use name_map::{NameMap, Seed};
pub use parse::{
    Bodies, Reading, read, read_head, read_into, read_outline, read_parallel, skip_comments,
};
pub use text::{NotPtx, Ptx, text_of};

/// A hash of this crate's sources, for the keys of what a cache keeps of reading PTX.
#[doc(hidden)]
pub const SOURCES: &str = env!("PTXKIT_PTX_SOURCES");
