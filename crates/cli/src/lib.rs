//! The program `ptxkit`: runs, assembles, inspects and explains PTX, and maintains the compute
//! cache.

#![deny(unsafe_code)]

pub mod argument;
pub mod assemble;
pub mod bench;
pub mod cache;
pub mod command;
pub mod compiler;
pub mod devices;
pub mod diff;
pub mod driver_version;
pub mod element;
pub mod errors;
pub mod exec;
pub mod expect;
pub mod explain;
pub mod extract;
pub mod fmt;
pub mod formula;
pub mod inspect;
pub mod instrument;
pub mod isa;
pub mod isolate;
pub mod launch;
pub mod log;
pub mod mapped;
pub mod markup;
pub mod matching;
pub mod nvptxcompiler;
pub mod occupancy;
pub mod pack;
pub mod pattern;
pub mod progress;
pub mod ptxas;
pub mod ptxas_cache;
pub mod quantity;
mod random;
pub mod report;
pub mod run;
pub mod sample;
pub mod top;
pub mod trace;
pub mod written;
