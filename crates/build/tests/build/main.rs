//! Modules that are built, and modules that are edited.

mod edits;
mod errors;
mod programs;
mod random;
mod text;
