//! The PTX language: text → tokens → tree, and what can be said of the tree.

pub mod ast;
pub mod names;
