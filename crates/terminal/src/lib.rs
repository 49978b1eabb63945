//! What the programs share: the files of folders, results, differences and failures.

#![forbid(unsafe_code)]

pub mod diff;
pub mod failure;
pub mod output;
pub mod shell;
pub mod walk;
