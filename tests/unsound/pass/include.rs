//! A path is relative to the file that it is written in: digest and bytes are of the same file.
#![forbid(unsafe_code)]

#[macro_use]
#[path = "../aux/included.rs"]
mod included;

pub const PTX: ptxkit::loader::Source<'static> = included!();

fn main() {}
