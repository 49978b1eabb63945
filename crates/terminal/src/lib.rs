//! What the programs print: results on standard output, failures on standard error.

pub mod failure;
pub mod output;
