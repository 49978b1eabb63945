//! What the two programs share.

pub mod element;
pub mod expect;
pub mod formula;
pub mod pattern;
pub mod sample;
