//! What the two programs share.

pub mod argument;
pub mod cache;
pub mod check;
pub mod choose;
pub mod command;
pub mod devices;
pub mod element;
pub mod expect;
pub mod explain;
pub mod extract;
pub mod failure;
pub mod fmt;
pub mod formula;
pub mod inspect;
pub mod isa;
pub mod isolate;
pub mod launch;
pub mod mapped;
pub mod matching;
pub mod pattern;
pub mod report;
pub mod run;
pub mod sample;
pub mod trace;
