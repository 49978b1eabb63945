//! The PTX language: text → tokens → tree, and what can be said of the tree.

pub mod ast;
pub mod diagnostic;
pub mod names;
mod parse;
pub mod signature;
mod text;
mod token;

pub use diagnostic::{Diagnostic, Diagnostics};
pub use parse::{Reading, read};
pub use text::{NotPtx, Ptx};
