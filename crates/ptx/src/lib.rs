//! The PTX language: text → tokens → tree, and what can be said of the tree.

#![forbid(unsafe_code)]

pub mod ast;
mod check;
pub mod dependence;
pub mod diagnostic;
#[cfg(feature = "digest")]
mod digest;
pub mod explanation;
mod features;
pub mod isa;
pub mod names;
mod needs;
mod parse;
pub mod printer;
pub mod signature;
mod text;
mod token;
pub mod version;

pub use check::{CheckOptions, Level, NameMap, Seed, check, check_into, check_with};
pub use diagnostic::{Diagnostic, Diagnostics};
#[cfg(feature = "digest")]
pub use digest::Digest;
pub use parse::{Reading, behind_comments, read, read_head, read_into};
pub use text::{NotPtx, Ptx, text_of};
