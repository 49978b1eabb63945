//! What the two programs share.

pub mod argument;
pub mod cache;
pub mod check;
pub mod command;
pub mod devices;
pub mod element;
pub mod expect;
pub mod explain;
pub mod failure;
pub mod fmt;
pub mod formula;
pub mod isa;
pub mod isolate;
pub mod launch;
pub mod matching;
pub mod pattern;
pub mod report;
pub mod run;
pub mod sample;
pub mod trace;
