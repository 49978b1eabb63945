//! What the programs print: results on standard output, failures on standard error.

#![forbid(unsafe_code)]

pub mod failure;
pub mod output;
