//! The PTX language: text → tokens → tree, and what can be said of the tree.

pub mod ast;
mod check;
pub mod diagnostic;
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

pub(crate) use check::NameMap;
pub use check::{CheckOptions, Level, check, check_with};
pub use diagnostic::{Diagnostic, Diagnostics};
pub use parse::{Reading, read};
pub(crate) use parse::{behind_comments, read_head};
pub use text::{NotPtx, Ptx, text_of};
