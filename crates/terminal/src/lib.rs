//! Shared by the programs: directory traversal, output, diffs and errors.

#![forbid(unsafe_code)]

pub mod diff;
pub mod failure;
pub mod output;
pub mod shell;
pub mod walk;
